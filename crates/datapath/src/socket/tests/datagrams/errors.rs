//! Errors of datagram sockets: their queue, their order.

use super::*;

/// `SO_ERROR` beside the queue of errors: the queue's next is told, and with its last it is over
/// (`sock_dequeue_err_skb`).
#[test]
fn the_error_of_a_socket_follows_its_queue() {
    let so_error = |pair: &mut Pair| pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR);
    let queued = |pair: &mut Pair| pair.value(CLIENT, Syscall::recv(3, 10, number::MSG_ERRQUEUE));
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_RECVERR, 1);
    for _ in 0..2 {
        assert_eq!(pair.value(CLIENT, to(3, 7, "10.0.0.1:54")), Ok(7));
        assert_eq!((so_error(&mut pair), so_error(&mut pair)), (111, 0));
    }
    assert_eq!(queued(&mut pair), Ok(7));
    assert_eq!(so_error(&mut pair), 111);
    assert_eq!(queued(&mut pair), Ok(7));
    assert_eq!((so_error(&mut pair), queued(&mut pair)), (0, Err(Errno::EAGAIN)));
    // Read from the queue before anybody has asked, it is over.
    assert_eq!(pair.value(CLIENT, to(3, 7, "10.0.0.1:54")), Ok(7));
    assert_eq!((queued(&mut pair), so_error(&mut pair)), (Ok(7), 0));
    // Neither the end of the option nor that of the connection takes the error away.
    assert_eq!(pair.value(CLIENT, to(3, 7, "10.0.0.1:54")), Ok(7));
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_RECVERR, 0);
    assert_eq!((queued(&mut pair), so_error(&mut pair)), (Err(Errno::EAGAIN), 111));
    let connect = |address| Syscall::Connect { fd: 3, address };
    assert_eq!(pair.value(CLIENT, connect(address("10.0.0.1:54"))), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 7)), Ok(7));
    assert_eq!(pair.value(CLIENT, connect(Address::Unspecified)), Ok(0));
    assert_eq!(so_error(&mut pair), 111);
    assert_eq!(pair.value(CLIENT, to(3, 7, "10.0.0.1:53")), Ok(7), "with a new port");
}

/// `ip_local_error`, `ipv6_local_error`: what is longer than may be sent is in the queue, and no error of the socket.
/// Over IPv4 the port is the peer's alone. How long that is goes by `IP_MTU_DISCOVER`.
#[test]
fn oversized_datagrams_are_reported_in_the_error_queue() {
    let (v4, v6) = ("[::ffff:10.0.0.1]", "[fd00::1]");
    let options = |ip: &str| {
        if ip == v4 {
            (number::SOL_IP, number::IP_RECVERR, number::IP_MTU_DISCOVER)
        } else {
            (number::SOL_IPV6, number::IPV6_RECVERR, number::IPV6_MTU_DISCOVER)
        }
    };
    for (ip, how, connected, len, expected) in [
        (v4, number::IP_PMTUDISC_DONT, false, 65_507, None),
        (v4, number::IP_PMTUDISC_DONT, false, 65_508, Some(0)),
        (v4, number::IP_PMTUDISC_WANT, false, 1_473, None),
        (v4, number::IP_PMTUDISC_DO, false, 1_472, None),
        (v4, number::IP_PMTUDISC_DO, false, 1_473, Some(0)),
        (v4, number::IP_PMTUDISC_PROBE, true, 1_473, Some(99)),
        (v4, number::IP_PMTUDISC_INTERFACE, true, 1_473, Some(99)),
        (v4, number::IP_PMTUDISC_OMIT, true, 1_473, None),
        (v6, number::IP_PMTUDISC_DONT, false, 65_527, None),
        (v6, number::IP_PMTUDISC_DONT, false, 66_000, Some(99)),
        (v6, number::IP_PMTUDISC_DO, false, 1_452, None),
        (v6, number::IP_PMTUDISC_DO, false, 1_453, Some(99)),
        (v6, number::IP_PMTUDISC_INTERFACE, false, 1_453, Some(99)),
        (v6, number::IP_PMTUDISC_OMIT, false, 1_453, None),
    ] {
        let what = format!("{ip} {how} {len}");
        let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
        assert_eq!(pair.value(SERVER, udp(number::AF_INET6)), Ok(4));
        let bind = Syscall::Bind { fd: 4, address: address("[::]:99") };
        assert_eq!(pair.value(SERVER, bind), Ok(0));
        let (level, recverr, discovery) = options(ip);
        pair.set(CLIENT, 3, level, discovery, how);
        pair.set(CLIENT, 3, level, recverr, 1);
        let remote = format!("{ip}:99");
        if connected {
            let connect = Syscall::Connect { fd: 3, address: address(&remote) };
            assert_eq!(pair.value(CLIENT, connect), Ok(0));
        }
        let sent = pair.value(CLIENT, to(3, len, &remote));
        assert_eq!(sent.is_err(), expected.is_some(), "{what}");
        assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR), 0, "{what}");
        let queued = pair.returned(CLIENT, Syscall::recv(3, 10, number::MSG_ERRQUEUE));
        let Some(port) = expected else {
            assert_eq!(queued, Err(Errno::EAGAIN), "{what}");
            continue;
        };
        let Ok(Return { value: 0, data: Data::Message(message) }) = queued else {
            panic!("{what}: {queued:?}")
        };
        assert_eq!(message.from.map(|from| from.port()), Some(port), "{what}");
        let error = ExtendedError {
            errno: 90,
            origin: number::SO_EE_ORIGIN_LOCAL as u8,
            info: 1_500,
            ipv6: true,
            ..ExtendedError::default()
        };
        assert_eq!(message.control, [Control::ExtendedError(error)], "{what}");
    }
}

/// Which error comes first, and whether the one that waits is taken by it: seen on Linux 6.18.
#[test]
fn errors_of_sending_have_an_order() {
    let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
    assert_eq!(pair.value(CLIENT, to(3, 1 << 40, "[fd00::1]:53")), Err(Errno::EMSGSIZE));
    let far = "192.0.2.1:5";
    for (len, remote, first, taken) in [
        (10, far, Errno::ENETUNREACH, false),
        (2_000, "10.0.0.1:5", Errno::EMSGSIZE, false),
        (66_000, "10.0.0.1:5", Errno::EMSGSIZE, false),
        (10, "10.0.0.1:0", Errno::EINVAL, false),
        (10, "10.0.0.1:5", Errno::ECONNREFUSED, true),
    ] {
        for shut in [false, true] {
            let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
            let (level, name) = (number::SOL_IP, number::IP_MTU_DISCOVER);
            pair.set(CLIENT, 3, level, name, number::IP_PMTUDISC_DO);
            let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:54") };
            assert_eq!(pair.value(CLIENT, connect), Ok(0));
            assert_eq!(pair.value(CLIENT, Syscall::write(3, 7)), Ok(7));
            if shut {
                let shutdown = Syscall::Shutdown { fd: 3, how: number::SHUT_WR };
                assert_eq!(pair.value(CLIENT, shutdown), Ok(0));
            }
            assert_eq!(pair.value(CLIENT, to(3, len, remote)), Err(first), "{remote} {len}");
            let left = pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR);
            assert_eq!(left, if taken { 0 } else { 111 }, "{remote} {len}");
            if shut && taken {
                assert_eq!(pair.value(CLIENT, to(3, len, remote)), Err(Errno::EPIPE));
            }
        }
    }
}

/// `SO_DONTROUTE` and `MSG_DONTROUTE`: neighbours only, over IPv4 (`ip_sock_rt_scope`).
#[test]
fn so_dontroute_reaches_only_neighbours() {
    use crate::fib::{NextHop, Prefix, Route};
    for (message_flag, remote, expected) in [
        (false, "[::ffff:10.3.0.1]:53", Err(Errno::ENETUNREACH)),
        (false, "[::ffff:10.0.0.1]:53", Ok(1)),
        (false, "[fd03::1]:53", Ok(1)),
        (true, "[::ffff:10.3.0.1]:53", Err(Errno::ENETUNREACH)),
        (true, "[::ffff:10.0.0.1]:53", Ok(1)),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
        for (prefix, gateway) in [("10.3.0.0/16", "10.0.0.1"), ("fd03::/64", "fd00::1")] {
            let prefix: Prefix = prefix.parse().expect("a prefix");
            let hop = NextHop::new(0, Some(gateway.parse().expect("an address")));
            pair.hosts[CLIENT].fib_mut().append(Route::new(prefix, vec![hop])).expect("a route");
        }
        let flags = if message_flag { number::MSG_DONTROUTE } else { 0 };
        if !message_flag {
            pair.set(CLIENT, 3, number::SOL_SOCKET, number::SO_DONTROUTE, 1);
        }
        let message = Message { address: address(remote), iov: 1.into(), control: Vec::new() };
        let sent = pair.value(CLIENT, Syscall::Send { fd: 3, message, flags });
        assert_eq!(sent, expected, "{remote}");
    }
}

/// A flow label that is told with an address goes with `IPV6_FLOWINFO_SEND`, as Linux 6.18 was seen to do.
#[test]
fn datagrams_have_the_requested_flow_label() {
    let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
    let level = number::SOL_IPV6;
    assert_eq!(pair.get(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL), 1);
    let at = |flowinfo| {
        let ip = "fd00::1".parse().expect("an address");
        Address::Inet(core::net::SocketAddrV6::new(ip, 53, flowinfo, 0).into())
    };
    let label_of = |pair: &mut Pair, address| {
        pair.sent(CLIENT);
        let message = Message { address, iov: 10.into(), control: Vec::new() };
        let send = Syscall::Send { fd: 3, message, flags: 0 };
        assert_eq!(pair.value(CLIENT, send), Ok(10));
        let packet = pair.sent(CLIENT).into_iter().next().expect("a datagram");
        let crate::packet::Network::Ipv6(ip) = packet.network else { panic!("IPv6") };
        ip.flow_label.get()
    };
    pair.set(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL, 0);
    assert_eq!(label_of(&mut pair, at(0)), 0);
    assert_eq!(label_of(&mut pair, at(0x12345)), 0, "not asked for");
    pair.set(CLIENT, 3, level, number::IPV6_FLOWINFO_SEND, 1);
    assert_eq!(label_of(&mut pair, at(0x12345)), 0x12345);
    assert_eq!(label_of(&mut pair, at(0x301_2345)), 0x12345, "the class is no part of it");
    let connect = Syscall::Connect { fd: 3, address: at(0x54321) };
    assert_eq!(pair.value(CLIENT, connect), Ok(0));
    assert_eq!(label_of(&mut pair, Address::Null), 0x54321);
    pair.set(CLIENT, 3, level, number::IPV6_FLOWINFO_SEND, 0);
    assert_eq!(label_of(&mut pair, Address::Null), 0x54321);
}

/// As Linux 6.18 was seen to label them: without a connection by addresses and ports, else by a number that `connect`
/// draws; `auto_flowlabels` and `IPV6_AUTOFLOWLABEL` say whether.
#[test]
fn datagrams_have_flow_labels_by_themselves() {
    let level = number::SOL_IPV6;
    let to = |port| Address::Inet(SocketAddr::new("fd00::1".parse().expect("one"), port));
    for (mode, usual, asked, refused) in [
        (0, false, false, false),
        (1, true, true, false),
        (2, false, true, false),
        (3, true, true, true),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
        pair.hosts[CLIENT]
            .set_tcp_sysctl("net.ipv6.auto_flowlabels", &mode.to_string())
            .expect("one of its values");
        let label_of = |pair: &mut Pair, address| {
            pair.sent(CLIENT);
            let message = Message { address, iov: 10.into(), control: Vec::new() };
            assert_eq!(pair.value(CLIENT, Syscall::Send { fd: 3, message, flags: 0 }), Ok(10));
            let packet = pair.sent(CLIENT).into_iter().next().expect("a datagram");
            let crate::packet::Network::Ipv6(ip) = packet.network else { panic!("IPv6") };
            ip.flow_label.get()
        };
        let read = pair.get(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL);
        assert_eq!(read, i64::from(mode & 1), "{mode}");
        let first = label_of(&mut pair, to(53));
        assert_eq!(first != 0, usual, "{mode}");
        assert_eq!(label_of(&mut pair, to(53)), first);
        assert_eq!(label_of(&mut pair, to(54)) != first, usual);
        pair.set(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL, 1);
        assert_eq!(label_of(&mut pair, to(53)) != 0, asked, "{mode}");
        pair.set(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL, 0);
        assert_eq!(label_of(&mut pair, to(53)) != 0, refused, "{mode}");
        pair.set(CLIENT, 3, level, number::IPV6_AUTOFLOWLABEL, 1);
        let connect = Syscall::Connect { fd: 3, address: to(53) };
        assert_eq!(pair.value(CLIENT, connect.clone()), Ok(0));
        let connected = label_of(&mut pair, Address::Null);
        assert_eq!(label_of(&mut pair, Address::Null), connected);
        assert_eq!(label_of(&mut pair, to(54)), connected, "whoever it is for");
        assert_eq!(pair.value(CLIENT, connect), Ok(0));
        assert_eq!(label_of(&mut pair, Address::Null) != connected, asked, "another connection");
        assert_eq!(connected != first, asked);
    }
}
