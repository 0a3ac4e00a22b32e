//! poll, select and epoll.

use super::*;

fn poll(fd: Fd, events: i32, timeout_ms: i32) -> Syscall {
    Syscall::Poll { fds: vec![PollFd { fd, events }], timeout_ms }
}

fn polled(pair: &mut Pair, who: usize, fd: Fd) -> i32 {
    let all = number::POLLIN | number::POLLOUT | number::POLLPRI | number::POLLRDHUP;
    let returned = pair.returned(who, poll(fd, all, 0)).expect("poll");
    let Data::Polled(events) = returned.data else { panic!("events") };
    events[0]
}

#[test]
fn poll_follows_the_life_of_a_connection() {
    use number::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    assert_eq!(polled(&mut pair, CLIENT, 3), POLLOUT | POLLHUP, "a socket without anything");
    pair.listen(1);
    assert_eq!(polled(&mut pair, SERVER, 3), 0, "nobody has come");
    pair.connect(3);
    assert_eq!(polled(&mut pair, SERVER, 3), POLLIN, "somebody to accept");
    assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
    assert_eq!(polled(&mut pair, CLIENT, 3), POLLOUT);
    assert_eq!(pair.value(SERVER, Syscall::write(4, 10)), Ok(10));
    assert_eq!(polled(&mut pair, CLIENT, 3), POLLIN | POLLOUT);
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 10)), Ok(10));
    assert_eq!(pair.value(SERVER, Syscall::Shutdown { fd: 4, how: number::SHUT_WR }), Ok(0));
    assert_eq!(polled(&mut pair, CLIENT, 3), POLLIN | POLLOUT | POLLRDHUP);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0), "with unread data");
    assert_eq!(
        polled(&mut pair, CLIENT, 3),
        POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP,
        "reset"
    );
    assert_eq!(polled(&mut pair, CLIENT, 99), number::POLLNVAL);
}

#[test]
fn poll_waits_until_its_time_is_over() {
    let mut pair = Pair::connected();
    let (mut call, outcome) = pair.begin(SERVER, poll(4, number::POLLIN, 50));
    assert_eq!(outcome, Poll::Pending);
    pair.pass(Duration::from_millis(49));
    assert_eq!(pair.again(SERVER, &mut call), Poll::Pending);
    pair.pass(Duration::from_millis(1));
    let none = Return { value: 0, data: Data::Polled(vec![0]) };
    assert_eq!(pair.again(SERVER, &mut call), Poll::Ready(Ok(none)));
}

#[test]
fn select_names_those_that_are_ready() {
    let mut pair = Pair::connected();
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    let timeout = Some(Duration::ZERO);
    let select = Syscall::Select { read: vec![3, 4], write: vec![4], except: vec![4], timeout };
    let returned = pair.returned(SERVER, select).expect("select");
    let data = Data::Selected { read: vec![4], write: vec![4], except: vec![] };
    assert_eq!(returned, Return { value: 2, data });
}

fn wait(epfd: Fd) -> Syscall {
    Syscall::EpollWait { epfd, max_events: 8, timeout_ms: 0 }
}

fn events(pair: &mut Pair, who: usize, epfd: Fd) -> Vec<u32> {
    let returned = pair.returned(who, wait(epfd)).expect("epoll_wait");
    let Data::Events(events) = returned.data else { panic!("events") };
    events.iter().map(|event| event.events).collect()
}

fn watch(pair: &mut Pair, fd: Fd, events: u32) -> Fd {
    let epfd = pair.value(SERVER, Syscall::EpollCreate { size: 1 }).expect("an epoll") as Fd;
    let event = Some(EpollEvent { events, data: 7 });
    let add = Syscall::EpollCtl { epfd, op: number::EPOLL_CTL_ADD, fd, event };
    assert_eq!(pair.value(SERVER, add), Ok(0));
    epfd
}

#[test]
fn level_triggered_events_stay_until_they_are_over() {
    let mut pair = Pair::connected();
    let epfd = watch(&mut pair, 4, number::EPOLLIN);
    assert_eq!(events(&mut pair, SERVER, epfd), []);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    for _ in 0..2 {
        assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLIN]);
    }
    assert_eq!(pair.value(SERVER, Syscall::read(4, 10)), Ok(10));
    assert_eq!(events(&mut pair, SERVER, epfd), []);
}

#[test]
fn edge_triggered_events_come_once_for_each_arrival() {
    let mut pair = Pair::connected();
    let wanted = number::EPOLLIN | number::EPOLLOUT | number::EPOLLET;
    let epfd = watch(&mut pair, 4, wanted);
    assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLOUT]);
    assert_eq!(events(&mut pair, SERVER, epfd), []);
    for _ in 0..2 {
        assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
        assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLIN | number::EPOLLOUT]);
        assert_eq!(events(&mut pair, SERVER, epfd), [], "not read, not told again");
    }
}

/// As Linux 6.18 does: `tcp_fin` wakes all who wait, for whatever they do (`sk_state_change`).
#[test]
fn a_fin_triggers_an_edge_for_writers_too() {
    let mut pair = Pair::connected();
    let epfd = watch(&mut pair, 4, number::EPOLLOUT | number::EPOLLET);
    assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLOUT]);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    assert_eq!(events(&mut pair, SERVER, epfd), [], "data is not for them");
    let shutdown = Syscall::Shutdown { fd: 3, how: number::SHUT_WR };
    assert_eq!(pair.value(CLIENT, shutdown), Ok(0));
    assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLOUT]);
    assert_eq!(events(&mut pair, SERVER, epfd), []);
}

#[test]
fn one_shot_events_come_once_until_asked_for_again() {
    let mut pair = Pair::connected();
    let epfd = watch(&mut pair, 4, number::EPOLLIN | number::EPOLLONESHOT);
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 10)), Ok(10));
    assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLIN]);
    assert_eq!(events(&mut pair, SERVER, epfd), []);
    let event = Some(EpollEvent { events: number::EPOLLIN, data: 7 });
    let again = Syscall::EpollCtl { epfd, op: number::EPOLL_CTL_MOD, fd: 4, event };
    assert_eq!(pair.value(SERVER, again), Ok(0));
    assert_eq!(events(&mut pair, SERVER, epfd), [number::EPOLLIN]);
}

#[test]
fn a_watched_descriptor_that_is_closed_is_forgotten() {
    let mut pair = Pair::connected();
    let epfd = watch(&mut pair, 4, number::EPOLLIN);
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0));
    assert_eq!(events(&mut pair, SERVER, epfd), []);
}

#[test]
fn shutting_down_a_udp_socket_wakes_an_epoll_though_it_fails() {
    let mut pair = Pair::new();
    let opened = Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 0 };
    assert_eq!(pair.value(CLIENT, opened), Ok(3));
    assert_eq!(pair.value(CLIENT, Syscall::EpollCreate { size: 1 }), Ok(4));
    let event = EpollEvent { events: number::EPOLLIN, data: 3 };
    let op = number::EPOLL_CTL_ADD;
    let watch = Syscall::EpollCtl { epfd: 4, op, fd: 3, event: Some(event) };
    assert_eq!(pair.value(CLIENT, watch), Ok(0));
    let wait = || Syscall::EpollWait { epfd: 4, max_events: 8, timeout_ms: 0 };
    assert_eq!(pair.value(CLIENT, wait()), Ok(0));
    let shutdown = Syscall::Shutdown { fd: 3, how: number::SHUT_RDWR };
    assert_eq!(pair.value(CLIENT, shutdown), Err(Errno::ENOTCONN));
    assert_eq!(pair.value(CLIENT, wait()), Ok(1));
}

#[test]
fn epoll_reports_the_end_of_a_pipe() {
    use number::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT};
    let ends = |closed: Fd, watched: Fd, told: u32| {
        let mut pair = Pair::new();
        let process = &mut pair;
        assert_eq!(process.value(CLIENT, Syscall::Pipe), Ok(0));
        assert_eq!(process.value(CLIENT, Syscall::EpollCreate1 { flags: 0 }), Ok(5));
        let event = Some(EpollEvent { events: EPOLLIN | EPOLLET, data: 0 });
        let add = Syscall::EpollCtl { epfd: 5, op: number::EPOLL_CTL_ADD, fd: watched, event };
        assert_eq!(process.value(CLIENT, add), Ok(0));
        let wait = Syscall::EpollWait { epfd: 5, max_events: 1, timeout_ms: 0 };
        assert_eq!(process.value(CLIENT, wait.clone()), Ok(0), "nothing yet");
        assert_eq!(process.value(CLIENT, Syscall::Close { fd: closed }), Ok(0));
        let returned = process.returned(CLIENT, wait).expect("epoll_wait");
        assert_eq!(returned.data, Data::Events(vec![EpollEvent { events: told, data: 0 }]));
    };
    ends(4, 3, EPOLLHUP);
    ends(3, 4, EPOLLERR & !EPOLLOUT);
}

#[test]
fn epolls_watch_each_other_neither_in_a_circle_nor_too_deep() {
    let mut pair = Pair::new();
    for fd in 3..9 {
        assert_eq!(pair.value(CLIENT, Syscall::EpollCreate1 { flags: 0 }), Ok(fd));
    }
    let watch = |epfd, fd| {
        let event = Some(EpollEvent { events: number::EPOLLIN, data: 0 });
        Syscall::EpollCtl { epfd, op: number::EPOLL_CTL_ADD, fd, event }
    };
    assert_eq!(pair.value(CLIENT, watch(3, 3)), Err(Errno::EINVAL));
    for fd in 3..7 {
        assert_eq!(pair.value(CLIENT, watch(fd, fd + 1)), Ok(0));
    }
    assert_eq!(pair.value(CLIENT, watch(7, 8)), Err(Errno::ELOOP), "five in a row");
    assert_eq!(pair.value(CLIENT, watch(7, 5)), Err(Errno::ELOOP), "a circle");
    assert_eq!(pair.value(CLIENT, watch(3, 8)), Ok(0));
}
