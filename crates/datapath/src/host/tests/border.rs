//! The law between a host and its driver, kept and broken.

use super::*;
use crate::qdisc::fifo::{Fifo, FifoKind};
use crate::qdisc::fq::{Fq, FqConfig};
use crate::qdisc::rate::RateConfig;
use crate::qdisc::tbf::{Tbf, TbfConfig};
use crate::qdisc::{Handle, Sched};
use crate::rng::Rng;
use crate::units::Rate;

fn one() -> Packet {
    datagram("10.0.1.2:5", "10.0.2.2:6", 64, 1)
}

/// A router that is idle at 0 ms and has room for one packet at port 1.
fn idle_router() -> Host {
    let mut host = router();
    host.grant(ms(0), Port(1), 1);
    assert!(outputs(&mut host, ms(0)).is_empty());
    host
}

fn forwards(host: &mut Host, now: Instant, mut packet: Packet) {
    assert_eq!(host.receive(now, Port(0), &mut packet), Rx::Forward(Port(1)));
}

/// Hands packets in at once, that all wait or are sent by `poll`, and gives how many are sent.
fn sent_of(host: &mut Host, now: Instant, packets: u32) -> usize {
    for _ in 0..packets {
        receive(host, now, one());
    }
    sent(host, now).len()
}

#[test]
fn a_packet_goes_on_where_it_lies() {
    let mut host = idle_router();
    let (mut looked_up, mut remembered) = (one(), one());
    // The route is looked up, and upkeep of routes may follow: it has to be polled.
    assert_eq!(host.receive(ms(1), Port(0), &mut looked_up), Rx::Taken);
    let taken = sent(&mut host, ms(1));
    host.credit(ms(2), Port(1));
    assert!(outputs(&mut host, ms(2)).is_empty());
    assert_eq!(host.receive(ms(2), Port(0), &mut remembered), Rx::Forward(Port(1)));
    remembered.meta.enqueued_at = ms(1);
    assert_eq!(taken, [(1, remembered)]);
    let stats = host.port(Port(1)).stats;
    assert_eq!((stats.tx_packets, host.port(Port(0)).stats.rx_packets), (2, 2));
}

/// A packet behind a busy device says nothing, unless the queue drops something.
#[test]
fn what_only_waits_leaves_nothing_to_hear() {
    let mut host = idle_router();
    host.set_qdisc(ms(0), Port(1), Sched::new(Handle::new(1, 0), Fifo::new(FifoKind::Packets(2))));
    assert_eq!(sent_of(&mut host, ms(0), 1), 1);
    for _ in 0..2 {
        assert_eq!(host.receive(ms(1), Port(0), &mut one()), Rx::Queued);
    }
    // Not polled in between, which would be an error after anything that has to be heard.
    assert_eq!(host.receive(ms(2), Port(0), &mut one()), Rx::Taken);
    assert_eq!(drops(&outputs(&mut host, ms(2))), [Reason::QdiscOverlimit]);
    host.credit(ms(3), Port(1));
    assert_eq!(sent(&mut host, ms(3)).len(), 1);
}

/// Who has something to say, or to do, is not idle before it has been heard.
#[test]
fn an_idle_host_says_so_without_a_place_for_a_packet() {
    let mut host = idle_router();
    assert!(host.idle_until(ms(0)).is_some());
    receive(&mut host, ms(1), one());
    assert_eq!(host.idle_until(ms(1)), None, "a packet is to be sent");
    assert_eq!(sent(&mut host, ms(1)).len(), 1);
    let until = host.idle_until(ms(1)).expect("all has been said");
    assert_eq!(host.poll(ms(1), &mut Packet::default()), Poll::Idle(until));
    receive(&mut host, ms(2), datagram("10.0.1.2:5", "10.0.2.2:6", 1, 1));
    assert_eq!(host.idle_until(ms(2)), None, "a drop is to be told of");
    assert_eq!(drops(&outputs(&mut host, ms(2))), [Reason::TtlExpired]);
    assert!(host.idle_until(ms(2)).is_some());
}

/// What came first is sent first: who has not been heard to the end says it by `poll`.
#[test]
fn nothing_overtakes_pending_outputs() {
    let mut host = idle_router();
    host.grant(ms(0), Port(1), 2);
    assert_eq!(sent_of(&mut host, ms(0), 3), 3);
}

/// An arriving packet's departure time was its sender's, whichever way it goes on.
#[test]
fn a_departure_time_ends_where_the_packet_arrives() {
    for straight in [true, false] {
        let mut host = idle_router();
        if !straight {
            let fq = Fq::new(FqConfig::new(1_514), Rng::stream(1, 1));
            host.set_qdisc(ms(0), Port(1), Sched::new(Handle::new(1, 0), fq));
        }
        assert_eq!(sent_of(&mut host, ms(0), 1), 1);
        host.credit(ms(1), Port(1));
        assert!(outputs(&mut host, ms(1)).is_empty());
        let mut packet = one();
        packet.meta.departs_in_ns = 7_000_000;
        let rx = host.receive(ms(1), Port(0), &mut packet);
        assert_eq!(rx == Rx::Forward(Port(1)), straight);
        if !straight {
            packet = sent(&mut host, ms(1)).remove(0).1;
        }
        assert_eq!(packet.meta.departs_in_ns, 0);
    }
}

/// What arrives is counted as it arrived, whatever the link layer that it leaves by.
#[test]
fn received_bytes_are_those_of_the_link_that_they_came_by() {
    let mut host = idle_router();
    assert_eq!(sent_of(&mut host, ms(0), 1), 1);
    host.port_config_mut(Port(1)).link = LinkHeader::Ethernet {
        dst: crate::packet::MacAddr::default(),
        src: crate::packet::MacAddr::default(),
    };
    host.credit(ms(1), Port(1));
    assert!(outputs(&mut host, ms(1)).is_empty());
    let before = host.port(Port(0)).stats.rx_bytes;
    forwards(&mut host, ms(1), one());
    assert_eq!(host.port(Port(0)).stats.rx_bytes - before, u64::from(one().wire_len()));
}

/// Room of a deferred completion is there at its time, whether something waits for it or comes later.
#[test]
fn deferred_room_comes_by_itself() {
    let mut host = idle_router();
    assert_eq!(sent_of(&mut host, ms(0), 1), 1);
    assert!(host.credit_at(ms(0), Port(1), ms(5)));
    assert!(outputs(&mut host, ms(0)).is_empty());
    assert_eq!(host.wake_at(), None, "nothing waits for it");
    assert_eq!(sent_of(&mut host, ms(3), 1), 0);
    assert_eq!(host.wake_at(), Some(ms(5)));
    assert_eq!(sent(&mut host, ms(5)).len(), 1);
    assert!(host.credit_at(ms(5), Port(1), ms(6)), "the queue is empty");
    assert_eq!(sent_of(&mut host, ms(5), 1), 0);
    assert_eq!(sent_of(&mut host, ms(6), 1), 1, "of two");
    assert!(!host.credit_at(ms(6), Port(1), ms(7)), "something waits: it must be told");
    assert!(outputs(&mut host, ms(6)).is_empty());
    host.credit(ms(7), Port(1));
    assert_eq!(sent(&mut host, ms(7)).len(), 1);
}

/// Who has to be told about one packet has to be told about those behind it.
#[test]
fn credit_returns_in_the_order_of_the_packets() {
    let mut host = idle_router();
    host.grant(ms(0), Port(1), 1);
    assert_eq!(sent_of(&mut host, ms(0), 3), 2);
    assert!(!host.credit_at(ms(0), Port(1), ms(5)), "something waits");
    host.set_qdisc(ms(0), Port(1), router().port(Port(1)).qdisc().clone());
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::QueuePurge]);
    assert!(!host.credit_at(ms(0), Port(1), ms(6)), "nothing waits, but the first is not told of");
    assert!(outputs(&mut host, ms(0)).is_empty());
    for at in [5, 6] {
        host.credit(ms(at), Port(1));
        assert!(outputs(&mut host, ms(at)).is_empty());
    }
    assert_eq!(host.port(Port(1)).room(), 2);
}

/// A chain of segments goes beyond the room; the deferred completions of its segments make up for that, one
/// by one.
#[test]
fn a_chain_is_sent_on_credit() {
    let mut host = idle_router();
    host.set_xmit_more(Port(1), true);
    receive(&mut host, ms(0), super_packet());
    let mut place = Packet::default();
    for segment in 1..=5 {
        let more = segment < 5;
        assert_eq!(host.poll(ms(0), &mut place), Poll::Send { port: Port(1), more });
        assert!(host.credit_at(ms(0), Port(1), ms(segment)));
    }
    assert_eq!(place.body.len, 500);
    assert!(outputs(&mut host, ms(0)).is_empty());
    assert_eq!(sent_of(&mut host, ms(2), 1), 0);
    assert!(sent(&mut host, ms(4)).is_empty(), "four of five segments have left");
    assert_eq!(host.wake_at(), Some(ms(5)));
    assert_eq!(sent(&mut host, ms(5)).len(), 1);
}

/// A device that takes no chains: what waits behind a segment has to be asked for.
#[test]
fn segments_without_a_chain_wait_for_room() {
    let mut host = idle_router();
    receive(&mut host, ms(0), super_packet());
    for segment in 0..5 {
        let sent = sent(&mut host, ms(segment));
        assert_eq!(sent.len(), 1);
        let last = segment == 4;
        assert_eq!(host.credit_at(ms(segment), Port(1), ms(segment + 1)), last);
        assert!(outputs(&mut host, ms(segment)).is_empty());
        if !last {
            host.credit(ms(segment + 1), Port(1));
        }
    }
    forwards(&mut host, ms(5), one());
}

/// An interface that goes down in the middle of a chain drops the rest of it.
#[test]
fn a_chain_ends_with_its_interface() {
    let mut host = idle_router();
    host.set_xmit_more(Port(1), true);
    receive(&mut host, ms(0), super_packet());
    let first = host.poll(ms(0), &mut Packet::default());
    assert_eq!(first, Poll::Send { port: Port(1), more: true });
    host.set_port_up(ms(0), Port(1), false);
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::LinkDown; 4]);
}

/// As a kernel was seen to do with a tbf (`dev_deactivate`, `qdisc_reset`): what waits for tokens does
/// not wait for the carrier.
#[test]
fn packets_held_by_a_queue_are_dropped_with_the_link() {
    let rate = RateConfig::new(Rate::from_bits_per_sec(80_000));
    let config = TbfConfig { rate, burst: 2000, peak: None, limit: 0 };
    let mut host = router();
    host.set_qdisc(ms(0), Port(1), Tbf::new(config, Fifo::pfifo_default().into()).into());
    host.grant(ms(0), Port(1), 10);
    (0..5).for_each(|_| {
        receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 1000));
    });
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    host.set_port_up(ms(1), Port(1), false);
    assert_eq!(drops(&outputs(&mut host, ms(1))), [Reason::QueuePurge; 4]);
    host.set_port_up(ms(2), Port(1), true);
    assert!(sent(&mut host, ms(2)).is_empty());
    for _ in 0..2 {
        receive(&mut host, ms(2), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 900));
    }
    assert_eq!(sent(&mut host, ms(2)).len(), 2, "the bucket is full again");
    assert_eq!(host.port(Port(1)).qdisc().stats().packets, 3);
}

/// Two packets in a device that holds two: each makes room at its time.
#[test]
fn deferred_room_is_kept_in_order() {
    let mut host = idle_router();
    host.grant(ms(0), Port(1), 1);
    assert_eq!(sent_of(&mut host, ms(0), 2), 2);
    assert!(host.credit_at(ms(0), Port(1), ms(5)));
    assert!(host.credit_at(ms(0), Port(1), ms(6)));
    assert!(outputs(&mut host, ms(0)).is_empty());
    assert_eq!(sent_of(&mut host, ms(3), 3), 0);
    for at in [5, 6] {
        assert_eq!(host.wake_at(), Some(ms(at)));
        assert_eq!(sent(&mut host, ms(at)).len(), 1);
    }
    assert_eq!(host.wake_at(), None);
}

/// A socket that wants to hear of its memory is told.
#[test]
fn the_completion_of_a_waiting_sockets_packet_is_reported() {
    let mut host = idle_router();
    let id = host.udp_bind(ms(0), at("0.0.0.0:6")).expect("free");
    let body = Body::of_len(100);
    host.udp_send(ms(0), id, at("10.0.2.2:9"), body).expect("room");
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    assert!(!host.credit_at(ms(0), Port(1), ms(5)));
}

#[test]
#[should_panic(expected = "time ran backwards")]
fn a_packet_from_the_past_is_refused_loudly() {
    let mut host = idle_router();
    assert!(outputs(&mut host, ms(5)).is_empty());
    receive(&mut host, ms(4), one());
}

#[test]
#[should_panic(expected = "not polled until idle")]
fn a_packet_before_pending_outputs_are_polled_panics() {
    let mut host = idle_router();
    receive(&mut host, ms(1), one());
    receive(&mut host, ms(2), one());
}

#[test]
#[should_panic(expected = "not polled until idle")]
fn a_call_before_pending_outputs_are_polled_panics() {
    let mut host = idle_router();
    receive(&mut host, ms(1), one());
    let _ = host.udp_bind(ms(2), at("0.0.0.0:6"));
}

#[test]
#[should_panic(expected = "not polled until idle")]
fn a_chain_that_is_left_unfinished_fails_loudly() {
    let mut host = idle_router();
    host.set_xmit_more(Port(1), true);
    receive(&mut host, ms(0), super_packet());
    let mut place = Packet::default();
    assert_eq!(host.poll(ms(0), &mut place), Poll::Send { port: Port(1), more: true });
    host.credit(ms(1), Port(1));
}

#[test]
#[should_panic(expected = "that no packet has taken")]
fn more_room_than_was_granted_is_refused_loudly() {
    idle_router().credit(ms(0), Port(1));
}

#[test]
#[should_panic(expected = "that no packet has taken")]
fn room_is_deferred_once() {
    let mut host = idle_router();
    assert_eq!(sent_of(&mut host, ms(0), 1), 1);
    assert!(host.credit_at(ms(0), Port(1), ms(5)));
    assert!(!host.credit_at(ms(0), Port(1), ms(6)));
}

#[test]
#[should_panic(expected = "whose completion is deferred to")]
fn deferred_room_is_not_given_back_before() {
    let mut host = idle_router();
    assert_eq!(sent_of(&mut host, ms(0), 1), 1);
    assert!(host.credit_at(ms(0), Port(1), ms(5)));
    host.credit(ms(0), Port(1));
}

#[test]
#[should_panic(expected = "before that of an earlier packet")]
fn room_that_overtakes_is_refused_loudly() {
    let mut host = idle_router();
    host.grant(ms(0), Port(1), 1);
    assert_eq!(sent_of(&mut host, ms(0), 2), 2);
    assert!(host.credit_at(ms(0), Port(1), ms(5)));
    let _ = host.credit_at(ms(0), Port(1), ms(4));
}
