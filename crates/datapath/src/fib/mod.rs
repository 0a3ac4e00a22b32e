//! The forwarding information base: longest-prefix match and multipath.
//!
//! [`Fib`] answers like the kernel's IPv4 and IPv6 FIBs: rules choose a table ([`rules`]), the
//! table the longest prefix ([`trie`], `spans`, `table`) with a route that fits and is in
//! service (`info`), and among several next hops the flow's hash decides ([`hash`],
//! [`multipath`]). A look-up (`lookup`) allocates nothing and takes `&self`; changes (`change`,
//! `links`) take `&mut self` and are complete when they return.

mod change;
pub mod dissect;
pub mod error;
mod family;
mod filter;
pub mod flow;
pub mod hash;
mod info;
pub mod jhash;
mod key;
mod links;
mod lookup;
pub mod multipath;
pub mod nexthop;
pub mod resilient;
pub mod route;
pub mod rules;
mod siblings;
pub mod source;
mod spans;
mod state;
mod table;
pub mod trie;

pub use change::DEFAULT_METRIC_V6;
pub use error::FibError;
pub use filter::RouteFilter;
pub use flow::{Fields, HashInput};
pub use key::{Decision, Hop, RouteKey};
pub use lookup::{Candidates, Choice, Explanation};
pub use route::{
    Algorithm, Features, NextHop, Prefix, Protocol, Route, RouteType, Scope, TableId, Target,
};
pub use rules::{Action, InputPort, Rule};
pub use state::{Hashed, LinkState, Settings};

use core::net::IpAddr;
use family::Family;
use info::{Info, Infos};
use nexthop::Objects;
use source::Own;
use table::{Address, Table};

/// Bits of the TOS byte that routes and rules look at (`INET_DSCP_LEGACY_TOS_MASK`).
pub const TOS_MASK: u8 = 0x1c;

/// Routes of both families, rules, and the state of the interfaces that they use. A clone is
/// independent: changes and look-ups of it do not affect the original.
///
/// ```
/// use datapath::fib::{Decision, Fib, Prefix, Route, RouteKey};
///
/// let (gateway, mut fib) = ("10.0.0.254".parse()?, Fib::new());
/// fib.add(Route::on_link(Prefix::new("10.0.0.0".parse()?, 24)?, 0))?;
/// fib.add(Route::via(Prefix::new("0.0.0.0".parse()?, 0)?, 0, gateway))?;
/// let Decision::Forward(hop) = fib.lookup(&RouteKey::to("192.0.2.1".parse()?)) else { panic!() };
/// assert_eq!((hop.port, hop.gateway), (0, Some(gateway)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fib {
    v4: Family<u32>,
    v6: Family<u128>,
    infos: Infos,
    objects: Objects,
    settings: Settings,
    /// By port; ports beyond the end are up.
    links: Box<[LinkState]>,
    /// State that few nodes have.
    local_facts: Option<Box<LocalFacts>>,
}

/// State besides routes that few nodes have: most have one address, and no information about neighbours.
#[derive(Clone, Debug, Default)]
struct LocalFacts {
    /// Next routers known to be unreachable, sorted.
    unreachable: Box<[Hop]>,
    /// IPv4 addresses of this node ([`Fib::set_addresses`]), if there are several.
    own: Vec<Own>,
}

impl Default for Fib {
    fn default() -> Self {
        Self::new()
    }
}

impl Fib {
    /// No routes, default rules, all interfaces up, policy 0.
    pub fn new() -> Self {
        Self {
            v4: Family::new(),
            v6: Family::new(),
            infos: Infos::default(),
            objects: Objects::default(),
            settings: Settings::default(),
            links: Box::default(),
            local_facts: None,
        }
    }

    /// The sysctls.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the sysctls; they apply from the next look-up on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Every route, table by table, in order of prefix and then of preference; IPv4 first.
    pub fn routes(&self) -> Vec<Route> {
        self.routes_of(&|_| true).collect()
    }

    /// The routes that prefer the source `addr`, in the order of [`Fib::routes`]. If there are none, which is seen in
    /// what routes share, no route is looked at.
    pub fn routes_from(&self, addr: IpAddr) -> Vec<Route> {
        self.few_routes_of(|info| info.shared.prefsrc == Some(addr))
    }

    /// The routes with a next hop of their own over `port`, likewise.
    pub fn routes_over(&self, port: u16) -> Vec<Route> {
        self.few_routes_of(|info| info.paths.paths().iter().any(|path| path.hop.port == port))
    }

    /// The routes to next-hop objects that are among `ids`, likewise.
    fn routes_to(&self, ids: &[u32]) -> Vec<Route> {
        self.few_routes_of(|info| info.object().is_some_and(|id| ids.contains(&id)))
    }

    fn few_routes_of(&self, wanted: impl Fn(&Info) -> bool) -> Vec<Route> {
        let infos: Vec<(u32, u32)> = self.infos.users_where(wanted).collect();
        // Infos count their routes: the search ends with the last one.
        let count = infos.iter().map(|(_, users)| *users as usize).sum();
        let is_wanted = |index| infos.binary_search_by_key(&index, |(index, _)| *index).is_ok();
        self.routes_of(&is_wanted).take(count).collect()
    }

    fn routes_of<'a>(&'a self, wanted: &'a impl Fn(u32) -> bool) -> impl Iterator<Item = Route> {
        let v4 = self.family_routes(&self.v4, wanted);
        v4.chain(self.family_routes(&self.v6, wanted))
    }

    /// The rules of a family in order.
    pub fn rules(&self, v6: bool) -> &[Rule] {
        if v6 { self.v6.rules() } else { self.v4.rules() }
    }

    /// `ip rule add`: after the rules of the same priority.
    pub fn add_rule(&mut self, v6: bool, rule: Rule) -> Result<(), FibError> {
        if v6 { self.v6.add_rule(rule) } else { self.v4.add_rule(rule) }
    }

    /// `ip rule del`: the first rule that `wanted` picks.
    pub fn delete_rule(
        &mut self,
        v6: bool,
        wanted: impl FnMut(&Rule) -> bool,
    ) -> Result<Rule, FibError> {
        if v6 { self.v6.delete_rule(wanted) } else { self.v4.delete_rule(wanted) }
    }

    /// True if nothing but the destination decides which route a packet takes: default rules, no TOS
    /// routes. An answer then holds for the address until the routes change.
    pub fn decides_by_destination(&self) -> bool {
        self.v4.is_plain(false) && self.v6.is_plain(true)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True without routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held by the tables, the shared next hops aside.
    pub fn memory(&self) -> usize {
        self.v4.memory() + self.v6.memory()
    }

    /// How many different sets of next hops the routes share.
    pub fn shared_len(&self) -> usize {
        self.infos.len()
    }

    fn family_routes<'a, K: Address>(
        &'a self,
        family: &'a Family<K>,
        wanted: &'a impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = Route> {
        // As the kernel lists them: by the buckets that its tables lie in.
        let mut tables: Vec<&Table<K>> = family.tables().iter().collect();
        tables.sort_by_key(|table| (table.id.0 % TABLE_BUCKETS, table.id));
        let routes = tables.into_iter().flat_map(|table| {
            table.iter().map(move |(key, len, alias)| (table.id, key, len, alias))
        });
        routes.filter(|(.., alias)| wanted(alias.info)).map(|(table, key, len, alias)| {
            let prefix = Prefix::containing(key.to_ip(), len).expect("a prefix of a table");
            self.infos.get(alias.info).route(prefix, table, alias)
        })
    }
}

/// `FIB_TABLE_HASHSZ`.
const TABLE_BUCKETS: u32 = 256;

#[cfg(test)]
mod tests;
