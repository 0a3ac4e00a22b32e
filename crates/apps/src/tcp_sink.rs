//! A TCP server that reads everything it is sent, and closes when the peer has closed.

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::prefetch::{prefetch, prefetch_at};
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::sync::Arc;

/// Accepts connections and reads them, 256 KiB at a time, as soon as there is something.
#[derive(Debug)]
pub struct TcpSink {
    local: SocketAddr,
    config: Arc<TcpConfig>,
    pause: Option<Pause>,
    listener: Option<SocketId>,
    /// Open connections in the order of their numbers, and what each has received.
    open: Vec<(SocketId, u64)>,
    paused_until: Instant,
    report: AppReport,
}

/// Once a connection has received `at_bytes`, nothing is read for `span`.
#[derive(Clone, Copy, Debug)]
struct Pause {
    at_bytes: u64,
    span: Duration,
}

/// What one `read` call asks for.
const READ: u64 = 256 * 1024;

impl TcpSink {
    /// A server at `local`.
    pub fn new(local: SocketAddr, config: TcpConfig) -> Self {
        Self {
            local,
            config: config.shared(),
            pause: None,
            listener: None,
            open: Vec::new(),
            paused_until: Instant::ZERO,
            report: AppReport::default(),
        }
    }

    /// Stops reading for `span`, once, when a connection has received `at_bytes` or more.
    pub fn pause(mut self, at_bytes: u64, span: Duration) -> Self {
        self.pause = Some(Pause { at_bytes, span });
        self
    }

    /// Where an open connection stands among them.
    #[inline]
    fn place_of(&self, socket: SocketId) -> Option<usize> {
        self.open.binary_search_by_key(&socket, |(other, _)| *other).ok()
    }

    fn accept(&mut self, cx: &mut AppCx<'_>, listener: SocketId) {
        while let Ok(Some(socket)) = cx.host.tcp_accept(listener) {
            cx.own(socket);
            let place = self.open.partition_point(|(other, _)| *other < socket);
            self.open.insert(place, (socket, 0));
            self.report.socket = Some(socket);
            self.report.received += 1;
            self.read(cx, place);
        }
    }

    /// Reads all that the connection at this place has.
    fn read(&mut self, cx: &mut AppCx<'_>, place: usize) {
        let (socket, _) = self.open[place];
        while cx.now >= self.paused_until {
            match cx.tcp_read(socket, READ) {
                TcpRead::Data(bytes) => self.count(cx, place, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => {
                    self.open.remove(place);
                    self.report.finished = Some(cx.now);
                    let _ = cx.host.tcp_close(cx.now, socket);
                    return;
                }
            }
        }
    }

    fn count(&mut self, cx: &mut AppCx<'_>, place: usize, bytes: u64) {
        self.report.receive(cx.now, bytes);
        let (_, total) = &mut self.open[place];
        *total += bytes;
        if let Some(Pause { at_bytes, span }) = self.pause
            && *total >= at_bytes
        {
            self.pause = None;
            self.paused_until = cx.now + span;
            cx.wake_at(self.paused_until);
        }
    }
}

impl App for TcpSink {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.listener = Some(cx.tcp_listen(self.local, &self.config));
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if Some(ready.socket) == self.listener {
            self.accept(cx, ready.socket);
        } else if let Some(place) = self.place_of(ready.socket) {
            self.read(cx, place);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        let open: Vec<SocketId> = self.open.iter().map(|(socket, _)| *socket).collect();
        for socket in open {
            if let Some(place) = self.place_of(socket) {
                self.read(cx, place);
            }
        }
    }

    /// It has nothing to send: what it does not read because of its pause is read now.
    fn stop(&mut self, cx: &mut AppCx<'_>) {
        self.pause = None;
        self.paused_until = cx.now;
        self.timer(cx);
    }

    fn prefetch(&self) {
        prefetch(&self.listener);
        prefetch(&self.open);
        prefetch(&self.report.received_bytes);
        prefetch(&self.report.last_received);
    }

    fn prefetch_rest(&self) {
        prefetch_at(&self.open, 0);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }

    fn received_bytes(&self) -> u64 {
        self.report.received_bytes
    }
}
