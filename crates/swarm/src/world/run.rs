//! A world from its start to its end, under all oracles.

use core::fmt::Write as _;
use core::net::{IpAddr, SocketAddr};
use datapath::host::Host;
use datapath::node::Port;
use datapath::qdisc::{Qdisc as _, Sched};
use datapath::tcp::SocketError;
use datapath::tcp::config::{Sysctl, TcpConfig};
use datapath::tcp::state::State;
use datapath::units::{Duration, Instant};
use sim::link::{LinkId, NodeId};
use sim::windows::WindowUse;
use sim::world::{World, WorldStats};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::build::{self, Built, end_of, link_of, micros};
use super::ledger::Entry;
use super::plan::{App, Case, Change, Second, What};
use super::wire::Witness;
use crate::case::{Digest, Outcome, Violation};

/// After everything is healed, every flow ends within this, s.
const ENDS_WITHIN_S: u64 = 1_440;
/// After that time no queue is so long that a round trip takes longer than a timeout.
const DRAINED_WITHIN: Duration = Duration::from_secs(10);
/// More events than this no case is worth.
const EVENTS_MAX: u64 = 5_000_000;
/// How long the world runs, at least, before its events are counted again, and how many there may
/// be for the next step to be longer.
const STEP: Duration = Duration::from_millis(1);
const EVENTS_OF_STEP: u64 = 10_000;
/// Sockets that one end of a flow may leave behind for each connection that it tries, TIME-WAIT
/// and half-open ones included.
const SOCKETS_PER_TRY: usize = 12;

/// Runs a case twice: stopped at many places and observed, then in one go by another engine and
/// unobserved. Both must see the same.
pub fn run(case: &Case) -> Result<Outcome, Violation> {
    let watched = Play::new(case, true).played()?;
    let alone = Play::new(case, false).played()?;
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
struct Play<'a> {
    case: &'a Case,
    built: Built,
    /// Sees everything, in the run that is observed.
    witness: Option<Rc<RefCell<Witness>>>,
    /// How it looked at the times when both runs stop.
    seen: Vec<String>,
    /// Changes made so far.
    done: u64,
    /// Rules that deny or lead astray, to be taken back.
    rules: Vec<(usize, String)>,
}

impl<'a> Play<'a> {
    fn new(case: &'a Case, observed: bool) -> Self {
        let mut built = build::build(case);
        let mode = match (observed, case.second) {
            (true, _) | (_, Second::OneByOne) => WindowUse::Never,
            (_, Second::WhenUseful) => WindowUse::WhenUseful,
            (_, Second::Windows) => WindowUse::Always,
        };
        built.world.set_window_use(mode);
        let witness = observed.then(|| Rc::new(RefCell::new(witness(case, &built.world))));
        if let Some(witness) = &witness {
            built.world.observe(Box::new(Rc::clone(witness)));
        }
        Self { case, built, witness, seen: Vec::new(), done: 0, rules: Vec::new() }
    }

    fn played(mut self) -> Result<Self, Violation> {
        self.until_healing()?;
        self.heal();
        let heal = micros(self.case.heal_us);
        for quarter in 1..=4 {
            self.go_to(heal + Duration::from_secs(ENDS_WITHIN_S / 4 * quarter))?;
        }
        self.look();
        self.every_flow_has_ended()?;
        self.close_the_rest();
        self.go_to(heal + Duration::from_secs(2 * ENDS_WITHIN_S))?;
        self.look();
        self.nothing_is_left()?;
        self.bytes_are_whole()?;
        self.datagrams_have_come()?;
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

    fn work_is_limited(&self) -> Result<(), Violation> {
        let events = self.built.world.stats().events;
        if events > EVENTS_MAX {
            return Err(Violation::new("work", self.at(), format!("{events} events")));
        }
        Ok(())
    }

    fn at(&self) -> String {
        format!("{} ns", self.built.world.now().as_nanos())
    }

    /// What must hold at every stop.
    fn check(&self) -> Result<(), Violation> {
        self.work_is_limited()?;
        self.sockets_are_few()?;
        self.buffers_hold()?;
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        if let Some(broken) = &witness.broken {
            return Err(broken.clone());
        }
        self.cookies_skip_bytes(&witness)?;
        self.links_lose_nothing(&witness)?;
        self.routers_lose_nothing(&witness)
    }

    fn sockets_are_few(&self) -> Result<(), Violation> {
        let tries = |flow: &super::plan::Flow| match flow.app {
            App::Talk { count, .. } => count as usize,
            App::Connect { count, .. } => count as usize,
            App::Query { ref more, .. } => 1 + more.len(),
            _ => 1,
        };
        for node in 0..self.case.nodes.len() {
            let flows = self.case.flows.iter().filter(|flow| flow.involves(node));
            let most: usize = flows.map(|flow| 1 + SOCKETS_PER_TRY * tries(flow)).sum();
            let open = self.built.world.host(NodeId(node as u32)).sockets.len();
            if open > most {
                let what = format!("node {node} has {open} sockets, {most} are plenty");
                return Err(Violation::new("work", self.at(), what));
            }
        }
        Ok(())
    }

    /// What waits at the ports of a node never exceeds the memory that they share, where no netem makes
    /// copies of what has been let in.
    fn buffers_hold(&self) -> Result<(), Violation> {
        if self.duplicates() {
            return Ok(());
        }
        for node in 0..self.case.nodes.len() {
            let host = self.built.world.host(NodeId(node as u32));
            let Some(buffer) = host.shared_buffer() else { continue };
            let waiting: u64 =
                ports(host).map(|port| u64::from(host.port(port).qdisc().backlog().bytes)).sum();
            if waiting > u64::from(buffer.bytes) {
                let what = format!("node {node}: {waiting} bytes wait in {buffer:?}");
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Only a host that has taken a SYN cookie back may believe that it has bytes which never came.
    fn cookies_skip_bytes(&self, witness: &Witness) -> Result<(), Violation> {
        for (from, to) in &witness.skipped {
            let node = self.built.addresses.iter().position(|them| them.contains(&to.ip()));
            let host = node.map(|node| self.built.world.host(NodeId(node as u32)));
            if host.is_none_or(|host| host.tcp_mib().syn_cookies_recv == 0) {
                let what = format!("{to} acknowledges to {from} what has not come");
                return Err(Violation::new("wire", self.at(), what));
            }
        }
        Ok(())
    }

    /// What was put on a link has arrived, was dropped with a reason, or is on it.
    fn links_lose_nothing(&self, witness: &Witness) -> Result<(), Violation> {
        let world = &self.built.world;
        for (id, link) in world.links() {
            let books = witness.links[id.0 as usize];
            let entered = books.entered + link.stats.duplicated;
            let on_it = world.in_flight(id) as u64;
            let gone = books.left + books.dropped;
            // A super-packet on its way counts as one.
            let fits = entered >= gone + on_it && (on_it > 0 || entered == gone);
            if !fits || books.entered != link.stats.packets {
                let what = format!("{id:?}: {books:?}, {on_it} on it, {:?}", link.stats);
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// What arrived at a router, or was made there, has gone on, was dropped with a reason, was for
    /// the router itself, or waits.
    fn routers_lose_nothing(&self, witness: &Witness) -> Result<(), Violation> {
        if self.duplicates() {
            return Ok(());
        }
        for (node, _) in self.case.nodes.iter().enumerate().filter(|(_, node)| node.router) {
            let host = self.built.world.host(NodeId(node as u32));
            let books = witness.nodes[node];
            // Of the fragments that a queue refuses no counter tells.
            let cuts = |ipv6| {
                let snmp = host.snmp(ipv6);
                snmp.frag_creates + snmp.frag_fails > 0
            };
            if cuts(false) || cuts(true) {
                continue;
            }
            let entered = books.entered + host.stats.out_requests;
            let gone = books.left + books.dropped + host.stats.in_delivers;
            let waiting =
                ports(host).map(|port| u64::from(host.port(port).backlog().packets)).sum::<u64>()
                    + ports(host).map(|port| host.port(port).rx_waiting() as u64).sum::<u64>();
            if entered < gone + waiting || (waiting == 0 && entered != gone) {
                let what = format!("node {node}: {books:?}, {waiting} wait, {:?}", host.stats);
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Whether a qdisc makes copies.
    fn duplicates(&self) -> bool {
        self.says("duplicate")
    }

    /// Whether words of `tc` contain this one.
    fn says(&self, word: &str) -> bool {
        let says = |words: &String| words.contains(word);
        let changes = self.case.changes.iter().any(|change| match &change.what {
            What::Tc { words, .. } => says(words),
            _ => false,
        });
        let ports = self.case.wires.iter().flat_map(|wire| [&wire.there, &wire.back]);
        changes || ports.flat_map(|port| &port.tc).any(says)
    }

    /// Makes a change.
    fn make(&mut self, change: &Change) {
        let case = self.case;
        match &change.what {
            What::Link { wire, end, up } => {
                for end in ends(*end) {
                    self.set_link_up(link_of(*wire, end), *up);
                }
            }
            What::Rate { wire, end, kbit } => {
                self.built.world.link_mut(link_of(*wire, *end)).set_rate(build::rate(*kbit));
            }
            What::Mtu { wire, end, mtu } => {
                for end in ends(*end) {
                    self.set_mtu(*wire, end, *mtu);
                }
            }
            What::Tc { wire, end, words } => {
                let (node, port) = end_of(case, *wire, *end);
                let number = 1_000 + self.done;
                self.built.world.with_host(node, |now, host| {
                    let mtu = host.port(port).config.mtu;
                    host.change_qdisc(now, port, |root, cx| {
                        build::tell_tc(root, words, (mtu, case.seed, (*wire, *end), number), cx);
                    });
                });
            }
            What::Sysctl { node, words } => {
                let node = NodeId(*node as u32);
                self.built.world.with_host(node, |_, host| build::tell_sysctl(host, words));
            }
            What::Rule { node, to, kind, begins } => self.tell_rule(*node, *to, kind, *begins),
            What::FlushMetrics { node } => {
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

    fn set_mtu(&mut self, wire: usize, end: usize, mtu: u32) {
        let (node, port) = end_of(self.case, wire, end);
        self.built.world.with_host(node, |_, host| host.port_config_mut(port).mtu = mtu);
    }

    fn tell_rule(&mut self, node: usize, to: usize, kind: &str, begins: bool) {
        let addresses = self.built.addresses[to];
        for (address, option) in addresses.into_iter().zip(["", "-6 "]) {
            let len = if address.is_ipv4() { 32 } else { 128 };
            let words = format!("to {address}/{len} {kind}");
            let rule = (node, format!("{option}rule del {words}"));
            if begins {
                self.tell_ip(node, &format!("{option}rule add {words}"));
                self.rules.push(rule);
            } else if let Some(place) = self.rules.iter().position(|it| *it == rule) {
                self.tell_ip(node, &rule.1);
                self.rules.remove(place);
            }
        }
    }

    fn tell_ip(&mut self, node: usize, words: &str) {
        let node = NodeId(node as u32);
        self.built.world.with_host(node, |now, host| build::tell_ip(host, now, words));
    }

    /// Links are up and lose nothing, queues drop only what they have no room for, routes deny
    /// nothing, and sysctls are what they were in the beginning of a kernel's life.
    fn heal(&mut self) {
        let case = self.case;
        for (node, words) in core::mem::take(&mut self.rules) {
            self.tell_ip(node, &words);
        }
        for (node, _) in case.nodes.iter().enumerate() {
            self.built.world.with_host(NodeId(node as u32), |_, host| reset_sysctls(host));
        }
        for (wire, plan) in case.wires.iter().enumerate() {
            for (end, direction) in [&plan.there, &plan.back].into_iter().enumerate() {
                let link = link_of(wire, end);
                let state = self.built.world.link_mut(link);
                state.end_trouble();
                let slow = state.rate().is_some_and(|rate| rate < SLOWEST);
                if slow {
                    state.set_rate(Some(SLOWEST));
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
    fn look(&mut self) {
        let seen = look_at(&self.built);
        self.seen.push(seen);
    }

    /// No connection waits for anything but a peer that is gone.
    fn every_flow_has_ended(&self) -> Result<(), Violation> {
        let world = &self.built.world;
        for node in 0..self.case.nodes.len() {
            let host = world.host(NodeId(node as u32));
            for tcp in host.tcp_connections() {
                let (local, remote) = (tcp.local(), tcp.remote());
                let idle = tcp.unacked_bytes() == 0 && tcp.unsent_bytes() == 0;
                let waits =
                    matches!(tcp.state(), State::Established | State::CloseWait | State::FinWait2);
                if waits && idle && !self.has_connection(remote, local) {
                    continue;
                }
                let peer = self.connection_state(remote, local);
                let what = format!(
                    "node {node}: {local} to {remote} is {:?}, {} bytes unsent, {} unacknowledged, the peer {peer:?}",
                    tcp.state(),
                    tcp.unsent_bytes(),
                    tcp.unacked_bytes(),
                );
                return Err(Violation::new("liveness", self.at(), what));
            }
        }
        Ok(())
    }

    fn has_connection(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let state = self.connection_state(local, remote);
        state.is_some_and(|state| !matches!(state, State::Close | State::TimeWait))
    }

    fn connection_state(&self, local: SocketAddr, remote: SocketAddr) -> Option<State> {
        let of_family = |addresses: &[IpAddr; 2]| addresses.contains(&local.ip());
        let node = self.built.addresses.iter().position(of_family)?;
        let host = self.built.world.host(NodeId(node as u32));
        let mut all = host.tcp_connections();
        all.find(|tcp| tcp.local() == local && tcp.remote() == remote)
            .map(datapath::tcp::Connection::state)
    }

    /// Whoever still waits for a peer that is gone closes.
    fn close_the_rest(&mut self) {
        for node in 0..self.case.nodes.len() {
            self.built.world.with_host(NodeId(node as u32), |now, host| {
                let open: Vec<u32> =
                    host.tcp_connections().map(datapath::tcp::Connection::id).collect();
                for id in open {
                    host.tcp_close(now, id);
                }
            });
        }
    }

    /// All queues and links are empty, and every socket but listeners and those of datagrams is gone.
    fn nothing_is_left(&self) -> Result<(), Violation> {
        let world = &self.built.world;
        for node in 0..self.case.nodes.len() {
            let host = world.host(NodeId(node as u32));
            if let Some(tcp) = host.tcp_connections().next() {
                let what = format!(
                    "node {node}: {} to {} is {:?}",
                    tcp.local(),
                    tcp.remote(),
                    tcp.state()
                );
                return Err(Violation::new("liveness", self.at(), what));
            }
            for port in ports(host) {
                let backlog = host.port(port).backlog();
                if backlog.packets > 0 || backlog.bytes > 0 {
                    let what = format!("node {node}, {port:?}: {backlog:?} wait for ever");
                    return Err(Violation::new("liveness", self.at(), what));
                }
            }
        }
        for (id, _) in world.links() {
            if world.in_flight(id) > 0 {
                return Err(Violation::new("liveness", self.at(), format!("{id:?} is not empty")));
            }
        }
        Ok(())
    }

    /// Nobody reads what was not written, and who is told that the peer has closed has read all.
    fn bytes_are_whole(&self) -> Result<(), Violation> {
        let ledger = self.built.ledger.borrow();
        for entry in ledger.iter().filter(|entry| entry.active) {
            let peers: Vec<&Entry> = ledger
                .iter()
                .filter(|it| (it.local, it.remote) == (entry.remote, entry.local))
                .collect();
            let again =
                ledger.iter().filter(|it| (it.local, it.remote) == (entry.local, entry.remote));
            let ([peer], 1) = (&peers[..], again.count()) else { continue };
            if self.skips_bytes(entry.local, entry.remote) {
                continue;
            }
            for (reader, writer) in [(entry, *peer), (*peer, entry)] {
                let whole = !reader.eof || reader.read == writer.written;
                if reader.read > writer.written || !whole {
                    let what = format!("read: {reader:?}\nwritten: {writer:?}");
                    return Err(Violation::new("bytes", self.at(), what));
                }
            }
        }
        for (flow, apps) in self.case.flows.iter().zip(&self.built.apps) {
            let (App::Send { .. }, (sender, Some(sink))) = (&flow.app, apps) else { continue };
            let (sent, read) = (self.built.world.report(*sender), self.built.world.report(*sink));
            if read.received_bytes > sent.sent_bytes {
                let what = format!("{flow:?}: {sent:?}, {read:?}");
                return Err(Violation::new("bytes", self.at(), what));
            }
        }
        Ok(())
    }

    /// Everything was healed, queues had run empty, and what the connection tried last got through.
    fn in_peace(&self, entry: &Entry, witness: &Witness) -> bool {
        let flow = &self.case.flows[entry.flow];
        let healed = micros(self.case.heal_us) + DRAINED_WITHIN;
        entry.failed_at > healed
            && flow.client.md5 == flow.server.md5
            && flow.client.user_timeout_ms == 0
            && flow.server.user_timeout_ms == 0
            && !witness.may_be_unanswered(entry.local, entry.remote)
    }

    fn skips_bytes(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let skipped =
            |witness: &Rc<RefCell<Witness>>| witness.borrow().skipped.contains(&(from, to));
        self.witness.as_ref().is_none_or(skipped)
    }

    /// Every datagram that was sent has been read or was dropped with a reason, where none is copied,
    /// cut or damaged beyond recognition.
    fn datagrams_have_come(&self) -> Result<(), Violation> {
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        if self.duplicates() || self.says("corrupt") || self.copies() {
            return Ok(());
        }
        for (index, (flow, apps)) in self.case.flows.iter().zip(&self.built.apps).enumerate() {
            let (App::Cbr { size, .. } | App::Probe { size, .. }, (sender, Some(reader))) =
                (&flow.app, apps)
            else {
                continue;
            };
            if size + DATAGRAM_HEADERS > self.least_mtu() {
                continue;
            }
            let ends = build::ends_of(index, flow, &self.built.addresses);
            let dropped = witness.datagrams_dropped.get(&ends).copied().unwrap_or(0);
            let sent = self.built.world.report(*sender).sent;
            let read = self.built.world.report(*reader).received;
            if sent != read + dropped {
                let what =
                    format!("{ends:?}: {sent} datagrams sent, {read} read, {dropped} dropped");
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Whether links make copies.
    fn copies(&self) -> bool {
        let mut links = self.case.wires.iter().flat_map(|wire| [&wire.there, &wire.back]);
        links.any(|link| {
            let trouble = &link.trouble;
            trouble.duplication > 0 || trouble.rules.iter().any(|rule| rule.contains("dup"))
        })
    }

    /// The smallest MTU that there ever was.
    fn least_mtu(&self) -> u32 {
        let begun = self.case.wires.iter().map(|wire| wire.mtu);
        let changed = self.case.changes.iter().filter_map(|change| match change.what {
            What::Mtu { mtu, .. } => Some(mtu),
            _ => None,
        });
        begun.chain(changed).chain([HEALED_MTU]).min().unwrap_or(HEALED_MTU)
    }

    /// Every error that an application was told has its cause on the wire.
    fn errors_are_explained(&self) -> Result<(), Violation> {
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        for entry in self.built.ledger.borrow().iter().filter(|entry| entry.failed) {
            let Some(error) = entry.error else { continue };
            let reset = witness.resets(entry.remote, entry.local) > 0;
            let told = witness.errors[entry.node as usize] > 0;
            let flow = &self.case.flows[entry.flow];
            let lost = witness.dropped(entry.local, entry.remote) > 0
                || flow.client.md5 != flow.server.md5;
            let explained = match error {
                SocketError::Reset | SocketError::BrokenPipe => reset || entry.aborted,
                SocketError::Refused => reset || told,
                // Where no socket is left the reset is not signed, and is not heard.
                SocketError::TimedOut => {
                    let unheard = reset && flow.client.md5.is_some();
                    (lost && !self.in_peace(entry, &witness)) || told || unheard
                }
                _ => told || lost,
            };
            if !explained {
                let what = format!("{error:?} for no reason: {entry:?}");
                return Err(Violation::new("errno", self.at(), what));
            }
        }
        Ok(())
    }
}

/// The slowest rate of a healed link.
const SLOWEST: datapath::units::Rate = datapath::units::Rate::from_mbit(1);
/// Headers of a datagram below the link layer, the longer ones of IPv6, bytes.
const DATAGRAM_HEADERS: u32 = 48;
/// The MTU of healed links.
const HEALED_MTU: u32 = 1_500;

fn witness(case: &Case, world: &World) -> Witness {
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
    Witness::new(owners, case.nodes.len(), ends)
}

fn ports(host: &Host) -> impl Iterator<Item = Port> + use<> {
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
fn look_at(built: &Built) -> String {
    let world = &built.world;
    // How many events there were is the engine's affair: a stop makes some of them necessary.
    let stats = WorldStats { events: 0, ..*world.stats() };
    let mut seen = format!("{:?} {stats:?} heard {}\n", world.now(), world.all_heard());
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
    let ledger = built.ledger.borrow();
    let mut entries: Vec<&Entry> = ledger.iter().collect();
    entries.sort_by_key(|entry| (entry.flow, entry.node, entry.since, entry.local, entry.remote));
    for entry in entries {
        line(entry);
    }
    seen
}
