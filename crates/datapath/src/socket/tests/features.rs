//! What options and flags do.

mod opening;

use super::*;
use crate::packet::TcpFlags;
use crate::tcp::state::State;

fn flags_of(packets: &[Packet]) -> Vec<TcpFlags> {
    packets.iter().filter_map(|packet| packet.tcp().map(|tcp| tcp.flags)).collect()
}

fn state(pair: &mut Pair, who: usize, fd: Fd) -> State {
    let returned = pair.returned(who, Syscall::get(fd, number::SOL_TCP, number::TCP_INFO));
    returned.expect("TCP_INFO").tcp_info().expect("TCP_INFO").state
}

#[test]
fn signed_segments_need_the_same_key_at_both_ends() {
    for (theirs, passes) in [(&b"secret"[..], true), (&b"guess"[..], false), (&b""[..], false)] {
        let mut pair = Pair::new();
        let key = |address: &str, key: &[u8]| Syscall::SetOption {
            fd: 3,
            level: number::SOL_TCP,
            name: number::TCP_MD5SIG,
            value: OptionValue::Md5(Md5Signature {
                address: address.parse().expect("an address"),
                prefix_len: None,
                key: key.to_vec(),
            }),
            len: 216,
        };
        pair.listen(8);
        assert_eq!(pair.value(SERVER, key("10.0.0.2:0", b"secret")), Ok(0));
        assert_eq!(pair.value(CLIENT, socket()), Ok(3));
        if !theirs.is_empty() {
            assert_eq!(pair.value(CLIENT, key("10.0.0.1:0", theirs)), Ok(0));
        }
        let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:80") };
        let (mut call, _) = pair.begin(CLIENT, connect);
        let outcome = pair.again(CLIENT, &mut call);
        assert_eq!(outcome.is_ready(), passes, "key {theirs:?}");
        if passes {
            assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
            assert_eq!(pair.value(CLIENT, Syscall::write(3, 5_000)), Ok(5_000));
            assert_eq!(pair.value(SERVER, Syscall::read(4, 9_000)), Ok(5_000));
        } else {
            let mib = pair.mib(SERVER);
            assert_eq!(mib.md5_failure + mib.md5_not_found, 1);
        }
    }
}

#[test]
fn keepalive_ends_a_connection_with_a_dead_peer() {
    let mut pair = Pair::connected();
    for (name, value) in
        [(number::TCP_KEEPIDLE, 5), (number::TCP_KEEPINTVL, 2), (number::TCP_KEEPCNT, 3)]
    {
        pair.set(CLIENT, 3, number::SOL_TCP, name, value);
    }
    pair.set(CLIENT, 3, number::SOL_SOCKET, number::SO_KEEPALIVE, 1);
    pair.pass(Duration::from_secs(20));
    assert_eq!(state(&mut pair, CLIENT, 3), State::Established, "the peer answers");
    pair.cut[SERVER] = true;
    pair.sent(CLIENT);
    pair.pass(Duration::from_secs(14));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::ETIMEDOUT));
    let last = flags_of(&pair.sent(CLIENT)).pop();
    assert_eq!(last, Some(TcpFlags::RST | TcpFlags::ACK));
}

#[test]
fn a_user_timeout_ends_retransmissions() {
    let mut pair = Pair::connected();
    pair.set(CLIENT, 3, number::SOL_TCP, number::TCP_USER_TIMEOUT, 3_000);
    pair.cut[CLIENT] = true;
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 100)), Ok(100));
    pair.pass(Duration::from_millis(2_500));
    assert_eq!(state(&mut pair, CLIENT, 3), State::Established);
    pair.pass(Duration::from_millis(1_500));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 1)), Err(Errno::ETIMEDOUT));
}

#[test]
fn linger_of_zero_resets() {
    let mut pair = Pair::connected();
    let value = OptionValue::Linger { on: true, seconds: 0 };
    let (level, name) = (number::SOL_SOCKET, number::SO_LINGER);
    let set = Syscall::SetOption { fd: 3, level, name, value, len: 8 };
    assert_eq!(pair.value(CLIENT, set), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::Close { fd: 3 }), Ok(0));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 1)), Err(Errno::ECONNRESET));
}

#[test]
fn linger_waits_for_the_acknowledgment_or_its_end() {
    // The FIN is acknowledged after a delayed ACK at the latest.
    for (cut, waited_ms) in [(false, 0..=50), (true, 2_000..=2_000)] {
        let mut pair = Pair::connected();
        let value = OptionValue::Linger { on: true, seconds: 2 };
        let (level, name) = (number::SOL_SOCKET, number::SO_LINGER);
        let set = Syscall::SetOption { fd: 3, level, name, value, len: 8 };
        assert_eq!(pair.value(CLIENT, set), Ok(0));
        pair.cut[SERVER] = cut;
        let start = pair.now;
        let (mut close, mut outcome) = pair.begin(CLIENT, Syscall::Close { fd: 3 });
        while outcome == Poll::Pending {
            pair.pass(Duration::from_millis(10));
            outcome = pair.again(CLIENT, &mut close);
        }
        assert!(waited_ms.contains(&(pair.now - start).as_millis()), "{cut}");
    }
}

#[test]
fn urgent_data_is_out_of_band_unless_it_is_to_be_in_line() {
    for inline in [0, 1] {
        let mut pair = Pair::connected();
        pair.set(SERVER, 4, number::SOL_SOCKET, number::SO_OOBINLINE, inline);
        assert_eq!(pair.value(CLIENT, Syscall::send(3, 10, number::MSG_OOB)), Ok(10));
        let ioctl = Syscall::Ioctl { fd: 4, request: number::SIOCINQ, argument: 0 };
        let queued = pair.returned(SERVER, ioctl).expect("SIOCINQ");
        assert_eq!(queued.data, Data::Number(if inline == 1 { 10 } else { 9 }));
        assert_eq!(pair.value(SERVER, Syscall::read(4, 100)), Ok(9), "stops at the mark");
        let mark = Syscall::Ioctl { fd: 4, request: number::SIOCATMARK, argument: 0 };
        assert_eq!(pair.returned(SERVER, mark).expect("mark").data, Data::Number(1));
        if inline == 1 {
            assert_eq!(
                pair.value(SERVER, Syscall::recv(4, 1, number::MSG_OOB)),
                Err(Errno::EINVAL)
            );
            assert_eq!(pair.value(SERVER, Syscall::read(4, 100)), Ok(1));
        } else {
            assert_eq!(pair.value(SERVER, Syscall::recv(4, 1, number::MSG_OOB)), Ok(1));
            assert_eq!(pair.value(CLIENT, Syscall::write(3, 5)), Ok(5));
            assert_eq!(pair.value(SERVER, Syscall::read(4, 100)), Ok(5), "the byte is passed over");
        }
    }
}

/// As Linux 6.18 does (`tcp_check_urg`): a byte that was taken out of band is not read once more where
/// the next one follows it.
#[test]
fn a_read_urgent_byte_is_skipped_when_the_next_is_announced() {
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, Syscall::send(3, 1, number::MSG_OOB)), Ok(1));
    assert_eq!(pair.value(SERVER, Syscall::recv(4, 1, number::MSG_OOB)), Ok(1));
    assert_eq!(pair.value(CLIENT, Syscall::send(3, 1, number::MSG_OOB)), Ok(1));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 3)), Ok(3));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 100)), Ok(3), "neither urgent byte is in line");
}

#[test]
fn a_peek_leaves_what_it_sees_and_waitall_waits_for_all() {
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 100)), Ok(100));
    for _ in 0..2 {
        assert_eq!(pair.value(SERVER, Syscall::recv(4, 60, number::MSG_PEEK)), Ok(60));
    }
    let (mut call, outcome) = pair.begin(SERVER, Syscall::recv(4, 150, number::MSG_WAITALL));
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 80)), Ok(80));
    let Poll::Ready(Ok(returned)) = pair.again(SERVER, &mut call) else { panic!("all is there") };
    assert_eq!(returned.value, 150);
    assert_eq!(pair.value(SERVER, Syscall::read(4, 100)), Ok(30));
}

#[test]
fn time_stamps_tell_when_the_last_byte_left_and_arrived() {
    let mut pair = Pair::connected();
    let flags = number::SOF_TIMESTAMPING_TX_SOFTWARE
        | number::SOF_TIMESTAMPING_TX_SCHED
        | number::SOF_TIMESTAMPING_TX_ACK
        | number::SOF_TIMESTAMPING_SOFTWARE
        | number::SOF_TIMESTAMPING_OPT_ID;
    pair.set(CLIENT, 3, number::SOL_SOCKET, number::SO_TIMESTAMPING, flags);
    let wrote_at = pair.now;
    pair.cut[SERVER] = true;
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 700)), Ok(700));
    pair.cut[SERVER] = false;
    pair.pass(Duration::from_millis(600));
    let mut told = Vec::new();
    while let Ok(returned) = pair.returned(CLIENT, Syscall::recv(3, 0, number::MSG_ERRQUEUE)) {
        let Data::Message(message) = returned.data else { panic!("a message") };
        let [Control::Timestamping(at), Control::ExtendedError(error)] = message.control[..] else {
            panic!("two control messages")
        };
        told.push((error.info as i32, error.data, at));
    }
    assert_eq!(told[0], (number::SCM_TSTAMP_SCHED, 699, wrote_at));
    assert_eq!(told[1], (number::SCM_TSTAMP_SND, 699, wrote_at));
    assert_eq!((told[2].0, told[2].1), (number::SCM_TSTAMP_ACK, 699));
    assert!(told[2].2 > wrote_at);
    assert_eq!(told.len(), 3);
}

#[test]
fn options_take_effect_on_a_living_connection() {
    let mut pair = Pair::connected();
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_TOS, 0x10);
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_TTL, 9);
    pair.sent(CLIENT);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    let packet = pair.sent(CLIENT).into_iter().next().expect("data");
    let crate::packet::Network::Ipv4(ip) = packet.network else { panic!("IPv4") };
    assert_eq!((ip.tos & !3, ip.ttl), (0x10, 9));
    for (level, name, value) in [
        (number::SOL_SOCKET, number::SO_MARK, 7),
        (number::SOL_SOCKET, number::SO_PRIORITY, 6),
        (number::SOL_TCP, number::TCP_NODELAY, 1),
        (number::SOL_TCP, number::TCP_USER_TIMEOUT, 123),
        (number::SOL_TCP, number::TCP_NOTSENT_LOWAT, 4_000),
        (number::SOL_TCP, number::TCP_KEEPINTVL, 77),
        (number::SOL_TCP, number::TCP_LINGER2, 30),
        (number::SOL_TCP, number::TCP_INQ, 1),
        (number::SOL_TCP, number::TCP_TX_DELAY, 100),
        (number::SOL_SOCKET, number::SO_BUSY_POLL, 5),
    ] {
        pair.set(CLIENT, 3, level, name, value);
        assert_eq!(pair.get(CLIENT, 3, level, name), value.into(), "{level} {name}");
    }
}

/// `SO_DONTROUTE`, also of a connection that lives: what would go by a gateway over IPv4 has no way, which is no
/// congestion (`ip_queue_xmit`).
#[test]
fn so_dontroute_sends_only_to_neighbours() {
    use crate::fib::{NextHop, Prefix, Route};
    for (remote, passes) in [("10.0.0.1:80", true), ("10.3.0.1:80", false), ("[fd03::1]:80", true)]
    {
        let mut pair = Pair::new();
        for (prefix, gateway, own) in
            [("10.3.0.0/16", "10.0.0.1", "10.3.0.1"), ("fd03::/64", "fd00::1", "fd03::1")]
        {
            let prefix: Prefix = prefix.parse().expect("a prefix");
            let hop = NextHop::new(0, Some(gateway.parse().expect("an address")));
            pair.hosts[CLIENT].fib_mut().append(Route::new(prefix, vec![hop])).expect("a route");
            let own = Route::local(own.parse().expect("an address"), 0);
            pair.hosts[SERVER].fib_mut().append(own).expect("a route");
        }
        let v6 =
            Syscall::Socket { domain: number::AF_INET6, kind: number::SOCK_STREAM, protocol: 0 };
        assert_eq!(pair.value(SERVER, v6.clone()), Ok(3));
        assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address("[::]:80") }), Ok(0));
        assert_eq!(pair.value(SERVER, Syscall::Listen { fd: 3, backlog: 1 }), Ok(0));
        assert_eq!(pair.value(CLIENT, if remote.starts_with('[') { v6 } else { socket() }), Ok(3));
        let connect = Syscall::Connect { fd: 3, address: address(remote) };
        let (mut call, _) = pair.begin(CLIENT, connect);
        assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Ok(Return::value(0))), "{remote}");
        let sends = |pair: &mut Pair, on| {
            pair.set(CLIENT, 3, number::SOL_SOCKET, number::SO_DONTROUTE, on);
            pair.sent(CLIENT);
            assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
            !pair.sent(CLIENT).is_empty()
        };
        assert!(sends(&mut pair, 0));
        assert_eq!(sends(&mut pair, 5), passes, "{remote}");
        assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_DONTROUTE), 1);
        let info = pair.hosts[CLIENT].tcp_connections().next().expect("one").info(pair.now);
        assert_eq!(info.snd_cwnd, 10, "{remote}");
        assert!(sends(&mut pair, 0), "{remote}");
    }
}

#[test]
fn buffers_are_doubled_and_have_a_minimum() {
    let mut pair = Pair::connected();
    for (name, given, kept) in [
        (number::SO_SNDBUF, 20_000, 40_000),
        (number::SO_SNDBUF, 1, 4_608),
        (number::SO_SNDBUF, 10_000_000, 8_388_608),
        (number::SO_RCVBUF, 20_000, 40_000),
        (number::SO_RCVBUF, 1, 2_304),
    ] {
        pair.set(CLIENT, 3, number::SOL_SOCKET, name, given);
        assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, name), kept);
    }
}

#[test]
fn sendfile_and_splice_move_bytes_between_files_pipes_and_sockets() {
    let mut pair = Pair::connected();
    pair.processes[CLIENT].write_file("/tmp/data", 5_000);
    let open = Syscall::Open { path: "/tmp/data".into(), flags: number::O_RDONLY };
    assert_eq!(pair.value(CLIENT, open), Ok(4));
    let sendfile = Syscall::Sendfile { out_fd: 3, in_fd: 4, offset: Some(1_000), count: 9_000 };
    let returned = pair.returned(CLIENT, sendfile).expect("sendfile");
    assert_eq!(returned, Return { value: 4_000, data: Data::Offset(5_000) });
    let pipe = pair.returned(SERVER, Syscall::Pipe).expect("a pipe");
    assert_eq!(pipe.data, Data::Pipe(5, 6));
    let splice = |in_fd, out_fd, len| Syscall::Splice { in_fd, out_fd, len, flags: 0 };
    assert_eq!(pair.value(SERVER, splice(4, 6, 9_000)), Ok(4_000));
    assert_eq!(pair.value(SERVER, splice(5, 4, 9_000)), Ok(4_000));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 9_000)), Ok(4_000));
}

/// Hops of IPv6 and TTL of IPv4 are two numbers of a socket of both families. A hop limit of 0 is sent as it is, a TTL
/// of 0 is refused: tried on Linux 6.18.
#[test]
fn a_hop_limit_of_zero_is_sent_and_is_no_ttl() {
    use crate::packet::Network;
    let hops = (number::SOL_IPV6, number::IPV6_UNICAST_HOPS);
    for (kind, to) in [number::SOCK_STREAM, number::SOCK_DGRAM]
        .into_iter()
        .flat_map(|kind| ["[fd00::1]:80", "[::ffff:10.0.0.1]:80"].map(|to| (kind, to)))
    {
        for (given, shown) in [(None, 64), (Some(0), 0), (Some(7), 7), (Some(-1), 64)] {
            let mut pair = Pair::new();
            let domain = number::AF_INET6;
            assert_eq!(pair.value(CLIENT, Syscall::Socket { domain, kind, protocol: 0 }), Ok(3));
            if let Some(given) = given {
                pair.set(CLIENT, 3, hops.0, hops.1, given);
            }
            assert_eq!(pair.get(CLIENT, 3, hops.0, hops.1), shown);
            assert_eq!(pair.get(CLIENT, 3, number::SOL_IP, number::IP_TTL), 64);
            let (mut call, _) =
                pair.begin(CLIENT, Syscall::Connect { fd: 3, address: address(to) });
            let _ = pair.again(CLIENT, &mut call);
            if kind == number::SOCK_DGRAM {
                assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
            }
            let packet = pair.sent(CLIENT).into_iter().next().expect("a SYN or a datagram");
            match packet.network {
                Network::Ipv6(ip) => assert_eq!(i64::from(ip.hop_limit), shown, "{given:?}"),
                Network::Ipv4(ip) => assert_eq!(ip.ttl, 64, "{to} {given:?}"),
                other @ Network::Other(_) => panic!("{other:?}"),
            }
        }
    }
}

/// Observed on Linux 6.18: a socket's own comes first, and of IPv4's route its option does not tell.
#[test]
fn the_hop_limit_of_a_route_is_that_of_connections() {
    use crate::fib::{NextHop, Prefix, Route};
    use crate::packet::Network;
    let ipv4 = ("10.0.0.1", number::AF_INET, number::SOL_IP, number::IP_TTL);
    let ipv6 = ("fd00::1", number::AF_INET6, number::SOL_IPV6, number::IPV6_UNICAST_HOPS);
    for ((remote, domain, level, option), own, sent, told) in [
        (ipv4, None, 9, 64),
        (ipv4, Some(33), 33, 33),
        (ipv6, None, 9, 9),
        (ipv6, Some(33), 33, 33),
    ] {
        let mut pair = Pair::new();
        let prefix = Prefix::host(remote.parse().expect("an address"));
        let mut route = Route::new(prefix, vec![NextHop::new(0, None)]);
        route.metrics.hoplimit = core::num::NonZeroU8::new(9);
        pair.hosts[CLIENT].fib_mut().append(route).expect("a route");
        let socket = Syscall::Socket { domain, kind: number::SOCK_STREAM, protocol: 0 };
        assert_eq!(pair.value(CLIENT, socket), Ok(3));
        if let Some(own) = own {
            pair.set(CLIENT, 3, level, option, own);
        }
        let to = address(&SocketAddr::new(prefix.addr(), 80).to_string());
        let (mut call, _) = pair.begin(CLIENT, Syscall::Connect { fd: 3, address: to });
        let syn = pair.sent(CLIENT).into_iter().next().expect("a SYN");
        let hops = match syn.network {
            Network::Ipv4(ip) => ip.ttl,
            Network::Ipv6(ip) => ip.hop_limit,
            other @ Network::Other(_) => panic!("{other:?}"),
        };
        assert_eq!(i64::from(hops), sent, "{remote} {own:?}");
        assert_eq!(pair.get(CLIENT, 3, level, option), told, "{remote} {own:?}");
        pair.set(CLIENT, 3, level, option, -1);
        let route_of_ipv6 = if level == number::SOL_IPV6 { 9 } else { 64 };
        assert_eq!(pair.get(CLIENT, 3, level, option), route_of_ipv6, "{remote} {own:?}");
        let _ = pair.again(CLIENT, &mut call);
    }
}

/// The time of `SO_LINGER` stays when it is switched off; one below zero is as long as can be.
#[test]
fn linger_is_reported_as_by_the_kernel() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    let forever = u32::MAX;
    let told = (i64::MAX / 1_000) as u32;
    for (on, seconds, reads) in [(true, 5, 5), (false, 7, 5), (true, forever, told)] {
        let (level, name) = (number::SOL_SOCKET, number::SO_LINGER);
        let value = OptionValue::Linger { on, seconds };
        let set = Syscall::SetOption { fd: 3, level, name, value, len: 8 };
        assert_eq!(pair.value(CLIENT, set), Ok(0));
        let returned = pair.returned(CLIENT, Syscall::get(3, level, name)).expect("an option");
        let expected = OptionValue::Linger { on, seconds: reads };
        assert_eq!(returned.data, Data::Option(expected));
    }
}

#[test]
fn no_option_is_read_into_a_negative_length() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    let (level, name) = (number::SOL_TCP, number::TCP_KEEPCNT);
    let get = Syscall::GetOption { fd: 3, level, name, len: -1_i32 as u32 };
    assert_eq!(pair.value(CLIENT, get), Err(Errno::EINVAL));
}

/// A socket of IPv6 that speaks IPv4 goes by its options of IPv4, and neither family's are the other's: seen on Linux
/// 6.18.
#[test]
fn an_ipv6_socket_has_options_of_both_families() {
    let names = [
        (number::SOL_IP, number::IP_TOS, number::IPV6_TCLASS, 0x20),
        (number::SOL_IP, number::IP_MTU_DISCOVER, number::IPV6_MTU_DISCOVER, 2),
        (number::SOL_IP, number::IP_RECVERR, number::IPV6_RECVERR, 1),
        (number::SOL_IP, number::IP_TTL, number::IPV6_UNICAST_HOPS, 9),
    ];
    for kind in [number::SOCK_STREAM, number::SOCK_DGRAM] {
        for (v4, name, name_v6, value) in names {
            for v6_first in [false, true] {
                let mut pair = Pair::new();
                let domain = number::AF_INET6;
                assert_eq!(
                    pair.value(CLIENT, Syscall::Socket { domain, kind, protocol: 0 }),
                    Ok(3)
                );
                let (v4, v6) = ((v4, name), (number::SOL_IPV6, name_v6));
                let (own, other) = if v6_first { (v6, v4) } else { (v4, v6) };
                let before = pair.get(CLIENT, 3, other.0, other.1);
                pair.set(CLIENT, 3, own.0, own.1, value);
                assert_eq!(pair.get(CLIENT, 3, own.0, own.1), value.into(), "{own:?}");
                assert_eq!(pair.get(CLIENT, 3, other.0, other.1), before, "{other:?}");
            }
        }
    }
}

#[test]
fn packets_go_by_the_options_of_their_family() {
    use crate::packet::Network;
    for (kind, to) in [number::SOCK_STREAM, number::SOCK_DGRAM]
        .into_iter()
        .flat_map(|kind| ["[fd00::1]:80", "[::ffff:10.0.0.1]:80"].map(|to| (kind, to)))
    {
        let mut pair = Pair::new();
        let domain = number::AF_INET6;
        assert_eq!(pair.value(CLIENT, Syscall::Socket { domain, kind, protocol: 0 }), Ok(3));
        pair.set(CLIENT, 3, number::SOL_IP, number::IP_TOS, 0x28);
        pair.set(CLIENT, 3, number::SOL_IP, number::IP_MTU_DISCOVER, number::IP_PMTUDISC_DONT);
        pair.set(CLIENT, 3, number::SOL_IPV6, number::IPV6_TCLASS, 0x40);
        let (mut call, _) = pair.begin(CLIENT, Syscall::Connect { fd: 3, address: address(to) });
        let _ = pair.again(CLIENT, &mut call);
        if kind == number::SOCK_DGRAM {
            assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
        }
        let packet = pair.sent(CLIENT).into_iter().next().expect("a SYN or a datagram");
        match packet.network {
            Network::Ipv6(ip) => assert_eq!(ip.traffic_class, 0x40, "{to}"),
            Network::Ipv4(ip) => assert_eq!((ip.tos, ip.dont_fragment), (0x28, false), "{to}"),
            other @ Network::Other(_) => panic!("{other:?}"),
        }
    }
}

/// `IPV6_AUTOFLOWLABEL` of 0: no label, where the sysctl leaves a choice (`ip6_make_flowlabel`).
#[test]
fn a_socket_may_go_without_flow_labels() {
    for (sysctl, set, read, labelled) in [
        ("1", None, 1, true),
        ("1", Some(0), 0, false),
        ("0", Some(1), 1, false),
        ("2", None, 0, false),
        ("2", Some(1), 1, true),
        ("3", Some(0), 0, true),
    ] {
        let mut pair = Pair::new();
        pair.sysctl(CLIENT, "net.ipv6.auto_flowlabels", sysctl);
        let (domain, kind) = (number::AF_INET6, number::SOCK_STREAM);
        assert_eq!(pair.value(CLIENT, Syscall::Socket { domain, kind, protocol: 0 }), Ok(3));
        let (level, name) = (number::SOL_IPV6, number::IPV6_AUTOFLOWLABEL);
        if let Some(value) = set {
            pair.set(CLIENT, 3, level, name, value);
        }
        assert_eq!(pair.get(CLIENT, 3, level, name), read, "{sysctl} {set:?}");
        let connect = Syscall::Connect { fd: 3, address: address("[fd00::1]:80") };
        let _ = pair.begin(CLIENT, connect);
        let packet = pair.sent(CLIENT).into_iter().next().expect("a SYN");
        let crate::packet::Network::Ipv6(ip) = packet.network else { panic!("IPv6") };
        assert_eq!(ip.flow_label.get() != 0, labelled, "{sysctl} {set:?}");
    }
}
