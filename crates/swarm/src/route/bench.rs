//! The tables under test, and the checks.

use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::{Algorithm, Hop, NextHop, Prefix, Route, RouteType, Scope, TableId, Target};
use datapath::units::Duration;
use iproute::ip::netlink::{Interfaces, decode_object, decode_route, encode_object, encode_route};
use iproute::ip::{Ip, IpError};

use super::Case;
use super::expected::Expected;
use super::groups::Groups;
use super::ipv6;
use super::model::{LinkState, Model, refusal};
use super::steps::{RouteCase, Step, Verb};
use crate::case::{Digest, StepwiseCase, Violation};

pub(super) type CheckResult = Result<(), Violation>;

/// The tables under test.
pub struct Bench {
    pub(super) ip: Ip,
    pub(super) model: Model,
    pub(super) groups: Groups,
    pub(super) step: String,
    pub(super) digest: Digest,
}

/// Interfaces have the numbers that they would have in a kernel of their own.
struct Numbers;

impl Interfaces for Numbers {
    fn index(&self, port: u16) -> u32 {
        u32::from(port) + 2
    }

    fn port(&self, index: u32) -> u16 {
        index.wrapping_sub(2) as u16
    }
}

/// A table of more routes is not written down.
const LARGE: usize = 300;

impl StepwiseCase for Bench {
    type Step = Step;

    /// Does one step.
    fn step(&mut self, number: usize, step: &Step) -> CheckResult {
        self.step = format!("step {number}");
        match step {
            Step::Route(verb, route) => self.route(*verb, route)?,
            Step::Rule { add, rule } => {
                let verb = if *add { "add" } else { "del" };
                let family = if rule.v6 { "-6 " } else { "" };
                self.command(&format!("{family}rule {verb} {}", rule.words()))?;
            }
            Step::Object { replace, id, config } => {
                let verb = if *replace { "replace" } else { "add" };
                self.command(&format!("nexthop {verb} id {id} {}", config.words()))?;
            }
            Step::DeleteObject(id) => {
                self.command(&format!("nexthop del id {id}"))?;
                self.model.copy_routes(&self.ip.fib);
            }
            Step::Link { port, up, carrier, ignore } => self.link(*port, *up, *carrier, *ignore)?,
            Step::Neighbour { port, gateway, reachable } => {
                let hop = Hop { port: u16::from(*port), gateway: Some(*gateway) };
                self.ip.fib.set_neighbour(hop, *reachable);
                self.model.silent.retain(|silent| *silent != hop);
                self.model.silent.extend((!reachable).then_some(hop));
            }
            Step::Address { port, addr, len } => {
                self.command(&format!("address add {addr}/{len} dev a{port}"))?;
                self.model.copy_routes(&self.ip.fib);
                self.read_addresses();
            }
            Step::Sysctl { policy, use_neigh } => {
                let neigh = u8::from(*use_neigh);
                self.command(&format!(
                    "sysctl net.ipv4.fib_multipath_hash_policy={policy} \
                     net.ipv4.fib_multipath_use_neigh={neigh}"
                ))?;
                self.model.use_neigh = *use_neigh;
            }
            Step::Many { add, seed, count } => self.many(*add, *seed, *count)?,
            Step::Frames(asked) => self.frames(*asked)?,
            Step::Wait(millis) => self.wait(*millis)?,
            Step::Words(words) => self.words(words)?,
            Step::Ask(asked) => self.check_lookups(*asked)?,
        }
        self.check()
    }

    /// What is configured is written down and read back, and answers alike: but for IPv6 routes of which
    /// `replace` has made two alike, where the second is refused, as Linux refuses it.
    fn finish(&mut self) -> CheckResult {
        "the end".clone_into(&mut self.step);
        if self.ip.fib.len() > LARGE || ipv6::twins(&self.ip.fib.routes()) {
            return self.check_netlink();
        }
        let saved = self.ip.save();
        let mut again = Ip::new();
        again.now = self.ip.now;
        if let Err((line, error)) = again.run_all(&saved) {
            return self.broken("written and read", format!("line {line} of\n{saved}\n{error}"));
        }
        if again.save() != saved {
            return self.broken(
                "written and read",
                format!("written:\n{saved}\nread and written again:\n{}", again.save()),
            );
        }
        self.check_netlink()
    }

    fn digest(&self) -> u64 {
        self.digest.value()
    }
}

impl Bench {
    /// Interfaces `a0` and on.
    pub fn new(case: &Case) -> Self {
        let mut ip = Ip::new();
        for port in 0..case.ports {
            ip.run(&format!("link add a{port}")).expect("a name");
        }
        ip.run(&format!("sysctl net.ipv4.fib_multipath_hash_seed={}", case.seed)).expect("a seed");
        let model = Model::new(case.ports);
        Self {
            ip,
            model,
            groups: Groups::default(),
            step: String::new(),
            digest: Digest::default(),
        }
    }

    pub(super) fn broken<T>(
        &self,
        oracle: &'static str,
        what: impl core::fmt::Display,
    ) -> Result<T, Violation> {
        Err(Violation::new(oracle, &self.step, what))
    }

    /// Runs a command; `None` if it was carried out, else why not. A refusal changes nothing.
    fn command(&mut self, words: &str) -> Result<Option<IpError>, Violation> {
        self.command_that(true, words)
    }

    /// Runs a command which, if refused, changes nothing if it is `whole`.
    fn command_that(&mut self, whole: bool, words: &str) -> Result<Option<IpError>, Violation> {
        // Of a large table nothing is written down for every command.
        let large = self.ip.fib.len() > LARGE;
        let before = if large { String::new() } else { self.ip.save() };
        let outcome = self.ip.run(words);
        self.digest.add_text(outcome.as_deref().unwrap_or("refused"));
        let Err(error) = outcome else { return Ok(None) };
        let after = if large { String::new() } else { self.ip.save() };
        if whole && before != after {
            return self.broken(
                "refusal",
                format!("\"{words}\" was refused ({error}), and\n{before}became\n{after}"),
            );
        }
        Ok(Some(error))
    }

    fn route(&mut self, verb: Verb, case: &RouteCase) -> CheckResult {
        let family = if case.addr.is_ipv6() { "-6 " } else { "" };
        let name = format!("{verb:?}").to_lowercase();
        let words = format!("{family}route {name} {}", case.words());
        // Of several IPv6 next hops those that are there go (`ip6_route_multipath_del`).
        let whole = verb != Verb::Del || case.addr.is_ipv4() || case.hops.len() < 2;
        let refused = match self.command_that(whole, &words)? {
            None => None,
            Some(IpError::Fib(error)) => Some(error),
            Some(IpError::Answer(why)) if why.ends_with("is not up.") => {
                if verb != Verb::Del && self.model.uses_down_interface(case) {
                    return Ok(());
                }
                return self.broken("routes", format!("\"{words}\": {why}"));
            }
            // What ip itself, or a look at the gateway, refuses.
            Some(_) => return Ok(()),
        };
        // Among further words may be `scope host`, for which no interface need be up.
        let may =
            verb == Verb::Del || !case.more.is_empty() || !self.model.uses_down_interface(case);
        if refused.is_none() && !may {
            return self.broken("routes", format!("\"{words}\": an interface is down"));
        }
        if !case.more.is_empty() {
            self.model.copy_routes(&self.ip.fib);
            return Ok(());
        }
        let objects = self.ip.fib.objects();
        let of_v4 = |id| case.addr.is_ipv6() && objects.has_v4(id);
        let missing =
            |id| objects.get(id).is_none_or(|object| self.model.is_dead(object)) || of_v4(id);
        let object_missing = case.object.is_some_and(missing);
        if object_missing && verb != Verb::Del {
            return match refused {
                Some(_) => Ok(()),
                None => self.broken("routes", format!("\"{words}\" leads to no object")),
            };
        }
        let expected = self.model.change(&self.ip.fib, verb, case, route_of(case).as_ref());
        let Some(expected) = expected else {
            self.model.copy_routes(&self.ip.fib);
            return Ok(());
        };
        if (expected == Expected::Done) != refused.is_none() {
            let what = format!("\"{words}\": expected {expected:?}, the answer was {refused:?}");
            return self.broken("routes", what);
        }
        match self.model.difference(&self.ip.fib) {
            None => Ok(()),
            Some(what) => self.broken("routes", format!("after \"{words}\" in {what}")),
        }
    }

    fn link(&mut self, port: u8, up: bool, carrier: bool, ignore: [bool; 2]) -> CheckResult {
        let state = if up { "up" } else { "down" };
        let on = if carrier { "on" } else { "off" };
        self.command(&format!("link set a{port} {state} carrier {on}"))?;
        let was = self.model.links.get(usize::from(port)).copied();
        if up && !carrier && was.is_some_and(|was| was.up && was.carrier) {
            self.lose_objects(port.into())?;
        }
        self.read_links();
        self.check_groups()?;
        for (family, ignore) in [4, 6].into_iter().zip(ignore) {
            let name = format!("net.ipv{family}.conf.a{port}.ignore_routes_with_linkdown");
            self.command(&format!("sysctl {name}={}", u8::from(ignore)))?;
            // Each of these may move buckets.
            self.read_links();
            self.check_groups()?;
        }
        Ok(())
    }

    /// A carrier was lost: no object over the interface is left, and no route of one that is gone
    /// (`nh_netdev_event`).
    fn lose_objects(&mut self, port: u16) -> CheckResult {
        let objects = self.ip.fib.objects();
        let over = |config: &ObjectConfig| matches!(config, ObjectConfig::Hop(hop) if hop.hop.port == port);
        if let Some((id, _)) = objects.iter().find(|(_, object)| over(object.config())) {
            return self.broken("objects", format!("{id} outlives the carrier of a{port}"));
        }
        self.model.lose_objects(&self.ip.fib);
        Ok(())
    }

    /// Time passes, and resilient groups do what they want to do by then.
    fn wait(&mut self, millis: u32) -> CheckResult {
        let until = self.ip.now + Duration::from_millis(u64::from(millis));
        let mut wakes = 0;
        while let Some(at) = self.ip.fib.wake_at().filter(|at| *at <= until) {
            self.ip.now = self.ip.now.max(at);
            self.ip.fib.upkeep(self.ip.now);
            self.check_groups()?;
            wakes += 1;
            if wakes > 10_000 {
                return self.broken("wake", "resilient groups are never done");
            }
        }
        self.ip.now = until;
        Ok(())
    }

    /// Words whose meaning the model does not know.
    fn words(&mut self, words: &str) -> CheckResult {
        if words.starts_with("sysctl") {
            // Sets one after the other, up to the first that is wrong.
            drop(self.ip.run(words));
        } else {
            self.command(words)?;
        }
        self.model.copy_routes(&self.ip.fib);
        self.model.use_neigh = self.ip.fib.settings().use_neigh;
        self.read_links();
        self.read_addresses();
        Ok(())
    }

    fn read_addresses(&mut self) {
        let own = self.ip.devices.own();
        self.model.addresses = own.map(|own| (own.port, own.addr, own.len)).collect();
    }

    fn read_links(&mut self) {
        for (port, link) in (0..).zip(&mut self.model.links) {
            let there = self.ip.fib.link(port);
            let ignore = [there.ignore_linkdown, there.ignore_linkdown_v6];
            *link = LinkState { up: there.up, carrier: there.carrier, ignore };
        }
    }

    /// Whatever the tables are, they are in order, and refer to nothing that is gone.
    fn check(&mut self) -> CheckResult {
        let fib = &self.ip.fib;
        for v6 in [false, true] {
            if !fib.rules(v6).is_sorted_by_key(|rule| rule.priority) {
                return self.broken("rules", format!("{:?} are out of order", fib.rules(v6)));
            }
        }
        let routes = fib.routes();
        if routes.len() != fib.len() {
            let what = format!("{} routes are counted, {} listed", fib.len(), routes.len());
            return self.broken("routes", what);
        }
        for route in &routes {
            if let Target::Object(id) = route.target
                && fib.objects().get(id).is_none()
            {
                return self.broken("routes", format!("{route:?} leads to an object that is gone"));
            }
        }
        self.check_groups()
    }

    fn check_groups(&mut self) -> CheckResult {
        self.check_buckets()?;
        match self.groups.check(&self.ip.fib, &self.model, self.ip.now) {
            Ok(()) => Ok(()),
            Err(what) => self.broken("groups", what),
        }
    }

    /// Every bucket of a resilient group belongs to a member of it, and to one in service if there is
    /// any.
    fn check_buckets(&self) -> CheckResult {
        let fib = &self.ip.fib;
        for (id, object) in fib.objects().iter() {
            let members: Vec<u32> = object.members().iter().map(|member| member.id).collect();
            let serving: Vec<u32> =
                members.iter().copied().filter(|id| self.model.object_serves(fib, *id)).collect();
            for bucket in fib.buckets(self.ip.now, id).into_iter().flatten() {
                let owners = if serving.is_empty() { &members } else { &serving };
                if bucket.id != 0 && !owners.contains(&bucket.id)
                    || bucket.id == 0 && !serving.is_empty()
                {
                    let what =
                        format!("bucket {bucket:?} of {id}: {members:?}, in service {serving:?}");
                    return self.broken("buckets", what);
                }
            }
        }
        Ok(())
    }

    /// Routes and objects survive their netlink messages.
    fn check_netlink(&self) -> CheckResult {
        for mut route in self.ip.fib.routes() {
            // Only those of the series of 2015 have a number.
            if matches!(route.algorithm, Algorithm::Modulo | Algorithm::Credit) {
                route.algorithm = Algorithm::System;
            }
            let there = decode_route(&encode_route(&route, &Numbers), &Numbers);
            if there.as_ref() != Ok(&route) {
                return self.broken("netlink", format!("{route:?} came back as {there:?}"));
            }
        }
        for (id, object) in self.ip.fib.objects().iter() {
            let message = encode_object(id, object.config(), &Numbers);
            let there = decode_object(&message, &Numbers);
            if there.as_ref() != Ok(&(id, object.config().clone())) {
                let what = format!("object {id} {:?} came back as {there:?}", object.config());
                return self.broken("netlink", what);
            }
        }
        Ok(())
    }
}

/// The route that words without options mean.
fn route_of(case: &RouteCase) -> Option<Route> {
    let prefix = Prefix::new(case.addr, case.len).ok()?;
    let v6 = case.addr.is_ipv6();
    let alone = case.hops.len() == 1 && !case.nexthop;
    let weight = |hop: &super::steps::Hop| if alone { 1 } else { hop.weight };
    let hop = |hop: &super::steps::Hop| NextHop {
        hop: Hop { port: u16::from(hop.port), gateway: hop.gateway },
        weight: weight(hop),
        onlink: hop.gateway.is_some(),
    };
    let hops: Vec<NextHop> = case.hops.iter().map(hop).collect();
    let kind = case.refusal.as_deref().map_or(RouteType::Unicast, refusal);
    let on_link = kind == RouteType::Unicast
        && case.object.is_none()
        && alone
        && hops[0].hop.gateway.is_none();
    Some(Route {
        table: TableId(case.table),
        tos: case.tos,
        metric: match case.metric.unwrap_or(0) {
            0 if v6 => 1024,
            metric => metric,
        },
        kind,
        scope: if on_link && !v6 { Scope::LINK } else { Scope::UNIVERSE },
        algorithm: match case.algorithm.as_deref() {
            Some("l3") => Algorithm::L3,
            Some("l4") => Algorithm::L4,
            Some("per-packet") => Algorithm::PerPacket,
            Some("modulo") => Algorithm::Modulo,
            Some("credit") => Algorithm::Credit,
            _ => Algorithm::System,
        },
        target: case.object.map_or(Target::Hops(hops), Target::Object),
        ..Route::new(prefix, Vec::new())
    })
}
