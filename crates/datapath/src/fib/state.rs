//! What is set from outside: the sysctls and the state of interfaces.

use super::hash::{HashFields, HashKey, Policy};

/// How next hops are chosen where a route has several (`net.ipv4.fib_multipath_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `fib_multipath_hash_policy`.
    pub policy: Policy,
    /// `fib_multipath_hash_fields`, for policy 3.
    pub fields: HashFields,
    /// `fib_multipath_hash_seed`, or 128 random bits.
    pub key: HashKey,
    /// `fib_multipath_use_neigh`.
    pub use_neigh: bool,
}

/// State of an interface as far as routes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Administratively up.
    pub up: bool,
    /// There is a carrier.
    pub carrier: bool,
    /// `net.ipv4.conf.….ignore_routes_with_linkdown` of this interface or of `all`.
    pub ignore_linkdown: bool,
    /// The same of `net.ipv6.conf`.
    pub ignore_linkdown_v6: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::L3,
            fields: HashFields::default(),
            key: HashKey::from_seed(1),
            use_neigh: false,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self { up: true, carrier: true, ignore_linkdown: false, ignore_linkdown_v6: false }
    }
}
