//! The laws that every qdisc obeys, as a test kit for a library user's own.
//!
//! [`check`] simulates ports with a qdisc: packets of many flows and sizes arrive in bursts; the port dequeues
//! at its rate, pauses, and comes back at the time that the qdisc asks for. The built-in qdiscs pass it.

use super::{Backlog, Cx, Qdisc, Stats};
use crate::packet::{Body, Ipv4, LinkHeader, MacAddr, Meta, Network, Packet, Transport, Udp};
use crate::reason::{Enqueue, Reason};
use crate::rng::{Ratio, Rng};
use crate::units::{Duration, Instant};
use core::fmt;
use core::net::Ipv4Addr;

/// A law that a qdisc broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The law, in words.
    pub law: &'static str,
    /// What the qdisc did.
    pub what: String,
    /// The port at which it did so: the same number is the same port.
    pub seed: u64,
    /// How many steps of it had been taken.
    pub step: u32,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, what, seed, step } = self;
        write!(f, "law \"{law}\" is broken: {what} (port {seed}, step {step})")
    }
}

impl core::error::Error for Broken {}

const CONSERVED: &str = "what went in came out, was dropped, or waits";
const COUNTED: &str = "what leaves is counted as sent";
const DROPS: &str = "what is dropped is counted";
const VERDICT: &str = "a packet that is refused is handed back";
const WAKES: &str = "who waits says until when, and that is later";
const EMPTIES: &str = "what waits leaves in the end";
const PURGES: &str = "nothing waits after a purge";
const SAME: &str = "the same calls have the same effects";

/// Simulates a hundred ports with qdiscs that `make` returns.
///
/// ```
/// use datapath::qdisc::fifo::{Fifo, FifoKind};
/// use datapath::qdisc::laws;
/// laws::check(|_| Fifo::new(FifoKind::Packets(10)))?;
/// # Ok::<(), laws::Broken>(())
/// ```
///
/// It is not suitable for qdiscs that create packets.
///
/// # Errors
/// The first law that a qdisc breaks:
/// * what went in came out, was dropped, or is queued, in segments and bytes;
/// * sent and dropped packets are counted in its [`Stats`];
/// * a packet that is refused ([`Enqueue::Dropped`]) is among the dropped;
/// * if a qdisc returns no packet although it has a backlog, it names a later time to try again;
/// * the backlog drains in the end, without any new packet;
/// * the backlog is empty after a purge;
/// * the same calls have the same effects: `make` gets the seed of all randomness.
pub fn check<Q: Qdisc>(make: impl Fn(Rng) -> Q) -> Result<(), Broken> {
    for seed in 0..PORTS {
        let own = || make(Rng::stream(seed, 1));
        Play::new(seed, own(), own()).run()?;
    }
    Ok(())
}

/// Number of simulated ports.
const PORTS: u64 = 100;
/// Steps of each.
const STEPS: u32 = 400;
/// Maximum number of dequeues while a queue drains.
const ASKED_MAX: u32 = 100_000;
const HALF: Ratio = Ratio::from_millionths(500_000);

/// One port, simulated with two qdiscs at once.
struct Play<Q> {
    seed: u64,
    step: u32,
    rng: Rng,
    now: Instant,
    qdisc: Q,
    twin: Q,
    entered: Tally,
    left: Tally,
    dropped: Tally,
}

/// Segments, bytes on the wire, and packets as they are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    segments: u64,
    bytes: u64,
    packets: u64,
}

impl Tally {
    fn add(&mut self, packet: &Packet) {
        self.segments += u64::from(packet.segments());
        self.bytes += u64::from(packet.wire_len());
        self.packets += 1;
    }
}

impl<Q: Qdisc> Play<Q> {
    fn new(seed: u64, qdisc: Q, twin: Q) -> Self {
        let [entered, left, dropped] = [Tally::default(); 3];
        let rng = Rng::stream(seed, 0);
        Self { seed, step: 0, rng, now: Instant::ZERO, qdisc, twin, entered, left, dropped }
    }

    fn run(&mut self) -> Result<(), Broken> {
        // Some ports are overloaded.
        let crowded = self.rng.chance(HALF);
        for step in 0..STEPS {
            self.step = step;
            match self.rng.below(10) {
                0 => self.pass(Duration::from_nanos(self.rng.clone().below(50_000_000))),
                1 => {
                    for _ in 0..self.rng.below(40) {
                        self.enqueue()?;
                    }
                }
                2..=5 => self.enqueue()?,
                6 if crowded => self.enqueue()?,
                _ => drop(self.dequeue()?),
            }
            self.pass(Duration::from_nanos(self.rng.clone().below(30_000)));
        }
        if self.seed.is_multiple_of(4) { self.purge() } else { self.empty() }
    }

    fn pass(&mut self, span: Duration) {
        self.rng.next_u64();
        self.now += span;
    }

    fn enqueue(&mut self) -> Result<(), Broken> {
        let packet = self.packet();
        self.entered.add(&packet);
        let mut dropped = Vec::new();
        let mut cx = Cx { now: self.now, dropped: &mut dropped };
        let verdict = self.qdisc.enqueue(packet.clone(), &mut cx);
        let mut other = Vec::new();
        let twin = self.twin.enqueue(packet, &mut Cx { now: self.now, dropped: &mut other });
        if verdict == Enqueue::Dropped && dropped.is_empty() {
            return self.broken(VERDICT, format!("{verdict:?}, and nothing was dropped"));
        }
        self.same((verdict, &dropped) == (twin, &other), "enqueue")?;
        self.settle(&dropped)
    }

    fn dequeue(&mut self) -> Result<bool, Broken> {
        let (mut dropped, mut other) = (Vec::new(), Vec::new());
        let packet = self.qdisc.dequeue(&mut Cx { now: self.now, dropped: &mut dropped });
        let twin = self.twin.dequeue(&mut Cx { now: self.now, dropped: &mut other });
        self.same(packet == twin && dropped == other, "dequeue")?;
        if let Some(packet) = &packet {
            self.left.add(packet);
        }
        self.settle(&dropped)?;
        let waiting = self.qdisc.backlog();
        let wake_at = self.qdisc.wake_at();
        if packet.is_none() && waiting.packets > 0 && wake_at.is_none_or(|at| at <= self.now) {
            let now = self.now;
            return self.broken(WAKES, format!("{waiting:?} at {now:?}, wakes at {wake_at:?}"));
        }
        Ok(packet.is_some())
    }

    /// The port dequeues until the backlog is empty.
    fn empty(&mut self) -> Result<(), Broken> {
        for _ in 0..ASKED_MAX {
            if self.dequeue()? {
                continue;
            }
            match self.qdisc.wake_at() {
                Some(at) if self.qdisc.backlog().packets > 0 => self.now = at,
                _ => return Ok(()),
            }
        }
        let waiting = self.qdisc.backlog();
        self.broken(EMPTIES, format!("{waiting:?} after it was asked {ASKED_MAX} times"))
    }

    fn purge(&mut self) -> Result<(), Broken> {
        let (mut dropped, mut other) = (Vec::new(), Vec::new());
        self.qdisc.purge(&mut Cx { now: self.now, dropped: &mut dropped });
        self.twin.purge(&mut Cx { now: self.now, dropped: &mut other });
        self.same(dropped == other, "purge")?;
        let waiting = self.qdisc.backlog();
        if waiting != Backlog::default() {
            return self.broken(PURGES, format!("{waiting:?}"));
        }
        for (_, packet) in &dropped {
            self.dropped.add(packet);
        }
        self.conserved()
    }

    /// Counts what was dropped, and compares the counters.
    fn settle(&mut self, dropped: &[(Reason, Packet)]) -> Result<(), Broken> {
        for (_, packet) in dropped {
            self.dropped.add(packet);
        }
        self.conserved()?;
        let Stats { bytes, packets, drops, .. } = self.qdisc.stats();
        if (bytes, packets) != (self.left.bytes, self.left.segments) {
            let left = self.left;
            return self.broken(COUNTED, format!("{bytes} bytes, {packets} packets of {left:?}"));
        }
        if drops < self.dropped.packets {
            let dropped = self.dropped.packets;
            return self.broken(DROPS, format!("{drops} of {dropped}"));
        }
        Ok(())
    }

    fn conserved(&self) -> Result<(), Broken> {
        let Backlog { packets, bytes } = self.qdisc.backlog();
        let gone = self.left.bytes + self.dropped.bytes;
        let gone_segments = self.left.segments + self.dropped.segments;
        let inside = self.entered.bytes.checked_sub(gone);
        let segments = self.entered.segments.checked_sub(gone_segments);
        let fits = inside == Some(bytes.into())
            && segments.is_some_and(|segments| {
                u64::from(packets) <= segments && (packets == 0) == (segments == 0)
            });
        if fits {
            return Ok(());
        }
        let Self { entered, left, dropped, .. } = self;
        let books = format!("{entered:?} in, {left:?} out, {dropped:?} dropped");
        self.broken(CONSERVED, format!("{books}, and {packets} packets of {bytes} bytes wait"))
    }

    fn same(&self, same: bool, call: &str) -> Result<(), Broken> {
        let alike = same
            && self.qdisc.backlog() == self.twin.backlog()
            && self.qdisc.stats() == self.twin.stats()
            && self.qdisc.wake_at() == self.twin.wake_at();
        if alike { Ok(()) } else { self.broken(SAME, format!("{call} had others at its twin")) }
    }

    fn broken<T>(&self, law: &'static str, what: String) -> Result<T, Broken> {
        Err(Broken { law, what, seed: self.seed, step: self.step })
    }

    /// A datagram of one of sixteen flows.
    fn packet(&mut self) -> Packet {
        let len = 42 + self.rng.below(1473) as u32;
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let addresses = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
        let mut packet = Packet {
            link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
            network: Network::Ipv4(Ipv4 {
                tos: self.rng.below(256) as u8,
                ..Ipv4::new(addresses[0], addresses[1], 17)
            }),
            transport: Transport::Udp(Udp {
                src_port: 1000 + self.rng.below(16) as u16,
                dst_port: 2000,
            }),
            body: Body::of_len(len - 42),
            meta: Meta::default(),
            ..Packet::default()
        };
        packet.meta.owner = Meta::NO_OWNER;
        packet.meta.priority = self.rng.below(8) as u32;
        packet.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::codel::{Codel, CodelConfig};
    use super::super::fifo::{Fifo, FifoKind};
    use super::super::fq_codel::{FqCodel, FqCodelConfig};
    use super::super::{AnyQdisc, Handle};
    use super::*;

    #[test]
    fn the_products_own_obey() {
        check(|_| Fifo::new(FifoKind::Packets(7))).unwrap();
        check(|_| Fifo::new(FifoKind::HeadDrop(7))).unwrap();
        check(|_| Codel::new(CodelConfig::new(1514))).unwrap();
        check(|rng| FqCodel::new(FqCodelConfig::new(1514), Handle::new(1, 0), rng)).unwrap();
    }

    /// A queue that breaks one law.
    #[derive(Clone)]
    struct Lawless(Fifo, &'static str, u64);

    impl Qdisc for Lawless {
        fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
            match self.1 {
                CONSERVED if packet.network.tos() == 7 => Enqueue::Queued,
                VERDICT if packet.network.tos() == 7 => Enqueue::Dropped,
                SAME if packet.network.tos() == 7 && self.2.is_multiple_of(2) => {
                    cx.drop(Reason::QdiscDrop, packet);
                    Enqueue::Dropped
                }
                _ => self.0.enqueue(packet, cx),
            }
        }

        fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
            match self.1 {
                WAKES if self.0.backlog().packets == 3 => None,
                EMPTIES if self.0.backlog().packets == 3 => {
                    self.2 = cx.now.as_nanos() + 1_000;
                    None
                }
                _ => self.0.dequeue(cx),
            }
        }

        fn purge(&mut self, cx: &mut Cx<'_>) {
            if self.1 != PURGES {
                self.0.purge(cx);
            }
        }

        fn wake_at(&self) -> Option<Instant> {
            (self.1 == EMPTIES).then_some(Instant::from_nanos(self.2))
        }

        fn backlog(&self) -> Backlog {
            self.0.backlog()
        }

        fn stats(&self) -> Stats {
            let stats = self.0.stats();
            match self.1 {
                COUNTED => Stats { packets: 0, ..stats },
                DROPS => Stats { drops: 0, ..stats },
                _ => stats,
            }
        }
    }

    #[test]
    fn each_law_can_be_broken() {
        let made = core::cell::Cell::new(0);
        for law in [CONSERVED, COUNTED, DROPS, VERDICT, WAKES, EMPTIES, PURGES, SAME] {
            let lawless = |_| {
                made.set(made.get() + 1);
                let own = if law == SAME { made.get() } else { 0 };
                Lawless(Fifo::new(FifoKind::Packets(20)), law, own)
            };
            assert_eq!(check(lawless).unwrap_err().law, law);
        }
        let any: fn(Rng) -> AnyQdisc = |_| Fifo::new(FifoKind::Bytes(3000)).into();
        check(any).unwrap();
    }
}
