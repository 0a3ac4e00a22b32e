use super::*;

fn syn(seq: u32, flags: u16, ack: u32) -> Segment {
    Segment { seq, ack, flags, window: 1_000, ..Segment::default() }
}

/// Comes to a host that has this of the flow's connection.
fn at(there: Liveness) -> Arrival {
    Arrival { there, ecn: 0, now_ms: 0, quiet: true, calm: false }
}

fn established() -> ObservedFlow {
    let mut flow = ObservedFlow::default();
    flow.on_inbound(&syn(99, flag::SYN, 0), &at(Liveness::Nothing));
    flow.sent(&syn(499, flag::SYN | flag::ACK, 100), 0, true).expect("lawful");
    flow.on_inbound(&syn(100, flag::ACK, 500), &at(Liveness::Living));
    flow.written = 5_000;
    flow
}

fn data(seq: u32, len: u32, ack: u32) -> Segment {
    Segment { seq, ack, len, flags: flag::ACK, ..Segment::default() }
}

#[test]
fn what_did_not_come_must_not_be_acknowledged() {
    let mut flow = established();
    flow.on_inbound(&data(100, 10, 500), &at(Liveness::Living));
    flow.on_inbound(&data(120, 10, 500), &at(Liveness::Living));
    assert_eq!(flow.sent(&data(500, 0, 110), 0, true), Ok(()));
    let sack = Segment { sack: vec![(120, 130)], ..data(500, 0, 110) };
    assert_eq!(flow.sent(&sack, 0, true), Ok(()));
    assert_eq!(
        flow.sent(&data(500, 0, 111), 0, true).map_err(|it| it.0),
        Err("ACK of what arrived")
    );
    let sack = Segment { sack: vec![(120, 131)], ..data(500, 0, 110) };
    assert_eq!(flow.sent(&sack, 0, true).map_err(|it| it.0), Err("SACK of what arrived"));
}

#[test]
fn nothing_goes_beyond_the_window_or_the_stream() {
    let mut flow = established();
    assert_eq!(flow.sent(&data(500, 1_000, 100), 0, true), Ok(()));
    assert_eq!(flow.sent(&data(1_500, 1, 100), 0, true).map_err(|it| it.0), Err("window"));
    flow.written = 900;
    assert_eq!(flow.sent(&data(500, 1_000, 100), 0, true).map_err(|it| it.0), Err("exact bytes"));
    let fin = Segment { flags: flag::ACK | flag::FIN, ..data(1_500, 0, 100) };
    flow.written = 1_000;
    assert_eq!(flow.sent(&fin, 0, true), Ok(()));
    flow.written = 1_001;
    flow.on_inbound(&Segment { window: 1_000, ..data(100, 0, 1_500) }, &at(Liveness::Living));
    let beyond = flow.sent(&data(1_500, 1, 100), 0, true).map_err(|it| it.0);
    assert_eq!(beyond, Err("nothing after the FIN"));
}

#[test]
fn either_of_two_cookies_may_have_come_back() {
    let mut flow = ObservedFlow::default();
    for (begin, iss) in [(99, 499), (100, 497)] {
        flow.on_inbound(&syn(begin, flag::SYN, 0), &at(Liveness::Nothing));
        let answer = syn(iss, flag::SYN | flag::ACK, begin + 1);
        flow.sent(&answer, 0, true).expect("lawful");
    }
    flow.on_inbound(&syn(101, flag::ACK, 498), &at(Liveness::Nothing));
    flow.written = 1_000;
    assert_eq!(flow.sent(&data(498, 500, 101), 0, true), Ok(()));
    assert_eq!(flow.sent(&data(998, 500, 101), 0, true), Ok(()));
    let fin = Segment { flags: flag::ACK | flag::FIN, ..data(1_498, 0, 101) };
    assert_eq!(flow.sent(&fin, 0, true), Ok(()));
    let beyond = flow.sent(&data(1_498, 1, 101), 0, true).map_err(|it| it.0);
    assert!(beyond.is_err());
}

#[test]
fn a_reset_and_a_cookie_in_one_batch_leave_two_connections_possible() {
    let mut flow = ObservedFlow::default();
    let waits = || Arrival { quiet: false, ..at(Liveness::Living) };
    flow.on_inbound(&syn(99, flag::SYN, 0), &at(Liveness::Nothing));
    let answer = syn(499, flag::SYN | flag::ACK, 100);
    flow.sent(&answer, 0, true).expect("lawful");
    flow.on_inbound(&syn(100, flag::ACK, 500), &at(Liveness::Nothing));
    flow.written = 1_000;
    let early = Segment { flags: flag::ACK | flag::FIN, ..data(500, 500, 100) };
    assert!(flow.clone().sent(&early, 0, true).is_err(), "it ends before all that was written");
    flow.on_inbound(&syn(100, flag::RST, 0), &waits());
    assert!(flow.clone().sent(&early, 0, true).is_err(), "a reset begins nothing");
    flow.on_inbound(&syn(100, flag::ACK, 500), &waits());
    assert_eq!(flow.sent(&early, 0, true), Ok(()));
}

/// A listener's connection by a SYN cookie, to which 1,000 bytes were written.
fn by_cookie() -> ObservedFlow {
    let mut flow = ObservedFlow::default();
    flow.on_inbound(&syn(99, flag::SYN, 0), &at(Liveness::Nothing));
    flow.sent(&syn(499, flag::SYN | flag::ACK, 100), 0, true).expect("lawful");
    flow.on_inbound(&syn(100, flag::ACK, 500), &at(Liveness::Nothing));
    flow.lives();
    flow.end_batch();
    flow.written = 1_000;
    flow
}

fn fin(seq: u32, ack: u32) -> Segment {
    Segment { flags: flag::ACK | flag::FIN, ..data(seq, 0, ack) }
}

#[test]
fn a_queued_cookie_may_open_a_connection_after_a_call_ended_the_old_one() {
    let waits = Arrival { quiet: false, ..at(Liveness::Living) };
    let mut flow = by_cookie();
    flow.on_inbound(&data(100, 10, 500), &waits);
    assert!(flow.cookie_waits());
    assert!(flow.clone().sent(&fin(500, 110), 0, true).is_err(), "nothing has ended it");
    flow.on_ended_by_call();
    assert_eq!(flow.clone().sent(&data(500, 1_000, 100), 0, true), Ok(()), "left of the first");
    assert_eq!(flow.sent(&fin(500, 110), 0, true), Ok(()));
}

#[test]
fn unread_data_and_a_cookie_in_one_batch_leave_two_connections_possible() {
    let waits = || Arrival { quiet: false, ..at(Liveness::Living) };
    let mut flow = by_cookie();
    flow.on_inbound(&data(100, 10, 500), &waits());
    flow.reads_no_more();
    assert!(flow.clone().sent(&fin(500, 110), 0, true).is_err(), "one segment is only one thing");
    let mut read = by_cookie();
    for flow in [&mut flow, &mut read] {
        flow.on_inbound(&data(100, 10, 500), &waits());
        flow.on_inbound(&data(100, 10, 500), &waits());
    }
    assert_eq!(flow.sent(&fin(500, 110), 0, true), Ok(()));
    assert!(read.clone().sent(&fin(500, 110), 0, true).is_err(), "it is still read");
    read.reads_no_more();
    assert_eq!(read.sent(&fin(500, 110), 0, true), Ok(()));
}

#[test]
fn an_answer_that_waits_in_the_device_belongs_to_the_connection_that_was_asked_for() {
    let busy = |there| Arrival { quiet: false, ..at(there) };
    let mut flow = ObservedFlow::default();
    flow.on_inbound(&syn(99, flag::SYN, 0), &busy(Liveness::Nothing));
    flow.sent(&syn(499, flag::SYN | flag::ACK, 100), 0, true).expect("lawful");
    // By Fast Open: there is a connection at once, to which 10 bytes are written.
    flow.on_inbound(&Segment { len: 100, ..syn(200, flag::SYN, 0) }, &busy(Liveness::Nothing));
    flow.lives();
    flow.written = 10;
    flow.on_inbound(&syn(301, flag::RST, 0), &busy(Liveness::Living));
    flow.on_inbound(&syn(301, flag::ACK, 500), &busy(Liveness::Gone));
    flow.sent(&syn(519, flag::SYN | flag::ACK, 301), 0, true).expect("lawful");
    assert_eq!(flow.sent(&data(520, 10, 301), 0, true), Ok(()));
    let more = flow.sent(&data(530, 1, 301), 0, true).map_err(|it| it.0);
    assert_eq!(more, Err("exact bytes"));
}
