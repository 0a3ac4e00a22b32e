//! Bytes of C structures, as the host is asked. Layouts as in [`crate::encode`].

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use datapath::socket::{Address, Control, Errno, Md5Signature, OptionValue, number};
use datapath::units::Duration;

/// A `struct sockaddr` of any family.
pub fn address(bytes: &[u8]) -> Address {
    let Some(&[low, high]) = bytes.first_chunk::<2>() else {
        return Address::Other { family: 0, len: bytes.len() as u32 };
    };
    let family = i32::from(u16::from_ne_bytes([low, high]));
    let port = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    match family {
        number::AF_UNSPEC => Address::Unspecified,
        number::AF_INET if bytes.len() >= 16 => {
            let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            Address::Inet(SocketAddr::new(ip.into(), port(bytes)))
        }
        number::AF_INET6 if bytes.len() >= 24 => {
            let octets: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            Address::Inet(SocketAddr::new(Ipv6Addr::from(octets).into(), port(bytes)))
        }
        _ => Address::Other { family, len: bytes.len() as u32 },
    }
}

/// As many bytes as the longest of all options has: `struct tcp_md5sig`, and then some.
pub const LONGEST_OPTION: usize = 256;

/// The value of a socket option, as `setsockopt` is given it; `EDOM` for a time that is none.
pub fn option(level: i32, name: i32, bytes: &[u8]) -> Result<OptionValue, Errno> {
    Ok(match (level, name) {
        // One that is too short is refused for its length.
        (number::SOL_SOCKET, number::SO_LINGER) => {
            let bytes = &linger(bytes);
            OptionValue::Linger { on: int(bytes, 0) != 0, seconds: int(bytes, 4) as u32 }
        }
        (number::SOL_SOCKET, number::SO_RCVTIMEO | number::SO_SNDTIMEO) => {
            let bytes = bytes.first_chunk::<16>().ok_or(Errno::EINVAL)?;
            OptionValue::Time(timeout(long(bytes, 0) as i64, long(bytes, 8) as i64)?)
        }
        (number::SOL_SOCKET, number::SO_MAX_PACING_RATE) if bytes.len() >= 8 => {
            OptionValue::Number(long(bytes, 0) as i64)
        }
        (number::SOL_SOCKET, number::SO_BINDTODEVICE)
        | (number::SOL_TCP, number::TCP_CONGESTION | number::TCP_ULP) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            OptionValue::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
        }
        (number::SOL_TCP, number::TCP_FASTOPEN_KEY) => OptionValue::Bytes(bytes.to_vec()),
        (number::SOL_TCP, number::TCP_MD5SIG | number::TCP_MD5SIG_EXT) => md5(name, bytes),
        _ if bytes.len() >= 4 => OptionValue::Number(int(bytes, 0).into()),
        // `IP_TOS` and its like may be given as one byte.
        _ => OptionValue::Number(bytes.first().map_or(0, |byte| i64::from(*byte))),
    })
}

/// A `struct linger`; what there are too few bytes of is zero.
fn linger(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    let len = bytes.len().min(all.len());
    all[..len].copy_from_slice(&bytes[..len]);
    all
}

/// A `struct timeval` of a socket, as `sock_set_timeout` reads it: zero is for ever, as is what does not fit into
/// jiffies; before the beginning of time is not at all.
fn timeout(seconds: i64, micros: i64) -> Result<Duration, Errno> {
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    Ok(match u64::try_from(seconds) {
        Ok(seconds) if seconds < LONGEST_TIMEOUT => {
            Duration::from_micros(seconds * 1_000_000 + micros as u64)
        }
        Ok(_) => Duration::ZERO,
        // The shortest there is, which `getsockopt` shows as nothing.
        Err(_) => Duration::from_nanos(1),
    })
}

/// Seconds of `MAX_SCHEDULE_TIMEOUT` with 1000 jiffies each would be more than our clock has.
const LONGEST_TIMEOUT: u64 = 1 << 33;

/// `struct tcp_md5sig`: the peer in a `sockaddr_storage`, flags, prefix length, length of the key,
/// interface, key.
fn md5(name: i32, bytes: &[u8]) -> OptionValue {
    let (Address::Inet(address), true) = (address(bytes), bytes.len() >= MD5_LEN) else {
        return OptionValue::Fault;
    };
    let (flags, prefix_len) = (bytes[128], bytes[129]);
    let key_len = usize::from(u16::from_ne_bytes([bytes[130], bytes[131]])).min(MAX_KEY);
    let prefix_len =
        (name == number::TCP_MD5SIG_EXT && flags & MD5_PREFIX != 0).then_some(prefix_len);
    OptionValue::Md5(Md5Signature { address, prefix_len, key: bytes[136..136 + key_len].to_vec() })
}

const MD5_LEN: usize = 216;
const MAX_KEY: usize = 80;
/// `TCP_MD5SIG_FLAG_PREFIX`.
const MD5_PREFIX: u8 = 1;

/// Control messages, as `sendmsg` is given them; what is cut short is left out.
pub fn controls(mut bytes: &[u8]) -> Vec<Control> {
    let mut list = Vec::new();
    while bytes.len() >= HEADER {
        let len = usize::try_from(long(bytes, 0)).unwrap_or(0);
        if len < HEADER || len > bytes.len() {
            break;
        }
        let (level, kind) = (int(bytes, 8), int(bytes, 12));
        let data = &bytes[HEADER..len];
        let value = match data.len() {
            0 => 0,
            1..4 => i32::from(data[0]),
            _ => int(data, 0),
        };
        list.push(match (level, kind) {
            (number::SOL_SOCKET, number::SO_TIMESTAMPING) => Control::TimestampingFlags(value),
            (number::SOL_IP, number::IP_TOS) if (0..=255).contains(&value) => {
                Control::IpTos(value as u8)
            }
            (number::SOL_IP, number::IP_PKTINFO) if data.len() == 12 => Control::IpPktInfo {
                interface: value as u32,
                spec_dst: bytes_of::<4>(data, 4).into(),
                addr: bytes_of::<4>(data, 8).into(),
            },
            (number::SOL_IPV6, number::IPV6_PKTINFO) if data.len() == 20 => Control::Ipv6PktInfo {
                addr: bytes_of::<16>(data, 0).into(),
                interface: int(data, 16) as u32,
            },
            (number::SOL_IPV6, number::IPV6_HOPLIMIT) if data.len() == 4 => {
                Control::Ipv6HopLimit(value)
            }
            (number::SOL_UDP, number::UDP_SEGMENT) if data.len() == 2 => {
                Control::UdpSegment(u16::from_ne_bytes(bytes_of(data, 0)))
            }
            (number::SOL_IP, number::IP_TTL) => Control::IpTtl(value),
            (number::SOL_IPV6, number::IPV6_TCLASS) => Control::Ipv6TrafficClass(value),
            _ => Control::Other { level, kind, value },
        });
        let next = len.next_multiple_of(8).min(bytes.len());
        bytes = &bytes[next..];
    }
    list
}

/// So many bytes from `at` on.
fn bytes_of<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().expect("as long as its type")
}

/// `struct cmsghdr`.
const HEADER: usize = 16;

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind() {
        assert_eq!(address(&[0, 0]), Address::Unspecified);
        assert_eq!(address(&[]), Address::Other { family: 0, len: 0 });
        let mut short = [0; 15];
        short[..2].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(address(&short), Address::Other { family: 2, len: 15 });
        let mut six = [0; 28];
        six[..2].copy_from_slice(&10_u16.to_ne_bytes());
        let unspecified = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        assert_eq!(address(&six), Address::Inet(unspecified));
    }

    #[test]
    fn options_by_what_they_hold() {
        let linger = [1_i32.to_ne_bytes(), 5_i32.to_ne_bytes()].concat();
        let read = option(number::SOL_SOCKET, number::SO_LINGER, &linger);
        assert_eq!(read, Ok(OptionValue::Linger { on: true, seconds: 5 }));
        let read = option(number::SOL_TCP, number::TCP_CONGESTION, b"reno\0");
        assert_eq!(read, Ok(OptionValue::Text("reno".to_owned())));
        let read = option(number::SOL_IP, number::IP_TOS, &[0x10]);
        assert_eq!(read, Ok(OptionValue::Number(0x10)));
        let read = option(number::SOL_TCP, number::TCP_MD5SIG, &[0; 216]);
        assert_eq!(read, Ok(OptionValue::Fault));
    }

    /// Whatever the bytes: no panic, and an end.
    #[test]
    fn control_messages_that_lie_about_their_length() {
        for len in [0_u64, 15, 17, 1_000, u64::MAX] {
            let mut bytes = vec![0; 32];
            bytes[..8].copy_from_slice(&len.to_ne_bytes());
            assert!(controls(&bytes).len() <= 2, "{len}");
        }
    }
}
