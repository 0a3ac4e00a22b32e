//! Counters below TCP: `/proc/net/snmp`, `/proc/net/snmp6`, the `IpExt` lines of
//! `/proc/net/netstat`.

use super::Host;

/// Counters of the network layer that packets in bulk touch, IPv4's and IPv6's together
/// (`/proc/net/snmp`, `Ip` and `Icmp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IpStats {
    /// `InReceives`.
    pub in_receives: u64,
    /// `InDelivers`.
    pub in_delivers: u64,
    /// `ForwDatagrams`.
    pub forwarded: u64,
    /// `OutRequests`.
    pub out_requests: u64,
    /// `OutNoRoutes`.
    pub out_no_routes: u64,
    /// ICMP error messages made.
    pub icmp_errors: u64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $v4:literal, $v6:literal;)*) => {
        /// Counters of the rarer events of one family. The names are those of `nstat`, for IPv4 and
        /// for IPv6; empty where the kernel does not count.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct Snmp {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Snmp {
            const NAMES: &'static [[&'static str; 2]] = &[$([$v4, $v6]),*];

            fn values(self) -> impl Iterator<Item = u64> {
                [$(self.$name),*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets with an invalid network header, or whose TTL had run out.
    in_hdr_errors = "IpInHdrErrors", "Ip6InHdrErrors";
    /// IPv6 packets between addresses between which nothing is routed. IPv4's martians are not counted.
    in_addr_errors = "", "Ip6InAddrErrors";
    /// Packets shorter than their header says.
    in_truncated = "IpExtInTruncatedPkts", "Ip6InTruncatedPkts";
    /// Wrong IPv4 header checksums.
    in_csum_errors = "IpExtInCsumErrors", "";
    /// Packets too big to be passed on.
    in_too_big = "", "Ip6InTooBigErrors";
    /// Packets of an unsupported protocol.
    in_unknown_protos = "IpInUnknownProtos", "Ip6InUnknownProtos";
    /// Packets that were not whole in time.
    reasm_timeout = "IpReasmTimeout", "Ip6ReasmTimeout";
    /// Fragments that came.
    reasm_reqds = "IpReasmReqds", "Ip6ReasmReqds";
    /// Packets put together.
    reasm_oks = "IpReasmOKs", "Ip6ReasmOKs";
    /// Fragments and packets that could not be put together.
    reasm_fails = "IpReasmFails", "Ip6ReasmFails";
    /// Fragments that overlapped others.
    reasm_overlaps = "IpExtReasmOverlaps", "";
    /// Packets that were cut into fragments.
    frag_oks = "IpFragOKs", "Ip6FragOKs";
    /// Packets that could not be cut.
    frag_fails = "IpFragFails", "Ip6FragFails";
    /// Fragments made.
    frag_creates = "IpFragCreates", "Ip6FragCreates";
    /// ICMP messages that came.
    icmp_in_msgs = "IcmpInMsgs", "Icmp6InMsgs";
    /// Of those, invalid ones.
    icmp_in_errors = "IcmpInErrors", "Icmp6InErrors";
    /// Of those, with a wrong checksum.
    icmp_in_csum_errors = "IcmpInCsumErrors", "Icmp6InCsumErrors";
    /// Datagrams that applications have read.
    udp_in_datagrams = "UdpInDatagrams", "Udp6InDatagrams";
    /// Datagrams for closed ports.
    udp_no_ports = "UdpNoPorts", "Udp6NoPorts";
    /// Datagrams that were invalid, or did not fit.
    udp_in_errors = "UdpInErrors", "Udp6InErrors";
    /// Datagrams sent.
    udp_out_datagrams = "UdpOutDatagrams", "Udp6OutDatagrams";
    /// Datagrams that did not fit into a receive buffer.
    udp_rcvbuf_errors = "UdpRcvbufErrors", "Udp6RcvbufErrors";
    /// Datagrams that did not fit into a send buffer.
    udp_sndbuf_errors = "UdpSndbufErrors", "Udp6SndbufErrors";
    /// Datagrams with a wrong checksum.
    udp_in_csum_errors = "UdpInCsumErrors", "Udp6InCsumErrors";
}

/// The counters of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct BothSnmp {
    v4: Snmp,
    v6: Snmp,
}

impl Host {
    /// Counters of IPv4, or of IPv6.
    pub fn snmp(&self, ipv6: bool) -> Snmp {
        let both = self.snmp.as_deref().copied().unwrap_or_default();
        if ipv6 { both.v6 } else { both.v4 }
    }

    /// Every counter below TCP with the name that `nstat` prints, in a fixed order.
    pub fn ip_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let both = self.snmp.as_deref().copied().unwrap_or_default();
        let stats = self.stats;
        let hot = [
            ("IpInReceives", stats.in_receives),
            ("IpInDelivers", stats.in_delivers),
            ("IpForwDatagrams", stats.forwarded),
            ("IpOutRequests", stats.out_requests),
            ("IpOutNoRoutes", stats.out_no_routes),
        ];
        let rare = Snmp::NAMES.iter().zip(both.v4.values().zip(both.v6.values()));
        let rare = rare.flat_map(|(names, (v4, v6))| [(names[0], v4), (names[1], v6)]);
        hot.into_iter().chain(rare).filter(|(name, _)| !name.is_empty())
    }

    /// The counters of IPv4, or of IPv6, to count.
    #[cold]
    pub(super) fn count(&mut self, ipv6: bool) -> &mut Snmp {
        let both = self.snmp.get_or_insert_default();
        if ipv6 { &mut both.v6 } else { &mut both.v4 }
    }

    /// Those of IPv4.
    #[cold]
    pub(super) fn count_v4(&mut self) -> &mut Snmp {
        &mut self.snmp.get_or_insert_default().v4
    }

    /// Those of IPv6.
    #[cold]
    pub(super) fn count_v6(&mut self) -> &mut Snmp {
        &mut self.snmp.get_or_insert_default().v6
    }
}
