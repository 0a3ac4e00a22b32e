//! What the kernel makes of a question: of what is asked of no table, and of what tables answer.

use crate::ip::{Ip, IpError, IpResult, LOOPBACK};
use core::net::{IpAddr, Ipv4Addr};
use datapath::fib::source::{self, Own};
use datapath::fib::{
    Decision, Features, Prefix, Protocol, Route, RouteKey, RouteType, Scope, TableId,
};
use datapath::metrics::RouteMetrics;

const INVALID: IpError = IpError::Answer("RTNETLINK answers: Invalid argument");
const UNREACHABLE: IpError = IpError::Answer("RTNETLINK answers: Network is unreachable");

/// Every interface has joined it.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// A question as its words put it.
pub(super) struct GetRequest {
    pub(super) key: RouteKey,
    pub(super) from: bool,
    pub(super) fibmatch: bool,
}

/// Where a packet goes, and what the answer contains besides.
pub(super) struct Answer {
    pub(super) kind: RouteType,
    pub(super) port: u16,
    pub(super) gateway: Option<IpAddr>,
    /// The route of a table, if one was asked.
    pub(super) route: Option<Route>,
    /// What a packet without a source takes.
    pub(super) source: Option<IpAddr>,
}

impl Answer {
    /// That of the route, which is 0 where a packet of any TOS takes it (`rt_fill_info`).
    pub(super) fn tos(&self) -> u8 {
        self.route.as_ref().map_or(0, |route| route.tos)
    }

    /// Of a route that packets take as it is; of one to this host IPv6 tells them as well, and IPv4 of what is sent
    /// (`ip6_rt_init_dst`, `__mkroute_output`).
    pub(super) fn metrics(&self, key: &RouteKey) -> (RouteMetrics, Features) {
        let taken = match self.kind {
            RouteType::Unicast | RouteType::Multicast => true,
            RouteType::Local => key.dst.is_ipv6() || key.iif.is_none(),
            _ => key.dst.is_ipv6(),
        };
        let route = self.route.as_ref().filter(|_| taken);
        route.map_or_else(Default::default, |route| (route.metrics, route.features))
    }

    /// What IPv4 says behind `cache`.
    pub(super) fn cache_flags(&self, dst: IpAddr) -> &'static [&'static str] {
        match self.kind {
            RouteType::Broadcast => &["local", "brd"],
            RouteType::Multicast if dst == ALL_HOSTS => &["local", "mc"],
            RouteType::Multicast => &["mc"],
            RouteType::Unicast if self.port != LOOPBACK => &[],
            _ => &["local"],
        }
    }
}

impl Ip {
    pub(super) fn answer(&self, asked: &GetRequest) -> IpResult<Answer> {
        let key = &asked.key;
        match key.dst {
            IpAddr::V4(dst) if key.iif.is_none() => self.answer_v4(asked, dst),
            IpAddr::V4(dst) if dst.is_broadcast() || dst == ALL_HOSTS => {
                Ok(self.on_link(asked, LOOPBACK))
            }
            IpAddr::V6(dst) if dst.is_multicast() && key.iif.is_none() => {
                self.multicast_v6(asked).map_or_else(|| self.by_tables(asked), Ok)
            }
            _ => self.by_tables(asked),
        }
    }

    /// A packet made here (`ip_route_output_key_hash_rcu`).
    fn answer_v4(&self, asked: &GetRequest, dst: Ipv4Addr) -> IpResult<Answer> {
        let oif = asked.key.oif;
        let to_many = dst.is_broadcast() || dst.is_multicast();
        let owner = self.owner_v4(asked)?;
        if oif.is_some_and(|port| port != LOOPBACK && !self.fib.link(port).up) {
            return Err(UNREACHABLE);
        }
        let bound = match oif {
            None => owner.filter(|_| to_many),
            Some(_) => oif.filter(|_| dst.is_broadcast() || dst.octets()[..3] == [224, 0, 0]),
        };
        if let Some(port) = bound {
            return Ok(self.on_link(asked, port));
        }
        if dst.is_unspecified() {
            let own = oif.and_then(|port| self.source_on(asked, port));
            let source = own.or(Some(Ipv4Addr::LOCALHOST.into())).filter(|_| !asked.from);
            return Ok(Answer { kind: RouteType::Local, source, ..self.on_link(asked, LOOPBACK) });
        }
        let mut answer = match (self.by_tables(asked), oif) {
            // Tables that know nothing are wrong: it is taken to be on the link.
            (Err(_), Some(port)) => self.on_link(asked, port),
            (answer, _) => answer?,
        };
        if to_many {
            answer.kind = kind_of(dst);
            let near = answer.route.as_ref().is_none_or(|route| route.prefix.len() < 4);
            answer.gateway = answer.gateway.filter(|_| !near && !dst.is_broadcast());
        }
        let from_loopback = asked.from && asked.key.src.is_loopback();
        if from_loopback && answer.port != LOOPBACK { Err(INVALID) } else { Ok(answer) }
    }

    /// The port with the address that a packet made here is said to come from, which must be one of this host.
    fn owner_v4(&self, asked: &GetRequest) -> IpResult<Option<u16>> {
        let IpAddr::V4(src) = asked.key.src else { return Ok(None) };
        if !asked.from {
            return Ok(None);
        }
        if src.is_multicast() || src.is_broadcast() || src.octets()[0] == 0 {
            return Err(INVALID);
        }
        if let Some(owner) = self.devices.owners(src.into()).next() {
            return Ok(Some(owner));
        }
        if self.is_local(src.into()) { Ok(Some(LOOPBACK)) } else { Err(UNREACHABLE) }
    }

    /// What goes out, or comes in, without a table.
    fn on_link(&self, asked: &GetRequest, port: u16) -> Answer {
        let kind = match asked.key.dst {
            IpAddr::V4(dst) => kind_of(dst),
            IpAddr::V6(_) => RouteType::Multicast,
        };
        let source = self.source_on(asked, port);
        Answer { kind, port, gateway: None, route: None, source }
    }

    fn source_on(&self, asked: &GetRequest, port: u16) -> Option<IpAddr> {
        if asked.hides_source() {
            return None;
        }
        let own = self.devices.own().filter(|own: &Own| !own.addr.is_loopback());
        source::select(own, port, None, asked.key.dst)
    }

    /// The kernel has `ff00::/8` for each interface, in the table `local` (`addrconf_add_mroute`). Ours has it only
    /// if it comes from a kernel.
    fn multicast_v6(&self, asked: &GetRequest) -> Option<Answer> {
        if self.fib.matching(&asked.key).is_some_and(|route| route.table == TableId::LOCAL) {
            return None;
        }
        let up = |port: &u16| self.fib.link(*port).up;
        let port = asked.key.oif.or_else(|| self.devices.ports().find(up)).filter(up)?;
        let prefix = Prefix::containing(asked.key.dst, 8)?;
        let route = Route {
            kind: RouteType::Multicast,
            table: TableId::LOCAL,
            scope: Scope::UNIVERSE,
            protocol: Protocol::KERNEL,
            metric: 256,
            ..Route::on_link(prefix, port)
        };
        Some(Answer { route: Some(route), ..self.on_link(asked, port) })
    }

    fn by_tables(&self, asked: &GetRequest) -> IpResult<Answer> {
        let key = &asked.key;
        let route = self.fib.matching(key);
        let (kind, port, gateway) = match self.fib.lookup(key) {
            Decision::Forward(hop) => {
                let multicast = route.as_ref().map(|route| route.kind);
                let multicast = multicast.filter(|kind| *kind == RouteType::Multicast);
                (multicast.unwrap_or_default(), hop.port, hop.gateway)
            }
            Decision::Local => {
                let kind = route.as_ref().map_or(RouteType::Local, |route| route.kind);
                // What comes in for all is delivered; what is sent leaves by its interface.
                let sent = kind == RouteType::Broadcast && key.iif.is_none();
                let path = self.fib.candidates(key).first().filter(|_| sent);
                (kind, path.map_or(LOOPBACK, |path| path.hop.port), None)
            }
            Decision::Blackhole => return Err(INVALID),
            Decision::Unreachable => {
                return Err(IpError::Answer("RTNETLINK answers: No route to host"));
            }
            Decision::Prohibit => {
                return Err(IpError::Answer("RTNETLINK answers: Permission denied"));
            }
            Decision::NoRoute => return Err(UNREACHABLE),
        };
        let own = self.devices.own();
        // What comes in is told the source of an IPv6 route alone (`rt6_fill_node`).
        let of_route = || route.as_ref().filter(|_| key.dst.is_ipv6())?.prefsrc;
        let source = if asked.hides_source() { of_route() } else { self.fib.source(key, own) };
        Ok(Answer { kind, port, gateway, route, source })
    }
}

/// `__mkroute_output`
fn kind_of(dst: Ipv4Addr) -> RouteType {
    match dst {
        _ if dst.is_broadcast() => RouteType::Broadcast,
        _ if dst.is_multicast() => RouteType::Multicast,
        _ => RouteType::Unicast,
    }
}
