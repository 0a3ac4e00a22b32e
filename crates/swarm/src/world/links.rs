//! What a link may do with packets: how large they may be, how long they take at least, in which
//! order they come, and that a healed link keeps them all. It knows the plan and the changes, and
//! computes times by itself.

use core::net::IpAddr;
use datapath::packet::{Body, Network, Packet, Transport};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant, NANOS_PER_SEC};
use std::collections::VecDeque;

use super::plan::{Direction, Trouble};

/// One direction of a wire.
#[derive(Debug, Default)]
pub struct Link {
    /// bit/s; 0 takes no time.
    rate: u64,
    delay: Duration,
    /// The largest MTU that its port has ever had: what waited in a queue is not measured again.
    mtu: u32,
    /// Nothing goes wrong on it: arrivals are known to the nanosecond.
    sound: bool,
    /// Whoever is put on it first comes first.
    ordered: bool,
    /// It makes copies, which cannot be told from what they are copies of: who comes when isn't known.
    copies: bool,
    healed: bool,
    /// When the last bit of the latest packet leaves.
    busy_until: Instant,
    on_the_way: VecDeque<OnTheWay>,
}

/// A packet on a link.
#[derive(Debug)]
struct OnTheWay {
    look: Look,
    /// When it comes at the earliest.
    due: Instant,
    /// It was put on a link on which nothing may go wrong any more.
    safe: bool,
}

/// What tells packets apart, but for marks that are set on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    ends: Option<(IpAddr, IpAddr)>,
    /// Identification and fragment offset.
    piece: (u16, u16),
    transport: Transport,
    body: Body,
}

impl Look {
    fn of(packet: &Packet) -> Self {
        let (ends, piece) = match packet.network {
            Network::Ipv4(ip) => {
                (Some((ip.src.into(), ip.dst.into())), (ip.id, ip.fragment_offset))
            }
            Network::Ipv6(ip) => (Some((ip.src.into(), ip.dst.into())), (0, 0)),
            Network::Other(_) => (None, (0, 0)),
        };
        Self { ends, piece, transport: packet.transport, body: packet.body.clone() }
    }
}

/// Bytes of the network layer of the largest packet that this one stands for, and of all of them
/// on the wire.
fn sizes(packet: &Packet) -> (u32, u64) {
    let link = packet.link.len();
    let segments = packet.segments();
    if segments <= 1 {
        return (packet.len() - link, u64::from(packet.len()));
    }
    let headers = packet.len() - packet.body.len;
    let wire = u64::from(headers) * u64::from(segments) + u64::from(packet.body.len);
    (headers - link + u32::from(packet.meta.gso_size), wire)
}

/// Whether trouble keeps the order in which packets are put on a link.
fn keeps_order(trouble: &Trouble) -> bool {
    let moves = |rule: &String| ["dup", "delay", "hold"].iter().any(|word| rule.contains(word));
    trouble.reordering == 0
        && !(trouble.jitter_us > 0 && trouble.jitter_reorders)
        && !trouble.rules.iter().any(moves)
}

impl Link {
    /// A link as it is planned, behind a port with this MTU.
    pub fn new(plan: &Direction, mtu: u32) -> Self {
        Self {
            rate: plan.kbit * 1_000,
            delay: Duration::from_micros(plan.delay_us),
            mtu,
            sound: plan.trouble == Trouble::default(),
            ordered: keeps_order(&plan.trouble),
            copies: plan.trouble.copies(),
            ..Self::default()
        }
    }

    /// It has another rate, in bit/s, from now on.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Its port has another MTU.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = self.mtu.max(mtu);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    /// A packet is put on it.
    pub fn sent(&mut self, now: Instant, packet: &Packet) -> Result<(), String> {
        let (largest, wire) = sizes(packet);
        self.busy_until = self.busy_until.max(now);
        if self.rate > 0 {
            let bits = u128::from(wire) * 8 * u128::from(NANOS_PER_SEC);
            let nanos = bits.div_ceil(u128::from(self.rate));
            self.busy_until += Duration::from_nanos(nanos as u64);
        }
        if !self.copies {
            let due = self.busy_until + self.delay;
            self.on_the_way.push_back(OnTheWay { look: Look::of(packet), due, safe: self.healed });
        }
        if largest > self.mtu {
            let Self { mtu, .. } = self;
            return Err(format!("{largest} bytes where the MTU is {mtu}: {:?}", Look::of(packet)));
        }
        Ok(())
    }

    /// One has come to its far end.
    pub fn delivered(&mut self, now: Instant, packet: &Packet) -> Result<(), String> {
        let look = Look::of(packet);
        let Some(place) = self.on_the_way.iter().position(|it| it.look == look) else {
            return Ok(());
        };
        let OnTheWay { due, .. } = self.on_the_way.remove(place).expect("just found");
        if self.ordered && place > 0 {
            return Err(format!("{look:?} has overtaken {:?}", self.on_the_way[0].look));
        }
        if now < due || (self.sound && now != due) {
            return Err(format!("due at {due:?}, it came at {now:?}: {look:?}"));
        }
        Ok(())
    }

    /// One is gone.
    pub fn dropped(&mut self, reason: Reason, packet: &Packet) -> Result<(), String> {
        let look = Look::of(packet);
        let is_it = |it: &OnTheWay| it.look == look;
        // Chance decides when a packet is put on a link.
        let place = match reason {
            Reason::LinkLoss => self.on_the_way.iter().rposition(is_it),
            _ => self.on_the_way.iter().position(is_it),
        };
        let gone = place.and_then(|place| self.on_the_way.remove(place));
        if gone.is_some_and(|gone| gone.safe) {
            return Err(format!("{reason:?} on a healed link: {look:?}"));
        }
        Ok(())
    }
}
