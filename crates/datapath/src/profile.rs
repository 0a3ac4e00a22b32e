//! What differs between kernels, as one plain value.
//!
//! Each field is read at the one place where it matters. A profile is not a version number to
//! compare with: it is the list of behaviours.

/// How a sender decides that a segment is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossDetection {
    /// Forward acknowledgment: everything more than `reordering` segments below the highest SACK
    /// is lost (Linux until 4.11). Tail losses wait for the timeout.
    Fack,
    /// RACK-TLP (RFC 8985), the sole detector since Linux 4.18.
    Rack,
}

/// How the loss of a retransmission is detected (the subject of the 2007 patches).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostRetransmit {
    /// 2.6.22: one forward walk; a retransmission's `ack_seq` is compared only with the end of
    /// the SACK block during whose scan the walk passes it.
    Linux2622,
    /// Patch 1: compare with the largest end of all SACK blocks.
    HighestSack,
    /// Patch 2: skip blocks that earlier ACKs reported already.
    SkipReported,
    /// Both patches.
    Both,
    /// By send time: a retransmission is lost when something sent later was delivered.
    Rack,
}

/// How the window shrinks during a recovery or CWR episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// One segment less for every two ACKs (`tcp_cwnd_down`, until 3.2).
    RateHalving,
    /// Proportional rate reduction (RFC 6937 with Linux's choice of bound, RFC 9937).
    Prr,
}

/// When DCTCP's receiver acknowledges at a change of CE. Both rules send the held-back ACK for the
/// older data first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DctcpAck {
    /// As from 13 to 20 July 2018, between b0c05d0e99 and a0496ef2c2: the new data's ACK may be
    /// delayed, and the special ACK for the older data cancels the delayed-ACK timer.
    DelayNew,
    /// As today: the new data is acknowledged at once, and the special ACK touches neither timer
    /// nor interactive mode.
    Immediate,
}

/// How the receiver turns buffer space into window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowFromSpace {
    /// A fixed fraction by `tcp_adv_win_scale` (until 6.5).
    AdvWinScale,
    /// The measured ratio of payload to truesize (`scaling_ratio`, since 6.6).
    ScalingRatio,
}

/// The behaviours of one kernel generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name used in experiments: `linux-6.1` and so on.
    pub name: &'static str,
    /// Initial congestion window in segments (`TCP_INIT_CWND`: 10, RFC 6928; formerly RFC 3390's 3).
    pub init_cwnd: u32,
    /// Retransmission timeout before the first RTT sample, in ms (`TCP_TIMEOUT_INIT`).
    pub timeout_init_ms: u32,
    /// Loss detection.
    pub loss_detection: LossDetection,
    /// Lost-retransmission detection.
    pub lost_retransmit: LostRetransmit,
    /// The walk for SACK blocks goes on where it ended, if only the first block has grown
    /// (`recv_sack_cache`, `fastpath_skb_hint`, until 2.6.24). A choice beside the profiles, as the one
    /// below: none of them has it.
    pub sack_fast_path: bool,
    /// In Recovery, with nothing else to send, what may be lost goes again (forward retransmissions of
    /// `tcp_xmit_retransmit_queue`).
    pub forward_retransmits: bool,
    /// Window reduction.
    pub reduction: Reduction,
    /// Tail loss probes are sent (since 3.10).
    pub tail_loss_probe: bool,
    /// F-RTO (RFC 5682) is on by default.
    pub frto: bool,
    /// CUBIC leaves slow start by HyStart (since 2.6.29).
    pub hystart: bool,
    /// What CUBIC keeps of its window at a loss, in 1/1024: 717 (RFC 9438: 0.7), formerly 819 (0.8,
    /// as in the paper of 2008).
    pub cubic_beta: u32,
    /// ACKs of out-of-order data are compressed (`tcp_comp_sack_*`, since 4.18).
    pub sack_compression: bool,
    /// A lone FIN may exceed the congestion window (until 6.18; no longer in 6.18.44).
    pub fin_exempt_from_cwnd: bool,
    /// Super-packets carry PSH (`tcp_transmit_skb`, since 5.1).
    pub push_on_super_packets: bool,
    /// TSO packets are sized from the pacing rate (`tcp_tso_autosize`, since 3.12).
    pub tso_autosize: bool,
    /// TCP Small Queues limits what waits below the socket (since 3.6).
    pub small_queues: bool,
    /// Segments that reach beyond the window, or that the buffer cannot hold, are refused unless
    /// nothing waits to be read (since 6.17).
    pub strict_receive_window: bool,
    /// A reset of a half-open connection has to be in its exact place, whatever it acknowledges; one
    /// elsewhere in the window is challenged (RFC 5961 section 3.2 in `tcp_check_req`; 7.x, and 6.18.44).
    pub challenges_requests: bool,
    /// The receive buffer grows for what lies beyond a hole as well (6.18 and later).
    pub right_sizes_holes: bool,
    /// What waits to be read makes the receive buffer no larger and the RTT that it is judged by no longer; an RTT that
    /// timestamps are too coarse for is none (since 6.16).
    pub minds_unread: bool,
    /// A read does not look at the clock: the receive buffer is judged at the latest segment's time (7.x).
    pub reads_without_clock: bool,
    /// The delayed-ACK timeout is kept at `TCP_DELACK_MAX` at most, not at the RTO (since 6.8).
    pub bounds_ato: bool,
    /// An ACK waits a jiffy less than the lowest retransmission timeout at most (`tcp_delack_max`, since 6.7, and of
    /// `tcp_rto_min_us` since 6.11).
    pub acks_before_rto_min: bool,
    /// ACKs are compressed by `tcp_comp_sack_rtt_percent` of the RTT, and the timer may be 10 µs late
    /// instead of 100 (after 6.18, which has no such sysctl).
    pub compresses_longer: bool,
    /// The timer that sends a compressed ACK looks at the clock; before, the ACK had the time of the latest
    /// event in its timestamp (7.x).
    pub clocked_compression: bool,
    /// SACK blocks of an ACK below `snd_una` count as deliveries (until 6.18).
    pub counts_old_sacks: bool,
    /// To a congestion control a duplicate ACK that the header prediction has let through is none that needed a second
    /// look (`tcp_in_ack_event`, since 6.15 and in stable series since May 2025).
    pub plain_duplicates_are_fast: bool,
    /// A record in flight is not cut while far more than the send buffer allows is queued (`tcp_fragment`, since 5.2).
    pub bounds_splitting: bool,
    /// A segment whose ACK is old has a timestamp to echo all the same (7.x).
    pub old_acks_tell_time: bool,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u32,
    /// RACK whatever the first bit of `tcp_recovery` says (6.18 and later).
    pub always_rack: bool,
    /// A record takes bytes of the next one along before it is sent (`tcp_grow_skb`, since 6.10).
    pub grows_records: bool,
    /// How space becomes window.
    pub window_from_space: WindowFromSpace,
    /// The largest window follows `SO_RCVBUF` at once, and another ratio of payload to truesize leaves
    /// `rcv_ssthresh` alone (7.x). In 6.18 it is the other way round (`tcp_measure_rcv_mss`).
    pub clamp_follows_rcvbuf: bool,
    /// The window that a connection begins with is at most 64 KB (since 4.20, until before 6.18).
    pub initial_window_64k: bool,
    /// DCTCP's receiver.
    pub dctcp_ack: DctcpAck,
    /// Data with CWR is acknowledged at once (since 4.19).
    pub ack_cwr_at_once: bool,
    /// What a socket sends carries a hash that it has drawn, and draws anew after a timeout
    /// (`sk_txhash`, since 4.2; `sk_rethink_txhash`).
    pub socket_hash: bool,
    /// It is also drawn anew when the peer repeats the same data again (since 4.18, until 6.9).
    pub rehash_on_duplicates: bool,
    /// And when the peer repeats data over IPv6 with another flow label than before, as one does whose
    /// path has failed (since 6.9; seen on 6.18 and 7.3).
    pub rehash_on_new_label: bool,
    /// With IPv6's multipath policy 0 the hash chooses among the next hops of what a socket sends (7.x;
    /// until 6.18 addresses did, and another hash was no other next hop).
    pub socket_hash_chooses_hop: bool,
    /// A datagram that would exceed the receive buffer is dropped, unless nothing else waits; before, one that
    /// found it exceeded already (`__udp_enqueue_schedule_skb`, 6.18).
    pub hard_udp_buffers: bool,
    /// Of an IPv4 route's next hops those are preferred which would give a packet made here the source that it
    /// has (`nh_saddr` in `fib_select_multipath`, since 6.16). Those who make a node tell it
    /// ([`Settings::heeds_source`](crate::fib::Settings::heeds_source)).
    pub multipath_heeds_source: bool,
    /// ICMP errors of a router a second, and so many at once (`icmp_msgs_per_sec`, `icmp_msgs_burst`: 10,000 in
    /// 7.x, 1,000 and 50 before). Those who make a router tell it
    /// ([`IcmpLimits::of`](crate::host::IcmpLimits::of)).
    pub icmp_msgs: (u32, u32),
    /// CAKE has a table of rounded roots, and does not work them out at boot (6.18, 7.x). Those who make a
    /// queueing discipline for a node tell it (`cake::Config::roots`).
    pub rounded_roots: bool,
    /// Between two rates that CAKE's `autorate-ingress` sets lie 250 ms (7.x; mended after 7.0). Those who make a
    /// queueing discipline for a node tell it (`cake::Config::autorate_waits`).
    pub autorate_waits: bool,
    /// At ingress each segment of a super-packet counts with its headers (`qdisc_pkt_len_segs_init`, since 6.19).
    pub ingress_counts_headers: bool,
    /// A port in TIME-WAIT is chosen anew `tcp_tw_reuse_delay` after that began (since 6.13); before, once the second
    /// was over in which the latest timestamp had come.
    pub waits_before_reuse: bool,
    /// SYN retransmissions at constant distance before backing off (`tcp_syn_linear_timeouts`).
    pub syn_linear_timeouts: u32,
    /// Room for headers in every transmitted skb (`MAX_TCP_HEADER`; depends on the build's
    /// configured link layers: 320 on distribution kernels).
    pub max_tcp_header: u32,
    /// Bytes of memory charged for a send-queue skb without data.
    pub skb_overhead: u32,
    /// `struct skb_shared_info`, cache-aligned.
    pub shared_info_len: u32,
    /// `struct sk_buff`, cache-aligned.
    pub sk_buff_len: u32,
}

impl Profile {
    /// Linux 7.x: the default.
    pub const fn linux_7() -> Self {
        Self {
            name: "linux-7.x",
            init_cwnd: 10,
            timeout_init_ms: 1_000,
            loss_detection: LossDetection::Rack,
            lost_retransmit: LostRetransmit::Rack,
            sack_fast_path: false,
            forward_retransmits: false,
            reduction: Reduction::Prr,
            tail_loss_probe: true,
            frto: true,
            hystart: true,
            cubic_beta: 717,
            sack_compression: true,
            fin_exempt_from_cwnd: false,
            push_on_super_packets: true,
            tso_autosize: true,
            small_queues: true,
            strict_receive_window: true,
            challenges_requests: true,
            always_rack: true,
            counts_old_sacks: false,
            old_acks_tell_time: true,
            rmem_max: 4 << 20,
            compresses_longer: true,
            clocked_compression: true,
            right_sizes_holes: true,
            minds_unread: true,
            plain_duplicates_are_fast: true,
            bounds_splitting: true,
            reads_without_clock: true,
            bounds_ato: true,
            acks_before_rto_min: true,
            grows_records: true,
            window_from_space: WindowFromSpace::ScalingRatio,
            clamp_follows_rcvbuf: true,
            initial_window_64k: false,
            dctcp_ack: DctcpAck::Immediate,
            ack_cwr_at_once: true,
            socket_hash: true,
            rehash_on_duplicates: false,
            rehash_on_new_label: true,
            socket_hash_chooses_hop: true,
            hard_udp_buffers: true,
            multipath_heeds_source: true,
            icmp_msgs: (10_000, 10_000),
            rounded_roots: true,
            autorate_waits: true,
            ingress_counts_headers: true,
            waits_before_reuse: true,
            syn_linear_timeouts: 4,
            max_tcp_header: 320,
            skb_overhead: 896,
            shared_info_len: 320,
            sk_buff_len: 256,
        }
    }

    /// Linux 6.18.
    pub const fn linux_6_18() -> Self {
        Self {
            name: "linux-6.18",
            counts_old_sacks: true,
            old_acks_tell_time: false,
            reads_without_clock: false,
            compresses_longer: false,
            clocked_compression: false,
            clamp_follows_rcvbuf: false,
            socket_hash_chooses_hop: false,
            icmp_msgs: (1_000, 50),
            autorate_waits: false,
            ingress_counts_headers: false,
            ..Self::linux_7()
        }
    }

    /// Linux 6.1.
    pub const fn linux_6_1() -> Self {
        Self {
            name: "linux-6.1",
            fin_exempt_from_cwnd: true,
            challenges_requests: false,
            skb_overhead: 1_280,
            strict_receive_window: false,
            always_rack: false,
            counts_old_sacks: true,
            rmem_max: 212_992,
            compresses_longer: false,
            right_sizes_holes: false,
            minds_unread: false,
            bounds_ato: false,
            acks_before_rto_min: false,
            grows_records: false,
            window_from_space: WindowFromSpace::AdvWinScale,
            initial_window_64k: true,
            rehash_on_duplicates: true,
            rehash_on_new_label: false,
            hard_udp_buffers: false,
            multipath_heeds_source: false,
            rounded_roots: false,
            waits_before_reuse: false,
            syn_linear_timeouts: 0,
            ..Self::linux_6_18()
        }
    }

    /// Linux 2.6.22 (July 2007), as far as it can be known; docs/LINUX.md lists what could not be
    /// established.
    pub const fn linux_2_6_22() -> Self {
        Self {
            name: "linux-2.6.22",
            init_cwnd: 3,
            timeout_init_ms: 3_000,
            loss_detection: LossDetection::Fack,
            lost_retransmit: LostRetransmit::Linux2622,
            reduction: Reduction::RateHalving,
            tail_loss_probe: false,
            frto: false,
            hystart: false,
            cubic_beta: 819,
            sack_compression: false,
            push_on_super_packets: false,
            tso_autosize: false,
            small_queues: false,
            plain_duplicates_are_fast: false,
            bounds_splitting: false,
            ack_cwr_at_once: false,
            socket_hash: false,
            rehash_on_duplicates: false,
            ..Self::linux_6_1()
        }
    }

    /// The profile of that name, if there is one. `linux-7.3` and the like mean `linux-7.x`.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "linux-2.6.22" => Some(Self::linux_2_6_22()),
            "linux-6.1" => Some(Self::linux_6_1()),
            "linux-6.18" => Some(Self::linux_6_18()),
            "linux-7.x" | "default" => Some(Self::linux_7()),
            _ => None,
        }
    }

    /// The names that [`Profile::by_name`] knows, for help texts.
    pub const NAMES: [&'static str; 4] = ["linux-2.6.22", "linux-6.1", "linux-6.18", "linux-7.x"];
}

impl Default for Profile {
    fn default() -> Self {
        Self::linux_7()
    }
}

impl LostRetransmit {
    /// The spelling in experiments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux2622 => "linux-2.6.22",
            Self::HighestSack => "highest-sack",
            Self::SkipReported => "skip-reported",
            Self::Both => "both",
            Self::Rack => "rack",
        }
    }

    /// The detector of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|detector| detector.name() == name)
    }

    /// Every detector.
    pub const ALL: [Self; 5] =
        [Self::Linux2622, Self::HighestSack, Self::SkipReported, Self::Both, Self::Rack];

    /// Compares with the largest end of all blocks (patch 1).
    pub const fn compares_highest(self) -> bool {
        matches!(self, Self::HighestSack | Self::Both)
    }

    /// Skips blocks that were reported before (patch 2).
    pub const fn skips_reported(self) -> bool {
        matches!(self, Self::SkipReported | Self::Both)
    }
}

impl DctcpAck {
    /// Every rule.
    pub const ALL: [Self; 2] = [Self::Immediate, Self::DelayNew];

    /// The spelling in experiments: the change of Linux that made the rule.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DelayNew => "b0c05d0e99",
            Self::Immediate => "a0496ef2c2",
        }
    }

    /// The rule of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

impl Profile {
    /// This kernel with DCTCP's receiver of July 2018 or of today. The immediate ACK of data with
    /// CWR came eleven days after the former rule, so it goes with it.
    #[must_use]
    pub fn with_dctcp_ack(self, rule: DctcpAck) -> Self {
        let ack_cwr_at_once = self.ack_cwr_at_once && rule == DctcpAck::Immediate;
        Self { dctcp_ack: rule, ack_cwr_at_once, ..self }
    }
}
