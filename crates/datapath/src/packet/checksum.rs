//! The Internet checksum (RFC 1071), its pseudo headers, and incremental update (RFC 1624).

use super::network::{Network, protocol};

/// A one's complement sum in the making, carries not yet folded.
///
/// The sum does not depend on byte order (RFC 1071 section 2(B)): words are added as they lie in
/// memory, two at a time, and only the folded result is turned into a number.
///
/// ```
/// use datapath::packet::checksum::Sum;
/// // RFC 1071 section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
/// let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
/// assert_eq!(sum.fold(), 0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// Adds one 16-bit word.
    #[inline]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word.to_be() as u64)
    }

    /// Adds a 32-bit value as two words.
    #[inline]
    pub const fn double(self, value: u32) -> Self {
        Self(self.0 + value.to_be() as u64)
    }

    /// Adds bytes; an odd last byte counts as the upper half of a word, so only the last piece of
    /// a message may have odd length.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (doubles, rest) = bytes.as_chunks::<4>();
        let sum: u64 = doubles.iter().map(|four| u64::from(u32::from_ne_bytes(*four))).sum();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(self.0 + sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// Adds the pseudo header of TCP, UDP and ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1):
    /// addresses, protocol, and the length of transport header and payload.
    #[inline]
    pub fn pseudo(self, network: &Network, protocol: u8, len: u32) -> Self {
        let addresses = match network {
            Network::Ipv4(ip) => self.double(ip.src.to_bits()).double(ip.dst.to_bits()),
            Network::Ipv6(ip) => self.bytes(&ip.src.octets()).bytes(&ip.dst.octets()),
            Network::Other(_) => self,
        };
        addresses.double(len).word(u16::from(protocol))
    }

    /// The sum, carries folded in: zero only if every word was zero.
    #[inline]
    pub const fn fold(self) -> u16 {
        u16::from_be(fold(self.0))
    }

    /// The value of the checksum field.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The value of the checksum field of `protocol`: UDP sends 0xffff for zero, which means that
    /// there is no checksum (RFC 768).
    #[inline]
    pub const fn field(self, protocol: u8) -> u16 {
        match (self.checksum(), protocol) {
            (0, protocol::UDP) => 0xffff,
            (checksum, _) => checksum,
        }
    }
}

/// Folds carries until 16 bits are left.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// The checksum after one 16-bit word under it changed from `old` to `new`: RFC 1624 equation 3.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1 as written: 16-bit words, end-around carry at each step.
    fn slow(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0u16, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn an_ipv4_header_from_the_field() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(Sum::default().bytes(&header).checksum(), 0xb861);
    }

    #[test]
    fn rfc_1624_section_4() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn nothing_sums_to_zero_and_all_ones_stay() {
        assert_eq!(Sum::default().bytes(&[]).fold(), 0);
        assert_eq!(Sum::default().bytes(&vec![0xff; 65535]).word(0x00ff).fold(), 0xffff);
    }

    proptest! {
        #[test]
        fn fast_sum_is_the_plain_one(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Sum::default().bytes(&bytes).fold(), slow(&bytes));
        }

        #[test]
        fn a_sum_in_pieces_is_the_sum(
            bytes in prop::collection::vec(any::<u8>(), 2..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(bytes.len()) & !1;
            let pieces = Sum::default().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
            prop_assert_eq!(pieces.fold(), slow(&bytes));
        }

        #[test]
        fn an_update_is_a_recomputation(
            mut bytes in prop::collection::vec(any::<u8>(), 4..64),
            at in any::<prop::sample::Index>(),
            new: u16,
        ) {
            // A header that is not all zeroes, as every real one: its first byte is the version.
            bytes[0] |= 0x40;
            let at = at.index(bytes.len() / 2 - 1) * 2 + 2;
            prop_assume!(at + 2 <= bytes.len());
            let before = Sum::default().bytes(&bytes).checksum();
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), Sum::default().bytes(&bytes).checksum());
        }
    }
}
