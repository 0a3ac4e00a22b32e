//! What of 2.6.22's SACK code stands beside the profiles: the fast path, and forward retransmissions.

mod common;

use datapath::profile::{LostRetransmit, Profile};
use datapath::tcp::config::TcpConfig;
use datapath::trace::{Cause, Event, EventKind};
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, NodeId};
use sim::record::{Interest, Observer};
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// Why something was sent again, each time.
#[derive(Default)]
struct Causes(Vec<Cause>);

impl Observer for Causes {
    fn interest(&self) -> Interest {
        Interest { events: true, ..Interest::NOTHING }
    }

    fn event(&mut self, _: Instant, _: NodeId, event: &Event) {
        if let EventKind::Retransmit { cause, .. } = event.kind {
            self.0.push(cause);
        }
    }
}

/// Sends 300 kB to a receiver with a buffer of `rmem` bytes (half of it is window), where packets that
/// cover these bytes are lost, once for each time that a byte is named: why anything was sent again.
fn transfer(profile: Profile, rmem: u32, lost: &[u32]) -> Vec<Cause> {
    let mut tcp = TcpConfig { profile, ..TcpConfig::default() };
    tcp.sysctl.tcp_rmem = [4_096, rmem, rmem];
    let times = |index: usize| lost[..=index].iter().filter(|byte| **byte == lost[index]).count();
    let rules = lost.iter().enumerate().map(|(index, byte)| {
        format!("f off {byte} {} drop", times(index)).parse().expect("a rule")
    });
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let way = LinkConfig::new(Rate::from_mbit(10), Duration::from_millis(10));
    let there = LinkConfig { rules: rules.collect(), ..way.clone() };
    let wire = net.wire_with(a, b, there, way);
    let [left, right] = ["10.0.0.1", "10.0.0.2"].map(|end| (end.parse().expect("an address"), 30));
    net.addresses(wire, left, right);
    let mut world = common::transfer(&net, [a, b], tcp, 300_000);
    let causes = Rc::new(RefCell::new(Causes::default()));
    world.with_host(a, |_, host| host.set_tracing(true));
    world.observe(Box::new(Rc::clone(&causes)));
    world.run_until(Instant::ZERO + Duration::from_secs(30));
    drop(world);
    Rc::into_inner(causes).expect("the world is gone").into_inner().0
}

/// One block grows from the first loss on, so that the walk never comes by the hole again: all
/// detectors wait for the timeout.
#[test]
fn the_fast_path_misses_the_loss_of_the_only_retransmission() {
    use LostRetransmit::{Both, HighestSack, Linux2622, SkipReported};
    for lost_retransmit in [Linux2622, HighestSack, SkipReported, Both] {
        let causes = |sack_fast_path| {
            let stack = Profile::linux_2_6_22();
            transfer(Profile { lost_retransmit, sack_fast_path, ..stack }, 400_000, &[60_000; 2])
        };
        assert_eq!(causes(false), [Cause::DupAcks, Cause::DupAcks], "{lost_retransmit:?}");
        assert_eq!(causes(true), [Cause::DupAcks, Cause::Timeout], "{lost_retransmit:?}");
    }
}

/// A window of ten segments, of which the first and the eighth are lost: the eighth is too near to the
/// highest SACK to be called lost, and nothing new may go.
#[test]
fn forward_retransmits_send_what_may_be_lost_when_nothing_else_is_left() {
    let causes = |forward_retransmits| {
        let stack = Profile::linux_2_6_22();
        transfer(Profile { forward_retransmits, ..stack }, 29_200, &[100_000, 110_200])
    };
    assert_eq!(causes(false), [Cause::DupAcks, Cause::DupAcks]);
    assert_eq!(causes(true), [Cause::DupAcks, Cause::Forward]);
}
