//! Which call fails how.

use super::*;
use crate::tcp::state::State;

#[test]
fn connect_says_where_it_stands() {
    let mut pair = Pair::new();
    pair.listen(1);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.nonblocking(CLIENT, 3);
    pair.cut[SERVER] = true;
    let connect = || Syscall::Connect { fd: 3, address: address("10.0.0.1:80") };
    assert_eq!(pair.value(CLIENT, connect()), Err(Errno::EINPROGRESS));
    assert_eq!(pair.value(CLIENT, connect()), Err(Errno::EALREADY));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 10)), Err(Errno::EAGAIN));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Err(Errno::EAGAIN));
    pair.cut[SERVER] = false;
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.value(CLIENT, connect()), Ok(0), "the first to see that it is done");
    assert_eq!(pair.value(CLIENT, connect()), Err(Errno::EISCONN));
}

#[test]
fn a_closed_port_refuses_and_the_socket_may_try_again() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:80") };
    let (mut call, outcome) = pair.begin(CLIENT, connect);
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Err(Errno::ECONNREFUSED)));
    pair.listen(1);
    pair.connect(3);
}

#[test]
fn a_silent_peer_times_out_as_often_as_syncnt_says() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.cut[CLIENT] = true;
    pair.set(CLIENT, 3, number::SOL_TCP, number::TCP_SYNCNT, 1);
    let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:80") };
    let (mut call, _) = pair.begin(CLIENT, connect);
    pair.pass(Duration::from_millis(2_900));
    assert_eq!(pair.again(CLIENT, &mut call), Poll::Pending);
    pair.pass(Duration::from_millis(400));
    assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Err(Errno::ETIMEDOUT)));
    assert_eq!(pair.sent(CLIENT).len(), 3, "one SYN, and again for as long as one doubling takes");
}

#[test]
fn a_reset_is_told_once() {
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 100)), Ok(100));
    // Closed with unread data: the peer is reset.
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 10)), Err(Errno::ECONNRESET));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 10)), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Err(Errno::EPIPE));
    assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR), 0);
}

#[test]
fn so_error_takes_the_error() {
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 100)), Ok(100));
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0));
    let error = pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR);
    assert_eq!(error, i64::from(Errno::ECONNRESET.number()));
    assert_eq!(pair.get(CLIENT, 3, number::SOL_SOCKET, number::SO_ERROR), 0);
}

#[test]
fn wrong_arguments_have_the_errno_of_linux() {
    let mut pair = Pair::connected();
    let tcp = number::SOL_TCP;
    let bad_domain = Syscall::Socket { domain: 99, kind: 1, protocol: 0 };
    let bad_kind = Syscall::Socket { domain: 2, kind: 99, protocol: 0 };
    let rdm = Syscall::Socket { domain: 2, kind: 4, protocol: 0 };
    let other_protocol = Syscall::Socket { domain: 2, kind: 1, protocol: number::IPPROTO_UDP };
    let foreign = Syscall::Bind { fd: 3, address: address("10.0.0.1:81") };
    let faulty = Syscall::Write { fd: 3, iov: Iov::One(Buffer::faulty(10)) };
    for (syscall, errno) in [
        (bad_domain, Errno::EAFNOSUPPORT),
        (bad_kind, Errno::EINVAL),
        (rdm, Errno::ESOCKTNOSUPPORT),
        (other_protocol, Errno::EPROTONOSUPPORT),
        (foreign, Errno::EINVAL),
        (faulty, Errno::EFAULT),
        (Syscall::read(77, 1), Errno::EBADF),
        (Syscall::Accept { fd: 3, flags: 0 }, Errno::EINVAL),
        (Syscall::Listen { fd: 3, backlog: 1 }, Errno::EINVAL),
        (Syscall::Shutdown { fd: 3, how: 9 }, Errno::EINVAL),
        (Syscall::set(3, tcp, number::TCP_KEEPIDLE, 0), Errno::EINVAL),
        (Syscall::set(3, tcp, number::TCP_MAXSEG, 10), Errno::EINVAL),
        (Syscall::set(3, tcp, number::TCP_FASTOPEN_CONNECT, 1), Errno::EINVAL),
        (Syscall::set(3, tcp, number::TCP_REPAIR, 1), Errno::EPERM),
        (Syscall::set(3, tcp, 9_999, 1), Errno::ENOPROTOOPT),
        (Syscall::set(3, number::SOL_IPV6, number::IPV6_TCLASS, 1), Errno::ENOPROTOOPT),
        (Syscall::get(3, number::SOL_SOCKET, 9_999), Errno::ENOPROTOOPT),
        (Syscall::EpollCreate { size: 0 }, Errno::EINVAL),
        (Syscall::Open { path: "/none".into(), flags: 0 }, Errno::ENOENT),
        (Syscall::recv(3, 1, number::MSG_OOB), Errno::EINVAL),
    ] {
        let name = syscall.name();
        assert_eq!(pair.value(CLIENT, syscall.clone()), Err(errno), "{name}: {syscall:?}");
    }
}

/// A connection has one peer (`tcp_v4_connect`, `tcp_v6_connect`).
#[test]
fn nobody_connects_to_everybody() {
    let mut pair = Pair::new();
    for to in ["224.0.0.1:80", "255.255.255.255:80", "10.0.0.255:80"] {
        assert_eq!(pair.value(CLIENT, socket()), Ok(3));
        let connect = Syscall::Connect { fd: 3, address: address(to) };
        assert_eq!(pair.value(CLIENT, connect), Err(Errno::ENETUNREACH), "{to}");
        assert_eq!(pair.value(CLIENT, Syscall::Close { fd: 3 }), Ok(0));
    }
    let six = Syscall::Socket { domain: number::AF_INET6, kind: number::SOCK_STREAM, protocol: 0 };
    assert_eq!(pair.value(CLIENT, six), Ok(3));
    for to in ["[ff02::1]:80", "[::ffff:224.0.0.1]:80"] {
        let connect = Syscall::Connect { fd: 3, address: address(to) };
        assert_eq!(pair.value(CLIENT, connect), Err(Errno::ENETUNREACH), "{to}");
    }
}

#[test]
fn an_address_is_bound_once_unless_it_is_shared() {
    let mut pair = Pair::new();
    pair.listen(1);
    assert_eq!(pair.value(SERVER, socket()), Ok(4));
    let bind = |at: &str| Syscall::Bind { fd: 4, address: address(at) };
    assert_eq!(pair.value(SERVER, bind("10.0.0.1:80")), Err(Errno::EADDRINUSE));
    assert_eq!(pair.value(SERVER, bind("10.9.9.9:81")), Err(Errno::EADDRNOTAVAIL));
    pair.set(SERVER, 4, number::SOL_IP, number::IP_FREEBIND, 1);
    assert_eq!(pair.value(SERVER, bind("10.9.9.9:81")), Ok(0));
}

#[test]
fn a_timeout_ends_a_blocking_read() {
    let mut pair = Pair::connected();
    let value = OptionValue::Time(Duration::from_millis(300));
    let (level, name) = (number::SOL_SOCKET, number::SO_RCVTIMEO);
    let set = Syscall::SetOption { fd: 4, level, name, value, len: 16 };
    assert_eq!(pair.value(SERVER, set), Ok(0));
    let (mut read, outcome) = pair.begin(SERVER, Syscall::read(4, 10));
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(read.deadline(), Some(pair.now + Duration::from_millis(300)));
    pair.pass(Duration::from_millis(300));
    assert_eq!(pair.again(SERVER, &mut read), Poll::Ready(Err(Errno::EAGAIN)));
}

#[test]
fn the_timeout_of_a_call_is_fixed_when_it_starts_to_wait() {
    let mut pair = Pair::connected();
    let set = |pair: &mut Pair, millis: u64| {
        let value = OptionValue::Time(Duration::from_millis(millis));
        let (level, name) = (number::SOL_SOCKET, number::SO_RCVTIMEO);
        let set = Syscall::SetOption { fd: 4, level, name, value, len: 16 };
        assert_eq!(pair.value(SERVER, set), Ok(0));
    };
    let (mut patient, outcome) = pair.begin(SERVER, Syscall::read(4, 10));
    assert_eq!(outcome, Poll::Pending);
    set(&mut pair, 300);
    assert_eq!(pair.again(SERVER, &mut patient), Poll::Pending);
    assert_eq!(patient.deadline(), None, "the timeout came later");
    let (mut hasty, outcome) = pair.begin(SERVER, Syscall::read(4, 10));
    assert_eq!(outcome, Poll::Pending);
    set(&mut pair, 0);
    pair.pass(Duration::from_millis(300));
    assert_eq!(pair.again(SERVER, &mut hasty), Poll::Ready(Err(Errno::EAGAIN)));
    assert_eq!(pair.again(SERVER, &mut patient), Poll::Pending);
}

#[test]
fn a_call_fails_when_its_descriptor_is_closed_and_reused() {
    let mut pair = Pair::connected();
    let (mut read, outcome) = pair.begin(CLIENT, Syscall::read(3, 10));
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(CLIENT, Syscall::Close { fd: 3 }), Ok(0));
    assert_eq!(pair.value(CLIENT, socket()), Ok(3), "the number is used again");
    assert_eq!(pair.again(CLIENT, &mut read), Poll::Ready(Err(Errno::EBADF)));
}

#[test]
fn a_file_ends_where_the_largest_does() {
    let mut pair = Pair::new();
    let flags = number::O_CREAT | number::O_RDWR;
    assert_eq!(pair.value(CLIENT, Syscall::Open { path: "/a".to_owned(), flags }), Ok(3));
    let most = 0x7fff_f000;
    assert_eq!(pair.value(CLIENT, Syscall::write(3, u64::MAX)), Ok(most), "at once");
    let socket_there =
        Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 0 };
    assert_eq!(pair.value(CLIENT, socket_there), Ok(4));
    let send =
        |offset, count| Syscall::Sendfile { out_fd: 4, in_fd: 3, offset: Some(offset), count };
    assert_eq!(pair.value(CLIENT, send(u64::MAX, 10)), Err(Errno::EINVAL));
    assert_eq!(pair.value(CLIENT, send(0, u64::MAX)), Err(Errno::EINVAL));
    assert_eq!(pair.value(CLIENT, send(i64::MAX as u64, 10)), Ok(0), "behind the end");
}

#[test]
fn an_ipv6_socket_of_its_own_binds_no_mapped_address() {
    let mut pair = Pair::new();
    for kind in [number::SOCK_STREAM, number::SOCK_DGRAM] {
        let opened = Syscall::Socket { domain: number::AF_INET6, kind, protocol: 0 };
        let fd = pair.value(CLIENT, opened).expect("a socket") as Fd;
        pair.set(CLIENT, fd, number::SOL_IPV6, number::IPV6_V6ONLY, 1);
        let mapped = address("[::ffff:10.0.0.2]:80");
        let bound = pair.value(CLIENT, Syscall::Bind { fd, address: mapped });
        assert_eq!(bound, Err(Errno::EINVAL));
        let connected = pair.value(CLIENT, Syscall::Connect { fd, address: mapped });
        assert_eq!(connected, Err(Errno::ENETUNREACH));
    }
}

#[test]
fn a_pipe_that_must_not_wait_says_so() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, Syscall::Pipe), Ok(0));
    for fd in [3, 4] {
        let command = number::F_SETFL;
        let set = Syscall::Fcntl { fd, command, argument: number::O_NONBLOCK };
        assert_eq!(pair.value(CLIENT, set), Ok(0));
    }
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::EAGAIN));
    assert_eq!(pair.value(CLIENT, Syscall::write(4, 100_000)), Ok(65_536));
    assert_eq!(pair.value(CLIENT, Syscall::write(4, 1)), Err(Errno::EAGAIN));
    let flags = Syscall::Fcntl { fd: 3, command: number::F_GETFL, argument: 0 };
    assert_eq!(pair.value(CLIENT, flags), Ok(i64::from(number::O_NONBLOCK)));
}

#[test]
fn a_cookie_ends_the_handshake_at_a_listener_that_defers() {
    let mut pair = Pair::new();
    pair.hosts[SERVER].set_tcp_sysctl("tcp_syncookies", "2").expect("a sysctl");
    pair.listen(8);
    pair.set(SERVER, 3, number::SOL_TCP, number::TCP_DEFER_ACCEPT, 5);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.connect(3);
    let states: Vec<State> = pair.hosts[SERVER].tcp_sockets().map(|(.., state)| state).collect();
    assert_eq!(states, [State::Listen, State::Established]);
}

#[test]
fn calls_that_wait_end_when_their_socket_is_disconnected() {
    let leave = Syscall::Connect { fd: 3, address: Address::Unspecified };
    let ended = |waits: Syscall| {
        let mut pair = Pair::connected();
        assert_eq!(pair.value(SERVER, Syscall::write(4, 5)), Ok(5));
        let (mut call, outcome) = pair.begin(CLIENT, waits);
        assert_eq!(outcome, Poll::Pending);
        assert_eq!(pair.value(CLIENT, leave.clone()), Ok(0));
        pair.connect(3);
        pair.again(CLIENT, &mut call)
    };
    let taken = |outcome| match outcome {
        Poll::Ready(Ok(Return { value, .. })) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(taken(ended(Syscall::recv(3, 10, number::MSG_WAITALL))), 5, "what it has");
    assert_eq!(taken(ended(Syscall::recv(3, 10, number::MSG_WAITALL | number::MSG_PEEK))), 5);
    assert!((1..100_000_000).contains(&taken(ended(Syscall::write(3, 100_000_000)))));
    let mut pair = Pair::connected();
    let (mut read, outcome) = pair.begin(CLIENT, Syscall::read(3, 10));
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(CLIENT, leave), Ok(0));
    assert_eq!(pair.again(CLIENT, &mut read), Poll::Ready(Err(Errno::EPIPE)));
}

#[test]
fn a_disconnected_socket_reports_the_reset_once() {
    let leave = Syscall::Connect { fd: 3, address: Address::Unspecified };
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, leave.clone()), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::ECONNRESET));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::ENOTCONN));
    let mut pair = Pair::connected();
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::Shutdown { fd: 3, how: number::SHUT_WR }), Ok(0));
    assert_eq!(pair.value(CLIENT, leave), Ok(0));
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::ENOTCONN), "it was over");
}

#[test]
fn a_port_that_was_not_asked_for_is_given_back() {
    let leave = |fd| Syscall::Connect { fd, address: Address::Unspecified };
    let mut pair = Pair::connected();
    let first = pair.local(3);
    assert_eq!(pair.value(CLIENT, leave(3)), Ok(0));
    assert_eq!(pair.local(3), SocketAddr::new([0, 0, 0, 0].into(), first.port()));
    pair.connect(3);
    assert_ne!(pair.local(3).port(), first.port());
    assert_eq!(pair.value(CLIENT, leave(3)), Ok(0));
    let bind = Syscall::Bind { fd: 3, address: address("10.0.0.2:7777") };
    assert_eq!(pair.value(CLIENT, bind.clone()), Ok(0), "it has no port any more");
    pair.connect(3);
    assert_eq!(pair.value(CLIENT, leave(3)), Ok(0));
    assert_eq!(pair.local(3), "10.0.0.2:7777".parse().expect("an address"));
    assert_eq!(pair.value(CLIENT, bind), Err(Errno::EINVAL), "it has what was asked for");
}

#[test]
fn getsockopt_writes_what_it_has_room_for() {
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    let mut get = |level, name, len| {
        let returned = pair.returned(CLIENT, Syscall::GetOption { fd: 3, level, name, len })?;
        Ok(returned.option_number())
    };
    let (level, name) = (number::SOL_TCP, number::TCP_KEEPIDLE);
    assert_eq!(get(level, name, 4), Ok(Some(7_200)));
    assert_eq!(get(level, name, 1), Ok(Some(0x1c20 & 0xff)));
    assert_eq!(get(level, name, 0), Ok(None), "nothing, and no error");
    assert_eq!(get(number::SOL_IP, number::IP_TTL, 3), Ok(Some(64)), "a single byte is enough");
    assert_eq!(get(number::SOL_SOCKET, number::SO_COOKIE, 7), Err(Errno::EINVAL));
    assert_eq!(get(number::SOL_IPV6, number::IPV6_V6ONLY, 4), Err(Errno::EOPNOTSUPP));
}

/// `do_sock_setsockopt` refuses a length that is negative before it asks what the option is; without a socket that
/// is told first.
#[test]
fn a_negative_length_of_an_option_is_refused() {
    let mut pair = Pair::connected();
    let set = |fd| Syscall::SetOption {
        fd,
        level: number::SOL_TCP,
        name: number::TCP_NODELAY,
        value: OptionValue::Number(1),
        len: u32::MAX,
    };
    assert_eq!(pair.returned(CLIENT, set(3)), Err(Errno::EINVAL));
    assert_eq!(pair.returned(CLIENT, set(77)), Err(Errno::EBADF));
}

#[test]
fn a_connection_without_a_free_port_is_an_error() {
    let mut pair = Pair::new();
    pair.listen(8);
    let range = "net.ipv4.ip_local_port_range";
    pair.hosts[CLIENT].set_tcp_sysctl(range, "40000 40001").expect("two ports");
    assert!(pair.hosts[CLIENT].set_tcp_sysctl(range, "1023 2000").is_err(), "privileged ports");
    assert!(pair.hosts[CLIENT].set_tcp_sysctl(range, "5000 4000").is_err());
    for fd in 3..6 {
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
    }
    pair.connect(3);
    pair.connect(4);
    let connect = Syscall::Connect { fd: 5, address: address("10.0.0.1:80") };
    assert_eq!(pair.value(CLIENT, connect), Err(Errno::EADDRNOTAVAIL));
    let bind = Syscall::Bind { fd: 5, address: address("0.0.0.0:0") };
    assert_eq!(pair.value(CLIENT, bind), Err(Errno::EADDRINUSE));
    let udp = Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 0 };
    for fd in 6..9 {
        assert_eq!(pair.value(CLIENT, udp.clone()), Ok(fd));
    }
    let bind = |fd| Syscall::Bind { fd, address: address("0.0.0.0:0") };
    assert_eq!(pair.value(CLIENT, bind(6)), Ok(0));
    assert_eq!(pair.value(CLIENT, bind(7)), Ok(0));
    assert_eq!(pair.value(CLIENT, bind(8)), Err(Errno::EADDRINUSE));
    let connect = Syscall::Connect { fd: 8, address: address("10.0.0.1:80") };
    assert_eq!(pair.value(CLIENT, connect), Err(Errno::EAGAIN));
}

#[test]
fn a_reset_during_a_write_is_reported_by_the_next_call() {
    let mut pair = Pair::connected();
    let (mut write, outcome) = pair.begin(CLIENT, Syscall::write(3, 100_000_000));
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0), "with unread data");
    match pair.again(CLIENT, &mut write) {
        Poll::Ready(Ok(Return { value, .. })) => assert!((1..100_000_000).contains(&value)),
        other => panic!("{other:?}"),
    }
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::ECONNRESET));
}

/// Control messages of a stream: those of sockets of any kind are looked at once it is connected, all others not at all
/// (`tcp_sendmsg_locked`, `sock_cmsg_send`). As Linux 6.18 was seen to do.
#[test]
fn control_messages_of_a_stream_are_those_of_any_socket() {
    let send = |fd, level, kind| {
        let control = vec![Control::Other { level, kind, value: 0 }];
        let message = Message { iov: 1.into(), control, ..Message::default() };
        Syscall::Send { fd, message, flags: number::MSG_DONTWAIT }
    };
    let any = number::SOL_SOCKET;
    for (level, kind, expected) in [
        (any, number::SO_MARK, Ok(1)),
        (any, number::SO_PRIORITY, Ok(1)),
        (any, number::SCM_RIGHTS, Ok(1)),
        (any, number::SCM_CREDENTIALS, Ok(1)),
        (any, number::SCM_TXTIME, Err(Errno::EINVAL)),
        (any, number::SO_SNDBUF, Err(Errno::EINVAL)),
        (number::SOL_IP, 99, Ok(1)),
        (number::SOL_UDP, number::UDP_GRO, Ok(1)),
    ] {
        let mut pair = Pair::connected();
        assert_eq!(pair.value(CLIENT, send(3, level, kind)), expected, "{level} {kind}");
        assert_eq!(pair.value(CLIENT, socket()), Ok(4));
        assert_eq!(pair.value(CLIENT, send(4, level, kind)), Err(Errno::EPIPE));
        assert_eq!(pair.value(CLIENT, send(5, level, kind)), Err(Errno::EBADF));
    }
}
