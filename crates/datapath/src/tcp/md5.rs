//! TCP MD5 signatures (RFC 2385): a digest over addresses, header and payload with a key that both
//! ends know (`tcp_md5_hash_skb`). A payload that is only a length is zeroes.

use super::{Connection, Cx};
use crate::packet::option_kind as kind;
use crate::packet::options::{MAX_OPTION_SPACE, RawOptions, TcpOption};
use crate::packet::{Body, Network, Packet, Tcp};
use core::net::IpAddr;

/// A piece of the payload.
const ZEROES: [u8; 1_024] = [0; 1_024];
/// Bytes of the option with two NOPs in front (`TCPOLEN_MD5SIG_ALIGNED`).
pub const OPTION_LEN: u32 = 20;

/// A key for some peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The peers' network.
    pub network: IpAddr,
    /// Bits of it that must agree.
    pub prefix_len: u8,
    /// The secret: up to 80 bytes.
    pub secret: Vec<u8>,
}

/// Why a segment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A key is set, and the segment is not signed.
    NotFound,
    /// No key is set, and the segment is signed.
    Unexpected,
    /// The signature is wrong.
    Failure,
    /// It is signed by RFC 5925, for which there are no keys here.
    AoKeyNotFound,
    /// It is signed in two ways at once.
    TwoSignatures,
}

impl Key {
    /// Whether it is for `peer`.
    fn covers(&self, peer: IpAddr) -> bool {
        let bits = u32::from(self.prefix_len);
        match (self.network, peer) {
            (IpAddr::V4(network), IpAddr::V4(peer)) => {
                (network.to_bits() ^ peer.to_bits()).leading_zeros() >= bits
            }
            (IpAddr::V6(network), IpAddr::V6(peer)) => {
                (network.to_bits() ^ peer.to_bits()).leading_zeros() >= bits
            }
            _ => false,
        }
    }
}

/// The key for `peer`: the one with the longest prefix (`tcp_md5_do_lookup`).
pub fn key_for(keys: &[Key], peer: IpAddr) -> Option<&Key> {
    keys.iter().filter(|key| key.covers(peer)).max_by_key(|key| key.prefix_len)
}

/// The signature that a segment has to carry. The options do not count, nor does the checksum.
pub fn digest(
    network: &Network,
    tcp: &Tcp,
    header_len: u32,
    payload: &Body,
    key: &Key,
) -> [u8; 16] {
    let mut context = ::md5::Context::new();
    let segment_len = header_len + payload.len;
    match network {
        Network::Ipv4(ip) => {
            context.consume(ip.src.octets());
            context.consume(ip.dst.octets());
            context.consume([0, ip.protocol]);
            context.consume((segment_len as u16).to_be_bytes());
        }
        Network::Ipv6(ip) => {
            context.consume(ip.src.octets());
            context.consume(ip.dst.octets());
            context.consume(segment_len.to_be_bytes());
            context.consume([0, 0, 0, ip.next_header]);
        }
        Network::Other(_) => {}
    }
    context.consume(tcp.src_port.to_be_bytes());
    context.consume(tcp.dst_port.to_be_bytes());
    context.consume(tcp.seq.0.to_be_bytes());
    context.consume(tcp.ack.0.to_be_bytes());
    let offset_and_flags = (header_len / 4) << 12 | u32::from(tcp.flags.0 & 0x1ff);
    context.consume((offset_and_flags as u16).to_be_bytes());
    context.consume(tcp.window.to_be_bytes());
    context.consume([0, 0]);
    context.consume(tcp.urgent.to_be_bytes());
    let bytes = payload.bytes();
    context.consume(bytes);
    let mut left = payload.len as usize - bytes.len();
    while left > 0 {
        let now = left.min(ZEROES.len());
        context.consume(&ZEROES[..now]);
        left -= now;
    }
    context.consume(&key.secret);
    context.finalize().0
}

/// Whether a segment may pass (`tcp_inbound_md5_hash`).
///
/// # Errors
/// Why not.
pub fn inspect(keys: &[Key], packet: &Packet) -> Result<(), Refusal> {
    let (Some(tcp), Some(peer)) = (packet.tcp(), packet.network.src()) else { return Ok(()) };
    let key = key_for(keys, peer);
    let signature = signature_of(packet);
    if has_authentication(packet) {
        let both = signature.is_some();
        return Err(if both { Refusal::TwoSignatures } else { Refusal::AoKeyNotFound });
    }
    match (key, signature) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Refusal::Unexpected),
        (Some(_), None) => Err(Refusal::NotFound),
        (Some(key), Some(signature)) => {
            let header_len = packet.header_len() - packet.link.len() - packet.network.len();
            let right = digest(&packet.network, tcp, header_len, &packet.body, key);
            if right == signature { Ok(()) } else { Err(Refusal::Failure) }
        }
    }
}

fn signature_of(packet: &Packet) -> Option<[u8; 16]> {
    packet.extra.as_ref()?;
    let mut scratch = [0; MAX_OPTION_SPACE];
    let options = packet.tcp_option_bytes(&mut scratch)?;
    RawOptions::new(options).find_map(|option| match option.decode() {
        TcpOption::Md5(digest) => Some(*digest),
        _ => None,
    })
}

/// It has the authentication option of RFC 5925.
fn has_authentication(packet: &Packet) -> bool {
    if packet.extra.is_none() {
        return false;
    }
    let mut scratch = [0; MAX_OPTION_SPACE];
    packet.tcp_option_bytes(&mut scratch).is_some_and(|options| {
        RawOptions::new(options).any(|option| matches!(option.decode(), TcpOption::Ao { .. }))
    })
}

/// The option with its NOPs, the digest still to be filled in.
pub(super) fn empty_option() -> [u8; OPTION_LEN as usize] {
    let mut option = [0; OPTION_LEN as usize];
    option[..4].copy_from_slice(&[kind::NOP, kind::NOP, kind::MD5, 18]);
    option
}

impl Connection {
    /// The key for this connection's peer.
    #[inline]
    pub(super) fn md5_key(&self) -> Option<&Key> {
        if self.config.socket.md5.is_empty() {
            return None;
        }
        key_for(&self.config.socket.md5, self.remote.ip)
    }

    /// A key was set or taken away: the signature's room is no payload (`tcp_current_mss`).
    pub fn md5_keys_changed(&mut self) {
        if self.state != super::state::State::Close {
            self.sync_mss();
        }
    }

    /// Refuses a segment that is not signed as it should be. True: it may pass.
    #[inline]
    pub(super) fn md5_allows(&self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        if self.config.socket.md5.is_empty() && packet.extra.is_none() {
            return true;
        }
        match inspect(&self.config.socket.md5, packet) {
            Ok(()) => true,
            Err(refusal) => {
                cx.mib.count_md5(refusal);
                false
            }
        }
    }
}

impl super::mib::Mib {
    /// Counts a refused segment.
    pub fn count_md5(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::NotFound => self.md5_not_found += 1,
            Refusal::Unexpected => self.md5_unexpected += 1,
            Refusal::Failure => self.md5_failure += 1,
            Refusal::AoKeyNotFound => self.ao_key_not_found += 1,
            // A header that makes no sense counts nowhere.
            Refusal::TwoSignatures => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::{ipv4, packet, tcp};
    use crate::packet::{TcpFlags, Transport};

    fn key(network: [u8; 4], prefix_len: u8, secret: &str) -> Key {
        Key { network: network.into(), prefix_len, secret: secret.into() }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let keys = [key([10, 0, 0, 0], 8, "wide"), key([10, 0, 0, 1], 32, "narrow")];
        let secret = |peer: [u8; 4]| key_for(&keys, peer.into()).map(|key| &key.secret[..]);
        assert_eq!(secret([10, 0, 0, 1]), Some(&b"narrow"[..]));
        assert_eq!(secret([10, 0, 0, 2]), Some(&b"wide"[..]));
        assert_eq!(secret([11, 0, 0, 2]), None);
    }

    #[test]
    fn a_signed_segment_passes_only_with_its_key() {
        let keys = [key([10, 0, 0, 1], 32, "secret")];
        let plain = packet(ipv4(6), tcp(TcpFlags::ACK), 100);
        assert_eq!(inspect(&[], &plain), Ok(()));
        assert_eq!(inspect(&keys, &plain), Err(Refusal::NotFound));
        let Transport::Tcp(header) = plain.transport else { panic!("TCP") };
        let mut signed = plain.clone();
        let digest = digest(&plain.network, &header, 20 + 12 + 20, &plain.body, &keys[0]);
        assert!(signed.push_tcp_option(kind::MD5, &digest));
        assert_eq!(inspect(&keys, &signed), Ok(()));
        assert_eq!(inspect(&[], &signed), Err(Refusal::Unexpected));
        let ao = [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut authenticated = plain.clone();
        assert!(authenticated.push_tcp_option(kind::AO, &ao));
        assert_eq!(inspect(&[], &authenticated), Err(Refusal::AoKeyNotFound));
        assert_eq!(inspect(&keys, &authenticated), Err(Refusal::AoKeyNotFound));
        let other = [key([10, 0, 0, 1], 32, "other")];
        assert_eq!(inspect(&other, &signed), Err(Refusal::Failure));
    }
}
