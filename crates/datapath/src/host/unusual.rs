//! What is not simply taken in: fragments, packets with flaws, protocols that nobody takes
//! (`ip_local_deliver`, `ip_rcv_core`, `ipv6_frag_rcv`, `icmp_send`).

use super::Host;
use super::reassembly::{FragmentOutcome, FragmentResult, Reassembly};
use crate::packet::{EtherType, Flaws, Network, Packet, Piece, Transport, protocol};
use crate::reason::Reason;
use crate::tcp::config::SysctlError;
use crate::tcp::config::ranges::{POSITIVE, SECONDS};
use crate::tcp::sysctl::number_within;
use crate::units::Instant;

/// The largest payload of an IPv6 packet.
const MAX_IPV6_PAYLOAD: u32 = 65_535;
/// Offset of the payload length in an IPv6 header.
const PAYLOAD_LENGTH_AT: u32 = 4;
/// Offset of the fragment field in a fragment header.
const FRAGMENT_FIELD_AT: u32 = 2;
/// Code of an ICMPv6 parameter problem: a field of a header is wrong.
const ERRONEOUS_HEADER: u8 = 0;
/// Code of another one: the first fragment has not all headers (RFC 8200, RFC 7112).
const INCOMPLETE_HEADERS: u8 = 3;

impl Host {
    /// What is wrong with an arriving packet's network header, if anything: it is counted
    /// (`ip_rcv_core`, `ip6_rcv_core`).
    #[cold]
    pub(super) fn header_fault(&mut self, packet: &Packet) -> Option<Reason> {
        let flaws = packet.flaws();
        let ipv6 = packet.network.ether_type() == EtherType::IPV6;
        if flaws.contains(Flaws::IP_HEADER) {
            self.count(ipv6).in_hdr_errors += 1;
            Some(Reason::Malformed)
        } else if flaws.contains(Flaws::IP_CHECKSUM) {
            let count = self.count_v4();
            count.in_csum_errors += 1;
            count.in_hdr_errors += 1;
            Some(Reason::Checksum)
        } else if flaws.contains(Flaws::LENGTH) {
            self.count(ipv6).in_truncated += 1;
            Some(Reason::PacketTooSmall)
        } else {
            None
        }
    }

    /// A packet for this host that is a fragment, has something unusual, or no transport header
    /// that is known here.
    #[cold]
    pub(super) fn deliver_unusual(&mut self, now: Instant, packet: Packet) {
        match packet.piece() {
            Some(piece) => self.defragment(now, packet, piece),
            None => self.deliver_whole(now, packet),
        }
    }

    /// A packet that is no fragment, or not any more: its checksum counts (`tcp_v4_rcv`, `udp_rcv`,
    /// `icmp_rcv`).
    fn deliver_whole(&mut self, now: Instant, mut packet: Packet) {
        let ipv6 = packet.network.src().is_some_and(|src| src.is_ipv6());
        let flaws = packet.flaws();
        let damaged = flaws.contains(Flaws::TRANSPORT_CHECKSUM);
        let bad_header = flaws.contains(Flaws::TRANSPORT_HEADER);
        let known = matches!(
            (packet.network.protocol(), ipv6),
            (Some(protocol::TCP | protocol::UDP), _)
                | (Some(protocol::ICMP), false)
                | (Some(protocol::ICMPV6), true)
        );
        if ipv6 && packet.network.protocol() == Some(protocol::NO_NEXT) {
            return self.drop_packet(Reason::NoProtocol, packet);
        }
        if !known {
            self.count(ipv6).in_unknown_protos += 1;
            self.icmp_protocol_unreachable(now, packet.next_header_at(), &packet);
            return self.drop_packet(Reason::NoProtocol, packet);
        }
        let cut = packet.transport == Transport::None;
        if !cut && !damaged {
            return self.deliver_sound(now, &mut packet);
        }
        self.stats.in_delivers += 1;
        let reason = match packet.network.protocol() {
            Some(protocol::TCP) => {
                let mib = &mut self.tcp_stack().mib;
                mib.in_segs += u64::from(packet.segments());
                mib.in_errs += u64::from(damaged || bad_header);
                mib.in_csum_errors += u64::from(damaged);
                if damaged { Reason::TcpChecksum } else { Reason::PacketTooSmall }
            }
            Some(protocol::UDP) => {
                let count = self.count(ipv6);
                count.udp_in_errors += 1;
                count.udp_in_csum_errors += u64::from(damaged);
                if damaged { Reason::UdpChecksum } else { Reason::PacketTooSmall }
            }
            // A message too short for its header has no right checksum either.
            _ => {
                let count = self.count(ipv6);
                count.icmp_in_msgs += 1;
                count.icmp_in_errors += 1;
                count.icmp_in_csum_errors += 1;
                Reason::IcmpChecksum
            }
        };
        self.drop_packet(reason, packet);
    }

    /// A fragment for this host (`ip_defrag`, `ipv6_frag_rcv`).
    fn defragment(&mut self, now: Instant, packet: Packet, piece: Piece) {
        let ipv6 = matches!(packet.network, Network::Ipv6(_));
        self.count(ipv6).reasm_reqds += 1;
        if ipv6 && piece.is_whole() {
            // An atomic fragment (RFC 6946) never waits.
            self.count_v6().reasm_oks += 1;
            return self.deliver_whole(now, packet);
        }
        if ipv6 && let Some((code, pointer)) = ipv6_fault(&packet, &piece) {
            self.count_v6().in_hdr_errors += 1;
            self.icmp_parameter_problem(now, code, pointer, &packet);
            return self.drop_packet(Reason::Malformed, packet);
        }
        let reassembly = self.reassembly.get_or_insert_default();
        let FragmentOutcome { outcome, too_far } = reassembly.add(now, packet, &piece);
        self.upkeep_changed = true;
        self.count(ipv6).reasm_fails += u64::from(!too_far.is_empty());
        for fragment in too_far {
            self.drop_packet(Reason::FragmentTooFar, fragment);
        }
        match outcome {
            FragmentResult::Kept => {}
            FragmentResult::Whole(whole) => {
                self.count(ipv6).reasm_oks += 1;
                self.deliver_whole(now, whole);
            }
            FragmentResult::Dropped(reason, fragment) => self.drop_packet(reason, fragment),
            FragmentResult::Failed { overlap, fragments } => {
                let count = self.count(ipv6);
                count.reasm_fails += 1;
                count.reasm_overlaps += u64::from(overlap);
                for fragment in fragments {
                    self.drop_packet(Reason::Reassembly, fragment);
                }
            }
        }
    }

    /// Gives up packets whose time is over, and says so to the source if the first fragment has
    /// come (`ip_expire`, `ip6frag_expire_frag_queue`).
    pub(super) fn expire_fragments(&mut self, now: Instant) {
        while let Some(expired) = self.reassembly.as_mut().and_then(|it| it.expire(now)) {
            let Some(first) = expired.fragments.first() else { continue };
            let ipv6 = matches!(first.network, Network::Ipv6(_));
            let count = self.count(ipv6);
            count.reasm_fails += 1;
            count.reasm_timeout += 1;
            if expired.has_first {
                self.icmp_reassembly_time_exceeded(now, first);
            }
            for fragment in expired.fragments {
                self.drop_packet(Reason::FragmentTimeout, fragment);
            }
        }
    }

    /// Fragments that wait for the rest of their packets.
    pub fn waiting_fragments(&self) -> impl Iterator<Item = &Packet> {
        self.reassembly.iter().flat_map(|reassembly| reassembly.waiting())
    }

    /// Writes one of the sysctls of the network layer, by its full name.
    ///
    /// # Errors
    /// There is no such sysctl, or it cannot have that value.
    pub fn set_ip_sysctl(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        if name == PORT_RANGE {
            return self.set_port_range(name, value);
        }
        let reassembly = self.reassembly.get_or_insert_default();
        if place_of(reassembly, name).is_none() {
            return Err(SysctlError::Unknown);
        }
        let limits = reassembly.limits(name.starts_with("net.ipv6."));
        let range = match name.rsplit_once('_').map(|(_, last)| last) {
            // Neither passes the other.
            Some("thresh") if name.contains("_high_") => limits.low_thresh.into()..=i64::MAX,
            Some("thresh") => 0..=limits.high_thresh.into(),
            Some("dist") => POSITIVE,
            _ => SECONDS,
        };
        let number = number_within(name, value, range)?;
        *place_of(reassembly, name).ok_or(SysctlError::Unknown)? = number;
        Ok(())
    }

    /// Reads one of the sysctls of the network layer, by its full name.
    pub fn ip_sysctl(&self, name: &str) -> Option<u32> {
        let mut settings = Reassembly::default();
        if let Some(reassembly) = &self.reassembly {
            for ipv6 in [false, true] {
                *settings.limits_mut(ipv6) = *reassembly.limits(ipv6);
            }
        }
        place_of(&mut settings, name).map(|place| *place)
    }

    /// The sysctls of the network layer.
    pub const IP_SYSCTLS: [&'static str; 8] = [
        PORT_RANGE,
        "net.ipv4.ipfrag_high_thresh",
        "net.ipv4.ipfrag_low_thresh",
        "net.ipv4.ipfrag_max_dist",
        "net.ipv4.ipfrag_time",
        "net.ipv6.ip6frag_high_thresh",
        "net.ipv6.ip6frag_low_thresh",
        "net.ipv6.ip6frag_time",
    ];
}

const PORT_RANGE: &str = "net.ipv4.ip_local_port_range";

fn place_of<'a>(reassembly: &'a mut Reassembly, name: &str) -> Option<&'a mut u32> {
    let (ipv6, short) = match name.strip_prefix("net.ipv6.ip6frag_") {
        Some(short) => (true, short),
        None => (false, name.strip_prefix("net.ipv4.ipfrag_")?),
    };
    let limits = reassembly.limits_mut(ipv6);
    match short {
        "high_thresh" => Some(&mut limits.high_thresh),
        "low_thresh" => Some(&mut limits.low_thresh),
        "time" => Some(&mut limits.time_s),
        "max_dist" if !ipv6 => Some(&mut limits.max_dist),
        _ => None,
    }
}

/// What RFC 8200 section 4.5 does not allow of an IPv6 fragment: the code of the parameter problem
/// and where it lies.
fn ipv6_fault(packet: &Packet, piece: &Piece) -> Option<(u8, u32)> {
    if piece.offset == 0 && !has_transport_header(piece) {
        return Some((INCOMPLETE_HEADERS, 0));
    }
    let end = packet.meta.len - packet.link.len() - 48 - piece.len + piece.end();
    if end > MAX_IPV6_PAYLOAD {
        let network_at = packet.extra.as_ref().map_or(0, |extra| extra.network_offset.into());
        let header_at = piece.fragment_header as u32 - network_at;
        return Some((ERRONEOUS_HEADER, header_at + FRAGMENT_FIELD_AT));
    }
    (piece.more && !piece.len.is_multiple_of(8)).then_some((ERRONEOUS_HEADER, PAYLOAD_LENGTH_AT))
}

/// The first fragment holds the whole transport header (`ipv6frag_thdr_truncated`).
fn has_transport_header(piece: &Piece) -> bool {
    let needed = match piece.protocol {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMPV6 => 8,
        protocol::NO_NEXT => 0,
        _ => 1,
    };
    piece.len >= needed
}
