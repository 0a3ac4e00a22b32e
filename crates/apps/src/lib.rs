//! What runs on hosts. An application is called when it starts, when one of its sockets becomes
//! ready, when its timer comes up, and when it is stopped; it acts through [`AppCx`].
//!
//! An application knows only its host's sockets, and the time that its caller passes. The driver, which runs it in
//! virtual time or by the clock, calls it with an [`AppCx`] and reads from that afterwards which sockets it has claimed
//! and when it wants to be woken.
//!
//! [`wording`] is for what a library user names in files, applications and loss models: things made from words.

mod bytes;
mod cbr;
mod connect;
mod ping;
mod query;
mod request;
mod tcp_send;
mod tcp_sink;
mod udp_sink;
pub mod wording;

pub use bytes::{Compared, Stream, Streams};
pub use cbr::Cbr;
pub use connect::Connect;
pub use ping::Ping;
pub use query::QueryClient;
pub use request::{Exchange, RequestClient, ResponseServer};
pub use tcp_send::TcpSend;
pub use tcp_sink::TcpSink;
pub use udp_sink::{UdpEcho, UdpSink};

use core::net::SocketAddr;
use datapath::host::{Datagram, Host, SocketError, SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::packet::{Body, tos_to_priority};
use datapath::reason::Enqueue;
use datapath::rng::Rng;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};

/// An application. It may be called by another thread each time, but by one at a time. A socket of its
/// own that somebody else has closed is to it as one that was reset.
pub trait App: Send {
    /// The start time has come.
    fn start(&mut self, cx: &mut AppCx<'_>);

    /// One of its sockets has become ready for something. All of it must be done: readiness is
    /// told only when it changes.
    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        let _ = (cx, ready);
    }

    /// The time set by [`AppCx::wake_at`] has come.
    fn timer(&mut self, cx: &mut AppCx<'_>) {
        let _ = cx;
    }

    /// The stop time has come: it ceases to send. It is not woken again, but its sockets may
    /// still become ready.
    fn stop(&mut self, cx: &mut AppCx<'_>) {
        let _ = cx;
    }

    /// It is about to be told that something is ready: the caches may be asked for what it will need.
    fn prefetch(&self) {}

    /// Prefetches what lies behind that.
    fn prefetch_rest(&self) {}

    /// What it has to show.
    fn report(&self) -> AppReport;

    /// The socket in its [report](Self::report), for those who ask often.
    fn socket(&self) -> Option<SocketId> {
        self.report().socket
    }

    /// The bytes received in its [report](Self::report), for those who ask often.
    fn received_bytes(&self) -> u64 {
        self.report().received_bytes
    }
}

/// What an application has to show: whatever applies to its kind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AppReport {
    /// The socket opened or accepted last.
    pub socket: Option<SocketId>,
    /// Payload bytes given to its sockets.
    pub sent_bytes: u64,
    /// Payload bytes read from its sockets.
    pub received_bytes: u64,
    /// Datagrams, requests or chunks sent.
    pub sent: u64,
    /// Datagrams, requests or chunks that arrived.
    pub received: u64,
    /// When it began.
    pub started: Option<Instant>,
    /// When the first byte arrived.
    pub first_received: Option<Instant>,
    /// When the last byte so far arrived.
    pub last_received: Option<Instant>,
    /// When its work was done.
    pub finished: Option<Instant>,
    /// Round trips or response times: when each ended, and how long it took.
    pub round_trips: Vec<(Instant, Duration)>,
}

/// What an application may do while it is called.
pub struct AppCx<'a> {
    /// The time.
    pub now: Instant,
    /// The host it runs on.
    pub host: &'a mut Host,
    /// Its own random stream.
    pub rng: &'a mut Rng,
    timer: &'a mut Instant,
    owners: &'a mut Vec<u32>,
    index: u32,
    streams: Option<&'a mut Streams>,
}

/// The owner of a socket that no application has claimed.
pub const NO_APP: u32 = u32::MAX;

impl<'a> AppCx<'a> {
    /// For one call of application number `index` of a driver: its `timer` is where a wish to be woken is
    /// noted, `owners` has the number of the application that each socket of the host belongs to, by the
    /// socket's index.
    #[inline]
    pub fn new(
        now: Instant,
        host: &'a mut Host,
        rng: &'a mut Rng,
        timer: &'a mut Instant,
        owners: &'a mut Vec<u32>,
        index: u32,
    ) -> Self {
        Self { now, host, rng, timer, owners, index, streams: None }
    }

    /// What is written and read by its calls is bytes, where there are streams of this host to keep
    /// account of them.
    #[inline]
    pub fn with_bytes(mut self, streams: Option<&'a mut Streams>) -> Self {
        self.streams = streams;
        self
    }

    /// Sets its timer, in place of an earlier setting.
    pub fn wake_at(&mut self, at: Instant) {
        *self.timer = at;
    }

    /// Says that a socket belongs to this application, which is then called when it is ready.
    pub fn own(&mut self, socket: SocketId) {
        let index = socket.index();
        if index >= self.owners.len() {
            self.owners.resize(index + 1, NO_APP);
        }
        self.owners[index] = self.index;
    }

    /// A listening socket of this application's at `local`.
    pub fn tcp_listen(&mut self, local: SocketAddr, config: &TcpConfig) -> SocketId {
        let listener = self.host.tcp_listen(self.now, local, config);
        self.own(listener);
        listener
    }

    /// A UDP socket of this application's at `local`, whose datagrams have this DSCP and ECN byte.
    ///
    /// # Panics
    /// When somebody else has that address: who places applications gives each its own.
    pub fn udp_bind(&mut self, local: SocketAddr, tos: u8) -> SocketId {
        let socket = self.host.udp_bind(self.now, local).expect("the local address is free");
        let settings = self.host.udp_socket(socket).expect("just opened");
        settings.tos = tos;
        if local.is_ipv4() {
            settings.priority = tos_to_priority(tos);
        }
        self.own(socket);
        socket
    }

    /// Writes `len` bytes, or as many as the connection has room for; gives how many it took. 0: wait for
    /// `WRITABLE`, or it is no open connection.
    pub fn tcp_write(&mut self, socket: SocketId, len: u64) -> u64 {
        match &mut self.streams {
            None => self.host.tcp_write(self.now, socket, len).unwrap_or(0),
            Some(streams) => streams.write(self.now, self.host, socket, len),
        }
    }

    /// Reads up to `max` bytes; what is no open connection counts as reset.
    pub fn tcp_read(&mut self, socket: SocketId, max: u64) -> TcpRead {
        match &mut self.streams {
            None => self.host.tcp_read(self.now, socket, max).unwrap_or(TcpRead::Reset),
            Some(streams) => streams.read(self.now, self.host, socket, max),
        }
    }

    /// Sends a datagram. Of a body without a frame the `offset` is a label, by which the receiver knows it
    /// again ([`label_of`](Self::label_of)); with bytes it lies in the first four, and what is shorter is a length.
    ///
    /// # Errors
    /// As of [`Host::udp_send`].
    pub fn udp_send(
        &mut self,
        socket: SocketId,
        remote: SocketAddr,
        body: Body,
    ) -> Result<Enqueue, SocketError> {
        match &mut self.streams {
            Some(streams) if body.frame.is_none() && body.len as usize >= bytes::LABEL => {
                let bytes = streams.datagram(&body);
                self.host.udp_send_bytes(self.now, socket, remote, bytes)
            }
            _ => self.host.udp_send(self.now, socket, remote, body),
        }
    }

    /// The next datagram of a UDP or ping socket; `None` if there is none.
    ///
    /// # Errors
    /// As of [`Host::datagram_read`].
    pub fn datagram_read(&mut self, socket: SocketId) -> Result<Option<Datagram>, SocketError> {
        let datagram = self.host.datagram_read(socket)?;
        if let (Some(streams), Some(datagram)) = (&mut self.streams, &datagram)
            && self.host.udp_socket(socket).is_ok()
        {
            streams.check_datagram(&datagram.body);
        }
        Ok(datagram)
    }

    /// The label that a datagram was sent with.
    pub fn label_of(body: &Body) -> u32 {
        bytes::label(body)
    }
}

impl AppReport {
    /// Notes that `bytes` arrived at `now`.
    pub(crate) fn receive(&mut self, now: Instant, bytes: u64) {
        self.received_bytes += bytes;
        self.first_received.get_or_insert(now);
        self.last_received = Some(now);
    }
}
