//! How connections begin: Fast Open, SYN cookies, full accept queues and listeners that wait for data.

use super::*;

/// The second connection to a peer carries its data with the SYN.
#[test]
fn fast_open_carries_data_with_the_second_syn() {
    let mut pair = Pair::new();
    for who in [SERVER, CLIENT] {
        pair.sysctl(who, "tcp_fastopen", "0x403");
    }
    pair.listen(8);
    for (round, fd) in [(1, 3), (2, 4)] {
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
        let message =
            Message { address: address("10.0.0.1:80"), iov: 500.into(), control: Vec::new() };
        let send = Syscall::Send { fd, message, flags: number::MSG_FASTOPEN };
        let (mut call, mut outcome) = pair.begin(CLIENT, send);
        if outcome == Poll::Pending {
            outcome = pair.again(CLIENT, &mut call);
        }
        assert_eq!(outcome, Poll::Ready(Ok(Return::value(500))), "round {round}");
        let accepted = pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }).expect("one");
        assert_eq!(pair.value(SERVER, Syscall::read(accepted as Fd, 1_000)), Ok(500));
        let syn = pair.sent(CLIENT).into_iter().next().expect("a SYN");
        assert_eq!(syn.body.len, if round == 1 { 0 } else { 500 });
    }
    assert_eq!(pair.mib(CLIENT).fast_open_active, 1);
    assert_eq!(
        (pair.mib(SERVER).fast_open_cookie_reqd, pair.mib(SERVER).fast_open_passive),
        (1, 1)
    );
}

#[test]
fn a_forged_cookie_gets_a_handshake_and_a_new_cookie() {
    let mut pair = Pair::new();
    for who in [SERVER, CLIENT] {
        pair.sysctl(who, "tcp_fastopen", "0x403");
    }
    pair.listen(8);
    for fd in [3, 4] {
        if fd == 4 {
            // The server's key changes: the client's cookie is worth nothing.
            pair.sysctl(SERVER, "tcp_fastopen_key", "1-2-3-4");
        }
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
        let message =
            Message { address: address("10.0.0.1:80"), iov: 500.into(), control: Vec::new() };
        let send = Syscall::Send { fd, message, flags: number::MSG_FASTOPEN };
        let (mut call, outcome) = pair.begin(CLIENT, send);
        if outcome == Poll::Pending {
            assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Ok(Return::value(500))));
        }
        let accepted = pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }).expect("one");
        assert_eq!(pair.value(SERVER, Syscall::read(accepted as Fd, 1_000)), Ok(500));
    }
    assert_eq!(pair.mib(SERVER).fast_open_passive_fail, 1);
    assert_eq!(pair.mib(CLIENT).fast_open_active_fail, 1);
}

#[test]
fn syn_cookies_open_connections_that_nobody_remembers() {
    let mut pair = Pair::new();
    pair.sysctl(SERVER, "tcp_syncookies", "2");
    pair.listen(8);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.connect(3);
    assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 3_000)), Ok(3_000));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 9_000)), Ok(3_000));
    let mib = pair.mib(SERVER);
    assert_eq!((mib.syn_cookies_sent, mib.syn_cookies_recv, mib.syn_cookies_failed), (1, 1, 0));
    let returned = pair.returned(SERVER, Syscall::get(4, number::SOL_TCP, number::TCP_INFO));
    let info = *returned.expect("info").tcp_info().expect("info");
    assert_eq!(info.options & 7, 7, "timestamps, SACK and window scale survive the cookie");
    assert_eq!(info.snd_wscale, 7);
}

#[test]
fn a_syn_to_a_full_accept_queue_is_dropped() {
    let mut pair = Pair::new();
    pair.sysctl(SERVER, "tcp_syncookies", "0");
    pair.listen(0);
    for fd in 3..6 {
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
        pair.nonblocking(CLIENT, fd);
        let connect = Syscall::Connect { fd, address: address("10.0.0.1:80") };
        assert_eq!(pair.value(CLIENT, connect), Err(Errno::EINPROGRESS));
        let expected = if fd == 3 { State::Established } else { State::SynSent };
        assert_eq!(state(&mut pair, CLIENT, fd), expected);
    }
    assert_eq!(pair.mib(SERVER).listen_overflows, 2);
}

#[test]
fn a_deferring_listener_accepts_when_data_comes() {
    let mut pair = Pair::new();
    pair.listen(8);
    pair.set(SERVER, 3, number::SOL_TCP, number::TCP_DEFER_ACCEPT, 5);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.connect(3);
    pair.nonblocking(SERVER, 3);
    assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Err(Errno::EAGAIN));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
    assert_eq!(pair.mib(SERVER).defer_accept_drop, 1);
}
