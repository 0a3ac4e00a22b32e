//! Routes as they are configured: prefix, type, next hops.

use super::Hop;
use super::error::FibError;
use crate::metrics::RouteMetrics;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// A set of addresses: the first `len` bits of `addr`; the other bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// Routing table number (`rt_tables`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// What a route does with a packet (`RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum RouteType {
    /// Send it to a next hop.
    #[default]
    Unicast = 1,
    /// Accept it here.
    Local = 2,
    /// Accept it here as a broadcast, send it as one.
    Broadcast = 3,
    /// Accept it here, though sent to one of many (IPv6).
    Anycast = 4,
    /// A multicast route.
    Multicast = 5,
    /// Drop it without a word.
    Blackhole = 6,
    /// Drop it and answer "host unreachable".
    Unreachable = 7,
    /// Drop it and answer "administratively prohibited".
    Prohibit = 8,
    /// Look no further in this table; go on with the next rule.
    Throw = 9,
}

/// How far away the destination is (`RT_SCOPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Scope(pub u8);

/// Who installed the route (`RTPROT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

/// Which next hop of several takes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Algorithm {
    /// Today's kernel: hash-threshold over the hash that `fib_multipath_hash_policy` selects.
    #[default]
    System,
    /// `RT_MP_ALG_L3_HASH` of the 2015 series: 31-bit jhash of the addresses; ICMP errors by the
    /// addresses that they quote.
    L3,
    /// `RT_MP_ALG_PER_PACKET`: round-robin by weight, without a lock.
    PerPacket,
    /// `RT_MP_ALG_L4_HASH`: ports too, where DF says that there will be no fragments.
    L4,
    /// Baseline: the L3 hash modulo the total weight (RFC 2992 section 1 compares with it).
    Modulo,
    /// Baseline: random credits under a spin lock, Linux 3.6 to 4.3.
    Credit,
}

/// One next hop as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// Port and next router.
    pub hop: Hop,
    /// Share of the flows, 1..=256 for legacy routes, 1..=65535 in next-hop groups.
    pub weight: u16,
    /// `onlink`: the gateway need not be reachable by the interface's own prefix.
    pub onlink: bool,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Next hops of the route's own, in order of configuration; none for `blackhole` and friends.
    Hops(Vec<NextHop>),
    /// A next-hop object or group (`nhid`).
    Object(u32),
}

/// A route as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination.
    pub prefix: Prefix,
    /// The table it lies in.
    pub table: TableId,
    /// Type of service that a packet must have; 0 = any.
    pub tos: u8,
    /// Priority; lower is better. IPv6 turns 0 into 1024.
    pub metric: u32,
    /// What to do.
    pub kind: RouteType,
    /// How far.
    pub scope: Scope,
    /// Who says so.
    pub protocol: Protocol,
    /// Preferred source address of locally made packets.
    pub prefsrc: Option<IpAddr>,
    /// Features of the destination, a set of `RTAX_FEATURE_*`.
    pub features: Features,
    /// What TCP heeds of the route (`ip route … mtu … initcwnd …`).
    pub metrics: RouteMetrics,
    /// Which next hop of several.
    pub algorithm: Algorithm,
    /// Where to.
    pub target: Target,
}

/// Features of a route's destination (`RTAX_FEATURES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Features(pub u32);

impl Features {
    /// TCP connections ask for ECN and agree to it, whatever `tcp_ecn` says (`RTAX_FEATURE_ECN`).
    pub const ECN: Self = Self(1);

    /// True if all of `other` are there.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Algorithm {
    /// The number of this algorithm in `RTA_MP_ALGO` (attribute 14, 32 bits) of the 2015 series.
    /// L3 and per-packet have the numbers that `IP_MP_ALG_NONE` and `IP_MP_ALG_RR` had in 2.6.12
    /// to 2.6.22. `None` for what is not of the series: the attribute is left out.
    pub const fn number(self) -> Option<u32> {
        match self {
            Self::L3 => Some(0),
            Self::PerPacket => Some(1),
            Self::L4 => Some(5),
            Self::System | Self::Modulo | Self::Credit => None,
        }
    }

    /// The algorithm with this `RTA_MP_ALGO` number. Those that the kernels of 2005 had and the
    /// series did not take over are refused by name.
    pub const fn from_number(number: u32) -> Result<Self, FibError> {
        Err(match number {
            0 => return Ok(Self::L3),
            1 => return Ok(Self::PerPacket),
            2 => FibError::ReservedAlgorithm("drr"),
            3 => FibError::ReservedAlgorithm("random"),
            4 => FibError::ReservedAlgorithm("wrandom"),
            5 => return Ok(Self::L4),
            _ => FibError::UnknownAlgorithm(number),
        })
    }

    /// The attribute's value as on the wire: the number in the host's (little-endian) order.
    pub const fn encode(self) -> Option<[u8; 4]> {
        match self.number() {
            Some(number) => Some(number.to_le_bytes()),
            None => None,
        }
    }

    /// Reads the attribute's value; a length other than four is refused like an unknown number.
    pub fn decode(value: &[u8]) -> Result<Self, FibError> {
        let bytes = <[u8; 4]>::try_from(value).map_err(|_| FibError::UnknownAlgorithm(u32::MAX))?;
        Self::from_number(u32::from_le_bytes(bytes))
    }
}

impl TableId {
    /// Addresses of this node.
    pub const LOCAL: Self = Self(255);
    /// Where routes go unless said otherwise.
    pub const MAIN: Self = Self(254);
    /// For post-processing; normally empty.
    pub const DEFAULT: Self = Self(253);
}

impl Scope {
    /// Anywhere.
    pub const UNIVERSE: Self = Self(0);
    /// Inside the site (IPv6, deprecated).
    pub const SITE: Self = Self(200);
    /// On the link.
    pub const LINK: Self = Self(253);
    /// This node.
    pub const HOST: Self = Self(254);
    /// Nowhere.
    pub const NOWHERE: Self = Self(255);
}

impl Protocol {
    /// By the kernel itself.
    pub const KERNEL: Self = Self(2);
    /// By `ip` without a word.
    pub const BOOT: Self = Self(3);
    /// By the administrator.
    pub const STATIC: Self = Self(4);
}

impl RouteType {
    /// True for types that refuse the packet instead of leading somewhere.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Blackhole | Self::Unreachable | Self::Prohibit | Self::Throw)
    }

    /// The type with this `rtm_type` number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Unicast,
            2 => Self::Local,
            3 => Self::Broadcast,
            4 => Self::Anycast,
            5 => Self::Multicast,
            6 => Self::Blackhole,
            7 => Self::Unreachable,
            8 => Self::Prohibit,
            9 => Self::Throw,
            _ => return None,
        })
    }
}

impl Prefix {
    /// All of IPv4.
    pub const DEFAULT_V4: Self = Self { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };
    /// All of IPv6.
    pub const DEFAULT_V6: Self = Self { addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED), len: 0 };

    /// The prefix `addr/len`; host bits must be zero, as the kernel demands.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, FibError> {
        let prefix = Self::containing(addr, len).ok_or(FibError::InvalidPrefix)?;
        if prefix.addr == addr { Ok(prefix) } else { Err(FibError::InvalidPrefix) }
    }

    /// The prefix of `len` bits that `addr` lies in; `None` if `len` is too long.
    pub fn containing(addr: IpAddr, len: u8) -> Option<Self> {
        let addr = match addr {
            IpAddr::V4(addr) if len <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & mask))
            }
            IpAddr::V6(addr) if len <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Self { addr, len })
    }

    /// The prefix that holds exactly one address.
    pub const fn host(addr: IpAddr) -> Self {
        let len = if addr.is_ipv4() { 32 } else { 128 };
        Self { addr, len }
    }

    /// The first address.
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// Length in bits.
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// True for the default route's prefix.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if it holds exactly one address.
    pub const fn is_host(&self) -> bool {
        self.len == if self.addr.is_ipv4() { 32 } else { 128 }
    }

    /// True if `addr` is of the same family and lies in the prefix.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(base), IpAddr::V4(addr)) => {
                (base.to_bits() ^ addr.to_bits()).leading_zeros() >= u32::from(self.len)
            }
            (IpAddr::V6(base), IpAddr::V6(addr)) => {
                (base.to_bits() ^ addr.to_bits()).leading_zeros() >= u32::from(self.len)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    /// As `ip` prints it: the length only where it is not that of a single address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            write!(f, "default")
        } else if self.is_host() {
            write!(f, "{}", self.addr)
        } else {
            write!(f, "{}/{}", self.addr, self.len)
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix {
    type Err = FibError;

    /// `ADDR` or `ADDR/LEN`.
    fn from_str(text: &str) -> Result<Self, FibError> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| FibError::InvalidPrefix)?;
        match len {
            Some(len) => Self::new(addr, len.parse().map_err(|_| FibError::InvalidPrefix)?),
            None => Ok(Self::host(addr)),
        }
    }
}

impl NextHop {
    /// A next hop of weight 1.
    pub const fn new(port: u16, gateway: Option<IpAddr>) -> Self {
        Self { hop: Hop { port, gateway }, weight: 1, onlink: false }
    }

    /// The same with another weight.
    pub const fn weight(mut self, weight: u16) -> Self {
        self.weight = weight;
        self
    }
}

impl Route {
    /// A route in table main, as `ip route add PREFIX nexthop … nexthop …` makes it.
    pub fn new(prefix: Prefix, hops: Vec<NextHop>) -> Self {
        let on_link = hops.iter().all(|hop| hop.hop.gateway.is_none()) && prefix.addr.is_ipv4();
        Self {
            prefix,
            table: TableId::MAIN,
            tos: 0,
            metric: 0,
            kind: RouteType::Unicast,
            scope: if on_link { Scope::LINK } else { Scope::UNIVERSE },
            protocol: Protocol::BOOT,
            prefsrc: None,
            features: Features::default(),
            metrics: RouteMetrics::default(),
            algorithm: Algorithm::System,
            target: Target::Hops(hops),
        }
    }

    /// A route with one next router.
    pub fn via(prefix: Prefix, port: u16, gateway: IpAddr) -> Self {
        Self::new(prefix, vec![NextHop::new(port, Some(gateway))])
    }

    /// A route to what is on the link of `port`.
    pub fn on_link(prefix: Prefix, port: u16) -> Self {
        Self::new(prefix, vec![NextHop::new(port, None)])
    }

    /// An address of this node, in table local.
    pub fn local(addr: IpAddr, port: u16) -> Self {
        Self {
            table: TableId::LOCAL,
            kind: RouteType::Local,
            scope: Scope::HOST,
            protocol: Protocol::KERNEL,
            prefsrc: Some(addr),
            ..Self::on_link(Prefix::host(addr), port)
        }
    }

    /// A `blackhole`, `unreachable`, `prohibit` or `throw` route.
    pub fn refusal(prefix: Prefix, kind: RouteType) -> Self {
        assert!(kind.is_refusal(), "{kind:?} leads somewhere");
        Self { kind, scope: Scope::UNIVERSE, ..Self::new(prefix, Vec::new()) }
    }

    /// A route to a next-hop object or group.
    pub fn object(prefix: Prefix, id: u32) -> Self {
        Self { target: Target::Object(id), scope: Scope::UNIVERSE, ..Self::new(prefix, Vec::new()) }
    }

    /// The same in another table.
    pub fn table(mut self, table: TableId) -> Self {
        self.table = table;
        self
    }

    /// The same with a metric.
    pub fn metric(mut self, metric: u32) -> Self {
        self.metric = metric;
        self
    }

    /// The same for one type of service only.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// The same with another choice among its next hops.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }
}
