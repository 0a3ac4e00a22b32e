//! Ports that several datagram sockets share.

use super::*;

/// Which binds fail beside another one, and which two share a port: seen on Linux 6.18 (`udp_lib_lport_inuse`).
#[test]
fn addresses_of_one_port() {
    let all = ["0.0.0.0", "10.0.0.1", "::", "::!", "fd00::1"];
    // `x`: taken.
    for (first, taken) in all.into_iter().zip(["xxx..", "xxx..", "xxxxx", "..xxx", "..xxx"]) {
        for (second, taken) in all.into_iter().zip(taken.chars()) {
            // None, SO_REUSEADDR, SO_REUSEPORT of each.
            for (one, two, shares) in [
                (0, 0, false),
                (1, 0, false),
                (0, 2, false),
                (1, 2, false),
                (1, 1, true),
                (2, 2, true),
                (3, 2, true),
            ] {
                let mut pair = Pair::new();
                for (fd, text, reuse) in [(3, first, one), (4, second, two)] {
                    let ip: core::net::IpAddr = text.trim_end_matches('!').parse().expect("one");
                    let domain = if ip.is_ipv4() { number::AF_INET } else { number::AF_INET6 };
                    assert_eq!(pair.value(SERVER, udp(domain)), Ok(fd.into()));
                    let (level, name) = (number::SOL_SOCKET, number::SO_REUSEADDR);
                    pair.set(SERVER, fd, level, name, reuse & 1);
                    pair.set(SERVER, fd, level, number::SO_REUSEPORT, reuse >> 1);
                    if text.ends_with('!') {
                        pair.set(SERVER, fd, number::SOL_IPV6, number::IPV6_V6ONLY, 1);
                    }
                    let address = SocketAddr::new(ip, 53).into();
                    let bound = pair.value(SERVER, Syscall::Bind { fd, address });
                    let fails = fd == 4 && taken == 'x' && !shares;
                    let expected = if fails { Err(Errno::EADDRINUSE) } else { Ok(0) };
                    assert_eq!(bound, expected, "{first} {second} {one} {two}");
                }
            }
        }
    }
}

/// Who of several hears a datagram to 10.0.0.1:53 from 10.0.0.2:6000: sockets in the order in which they are opened, each with
/// its peer (`compute_score`).
#[test]
fn of_several_sockets_one_hears() {
    let (here, all) = ("10.0.0.1:53", "0.0.0.0:53");
    let (peer, other) = (Some("10.0.0.2:6000"), Some("10.0.0.2:6001"));
    for (name, sockets, hears) in [
        (number::SO_REUSEADDR, &[(all, None), ("[::]:53", None)][..], 0),
        (number::SO_REUSEADDR, &[("[::]:53", None), (all, None)], 1),
        (number::SO_REUSEADDR, &[(all, None), (all, None)], 1),
        (number::SO_REUSEADDR, &[(here, None), (all, None)], 0),
        (number::SO_REUSEADDR, &[(here, None), (here, None), (here, None)], 2),
        (number::SO_REUSEADDR, &[(here, peer), (here, None)], 0),
        (number::SO_REUSEADDR, &[(here, None), (here, other)], 0),
        (number::SO_REUSEADDR, &[(all, peer), (here, None)], 0),
        (number::SO_REUSEPORT, &[(all, None), (all, None), (here, None)], 2),
        (number::SO_REUSEPORT, &[(here, None), (here, peer), (here, None)], 1),
        (number::SO_REUSEPORT, &[(here, None), (here, other), (here, None)], 2),
    ] {
        let mut pair = Pair::new();
        for ((local, peer), fd) in sockets.iter().zip(3..) {
            let v6 = local.starts_with('[');
            let domain = if v6 { number::AF_INET6 } else { number::AF_INET };
            assert_eq!(pair.value(SERVER, udp(domain)), Ok(fd.into()));
            pair.set(SERVER, fd, number::SOL_SOCKET, name, 1);
            let bind = Syscall::Bind { fd, address: address(local) };
            assert_eq!(pair.value(SERVER, bind), Ok(0));
            if let Some(peer) = peer {
                let connect = Syscall::Connect { fd, address: address(peer) };
                assert_eq!(pair.value(SERVER, connect), Ok(0));
            }
        }
        assert_eq!(pair.value(CLIENT, udp(number::AF_INET)), Ok(3));
        let bind = Syscall::Bind { fd: 3, address: address("0.0.0.0:6000") };
        assert_eq!(pair.value(CLIENT, bind), Ok(0));
        assert_eq!(pair.value(CLIENT, to(3, 10, "10.0.0.1:53")), Ok(10));
        let heard: Vec<_> = (0..sockets.len() as Fd)
            .filter(|index| pair.value(SERVER, Syscall::read(index + 3, 10)).is_ok())
            .collect();
        assert_eq!(heard, [hears], "{name} {sockets:?}");
    }
}

/// `SO_REUSEPORT`: a sender is heard by one of the group, always the same, and senders by all of it.
#[test]
fn a_group_divides_senders_among_itself() {
    let mut pair = Pair::new();
    for fd in 3..7 {
        assert_eq!(pair.value(SERVER, udp(number::AF_INET)), Ok(fd.into()));
        pair.set(SERVER, fd, number::SOL_SOCKET, number::SO_REUSEPORT, 1);
        let bind = Syscall::Bind { fd, address: address("10.0.0.1:53") };
        assert_eq!(pair.value(SERVER, bind), Ok(0));
    }
    let mut heard = [0; 4];
    for fd in 3..67 {
        assert_eq!(pair.value(CLIENT, udp(number::AF_INET)), Ok(fd.into()));
        assert_eq!(pair.value(CLIENT, to(fd, 10, "10.0.0.1:53")), Ok(10));
        assert_eq!(pair.value(CLIENT, to(fd, 10, "10.0.0.1:53")), Ok(10));
        let by = (3..7).find(|fd| pair.value(SERVER, Syscall::read(*fd, 10)).is_ok());
        let by = by.expect("one of them");
        assert_eq!(pair.value(SERVER, Syscall::read(by, 10)), Ok(10), "the second as well");
        heard[by as usize - 3] += 1;
    }
    assert!(heard.iter().all(|times| (6..=30).contains(times)), "{heard:?}");
}
