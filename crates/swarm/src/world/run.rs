//! A world from its start to its end, under all oracles.

use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::host::Host;
use datapath::node::Port;
use datapath::qdisc::{Qdisc as _, Sched};
use datapath::tcp::config::{Sysctl, TcpConfig};
use datapath::units::{Duration, Instant, Rate};
use sim::epoch::Grouping;
use sim::link::{LinkId, NodeId};
use sim::world::{World, WorldStats};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::build::{self, BuiltWorld, end_of, link_of, micros};
use super::ledger::Entry;
use super::links;
use super::plan::{Case, Change, ChangeKind, UnobservedRun, Wire};
use super::wire::WireChecker;
use crate::case::{Digest, Outcome, Violation};

/// After everything is healed, every flow ends within this, s.
const ENDS_WITHIN_S: u64 = 1_440;
/// More events than this no case is worth.
const EVENTS_MAX: u64 = 5_000_000;
/// How long the world runs, at least, before its events are counted again, and how many there may
/// be for the next step to be longer.
const STEP: Duration = Duration::from_millis(1);
const EVENTS_OF_STEP: u64 = 10_000;

/// Runs a case twice: stopped at many places and observed, then in one go, grouped otherwise, and
/// unobserved; whoever has groups has two to eight threads, too. Both must see the same.
pub fn run(case: &Case) -> Result<Outcome, Violation> {
    let watched = WorldRun::new(case, true).played()?;
    let alone = WorldRun::new(case, false).played()?;
    compare(&watched.seen, &alone.seen)?;
    let mut digest = Digest::default();
    watched.seen.iter().for_each(|seen| digest.add_text(seen));
    Ok(Outcome { digest: digest.value(), steps: watched.built.world.stats().events })
}

/// The first difference between what two runs saw.
fn compare(one: &[String], other: &[String]) -> Result<(), Violation> {
    for (one, other) in one.iter().zip(other) {
        let at = one.lines().next().unwrap_or_default();
        for (one, other) in one.lines().zip(other.lines()) {
            if one != other {
                let what = format!("observed: {one}\nalone: {other}");
                return Err(Violation::new("observed = unobserved", at, what));
            }
        }
    }
    assert!(one == other, "as many lines in both");
    Ok(())
}

/// One run.
pub(super) struct WorldRun<'a> {
    pub(super) case: &'a Case,
    pub(super) built: BuiltWorld,
    /// Sees everything, in the run that is observed.
    pub(super) witness: Option<Rc<RefCell<WireChecker>>>,
    /// How it looked at the times when both runs stop.
    seen: Vec<String>,
    /// Changes made so far.
    done: u64,
    /// Rules that reject packets or send them the wrong way, to be removed again.
    rules: Vec<(usize, String)>,
}

impl<'a> WorldRun<'a> {
    fn new(case: &'a Case, observed: bool) -> Self {
        let mut built = build::build(case);
        // One of both runs goes event by event.
        built.world.set_grouping(match (observed, case.second) {
            (true, UnobservedRun::Finest | UnobservedRun::WhenUseful)
            | (false, UnobservedRun::OneByOne) => Grouping::One,
            (false, UnobservedRun::WhenUseful) => Grouping::Adaptive,
            (true, UnobservedRun::OneByOne) | (false, UnobservedRun::Finest) => Grouping::Finest,
        });
        built.world.set_threads(2 + (case.seed % 7) as usize);
        // In one of both runs packets carry bytes.
        if observed == case.seed.is_multiple_of(2) {
            built.world.carry_bytes();
        }
        let witness = observed.then(|| Rc::new(RefCell::new(witness(case, &built.world))));
        if let Some(witness) = &witness {
            built.world.observe(Box::new(Rc::clone(witness)));
        }
        Self { case, built, witness, seen: Vec::new(), done: 0, rules: Vec::new() }
    }

    fn played(mut self) -> Result<Self, Violation> {
        self.until_healing()?;
        self.repair();
        let heal = micros(self.case.heal_us);
        for quarter in 1..=4 {
            self.go_to(heal + Duration::from_secs(ENDS_WITHIN_S / 4 * quarter))?;
        }
        self.record_view();
        self.check_connections_ended()?;
        self.close_remaining();
        self.go_to(heal + Duration::from_secs(2 * ENDS_WITHIN_S))?;
        self.record_view();
        self.check_empty()?;
        self.check_bytes()?;
        self.check_datagrams()?;
        self.errors_are_explained()?;
        Ok(self)
    }

    /// Everything that is drawn happens, and the first run stops to be looked at.
    fn until_healing(&mut self) -> Result<(), Violation> {
        let case = self.case;
        let mut stops = case.stops_us.iter().copied().peekable();
        for change in &case.changes {
            while let Some(stop) = stops.next_if(|stop| *stop <= change.at_us) {
                self.stop_at(stop)?;
            }
            self.go_to(micros(change.at_us))?;
            self.make(change);
            self.done += 1;
        }
        for stop in stops {
            self.stop_at(stop)?;
        }
        self.go_to(micros(case.heal_us))
    }

    fn stop_at(&mut self, stop_us: u64) -> Result<(), Violation> {
        if self.witness.is_some() && stop_us < self.case.heal_us {
            self.go_to(micros(stop_us))?;
        }
        Ok(())
    }

    fn go_to(&mut self, at: Instant) -> Result<(), Violation> {
        // Who is watched goes in steps, so that endless work is noticed: stops change nothing.
        let mut step = STEP;
        while self.witness.is_some() && self.built.world.now() + step < at {
            let before = self.built.world.stats().events;
            self.built.world.run_until(self.built.world.now() + step);
            self.work_is_limited()?;
            let few = self.built.world.stats().events - before < EVENTS_OF_STEP;
            step = if few { step * 2 } else { STEP };
        }
        self.built.world.run_until(at);
        self.check()
    }

    pub(super) fn work_is_limited(&self) -> Result<(), Violation> {
        let events = self.built.world.stats().events;
        if events > EVENTS_MAX {
            return Err(Violation::new("work", self.at(), format!("{events} events")));
        }
        Ok(())
    }

    pub(super) fn at(&self) -> String {
        format!("{} ns", self.built.world.now().as_nanos())
    }

    /// Makes a change.
    fn make(&mut self, change: &Change) {
        let case = self.case;
        match &change.what {
            ChangeKind::Link { wire, end, up } => {
                for end in ends(*end) {
                    self.set_link_up(link_of(*wire, end), *up);
                }
            }
            ChangeKind::Rate { wire, end, kbit } => {
                self.set_rate(link_of(*wire, *end), build::rate(*kbit));
            }
            ChangeKind::Mtu { wire, end, mtu } => {
                for end in ends(*end) {
                    self.set_mtu(*wire, end, *mtu);
                }
            }
            ChangeKind::Tc { wire, end, words } => {
                let (node, port) = end_of(case, *wire, *end);
                let number = 1_000 + self.done;
                self.built.world.with_host(node, |now, host| {
                    let mtu = host.port(port).config.mtu;
                    host.change_qdisc(now, port, |root, cx| {
                        build::run_tc(root, words, (mtu, case.seed, (*wire, *end), number), cx);
                    });
                });
            }
            ChangeKind::Sysctl { node, words } => {
                let node = NodeId(*node as u32);
                self.built.world.with_host(node, |_, host| build::set_sysctl(host, words));
            }
            ChangeKind::Rule { node, to, kind, begins } => {
                self.run_rule(*node, *to, kind, *begins);
            }
            ChangeKind::FlushMetrics { node } => {
                let node = NodeId(*node as u32);
                self.built.world.with_host(node, |_, host| host.flush_tcp_metrics());
            }
        }
    }

    fn set_link_up(&mut self, link: LinkId, up: bool) {
        let (node, port) = self.built.world.link(link).from;
        if self.built.world.host(node).port(port).is_up() != up {
            let now = self.built.world.now();
            self.built.world.set_link_up_at(now, link, up);
            self.built.world.run_until(now);
        }
    }

    fn set_rate(&mut self, link: LinkId, rate: Option<Rate>) {
        self.built.world.link_mut(link).set_rate(rate);
        self.with_witness(link, |way| way.set_rate(rate.map_or(0, Rate::bits_per_sec)));
    }

    /// Tells the witness what is done to a link.
    fn with_witness(&self, link: LinkId, tell: impl FnOnce(&mut links::LinkModel)) {
        if let Some(witness) = &self.witness {
            tell(&mut witness.borrow_mut().link_models[link.0 as usize]);
        }
    }

    fn set_mtu(&mut self, wire: usize, end: usize, mtu: u32) {
        self.with_witness(link_of(wire, end), |way| way.set_mtu(mtu));
        let (node, port) = end_of(self.case, wire, end);
        self.built.world.with_host(node, |_, host| host.port_config_mut(port).mtu = mtu);
    }

    fn run_rule(&mut self, node: usize, to: usize, kind: &str, begins: bool) {
        let addresses = self.built.addresses[to];
        for (address, option) in addresses.into_iter().zip(["", "-6 "]) {
            let len = if address.is_ipv4() { 32 } else { 128 };
            let words = format!("to {address}/{len} {kind}");
            let rule = (node, format!("{option}rule del {words}"));
            if begins {
                self.run_ip(node, &format!("{option}rule add {words}"));
                self.rules.push(rule);
            } else if let Some(place) = self.rules.iter().position(|it| *it == rule) {
                self.run_ip(node, &rule.1);
                self.rules.remove(place);
            }
        }
    }

    fn run_ip(&mut self, node: usize, words: &str) {
        let node = NodeId(node as u32);
        self.built.world.with_host(node, |now, host| build::run_ip(host, now, words));
    }

    /// Links are up and lose nothing, queues drop only what they have no room for, routes deny
    /// nothing, and sysctls are what they were in the beginning of a kernel's life.
    fn repair(&mut self) {
        let case = self.case;
        for (node, words) in core::mem::take(&mut self.rules) {
            self.run_ip(node, &words);
        }
        for (node, _) in case.nodes.iter().enumerate() {
            self.built.world.with_host(NodeId(node as u32), |_, host| reset_sysctls(host));
        }
        for (wire, plan) in case.wires.iter().enumerate() {
            for (end, direction) in [&plan.there, &plan.back].into_iter().enumerate() {
                let link = link_of(wire, end);
                let state = self.built.world.link_mut(link);
                state.end_impairments();
                let slow = state.rate().is_some_and(|rate| rate < SLOWEST);
                self.with_witness(link, links::LinkModel::repair);
                if slow {
                    self.set_rate(link, Some(SLOWEST));
                }
                self.set_link_up(link, true);
                let (node, port) = end_of(case, wire, end);
                if self.built.world.host(node).port(port).config.mtu != HEALED_MTU {
                    self.set_mtu(wire, end, HEALED_MTU);
                }
                self.built.world.with_host(node, |now, host| {
                    host.remove_policers(port);
                    host.set_shared_buffer(None);
                    if !direction.healed.is_empty() {
                        host.change_qdisc(now, port, |root, cx| {
                            replace_root(root, &direction.healed, cx);
                        });
                    }
                });
            }
        }
    }

    /// How the world looks now: everything that can be seen of it.
    fn record_view(&mut self) {
        let seen = view_of(&self.built);
        self.seen.push(seen);
    }

    /// Whoever still waits for a peer that is gone closes.
    fn close_remaining(&mut self) {
        for node in 0..self.case.nodes.len() {
            self.built.world.with_host(NodeId(node as u32), |now, host| {
                let open: Vec<_> = host.tcp_connection_ids().collect();
                for id in open {
                    host.tcp_close(now, id).expect("is open");
                }
            });
        }
    }
}

/// The slowest rate of a healed link.
const SLOWEST: Rate = Rate::from_mbit(1);
/// The MTU of healed links.
pub(super) const HEALED_MTU: u32 = 1_500;

fn witness(case: &Case, world: &World) -> WireChecker {
    let mut owners: BTreeMap<IpAddr, NodeId> = BTreeMap::new();
    for node in 0..world.node_count() {
        let host = world.host(NodeId(node as u32));
        for port in ports(host) {
            for (address, _) in &host.port(port).config.addresses {
                owners.insert(*address, NodeId(node as u32));
            }
        }
    }
    let ends = world.links().map(|(_, link)| (link.from.0, link.to.0)).collect();
    let planned =
        |wire: &Wire| [&wire.there, &wire.back].map(|it| links::LinkModel::new(it, wire.mtu));
    let link_models = case.wires.iter().flat_map(planned).collect();
    WireChecker::new(owners, case.nodes.len(), (ends, link_models))
}

pub(super) fn ports(host: &Host) -> impl Iterator<Item = Port> + use<> {
    (0..host.port_count() as u16).map(Port)
}

/// The ends that a number means: 2 is both.
fn ends(end: usize) -> Vec<usize> {
    if end == 2 { vec![0, 1] } else { vec![end] }
}

fn replace_root(root: &mut Sched, words: &str, cx: &mut datapath::qdisc::Cx<'_>) {
    let healed =
        iproute::tc::parse_qdisc(&format!("qdisc replace dev d root handle fffe: {words}"));
    let rng = datapath::rng::Rng::stream(0, 0);
    let done =
        healed.expect("words that are drawn").apply(root, iproute::tc::Device::default(), rng, cx);
    drop(done.expect("a root can be replaced"));
}

/// What can be set is what a kernel begins with.
fn reset_sysctls(host: &mut Host) {
    let mut fresh = TcpConfig::for_profile(host.tcp_defaults().profile).sysctl;
    let triple = |[least, middle, most]: [u32; 3]| format!("{least} {middle} {most}");
    let mut set = vec![("tcp_rmem", triple(fresh.tcp_rmem)), ("tcp_wmem", triple(fresh.tcp_wmem))];
    for name in Sysctl::NAMES {
        let value = fresh.scalar_mut(name).expect("a name of the list");
        set.push((name, value.to_string()));
    }
    for (name, value) in set {
        host.set_tcp_sysctl(name, &value).expect("the default of a sysctl is in its range");
    }
}

/// Everything that can be seen of a world.
fn view_of(built: &BuiltWorld) -> String {
    let world = &built.world;
    // How many events there were is the engine's affair: a stop makes some of them necessary.
    let stats = WorldStats { events: 0, ..world.stats() };
    let mut seen = format!("{:?} {stats:?} heard {}\n", world.now(), world.all_notified());
    let mut line = |what: &dyn core::fmt::Debug| writeln!(seen, "{what:?}").expect("memory");
    for (id, link) in world.links() {
        line(&(id, link.stats, world.in_flight(id), link.rule_hits()));
    }
    for node in 0..world.node_count() as u32 {
        let host = world.host(NodeId(node));
        line(&(node, host.stats, host.tcp_mib(), host.snmp(false), host.snmp(true)));
        for id in ports(host) {
            let port = host.port(id);
            line(&(node, id, port.stats, port.backlog(), port.qdisc().stats()));
        }
        for tcp in host.tcp_connections() {
            line(&(node, tcp.local(), tcp.remote(), tcp.info(world.now())));
        }
    }
    for (one, other) in &built.apps {
        line(&(world.report(*one), other.map(|other| world.report(other))));
    }
    // Its order is that of calls, which engines may change between nodes.
    let ledger = built.ledger.entries();
    let mut entries: Vec<&Entry> = ledger.iter().collect();
    entries.sort_by_key(|entry| (entry.flow, entry.node, entry.since, entry.local, entry.remote));
    for entry in entries {
        line(entry);
    }
    seen
}
