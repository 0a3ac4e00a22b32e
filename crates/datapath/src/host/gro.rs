//! Generic receive offload at a port: packets that arrive between two interrupts are received at once, and
//! adjacent segments of a connection as one (`napi_poll`, `dev_gro_receive`).
//!
//! An interrupt comes `rx_usecs` after the first waiting packet, and at least a nanosecond later,
//! so that packets of one moment are one batch.

use super::Host;
use super::payloads::Payloads;
use super::rx_ring::RxRing;
use crate::node::{Port, Rx};
use crate::packet::{GRO_MAX_SIZE, Memory, Packet, gro_ends, gro_merge};
use crate::units::Instant;

/// Connections whose segments are held at most (`GRO_HASH_BUCKETS` × `MAX_GRO_SKBS`).
const MAX_HELD: usize = 64;
impl Host {
    /// The packet in `place` has arrived on a port that merges.
    #[inline(never)]
    pub(super) fn gro_receive(&mut self, now: Instant, port: Port, place: &mut Packet) {
        let host_port = &mut self.ports[usize::from(port.0)];
        let rx_usecs = host_port.config.rx_usecs;
        let ring = host_port.rx.get_or_insert_default();
        if let Some(due) = ring.push(now, rx_usecs, place) {
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
