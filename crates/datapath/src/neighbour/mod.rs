//! Who is at the other end: from a next hop's address to its Ethernet address (`net/core/neighbour.c`,
//! RFC 826, RFC 4861).
//!
//! [`Neighbours`] is asked for every packet that leaves by Ethernet ([`Neighbours::resolve`]), is told
//! ([`Neighbours::arp_arrives`], [`Neighbours::discovery_arrives`]) and called in time. What it wants
//! done lies in a list of [`Action`]s. It stands before the queues of ports, where the kernel has it
//! (`ip_finish_output2`): a packet that waits for an answer is in no qdisc.
//!
//! Times are exact, where the kernel counts in jiffies of 1 to 10 ms.

mod arp;
mod discovery;
mod entry;
mod sysctl;
mod table;

pub use discovery::is_discovery;
pub use entry::{Entry, State};
pub use sysctl::{Family, Settings};
pub use table::ManualState;

use crate::packet::{LinkHeader, MacAddr, Packet, broadcast};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use core::net::IpAddr;
use entry::Flags;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A neighbour: by which port, and its address.
pub type Key = (u16, IpAddr);

/// An Ethernet port as neighbours see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its own hardware address.
    pub mac: MacAddr,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The packet, whose link-layer header is complete, goes into the queue of this port.
    Transmit(u16, Packet),
    /// Nobody answers for the packet's next hop: its sender is told, and it is dropped
    /// (`arp_error_report`, `ndisc_error_report`).
    Unreachable(Packet),
    /// The packet is dropped.
    Drop(Reason, Packet),
    /// The neighbour has begun to answer, or does not any more (`fib_multipath_use_neigh`).
    Answers(Key, bool),
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Its link-layer header is complete.
    Ready,
    /// It was taken: it waits for an answer, or there is no room for it.
    Queued,
}

/// All neighbours of a host.
#[derive(Debug)]
pub struct Neighbours {
    entries: BTreeMap<Key, Entry>,
    /// When entries want to be called.
    timers: BTreeSet<(Instant, Key)>,
    /// By port; none where frames have no Ethernet header (`IFF_NOARP`).
    links: Vec<Option<Link>>,
    settings: Settings,
    /// Whether questions for our addresses are answered here; not where the kernel has them, too.
    answers: bool,
    /// Whether advertisements say that this is a router (`forwarding`).
    router: bool,
    rng: Rng,
    /// When old entries are next looked for (`neigh_periodic_work`).
    collect_at: Instant,
    actions: VecDeque<Action>,
}

const BROADCAST: MacAddr = MacAddr([0xff; 6]);

impl Neighbours {
    /// No ports and no neighbours. Times are drawn from `rng`.
    pub fn new(settings: Settings, rng: Rng) -> Self {
        Self {
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            links: Vec::new(),
            settings,
            answers: true,
            router: true,
            rng,
            collect_at: Instant::FAR_FUTURE,
            actions: VecDeque::new(),
        }
    }

    /// Whether questions for our addresses are answered.
    pub fn set_answers(&mut self, answers: bool) {
        self.answers = answers;
    }

    /// Tells what a port is. Its neighbours are forgotten if its own hardware address is another one or
    /// it is no Ethernet any more (`neigh_changeaddr`).
    pub fn set_link(&mut self, port: u16, link: Option<Link>) {
        if self.links.len() <= usize::from(port) {
            self.links.resize(usize::from(port) + 1, None);
        }
        let mac = |link: &Option<Link>| link.as_ref().map(|link| link.mac);
        let changed = mac(&self.links[usize::from(port)]) != mac(&link);
        self.links[usize::from(port)] = link;
        if changed {
            self.flush(port);
        }
    }

    /// A port, if it is Ethernet.
    pub fn link(&self, port: u16) -> Option<&Link> {
        self.links.get(usize::from(port))?.as_ref()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to change them; they hold from the next event on.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// All neighbours in order of ports and addresses.
    pub fn entries(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The next thing that is to be done.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether there is something to be done.
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    /// When [`run_timers`](Self::run_timers) is to be called at the latest.
    pub fn wake_at(&self) -> Instant {
        let first = self.timers.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        first.min(self.collect_at)
    }

    /// Gives `packet`, which leaves by `port` to the next hop `to`, its link-layer header, or keeps it
    /// until there is an answer (`neigh_output`, `neigh_resolve_output`, `__neigh_event_send`).
    pub fn resolve(
        &mut self,
        now: Instant,
        port: u16,
        to: IpAddr,
        packet: &mut Packet,
    ) -> Resolved {
        let Some(Some(link)) = self.links.get(usize::from(port)) else {
            packet.set_link(LinkHeader::None);
            return Resolved::Ready;
        };
        let src = link.mac;
        if let Some(dst) = link.group_address(to) {
            packet.set_link(LinkHeader::Ethernet { dst, src });
            return Resolved::Ready;
        }
        let key = (port, to);
        if !self.entries.contains_key(&key) && !self.create(now, key) {
            self.actions.push_back(Action::Drop(Reason::NeighbourTableFull, packet.take()));
            return Resolved::Queued;
        }
        let family = self.settings.family(to);
        let entry = self.entries.get_mut(&key).expect("it is there or was just made");
        // Whoever is known to be there is not noted as used (`neigh_hh_output`).
        if !entry.state.is_connected() {
            entry.used = now;
        }
        match entry.state {
            State::Stale => {
                entry.state = State::Delay;
                entry.updated = now;
                let at = now + family.delay_first_probe_time;
                self.arm(key, at);
            }
            State::None | State::Failed => {
                entry.probes = family.ucast_solicit;
                entry.state = State::Incomplete;
                entry.updated = now;
                entry.hold(packet.take(), family, &mut self.actions);
                self.arm(key, now + family.retransmit());
                self.solicit(key);
                return Resolved::Queued;
            }
            State::Incomplete => {
                entry.hold(packet.take(), family, &mut self.actions);
                return Resolved::Queued;
            }
            State::Reachable | State::Delay | State::Probe | State::Permanent => {}
        }
        let dst = self.entries[&key].mac.expect("whoever is valid has an address");
        packet.set_link(LinkHeader::Ethernet { dst, src });
        Resolved::Ready
    }

    /// Does what is due (`neigh_timer_handler`, `neigh_periodic_work`).
    pub fn run_timers(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let entry = self.entries.get_mut(&key).expect("timers go with their entries");
            entry.due = Instant::FAR_FUTURE;
            self.on_timer(now, key);
        }
        if self.collect_at <= now {
            self.collect(now);
        }
    }

    fn on_timer(&mut self, now: Instant, key: Key) {
        let family = *self.settings.family(key.1);
        let entry = self.entries.get_mut(&key).expect("its timer ran");
        let confirmed_within =
            |entry: &Entry, time: Duration| entry.confirmed.is_some_and(|at| now < at + time);
        match entry.state {
            State::Reachable if confirmed_within(entry, entry.reachable_time) => {
                let at = entry.confirmed.map_or(now, |at| at + entry.reachable_time);
                self.arm(key, at);
            }
            State::Reachable if now <= entry.used + family.delay_first_probe_time => {
                (entry.state, entry.updated) = (State::Delay, now);
                self.arm(key, now + family.delay_first_probe_time);
            }
            State::Reachable => (entry.state, entry.updated) = (State::Stale, now),
            State::Delay if confirmed_within(entry, family.delay_first_probe_time) => {
                (entry.state, entry.updated) = (State::Reachable, now);
                let at = entry.confirmed.map_or(now, |at| at + entry.reachable_time);
                self.arm(key, at.max(now));
            }
            State::Delay => {
                (entry.state, entry.updated, entry.probes) = (State::Probe, now, 0);
                self.probe_again(now, key, &family);
            }
            State::Probe | State::Incomplete => self.probe_again(now, key, &family),
            State::None | State::Stale | State::Failed | State::Permanent => {}
        }
    }

    /// One more question, unless there were enough: then it has failed.
    fn probe_again(&mut self, now: Instant, key: Key, family: &Family) {
        let entry = self.entries.get_mut(&key).expect("it is there");
        let most = family.ucast_solicit
            + if entry.state == State::Probe {
                family.mcast_resolicit
            } else {
                family.mcast_solicit
            };
        if entry.probes < most {
            self.arm(key, now + family.retransmit());
            self.solicit(key);
            return;
        }
        (entry.state, entry.updated) = (State::Failed, now);
        self.invalidate(key);
    }

    /// What waits for somebody who does not answer goes back (`neigh_invalidate`).
    fn invalidate(&mut self, key: Key) {
        let entry = self.entries.get_mut(&key).expect("it is there");
        entry.held_bytes = 0;
        let held = std::mem::take(&mut entry.held);
        self.actions.extend(held.into_iter().map(Action::Unreachable));
        self.actions.push_back(Action::Answers(key, false));
    }

    /// Asks (`neigh_probe`): first who it was, then everybody (`arp_solicit`, `ndisc_solicit`).
    fn solicit(&mut self, key: Key) {
        let family = *self.settings.family(key.1);
        let entry = self.entries.get_mut(&key).expect("it is there");
        let to = if entry.probes < family.ucast_solicit { entry.mac } else { None };
        let asks = entry.probes < family.ucast_solicit && to.is_none();
        entry.probes += 1;
        if asks {
            return;
        }
        let of_packet = entry.held.back().and_then(|packet| packet.network.src());
        let question = match key.1 {
            IpAddr::V4(target) => self.arp_request(key.0, target, to, of_packet),
            IpAddr::V6(target) => self.solicitation(key.0, target, to, of_packet),
        };
        self.actions.extend(question.map(|packet| Action::Transmit(key.0, packet)));
    }

    /// Something was heard of a neighbour that is known (`neigh_update`).
    fn update(
        &mut self,
        now: Instant,
        key: Key,
        heard: Option<MacAddr>,
        state: State,
        flags: Flags,
    ) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.state == State::Permanent {
            return;
        }
        let old = entry.state;
        let was_valid = old.is_valid();
        let Some(mac) = heard.or(entry.mac.filter(|_| was_valid)) else { return };
        let mut new = state;
        let mut mac = mac;
        if new.is_connected() {
            entry.confirmed = Some(now);
        }
        let other = entry.mac != Some(mac);
        if was_valid {
            if other && !flags.overrides {
                if !(flags.weak && old.is_connected()) {
                    return;
                }
                mac = entry.mac.expect("whoever is valid has an address");
                new = State::Stale;
            } else if !other && new == State::Stale {
                new = old;
            }
        }
        if let Some(router) = flags.router {
            entry.router = router;
        }
        let other = entry.mac != Some(mac);
        if new != old || other {
            entry.updated = now;
        }
        if other {
            entry.mac = Some(mac);
            if !new.is_connected() {
                entry.confirmed = None;
            }
        }
        if new != old {
            entry.state = new;
            if new == State::Reachable {
                self.confirm(now, key);
            } else {
                self.disarm(key);
            }
        }
        if !was_valid {
            self.release(key, mac);
        }
    }

    /// It is there, and is believed to be for as long as is drawn: between half of `base_reachable_time` and
    /// one and a half (`neigh_rand_reach_time`).
    fn confirm(&mut self, now: Instant, key: Key) {
        let base = self.settings.family(key.1).base_reachable_time.as_nanos();
        let time = Duration::from_nanos(base / 2 + self.rng.below(base.max(1)));
        let entry = self.entries.get_mut(&key).expect("whoever is confirmed is there");
        (entry.confirmed, entry.reachable_time) = (Some(now), time);
        self.arm(key, now + time);
    }

    /// What has waited for the address goes.
    fn release(&mut self, key: Key, dst: MacAddr) {
        self.actions.push_back(Action::Answers(key, true));
        let Some(src) = self.link(key.0).map(|link| link.mac) else { return };
        let entry = self.entries.get_mut(&key).expect("it was just updated");
        entry.held_bytes = 0;
        for mut packet in std::mem::take(&mut entry.held) {
            packet.set_link(LinkHeader::Ethernet { dst, src });
            self.actions.push_back(Action::Transmit(key.0, packet));
        }
    }

    fn arm(&mut self, key: Key, at: Instant) {
        self.disarm(key);
        self.entries.get_mut(&key).expect("whoever has a timer is there").due = at;
        self.timers.insert((at, key));
    }

    fn disarm(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let was = std::mem::replace(&mut entry.due, Instant::FAR_FUTURE);
        self.timers.remove(&(was, key));
    }
}

impl Link {
    /// The Ethernet address of a group (`arp_mc_map`, `ndisc_mc_map`: RFC 1112 section 6.4, RFC 2464
    /// section 7), or of everybody; `None` for one neighbour.
    fn group_address(&self, to: IpAddr) -> Option<MacAddr> {
        match to {
            IpAddr::V4(to) if to.is_multicast() => {
                let [_, b, c, d] = to.octets();
                Some(MacAddr([1, 0, 0x5e, b & 0x7f, c, d]))
            }
            IpAddr::V4(to) => {
                let directed = |(address, len): &(IpAddr, u8)| match address {
                    IpAddr::V4(address) => broadcast(*address, *len) == Some(to),
                    IpAddr::V6(_) => false,
                };
                let all = to.is_broadcast() || self.addresses.iter().any(directed);
                all.then_some(BROADCAST)
            }
            IpAddr::V6(to) if to.is_multicast() => {
                let [.., c, d, e, f] = to.octets();
                Some(MacAddr([0x33, 0x33, c, d, e, f]))
            }
            IpAddr::V6(_) => None,
        }
    }

    /// Whether the address is one of its own.
    fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }
}

#[cfg(test)]
mod tests;
