//! A port, its queue and its device: what a device cuts, what a queue drops, and when a packet may leave.

use super::*;

/// Below the queue and one by one, as credit comes; those that wait are before the queue.
#[test]
fn a_device_without_tso_gets_segments() {
    let mut host = router();
    host.grant(ms(0), Port(1), 1);
    receive(&mut host, ms(0), super_packet());
    receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 7));
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    assert_eq!(host.port(Port(1)).backlog().packets, 2);
    host.grant(ms(1), Port(1), 5);
    let lengths: Vec<u32> = sent(&mut host, ms(1)).iter().map(|(_, p)| p.body.len).collect();
    assert_eq!(lengths, [1000, 1000, 1000, 500, 7]);
    assert_eq!(host.port(Port(1)).backlog(), crate::qdisc::Backlog::default());
}

#[test]
fn a_device_with_tso_gets_the_super_packet() {
    let mut host = Host::new();
    host.forwarding = true;
    host.add_port(port_with("10.0.1.1"));
    let offloads = Offloads { tso: true, ..Offloads::default() };
    host.add_port(PortConfig { offloads, ..port_with("10.0.2.1") });
    host.grant(ms(0), Port(1), 1);
    let transport = Transport::Tcp(tcp_header(TcpFlags::ACK));
    receive(&mut host, ms(0), Packet { transport, ..super_packet() }.finish());
    let whole = sent(&mut host, ms(0));
    assert_eq!((whole.len(), whole[0].1.segments()), (1, 5));
    // It is TCP's that such a device cuts (`tx-udp-segmentation` is another).
    host.grant(ms(0), Port(1), 9);
    receive(&mut host, ms(0), super_packet());
    assert_eq!(sent(&mut host, ms(0)).len(), 5);
}

#[test]
fn packets_in_a_queue_that_goes_down_are_dropped_with_a_reason() {
    let mut host = router();
    receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100));
    host.set_port_up(ms(0), Port(1), false);
    receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100));
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::QueuePurge, Reason::LinkDown]);
    let (port, stats) = (host.port(Port(1)), host.port(Port(1)).qdisc().stats());
    assert_eq!((stats.packets, stats.drops), (0, 0), "the qdisc counts neither");
    assert_eq!(port.stats.tx_dropped, 1, "the device only what comes later");
}

/// `ip -s link` of a kernel whose tbf drops 99 of 138 datagrams has a `dropped` of 0.
#[test]
fn what_a_queue_drops_the_device_does_not_count() {
    let mut host = router();
    host.set_qdisc(ms(0), Port(1), Fifo::new(FifoKind::Packets(1)).into());
    for _ in 0..3 {
        receive(&mut host, ms(0), datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100));
    }
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::QdiscOverlimit; 2]);
    let port = host.port(Port(1));
    assert_eq!((port.qdisc().stats().drops, port.stats.tx_dropped), (2, 0));
}

/// fq's timer has 10 µs of slack: any interrupt of the machine within them may fire it.
#[test]
fn a_timer_with_slack_may_fire_before_its_latest_time() {
    use crate::qdisc::Handle;
    use crate::qdisc::fq::{Fq, FqConfig};
    use crate::rng::Rng;
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    host.grant(ms(0), Port(0), 1);
    let fq = Sched::new(Handle::NONE, Fq::new(FqConfig::new(1514), Rng::stream(1, 1)));
    host.set_qdisc(ms(0), Port(0), fq);
    assert!(outputs(&mut host, ms(0)).is_empty());
    let mut packet = datagram("10.0.1.1:5", "10.0.1.2:6", 64, 100);
    packet.meta.departs_in_ns = 50_000;
    host.send_by(ms(1), Port(0), packet);
    assert!(sent(&mut host, ms(1)).is_empty());
    let after = |micros| ms(1) + Duration::from_micros(micros);
    assert_eq!(host.on_one_machine().lax_timer(after(49)), None);
    assert_eq!(host.on_one_machine().lax_timer(after(50)), Some(after(60)));
    host.on_one_machine().fire_lax_timers(after(55));
    assert_eq!(sent(&mut host, after(55)).len(), 1);
    assert_eq!(host.on_one_machine().lax_timer(after(60)), None);
}

/// `SO_MAX_PACING_RATE` of a datagram socket under fq; afterwards its place in the host is anybody's.
#[test]
fn datagrams_leave_fq_at_the_rate_of_their_socket() {
    use crate::qdisc::Handle;
    use crate::qdisc::fq::{Fq, FqConfig};
    use crate::rng::Rng;
    let mut host = Host::new();
    host.add_port(port_with("10.0.1.1"));
    host.grant(ms(0), Port(0), 100);
    let fq = Sched::new(Handle::NONE, Fq::new(FqConfig::new(1514), Rng::stream(1, 1)));
    host.set_qdisc(ms(0), Port(0), fq);
    let open = |host: &mut Host, now| host.udp_bind(now, at("10.0.1.1:5")).expect("a free port");
    let three = |host: &mut Host, now: Instant, id| {
        for _ in 0..3 {
            host.udp_send(now, id, at("10.0.1.2:6"), Body::of_len(972)).expect("room");
        }
    };
    let id = open(&mut host, ms(0));
    host.udp_socket(id).expect("it is open").pacing_rate = 50_000;
    three(&mut host, ms(0), id);
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    assert_eq!(sent(&mut host, ms(19)).len(), 0);
    assert_eq!(sent(&mut host, ms(25)).len(), 1);
    assert_eq!(sent(&mut host, ms(60)).len(), 1);
    host.datagram_close(id).expect("it is open");
    let id = open(&mut host, ms(100));
    three(&mut host, ms(100), id);
    assert_eq!(sent(&mut host, ms(100)).len(), 3);
}
