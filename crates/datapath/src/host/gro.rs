//! Generic receive offload at a port: packets that arrive between two interrupts are received at once, and
//! adjacent segments of a connection as one (`napi_poll`, `dev_gro_receive`).
//!
//! An interrupt comes `rx_usecs` after the first waiting packet, and at least a nanosecond later,
//! so that packets of one moment are one batch.

use super::Host;
use super::payloads::Payloads;
use super::port::HostPort;
use crate::node::{Port, Rx};
use crate::packet::{GRO_MAX_SIZE, Memory, Packet, gro_ends, gro_merge};
use crate::units::{Duration, Instant};

/// Connections whose segments are held at most (`GRO_HASH_BUCKETS` × `MAX_GRO_SKBS`).
const MAX_HELD: usize = 64;
/// How long after the arrivals of a moment an interrupt is served at the earliest.
const INTERRUPT_AFTER: Duration = Duration::from_nanos(1);

/// Packets that wait for the next interrupt of a port.
#[derive(Debug)]
pub(super) struct RxRing {
    /// The first of these hold waiting packets; the others are unused.
    places: Vec<Packet>,
    waiting: usize,
    /// When it comes; `FAR_FUTURE` if nothing waits.
    due: Instant,
    /// Segments that others may join, kept for their memory.
    held: Vec<Packet>,
}

impl HostPort {
    /// Puts the packet in `place` into the ring; gives the time of the interrupt if this is the first.
    fn wait_for_interrupt(&mut self, now: Instant, place: &mut Packet) -> Option<Instant> {
        let delay = Duration::from_micros(u64::from(self.config.rx_usecs)).max(INTERRUPT_AFTER);
        let ring = self.rx.get_or_insert_with(|| {
            let due = Instant::FAR_FUTURE;
            Box::new(RxRing { places: Vec::new(), waiting: 0, due, held: Vec::new() })
        });
        if ring.waiting == ring.places.len() {
            ring.places.push(Packet::default());
        }
        place.move_to(&mut ring.places[ring.waiting]);
        ring.waiting += 1;
        (ring.due == Instant::FAR_FUTURE).then(|| {
            ring.due = now + delay;
            ring.due
        })
    }

    /// When the next interrupt comes; `FAR_FUTURE` if nothing waits.
    pub(super) fn interrupt_at(&self) -> Instant {
        self.rx.as_ref().map_or(Instant::FAR_FUTURE, |ring| ring.due)
    }

    /// Packets that wait for an interrupt.
    pub fn rx_waiting(&self) -> usize {
        self.rx.as_ref().map_or(0, |ring| ring.waiting)
    }
}

impl Host {
    /// The packet in `place` has arrived on a port that merges.
    #[inline(never)]
    pub(super) fn gro_receive(&mut self, now: Instant, port: Port, place: &mut Packet) {
        let ring = &mut self.ports[usize::from(port.0)];
        if let Some(due) = ring.wait_for_interrupt(now, place) {
            self.port_timers.arm(u32::from(port.0), due);
        }
    }

    /// The interrupt of a port, if its time has come: merges what has arrived, and takes it in.
    #[inline]
    pub(super) fn serve_interrupt(&mut self, now: Instant, port: Port) {
        let index = usize::from(port.0);
        if let Some(mut ring) = self.ports[index].rx.take_if(|ring| ring.due <= now) {
            self.empty_ring(now, port, &mut ring);
            self.ports[index].rx = Some(ring);
        }
    }

    #[inline(never)]
    fn empty_ring(&mut self, now: Instant, port: Port, ring: &mut RxRing) {
        ring.due = Instant::FAR_FUTURE;
        let waiting = core::mem::take(&mut ring.waiting);
        for place in &mut ring.places[..waiting] {
            self.gro_one(now, port, &mut ring.held, place);
            place.body.frame = None;
        }
        for mut packet in ring.held.drain(..) {
            self.go_up(now, port, &mut packet);
        }
    }

    /// Forwarded packets leave by `poll`, which is running.
    fn go_up(&mut self, now: Instant, port: Port, packet: &mut Packet) {
        // A frame of merged bytes is held by its packet alone, a device's frame by its pool as well.
        if let Some(frame) = &packet.body.frame
            && frame.holders() == 1
            && let Some(payloads) = &mut self.payloads
        {
            payloads.super_packets.adopt(frame);
        }
        let rx = self.ip_receive(now, port, packet);
        assert!(rx == Rx::Taken, "a host that is polled says nothing elsewhere");
    }

    /// One packet of a batch: joins what is held of its connection, or is held in its stead, or
    /// goes up.
    fn gro_one(&mut self, now: Instant, port: Port, held: &mut Vec<Packet>, packet: &mut Packet) {
        if packet.tcp().is_none() && !self.joins_datagrams(packet) {
            return self.go_up(now, port, packet);
        }
        if let Some(at) = held.iter().position(|one| same_connection(one, packet)) {
            let payloads = &mut **self.payloads.get_or_insert_default();
            let Payloads { super_packets, joined, .. } = payloads;
            if gro_merge(&mut held[at], packet, GRO_MAX_SIZE, super_packets, joined) {
                held[at].memory = Memory::Paged;
                if gro_ends(&held[at]) {
                    let mut whole = held.remove(at);
                    self.go_up(now, port, &mut whole);
                }
                return;
            }
            let mut before = held.remove(at);
            self.go_up(now, port, &mut before);
        }
        if gro_ends(packet) {
            return self.go_up(now, port, packet);
        }
        if held.len() == MAX_HELD {
            let mut oldest = held.remove(0);
            self.go_up(now, port, &mut oldest);
        }
        held.push(packet.take());
    }
}

/// Both ends are the same.
fn same_connection(held: &Packet, next: &Packet) -> bool {
    held.transport.ports() == next.transport.ports()
        && held.network.src() == next.network.src()
        && held.network.dst() == next.network.dst()
}
