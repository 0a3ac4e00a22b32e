//! The two applications of a workload on each of its hosts: one begins flows, one receives them.
//!
//! Each keeps its own notes, which are read only after the run.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apps::{App, AppCx, AppReport};
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::rng::Rng;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};

use super::generate::{Job, RequestId};
use crate::plan::limits::HOST_FLOWS_MAX;
use crate::plan::workload::matrix::Chooser;
use crate::plan::workload::sizes::Sizes;

/// The notes of one application of a workload, read at the end.
pub type Notes<T> = Arc<Mutex<T>>;

/// The notes of now.
pub fn open<T>(notes: &Notes<T>) -> MutexGuard<'_, T> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flow as its sender sees it.
#[derive(Clone, Copy, Debug)]
pub struct SentFlow {
    /// Who receives, as an index of the workload's hosts.
    pub to: usize,
    /// Bytes.
    pub bytes: u64,
    /// When it began.
    pub started: Instant,
    /// The local port, which no other flow of this host and workload has.
    pub port: u16,
    /// Its socket, while it is open.
    pub socket: Option<SocketId>,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Expiries of the retransmission timer.
    pub rtos: u32,
    /// It ended by a reset, or could not begin.
    pub failed: bool,
    /// Of an incast: what it answers a part of.
    pub request: Option<RequestId>,
}

/// A flow as its receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFlow {
    /// Bytes so far.
    pub bytes: u64,
    /// When the last of them came.
    pub last: Instant,
}

/// What comes next.
pub enum Source {
    /// What was drawn beforehand.
    Open(VecDeque<Job>),
    /// The next when one has ended.
    Closed {
        /// Who receives.
        chooser: Chooser,
        /// How much.
        sizes: Sizes,
        /// The host's random stream.
        rng: Rng,
        /// The pause behind each.
        think: Duration,
        /// Nothing begins from here on.
        stop: Instant,
        /// When one may begin, in order.
        due: VecDeque<Instant>,
    },
}

/// The application that begins flows.
pub struct Sender {
    /// This host's index in the workload.
    pub host: usize,
    /// What comes next.
    pub source: Source,
    /// Where all listen.
    pub addresses: Arc<[SocketAddr]>,
    /// The address of this host.
    pub local: IpAddr,
    /// Of its connections.
    pub config: TcpConfig,
    /// Set when it would begin more flows than there are ports.
    pub full: Arc<AtomicBool>,
    /// All its flows, in the order of their beginning.
    pub notes: Notes<Vec<SentFlow>>,
    /// By socket: which flow, and what is left to write.
    pub writing: BTreeMap<SocketId, (usize, u64)>,
    /// What it has to show.
    pub report: AppReport,
}

/// The first local port; the n-th flow of a host has the n-th.
pub const FIRST_PORT: u16 = 1025;

impl Sender {
    /// Begins what is due, and sleeps until more is.
    fn start_due(&mut self, cx: &mut AppCx<'_>) {
        while let Some(job) = self.take_due(cx.now) {
            self.begin(cx, job);
        }
        cx.wake_at(self.next_at().unwrap_or(Instant::FAR_FUTURE));
        self.check_done(cx.now);
    }

    fn next_at(&self) -> Option<Instant> {
        match &self.source {
            Source::Open(jobs) => jobs.front().map(|job| job.at),
            Source::Closed { due, .. } => due.front().copied(),
        }
    }

    fn take_due(&mut self, now: Instant) -> Option<Job> {
        if self.next_at()? > now {
            return None;
        }
        match &mut self.source {
            Source::Open(jobs) => jobs.pop_front(),
            Source::Closed { chooser, sizes, rng, stop, due, .. } => {
                due.pop_front();
                if now >= *stop {
                    return None;
                }
                if open(&self.notes).len() >= HOST_FLOWS_MAX {
                    self.full.store(true, Ordering::Relaxed);
                    return None;
                }
                let to = chooser.to(self.host, rng);
                Some(Job { at: now, to, bytes: sizes.draw(rng), request: None })
            }
        }
    }

    fn begin(&mut self, cx: &mut AppCx<'_>, job: Job) {
        let mut notes = open(&self.notes);
        let number = notes.len();
        let port = FIRST_PORT + number as u16;
        let local = SocketAddr::new(self.local, port);
        let opened = cx.host.tcp_connect(cx.now, local, self.addresses[job.to], &self.config);
        let socket = opened.ok();
        notes.push(SentFlow {
            to: job.to,
            bytes: job.bytes,
            started: cx.now,
            port,
            socket,
            retransmits: 0,
            rtos: 0,
            failed: socket.is_none(),
            request: job.request,
        });
        if let Some(socket) = socket {
            cx.own(socket);
            self.writing.insert(socket, (number, job.bytes));
        }
    }

    fn write(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        let Some((_, left)) = self.writing.get_mut(&socket) else { return };
        while *left > 0 {
            let taken = cx.tcp_write(socket, *left);
            *left -= taken;
            self.report.sent_bytes += taken;
            if taken == 0 {
                return;
            }
            if *left == 0 {
                let _ = cx.host.tcp_shutdown(cx.now, socket);
            }
        }
    }

    /// The peer has closed too, or there was an error.
    fn read(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        loop {
            let end = match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(_) => continue,
                TcpRead::WouldBlock => return,
                end => end,
            };
            let Some((number, _)) = self.writing.remove(&socket) else { return };
            if let (Some(info), Some(sent)) =
                (cx.host.tcp_info(cx.now, socket), open(&self.notes).get_mut(number))
            {
                sent.retransmits = info.total_retrans;
                sent.rtos = u32::from(info.total_rto);
                sent.failed = matches!(end, TcpRead::Reset);
                sent.socket = None;
            }
            let _ = cx.host.tcp_close(cx.now, socket);
            if let Source::Closed { think, due, .. } = &mut self.source {
                due.push_back(cx.now + *think);
            }
            return self.start_due(cx);
        }
    }

    fn check_done(&mut self, now: Instant) {
        if self.next_at().is_none() && self.writing.is_empty() {
            self.report.finished.get_or_insert(now);
        }
    }
}

impl App for Sender {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        self.start_due(cx);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if ready.bits & SocketReady::WRITABLE != 0 {
            self.write(cx, ready.socket);
        }
        if ready.bits & !SocketReady::WRITABLE != 0 && self.writing.contains_key(&ready.socket) {
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

/// The application that receives flows.
pub struct Sink {
    /// Where it listens.
    pub local: SocketAddr,
    /// Of its connections.
    pub config: TcpConfig,
    /// What has come, by the far end.
    pub notes: Notes<BTreeMap<SocketAddr, ReceivedFlow>>,
    /// Its open connections.
    pub open: BTreeMap<SocketId, SocketAddr>,
    /// The listening socket.
    pub listener: Option<SocketId>,
    /// What it has to show.
    pub report: AppReport,
}

impl Sink {
    fn accept(&mut self, cx: &mut AppCx<'_>, listener: SocketId) {
        while let Ok(Some(socket)) = cx.host.tcp_accept(listener) {
            cx.own(socket);
            if let Some(connection) = cx.host.tcp_connection(socket) {
                self.open.insert(socket, connection.remote());
            }
            self.read(cx, socket);
        }
    }

    fn read(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        let Some(&from) = self.open.get(&socket) else { return };
        loop {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => {
                    let mut notes = open(&self.notes);
                    let note = notes.entry(from).or_insert(ReceivedFlow { bytes: 0, last: cx.now });
                    note.bytes += bytes;
                    note.last = cx.now;
                    self.report.received_bytes += bytes;
                    self.report.last_received = Some(cx.now);
                }
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => {
                    self.open.remove(&socket);
                    let _ = cx.host.tcp_close(cx.now, socket);
                    return;
                }
            }
        }
    }
}

impl App for Sink {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.listener = Some(cx.tcp_listen(self.local, &self.config));
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if self.listener == Some(ready.socket) {
            self.accept(cx, ready.socket);
        } else {
            self.read(cx, ready.socket);
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
