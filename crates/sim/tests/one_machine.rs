//! Hosts that are name spaces of one machine: what happens at one instant does so in the order of its softirqs.

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::packet::Packet;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use sim::link::{LinkConfig, LinkId};
use sim::record::{Interest, Observer};
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// The ports of the data segments that the sender puts on its wire, and when.
#[derive(Default)]
struct Wire(Vec<(Instant, u16)>);

impl Observer for Wire {
    fn interest(&self) -> Interest {
        Interest { sent: true, ..Interest::NOTHING }
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == LinkId(0) && packet.body.len > 0 {
            self.0.push((now, packet.tcp().expect("TCP").src_port));
        }
    }
}

/// Two flows begin at once on a path of 5 ms each way and no rate. What they send at the time of their first ACKs, which
/// all come at once: the flows in the order in which their segments leave.
fn second_flight(softirqs: bool) -> Vec<u16> {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let link = LinkConfig::delay(Duration::from_millis(5));
    let wire = net.wire_with(a, b, link.clone(), link);
    for end in {
        let wire = net.wire_mut(wire);
        [&mut wire.a, &mut wire.b]
    } {
        end.interface.orphans = true;
    }
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let client = net.address(a).expect("wired");
    let mut world = net.build(1).expect("possible");
    world.on_one_machine(true);
    world.prompt_apps();
    if softirqs {
        world.play_softirqs(a);
    }
    let seen = Rc::new(RefCell::new(Wire::default()));
    world.observe(Box::new(Rc::clone(&seen)));
    let config = TcpConfig::default();
    world.add_app(b, Box::new(TcpSink::new(to, config.clone())), ms(0), None);
    for port in [1, 2] {
        let app = TcpSend::bulk(SocketAddr::new(client, port), to, config.clone());
        world.add_app(a, Box::new(app), ms(100), None);
    }
    world.run_until(ms(125));
    let seen = seen.borrow();
    seen.0.iter().filter(|(at, _)| *at == ms(120)).map(|(_, port)| *port).collect()
}

/// Segments that a softirq sends lie in the machine's backlog until those that arrived before have had their turn: TCP
/// Small Queues stop both flows, and the one that was stopped last goes on first (`tcp_wfree`, `tcp_tsq_workfn`).
#[test]
fn small_queues_stop_what_a_softirq_sends_and_the_last_goes_on_first() {
    let (whole, stopped) = (second_flight(false), second_flight(true));
    assert_eq!(whole.len(), stopped.len());
    let turns =
        |ports: &[u16]| ports.chunk_by(|a, b| a == b).map(|turn| turn[0]).collect::<Vec<_>>();
    assert_eq!(turns(&whole), [1, 2]);
    let stopped = turns(&stopped);
    assert_eq!(stopped[..3], [1, 2, 1], "{stopped:?}");
}
