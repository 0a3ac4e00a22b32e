//! What a connection is configured with: the `net.ipv4.tcp_*` sysctls, the socket options that
//! must be known at creation, and the kernel profile.

pub(crate) mod ranges;
mod socket_options;
mod sysctls;

pub use socket_options::{Ipv6Options, Linger2, PmtuDiscovery, SocketOptions, lock};
pub(crate) use sysctls::reflects;
pub use sysctls::{Sysctl, SysctlError};

use super::cc::{Algorithm, bbr, cdg, dctcp, nv};
use super::copy_on_write::CopyOnWrite;
use super::timer::INITIAL_JIFFIES;
use crate::packet::tos_to_priority;
use crate::profile::Profile;
use core::cell::RefCell;
use core::num::{NonZeroU16, NonZeroU32};
use std::sync::{Arc, LazyLock, Weak};

/// Everything that shapes a connection and does not change while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Which kernel to be.
    pub profile: Profile,
    /// The sysctls.
    pub sysctl: CopyOnWrite<Sysctl>,
    /// Congestion control (`TCP_CONGESTION`).
    pub congestion_control: Algorithm,
    /// Threshold that slow start ends at, segments, until the first loss sets another one: what a kernel
    /// remembers of the connections before (`TCP_METRIC_SSTHRESH`; of 2.6.22 in the route), or CUBIC's and
    /// BIC's module parameter of that name.
    pub initial_ssthresh: Option<NonZeroU32>,
    /// Parameters of the DCTCP module.
    pub dctcp: dctcp::Params,
    /// Parameters of the BBR module.
    pub bbr: bbr::Params,
    /// Parameters of the CDG module.
    pub cdg: cdg::Params,
    /// Parameters of the NV module.
    pub nv: nv::Params,
    /// DCTCP's SYNs are ECT, as RFC 8257 section 3.6 wants them. Off, they are what they were
    /// before DCTCP's first version measured what that costs.
    pub dctcp_syn_ect: bool,
    /// `SO_SNDBUF` as given by the application, before the kernel doubles it; else autotuned.
    pub send_buffer: Option<NonZeroU32>,
    /// `SO_RCVBUF` as given by the application, before the kernel doubles it; else autotuned.
    pub receive_buffer: Option<NonZeroU32>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_MAX_PACING_RATE` in byte/s; `u64::MAX` = no limit. Setting it turns internal pacing on.
    pub max_pacing_rate: u64,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_USER_TIMEOUT` in ms; else by `tcp_retries2`.
    pub user_timeout_ms: Option<NonZeroU32>,
    /// `TCP_MAXSEG`; else by the MTU.
    pub max_segment: Option<NonZeroU16>,
    /// DSCP for all packets, in the upper six bits (`IP_TOS`).
    pub tos: u8,
    /// `SO_PRIORITY`.
    pub priority: u32,
    /// `SO_MARK`.
    pub mark: u32,
    /// The segmentation work is handed to the device (`NETIF_F_TSO`): limits `gso_max_size`.
    /// The stack builds super-packets either way, as Linux does since 4.17.
    pub gso_max_segs: u16,
    /// `jiffies` at the driver's time zero: the timer wheel is aligned on absolute jiffies.
    pub jiffies_at_zero: u64,
    /// Options that few sockets set.
    pub socket: CopyOnWrite<SocketOptions>,
}

/// `SOCK_MIN_SNDBUF`: room for two small segments.
pub(crate) const MIN_SNDBUF: u32 = 4_608;
/// `SOCK_MIN_RCVBUF`: room for one.
pub(crate) const MIN_RCVBUF: u32 = 2_304;

/// `SO_SNDBUF` and `SO_RCVBUF` are doubled.
fn doubled(given: Option<NonZeroU32>, least: u32) -> Option<u32> {
    given.map(|given| given.get().saturating_mul(2).max(least))
}

impl TcpConfig {
    /// `IP_TOS`: the DSCP, and the priority that goes with it (`__ip_sock_set_tos`).
    pub fn set_tos(&mut self, tos: u8) {
        (self.tos, self.priority) = (tos, tos_to_priority(tos));
    }

    /// The traffic class of what goes over IPv6 (`IPV6_TCLASS`).
    pub(crate) fn traffic_class(&self) -> u8 {
        self.socket.ipv6.map_or(self.tos, |own| own.traffic_class)
    }

    /// What to do about the path MTU, by the family that is spoken.
    pub(crate) fn pmtu_discovery(&self, ipv6: bool) -> PmtuDiscovery {
        let own = self.socket.ipv6.filter(|_| ipv6);
        own.map_or(self.socket.pmtu_discovery, |own| own.pmtu_discovery)
    }

    /// ICMP errors are told at once, by the family that is spoken.
    pub(crate) fn recverr(&self, ipv6: bool) -> bool {
        self.socket.ipv6.filter(|_| ipv6).map_or(self.socket.recverr, |own| own.recverr)
    }

    /// What `IPV6_AUTOFLOWLABEL` reads as: what was set, else what the sysctl says (`ip6_autoflowlabel`).
    pub(crate) fn auto_flow_label(&self) -> bool {
        let own = self.socket.ipv6.and_then(|own| own.auto_flow_label);
        own.unwrap_or(self.sysctl.labels_unasked())
    }

    /// Changes what an `AF_INET6` socket keeps for IPv6.
    pub(crate) fn change_ipv6(&mut self, change: impl FnOnce(&mut Ipv6Options)) {
        change(self.socket.ipv6.get_or_insert_default());
    }

    /// Sockets that are made from now on reflect flow labels, or no longer (`inet6_create`).
    pub(crate) fn note_reflection(&mut self) {
        let reflects = self.sysctl.flowlabel_reflect & reflects::CONNECTIONS != 0;
        if self.socket.reflects_flow_label != reflects {
            self.socket.reflects_flow_label = reflects;
        }
    }

    /// Sockets that are made from now on discover the path MTU over IPv4, or do not (`inet_create`).
    pub(crate) fn note_discovery(&mut self) {
        let discovered = self.sysctl.ip_no_pmtu_disc == 0;
        self.socket.pmtu_discovery =
            if discovered { PmtuDiscovery::Want } else { PmtuDiscovery::Dont };
    }

    /// Another hash is drawn where a path seems to fail (`sk_txrehash`).
    pub(crate) fn rehashes(&self) -> bool {
        self.socket.txrehash.unwrap_or(self.sysctl.txrehash != 0)
    }

    /// Segments that one packet may have. A signature is of one segment (`sk_gso_disable` in
    /// `tcp_md5_do_add`).
    pub(crate) fn gso_segs_limit(&self) -> u32 {
        if self.socket.md5.is_empty() { self.gso_max_segs.into() } else { 1 }
    }

    /// Reads the sysctls anew. What a socket has copied of them when it was made stays (`tcp_init_sock`).
    pub(crate) fn read_sysctl(&mut self, sysctl: &CopyOnWrite<Sysctl>) {
        let before = core::mem::replace(&mut self.sysctl, sysctl.clone());
        if before.tcp_rto_min_us != sysctl.tcp_rto_min_us && self.socket.rto_min_us.is_none() {
            self.socket.rto_min_us = NonZeroU32::new(before.tcp_rto_min_us);
        }
        if before.tcp_rto_max_ms != sysctl.tcp_rto_max_ms && self.socket.rto_max_ms.is_none() {
            self.socket.rto_max_ms = NonZeroU32::new(before.tcp_rto_max_ms);
        }
    }

    /// The size that a send buffer begins with (`sk_sndbuf`), bytes.
    pub(crate) fn sndbuf(&self) -> u32 {
        doubled(self.send_buffer, MIN_SNDBUF).unwrap_or(self.sysctl.tcp_wmem[1])
    }

    /// The same of a receive buffer (`sk_rcvbuf`). If nobody has given one, what `SO_RCVLOWAT` says has to find room in
    /// it (`tcp_set_rcvlowat`).
    pub(crate) fn rcvbuf(&self) -> u32 {
        let usual = || self.sysctl.tcp_rmem[1].max(self.socket.rcvlowat.saturating_mul(2));
        doubled(self.receive_buffer, MIN_RCVBUF).unwrap_or_else(usual)
    }

    /// Whose sizes are not tuned (`sk_userlocks`, `SO_BUF_LOCK`), of [`lock`].
    pub(crate) fn buf_lock(&self) -> u8 {
        let given = |buffer: Option<NonZeroU32>, lock| if buffer.is_some() { lock } else { 0 };
        self.socket.buf_lock.unwrap_or_else(|| {
            given(self.send_buffer, lock::SEND) | given(self.receive_buffer, lock::RECEIVE)
        })
    }

    /// The send buffer keeps its size.
    pub(crate) fn sndbuf_is_locked(&self) -> bool {
        self.buf_lock() & lock::SEND != 0
    }

    /// The receive buffer keeps its size.
    pub(crate) fn rcvbuf_is_locked(&self) -> bool {
        self.buf_lock() & lock::RECEIVE != 0
    }

    /// A size was given: it is kept.
    pub(crate) fn lock_buffer(&mut self, which: u8) {
        if let Some(locks) = self.socket.buf_lock {
            self.socket.buf_lock = Some(locks | which);
        }
    }

    /// A configuration for `profile` with that kernel's defaults.
    pub fn for_profile(profile: Profile) -> Self {
        let mut sysctl = Sysctl::default();
        if !profile.frto {
            sysctl.tcp_frto = 0;
        }
        if profile.has_comp_sack_rtt_percent {
            sysctl.tcp_comp_sack_slack_ns = 10_000;
        }
        sysctl.tcp_syn_linear_timeouts = profile.syn_linear_timeouts;
        Self {
            profile,
            sysctl: CopyOnWrite::new(sysctl),
            congestion_control: Algorithm::Cubic,
            initial_ssthresh: None,
            dctcp: dctcp::Params::default(),
            bbr: bbr::Params::default(),
            cdg: cdg::Params::default(),
            nv: nv::Params::default(),
            dctcp_syn_ect: true,
            send_buffer: None,
            receive_buffer: None,
            nodelay: false,
            max_pacing_rate: u64::MAX,
            keepalive: false,
            user_timeout_ms: None,
            max_segment: None,
            tos: 0,
            priority: 0,
            mark: 0,
            gso_max_segs: u16::MAX,
            jiffies_at_zero: INITIAL_JIFFIES,
            socket: CopyOnWrite::new(SocketOptions::default()),
        }
    }
}

thread_local! {
    /// What was shared last.
    static SHARED_LAST: RefCell<Weak<TcpConfig>> = const { RefCell::new(Weak::new()) };
}

impl TcpConfig {
    /// The same, to be kept: those who ask for equal ones in a row share it, until one of them writes to it
    /// ([`Arc::make_mut`]). There may be very many sockets, and few ways in which they are configured.
    ///
    /// ```
    /// use datapath::tcp::config::TcpConfig;
    /// use std::sync::Arc;
    ///
    /// let prompt = || TcpConfig { nodelay: true, ..TcpConfig::default() }.shared();
    /// let (one, other) = (prompt(), prompt());
    /// assert!(Arc::ptr_eq(&one, &other));
    /// assert!(!TcpConfig::default().shared().nodelay && one.nodelay);
    /// ```
    pub fn shared(self) -> Arc<Self> {
        SHARED_LAST.with_borrow_mut(|last| match last.upgrade() {
            Some(there) if *there == self => there,
            _ => {
                let new = Arc::new(self);
                *last = Arc::downgrade(&new);
                new
            }
        })
    }
}

impl Default for TcpConfig {
    /// That of the default profile. There may be very many of these, which share what they do not
    /// change.
    fn default() -> Self {
        static DEFAULT: LazyLock<TcpConfig> =
            LazyLock::new(|| TcpConfig::for_profile(Profile::default()));
        DEFAULT.clone()
    }
}
