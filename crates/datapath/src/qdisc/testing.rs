//! What the tests of all qdiscs share: plain frames, and a bench that runs a qdisc in virtual
//! time, as a device with an always ready port would.

use super::{Counted, Cx, Enqueue, Qdisc};
use crate::packet::seq::Seq;
use crate::packet::{
    Body, Ipv4, LinkHeader, MacAddr, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
    Udp,
};
use crate::reason::Reason;
use crate::units::Instant;
use core::net::Ipv4Addr;

/// A UDP datagram in an Ethernet frame of `len` bytes, 10.0.0.1:1000 to 10.0.0.2:2000.
pub fn frame(len: u32) -> Packet {
    flow_frame(1000, len, 0)
}

/// As [`frame`] from source port `port` with the given TOS byte.
pub fn flow_frame(port: u16, len: u32, tos: u8) -> Packet {
    assert!(len >= 42, "a UDP frame has 42 bytes of headers");
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let mut packet = Packet {
        link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4 {
            tos,
            ..Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 17)
        }),
        transport: Transport::Udp(Udp { src_port: port, dst_port: 2000 }),
        body: Body::of_len(len - 42),
        meta: Meta::default(),
        ..Packet::default()
    };
    packet.meta.owner = Meta::NO_OWNER;
    packet.finish()
}

/// A TCP super-packet of `segments` full segments of `mss` bytes.
pub fn super_frame(segments: u16, mss: u16) -> Packet {
    let mut packet = frame(42);
    if let Network::Ipv4(ip) = &mut packet.network {
        ip.protocol = 6;
    }
    packet.transport = Transport::Tcp(Tcp {
        src_port: 1000,
        dst_port: 2000,
        seq: Seq(1),
        ack: Seq(1),
        flags: TcpFlags::ACK | TcpFlags::PSH,
        window: 100,
        urgent: 0,
        options: TcpOptions::default(),
    });
    packet.body.len = u32::from(segments) * u32::from(mss);
    packet.meta.gso_segs = segments;
    packet.meta.gso_size = mss;
    packet.finish()
}

/// A qdisc under test, counted, with everything it dropped.
pub struct Bench<Q> {
    qdisc: Counted<Q>,
    dropped: Vec<(Reason, Packet)>,
}

impl<Q: Qdisc> Bench<Q> {
    /// A bench around an empty qdisc.
    pub fn new(qdisc: Q) -> Self {
        Self { qdisc: Counted::new(qdisc), dropped: Vec::new() }
    }

    /// As [`Bench::new`] for a qdisc that makes packets of its own.
    pub fn with_copies(qdisc: Q, made: fn(&Q) -> (u64, u64)) -> Self {
        Self { qdisc: Counted::with_copies(qdisc, made), dropped: Vec::new() }
    }

    /// The qdisc, to set it up.
    pub fn qdisc_mut(&mut self) -> &mut Q {
        self.qdisc.inner_mut()
    }

    /// The qdisc.
    pub fn qdisc(&self) -> &Q {
        self.qdisc.inner()
    }

    /// Enqueues at `nanos`.
    pub fn enqueue(&mut self, nanos: u64, packet: Packet) -> Enqueue {
        let now = Instant::from_nanos(nanos);
        self.qdisc.enqueue(packet, &mut Cx { now, dropped: &mut self.dropped })
    }

    /// Dequeues once at `nanos`.
    pub fn dequeue(&mut self, nanos: u64) -> Option<Packet> {
        let now = Instant::from_nanos(nanos);
        self.qdisc.dequeue(&mut Cx { now, dropped: &mut self.dropped })
    }

    /// Purges at `nanos`.
    pub fn purge(&mut self, nanos: u64) {
        let now = Instant::from_nanos(nanos);
        self.qdisc.purge(&mut Cx { now, dropped: &mut self.dropped });
    }

    /// Lengths of what comes out at `nanos`, until nothing does.
    pub fn drain_lengths(&mut self, nanos: u64) -> Vec<u32> {
        core::iter::from_fn(|| self.dequeue(nanos)).map(|packet| packet.len()).collect()
    }

    /// Lengths of what was dropped so far.
    pub fn dropped_lengths(&self) -> Vec<u32> {
        self.dropped.iter().map(|(_, packet)| packet.len()).collect()
    }

    /// Why packets were dropped so far.
    pub fn reasons(&self) -> Vec<Reason> {
        self.dropped.iter().map(|(reason, _)| *reason).collect()
    }

    /// Feeds `arrivals` (ns, packet; in order of time), dequeues at every arrival and whenever
    /// the qdisc asks, and returns every departure. The port always has credit.
    pub fn run(&mut self, arrivals: impl IntoIterator<Item = (u64, Packet)>) -> Vec<(u64, Packet)> {
        let mut departures = Vec::new();
        for (at, packet) in arrivals {
            self.run_until(at, &mut departures);
            self.enqueue(at, packet);
            self.dequeue_all(at, &mut departures);
        }
        self.run_until(u64::MAX, &mut departures);
        departures
    }

    /// Follows the watchdog up to `until`, excluding it.
    fn run_until(&mut self, until: u64, departures: &mut Vec<(u64, Packet)>) {
        while let Some(wake) = self.qdisc.wake_at() {
            if wake.as_nanos() >= until {
                return;
            }
            self.dequeue_all(wake.as_nanos(), departures);
            assert_ne!(self.qdisc.wake_at(), Some(wake), "the watchdog makes progress");
        }
    }

    fn dequeue_all(&mut self, nanos: u64, departures: &mut Vec<(u64, Packet)>) {
        while let Some(packet) = self.dequeue(nanos) {
            departures.push((nanos, packet));
        }
    }
}
