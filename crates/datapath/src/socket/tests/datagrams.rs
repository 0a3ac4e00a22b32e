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
fn a_connected_socket_hears_only_its_peer() {
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
fn a_socket_of_both_families_hears_both() {
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
fn one_of_ipv6_alone_leaves_ipv4_to_others() {
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
fn what_is_asked_for_is_told_of_what_is_read() {
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
fn what_is_too_long_is_told_in_the_queue() {
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
fn who_must_not_route_reaches_neighbours_only() {
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

/// Departure 43 of docs/LINUX.md.
#[test]
fn datagrams_have_no_flow_label() {
    let mut pair = Pair::datagrams(number::AF_INET6, "[::]:53");
    let (level, name) = (number::SOL_IPV6, number::IPV6_AUTOFLOWLABEL);
    assert_eq!(pair.get(CLIENT, 3, level, name), 1);
    assert_eq!(pair.value(CLIENT, to(3, 10, "[fd00::1]:53")), Ok(10));
    let packet = pair.sent(CLIENT).into_iter().next().expect("a datagram");
    let crate::packet::Network::Ipv6(ip) = packet.network else { panic!("IPv6") };
    assert_eq!(ip.flow_label.get(), 0);
}

/// Departure 44 of docs/LINUX.md.
#[test]
fn udp_gro_joins_nothing() {
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(SERVER, 3, number::SOL_UDP, number::UDP_GRO, 1);
    let sent = pair.value(CLIENT, with(25, "10.0.0.1:53", &[Control::UdpSegment(10)]));
    assert_eq!(sent, Ok(25));
    let (len, message) = pair.received(SERVER, 100);
    assert_eq!((len, message.control), (10, vec![]));
}

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
