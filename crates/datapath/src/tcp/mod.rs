//! TCP as Linux does it (RFC 9293 and what has come since).
//!
//! A [`Connection`] is one `tcp_sock`, split by responsibility. It is driven by segments, timers
//! and socket calls, and sends through [`Egress`]; it owns no clock and no packet payload.
//!
//! | file | what it holds |
//! |---|---|
//! | [`state`], [`options`] | states; option negotiation (sequence numbers: [`crate::packet::seq`]) |
//! | `segment`, `input` | an arriving segment; what it means |
//! | `ack_in`, `ack_event` | what its ACK means, phase by phase; what the phases hand on |
//! | `challenge` | answers to what may be an attack |
//! | `receive`, `reassembly`, `sack_blocks` | what a segment brings; the receive queues; what tells of holes |
//! | `rcv_window`, `ack_out` | the window, autotuning; when to acknowledge |
//! | [`write`], `output`, `nagle` | the application's writes; what may be sent; small segments |
//! | `transmit`, `rare_options` | headers; options that few connections send |
//! | `close` | shutdown, close, reset, failure |
//! | `recovery` | the Open..Loss machine and everything it uses |
//! | [`skb`], [`rate`], [`rtt`], [`timer`] | the send queue; delivery rate; RTT; timers |
//! | [`cc`] | congestion control modules |
//! | `ecn`, `ecn_rfc3168`, `ecn_dctcp` | ECN: negotiation and sending; the two receivers |
//! | `accecn`, `accecn_receiver`, `accecn_sender` | Accurate ECN: handshake; feedback given; feedback understood |
//! | [`info`], [`mib`], `probe` | TCP_INFO; counters; snapshots of a connection's state |
//! | `endpoints`, `open`, `passive` | what a connection is opened with; the handshake; half-open connections |
//! | [`fastopen`], [`syncookies`] | data on SYN; SYN-ACKs without state |
//! | `urgent`, [`md5`], `icmp`, `mtu_probe` | urgent data; signatures; errors and path MTU; probing for it |
//! | `txhash`, `sockopt` | the hash of what is sent; options of a living connection |
//! | [`shared`], `peer_metrics` | what connections share, and leave to those that follow |
//! | `rare`, `error_queue`, `zerocopy` | what few connections need; time stamps and errors for the application; `MSG_ZEROCOPY` |
//! | `cx`, `send_state` | what a connection is lent for a call; its send side |
//! | `check` | the books, recomputed from the queues |

mod accecn;
mod accecn_receiver;
mod accecn_sender;
mod ack_event;
mod ack_in;
mod ack_out;
mod bytes;
pub mod cc;
mod challenge;
mod check;
mod close;
pub mod config;
pub mod copy_on_write;
mod cx;
mod ecn;
mod ecn_dctcp;
mod ecn_rfc3168;
mod endpoints;
mod error_queue;
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
mod peer_metrics;
mod plb;
mod predict;
mod probe;
mod prune;
mod rare;
mod rare_options;
pub mod rate;
mod rcv_window;
mod reassembly;
pub(crate) use reassembly::truesize_of_segments;
mod receive;
mod recovery;
mod rto_totals;
pub mod rtt;
mod sack_blocks;
mod segment;
mod send_state;
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
pub(crate) mod txhash;
mod urgent;
mod write;
mod zerocopy;

pub use crate::metrics::{PathMtu, RouteMetrics};
pub use bytes::Payload;
pub use config::TcpConfig;
pub use cx::{Cx, Egress, XmitResult};
pub use endpoints::Endpoints;
pub use error_queue::{ConnectError, ErrorQueueEntry, Stamp, StampKind, ZeroCopied};
pub(crate) use icmp::MTU_MIN_V6;
pub use icmp::{IcmpError, SocketError};
pub use passive::Gate;
pub use receive::TcpRead;
pub use time_wait::Inherited;
pub use urgent::UrgentRead;
pub use write::WriteFlags;

use crate::packet::seq::Seq;
use crate::units::Instant;
use ack_out::AckState;
use cc::{Ack, AnyCongestionControl, Window};
use core::mem::offset_of;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;
use core::ops::Range;
use ecn::EcnState;
use info::Chrono;
use options::Negotiated;
use rate::RateState;
use receive::ReceiveState;
use recovery::Recovery;
use rtt::Rtt;
use send_state::{SendState, Totals};
use skb::SendQueue;
use state::State;
use std::sync::Arc;
use timer::{Jiffies, Pending, Timers};

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
    /// When it was meant to fire, jiffies (`icsk_timeout`). In TIME-WAIT, which has no such timer: when that began, ms
    /// (`tw_entry_stamp`).
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

    /// Prefetches what that points to.
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

    /// The connection is paced, by TCP or fq (not `SK_PACING_NONE`).
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
