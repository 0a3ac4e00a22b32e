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
    /// Segments that reach beyond the window, or do not fit into the receive buffer, are refused unless there is no
    /// unread data (since 6.17).
    pub strict_receive_window: bool,
    /// A RST for a half-open connection is only accepted at exactly the next sequence number, whatever it acknowledges;
    /// elsewhere in the window it gets a challenge ACK (RFC 5961 section 3.2 in `tcp_check_req`; 7.x, and 6.18.44).
    pub challenges_half_open_resets: bool,
    /// Out-of-order data makes the receive buffer grow, too (6.18 and later).
    pub rcvbuf_grows_out_of_order: bool,
    /// Unread data neither enlarges the receive buffer nor lengthens the RTT measured for its sizing, and an RTT below the
    /// resolution of the timestamps is no sample (since 6.16).
    pub rcvbuf_ignores_unread: bool,
    /// A read does not refresh `tcp_mstamp`: the receive buffer is sized with the time of the latest segment (7.x).
    pub reads_keep_tcp_mstamp: bool,
    /// The delayed-ACK timeout is limited to `TCP_DELACK_MAX`, not to the RTO (since 6.8).
    pub ato_limited_to_delack_max: bool,
    /// An ACK is delayed by at most a jiffy less than the lowest retransmission timeout (`tcp_delack_max`, since 6.7; the
    /// `tcp_rto_min_us` sysctl counts since 6.11).
    pub delack_max_below_rto_min: bool,
    /// ACKs are held back for `tcp_comp_sack_rtt_percent` of the RTT, and the timer has 10 µs of slack instead of 100
    /// (after 6.18, which does not have this sysctl).
    pub has_comp_sack_rtt_percent: bool,
    /// The timer that sends a compressed ACK reads the clock; before, the ACK's timestamp was that of the latest event
    /// (7.x).
    pub comp_sack_timer_reads_clock: bool,
    /// SACK blocks of an ACK below `snd_una` count as deliveries (before 6.18.44, which does not count them).
    pub counts_sacks_below_una: bool,
    /// SYN-ACKs of a request wait `tcp_rto_max_ms` at most for an answer, as everything else does (7.x); before, two minutes.
    pub syn_ack_timeout_limited_to_rto_max: bool,
    /// Congestion controls are told `CA_ACK_SLOWPATH` only for what header prediction did not accept, so not for a duplicate
    /// ACK that it did (`tcp_in_ack_event`, since 6.15 and in stable series since May 2025).
    pub predicted_duplicates_are_fast_path: bool,
    /// A record in flight is not split while far more is queued than the send buffer allows (`tcp_fragment`, since 5.2).
    pub splitting_bounded_by_sndbuf: bool,
    /// A segment whose ACK is old still updates the timestamp to echo (7.x).
    pub old_acks_update_ts_recent: bool,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u32,
    /// RACK is used whatever bit 0 of `tcp_recovery` says (6.18 and later).
    pub rack_always_on: bool,
    /// Before a record is sent, it takes over bytes of the next one (`tcp_grow_skb`, since 6.10).
    pub grows_unsent_records: bool,
    /// How buffer space translates to window.
    pub window_from_space: WindowFromSpace,
    /// `SO_RCVBUF` changes the window clamp at once, and a new ratio of payload to truesize leaves `rcv_ssthresh` alone
    /// (7.x). In 6.18 it is the other way round (`tcp_measure_rcv_mss`).
    pub clamp_follows_rcvbuf: bool,
    /// What a window that was offered let in stays acceptable when the window is taken back (RFC 7323 section 2.4,
    /// `tcp_max_receive_window`; 7.x). Before, the window that was offered last decides.
    pub accepts_retracted_window: bool,
    /// The initial window is at most 64 KB (from 4.20 until before 6.18).
    pub initial_window_64k: bool,
    /// DCTCP's receiver.
    pub dctcp_ack: DctcpAck,
    /// Data with CWR is acknowledged at once (since 4.19).
    pub ack_cwr_at_once: bool,
    /// Packets of a socket carry a random hash, which is redrawn after a timeout (`sk_txhash`, since 4.2;
    /// `sk_rethink_txhash`).
    pub socket_hash: bool,
    /// It is also redrawn when the peer sends the same data again (since 4.18, until 6.9).
    pub rehash_on_duplicates: bool,
    /// It is redrawn when the peer repeats data over IPv6 with a new flow label, as a peer does whose path has failed
    /// (since 6.9; seen on 6.18 and 7.3).
    pub rehash_on_new_label: bool,
    /// With IPv6's multipath policy 0, this hash chooses among the next hops for a socket's packets (7.x; up to 6.18 the
    /// addresses did, so a new hash changed nothing).
    pub socket_hash_chooses_hop: bool,
    /// A datagram that would exceed the receive buffer is dropped, unless the buffer is empty; before, only one that found
    /// the buffer already exceeded (`__udp_enqueue_schedule_skb`, 6.18).
    pub strict_udp_rcvbuf: bool,
    /// Among an IPv4 route's next hops, those are preferred that match the source address of a locally made packet
    /// (`nh_saddr` in `fib_select_multipath`, since 6.16). Whoever creates a node sets it
    /// ([`Settings::prefers_source`](crate::fib::Settings::prefers_source)).
    pub multipath_prefers_source: bool,
    /// ICMP errors of a router per second, and in a burst (`icmp_msgs_per_sec`, `icmp_msgs_burst`: 10,000 in 7.x, 1,000
    /// and 50 before). Whoever creates a router sets it ([`IcmpLimits::of`](crate::host::IcmpLimits::of)).
    pub icmp_msgs: (u32, u32),
    /// CAKE has a table of rounded inverse square roots instead of computing them at boot (6.18, 7.x). Whoever creates a
    /// qdisc for a node sets it (`cake::Config::roots`).
    pub cake_rounded_roots: bool,
    /// CAKE's `autorate-ingress` changes the rate at most every 250 ms (7.x; fixed after 7.0). Whoever creates a qdisc for
    /// a node sets it (`cake::Config::autorate_every_250_ms`).
    pub autorate_every_250_ms: bool,
    /// At ingress, the length of a super-packet includes the headers of all its segments (`qdisc_pkt_len_segs_init`, since
    /// 6.19).
    pub ingress_counts_gso_headers: bool,
    /// A port in TIME-WAIT can be reused `tcp_tw_reuse_delay` after TIME-WAIT began (since 6.13); before, as soon as the
    /// second of the latest timestamp was over.
    pub has_tw_reuse_delay: bool,
    /// What a route says of peers (`rtt`, `ssthresh`, …) counts for the first connection to one (before 6.8,
    /// `tcp_init_metrics`); since then only once there is an entry for the peer.
    pub route_metrics_without_entry: bool,
    /// SYN retransmissions at constant intervals before the timeout doubles (`tcp_syn_linear_timeouts`).
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
            challenges_half_open_resets: true,
            rack_always_on: true,
            counts_sacks_below_una: false,
            syn_ack_timeout_limited_to_rto_max: true,
            old_acks_update_ts_recent: true,
            rmem_max: 4 << 20,
            has_comp_sack_rtt_percent: true,
            comp_sack_timer_reads_clock: true,
            rcvbuf_grows_out_of_order: true,
            rcvbuf_ignores_unread: true,
            predicted_duplicates_are_fast_path: true,
            splitting_bounded_by_sndbuf: true,
            reads_keep_tcp_mstamp: true,
            ato_limited_to_delack_max: true,
            delack_max_below_rto_min: true,
            grows_unsent_records: true,
            window_from_space: WindowFromSpace::ScalingRatio,
            clamp_follows_rcvbuf: true,
            accepts_retracted_window: true,
            initial_window_64k: false,
            dctcp_ack: DctcpAck::Immediate,
            ack_cwr_at_once: true,
            socket_hash: true,
            rehash_on_duplicates: false,
            rehash_on_new_label: true,
            socket_hash_chooses_hop: true,
            strict_udp_rcvbuf: true,
            multipath_prefers_source: true,
            icmp_msgs: (10_000, 10_000),
            cake_rounded_roots: true,
            autorate_every_250_ms: true,
            ingress_counts_gso_headers: true,
            has_tw_reuse_delay: true,
            route_metrics_without_entry: false,
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
            syn_ack_timeout_limited_to_rto_max: false,
            old_acks_update_ts_recent: false,
            reads_keep_tcp_mstamp: false,
            has_comp_sack_rtt_percent: false,
            comp_sack_timer_reads_clock: false,
            clamp_follows_rcvbuf: false,
            accepts_retracted_window: false,
            socket_hash_chooses_hop: false,
            icmp_msgs: (1_000, 50),
            autorate_every_250_ms: false,
            ingress_counts_gso_headers: false,
            ..Self::linux_7()
        }
    }

    /// Linux 6.1.
    pub const fn linux_6_1() -> Self {
        Self {
            name: "linux-6.1",
            fin_exempt_from_cwnd: true,
            challenges_half_open_resets: false,
            skb_overhead: 1_280,
            strict_receive_window: false,
            rack_always_on: false,
            counts_sacks_below_una: true,
            rmem_max: 212_992,
            has_comp_sack_rtt_percent: false,
            rcvbuf_grows_out_of_order: false,
            rcvbuf_ignores_unread: false,
            ato_limited_to_delack_max: false,
            delack_max_below_rto_min: false,
            grows_unsent_records: false,
            window_from_space: WindowFromSpace::AdvWinScale,
            initial_window_64k: true,
            rehash_on_duplicates: true,
            rehash_on_new_label: false,
            strict_udp_rcvbuf: false,
            multipath_prefers_source: false,
            cake_rounded_roots: false,
            has_tw_reuse_delay: false,
            route_metrics_without_entry: true,
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
            predicted_duplicates_are_fast_path: false,
            splitting_bounded_by_sndbuf: false,
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
