//! The event stream: every decision worth asking about, as a typed event with the kernel's
//! tracepoint names. Tests, pcapng comments, `--explain` and plots read the same stream.

use crate::packet::seq::Seq;

/// State of the congestion machine (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum CaState {
    /// Nothing bad has been observed recently.
    #[default]
    Open = 0,
    /// The sender has seen duplicate ACKs or SACKs.
    Disorder = 1,
    /// The window is being reduced after ECN or local congestion.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// A timeout, or reneging.
    Loss = 4,
}

/// Something that happened inside a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The socket that it happened to, as numbered by its host.
    pub socket: u32,
    /// What happened.
    pub kind: EventKind,
}

/// Why a segment was presumed lost or sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// RACK: something sent later was delivered (RFC 8985 section 6.2).
    Rack,
    /// Forward acknowledgment or duplicate ACKs.
    DupAcks,
    /// A retransmission was overtaken: `ack_seq` rule of 2007.
    LostRetransmit,
    /// Retransmission timeout.
    Timeout,
    /// Tail loss probe.
    TailLossProbe,
    /// Zero-window probe.
    ZeroWindowProbe,
    /// The SYN or SYN-ACK was not answered, or its data was not taken.
    Handshake,
    /// The path takes only smaller packets.
    PathMtu,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A segment went out again (`tcp:tcp_retransmit_skb`).
    Retransmit {
        /// First byte.
        seq: Seq,
        /// Just past the last byte.
        end_seq: Seq,
        /// Why.
        cause: Cause,
    },
    /// A segment was marked lost (`tcp_mark_skb_lost`).
    MarkLost {
        /// First byte.
        seq: Seq,
        /// Just past the last byte.
        end_seq: Seq,
        /// By which rule.
        cause: Cause,
    },
    /// The congestion machine changed state (`tcp:tcp_cong_state_set`).
    CaState {
        /// From.
        from: CaState,
        /// To.
        to: CaState,
        /// Window then, segments.
        snd_cwnd: u32,
        /// Threshold then, segments.
        snd_ssthresh: u32,
    },
    /// The window was reduced to a new threshold.
    Reduce {
        /// Window before, segments.
        prior_cwnd: u32,
        /// New threshold, segments.
        snd_ssthresh: u32,
    },
    /// A reduction was undone (`tcp_undo_cwnd_reduction`).
    Undo {
        /// Window after, segments.
        snd_cwnd: u32,
        /// Threshold after, segments.
        snd_ssthresh: u32,
    },
    /// The retransmission timer expired.
    Timeout {
        /// Consecutive timeouts so far, this one included.
        retransmits: u32,
        /// The timeout that expired, ms.
        rto_ms: u32,
    },
    /// A tail loss probe was sent.
    LossProbe {
        /// Highest sequence number when it was sent.
        tlp_high_seq: Seq,
    },
}
