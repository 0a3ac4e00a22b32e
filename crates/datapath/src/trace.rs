//! The event stream: every decision worth asking about, as a typed event with the kernel's
//! tracepoint names. Tests, pcapng comments, `--explain` and plots read the same stream.

use crate::packet::seq::Seq;
use core::net::SocketAddr;

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
    /// It may be lost, and there is nothing else to send: a forward retransmission (2.6.22).
    Forward,
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
    /// Where a connection stands after something has happened to it (`tcp:tcp_probe`), if that
    /// differs from what was told of it last.
    Probe(Probe),
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Own end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// What keeps it from sending more.
    pub limit: Limit,
    /// State of the congestion machine.
    pub ca_state: CaState,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// Segments in flight (`tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Oldest byte that is not acknowledged.
    pub snd_una: Seq,
    /// The next byte to be sent.
    pub snd_nxt: Seq,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Lowest RTT, µs; all bits before the first sample.
    pub min_rtt_us: u32,
    /// Pacing rate, byte/s; all bits: none.
    pub pacing_rate: u64,
}

/// What keeps a connection from sending more at a moment. [`Limit::ReceiveWindow`] and
/// [`Limit::SendBuffer`] are the kernel's `TCP_CHRONO_RWND_LIMITED` and `TCP_CHRONO_SNDBUF_LIMITED`;
/// the others divide what it calls busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The connection is not established yet.
    Handshake,
    /// Nothing that could be sent has been written.
    Application,
    /// All that was written is in flight, and the send buffer has no room for more.
    SendBuffer,
    /// The peer's window is full.
    ReceiveWindow,
    /// The congestion window is full.
    Cwnd,
    /// The next segment is not due yet by the pacing rate.
    Pacing,
    /// Enough lies in the queues below the socket (TCP Small Queues).
    SmallQueue,
    /// Losses are being repaired (states Recovery and Loss).
    Recovery,
    /// Less than a segment is there to send, and it waits for more (Nagle).
    Batching,
    /// Our side is closed, and nothing is left to send.
    Closed,
}

impl Limit {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 10] = [
        Self::Handshake,
        Self::Application,
        Self::SendBuffer,
        Self::ReceiveWindow,
        Self::Cwnd,
        Self::Pacing,
        Self::SmallQueue,
        Self::Recovery,
        Self::Batching,
        Self::Closed,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Application => "application",
            Self::SendBuffer => "send buffer",
            Self::ReceiveWindow => "receive window",
            Self::Cwnd => "cwnd",
            Self::Pacing => "pacing",
            Self::SmallQueue => "small queue",
            Self::Recovery => "recovery",
            Self::Batching => "batching",
            Self::Closed => "closed",
        }
    }
}
