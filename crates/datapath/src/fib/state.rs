//! What is set from outside: the sysctls and the state of interfaces.

use super::hash::{HashFields, HashKey, Policy};

/// How next hops are chosen where a route has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What IPv4 hashes (`net.ipv4.fib_multipath_hash_*`).
    pub v4: Hashed,
    /// What IPv6 hashes (`net.ipv6.fib_multipath_hash_*`).
    pub v6: Hashed,
    /// `net.ipv4.fib_multipath_hash_seed`, or 128 random bits; both families have the same.
    pub key: HashKey,
    /// `net.ipv4.fib_multipath_use_neigh`; IPv6 has none.
    pub use_neigh: bool,
    /// Packets made here prefer the next hops that would give them the source that they have. IPv4 alone
    /// does, and not before Linux 6.16: see [`Profile::multipath_prefers_source`].
    ///
    /// [`Profile::multipath_prefers_source`]: crate::profile::Profile::multipath_prefers_source
    pub prefers_source: bool,
}

/// What one address family hashes. By default addresses, each family on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hashed {
    /// `fib_multipath_hash_policy`.
    pub policy: Policy,
    /// `fib_multipath_hash_fields`, for policy 3.
    pub fields: HashFields,
}

/// State of an interface as far as routes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Administratively up.
    pub up: bool,
    /// There is a carrier.
    pub carrier: bool,
    /// `net.ipv4.conf.….ignore_routes_with_linkdown` of this interface or of `all`.
    pub ignore_linkdown: bool,
    /// The same of `net.ipv6.conf`.
    pub ignore_linkdown_v6: bool,
    /// The group that it belongs to (`ip link set dev … group`), for rules with `suppress_ifgroup`.
    pub group: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            v4: Hashed::default(),
            v6: Hashed::default(),
            key: HashKey::from_seed(1),
            use_neigh: false,
            prefers_source: true,
        }
    }
}

impl Settings {
    /// What a family hashes.
    pub const fn hashed(&self, v6: bool) -> Hashed {
        if v6 { self.v6 } else { self.v4 }
    }

    /// What a family hashes, to be changed.
    pub const fn hashed_mut(&mut self, v6: bool) -> &mut Hashed {
        if v6 { &mut self.v6 } else { &mut self.v4 }
    }

    /// The same with `hashed` for both families.
    pub const fn both(self, hashed: Hashed) -> Self {
        Self { v4: hashed, v6: hashed, ..self }
    }
}

impl Hashed {
    /// A policy with the default fields.
    pub const fn by(policy: Policy) -> Self {
        Self { policy, fields: HashFields::DEFAULT }
    }
}

impl Default for LinkState {
    fn default() -> Self {
        Self {
            up: true,
            carrier: true,
            ignore_linkdown: false,
            ignore_linkdown_v6: false,
            group: 0,
        }
    }
}
