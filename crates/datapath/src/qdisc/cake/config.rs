//! What can be configured, with the kernel's defaults (`cake_init`), and how a `tc qdisc change`
//! patches it (`cake_change`: every value that is not named stays).

use super::cobalt::Roots;
use crate::units::{Duration, Rate};

/// Cell framing of the link (`CAKE_ATM_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Framing {
    /// Lengths as they are.
    #[default]
    None,
    /// ATM cells: 53 bytes carry 48.
    Atm,
    /// PTM (VDSL2) 64b/65b encoding.
    Ptm,
}

/// How packets are sorted into tins (`CAKE_DIFFSERV_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum TinMode {
    /// One tin for everything.
    Besteffort,
    /// Eight tins by the upper three bits of the DSCP (RFC 791 precedence).
    Precedence,
    /// Eight tins.
    Diffserv8,
    /// Bulk, Best Effort, Video, Voice.
    Diffserv4,
    /// Bulk, Best Effort, Voice.
    #[default]
    Diffserv3,
}

/// What counts as a flow, and between whom capacity is shared fairly (`CAKE_FLOW_*`). The
/// discriminants are the kernel's bits: 1 source host, 2 destination host, 4 flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum FlowMode {
    /// No isolation: one queue a tin.
    Flowblind = 0,
    /// One queue for each source address.
    Srchost = 1,
    /// One queue for each destination address.
    Dsthost = 2,
    /// One queue for each pair of addresses.
    Hosts = 3,
    /// One queue for each 5-tuple.
    Flows = 4,
    /// One queue for each 5-tuple; fair between source hosts first.
    DualSrchost = 5,
    /// One queue for each 5-tuple; fair between destination hosts first.
    DualDsthost = 6,
    /// One queue for each 5-tuple; fair between source and destination hosts first.
    #[default]
    TripleIsolate = 7,
}

/// Which redundant ACKs are removed from a queue (`CAKE_ACK_*`, the two modes of version 8 of the
/// patch that introduced the filter, and a foil).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum AckFilter {
    /// None.
    #[default]
    Off,
    /// Mainline, keeping two redundant ACKs in the queue.
    Conservative,
    /// Mainline, filtering down to one.
    Aggressive,
    /// Version 8 (May 2018), keeping two.
    V8Conservative,
    /// Version 8 (May 2018), filtering down to one.
    V8Aggressive,
    /// Keeps flow state and does not look into the queue: while packets of the flow wait, every
    /// other ACK that acknowledges more is dropped as it comes.
    Naive,
}

/// The whole configuration of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Shaped rate; zero = unlimited. The kernel counts in whole byte/s.
    pub bandwidth: Rate,
    /// Follow the rate of arrival (`autorate-ingress`).
    pub autorate_ingress: bool,
    /// Tins.
    pub tins: TinMode,
    /// Flow isolation.
    pub flows: FlowMode,
    /// Look addresses and ports up in the connection tracker before hashing.
    pub nat: bool,
    /// Clear the DSCP after classification.
    pub wash: bool,
    /// Count drops as having used the link.
    pub ingress: bool,
    /// ACK filter.
    pub ack_filter: AckFilter,
    /// Cut super-packets at enqueue.
    pub split_gso: bool,
    /// Assumed round-trip time: COBALT's interval.
    pub interval: Duration,
    /// COBALT's target.
    pub target: Duration,
    /// Whether lengths are counted from the IP header on (any overhead keyword but `raw`).
    pub compensate: bool,
    /// Bytes added to each packet.
    pub overhead: i32,
    /// Minimum packet size after the overhead.
    pub mpu: u32,
    /// Cell framing of the link.
    pub framing: Framing,
    /// Memory limit in bytes; zero = derived from rate and interval.
    pub memlimit: u32,
    /// Bits of `skb->mark` that choose a tin; zero = none.
    pub fwmark_mask: u32,
    /// The source of COBALT's roots of small counts, which depends on the kernel.
    pub roots: Roots,
    /// `autorate-ingress` changes the rate at most every 250 ms, which depends on the kernel.
    pub autorate_every_250_ms: bool,
}

/// A partial configuration: the attributes that one `tc` command carries. `None` = not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Patch {
    /// `bandwidth`, `unlimited`.
    pub bandwidth: Option<Rate>,
    /// `autorate-ingress`.
    pub autorate_ingress: Option<bool>,
    /// `besteffort` … `diffserv8`.
    pub tins: Option<TinMode>,
    /// `flowblind` … `triple-isolate`.
    pub flows: Option<FlowMode>,
    /// `nat`, `nonat`.
    pub nat: Option<bool>,
    /// `wash`, `nowash`.
    pub wash: Option<bool>,
    /// `ingress`, `egress`.
    pub ingress: Option<bool>,
    /// `ack-filter` and friends.
    pub ack_filter: Option<AckFilter>,
    /// `split-gso`, `no-split-gso`.
    pub split_gso: Option<bool>,
    /// `rtt` and its presets: COBALT's interval …
    pub interval: Option<Duration>,
    /// … and target.
    pub target: Option<Duration>,
    /// `overhead` and the link keywords.
    pub overhead: Option<i32>,
    /// `raw`: lengths are taken as they come.
    pub raw: bool,
    /// `mpu`.
    pub mpu: Option<u32>,
    /// `atm`, `ptm`, `noatm`.
    pub framing: Option<Framing>,
    /// `memlimit`.
    pub memlimit: Option<u32>,
    /// `fwmark`.
    pub fwmark_mask: Option<u32>,
}

impl FlowMode {
    /// True if source addresses are hashed.
    pub const fn by_source(self) -> bool {
        self as u8 & 1 != 0
    }

    /// True if destination addresses are hashed.
    pub const fn by_destination(self) -> bool {
        self as u8 & 2 != 0
    }

    /// True if 5-tuples are hashed.
    pub const fn by_flow(self) -> bool {
        self as u8 & 4 != 0
    }

    /// True if source hosts share fairly (`cake_dsrc`).
    pub const fn fair_sources(self) -> bool {
        self.by_flow() && self.by_source()
    }

    /// True if destination hosts share fairly (`cake_ddst`).
    pub const fn fair_destinations(self) -> bool {
        self.by_flow() && self.by_destination()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bandwidth: Rate::default(),
            autorate_ingress: false,
            tins: TinMode::default(),
            flows: FlowMode::default(),
            nat: false,
            wash: false,
            ingress: false,
            ack_filter: AckFilter::default(),
            split_gso: true,
            interval: Duration::from_millis(100),
            target: Duration::from_millis(5),
            compensate: false,
            overhead: 0,
            mpu: 0,
            framing: Framing::None,
            memlimit: 0,
            fwmark_mask: 0,
            roots: Roots::default(),
            autorate_every_250_ms: true,
        }
    }
}

impl Config {
    /// This configuration with the named values of `patch` in place of its own.
    pub fn patched(mut self, patch: &Patch) -> Self {
        fn set<T: Copy>(value: &mut T, named: Option<T>) {
            if let Some(named) = named {
                *value = named;
            }
        }
        set(&mut self.bandwidth, patch.bandwidth);
        set(&mut self.autorate_ingress, patch.autorate_ingress);
        set(&mut self.tins, patch.tins);
        set(&mut self.flows, patch.flows);
        set(&mut self.nat, patch.nat);
        set(&mut self.wash, patch.wash);
        set(&mut self.ingress, patch.ingress);
        set(&mut self.ack_filter, patch.ack_filter);
        set(&mut self.split_gso, patch.split_gso);
        set(&mut self.mpu, patch.mpu);
        set(&mut self.framing, patch.framing);
        set(&mut self.memlimit, patch.memlimit);
        set(&mut self.fwmark_mask, patch.fwmark_mask);
        set(&mut self.interval, patch.interval.map(|interval| interval.max(MIN_TIME)));
        set(&mut self.target, patch.target.map(|target| target.max(MIN_TIME)));
        if let Some(overhead) = patch.overhead {
            self.overhead = overhead;
            self.compensate = true;
        }
        if patch.raw {
            self.compensate = false;
        }
        self
    }
}

impl Patch {
    /// True if the command says anything about how lengths are counted, which restarts the
    /// statistics of packet sizes.
    pub fn resets_sizes(&self) -> bool {
        self.overhead.is_some() || self.raw
    }
}

/// `interval` and `target` are at least 1 µs (`cake_change`).
const MIN_TIME: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_keeps_what_it_does_not_name() {
        let first = Patch { overhead: Some(44), mpu: Some(64), ..Patch::default() };
        let config = Config::default().patched(&first);
        assert!(config.compensate);
        let raw = Patch { overhead: Some(0), raw: true, ..Patch::default() };
        let config = config.patched(&raw);
        assert_eq!((config.compensate, config.overhead, config.mpu), (false, 0, 64));
    }

    #[test]
    fn host_fairness_needs_flow_isolation() {
        let fair = |mode: FlowMode| (mode.fair_sources(), mode.fair_destinations());
        assert_eq!(fair(FlowMode::Hosts), (false, false));
        assert_eq!(fair(FlowMode::DualSrchost), (true, false));
        assert_eq!(fair(FlowMode::DualDsthost), (false, true));
        assert_eq!(fair(FlowMode::TripleIsolate), (true, true));
    }
}
