//! The send side of a connection, and what is counted of it.

use super::nagle::Nonagle;
use super::rto_totals;
use crate::packet::seq::Seq;

/// The send side's sequence space and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendState {
    /// Initial sequence number.
    pub iss: Seq,
    /// What the packets' hash is (`sk_txhash`); 0 where the profile has none.
    pub txhash: u32,
    /// Oldest unacknowledged (`snd_una`).
    pub una: Seq,
    /// Next to send (`snd_nxt`).
    pub nxt: Seq,
    /// Just past the last byte written by the application (`write_seq`).
    pub write_seq: Seq,
    /// Last byte marked PSH by the writer (`pushed_seq`).
    pub pushed_seq: Seq,
    /// End of the last small packet (`snd_sml`, Minshall).
    pub small: Seq,
    /// The peer's window, bytes, scaled (`snd_wnd`).
    pub wnd: u32,
    /// Sequence number of the segment that last updated the window (`snd_wl1`).
    pub wl1: Seq,
    /// Largest window ever offered (`max_window`).
    pub max_window: u32,
    /// Payload of a full segment (`mss_cache`).
    pub mss: u32,
    /// Peer's MSS option (`rx_opt.mss_clamp`).
    pub mss_clamp: u32,
    /// Segments of a super-packet that the writer aims at (`gso_segs`).
    pub gso_segs: u32,
    /// Bytes of memory queued (`sk_wmem_queued`).
    pub wmem_queued: u32,
    /// Bytes of memory below the socket (`sk_wmem_alloc`).
    pub wmem_alloc: u32,
    /// Bytes of memory handed to the device since the start, modulo 2³².
    pub handed_down: u32,
    /// Limit of queued memory (`sk_sndbuf`).
    pub sndbuf: u32,
    /// Nagle's switches.
    pub nonagle: Nonagle,
    /// The writer waits for space (`SOCK_NOSPACE`).
    pub no_space: bool,
    /// The latest write was cut short, and the next one continues it.
    pub write_unfinished: bool,
    /// TCP Small Queues stopped the output (`TSQ_THROTTLED`).
    pub throttled: bool,
    /// It may go on once a program unlocks the socket (`TCP_TSQ_DEFERRED`).
    pub goes_on_later: bool,
    /// FIN was queued.
    pub fin_queued: bool,
    /// When data was last sent, jiffies (`lsndtime`).
    pub lsndtime: u32,
    /// Earliest time of the next transmission, ns (`tcp_wstamp_ns`).
    pub wstamp_ns: u64,
    /// A queue below keeps departure times.
    pub paced_by_fq: bool,
    /// Path MTU (`icsk_pmtu_cookie`), bytes.
    pub pmtu: u32,
}

/// Statistics that only TCP_INFO reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub data_segs_out: u32,
    pub segs_in: u32,
    pub data_segs_in: u32,
    pub total_retrans: u32,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub lost: u32,
    pub rto: rto_totals::RtoTotals,
    /// Times that another path was tried because of marks (`plb_rehash`).
    pub plb_rehash: u16,
}
