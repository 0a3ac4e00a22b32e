//! Counters: the `TcpExt` lines of `nstat`, one set per host.

use core::ops::{Deref, DerefMut};

macro_rules! counters {
    (
        often { $($(#[$often_doc:meta])* $often:ident = $often_snmp:literal;)* }
        seldom { $($(#[$seldom_doc:meta])* $seldom:ident = $seldom_snmp:literal;)* }
    ) => {
        /// SNMP counters of one host's TCP (`/proc/net/snmp`, `/proc/net/netstat`).
        #[derive(Clone, Debug, Default)]
        pub struct Mib {
            $($(#[$often_doc])* pub $often: u64,)*
            seldom: Option<Box<RareCounters>>,
        }

        /// Counters of what most hosts never see: there may be many hosts, so these come at first use.
        #[derive(Clone, Debug, Default)]
        pub struct RareCounters {
            $($(#[$seldom_doc])* pub $seldom: u64,)*
        }

        impl RareCounters {
            const NONE: Self = Self { $($seldom: 0,)* };
        }

        impl Mib {
            /// Every counter with the name that `nstat` prints, in a fixed order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($often_snmp, self.$often),)* $(($seldom_snmp, self.$seldom),)*].into_iter()
            }

            /// The counter that `nstat` calls `name`.
            pub fn by_name(&self, name: &str) -> Option<u64> {
                self.entries().find(|(known, _)| *known == name).map(|(_, count)| count)
            }
        }
    };
}

/// The seldom counters are read and written as if they were fields of [`Mib`] itself.
impl Deref for Mib {
    type Target = RareCounters;

    fn deref(&self) -> &RareCounters {
        self.seldom.as_deref().unwrap_or(&RareCounters::NONE)
    }
}

impl DerefMut for Mib {
    fn deref_mut(&mut self) -> &mut RareCounters {
        self.seldom.get_or_insert_default()
    }
}

impl PartialEq for Mib {
    fn eq(&self, other: &Self) -> bool {
        self.entries().eq(other.entries())
    }
}

impl Eq for Mib {}

counters! {
    often {
        /// Connections opened by connect.
        active_opens = "TcpActiveOpens";
        /// Connections accepted.
        passive_opens = "TcpPassiveOpens";
        /// Failed connection attempts.
        attempt_fails = "TcpAttemptFails";
        /// Connections reset while established.
        estab_resets = "TcpEstabResets";
        /// Segments received.
        in_segs = "TcpInSegs";
        /// Segments received that were no good.
        in_errs = "TcpInErrs";
        /// Of those, with a wrong checksum.
        in_csum_errors = "TcpInCsumErrors";
        /// Segments sent, without retransmissions.
        out_segs = "TcpOutSegs";
        /// Segments retransmitted.
        retrans_segs = "TcpRetransSegs";
        /// Segments with RST sent.
        out_rsts = "TcpOutRsts";
        /// ACKs without data received on the slow path.
        pure_acks = "TcpExtTCPPureAcks";
        /// ACKs taken by header prediction.
        hp_acks = "TcpExtTCPHPAcks";
        /// Data segments taken by header prediction.
        hp_hits = "TcpExtTCPHPHits";
        /// Fast recoveries begun by SACK.
        sack_recovery = "TcpExtTCPSackRecovery";
        /// Fast recoveries begun by duplicate ACKs.
        reno_recovery = "TcpExtTCPRenoRecovery";
        /// The receiver forgot what it had SACKed.
        sack_reneging = "TcpExtTCPSACKReneging";
        /// Reordering seen by SACK.
        sack_reorder = "TcpExtTCPSACKReorder";
        /// Reordering seen by duplicate ACKs.
        reno_reorder = "TcpExtTCPRenoReorder";
        /// Reordering seen by timestamps.
        ts_reorder = "TcpExtTCPTSReorder";
        /// Reductions undone whole.
        full_undo = "TcpExtTCPFullUndo";
        /// Reductions undone in part.
        partial_undo = "TcpExtTCPPartialUndo";
        /// Reductions undone by DSACK.
        dsack_undo = "TcpExtTCPDSACKUndo";
        /// Timeouts undone.
        loss_undo = "TcpExtTCPLossUndo";
        /// Retransmissions found lost.
        lost_retransmit = "TcpExtTCPLostRetransmit";
        /// Timeouts that followed duplicate ACKs.
        reno_failures = "TcpExtTCPRenoFailures";
        /// Timeouts that followed SACKs in Disorder.
        sack_failures = "TcpExtTCPSackFailures";
        /// Timeouts in Loss state.
        loss_failures = "TcpExtTCPLossFailures";
        /// Fast retransmissions.
        fast_retrans = "TcpExtTCPFastRetrans";
        /// Retransmissions in Loss state.
        slow_start_retrans = "TcpExtTCPSlowStartRetrans";
        /// Retransmission timeouts.
        timeouts = "TcpExtTCPTimeouts";
        /// Tail loss probes.
        loss_probes = "TcpExtTCPLossProbes";
        /// Tail losses repaired by a probe.
        loss_probe_recovery = "TcpExtTCPLossProbeRecovery";
        /// Timeouts of fast recovery without SACK.
        reno_recovery_fail = "TcpExtTCPRenoRecoveryFail";
        /// Timeouts of fast recovery with SACK.
        sack_recovery_fail = "TcpExtTCPSackRecoveryFail";
        /// DSACKs sent for segments below the window.
        dsack_old_sent = "TcpExtTCPDSACKOldSent";
        /// DSACKs sent for out-of-order segments.
        dsack_ofo_sent = "TcpExtTCPDSACKOfoSent";
        /// DSACKs received.
        dsack_recv = "TcpExtTCPDSACKRecv";
        /// DSACKs received for out-of-order segments.
        dsack_ofo_recv = "TcpExtTCPDSACKOfoRecv";
        /// SACK blocks thrown away.
        sack_discard = "TcpExtTCPSACKDiscard";
        /// Hashes drawn anew after a timeout.
        timeout_rehash = "TcpExtTcpTimeoutRehash";
        /// Hashes drawn anew because the peer repeats the same data.
        duplicate_data_rehash = "TcpExtTcpDuplicateDataRehash";
        /// Hashes drawn anew because the path marks too much.
        plb_rehash = "TcpExtTCPPLBRehash";
        /// Timeouts that F-RTO proved spurious.
        spurious_rtos = "TcpExtTCPSpuriousRTOs";
        /// Segments queued out of order.
        ofo_queue = "TcpExtTCPOFOQueue";
        /// Out-of-order segments dropped.
        ofo_drop = "TcpExtTCPOFODrop";
        /// Segments dropped for lack of buffer.
        rcv_q_drop = "TcpExtTCPRcvQDrop";
        /// Segments dropped because the window was zero.
        zero_window_drop = "TcpExtTCPZeroWindowDrop";
        /// Segments that reached beyond the window.
        beyond_window = "TcpExtBeyondWindow";
        /// Zero windows announced.
        to_zero_window = "TcpExtTCPToZeroWindowAdv";
        /// Windows reopened.
        from_zero_window = "TcpExtTCPFromZeroWindowAdv";
        /// Zero windows asked for but not possible.
        want_zero_window = "TcpExtTCPWantZeroWindowAdv";
        /// Challenge ACKs (RFC 5961).
        challenge_ack = "TcpExtTCPChallengeACK";
        /// Of those, for SYNs.
        syn_challenge = "TcpExtTCPSYNChallenge";
        /// Segments refused by PAWS.
        paws_estab = "TcpExtPAWSEstab";
        /// The same in TIME-WAIT.
        paws_time_wait = "TcpExtPAWSTimewait";
        /// Pure ACKs with an old time stamp, and of what was received long ago.
        paws_old_ack = "TcpExtPAWSOldAck";
        /// Delayed ACKs sent.
        delayed_acks = "TcpExtDelayedACKs";
        /// Delayed ACKs that found the socket busy.
        delayed_ack_lost = "TcpExtDelayedACKLost";
        /// ACKs held back by compression.
        ack_compressed = "TcpExtTCPAckCompressed";
        /// Corked by autocorking.
        auto_corking = "TcpExtTCPAutoCorking";
        /// Packets delivered.
        delivered = "TcpExtTCPDelivered";
        /// Of those, with CE.
        delivered_ce = "TcpExtTCPDeliveredCE";
        /// Data packets sent for the first time.
        orig_data_sent = "TcpExtTCPOrigDataSent";
        /// SYNs retransmitted.
        syn_retrans = "TcpExtTCPSynRetrans";
        /// Times that HyStart ended slow start because a train of ACKs was as long as the path.
        hystart_train_detect = "TcpExtTCPHystartTrainDetect";
        /// The sum of the windows then, segments.
        hystart_train_cwnd = "TcpExtTCPHystartTrainCwnd";
        /// Times that HyStart ended slow start because the round trip had become longer.
        hystart_delay_detect = "TcpExtTCPHystartDelayDetect";
        /// The sum of the windows then, segments.
        hystart_delay_cwnd = "TcpExtTCPHystartDelayCwnd";
    }
    seldom {
        /// Zero-window probes.
        win_probe = "TcpExtTCPWinProbe";
        /// Keepalive probes.
        keep_alive = "TcpExtTCPKeepAlive";
        /// Connections given up by timeout.
        abort_on_timeout = "TcpExtTCPAbortOnTimeout";
        /// Connections reset because data came after close.
        abort_on_data = "TcpExtTCPAbortOnData";
        /// Connections closed with unread data.
        abort_on_close = "TcpExtTCPAbortOnClose";
        /// Sockets that ended in TIME-WAIT, or in FIN-WAIT-2 without an owner.
        time_wait = "TcpExtTW";
        /// Sockets that waited in FIN-WAIT-2 alone, and for a short time.
        time_wait_killed = "TcpExtTWKilled";
        /// Connections that began over one in TIME-WAIT.
        time_wait_recycled = "TcpExtTWRecycled";
        /// ACKs skipped by the out-of-window rate limit.
        ack_skipped = "TcpExtTCPACKSkippedSeq";
        /// Retransmissions refused by the layer below.
        retrans_fail = "TcpExtTCPRetransFail";
        /// Fast Open: data of our SYN was acknowledged.
        fast_open_active = "TcpExtTCPFastOpenActive";
        /// Fast Open: it was not.
        fast_open_active_fail = "TcpExtTCPFastOpenActiveFail";
        /// Fast Open: data of a peer's SYN was taken.
        fast_open_passive = "TcpExtTCPFastOpenPassive";
        /// Fast Open: its cookie was wrong.
        fast_open_passive_fail = "TcpExtTCPFastOpenPassiveFail";
        /// Fast Open: its cookie was made with the older key.
        fast_open_passive_alt_key = "TcpExtTCPFastOpenPassiveAltKey";
        /// Fast Open: the listener had too many unfinished ones.
        fast_open_listen_overflow = "TcpExtTCPFastOpenListenOverflow";
        /// Fast Open: peers asked for a cookie.
        fast_open_cookie_reqd = "TcpExtTCPFastOpenCookieReqd";
        /// Fast Open: black holes seen.
        fast_open_black_hole = "TcpExtTCPFastOpenBlackhole";
        /// SYN cookies sent.
        syn_cookies_sent = "TcpExtSyncookiesSent";
        /// SYN cookies that came back right.
        syn_cookies_recv = "TcpExtSyncookiesRecv";
        /// SYN cookies that came back wrong.
        syn_cookies_failed = "TcpExtSyncookiesFailed";
        /// The backlog was full and cookies were sent.
        req_q_full_do_cookies = "TcpExtTCPReqQFullDoCookies";
        /// The backlog was full and SYNs were dropped.
        req_q_full_drop = "TcpExtTCPReqQFullDrop";
        /// Accept queues that overflowed.
        listen_overflows = "TcpExtListenOverflows";
        /// SYNs and ACKs that a listener dropped.
        listen_drops = "TcpExtListenDrops";
        /// Bare ACKs that a deferring listener dropped.
        defer_accept_drop = "TcpExtTCPDeferAcceptDrop";
        /// Half-open connections that a reset ended.
        embryonic_rsts = "TcpExtEmbryonicRsts";
        /// SYNs that PAWS refused while connecting.
        paws_active = "TcpExtPAWSActive";
        /// Segments of a handshake whose echoed timestamp was none of ours.
        tsecr_rejected = "TcpExtTSEcrRejected";
        /// ICMP errors about segments that are not in flight.
        out_of_window_icmps = "TcpExtOutOfWindowIcmps";
        /// Signed segments expected, unsigned ones came.
        md5_not_found = "TcpExtTCPMD5NotFound";
        /// Unsigned segments expected, signed ones came.
        md5_unexpected = "TcpExtTCPMD5Unexpected";
        /// Signatures that were wrong.
        md5_failure = "TcpExtTCPMD5Failure";
        /// Segments with an authentication option (RFC 5925) for which there is no key.
        ao_key_not_found = "TcpExtTCPAOKeyNotFound";
        /// Segments without one where it is required.
        ao_required = "TcpExtTCPAORequired";
        /// Authentication options that were wrong.
        ao_bad = "TcpExtTCPAOBad";
        /// Authentication options that were right.
        ao_good = "TcpExtTCPAOGood";
        /// ICMP errors that authentication made us ignore.
        ao_dropped_icmps = "TcpExtTCPAODroppedIcmps";
        /// Path MTU probes that failed.
        mtup_fail = "TcpExtTCPMTUPFail";
        /// Path MTU probes that succeeded.
        mtup_success = "TcpExtTCPMTUPSuccess";
        /// ACKs not sent, by the rate limit, while half-open.
        ack_skipped_syn_recv = "TcpExtTCPACKSkippedSynRecv";
        /// ACKs not sent, by the rate limit, to segments that PAWS refused.
        ack_skipped_paws = "TcpExtTCPACKSkippedPAWS";
        /// ACKs not sent, by the rate limit, in TIME-WAIT.
        ack_skipped_time_wait = "TcpExtTCPACKSkippedTimeWait";
        /// ACKs not sent, by the rate limit, in FIN-WAIT-2.
        ack_skipped_fin_wait2 = "TcpExtTCPACKSkippedFinWait2";
        /// Challenge ACKs not sent, by the rate limit.
        ack_skipped_challenge = "TcpExtTCPACKSkippedChallenge";
        /// Connections aborted with `SO_LINGER` or from FIN-WAIT-2 without waiting.
        abort_on_linger = "TcpExtTCPAbortOnLinger";
        /// Out-of-order data thrown away for memory.
        ofo_pruned = "TcpExtOfoPruned";
        /// Receive queues squeezed for memory.
        prune_called = "TcpExtPruneCalled";
        /// Segments thrown away for memory.
        rcv_pruned = "TcpExtRcvPruned";
        /// Segments merged for memory.
        rcv_collapsed = "TcpExtTCPRcvCollapsed";
    }
}
