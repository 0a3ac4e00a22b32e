//! What the host returns, as bytes of C structures.
//!
//! Layouts are those of Linux's user-space interface: `tcp(7)`, `socket(7)`, `cmsg(3)`, and
//! `struct tcp_info` of Linux 7, which later kernels only lengthen.

use core::net::{IpAddr, SocketAddr};
use datapath::socket::{CcInfo, Control, ExtendedError, OptionValue, number};
use datapath::tcp::info::TcpInfo;

/// Bytes of a structure, field by field.
#[derive(Debug, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u8s(&mut self, values: &[u8]) -> &mut Self {
        self.0.extend_from_slice(values);
        self
    }

    fn u16s(&mut self, values: &[u16]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    fn u32s(&mut self, values: &[u32]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    fn u64s(&mut self, values: &[u64]) -> &mut Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.0)
    }
}

/// The value of a socket option, as `getsockopt` writes it.
pub fn option(level: i32, name: i32, value: &OptionValue) -> Vec<u8> {
    let mut fields = Fields::default();
    match value {
        OptionValue::Number(number)
            if level == number::SOL_SOCKET
                && matches!(name, number::SO_MAX_PACING_RATE | number::SO_COOKIE) =>
        {
            fields.u64s(&[*number as u64]).take()
        }
        OptionValue::Number(number) => fields.u32s(&[*number as u32]).take(),
        OptionValue::Linger { on, seconds } => fields.u32s(&[u32::from(*on), *seconds]).take(),
        OptionValue::Time(span) => {
            let micros = span.as_micros();
            fields.u64s(&[micros / 1_000_000, micros % 1_000_000]).take()
        }
        OptionValue::Text(text) => {
            let mut bytes = text.as_bytes().to_vec();
            // TCP_CA_NAME_MAX and TCP_ULP_NAME_MAX: names fill their field.
            bytes.resize(bytes.len().max(NAME_LEN), 0);
            bytes
        }
        OptionValue::Bytes(bytes) => bytes.clone(),
        OptionValue::TcpInfo(info) => tcp_info(info),
        OptionValue::CcInfo(CcInfo::None) | OptionValue::Md5(_) | OptionValue::Fault => Vec::new(),
        OptionValue::CcInfo(CcInfo::Dctcp { enabled, ce_state, alpha, ab_ecn, ab_tot }) => {
            fields.u16s(&[*enabled, *ce_state]).u32s(&[*alpha, *ab_ecn, *ab_tot]).take()
        }
        OptionValue::CcInfo(CcInfo::Bbr { bw, min_rtt, pacing_gain, cwnd_gain }) => {
            fields.u64s(&[*bw]).u32s(&[*min_rtt, *pacing_gain, *cwnd_gain]).take()
        }
        OptionValue::CcInfo(CcInfo::Vegas { enabled, rttcnt, rtt, minrtt }) => {
            fields.u32s(&[*enabled, *rttcnt, *rtt, *minrtt]).take()
        }
        OptionValue::MemInfo(values) => fields.u32s(values).take(),
    }
}

/// Bytes of the name of a congestion control.
const NAME_LEN: usize = 16;

/// `struct tcp_info` of Linux 7: what Linux 6.1 has, and the fields behind it.
fn tcp_info(info: &TcpInfo) -> Vec<u8> {
    let mut fields = Fields(iproute::ss::diag::tcp_info(info).to_vec());
    fields
        .u32s(&[info.rcv_wnd, info.rehash])
        .u16s(&[info.total_rto, info.total_rto_recoveries])
        .u32s(&[info.total_rto_time, info.received_ce])
        .u32s(&[info.delivered_e1_bytes, info.delivered_e0_bytes, info.delivered_ce_bytes])
        .u32s(&[info.received_e1_bytes, info.received_e0_bytes, info.received_ce_bytes])
        .u32s(&[u32::from(info.ecn_mode & 3)
            | u32::from(info.accecn_opt_seen & 3) << 2
            | u32::from(info.accecn_fail_mode & 15) << 4])
        .take()
}

/// `sockaddr_in` or `sockaddr_in6`.
pub fn address(address: SocketAddr) -> Vec<u8> {
    let mut fields = Fields::default();
    let port = address.port().to_be_bytes();
    match address.ip() {
        IpAddr::V4(ip) => {
            fields.u16s(&[number::AF_INET as u16]).u8s(&port).u8s(&ip.octets()).u8s(&[0; 8]).take()
        }
        IpAddr::V6(ip) => fields
            .u16s(&[number::AF_INET6 as u16])
            .u8s(&port)
            .u32s(&[0])
            .u8s(&ip.octets())
            .u32s(&[0])
            .take(),
    }
}

/// Control messages as `recvmsg` writes them into `room` bytes; true if some did not fit.
pub fn controls(list: &[Control], room: usize) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    for control in list {
        let (level, kind, data) = one_control(control);
        // `cmsg_len` counts the header and the data, not the padding before the next header.
        let len = HEADER + data.len();
        if out.len() + len > room {
            return (out, true);
        }
        let mut fields = Fields::default();
        fields.u64s(&[len as u64]).u32s(&[level as u32, kind as u32]).u8s(&data);
        out.append(&mut fields.0);
        out.resize(out.len().next_multiple_of(ALIGNMENT).min(room), 0);
    }
    (out, false)
}

/// `struct cmsghdr`.
const HEADER: usize = 16;
const ALIGNMENT: usize = 8;

fn one_control(control: &Control) -> (i32, i32, Vec<u8>) {
    let mut fields = Fields::default();
    let number = |value: i32| value.to_ne_bytes().to_vec();
    match *control {
        Control::TcpInq(left) => (number::SOL_TCP, number::TCP_CM_INQ, number(left)),
        Control::Timestamping(at) => {
            let nanos = at.as_nanos();
            // Three `timespec`s, of which software time stamps have the first.
            fields.u64s(&[nanos / 1_000_000_000, nanos % 1_000_000_000, 0, 0, 0, 0]);
            (number::SOL_SOCKET, number::SCM_TIMESTAMPING, fields.take())
        }
        Control::TimestampingFlags(flags) => {
            (number::SOL_SOCKET, number::SO_TIMESTAMPING, number(flags))
        }
        Control::ExtendedError(error) => {
            let ExtendedError { errno, origin, kind, code, info, data, ipv6 } = error;
            fields.u32s(&[errno as u32]).u8s(&[origin, kind, code, 0]).u32s(&[info, data]);
            // The offender's address, which time stamps have none of.
            fields.u8s(&vec![0; if ipv6 { 28 } else { 16 }]);
            let (level, kind) = if ipv6 {
                (number::SOL_IPV6, number::IPV6_RECVERR)
            } else {
                (number::SOL_IP, number::IP_RECVERR)
            };
            (level, kind, fields.take())
        }
        Control::IpTos(tos) => (number::SOL_IP, number::IP_TOS, vec![tos]),
        Control::IpTtl(ttl) => (number::SOL_IP, number::IP_TTL, number(ttl)),
        Control::Ipv6TrafficClass(class) => (number::SOL_IPV6, number::IPV6_TCLASS, number(class)),
        Control::Ipv6HopLimit(hops) => (number::SOL_IPV6, number::IPV6_HOPLIMIT, number(hops)),
        Control::IpPktInfo { interface, spec_dst, addr } => {
            fields.u32s(&[interface]).u8s(&spec_dst.octets()).u8s(&addr.octets());
            (number::SOL_IP, number::IP_PKTINFO, fields.take())
        }
        Control::Ipv6PktInfo { addr, interface } => {
            fields.u8s(&addr.octets()).u32s(&[interface]);
            (number::SOL_IPV6, number::IPV6_PKTINFO, fields.take())
        }
        Control::IpOrigDstAddr(to) => (number::SOL_IP, number::IP_ORIGDSTADDR, address(to)),
        Control::Ipv6OrigDstAddr(to) => (number::SOL_IPV6, number::IPV6_ORIGDSTADDR, address(to)),
        Control::UdpSegment(size) => {
            (number::SOL_UDP, number::UDP_SEGMENT, size.to_ne_bytes().to_vec())
        }
        Control::UdpGro(size) => (number::SOL_UDP, number::UDP_GRO, number(size)),
        Control::Other { level, kind, value } => (level, kind, number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use datapath::units::Instant;

    /// What is written can be read again.
    #[test]
    fn control_messages_there_and_back() {
        let sent = [
            Control::IpTtl(64),
            Control::IpTos(0x10),
            Control::TimestampingFlags(2),
            Control::Ipv6HopLimit(3),
            Control::UdpSegment(1_200),
            Control::IpPktInfo {
                interface: 2,
                spec_dst: [192, 0, 2, 1].into(),
                addr: [192, 0, 2, 2].into(),
            },
            Control::Ipv6PktInfo { addr: [0xfd3d, 0, 0, 0, 0, 0, 0, 1].into(), interface: 2 },
        ];
        let (bytes, cut) = controls(&sent, 256);
        assert!(!cut);
        assert_eq!(bytes.len(), 5 * 24 + 32 + 40);
        assert_eq!(decode::controls(&bytes), sent);
    }

    #[test]
    fn control_messages_that_do_not_fit_are_reported() {
        let list = [Control::TcpInq(5), Control::Timestamping(Instant::from_nanos(1_500_000_000))];
        let (bytes, cut) = controls(&list, 40);
        assert!(cut);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..8], 20_u64.to_ne_bytes());
    }

    #[test]
    fn addresses_there_and_back() {
        for text in ["192.0.2.1:8080", "[fd3d::1]:40000"] {
            let given: SocketAddr = text.parse().expect("an address");
            let expected = datapath::socket::Address::Inet(given);
            assert_eq!(decode::address(&address(given)), expected);
        }
    }

    #[test]
    fn names_fill_their_field() {
        let value = OptionValue::Text("cubic".to_owned());
        let bytes = option(number::SOL_TCP, number::TCP_CONGESTION, &value);
        assert_eq!(bytes, b"cubic\0\0\0\0\0\0\0\0\0\0\0");
    }
}
