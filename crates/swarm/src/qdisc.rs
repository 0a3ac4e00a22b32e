//! Trees of queueing disciplines under load, changed while packets wait.

use core::net::Ipv4Addr;

use datapath::packet::{Body, Ipv4, Link, MacAddr, Meta, Network, Packet, Transport, Udp};
use datapath::qdisc::fifo::PfifoFast;
use datapath::qdisc::{Cx, Handle, Qdisc as _, Sched};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use iproute::tc::{Device, parse_qdisc};
use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::case::{self, Digest, Outcome, Violation};
use crate::draw::Draw;
use crate::oracle::Conservation;
use crate::shrink::without_parts;

/// One tree and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// A tc command. One that is refused changes nothing.
    Tc(String),
    /// A datagram of this source port and length arrives.
    Enqueue {
        /// UDP source port, which tells flows apart.
        flow: u16,
        /// Bytes of the frame.
        bytes: u32,
    },
    /// The device takes what it can get, at most so many packets.
    Dequeue(u32),
    /// Time passes.
    WaitMicros(u32),
}

impl case::Case for Case {
    const KIND: Kind = Kind::Qdisc;

    fn draw(seed: u64) -> Self {
        let mut draw = Draw::new(seed, 0);
        let count = draw.log_range(4..=300);
        let root = Step::Tc(format!("qdisc add dev d root handle 1: {}", draw.one_of(WORDS)));
        let steps = (0..count).map(|_| any_step(&mut draw));
        Self { steps: core::iter::once(root).chain(steps).collect() }
    }

    fn run(&self) -> Result<Outcome, Violation> {
        let mut bench = Bench::new();
        for (number, step) in self.steps.iter().enumerate() {
            bench.step(step);
            bench.check(number)?;
        }
        Ok(Outcome { digest: bench.digest.value(), steps: self.steps.len() as u64 })
    }

    fn simpler(&self) -> Vec<Self> {
        without_parts(&self.steps).into_iter().map(|steps| Self { steps }).collect()
    }
}

const WORDS: &[&str] =
    &["pfifo limit 5", "bfifo", "fq", "fq_codel", "codel", "cake bandwidth 1mbit"];

fn any_step(draw: &mut Draw) -> Step {
    match draw.range(0..=9) {
        0..=4 => {
            Step::Enqueue { flow: draw.range(1..=5) as u16, bytes: draw.range(60..=1514) as u32 }
        }
        5..=6 => Step::Dequeue(draw.log_range(1..=20) as u32),
        7..=8 => Step::WaitMicros(draw.log_range(1..=1_000_000) as u32),
        _ => Step::Tc(format!("qdisc replace dev d root handle 1: {}", draw.one_of(WORDS))),
    }
}

/// The tree under test.
struct Bench {
    now: Instant,
    root: Sched,
    dropped: Vec<(Reason, Packet)>,
    books: Conservation,
    digest: Digest,
}

impl Bench {
    fn new() -> Self {
        let root = Sched::new(Handle::NONE, PfifoFast::new(1_000));
        let now = Instant::from_nanos(1);
        let (dropped, books, digest) = <_>::default();
        Self { now, root, dropped, books, digest }
    }

    fn step(&mut self, step: &Step) {
        let mut cx = Cx { now: self.now, dropped: &mut self.dropped };
        match step {
            Step::Tc(words) => {
                if let Ok(command) = parse_qdisc(words) {
                    let rng = Rng::stream(1, 1);
                    drop(command.apply(&mut self.root, Device::default(), rng, &mut cx));
                }
            }
            Step::Enqueue { flow, bytes } => {
                self.books.entered += 1;
                self.root.enqueue(datagram(*flow, *bytes), &mut cx);
            }
            Step::Dequeue(most) => {
                for _ in 0..*most {
                    let Some(packet) = self.root.dequeue(&mut cx) else { break };
                    self.books.left += 1;
                    self.digest.add(u64::from(packet.len()));
                }
            }
            Step::WaitMicros(micros) => self.now += Duration::from_micros(u64::from(*micros)),
        }
        self.books.dropped += self.dropped.drain(..).len() as u64;
        self.digest.add(self.books.dropped);
    }

    fn check(&self, step: usize) -> Result<(), Violation> {
        self.books.check(format!("step {step}"), u64::from(self.root.backlog().packets))
    }
}

fn datagram(flow: u16, bytes: u32) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let packet = Packet {
        link: Link::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4 {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            tos: 0,
            ttl: 64,
            protocol: 17,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }),
        transport: Transport::Udp(Udp { src_port: flow, dst_port: 9 }),
        body: Body { len: bytes.saturating_sub(42), ..Body::default() },
        meta: Meta { owner: Meta::NO_OWNER, ..Meta::default() },
        hash: 0,
        extra: None,
    };
    packet.finish()
}
