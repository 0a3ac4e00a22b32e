//! Options of datagram sockets.

use super::*;

/// What a UDP socket keeps, what it takes and what it begins with, as Linux 6.18 was seen to do: option, what is read of a
/// new socket, and what is read after each value (`EINVAL`: refused).
#[test]
fn options_that_are_kept_are_taken_as_the_kernel_takes_them() {
    let (ip, ipv6, socket, udp_level) =
        (number::SOL_IP, number::SOL_IPV6, number::SOL_SOCKET, number::SOL_UDP);
    // Read after -2, -1, 0, 1, 2, 255 and 256.
    let refused = i64::MIN;
    let switch = [1, 1, 0, 1, 1, 1, 1];
    let bit = [refused, refused, 0, 1, refused, refused, refused];
    let byte = [refused, refused, 0, 1, 2, 255, refused];
    let hops = [refused, 1, 0, 1, 2, 255, refused];
    let number = [-2, -1, 0, 1, 2, 255, 256];
    let positive = [refused, refused, 0, 1, 2, 255, 256];
    for (level, name, new, read) in [
        (ip, number::IP_RECVOPTS, 0, switch),
        (ip, number::IP_FREEBIND, 0, switch),
        (ip, number::IP_MINTTL, 0, byte),
        (ip, number::IP_RECVERR_RFC4884, 0, bit),
        (ip, number::IP_MULTICAST_TTL, 1, hops),
        (ip, number::IP_MULTICAST_LOOP, 1, switch),
        (ip, number::IP_MULTICAST_ALL, 1, bit),
        (ipv6, number::IPV6_MULTICAST_HOPS, 1, hops),
        (ipv6, number::IPV6_MULTICAST_LOOP, 1, bit),
        (ipv6, number::IPV6_MULTICAST_ALL, 1, switch),
        (ipv6, number::IPV6_DONTFRAG, 0, switch),
        (ipv6, number::IPV6_AUTOFLOWLABEL, 1, switch),
        (ipv6, number::IPV6_MINHOPCOUNT, 0, byte),
        (ipv6, number::IPV6_FREEBIND, 0, switch),
        (ipv6, number::IPV6_RECVPKTINFO, 0, switch),
        (ipv6, number::IPV6_TCLASS, 0, [refused, 0, 0, 1, 2, 255, refused]),
        (ip, number::IP_TOS, 0, [254, 255, 0, 1, 2, 255, 0]),
        (socket, number::SO_DONTROUTE, 0, switch),
        (socket, number::SO_BUF_LOCK, 0, [refused, refused, 0, 1, 2, refused, refused]),
        (socket, number::SO_MARK, 0, [0xffff_fffe, 0xffff_ffff, 0, 1, 2, 255, 256]),
        (socket, number::SO_BUSY_POLL, 0, positive),
        (socket, number::SO_INCOMING_CPU, -1, number),
        (socket, number::SO_ZEROCOPY, 0, bit),
        (udp_level, number::UDP_CORK, 0, switch),
        (udp_level, number::UDP_GRO, 0, switch),
        (udp_level, number::UDP_SEGMENT, 0, positive),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
        assert_eq!(pair.get(CLIENT, 3, level, name), new, "{level} {name}");
        for (value, expected) in [-2, -1, 0, 1, 2, 255, 256].into_iter().zip(read) {
            let set = pair.value(CLIENT, Syscall::set(3, level, name, value));
            if expected == refused {
                assert_eq!(set, Err(Errno::EINVAL), "{level} {name} {value}");
            } else {
                assert_eq!(set, Ok(0), "{level} {name} {value}");
                assert_eq!(pair.get(CLIENT, 3, level, name), expected, "{level} {name} {value}");
            }
        }
    }
    // IPv6's are not there without it.
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    for name in [number::IPV6_TCLASS, number::IPV6_MTU, number::IPV6_RECVPKTINFO] {
        assert_eq!(pair.value(CLIENT, Syscall::set(3, ipv6, name, 1)), Err(Errno::ENOPROTOOPT));
        assert_eq!(pair.value(CLIENT, Syscall::get(3, ipv6, name)), Err(Errno::EOPNOTSUPP));
    }
}
