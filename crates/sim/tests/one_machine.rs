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

/// The segments that the sender puts on its wire: when, the port and how many bytes.
#[derive(Default)]
struct Wire(Vec<(Instant, u16, u32)>);

impl Wire {
    /// The ports of the data segments of a time.
    fn data_at(&self, at: Instant) -> Vec<u16> {
        let data = self.0.iter().filter(|(sent, _, len)| *sent == at && *len > 0);
        data.map(|(_, port, _)| *port).collect()
    }
}

impl Observer for Wire {
    fn interest(&self) -> Interest {
        Interest { sent: true, ..Interest::NOTHING }
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == LinkId(0) {
            self.0.push((now, packet.tcp().expect("TCP").src_port, packet.body.len));
        }
    }
}

/// What flows send until `end` on a path of 5 ms each way and no rate that begin at these times, with `rules` of a box and
/// chunks of so many bytes every so many milliseconds.
fn play(
    starts: &[u64],
    softirqs: bool,
    rules: &[&str],
    chunks: Option<(u64, u64)>,
    end: Instant,
) -> Wire {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let link = LinkConfig::delay(Duration::from_millis(5));
    let rules = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
    let wire = net.wire_with(a, b, LinkConfig { rules, ..link.clone() }, link);
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
    for (port, start) in (1..).zip(starts) {
        let mut app = TcpSend::bulk(SocketAddr::new(client, port), to, config.clone());
        if let Some((bytes, gap)) = chunks {
            app = app.chunks(bytes, Duration::from_millis(gap));
        }
        world.add_app(a, Box::new(app), ms(*start), None);
    }
    world.run_until(end);
    drop(world);
    Rc::into_inner(seen).expect("the world is gone").into_inner()
}

/// What two flows that begin at once send at the time of their first ACKs, which all come at once: the flows in the order
/// in which their segments leave.
fn second_flight(softirqs: bool) -> Vec<u16> {
    play(&[100, 100], softirqs, &[], None, ms(125)).data_at(ms(120))
}

/// Segments that a softirq sends lie in the machine's backlog until those that arrived before have had their turn: TCP
/// Small Queues stop both flows, and the one that was stopped last goes on first (`tcp_wfree`, `tcp_tsq_workfn`).
#[test]
fn small_queues_stop_senders_in_softirq_and_the_last_resumes_first() {
    let (whole, stopped) = (second_flight(false), second_flight(true));
    assert_eq!(whole.len(), stopped.len());
    let turns =
        |ports: &[u16]| ports.chunk_by(|a, b| a == b).map(|turn| turn[0]).collect::<Vec<_>>();
    assert_eq!(turns(&whole), [1, 2]);
    let stopped = turns(&stopped);
    assert_eq!(stopped[..3], [1, 2, 1], "{stopped:?}");
}

/// Timers fire in the order in which they were set: that of a program that has yet to begin was set before all others
/// (`timerqueue_add`).
#[test]
fn a_starting_application_goes_before_a_later_set_timer() {
    let wire = play(&[100, 120], true, &[], Some((1000, 10)), ms(125));
    let ports = wire.0.iter().filter(|(at, ..)| *at == ms(120)).map(|(_, port, _)| *port);
    assert_eq!(ports.collect::<Vec<_>>(), [2, 1]);
}

/// Timers that are set while others fire at one tick come to the wheel one before the other, and the last of them fires
/// first (`expire_timers`): the first timeouts go in the opposite order of the loss probes, the second ones as those did.
#[test]
fn timers_that_were_set_at_one_tick_fire_the_other_way_round() {
    let rules = ["f time 109000000 9000000000 drop"];
    let wire = play(&[100; 3], true, &rules, Some((1000, 9000)), ms(1500));
    let after: Vec<_> = wire.0.iter().filter(|(at, ..)| *at > ms(110)).collect();
    let groups = after.chunk_by(|one, next| one.0 == next.0);
    let mut orders = groups.map(|group| group.iter().map(|(_, port, _)| *port).collect::<Vec<_>>());
    let [probes, first, second] = [(); 3].map(|()| orders.next().expect("it is sent again"));
    assert_eq!(probes.len(), 3);
    assert!(first.iter().rev().eq(&probes), "{probes:?}, then {first:?}");
    assert_eq!(second, probes);
}
