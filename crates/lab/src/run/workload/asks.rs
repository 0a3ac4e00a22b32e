//! An incast in a closed loop: a client asks several servers at once, waits for the last part of the answer, and asks
//! again. Connections stay open, as those of `app = "query"`.
//!
//! What a request asks for is drawn by both sides from the same stream ([`Requests`]): a server counts the requests of
//! a connection, and knows which of the client's they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apps::{App, AppCx, AppReport};
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::tcp::Connection;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};

use super::app::{FIRST_PORT, Notes, open};
use super::generate::{RequestId, Requests};
use crate::plan::limits::HOST_FLOWS_MAX;
use crate::plan::workload::WorkloadPlan;
use crate::plan::workload::matrix::Chooser;

/// A part of an answer, as the client sees it: a flow of the workload.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePart {
    /// The request.
    pub request: RequestId,
    /// Who answers, as an index of the workload's hosts.
    pub server: usize,
    /// Bytes that it is to have.
    pub bytes: u64,
    /// Bytes that have come.
    pub received: u64,
    /// When it was asked for.
    pub started: Instant,
    /// When the last byte so far came.
    pub last: Instant,
    /// The connection was lost before.
    pub failed: bool,
}

/// The local port of a client's connections from one of its places.
pub fn client_port(place: u32) -> u16 {
    FIRST_PORT + place as u16
}

/// The client application.
pub struct Client {
    /// One for each request that it has going at a time.
    pub places: Vec<ClientPlace>,
    /// Its own address.
    pub local: IpAddr,
    /// Where all listen.
    pub addresses: Arc<[SocketAddr]>,
    /// Of its connections.
    pub config: TcpConfig,
    /// Bytes of a request to one server.
    pub request_bytes: u64,
    /// The pause behind an answer.
    pub think: Duration,
    /// No request begins from here on.
    pub stop: Instant,
    /// All parts, in the order in which they were asked for.
    pub notes: Notes<Vec<ResponsePart>>,
    /// Set when it would have more parts than are kept.
    pub full: Arc<AtomicBool>,
    /// Place and server by socket.
    pub sockets: BTreeMap<SocketId, (usize, usize)>,
    /// What it has to show.
    pub report: AppReport,
}

/// Requests that follow each other.
pub struct ClientPlace {
    /// This client, as an index of the workload's hosts.
    client: u32,
    /// Which of its places this is.
    number: u32,
    requests: Requests,
    /// Requests that are still to come, if that is said.
    left: Option<u64>,
    /// How many were made.
    made: u32,
    /// When the next one may go; none while one is going, or when no more will.
    due: Option<Instant>,
    /// Its connections, by server.
    legs: BTreeMap<usize, ServerConnection>,
    /// The servers of the request that is going, and the bytes that each shall send.
    asked: (Vec<usize>, u64),
    /// Connections that it waits for.
    unconnected: usize,
    /// Parts that have not come whole.
    missing: usize,
}

/// A connection to a server.
struct ServerConnection {
    socket: SocketId,
    connected: bool,
    /// Bytes of the request that are not written.
    to_write: u64,
    /// Which part comes over it.
    part: usize,
}

impl ClientPlace {
    /// The first request goes at `begin`.
    pub fn new(
        (client, place): (usize, usize),
        requests: Requests,
        count: Option<u64>,
        begin: Instant,
    ) -> Self {
        Self {
            client: client as u32,
            number: place as u32,
            requests,
            left: count,
            made: 0,
            due: Some(begin),
            legs: BTreeMap::new(),
            asked: (Vec::new(), 0),
            unconnected: 0,
            missing: 0,
        }
    }
}

impl Client {
    /// Begins what is due, and sleeps until more is.
    fn start_due(&mut self, cx: &mut AppCx<'_>) {
        for place in 0..self.places.len() {
            if self.places[place].due.is_some_and(|due| due <= cx.now) {
                self.begin(cx, place);
            }
        }
        let next = self.places.iter().filter_map(|place| place.due).min();
        cx.wake_at(next.unwrap_or(Instant::FAR_FUTURE));
        let idle = |place: &ClientPlace| place.due.is_none() && place.legs.is_empty();
        if self.places.iter().all(idle) {
            self.report.finished.get_or_insert(cx.now);
        }
    }

    /// The next request: first opens its missing connections.
    fn begin(&mut self, cx: &mut AppCx<'_>, at: usize) {
        let place = &mut self.places[at];
        place.due = None;
        if cx.now >= self.stop || place.left == Some(0) {
            return self.close(cx, at);
        }
        place.asked = place.requests.draw();
        if open(&self.notes).len() + place.asked.0.len() > HOST_FLOWS_MAX {
            self.full.store(true, Ordering::Relaxed);
            return self.close(cx, at);
        }
        place.unconnected = 0;
        for server in place.asked.0.clone() {
            if let Some(leg) = place.legs.get(&server) {
                place.unconnected += usize::from(!leg.connected);
                continue;
            }
            let local = SocketAddr::new(self.local, client_port(place.number));
            let opened = cx.host.tcp_connect(cx.now, local, self.addresses[server], &self.config);
            let Ok(socket) = opened else { return self.close(cx, at) };
            cx.own(socket);
            self.sockets.insert(socket, (at, server));
            place.legs.insert(
                server,
                ServerConnection { socket, connected: false, to_write: 0, part: 0 },
            );
            place.unconnected += 1;
        }
        if self.places[at].unconnected == 0 {
            self.send_request(cx, at);
        }
    }

    /// All connections are open: sends the request to all servers at once.
    fn send_request(&mut self, cx: &mut AppCx<'_>, at: usize) {
        let place = &mut self.places[at];
        let (servers, bytes) = std::mem::take(&mut place.asked);
        let request = RequestId { client: place.client, place: place.number, number: place.made };
        place.made += 1;
        place.left = place.left.map(|left| left - 1);
        place.missing = servers.len();
        for server in servers {
            let Some(leg) = self.places[at].legs.get_mut(&server) else { continue };
            leg.to_write = self.request_bytes;
            let mut notes = open(&self.notes);
            leg.part = notes.len();
            let (started, last) = (cx.now, cx.now);
            notes.push(ResponsePart {
                request,
                server,
                bytes,
                received: 0,
                started,
                last,
                failed: false,
            });
            drop(notes);
            self.write(cx, at, server);
        }
        self.report.sent += 1;
    }

    fn write(&mut self, cx: &mut AppCx<'_>, at: usize, server: usize) {
        let Some(leg) = self.places[at].legs.get_mut(&server) else { return };
        while leg.to_write > 0 {
            let taken = cx.tcp_write(leg.socket, leg.to_write);
            leg.to_write -= taken;
            self.report.sent_bytes += taken;
            if taken == 0 {
                return;
            }
        }
    }

    fn read(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        while let Some(&(at, server)) = self.sockets.get(&socket) {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => self.receive(cx, at, server, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => return self.lose(cx, at, server),
            }
        }
    }

    fn receive(&mut self, cx: &mut AppCx<'_>, at: usize, server: usize, bytes: u64) {
        let Some(leg) = self.places[at].legs.get(&server) else { return };
        let mut notes = open(&self.notes);
        let part = &mut notes[leg.part];
        part.received += bytes;
        part.last = cx.now;
        let whole = part.received >= part.bytes;
        drop(notes);
        self.report.received_bytes += bytes;
        self.report.last_received = Some(cx.now);
        let place = &mut self.places[at];
        place.missing -= usize::from(whole);
        if whole && place.missing == 0 {
            self.report.received += 1;
            let next = cx.now + self.think;
            let is_last = place.left == Some(0) || next >= self.stop;
            place.due = (!is_last).then_some(next);
            if is_last {
                self.close(cx, at);
            }
            self.start_due(cx);
        }
    }

    /// A server is gone: there will be no whole answer, and no next request.
    fn lose(&mut self, cx: &mut AppCx<'_>, at: usize, server: usize) {
        let place = &mut self.places[at];
        if let Some(leg) = place.legs.get(&server)
            && place.missing > 0
            && let Some(part) = open(&self.notes).get_mut(leg.part)
            && part.request.number + 1 == place.made
        {
            part.failed = part.received < part.bytes;
        }
        place.due = None;
        self.close(cx, at);
        self.start_due(cx);
    }

    /// No more requests come from this place.
    fn close(&mut self, cx: &mut AppCx<'_>, at: usize) {
        let place = &mut self.places[at];
        for leg in std::mem::take(&mut place.legs).into_values() {
            self.sockets.remove(&leg.socket);
            let _ = cx.host.tcp_close(cx.now, leg.socket);
        }
    }
}

impl App for Client {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        self.start_due(cx);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        let Some(&(at, server)) = self.sockets.get(&ready.socket) else { return };
        if ready.bits & SocketReady::WRITABLE != 0 {
            let place = &mut self.places[at];
            match place.legs.get_mut(&server) {
                Some(leg) if !leg.connected => {
                    leg.connected = true;
                    // A server of an earlier request is none that this one waits for.
                    place.unconnected -= 1;
                    if place.unconnected == 0 {
                        self.send_request(cx, at);
                    }
                }
                _ => self.write(cx, at, server),
            }
        }
        if ready.bits & !SocketReady::WRITABLE != 0 {
            self.read(cx, ready.socket);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.start_due(cx);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}

/// What a server notes of the connections from one place of a client: the requests, and how many segments it had sent
/// again and timers had expired when each came.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The connection, while it is open.
    pub socket: Option<SocketId>,
    /// Number of the request, segments, timers.
    pub begun: Vec<(u32, u32, u32)>,
    /// Both at the end of the connection.
    pub end: (u32, u32),
}

/// What servers need to know of clients.
pub struct Clients {
    /// What all is drawn by.
    pub plan: WorkloadPlan,
    /// Likewise.
    pub chooser: Chooser,
    /// The seed of the run, and which of its workloads this is.
    pub drawn_by: (u64, usize),
    /// Hosts of the workload by their addresses.
    pub of: BTreeMap<IpAddr, usize>,
}

impl Clients {
    /// Client and place behind the far end of a connection, and the requests to come.
    fn requests_of(&self, far: SocketAddr) -> Option<((u32, u32), Requests)> {
        let client = *self.of.get(&far.ip())?;
        let place = usize::from(far.port().checked_sub(FIRST_PORT)?);
        let requests = Requests::new(&self.plan, &self.chooser, self.drawn_by, client, place)?;
        Some(((client as u32, place as u32), requests))
    }
}

/// The server application.
pub struct Server {
    /// This host's index in the workload.
    pub host: usize,
    /// Where it listens.
    pub local: SocketAddr,
    /// Of its connections.
    pub config: TcpConfig,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Who asks.
    pub clients: Arc<Clients>,
    /// Its connections.
    pub dialogues: BTreeMap<SocketId, Dialogue>,
    /// By client and place.
    pub notes: Notes<BTreeMap<(u32, u32), Answers>>,
    /// The listening socket.
    pub listener: Option<SocketId>,
    /// What it has to show.
    pub report: AppReport,
}

/// A connection of a server.
pub struct Dialogue {
    of: (u32, u32),
    requests: Requests,
    /// Requests of the client that were drawn so far, to this server or not.
    drawn: u32,
    /// Bytes of the request that is arriving.
    received: u64,
    /// Bytes of the answer not yet written.
    to_write: u64,
}

impl Server {
    fn accept(&mut self, cx: &mut AppCx<'_>, listener: SocketId) {
        while let Ok(Some(socket)) = cx.host.tcp_accept(listener) {
            cx.own(socket);
            let from = cx.host.tcp_connection(socket).map(Connection::remote);
            let Some((of, requests)) = from.and_then(|from| self.clients.requests_of(from)) else {
                let _ = cx.host.tcp_close(cx.now, socket);
                continue;
            };
            open(&self.notes).entry(of).or_default().socket = Some(socket);
            let new = Dialogue { of, requests, drawn: 0, received: 0, to_write: 0 };
            self.dialogues.insert(socket, new);
            self.read(cx, socket);
        }
    }

    fn read(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        while self.dialogues.contains_key(&socket) {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => self.receive(cx, socket, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => return self.close(cx, socket),
            }
        }
    }

    fn receive(&mut self, cx: &mut AppCx<'_>, socket: SocketId, bytes: u64) {
        let Some(dialogue) = self.dialogues.get_mut(&socket) else { return };
        dialogue.received += bytes;
        self.report.received_bytes += bytes;
        while dialogue.received >= self.request_bytes {
            dialogue.received -= self.request_bytes;
            let part = loop {
                dialogue.drawn += 1;
                let (servers, part) = dialogue.requests.draw();
                if servers.contains(&self.host) {
                    break part;
                }
            };
            dialogue.to_write += part;
            let (segments, timers) = losses(cx, socket);
            let begun = (dialogue.drawn - 1, segments, timers);
            open(&self.notes).entry(dialogue.of).or_default().begun.push(begun);
        }
        self.write(cx, socket);
    }

    fn write(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        let Some(dialogue) = self.dialogues.get_mut(&socket) else { return };
        while dialogue.to_write > 0 {
            let taken = cx.tcp_write(socket, dialogue.to_write);
            dialogue.to_write -= taken;
            self.report.sent_bytes += taken;
            if taken == 0 {
                return;
            }
        }
    }

    fn close(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        let Some(dialogue) = self.dialogues.remove(&socket) else { return };
        let end = losses(cx, socket);
        let mut notes = open(&self.notes);
        let answers = notes.entry(dialogue.of).or_default();
        (answers.socket, answers.end) = (None, end);
        let _ = cx.host.tcp_close(cx.now, socket);
    }
}

/// Segments that a connection has retransmitted, and expiries of its retransmission timer.
fn losses(cx: &AppCx<'_>, socket: SocketId) -> (u32, u32) {
    let info = cx.host.tcp_info(cx.now, socket);
    info.map_or((0, 0), |info| (info.total_retrans, u32::from(info.total_rto)))
}

impl App for Server {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.listener = Some(cx.tcp_listen(self.local, &self.config));
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if self.listener == Some(ready.socket) {
            return self.accept(cx, ready.socket);
        }
        if ready.bits & SocketReady::WRITABLE != 0 {
            self.write(cx, ready.socket);
        }
        if ready.bits & !SocketReady::WRITABLE != 0 {
            self.read(cx, ready.socket);
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
