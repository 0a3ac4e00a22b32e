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
    /// An IPv6 route with a TOS (`EINVAL`).
    TosInIpv6,
    /// A member of a group of several is to become a blackhole (`EINVAL`).
    BlackholeReplacesMember,
    /// A weight of zero or beyond the limit.
    InvalidWeight,
    /// The route refers to a next-hop object that does not exist.
    NoSuchObject,
    /// An IPv6 route uses an object of IPv4, or a group with such a member.
    Ipv4ObjectInIpv6,
    /// A group names a member that does not exist.
    NoSuchMember,
    /// A group names a member twice.
    RepeatedMember,
    /// A group is a member of a group.
    NestedGroup,
    /// A resilient group is a member of a group.
    NestedResilientGroup,
    /// A blackhole is a member of a group of several.
    BlackholeInGroup,
    /// A group of one type is replaced by one of another.
    GroupTypeFixed,
    /// A group is replaced by a single next hop.
    GroupBySingle,
    /// A single next hop is replaced by a group.
    SingleByGroup,
    /// A resilient group without buckets.
    NoBuckets,
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
            Self::TosInIpv6 => {
                write!(f, "Error: Invalid dsfield (tos): option not available for IPv6.")
            }
            Self::BlackholeReplacesMember => write!(
                f,
                "Error: Blackhole nexthop can not be a member of a group with more than one path."
            ),
            Self::InvalidWeight => write!(f, "Error: Invalid weight."),
            Self::NoSuchObject => write!(f, "Error: Nexthop id does not exist."),
            Self::Ipv4ObjectInIpv6 => {
                write!(f, "Error: IPv6 routes can not use an IPv4 nexthop.")
            }
            Self::NoSuchMember => write!(f, "Error: Invalid nexthop id."),
            Self::RepeatedMember => {
                write!(f, "Error: Nexthop id can not be used twice in a group.")
            }
            Self::NestedGroup => {
                write!(f, "Error: Hash-threshold group can not be a nexthop within a group.")
            }
            Self::NestedResilientGroup => {
                write!(f, "Error: Resilient group can not be a nexthop within a group.")
            }
            Self::BlackholeInGroup => write!(
                f,
                "Error: Blackhole nexthop can not be used in a group with more than 1 path."
            ),
            Self::GroupTypeFixed => {
                write!(f, "Error: Can not replace a nexthop group with one of a different type.")
            }
            Self::GroupBySingle => {
                write!(f, "Error: Can not replace a nexthop group with a nexthop.")
            }
            Self::SingleByGroup => {
                write!(f, "Error: Can not replace a nexthop with a nexthop group.")
            }
            Self::NoBuckets => write!(f, "Error: Number of buckets needs to be non-0."),
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
