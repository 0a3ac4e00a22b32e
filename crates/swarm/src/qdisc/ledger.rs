//! What has become of each packet: the record that a tree of qdiscs is compared with.

use std::collections::BTreeMap;

use datapath::packet::{Ecn, Extra, Flaws, Meta, Network, Packet, TcpFlags, Transport};
use datapath::units::Instant;

/// A packet that was enqueued.
#[derive(Clone, Debug)]
struct EnqueuedPacket {
    packet: Packet,
    /// How often each of its segments has come out.
    out: Vec<u32>,
    /// Memory that its segments were charged as.
    truesize: u32,
    /// Its flow, and whether order counts for it.
    flow: Option<u16>,
    /// The settings it came in under.
    epoch: u32,
    /// It may not leave before.
    not_before: Instant,
}

/// All packets of a case, by the number that their bodies carry.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    arrived: BTreeMap<u32, EnqueuedPacket>,
    /// The last packet and segment of each flow that left, among those that came in under the same
    /// settings.
    last: BTreeMap<(u32, u16), (u32, u32)>,
    /// What went in.
    pub entered: WireCount,
    /// What came out at the front.
    pub left: WireCount,
    /// What was dropped.
    pub dropped: WireCount,
}

/// Wire packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCount {
    /// Packets; each segment of a super-packet is one.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The changes that the qdiscs of a tree may make to a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedChanges {
    /// netem makes copies.
    pub copies: bool,
    /// netem flips bits.
    pub damage: bool,
    /// CAKE washes DSCPs.
    pub wash: bool,
    /// Nothing here puts packets of one flow out of order.
    pub in_order: bool,
}

impl WireCount {
    /// One packet more.
    pub fn add(&mut self, packet: &Packet) {
        self.packets += u64::from(packet.segments());
        self.bytes += u64::from(packet.wire_len());
    }
}

impl Ledger {
    /// A packet goes in.
    pub fn enter(&mut self, packet: &Packet, flow: Option<u16>, epoch: u32, not_before: Instant) {
        self.entered.add(packet);
        let segments = packet.segments() as usize;
        let packet = packet.clone();
        let arrived =
            EnqueuedPacket { out: vec![0; segments], truesize: 0, packet, flow, epoch, not_before };
        self.arrived.insert(arrived.packet.body.number(), arrived);
    }

    /// A packet leaves at the front.
    pub fn leave(
        &mut self,
        packet: &Packet,
        now: Instant,
        licence: AllowedChanges,
    ) -> Result<(), String> {
        self.left.add(packet);
        self.count(packet, licence)?;
        let number = packet.body.number();
        let arrived = &self.arrived[&number];
        if now < arrived.not_before {
            return Err(format!(
                "packet {number} left at {now:?}, but its delay ends at {:?}",
                arrived.not_before
            ));
        }
        let Some(flow) = arrived.flow.filter(|_| licence.in_order) else { return Ok(()) };
        let place = (number, packet.body.offset);
        let last = self.last.entry((arrived.epoch, flow)).or_default();
        if place < *last {
            return Err(format!("order: packet {place:?} of flow {flow} left after {last:?}"));
        }
        *last = place;
        Ok(())
    }

    /// What waits now may leave in any order.
    pub fn allow_any_order(&mut self) {
        let waits = |arrived: &&mut EnqueuedPacket| arrived.out.contains(&0);
        self.arrived.values_mut().filter(waits).for_each(|arrived| arrived.flow = None);
    }

    /// A packet was dropped.
    pub fn drop(&mut self, packet: &Packet, licence: AllowedChanges) -> Result<(), String> {
        self.dropped.add(packet);
        self.count(packet, licence)
    }

    /// Packets (super-packets count once for each segment) that neither left nor were dropped.
    pub fn missing(&self) -> u64 {
        let missing =
            |arrived: &EnqueuedPacket| arrived.out.iter().filter(|times| **times == 0).count();
        self.arrived.values().map(|arrived| missing(arrived) as u64).sum()
    }

    /// Numbers of packets of which a part neither left nor was dropped.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, &Packet, Instant)> + '_ {
        let waits = |arrived: &&EnqueuedPacket| arrived.out.contains(&0);
        self.arrived
            .iter()
            .filter(move |(_, arrived)| waits(arrived))
            .map(|(number, arrived)| (*number, &arrived.packet, arrived.not_before))
    }

    /// A packet comes out: as it went in, once, whole or as the segments that it had to be cut into.
    fn count(&mut self, packet: &Packet, licence: AllowedChanges) -> Result<(), String> {
        let number = packet.body.number();
        let Some(arrived) = self.arrived.get_mut(&number) else {
            return Err(format!("packet {number} came out, which never went in or is long gone"));
        };
        let size = u32::from(arrived.packet.meta.gso_size).max(1);
        let first = packet.body.offset / size;
        let parts = first as usize..(first + packet.segments()) as usize;
        let Some(out) = arrived.out.get_mut(parts) else {
            return Err(format!("packet {number} has no segments {first} and on"));
        };
        for times in out.iter_mut() {
            *times += 1;
        }
        if !licence.copies && out.iter().any(|times| *times > 1) {
            return Err(format!("packet {number} came out twice (from segment {first} on)"));
        }
        arrived.truesize += packet.meta.truesize;
        let done = arrived.out.iter().all(|times| *times == 1);
        if done && arrived.truesize != arrived.packet.meta.truesize {
            let (out, charged) = (arrived.truesize, arrived.packet.meta.truesize);
            return Err(format!("packet {number} was charged as {charged}, came out as {out}"));
        }
        let whole = packet.segments() == arrived.packet.segments();
        let expected = if whole { arrived.packet.clone() } else { segment(&arrived.packet, first) };
        compare(&expected, packet, licence).map_err(|what| format!("packet {number}: {what}"))
    }
}

/// Segment `nth` of a super-packet, by the rules for cutting one (`tcp_gso_segment`,
/// `__udp_gso_segment`).
fn segment(whole: &Packet, nth: u32) -> Packet {
    let size = u32::from(whole.meta.gso_size);
    let last = nth + 1 == whole.segments();
    let mut segment = whole.clone();
    segment.body.offset = nth * size;
    segment.body.len = if last { whole.body.len - nth * size } else { size };
    segment.meta.gso_size = 0;
    segment.meta.gso_segs = 1;
    segment.meta.len -= whole.body.len - segment.body.len;
    if let Network::Ipv4(ip) = &mut segment.network {
        ip.id = ip.id.wrapping_add(nth as u16);
    }
    if let Transport::Tcp(tcp) = &mut segment.transport {
        tcp.seq.0 = tcp.seq.0.wrapping_add(nth * size);
        if !last {
            tcp.flags = tcp.flags.without(TcpFlags::PSH | TcpFlags::FIN);
        }
    }
    segment
}

/// Whether `came` is `expected`, but for what the tree has the licence to change.
fn compare(expected: &Packet, came: &Packet, licence: AllowedChanges) -> Result<(), String> {
    let (tos, new) = (expected.network.tos(), came.network.tos());
    let ecn_kept = tos & 3 == new & 3 || Ecn::from_bits(new) == Ecn::Ce && tos & 3 != 0;
    let dscp_kept = tos >> 2 == new >> 2 || licence.wash && new >> 2 == 0;
    if !ecn_kept || !dscp_kept {
        return Err(format!("its TOS was {tos:#04x} and is {new:#04x}"));
    }
    let mut came = came.clone();
    came.set_tos(tos);
    came.meta.enqueued_at = expected.meta.enqueued_at;
    came.meta.departs_in_ns = expected.meta.departs_in_ns;
    came.memory = expected.memory;
    came.meta.truesize = expected.meta.truesize;
    if licence.copies && came.meta.owner == Meta::NO_OWNER {
        came.meta.owner = expected.meta.owner;
    }
    if licence.damage
        && let Some(extra) = &mut came.extra
        && extra.flaws == Flaws::TRANSPORT_CHECKSUM | Flaws::DAMAGED
    {
        extra.flaws = Flaws::NONE;
        if **extra == Extra::default() {
            came.extra = None;
        }
    }
    if came == *expected { Ok(()) } else { Err(format!("it was {expected:?} and is {came:?}")) }
}
