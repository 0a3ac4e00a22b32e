//! Events that take next hops in and out of service: interfaces, neighbours, next-hop objects.

use super::Fib;
use super::error::FibError;
use super::filter::RouteFilter;
use super::info::Shared;
use super::key::Hop;
use super::multipath::Path;
use super::nexthop::{ObjectConfig, Objects};
use super::resilient::BucketInfo;
use super::route::Scope;
use super::state::LinkState;
use crate::units::Instant;
use core::net::IpAddr;

impl Fib {
    /// State of an interface.
    pub fn link(&self, port: u16) -> LinkState {
        self.links.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Changes the state of an interface; the regions of all routes over it are recomputed at once. If it loses its
    /// carrier while it is up, next-hop objects over it are deleted, as in the kernel whatever its sysctls: only
    /// `ip nexthop` adds them again.
    pub fn set_link(&mut self, now: Instant, port: u16, link: LinkState) {
        if self.links.len() <= usize::from(port) {
            let mut links = core::mem::take(&mut self.links).into_vec();
            links.resize(usize::from(port) + 1, LinkState::default());
            self.links = links.into();
        }
        let was = core::mem::replace(&mut self.links[usize::from(port)], link);
        if was.up && was.carrier && link.up && !link.carrier {
            self.flush_objects(now, port);
        }
        let links = &self.links;
        for (shared, paths) in self.infos.each_paths() {
            if paths.paths().iter().any(|path| path.hop.port == port) {
                paths.update(|path| apply_link_to_route(links, shared, path));
            }
        }
        self.objects.update(now, |path| apply_link_of_object(links, path));
    }

    /// `ip nexthop add`. Without a gateway it serves routes of both families.
    pub fn add_object(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
    ) -> Result<(), FibError> {
        self.add_object_of(now, id, config, None)
    }

    /// The same with a family: IPv6 routes use no object of IPv4 ([`Object::v6`]).
    ///
    /// [`Object::v6`]: super::nexthop::Object::v6
    pub fn add_object_of(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
        v6: Option<bool>,
    ) -> Result<(), FibError> {
        let links = &self.links;
        self.objects.add(now, id, config, v6, |path| apply_link_of_object(links, path))
    }

    /// `ip nexthop replace`: routes and groups that use the object follow at once.
    pub fn replace_object(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
    ) -> Result<(), FibError> {
        self.replace_object_of(now, id, config, None)
    }

    /// The same, where a family was said.
    pub fn replace_object_of(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
        v6: Option<bool>,
    ) -> Result<(), FibError> {
        if self.objects.would_have_v4(&config, v6) && self.serves_v6(id) {
            return Err(FibError::Ipv4ObjectInIpv6);
        }
        let links = &self.links;
        self.objects.replace(now, id, config, v6, |path| apply_link_of_object(links, path))
    }

    /// Whether IPv6 routes use an object or a group that it is in (`fib6_check_nh_list`).
    fn serves_v6(&self, id: u32) -> bool {
        let uses = |there: u32| there == id || self.objects.has_member(there, id);
        self.infos.each().any(|info| info.shared.v6 && info.object().is_some_and(uses))
    }

    /// `ip nexthop del`: groups lose the member; routes of the object, and of groups that are
    /// left empty, go with it.
    pub fn delete_object(&mut self, now: Instant, id: u32) -> Result<(), FibError> {
        let links = &self.links;
        let gone = self.objects.delete(now, id, |path| apply_link_of_object(links, path))?;
        for route in self.routes_to(&gone) {
            self.delete(&RouteFilter::exactly(&route)).expect("the route was just listed");
        }
        Ok(())
    }

    /// Deletes the objects over an interface (`nexthop_flush_dev`): `NETDEV_CHANGE` without a carrier asks for
    /// it (`nh_netdev_event`). Blackholes are over none.
    fn flush_objects(&mut self, now: Instant, port: u16) {
        for id in self.objects.over(port) {
            self.delete_object(now, id).expect("the object was just listed");
        }
    }

    /// All next-hop objects in order of their numbers.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The buckets of a resilient group (`ip nexthop bucket show`).
    pub fn buckets(&self, now: Instant, id: u32) -> Option<impl Iterator<Item = BucketInfo>> {
        Some(self.objects.get(id)?.resilient()?.buckets(now))
    }

    /// Moves buckets of resilient groups whose time has come.
    pub fn upkeep(&mut self, now: Instant) {
        self.objects.upkeep(now);
    }

    /// When [`Fib::upkeep`] has something to do; `None` without unbalanced resilient groups.
    pub fn wake_at(&self) -> Option<Instant> {
        self.objects.wake_at()
    }

    /// Sets whether a gateway is reachable (`NUD_VALID` or no entry: true; `NUD_FAILED`: false).
    pub fn set_neighbour(&mut self, hop: Hop, reachable: bool) {
        let facts = self.local_facts.get_or_insert_default();
        let mut known = core::mem::take(&mut facts.unreachable).into_vec();
        match (known.binary_search(&hop), reachable) {
            (Ok(at), true) => {
                known.remove(at);
            }
            (Err(at), false) => known.insert(at, hop),
            _ => {}
        }
        facts.unreachable = known.into();
    }
}

/// Gives a path of an object the state of its interface. In the kernel none exists over an interface without carrier;
/// here one that was kept while the interface was down needs the interface up and a carrier.
fn apply_link_of_object(links: &[LinkState], path: &mut Path) {
    apply_link(links, matches!(path.hop.gateway, Some(IpAddr::V6(_))), path);
    path.usable = !path.dead && !path.linkdown;
}

/// Gives a path of a route's own the state of its interface, which does not matter to an IPv4 route with the scope of
/// this host (`fib_sync_down_dev`).
pub(super) fn apply_link_to_route(links: &[LinkState], shared: &Shared, path: &mut Path) {
    if shared.v6 || shared.scope != Scope::HOST {
        apply_link(links, shared.v6, path);
    }
}

/// Gives a path the state of its interface. Whether a missing carrier counts depends on the family of the
/// route, not of its gateway (`ip_ignore_linkdown`, `ip6_ignore_linkdown`).
fn apply_link(links: &[LinkState], v6: bool, path: &mut Path) {
    let link = links.get(usize::from(path.hop.port)).copied().unwrap_or_default();
    path.dead = !link.up;
    path.linkdown = !link.up || !link.carrier;
    let ignore = if v6 { link.ignore_linkdown_v6 } else { link.ignore_linkdown };
    path.usable = link.up && (link.carrier || !ignore);
}
