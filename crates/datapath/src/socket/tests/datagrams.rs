//! UDP sockets: who hears what, and which call fails how.

use super::*;

fn udp(domain: i32) -> Syscall {
    Syscall::Socket { domain, kind: number::SOCK_DGRAM | number::SOCK_NONBLOCK, protocol: 0 }
}

fn to(fd: Fd, len: u64, remote: &str) -> Syscall {
    let message = Message { address: address(remote), iov: len.into(), control: Vec::new() };
    Syscall::Send { fd, message, flags: 0 }
}

impl Pair {
    /// A server bound to port 53, and a client, both at 3.
    fn datagrams(domain: i32, local: &str) -> Self {
        let mut pair = Self::new();
        for who in [SERVER, CLIENT] {
            assert_eq!(pair.value(who, udp(domain)), Ok(3));
        }
        assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address(local) }), Ok(0));
        pair
    }

    fn received(&mut self, who: usize, room: u64) -> (i64, Received) {
        let returned = self.returned(who, Syscall::recv(3, room, 0)).expect("a datagram");
        let Data::Message(message) = returned.data else { panic!("a message") };
        (returned.value, message)
    }
}

#[test]
fn a_question_and_an_answer() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    assert_eq!(pair.value(SERVER, Syscall::read(3, 10)), Err(Errno::EAGAIN));
    assert_eq!(pair.value(CLIENT, to(3, 100, "10.0.0.1:53")), Ok(100));
    let (len, asked) = pair.received(SERVER, 1_000);
    let from = asked.from.expect("somebody");
    assert_eq!((len, from.ip().to_string().as_str()), (100, "10.0.0.2"));
    assert!((32_768..61_000).contains(&from.port()), "a port was chosen: {from}");
    assert_eq!(pair.value(SERVER, to(3, 2_000, &from.to_string())), Ok(2_000), "in fragments");
    let (len, answer) = pair.received(CLIENT, 500);
    assert_eq!((len, answer.flags), (500, number::MSG_TRUNC));
    assert_eq!(answer.from, Some("10.0.0.1:53".parse().expect("an address")));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 500)), Err(Errno::EAGAIN), "the rest is lost");
}

#[test]
fn a_connected_socket_receives_only_from_its_peer() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    let connect = |remote: &str| Syscall::Connect { fd: 3, address: address(remote) };
    assert_eq!(pair.value(CLIENT, connect("10.0.0.1:53")), Ok(0));
    let named = |pair: &mut Pair, syscall: Syscall| match pair.returned(CLIENT, syscall) {
        Ok(Return { data: Data::Address(address), .. }) => Ok(address),
        Ok(_) => panic!("an address"),
        Err(error) => Err(error),
    };
    let local = named(&mut pair, Syscall::LocalName { fd: 3 }).expect("bound by connect");
    assert_eq!(local.ip().to_string(), "10.0.0.2");
    assert_eq!(
        named(&mut pair, Syscall::PeerName { fd: 3 }),
        Ok("10.0.0.1:53".parse().expect("an address"))
    );
    // Another port of the same host is somebody else.
    assert_eq!(pair.value(SERVER, udp(number::AF_INET)), Ok(4));
    assert_eq!(pair.value(SERVER, to(4, 10, &local.to_string())), Ok(10));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 100)), Err(Errno::EAGAIN));
    assert_eq!(pair.hosts[CLIENT].snmp(false).udp_no_ports, 1);
    assert_eq!(pair.value(SERVER, to(3, 20, &local.to_string())), Ok(20));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 100)), Ok(20));
    // Dissolved, it has no port any more.
    let dissolve = Syscall::Connect { fd: 3, address: Address::Unspecified };
    assert_eq!(pair.value(CLIENT, dissolve), Ok(0));
    assert_eq!(named(&mut pair, Syscall::PeerName { fd: 3 }), Err(Errno::ENOTCONN));
    assert_eq!(named(&mut pair, Syscall::LocalName { fd: 3 }).map(|it| it.port()), Ok(0));
}

#[test]
fn a_dual_stack_socket_receives_both_families() {
    let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
    for (remote, shown) in
        [("[::ffff:10.0.0.1]:53", "::ffff:10.0.0.2"), ("[fd00::1]:53", "fd00::2")]
    {
        assert_eq!(pair.value(CLIENT, to(3, 10, remote)), Ok(10));
        let (len, message) = pair.received(SERVER, 100);
        let from = message.from.expect("somebody");
        assert_eq!((len, from.ip().to_string().as_str()), (10, shown));
    }
    // The port is taken in both families.
    assert_eq!(pair.value(SERVER, udp(number::AF_INET)), Ok(4));
    let bind = Syscall::Bind { fd: 4, address: address("0.0.0.0:53") };
    assert_eq!(pair.value(SERVER, bind), Err(Errno::EADDRINUSE));
}

#[test]
fn a_v6only_socket_leaves_ipv4_to_others() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(SERVER, udp(number::AF_INET6)), Ok(3));
    pair.set(SERVER, 3, number::SOL_IPV6, number::IPV6_V6ONLY, 1);
    assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address("[::]:53") }), Ok(0));
    assert_eq!(pair.value(SERVER, udp(number::AF_INET)), Ok(4));
    let bind = Syscall::Bind { fd: 4, address: address("0.0.0.0:53") };
    assert_eq!(pair.value(SERVER, bind), Ok(0));
    assert_eq!(pair.value(SERVER, to(3, 1, "[::ffff:10.0.0.2]:9")), Err(Errno::ENETUNREACH));
}

#[test]
fn wrong_arguments_have_the_errno_of_linux() {
    let mut pair = Pair::datagrams(number::AF_INET, "10.0.0.1:53");
    let bind = |remote: &str| Syscall::Bind { fd: 3, address: address(remote) };
    for (who, syscall, errno) in [
        (SERVER, bind("10.0.0.1:54"), Errno::EINVAL),
        (CLIENT, bind("10.9.9.9:54"), Errno::EADDRNOTAVAIL),
        (CLIENT, bind("[::]:54"), Errno::EAFNOSUPPORT),
        (CLIENT, Syscall::Listen { fd: 3, backlog: 1 }, Errno::EOPNOTSUPP),
        (CLIENT, Syscall::Accept { fd: 3, flags: 0 }, Errno::EOPNOTSUPP),
        (CLIENT, Syscall::write(3, 10), Errno::EDESTADDRREQ),
        (CLIENT, to(3, 10, "10.0.0.1:0"), Errno::EINVAL),
        (CLIENT, to(3, 10, "[fd00::1]:53"), Errno::EAFNOSUPPORT),
        (CLIENT, to(3, 65_508, "10.0.0.1:53"), Errno::EMSGSIZE),
        (CLIENT, to(3, 70_000, "10.0.0.1:53"), Errno::EMSGSIZE),
        (CLIENT, to(3, 10, "192.0.2.1:53"), Errno::ENETUNREACH),
        (CLIENT, Syscall::Shutdown { fd: 3, how: 9 }, Errno::EINVAL),
        (CLIENT, Syscall::PeerName { fd: 3 }, Errno::ENOTCONN),
        (CLIENT, Syscall::get(3, number::SOL_TCP, number::TCP_NODELAY), Errno::EOPNOTSUPP),
        (CLIENT, Syscall::set(3, number::SOL_IP, number::IP_TTL, 256), Errno::EINVAL),
        (CLIENT, Syscall::set(3, number::SOL_IP, number::IP_MTU_DISCOVER, 9), Errno::EINVAL),
    ] {
        let what = format!("{syscall:?}");
        assert_eq!(pair.value(who, syscall), Err(errno), "{what}");
    }
    let raw = Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 6 };
    assert_eq!(pair.value(CLIENT, raw), Err(Errno::EPROTONOSUPPORT));
}

#[test]
fn readiness_follows_datagrams_and_errors() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    let poll = |pair: &mut Pair, who: usize| {
        let fds = vec![PollFd { fd: 3, events: number::POLLIN | number::POLLOUT }];
        match pair.returned(who, Syscall::Poll { fds, timeout_ms: 0 }) {
            Ok(Return { data: Data::Polled(events), .. }) => events[0],
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pair.value(SERVER, Syscall::EpollCreate1 { flags: 0 }), Ok(4));
    let event = EpollEvent { events: number::EPOLLIN | number::EPOLLET, data: 7 };
    let (epfd, op) = (4, number::EPOLL_CTL_ADD);
    let add = Syscall::EpollCtl { epfd, op, fd: 3, event: Some(event) };
    assert_eq!(pair.value(SERVER, add), Ok(0));
    let wait = || Syscall::EpollWait { epfd: 4, max_events: 8, timeout_ms: 0 };
    assert_eq!(pair.value(SERVER, wait()), Ok(0));
    assert_eq!(poll(&mut pair, SERVER), number::POLLOUT);
    assert_eq!(pair.value(CLIENT, to(3, 10, "10.0.0.1:53")), Ok(10));
    assert_eq!(poll(&mut pair, SERVER), number::POLLIN | number::POLLOUT);
    assert_eq!(pair.value(SERVER, wait()), Ok(1), "an edge");
    assert_eq!(pair.value(SERVER, wait()), Ok(0), "the same edge");
    assert_eq!(pair.value(CLIENT, to(3, 10, "10.0.0.1:53")), Ok(10));
    assert_eq!(pair.value(SERVER, wait()), Ok(1), "another");
    // Nobody has that port: the error is there to read, once.
    let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:54") };
    assert_eq!(pair.value(CLIENT, connect), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    assert_eq!(poll(&mut pair, CLIENT), number::POLLOUT | number::POLLERR);
    assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR), 111);
    assert_eq!(poll(&mut pair, CLIENT), number::POLLOUT);
}

#[test]
fn options_take_effect_on_what_is_sent_and_received() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_TOS, 0x28);
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_TTL, 9);
    pair.set(SERVER, 3, number::SOL_IP, number::IP_RECVTOS, 1);
    pair.set(SERVER, 3, number::SOL_IP, number::IP_RECVTTL, 1);
    assert_eq!(pair.value(CLIENT, to(3, 10, "10.0.0.1:53")), Ok(10));
    let (_, message) = pair.received(SERVER, 100);
    assert_eq!(message.control, [Control::IpTtl(9), Control::IpTos(0x28)]);
    pair.set(SERVER, 3, number::SOL_SOCKET, number::SO_RCVBUF, 1);
    assert_eq!(pair.get(SERVER, 3, number::SOL_SOCKET, number::SO_RCVBUF), 2_304);
    for _ in 0..4 {
        assert_eq!(pair.value(CLIENT, to(3, 1_000, "10.0.0.1:53")), Ok(1_000));
    }
    assert_eq!(pair.hosts[SERVER].snmp(false).udp_rcvbuf_errors, 3);
    let inq = Syscall::Ioctl { fd: 3, request: number::SIOCINQ, argument: 0 };
    let asked = pair.returned(SERVER, inq).expect("a number");
    assert_eq!(asked.data, Data::Number(1_000));
}

/// ICMP errors with what they are about, for those who have asked (`IP_RECVERR`).
#[test]
fn errors_come_with_their_datagram() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_RECVERR, 1);
    assert_eq!(pair.value(CLIENT, to(3, 100, "10.0.0.1:54")), Ok(100));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 10)), Err(Errno::ECONNREFUSED));
    let told = pair.returned(CLIENT, Syscall::recv(3, 10, number::MSG_ERRQUEUE)).expect("one");
    let Data::Message(message) = told.data else { panic!("a message") };
    assert_eq!(told.value, 10, "as much of the datagram as fits");
    assert_eq!(message.flags, number::MSG_ERRQUEUE | number::MSG_TRUNC);
    assert_eq!(message.from, Some("10.0.0.1:54".parse().expect("an address")));
    let [Control::ExtendedError(error)] = message.control[..] else { panic!("an error") };
    assert_eq!((error.errno, error.origin, error.kind, error.code), (111, 2, 3, 3));
    let again = Syscall::recv(3, 10, number::MSG_ERRQUEUE);
    assert_eq!(pair.value(CLIENT, again), Err(Errno::EAGAIN));
}

#[test]
fn a_datagram_is_gathered_piece_by_piece() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    let more = |len: u64, remote: &str, flags| {
        let message = Message { address: address(remote), iov: len.into(), control: Vec::new() };
        Syscall::Send { fd: 3, message, flags }
    };
    assert_eq!(pair.value(CLIENT, more(100, "10.0.0.1:53", number::MSG_MORE)), Ok(100));
    assert_eq!(pair.value(SERVER, Syscall::read(3, 1_000)), Err(Errno::EAGAIN), "not yet");
    assert_eq!(pair.value(CLIENT, more(10, "10.0.0.1:99", 0)), Ok(10), "whoever is named now");
    assert_eq!(pair.value(SERVER, Syscall::read(3, 1_000)), Ok(110));
    assert_eq!(pair.value(CLIENT, more(60_000, "10.0.0.1:53", number::MSG_MORE)), Ok(60_000));
    assert_eq!(pair.value(CLIENT, more(6_000, "10.0.0.1:53", 0)), Err(Errno::EMSGSIZE));
    assert_eq!(pair.value(CLIENT, more(7, "10.0.0.1:53", 0)), Ok(7), "what there was is lost");
    assert_eq!(pair.value(SERVER, Syscall::read(3, 100_000)), Ok(7));
}

/// A datagram with control messages.
fn with(len: u64, remote: &str, control: &[Control]) -> Syscall {
    let (address, control) = (address(remote), control.to_vec());
    Syscall::Send { fd: 3, message: Message { address, iov: len.into(), control }, flags: 0 }
}

/// Each told apart, in the kernel's order; of what comes over IPv4 an IPv6 socket tells both families' addresses. As
/// Linux 6.18 was seen to do.
#[test]
fn requested_control_messages_come_with_datagrams() {
    let ipv4 = [
        (number::SOL_IP, number::IP_RECVORIGDSTADDR),
        (number::SOL_IP, number::IP_RECVTOS),
        (number::SOL_IP, number::IP_RECVTTL),
        (number::SOL_IP, number::IP_PKTINFO),
    ];
    let ipv6 = [
        (number::SOL_IPV6, number::IPV6_RECVORIGDSTADDR),
        (number::SOL_IPV6, number::IPV6_RECVTCLASS),
        (number::SOL_IPV6, number::IPV6_RECVHOPLIMIT),
        (number::SOL_IPV6, number::IPV6_RECVPKTINFO),
    ];
    let socket = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let of_ipv4 = [
        Control::IpPktInfo {
            interface: 2,
            spec_dst: [10, 0, 0, 1].into(),
            addr: [10, 0, 0, 1].into(),
        },
        Control::IpTtl(64),
        Control::IpTos(0),
        Control::IpOrigDstAddr(socket("10.0.0.1:53")),
    ];
    let mapped = core::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
    let mapped = Control::Ipv6PktInfo { addr: mapped, interface: 2 };
    let of_ipv6 = [
        Control::Ipv6PktInfo { addr: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), interface: 2 },
        Control::Ipv6HopLimit(64),
        Control::Ipv6TrafficClass(0),
        Control::Ipv6OrigDstAddr(socket("[fd00::1]:53")),
    ];
    let (v4, v6) = (number::AF_INET, number::AF_INET6);
    for (domain, local, remote, told) in [
        (v4, "0.0.0.0:53", "10.0.0.1:53", of_ipv4.to_vec()),
        (v6, "[::]:53", "[::ffff:10.0.0.1]:53", [&[mapped][..], &of_ipv4].concat()),
        (v6, "[::]:53", "[fd00::1]:53", of_ipv6.to_vec()),
    ] {
        let mut pair = Pair::datagrams(domain, local);
        for (level, name) in ipv4.iter().chain(ipv6.iter().filter(|_| domain == v6)).copied() {
            assert_eq!(pair.get(SERVER, 3, level, name), 0);
            pair.set(SERVER, 3, level, name, 5);
            assert_eq!(pair.get(SERVER, 3, level, name), 1);
        }
        assert_eq!(pair.value(CLIENT, to(3, 10, remote)), Ok(10));
        assert_eq!(pair.received(SERVER, 100).1.control, told, "{remote}");
    }
}

/// What one datagram is sent with, or why it is not, as Linux 6.18 was seen to do.
#[test]
fn control_messages_hold_for_one_datagram() {
    let (other, local) = (
        |level, kind, value| Control::Other { level, kind, value },
        |text: &str| text.parse::<core::net::Ipv6Addr>().expect("an address"),
    );
    let from = |spec_dst: [u8; 4], interface| Control::IpPktInfo {
        interface,
        spec_dst: spec_dst.into(),
        addr: [0, 0, 0, 0].into(),
    };
    let from_v6 = |text: &str, interface| Control::Ipv6PktInfo { addr: local(text), interface };
    // What is sent, over which family, and TOS and TTL of the packet.
    let (invalid, v4, v6) = (Err(Errno::EINVAL), "[::ffff:10.0.0.1]:53", "[fd00::1]:53");
    for (remote, control, expected) in [
        (v4, Control::IpTtl(7), Ok((0, 7))),
        (v4, Control::IpTtl(0), invalid),
        (v4, Control::IpTtl(256), invalid),
        (v4, Control::IpTtl(-1), invalid),
        (v4, Control::IpTos(0x28), Ok((0x28, 64))),
        (v4, other(number::SOL_IP, number::IP_TOS, 256), invalid),
        (v4, Control::Ipv6HopLimit(300), Ok((0, 64))),
        (v4, Control::Ipv6TrafficClass(0x30), Ok((0, 64))),
        (v4, from([10, 0, 0, 2], 0), Ok((0, 64))),
        (v4, from([10, 9, 9, 9], 0), Err(Errno::ENETUNREACH)),
        (v4, from([0, 0, 0, 0], 77), Err(Errno::ENODEV)),
        (v4, other(number::SOL_IP, 99, 1), invalid),
        (v4, other(number::SOL_IPV6, 99, 1), Ok((0, 64))),
        (v4, other(number::SOL_SOCKET, 99, 1), invalid),
        (v4, other(number::SOL_UDP, 99, 1), invalid),
        (v4, other(number::SOL_TCP, 99, 1), Ok((0, 64))),
        (v6, Control::Ipv6HopLimit(9), Ok((0, 9))),
        (v6, Control::Ipv6HopLimit(0), Ok((0, 0))),
        (v6, Control::Ipv6HopLimit(-1), Ok((0, 64))),
        (v6, Control::Ipv6HopLimit(256), invalid),
        (v6, Control::Ipv6HopLimit(-2), invalid),
        (v6, Control::Ipv6TrafficClass(0x30), Ok((0x30, 64))),
        (v6, Control::Ipv6TrafficClass(-1), Ok((0xff, 64))),
        (v6, Control::Ipv6TrafficClass(256), invalid),
        (v6, Control::IpTtl(0), Ok((0, 64))),
        (v6, from_v6("fd00::2", 0), Ok((0, 64))),
        (v6, from_v6("fd00::9", 0), invalid),
        (v6, from_v6("::ffff:10.0.0.2", 0), invalid),
        (v6, from_v6("::", 77), Err(Errno::ENODEV)),
        (v6, other(number::SOL_IP, 99, 1), Ok((0, 64))),
        (v6, other(number::SOL_IPV6, 99, 1), invalid),
        (v6, other(number::SOL_SOCKET, 99, 1), invalid),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
        pair.sent(CLIENT);
        let sent = pair.value(CLIENT, with(10, remote, &[control]));
        assert_eq!(sent, expected.map(|_| 10), "{remote} {control:?}");
        let packets = pair.sent(CLIENT);
        let had = packets.first().map(|packet| (packet.network.tos(), packet.network.ttl()));
        assert_eq!(had, expected.ok(), "{remote} {control:?}");
        // The next one goes as always.
        assert_eq!(pair.value(CLIENT, with(10, remote, &[])), Ok(10));
        let packets = pair.sent(CLIENT);
        let network = packets.first().expect("a packet").network;
        assert_eq!((network.tos(), network.ttl()), (0, 64));
    }
}

/// `UDP_SEGMENT`, as option and as control message: many datagrams of one call.
#[test]
fn one_call_sends_many_datagrams() {
    for (option, control, len, expected) in [
        (0, Some(10), 25, Ok(&[10, 10, 5][..])),
        (10, None, 25, Ok(&[10, 10, 5])),
        (10, Some(0), 25, Ok(&[25])),
        (10, None, 10, Ok(&[10])),
        (10, None, 9, Ok(&[9])),
        (1, None, 129, Err(Errno::EINVAL)),
        (1_472, None, 2_000, Ok(&[1_472, 528])),
        (1_473, None, 5_000, Err(Errno::EMSGSIZE)),
        (1_473, None, 1_473, Err(Errno::EMSGSIZE)),
        (2_000, None, 1_000, Ok(&[1_000])),
        (1_000, None, 65_508, Err(Errno::EMSGSIZE)),
        (9_000, None, 8_000, Err(Errno::EMSGSIZE)),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
        pair.set(CLIENT, 3, number::SOL_UDP, number::UDP_SEGMENT, option);
        assert_eq!(pair.get(CLIENT, 3, number::SOL_UDP, number::UDP_SEGMENT), option.into());
        let control: Vec<_> = control.map(Control::UdpSegment).into_iter().collect();
        let sent = pair.value(CLIENT, with(len, "10.0.0.1:53", &control));
        assert_eq!(sent, expected.map(|_| len as i64), "{option} {control:?} {len}");
        for one in expected.unwrap_or(&[]) {
            assert_eq!(pair.received(SERVER, 70_000).0, *one, "{option} {control:?} {len}");
        }
        assert_eq!(pair.value(SERVER, Syscall::read(3, 10)), Err(Errno::EAGAIN));
    }
}

/// `UDP_CORK` gathers until it is taken off, and goes by the control messages of the first piece.
#[test]
fn a_corked_datagram_waits_for_the_end_of_the_cork() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(SERVER, 3, number::SOL_IP, number::IP_RECVTTL, 1);
    let cork = |pair: &mut Pair, on| pair.set(CLIENT, 3, number::SOL_UDP, number::UDP_CORK, on);
    cork(&mut pair, 1);
    assert_eq!(pair.value(CLIENT, with(3, "10.0.0.1:53", &[Control::IpTtl(9)])), Ok(3));
    assert_eq!(pair.value(CLIENT, with(4, "10.0.0.9:53", &[Control::IpTtl(8)])), Ok(4));
    assert_eq!(pair.value(SERVER, Syscall::read(3, 10)), Err(Errno::EAGAIN));
    cork(&mut pair, 0);
    let (len, message) = pair.received(SERVER, 100);
    assert_eq!((len, message.control), (7, vec![Control::IpTtl(9)]));
    // Nothing was gathered: nothing is sent. A datagram of no bytes is one.
    cork(&mut pair, 1);
    cork(&mut pair, 0);
    assert_eq!(pair.value(SERVER, Syscall::read(3, 10)), Err(Errno::EAGAIN));
    cork(&mut pair, 1);
    assert_eq!(pair.value(CLIENT, to(3, 0, "10.0.0.1:53")), Ok(0));
    cork(&mut pair, 0);
    assert_eq!(pair.received(SERVER, 100).0, 0);
    // What `MSG_MORE` has gathered goes as well.
    let message = Message { address: address("10.0.0.1:53"), iov: 5.into(), control: Vec::new() };
    let more = Syscall::Send { fd: 3, message, flags: number::MSG_MORE };
    assert_eq!(pair.value(CLIENT, more), Ok(5));
    cork(&mut pair, 0);
    assert_eq!(pair.received(SERVER, 100).0, 5);
}

mod errors;
mod options;
mod ports;
mod together;
