//! The router under test and the machines around it.

mod laws;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use datapath::fib::{Prefix, Route};
use datapath::host::{Host, IcmpLimits, PortConfig};
use datapath::neighbour::{Neighbours, Settings};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::{Frame, FrameRef, FrameWatch, LinkHeader, MacAddr, Packet};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};

use super::frames::{
    Datagram, EVERYBODY, FrameContent, Mac, address, address_behind, arp, discovery, read,
    solicited_node,
};
use super::{Case, Step, Target};
use crate::case::{Digest, StepwiseCase, Violation};

/// Packets that a device takes before it gives room back.
const ROOM: u32 = 8;
/// The least time between two questions for one address (`retrans_time_ms`, which is not drawn).
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// So long nothing happens at the end.
const SILENCE: Duration = Duration::from_secs(300);
/// No case is worth more than this.
const TURNS_MAX: u64 = 200_000;

/// A router under test.
pub struct Bench<'a> {
    case: &'a Case,
    host: Host,
    now: Instant,
    ports: Vec<InterfaceState>,
    /// Packets that came in, by their numbers.
    tracks: BTreeMap<u16, Track>,
    /// Answers that are on their way: when, in which order, by which interface, the frame.
    coming: BTreeMap<(Instant, u64), (u16, Vec<u8>)>,
    /// Who has ever claimed an address of an interface.
    claimed: BTreeSet<(u16, IpAddr, Mac)>,
    /// When an address was last asked for.
    asked: BTreeMap<(u16, IpAddr), Instant>,
    /// Few neighbours may be remembered: one that had to go is asked for anew.
    forgets: bool,
    watched: Vec<FrameWatch>,
    turns: u64,
    digest: Digest,
    broken: Option<Violation>,
}

/// An interface.
#[derive(Default)]
struct InterfaceState {
    down: bool,
    full: bool,
    /// Room that is not given back.
    owed: u32,
    /// Until then questions may come late, which have waited for room.
    late_until: Option<Instant>,
    /// It was down at some time.
    was_down: bool,
    /// Questions for the router's address, and answers.
    questions: u64,
    answers: u64,
    /// By machine, how often it has moved, and whether it answers.
    machines: Vec<(u16, bool)>,
}

/// What becomes of a packet.
#[derive(Debug)]
struct Track {
    /// Where it is to leave, if it may.
    port: u16,
    /// To whom there.
    next_hop: IpAddr,
    dst: IpAddr,
    ttl: u8,
    may_go: bool,
    /// Bytes behind the network header: as it came, sent, dropped.
    len: u32,
    sent: u32,
    dropped: u32,
    errors: u32,
}

impl<'a> Bench<'a> {
    /// Before the first step.
    pub fn new(case: &'a Case) -> Self {
        let mut host = Host::new();
        host.forwarding = true;
        host.set_icmp_limits(IcmpLimits::default(), Rng::stream(case.seed, 1));
        let table = Neighbours::new(Settings::default(), Rng::stream(case.seed, 2));
        host.enable_neighbours(table, false);
        let mut ports = Vec::new();
        for (number, wire) in (0_u8..).zip(&case.ports) {
            let port = host.add_port(PortConfig {
                mtu: wire.mtu,
                addresses: vec![(address(number, 0, false), 24), (address(number, 0, true), 64)],
                link: LinkHeader::Ethernet { dst: MacAddr::default(), src: MacAddr(ours(number)) },
                ..PortConfig::default()
            });
            host.grant(Instant::ZERO, port, ROOM);
            host.set_neighbour_link(Instant::ZERO, port);
            for ipv6 in [false, true] {
                let len = if ipv6 { 64 } else { 24 };
                let prefix =
                    Prefix::containing(address_behind(number, ipv6), len).expect("a prefix");
                let route = Route::via(prefix, port.0, address(number, 1, ipv6));
                host.fib_mut().add(route).expect("a new route");
            }
            let machines = wire.machines.iter().map(|it| (0, it.answers)).collect();
            ports.push(InterfaceState { machines, ..InterfaceState::default() });
        }
        let mut bench = Self {
            case,
            host,
            now: Instant::ZERO,
            ports,
            tracks: BTreeMap::new(),
            coming: BTreeMap::new(),
            claimed: BTreeSet::new(),
            asked: BTreeMap::new(),
            forgets: case.steps.iter().any(
                |step| matches!(step, Step::Set { name, .. } if name.starts_with("gc_thresh")),
            ),
            watched: Vec::new(),
            turns: 0,
            digest: Digest::default(),
            broken: None,
        };
        bench.go_to(Instant::ZERO + Duration::from_secs(1_000));
        bench
    }

    fn fail(&mut self, oracle: &'static str, what: impl core::fmt::Display) {
        let at = format!("{} us", self.now.as_nanos() / 1_000);
        self.broken.get_or_insert(Violation::new(oracle, at, what));
    }

    /// The hardware address that a machine has now.
    fn mac(&self, [port, machine]: [u8; 2]) -> Mac {
        let moved = self.ports[usize::from(port)].machines[usize::from(machine)].0;
        let [high, low] = moved.to_be_bytes();
        [2, 1, port, machine, high, low]
    }

    /// A frame comes in, if the carrier is there.
    fn receive_frame(&mut self, port: u16, bytes: &[u8]) {
        if self.ports[usize::from(port)].down {
            return;
        }
        let frame = FrameRef::from(bytes.to_vec());
        self.watched.push(frame.watch());
        let Ok(mut packet) = Packet::parse_ethernet(Frame::lying_in(&frame, 0)) else { return };
        drop(frame);
        match self.host.receive(self.now, Port(port), &mut packet) {
            Rx::Queued => {
                let said = self.host.poll(self.now, &mut Packet::default());
                if !matches!(said, Poll::Idle(_)) {
                    self.fail("law", format!("a packet that only waits, but then {said:?}"));
                }
            }
            Rx::Taken => {}
            Rx::Forward(to) => self.on_transmit(to, &packet),
        }
        self.run_due();
    }

    /// Who claims an address in a frame is believed, or not.
    fn claims(&mut self, port: u8, ip: IpAddr, mac: Mac) {
        self.claimed.insert((port.into(), ip, mac));
    }

    /// Everything that is to happen at this time; when the router wants to be called next.
    fn run_due(&mut self) -> Instant {
        let mut place = Packet::default();
        loop {
            self.turns += 1;
            let idle = self.host.idle_until(self.now);
            let said = self.host.poll(self.now, &mut place);
            if let Some(until) = idle
                && !matches!(said, Poll::Idle(next) if next == until)
            {
                self.fail("law", format!("idle until {until:?}, but then {said:?}"));
            }
            match said {
                Poll::Send { port, .. } => {
                    self.on_transmit(port, &place);
                    drop(place.take());
                }
                Poll::Drop(reason) => {
                    self.is_dropped(reason, &place);
                    drop(place.take());
                }
                Poll::Idle(next) => return next,
                Poll::Ready(_) | Poll::Event(_) => {}
            }
            if self.turns > TURNS_MAX {
                self.fail("work", "it never comes to rest");
                return Instant::FAR_FUTURE;
            }
        }
    }

    /// Time goes on, with answers and timers in their order.
    fn go_to(&mut self, end: Instant) {
        loop {
            let wakes = self.run_due();
            let comes = self.coming.first_key_value().map(|((at, _), _)| *at);
            let next = comes.unwrap_or(Instant::FAR_FUTURE).min(wakes);
            if next > end || self.broken.is_some() {
                break;
            }
            if next < self.now || (next == self.now && comes != Some(next)) {
                return self.fail("work", format!("it wants to be called at {next:?} again"));
            }
            self.now = next;
            while let Some(first) = self.coming.first_entry().filter(|it| it.key().0 <= next) {
                let (port, frame) = first.remove();
                self.receive_frame(port, &frame);
            }
        }
        self.now = self.now.max(end);
        self.run_due();
    }

    fn packet(&mut self, number: u16, step: &Step) {
        let Step::Packet { from, to, behind, ipv6, size, ttl, whole, whose, tags } = step else {
            return;
        };
        let next_hop = address(to[0], if *behind { 1 } else { to[1] + 1 }, *ipv6);
        let dst = if *behind { address_behind(to[0], *ipv6) } else { next_hop };
        let src = address(from[0], from[1] + 1, *ipv6);
        let packet = Datagram { src, dst, ttl: *ttl, number, size: *size, whole: *whole };
        if !self.ports[usize::from(from[0])].down {
            // A tag of VLAN 0 only says a priority.
            let of_a_vlan = tags.iter().any(|tag| tag & 0xfff != 0);
            let may_go = *whose == Target::Ours && *ttl > 1 && !of_a_vlan;
            let len = 8 + u32::from(*size);
            let port = to[0].into();
            let counts = (0, 0, 0);
            let (sent, dropped, errors) = counts;
            let track =
                Track { port, next_hop, dst, ttl: *ttl, may_go, len, sent, dropped, errors };
            self.tracks.insert(number, track);
        }
        let dst_mac = match whose {
            Target::Ours => ours(from[0]),
            Target::Others => [2, 9, 9, 9, 9, 9],
            Target::Everybodys => EVERYBODY,
        };
        let mut frame = packet.frame(dst_mac, self.mac(*from));
        let tags = tags.iter().flat_map(|tag| [[0x81, 0], tag.to_be_bytes()]).flatten();
        frame.splice(12..12, tags);
        self.receive_frame(from[0].into(), &frame);
    }

    /// A machine announces its address, and perhaps asks for the router.
    fn announce(&mut self, who: [u8; 2], ipv6: bool, asks: bool) {
        let (mac, ip) = (self.mac(who), address(who[0], who[1] + 1, ipv6));
        let router = address(who[0], 0, ipv6);
        self.claims(who[0], ip, mac);
        let frame = match (router, asks) {
            (IpAddr::V6(target), true) => {
                discovery((135, 0), solicited_node(target), (mac, ip), router)
            }
            (IpAddr::V6(_), false) => {
                let all = ([0x33, 0x33, 0, 0, 0, 1], "ff02::1".parse().expect("an address"));
                discovery((136, 0x20), all, (mac, ip), ip)
            }
            (_, true) => arp(false, EVERYBODY, (mac, ip), ([0; 6], router)),
            (_, false) => arp(false, EVERYBODY, (mac, ip), ([0; 6], ip)),
        };
        let port = &mut self.ports[usize::from(who[0])];
        port.questions += u64::from(asks && !port.down);
        self.receive_frame(who[0].into(), &frame);
    }

    fn link(&mut self, port: u8, up: bool) {
        let state = &mut self.ports[usize::from(port)];
        if state.down != up {
            return;
        }
        state.down = !up;
        state.was_down = true;
        let port = Port(port.into());
        self.host.set_port_up(self.now, port, up);
        if !up {
            // As the driver does: neighbours may have changed.
            self.host.change_neighbours(self.now, |table| table.flush(port.0));
            self.asked.retain(|(of, _), _| *of != port.0);
        }
        self.run_due();
    }

    fn set_room(&mut self, port: u8, there: bool) {
        let state = &mut self.ports[usize::from(port)];
        state.full = !there;
        if there {
            // What is then sent at once was asked when there was none, and is asked again in its own time.
            state.late_until = Some(self.now + BETWEEN_QUESTIONS + BETWEEN_QUESTIONS);
        }
        let owed = if there { core::mem::take(&mut state.owed) } else { 0 };
        for _ in 0..owed {
            self.host.credit(self.now, Port(port.into()));
        }
        self.run_due();
    }

    fn set(&mut self, name: &str, value: u32) {
        for family in ["net.ipv4", "net.ipv6"] {
            let name = format!("{family}.neigh.default.{name}");
            let set = self
                .host
                .change_neighbours(self.now, |table| table.settings_mut().set(&name, value));
            if set != Some(true) {
                self.fail("settings", format!("{name} is not known"));
            }
        }
        self.run_due();
    }

    fn verdict(&mut self) -> Result<(), Violation> {
        self.broken.take().map_or(Ok(()), Err)
    }
}

/// The router's hardware address at an interface.
fn ours(port: u8) -> Mac {
    [2, 0, 0, 0, 0, port]
}

impl StepwiseCase for Bench<'_> {
    type Step = Step;

    fn step(&mut self, number: usize, step: &Step) -> Result<(), Violation> {
        match step {
            Step::Wait { us } => self.go_to(self.now + Duration::from_micros(*us)),
            // No packet has the number 0.
            Step::Packet { .. } => self.packet(number as u16 + 1, step),
            Step::Answers { who, on } => {
                self.ports[usize::from(who[0])].machines[usize::from(who[1])].1 = *on;
            }
            Step::Moves { who, ipv6 } => {
                self.ports[usize::from(who[0])].machines[usize::from(who[1])].0 += 1;
                self.announce(*who, *ipv6, false);
            }
            Step::Asks { who, ipv6 } => self.announce(*who, *ipv6, true),
            Step::Lies { who, claims } => {
                let (mac, ip) = (self.mac(*who), address(who[0], claims + 1, false));
                self.claims(who[0], ip, mac);
                let us = (ours(who[0]), address(who[0], 0, false));
                self.receive_frame(who[0].into(), &arp(true, us.0, (mac, ip), us));
            }
            Step::Rubbish { port, bytes } => {
                let frame = [&ours(*port)[..], &[2, 8, 8, 8, 8, 8], bytes].concat();
                self.receive_frame((*port).into(), &frame);
            }
            Step::Link { port, up } => self.link(*port, *up),
            Step::Room { port, there } => self.set_room(*port, *there),
            Step::Set { name, value } => self.set(name, *value),
        }
        self.verdict()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        for port in 0..self.ports.len() as u8 {
            self.link(port, true);
            self.set_room(port, true);
        }
        self.go_to(self.now + SILENCE);
        self.check_empty();
        self.verdict()
    }

    fn digest(&self) -> u64 {
        self.digest.value()
    }
}

#[cfg(test)]
mod tests;
