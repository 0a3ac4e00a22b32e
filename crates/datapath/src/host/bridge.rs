//! A bump in the wire: packets received on one of two ports leave by the other, through its qdisc
//! (`br_forward`). No address, no route, no socket: link-layer headers stay as they are.
//!
//! It is driven by the same calls as a [`Host`](super::Host), under the same law, which is in the
//! documentation of the crate.

use super::port::{HostPort, PortConfig, SpareCutting};
use crate::node::{Poll, Port, Rx};
use crate::packet::Packet;
use crate::qdisc::{Cx, Sched};
use crate::reason::Reason;
use crate::units::Instant;

/// A VLAN tag, which is not part of an MTU.
const VLAN_HLEN: u32 = 4;

/// Two ports, each of which sends what the other has received.
#[derive(Debug)]
pub struct Bridge {
    ports: [HostPort; 2],
    /// The port whose turn it is to send.
    turn: usize,
    spare: SpareCutting,
    /// Packets dropped on their way out of each port and not yet reported.
    dropped: [Vec<(Reason, Packet)>; 2],
    /// The port whose drop was reported last.
    drop_port: Port,
    now: Instant,
    busy: bool,
}

impl Bridge {
    /// Two ports, both up; each begins with a `pfifo`, and without room in its device.
    pub fn new(configs: [PortConfig; 2]) -> Self {
        Self {
            ports: configs.map(HostPort::new),
            turn: 0,
            spare: None,
            dropped: [Vec::new(), Vec::new()],
            drop_port: Port(0),
            now: Instant::ZERO,
            busy: false,
        }
    }

    /// One of the two ports.
    ///
    /// # Panics
    /// If it is neither 0 nor 1, here and below.
    pub fn port(&self, port: Port) -> &HostPort {
        &self.ports[usize::from(port.0)]
    }

    /// A packet has arrived on `port`. [`Rx::Forward`] if it may bypass the queue; else it has
    /// been queued at the other port or dropped, which [`poll`](Self::poll) reports.
    ///
    /// # Panics
    /// Time ran backwards, or went on before [`Poll::Idle`].
    pub fn receive(&mut self, now: Instant, port: Port, packet: &mut Packet) -> Rx {
        self.come_to(now);
        let to = opposite(port);
        let (ports, spare) = (&mut self.ports, &mut self.spare);
        ports[usize::from(port.0)].count_received(packet);
        let leaves = &mut ports[usize::from(to.0)];
        let too_long = is_longer_than(packet, leaves.config.mtu);
        if !too_long && leaves.bypass(packet) {
            return Rx::Forward(to);
        }
        self.busy = true;
        let mut cx = Cx { now, dropped: &mut self.dropped[usize::from(to.0)] };
        if too_long {
            cx.drop(Reason::PacketTooBig, packet.take());
        } else if !leaves.bypass_to_be_cut(spare, packet) {
            leaves.enqueue(packet, &mut cx);
        }
        Rx::Taken
    }

    /// The device of `port` begins with room for so many packets.
    pub fn grant(&mut self, now: Instant, port: Port, packets: u32) {
        self.begin(now);
        let packets = i32::try_from(packets).expect("a device holds fewer packets than that");
        self.ports[usize::from(port.0)].room.credits += packets;
    }

    /// The first packet in the device of `port` has left it: there is room for one more.
    ///
    /// # Panics
    /// The device holds none.
    pub fn credit(&mut self, now: Instant, port: Port) {
        self.begin(now);
        self.ports[usize::from(port.0)].room.give();
    }

    /// Returns the next output; a packet is written to `place`. To be called until it returns
    /// [`Poll::Idle`], with the time at which a queue wants to be polled again.
    pub fn poll(&mut self, now: Instant, place: &mut Packet) -> Poll {
        self.come_to(now);
        for _ in 0..self.ports.len() {
            let index = self.turn;
            self.turn = 1 - index;
            let mut cx = Cx { now, dropped: &mut self.dropped[index] };
            if self.ports[index].dequeue(&mut cx, &mut self.spare, place) {
                self.busy = true;
                return Poll::Send { port: Port(index as u16), more: false };
            }
        }
        for (index, dropped) in (0..).zip(&mut self.dropped) {
            if let Some((reason, packet)) = dropped.pop() {
                self.busy = true;
                self.drop_port = Port(index);
                *place = packet;
                return Poll::Drop(reason);
            }
        }
        self.busy = false;
        let wakes = self.ports.iter().filter_map(HostPort::watchdog);
        Poll::Idle(wakes.min().unwrap_or(Instant::FAR_FUTURE))
    }

    /// The output port of the drop that [`poll`](Self::poll) has reported last.
    pub fn dropped_at(&self) -> Port {
        self.drop_port
    }

    /// Applies `change` to the qdisc by which `port` sends; its drops are reported by
    /// [`poll`](Self::poll).
    pub fn change<T>(
        &mut self,
        now: Instant,
        port: Port,
        change: impl FnOnce(&mut Sched, &mut Cx<'_>) -> T,
    ) -> T {
        self.begin(now);
        let mut cx = Cx { now, dropped: &mut self.dropped[usize::from(port.0)] };
        change(self.ports[usize::from(port.0)].qdisc_mut(), &mut cx)
    }

    /// Takes a port down for good: packets that wait to leave by it are dropped, by [`Reason::LinkDown`]
    /// or as purged, and so are later ones.
    pub fn take_down(&mut self, now: Instant, port: Port) {
        self.begin(now);
        let mut cx = Cx { now, dropped: &mut self.dropped[usize::from(port.0)] };
        self.ports[usize::from(port.0)].set_up(false, &mut cx);
    }

    /// The time of the latest call.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn begin(&mut self, now: Instant) {
        self.come_to(now);
        self.busy = true;
    }

    fn come_to(&mut self, now: Instant) {
        if now != self.now {
            assert!(now > self.now, "time ran backwards, from {:?} to {now:?}", self.now);
            assert!(!self.busy, "not polled until idle at {:?}, and it is {now:?}", self.now);
            self.now = now;
        }
    }
}

fn opposite(port: Port) -> Port {
    Port(1 - port.0)
}

/// Whether a packet, or a segment of it, is too long for a device (`is_skb_forwardable`; the kernel
/// does not check segments, and leaves those that are too long to the device).
fn is_longer_than(packet: &Packet, mtu: u32) -> bool {
    let longest = mtu + packet.link.len() + VLAN_HLEN;
    let len = match u32::from(packet.meta.gso_size) {
        0 => packet.len(),
        size => packet.header_len() + size.min(packet.body.len),
    };
    len > longest && len - outer_tag(packet) > longest
}

/// Bytes of the outermost VLAN tag, which the kernel holds beside the frame (`skb->vlan_tci`) and
/// does not count.
#[cold]
fn outer_tag(packet: &Packet) -> u32 {
    let tagged = packet.extra.as_ref().is_some_and(|extra| !extra.vlan.is_empty());
    if tagged { VLAN_HLEN } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::{ipv4, packet, tcp};
    use crate::packet::{Frame, FrameRef, TcpFlags, protocol};
    use crate::qdisc::cake::{Cake, Config};
    use crate::rng::Rng;
    use crate::units::{Duration, Rate};

    const WEST: Port = Port(0);
    const EAST: Port = Port(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn segment(len: u32) -> Packet {
        packet(ipv4(protocol::TCP), tcp(TcpFlags::ACK), len)
    }

    /// Both devices have room for a thousand packets.
    fn bridge() -> Bridge {
        let mut bridge = Bridge::new([PortConfig::default(), PortConfig::default()]);
        bridge.grant(at(1), WEST, 1_000);
        bridge.grant(at(1), EAST, 1_000);
        assert!(heard(&mut bridge, at(1)).0.is_empty());
        bridge
    }

    /// What the bridge says at `now`: ports by which packets leave with their lengths, reasons of
    /// drops, and when it wants to be asked again.
    fn heard(bridge: &mut Bridge, now: Instant) -> (Vec<(Port, u32)>, Vec<Reason>, Instant) {
        let (mut sent, mut dropped, mut place) = (Vec::new(), Vec::new(), Packet::default());
        loop {
            match bridge.poll(now, &mut place) {
                Poll::Send { port, more: false } => sent.push((port, place.len())),
                Poll::Drop(reason) => dropped.push(reason),
                Poll::Idle(next) => return (sent, dropped, next),
                other => panic!("{other:?}"),
            }
        }
    }

    fn shape(bridge: &mut Bridge, now: Instant) {
        let config = Config { bandwidth: Rate::from_mbit(1), ..Config::default() };
        let cake = Cake::new(config, 1514, Rng::stream(1, 1));
        bridge.change(now, EAST, |root, _| *root = cake.into());
    }

    #[test]
    fn a_packet_that_bypasses_an_empty_fifo_is_sent_in_place() {
        let mut bridge = bridge();
        let mut one = segment(1_000);
        assert_eq!(bridge.receive(at(1), WEST, &mut one), Rx::Forward(EAST));
        assert_eq!(bridge.receive(at(1), EAST, &mut one), Rx::Forward(WEST));
        bridge.credit(at(1), EAST);
        assert_eq!(bridge.port(EAST).room(), 1_000);
        assert_eq!(bridge.port(WEST).room(), 999);
    }

    #[test]
    fn a_shaped_port_lets_packets_go_in_their_time_and_none_is_lost() {
        let mut bridge = bridge();
        shape(&mut bridge, at(1));
        for _ in 0..10 {
            assert_eq!(bridge.receive(at(1), WEST, &mut segment(1_448)), Rx::Taken);
        }
        let (mut now, mut sent) = (at(1), 0);
        while sent < 10 {
            let (packets, dropped, next) = heard(&mut bridge, now);
            assert!(packets.iter().all(|(port, _)| *port == EAST) && dropped.is_empty());
            sent += packets.len();
            assert!(sent == 10 || next > now, "there is a time to come back");
            now = next.min(now + Duration::from_millis(20));
        }
        let len = u64::from(segment(1_448).len());
        let took = (now - at(1)).as_micros();
        assert!(took >= 9 * len * 8, "{took} us at 1 Mbit/s");
    }

    #[test]
    fn super_packets_are_cut_and_what_is_too_long_is_dropped() {
        let mut bridge = bridge();
        let mut large = segment(3 * 1_448);
        (large.meta.gso_size, large.meta.gso_segs) = (1_448, 3);
        assert_eq!(bridge.receive(at(1), WEST, &mut large), Rx::Taken);
        assert_eq!(heard(&mut bridge, at(1)).0, [(EAST, segment(1_448).len()); 3]);
        assert_eq!(bridge.receive(at(2), WEST, &mut segment(1_453)), Rx::Taken);
        assert_eq!(heard(&mut bridge, at(2)).1, [Reason::PacketTooBig]);
        assert_eq!(bridge.dropped_at(), EAST);
    }

    /// What a bridge of the kernel's passes on to a device with an MTU of 1500 (Linux 6.18): the
    /// longest payload behind so many tags.
    #[test]
    fn the_outermost_tag_is_no_part_of_a_length() {
        for (tags, longest) in [(0, 1_504), (1, 1_504), (2, 1_500), (3, 1_496)] {
            for (payload, passes) in [(longest, true), (longest + 1, false)] {
                let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
                bytes.extend([0x81, 0, 0, 7].repeat(tags));
                bytes.extend([0x88, 0xb5]);
                bytes.resize(bytes.len() + payload, 0);
                let frame = FrameRef::from(bytes);
                let mut packet =
                    Packet::parse_ethernet(Frame::lying_in(&frame, 0)).expect("a frame");
                let mut bridge = bridge();
                let got = bridge.receive(at(1), WEST, &mut packet);
                let dropped = heard(&mut bridge, at(1)).1;
                let as_expected = if passes { Rx::Forward(EAST) } else { Rx::Taken };
                assert_eq!(got, as_expected, "{tags} tags, {payload} bytes");
                assert_eq!(dropped.is_empty(), passes, "{tags} tags, {payload} bytes");
            }
        }
    }

    #[test]
    fn a_removed_port_returns_all_queued_packets() {
        let mut bridge = bridge();
        shape(&mut bridge, at(1));
        for _ in 0..5 {
            assert_eq!(bridge.receive(at(1), WEST, &mut segment(1_000)), Rx::Taken);
        }
        let sent = heard(&mut bridge, at(1)).0.len();
        bridge.take_down(at(2), EAST);
        let (none, dropped, _) = heard(&mut bridge, at(2));
        assert_eq!((none.len(), dropped.len()), (0, 5 - sent));
        assert_eq!(bridge.receive(at(3), WEST, &mut segment(1_000)), Rx::Taken);
        assert_eq!(heard(&mut bridge, at(3)).1, [Reason::LinkDown]);
    }

    #[test]
    #[should_panic(expected = "not polled until idle")]
    fn time_does_not_go_on_before_idle() {
        let mut bridge = bridge();
        shape(&mut bridge, at(1));
        let _ = bridge.receive(at(1), WEST, &mut segment(1_000));
        let _ = bridge.receive(at(2), WEST, &mut segment(1_000));
    }
}
