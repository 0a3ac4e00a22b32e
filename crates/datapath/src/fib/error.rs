//! What can be wrong with a change to the tables, as the kernel answers it.

use core::fmt;

/// A refused change. [`fmt::Display`] gives what `ip` would print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// A prefix with host bits set, a bad length, or families that do not fit together.
    InvalidPrefix,
    /// A route of this prefix, TOS and metric exists (`EEXIST`).
    Exists,
    /// No such route or table entry (`ESRCH`).
    NoSuchRoute,
    /// No such rule, next hop or group member (`ENOENT`).
    NoSuchEntry,
    /// A type that needs a next hop has none, or one that must not have one does (`EINVAL`).
    InvalidNextHops,
    /// A weight of zero or beyond the limit.
    InvalidWeight,
    /// The route refers to a next-hop object that does not exist.
    NoSuchObject,
    /// A group whose members cannot be members: groups, duplicates of a resilient one, …
    InvalidGroup,
    /// A next hop over a device that is down (`ENETDOWN`).
    DeviceDown,
    /// A next hop over a device without carrier (`ENETDOWN`).
    NoCarrier,
    /// `drr`, `random` and `wrandom` are reserved numbers of 2.6.12 to 2.6.22.
    ReservedAlgorithm(&'static str),
    /// A number that no algorithm has.
    UnknownAlgorithm(u32),
    /// A resilient group's number of buckets cannot change (`EOPNOTSUPP`).
    BucketsFixed,
    /// Bits of `fib_multipath_hash_fields` that mean nothing (`EINVAL`).
    InvalidHashFields,
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPrefix => write!(f, "Error: Invalid prefix for given prefix length."),
            Self::Exists => write!(f, "RTNETLINK answers: File exists"),
            Self::NoSuchRoute => write!(f, "RTNETLINK answers: No such process"),
            Self::NoSuchEntry => write!(f, "RTNETLINK answers: No such file or directory"),
            Self::InvalidNextHops | Self::InvalidHashFields => {
                write!(f, "RTNETLINK answers: Invalid argument")
            }
            Self::InvalidWeight => write!(f, "Error: Invalid weight."),
            Self::NoSuchObject => write!(f, "Error: Nexthop id does not exist."),
            Self::InvalidGroup => write!(f, "Error: Invalid group."),
            Self::DeviceDown => write!(f, "Error: Nexthop device is not up."),
            Self::NoCarrier => write!(f, "Error: Carrier for nexthop device is down."),
            Self::ReservedAlgorithm(name) => {
                write!(f, "Error: mp_algo {name} is reserved and not supported.")
            }
            Self::UnknownAlgorithm(number) => write!(f, "Error: Unknown mp_algo {number}."),
            Self::BucketsFixed => {
                write!(f, "Error: Can not change number of buckets of a resilient nexthop group.")
            }
        }
    }
}

impl core::error::Error for FibError {}
