//! TCP as Linux does it (RFC 9293 and what has come since).
//!
//! A [`Connection`] is one `tcp_sock`, split by responsibility. It is driven by segments, timers
//! and socket calls, and sends through [`Egress`]; it owns no clock and no packet payload.
//!
//! | file | what it holds |
//! |---|---|
//! | [`state`], [`options`] | states; option negotiation (sequence numbers: [`crate::packet::seq`]) |
//! | `input`, `ack_in` | what an arriving segment means; what its ACK means |
//! | `challenge` | answers to what may be an attack |
//! | `receive`, `reassembly`, `sack_blocks` | what a segment brings; the receive queues; what tells of holes |
//! | `rcv_window`, `ack_out` | the window, autotuning; when to acknowledge |
//! | [`write`], `output`, `nagle`, `transmit` | the application's writes; what may be sent; small segments; headers |
//! | `close` | shutdown, close, reset, failure |
//! | `recovery` | the Open..Loss machine and everything it uses |
//! | [`skb`], [`rate`], [`rtt`], [`timer`] | the send queue; delivery rate; RTT; timers |
//! | [`cc`] | congestion control modules |
//! | `ecn`, `ecn_rfc3168`, `ecn_dctcp` | ECN: negotiation and sending; the two receivers |
//! | `accecn`, `accecn_receiver`, `accecn_sender` | Accurate ECN: handshake; feedback given; feedback understood |
//! | [`info`], [`mib`], `probe` | TCP_INFO; counters; where a connection stands |
//! | [`fastopen`], [`syncookies`], `passive` | data on SYN; SYN-ACKs without state; half-open connections |
//! | `urgent`, [`md5`], `icmp`, `mtu_probe` | urgent data; signatures; errors and path MTU; probing for it |
//! | `txhash`, `sockopt` | the hash of what is sent; options of a living connection |
//! | [`shared`], `rare` | what connections share; what few of them need |
//! | `check` | the books, recomputed from the queues |

mod accecn;
mod accecn_receiver;
mod accecn_sender;
mod ack_in;
mod ack_out;
mod bytes;
pub mod cc;
mod challenge;
mod check;
mod close;
pub mod config;
pub mod copy_on_write;
mod ecn;
mod ecn_dctcp;
mod ecn_rfc3168;
pub mod fastopen;
mod icmp;
pub mod info;
mod input;
pub mod md5;
pub mod mib;
mod mtu_probe;
mod nagle;
mod open;
pub mod options;
mod output;
mod passive;
mod plb;
mod predict;
mod probe;
mod prune;
mod rare;
pub mod rate;
mod rcv_window;
mod reassembly;
pub(crate) use reassembly::truesize_of_segments;
mod receive;
mod recovery;
mod rto_totals;
pub mod rtt;
mod sack_blocks;
pub mod shared;
pub mod skb;
mod sockopt;
pub mod state;
pub mod syncookies;
pub(crate) mod sysctl;
mod time_wait;
pub mod timer;
mod timers_fire;
mod transmit;
mod txhash;
mod urgent;
mod write;
mod zerocopy;

pub use crate::metrics::{PathMtu, RouteMetrics};
pub use bytes::Payload;
pub use config::TcpConfig;
pub use icmp::{IcmpError, SocketError};
pub use open::Endpoints;
pub use passive::Gate;
pub use rare::{ConnectError, Notice, Stamp, StampKind};
pub use receive::TcpRead;
pub use urgent::UrgentRead;
pub use write::WriteFlags;
pub use zerocopy::ZeroCopied;

use crate::packet::Packet;
use crate::packet::seq::Seq;
use crate::reason::Enqueue;
use crate::trace::{Event, EventKind};
use crate::units::Instant;
use ack_out::AckState;
use cc::{Ack, AnyCongestionControl, Window};
use core::mem::offset_of;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;
use core::ops::Range;
use ecn::EcnState;
use info::Chrono;
use mib::Mib;
use options::Negotiated;
use rate::RateState;
use receive::ReceiveState;
use recovery::Recovery;
use rtt::Rtt;
use skb::SendQueue;
use state::State;
use std::sync::Arc;
use timer::{Jiffies, Pending, Timers};

/// Where a connection's segments go: the host's IP layer.
pub trait Egress {
    /// Queues `packet` for sending and tells how the queue took it (`ip_queue_xmit`). What stays in
    /// its place is of no use.
    fn transmit(&mut self, now: Instant, packet: &mut Packet) -> XmitResult;

    /// ICMP has told this of the path to `remote` (`ip_rt_update_pmtu`).
    fn learn_path_mtu(&mut self, now: Instant, remote: IpAddr, path: PathMtu);
}

/// What became of a packet that was handed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmitResult {
    /// How the queue took it.
    pub verdict: Enqueue,
    /// Its memory is the connection's again already (`skb_orphan`); nobody will tell.
    pub orphaned: bool,
    /// Memory that its segments take beyond its own, as it was cut on its way (`tcp_gso_segment`).
    pub cut_extra: u32,
    /// The queue keeps departure times: TCP need not wait itself (`SK_PACING_FQ`).
    pub paced: bool,
}

/// What a connection is lent for one call.
pub struct Cx<'a> {
    /// Now.
    pub now: Instant,
    /// The way out.
    pub egress: &'a mut dyn Egress,
    /// The host's counters.
    pub mib: &'a mut Mib,
    /// The event stream, while somebody listens.
    pub events: Option<&'a mut Vec<Event>>,
    /// Readiness that this call brought about ([`crate::node::SocketReady`] bits).
    pub ready: u8,
    /// What the connections of the host share.
    pub shared: &'a mut shared::Shared,
    /// Whether the listener has room for a connection that leaves the handshake.
    pub gate: Gate,
}

impl Cx<'_> {
    /// Tells the event stream.
    #[inline]
    fn event(&mut self, socket: u32, kind: EventKind) {
        if let Some(events) = &mut self.events {
            events.push(Event { socket, kind });
        }
    }

    /// Now in µs (`tcp_mstamp`).
    #[inline]
    fn now_us(&self) -> u64 {
        self.now.as_micros()
    }
}

/// The send side's sequence space and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SendState {
    /// Initial sequence number.
    iss: Seq,
    /// What the packets' hash is (`sk_txhash`); 0 where the profile has none.
    txhash: u32,
    /// Oldest unacknowledged (`snd_una`).
    una: Seq,
    /// Next to send (`snd_nxt`).
    nxt: Seq,
    /// Just past the last byte written by the application (`write_seq`).
    write_seq: Seq,
    /// Last byte marked PSH by the writer (`pushed_seq`).
    pushed_seq: Seq,
    /// End of the last small packet (`snd_sml`, Minshall).
    small: Seq,
    /// The peer's window, bytes, scaled (`snd_wnd`).
    wnd: u32,
    /// Sequence number of the segment that last updated the window (`snd_wl1`).
    wl1: Seq,
    /// Largest window ever offered (`max_window`).
    max_window: u32,
    /// Payload of a full segment (`mss_cache`).
    mss: u32,
    /// Peer's MSS option (`rx_opt.mss_clamp`).
    mss_clamp: u32,
    /// Segments of a super-packet that the writer aims at (`gso_segs`).
    gso_segs: u32,
    /// Bytes of memory queued (`sk_wmem_queued`).
    wmem_queued: u32,
    /// Bytes of memory below the socket (`sk_wmem_alloc`).
    wmem_alloc: u32,
    /// Bytes of memory handed to the device since the start, modulo 2³².
    handed_down: u32,
    /// Limit of queued memory (`sk_sndbuf`).
    sndbuf: u32,
    /// Nagle's switches.
    nonagle: nagle::Nonagle,
    /// The writer waits for space (`SOCK_NOSPACE`).
    no_space: bool,
    /// The latest write was cut short, and the next one continues it.
    write_unfinished: bool,
    /// TCP Small Queues stopped the output (`TSQ_THROTTLED`).
    throttled: bool,
    /// It may go on, once a program lets go of the socket (`TCP_TSQ_DEFERRED`).
    goes_on_later: bool,
    /// FIN was queued.
    fin_queued: bool,
    /// When data was last sent, jiffies (`lsndtime`).
    lsndtime: u32,
    /// Earliest time of the next transmission, ns (`tcp_wstamp_ns`).
    wstamp_ns: u64,
    /// A queue below keeps departure times.
    paced_by_fq: bool,
    /// Path MTU (`icsk_pmtu_cookie`), bytes.
    pmtu: u32,
}

/// Statistics that only TCP_INFO reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Totals {
    bytes_sent: u64,
    bytes_retrans: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    data_segs_out: u32,
    segs_in: u32,
    data_segs_in: u32,
    total_retrans: u32,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    lost: u32,
    rto: rto_totals::RtoTotals,
    /// Times that another path was tried because of marks (`plb_rehash`).
    plb_rehash: u16,
}

/// Between whom a segment or a datagram goes, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

/// One end of a connection. A [`SocketAddr`] takes half as much again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    ip: IpAddr,
    port: u16,
}

impl From<SocketAddr> for End {
    fn from(end: SocketAddr) -> Self {
        Self { ip: end.ip(), port: end.port() }
    }
}

/// One TCP connection (`struct tcp_sock`).
// In the order of use: what a sender needs, what both ends need, what a receiver needs. See `often_used`.
#[repr(C)]
pub struct Connection {
    window: Window,
    cc: AnyCongestionControl,
    rec: Recovery,
    queue: SendQueue,
    rate: RateState,
    rtt: Rtt,
    chrono: Chrono,
    plb: plb::Plb,
    /// Retransmission timeout, jiffies (`icsk_rto`).
    rto: u32,
    /// When probing a closed window began, jiffies (`icsk_probes_tstamp`).
    probes_since: Option<u32>,
    /// When it was meant to fire, jiffies (`icsk_timeout`).
    timeout: u64,
    timers: Timers,
    snd: SendState,
    opt: Negotiated,
    config: Arc<TcpConfig>,
    /// What few connections need.
    rare: Option<Box<rare::Rare>>,
    /// The bytes of the stream, if any were written or have come.
    bytes: Option<Box<bytes::Bytes>>,
    /// The socket's number at its host.
    id: u32,
    /// When a segment last arrived, jiffies (`rcv_tstamp`).
    rcv_tstamp: u32,
    /// When an out-of-window segment was last answered, jiffies.
    last_oow_ack: Option<NonZeroU32>,
    /// What the header of the next segment will be; `None`: every one is looked at.
    expected: Option<predict::Expected>,
    state: State,
    /// What the transmit timer is for.
    pending: Pending,
    /// Exponent of the timeout (`icsk_backoff`).
    backoff: u8,
    /// Timeouts without progress (`icsk_retransmits`).
    retransmits: u8,
    /// Unanswered probes (`icsk_probes_out`).
    probes_out: u8,
    /// The application closed the socket (`SOCK_DEAD`).
    orphan: bool,
    /// The application will not read any more (`RCV_SHUTDOWN`).
    shut_read: bool,
    /// The application will not write any more (`SEND_SHUTDOWN`).
    shut_write: bool,
    /// Reset, timeout or refusal that the application has not seen yet.
    error: Option<SocketError>,
    /// What the network last complained about; told if the connection times out (`sk_err_soft`).
    soft_error: Option<SocketError>,
    /// The handshake's ACK came, but the listener does not want the connection yet (`acked`).
    handshake_acked: bool,
    totals: Totals,
    ack: AckState,
    local: End,
    remote: End,
    ecn: EcnState,
    rcv: ReceiveState,
}

impl Connection {
    /// Which bytes of it a segment needs as a rule, with data or without.
    pub(crate) fn often_used(with_data: bool) -> Range<usize> {
        if with_data {
            offset_of!(Self, timers)..size_of::<Self>()
        } else {
            0..offset_of!(Self, rcv) + ReceiveState::OFTEN_USED
        }
    }

    /// Prefetches what an ACK looks at first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.queue.prefetch();
    }

    /// Prefetches what lies behind that.
    #[inline]
    pub(crate) fn prefetch_records(&self) {
        self.queue.prefetch_records();
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Local address and port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip, self.local.port)
    }

    /// Remote address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote.ip, self.remote.port)
    }

    /// Both ends.
    pub fn ends(&self) -> Ends {
        Ends { local: self.local(), remote: self.remote() }
    }

    /// The pending error, taken (`SO_ERROR`).
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.error.take()
    }

    /// The same for `SO_ERROR`, which also tells of what the network complained about without
    /// ending the connection (`sk_err_soft`).
    pub fn take_any_error(&mut self) -> Option<SocketError> {
        self.error.take().or_else(|| self.soft_error.take())
    }

    /// An error is pending.
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// The configuration.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// The configuration, to change while the connection lives. What has been derived from it
    /// already is the caller's business.
    pub fn config_mut(&mut self) -> &mut TcpConfig {
        Arc::make_mut(&mut self.config)
    }

    /// What few connections need, made at first use.
    fn rare(&mut self) -> &mut rare::Rare {
        self.rare.get_or_insert_default()
    }

    /// Highest retransmission timeout, ms (`tcp_rto_max`).
    #[inline]
    fn rto_max_ms(&self) -> u32 {
        match self.config.socket.rto_max_ms {
            Some(own) => own.get(),
            None => self.config.sysctl.tcp_rto_max_ms,
        }
    }

    /// Lowest variance term of the retransmission timeout, µs (`tcp_rto_min`): by the route, else by the socket, else by
    /// `tcp_rto_min_us`, in whole jiffies.
    #[inline]
    fn rto_min_us(&self) -> u32 {
        let by_route = self.rare.as_ref().and_then(|rare| rare.route.rto_min_us);
        let us = match by_route.or(self.config.socket.rto_min_us) {
            Some(us) => us.get(),
            None => self.config.sysctl.tcp_rto_min_us,
        };
        us.next_multiple_of(1_000)
    }

    /// Bytes of the network header.
    fn network_header_len(&self) -> u32 {
        if self.local.ip.is_ipv4() { 20 } else { 40 }
    }

    /// When the connection wants to be woken.
    pub fn wake_at(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The application has closed the socket and the protocol is done with it.
    pub fn is_dead(&self) -> bool {
        self.orphan && self.state == State::Close
    }

    /// The congestion window (`snd_cwnd`), segments.
    pub fn snd_cwnd(&self) -> u32 {
        self.window.snd_cwnd
    }

    /// Bytes acknowledged by the peer.
    pub fn bytes_acked(&self) -> u64 {
        self.totals.bytes_acked
    }

    /// Bytes received in order and not read yet.
    pub fn unread_bytes(&self) -> u32 {
        self.rcv.unread_bytes()
    }

    /// Bytes that have arrived and are not read yet: in order, and beyond holes.
    pub fn waiting_bytes(&self) -> u64 {
        self.rcv.waiting_bytes()
    }

    /// Bytes written and not acknowledged yet.
    pub fn unacked_bytes(&self) -> u32 {
        self.snd.write_seq.bytes_since(self.snd.una)
    }

    fn jiffies_clock(&self) -> Jiffies {
        Jiffies { at_zero: self.config.jiffies_at_zero }
    }

    /// `tcp_jiffies32`.
    #[inline]
    fn jiffies32(&self, now: Instant) -> u32 {
        self.jiffies_clock().now(now) as u32
    }

    /// Segments left out of the flight: SACKed or lost (`tcp_left_out`).
    #[inline]
    fn left_out(&self) -> u32 {
        self.rec.sacked_out + self.rec.lost_out
    }

    /// Segments in flight (`tcp_packets_in_flight`).
    #[inline]
    fn packets_in_flight(&self) -> u32 {
        (self.rec.packets_out + self.rec.retrans_out).saturating_sub(self.left_out())
    }

    /// Just past the peer's window (`tcp_wnd_end`).
    #[inline]
    fn wnd_end(&self) -> Seq {
        self.snd.una + self.snd.wnd
    }

    /// SACK was negotiated (`tcp_is_sack`).
    #[inline]
    fn is_sack(&self) -> bool {
        self.opt.sack_ok
    }

    /// What the congestion module may read.
    fn ack_view(&self, now: Instant) -> Ack {
        Ack {
            now_us: now.as_micros(),
            now_ns: now.as_nanos(),
            jiffies: self.jiffies32(now),
            iss: self.snd.iss,
            snd_una: self.snd.una,
            snd_nxt: self.snd.nxt,
            lsndtime: self.snd.lsndtime,
            wstamp_ns: self.snd.wstamp_ns,
            time_stamp: self.ts_now(now),
            rcv_tsval: self.opt.rcv_tsval,
            rcv_tsecr: self.opt.rcv_tsecr,
            packets_in_flight: self.packets_in_flight(),
            sacked_out: self.rec.sacked_out,
            srtt_us_8: self.rtt.srtt_us_8,
            min_rtt_us: self.rtt.min.get_us(),
            delivered: self.rate.delivered,
            delivered_ce: self.rate.delivered_ce,
            delivered_us: self.rate.delivered_us,
            lost: self.totals.lost,
            max_pacing_rate: self.config.max_pacing_rate,
            is_paced: self.is_paced(),
            gso_max_size: GSO_MAX_SIZE,
            max_tcp_header: self.config.profile.max_tcp_header,
            mss: self.snd.mss,
            ce_state: self.ecn.dctcp.ce,
            has_sack: self.is_sack(),
        }
    }

    /// Somebody paces, TCP or fq (not `SK_PACING_NONE`).
    #[inline]
    fn is_paced(&self) -> bool {
        self.snd.paced_by_fq || self.pacing_is_needed()
    }

    /// TCP paces by itself (`tcp_needs_internal_pacing`).
    #[inline]
    fn paces_itself(&self) -> bool {
        !self.snd.paced_by_fq && self.pacing_is_needed()
    }

    /// The application or the congestion module asks for pacing (`SK_PACING_NEEDED`).
    #[inline]
    fn pacing_is_needed(&self) -> bool {
        self.window.needs_pacing || self.config.max_pacing_rate != u64::MAX
    }
}

/// `sk_gso_max_size`: the longest super-packet, link header and TCP header left out.
const GSO_MAX_SIZE: u32 = 65_536;
