//! Request and response over one TCP connection: small messages one way, answers the other.

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sizes that both sides agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes of a request.
    pub request: u64,
    /// Bytes of the answer to it.
    pub response: u64,
}

/// Sends a request, waits for the whole answer, thinks, and sends the next.
#[derive(Debug)]
pub struct RequestClient {
    local: SocketAddr,
    remote: SocketAddr,
    config: Arc<TcpConfig>,
    exchange: Exchange,
    think: Duration,
    count: u64,
    socket: Option<SocketId>,
    asked_at: Instant,
    /// Bytes of the request that are not written yet.
    to_write: u64,
    /// Bytes of the answer that have not arrived yet.
    to_read: u64,
    report: AppReport,
}

/// Answers each request.
#[derive(Debug)]
pub struct ResponseServer {
    local: SocketAddr,
    config: Arc<TcpConfig>,
    exchange: Exchange,
    listener: Option<SocketId>,
    open: BTreeMap<SocketId, Dialogue>,
    report: AppReport,
}

/// One connection of the server.
#[derive(Clone, Copy, Debug, Default)]
struct Dialogue {
    /// Bytes received of the request that is arriving.
    received: u64,
    /// Bytes owed in answers.
    to_write: u64,
}

impl RequestClient {
    /// `count` exchanges with the server at `remote`, with `think` between an answer and the
    /// next request.
    pub fn new(
        local: SocketAddr,
        remote: SocketAddr,
        config: TcpConfig,
        exchange: Exchange,
        think: Duration,
        count: u64,
    ) -> Self {
        assert!(exchange.request > 0 && exchange.response > 0, "messages have at least one byte");
        Self {
            local,
            remote,
            config: config.shared(),
            exchange,
            think,
            count,
            socket: None,
            asked_at: Instant::ZERO,
            to_write: 0,
            to_read: 0,
            report: AppReport::default(),
        }
    }

    fn send_request(&mut self, cx: &mut AppCx<'_>) {
        self.asked_at = cx.now;
        self.to_write = self.exchange.request;
        self.to_read = self.exchange.response;
        self.report.sent += 1;
        self.write(cx);
    }

    fn write(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        while self.to_write > 0 {
            let taken = cx.tcp_write(socket, self.to_write);
            if taken == 0 {
                return;
            }
            self.to_write -= taken;
            self.report.sent_bytes += taken;
        }
    }

    fn read(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        loop {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => {
                    self.report.receive(cx.now, bytes);
                    self.to_read = self.to_read.saturating_sub(bytes);
                    if self.to_read == 0 {
                        self.answered(cx, socket);
                    }
                }
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => {
                    self.report.finished.get_or_insert(cx.now);
                    self.socket = None;
                    cx.wake_at(Instant::FAR_FUTURE);
                    let _ = cx.host.tcp_close(cx.now, socket);
                    return;
                }
            }
        }
    }

    fn answered(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        self.report.received += 1;
        self.report.round_trips.push((cx.now, cx.now - self.asked_at));
        if self.report.sent == self.count {
            self.report.finished = Some(cx.now);
            let _ = cx.host.tcp_shutdown(cx.now, socket);
        } else if self.think > Duration::ZERO {
            cx.wake_at(cx.now + self.think);
        } else {
            self.send_request(cx);
        }
    }
}

impl App for RequestClient {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        let opened = cx.host.tcp_connect(cx.now, self.local, self.remote, &self.config);
        let Ok(socket) = opened else {
            // No port is free: it has failed at once.
            self.report.finished = Some(cx.now);
            return;
        };
        cx.own(socket);
        self.socket = Some(socket);
        self.report.socket = Some(socket);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if ready.bits & SocketReady::WRITABLE != 0 {
            if self.report.sent == 0 && self.count > 0 {
                self.send_request(cx);
            } else {
                self.write(cx);
            }
        }
        if ready.bits & !SocketReady::WRITABLE != 0 {
            self.read(cx);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.send_request(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        cx.wake_at(Instant::FAR_FUTURE);
        if let Some(socket) = self.socket {
            self.count = self.report.sent;
            let _ = cx.host.tcp_shutdown(cx.now, socket);
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}

impl ResponseServer {
    /// A server at `local`.
    pub fn new(local: SocketAddr, config: TcpConfig, exchange: Exchange) -> Self {
        let open = BTreeMap::new();
        let (config, report) = (config.shared(), AppReport::default());
        Self { local, config, exchange, listener: None, open, report }
    }

    fn accept(&mut self, cx: &mut AppCx<'_>, listener: SocketId) {
        while let Ok(Some(socket)) = cx.host.tcp_accept(listener) {
            cx.own(socket);
            self.open.insert(socket, Dialogue::default());
            self.report.socket = Some(socket);
            self.serve(cx, socket);
        }
    }

    fn serve(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        loop {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => self.on_data(cx, socket, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => {
                    self.open.remove(&socket);
                    self.report.finished = Some(cx.now);
                    let _ = cx.host.tcp_close(cx.now, socket);
                    return;
                }
            }
        }
    }

    fn on_data(&mut self, cx: &mut AppCx<'_>, socket: SocketId, bytes: u64) {
        self.report.receive(cx.now, bytes);
        let Some(dialogue) = self.open.get_mut(&socket) else { return };
        dialogue.received += bytes;
        let asked = dialogue.received / self.exchange.request;
        dialogue.received %= self.exchange.request;
        dialogue.to_write += asked * self.exchange.response;
        self.report.received += asked;
        self.write(cx, socket);
    }

    fn write(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        let Some(dialogue) = self.open.get_mut(&socket) else { return };
        while dialogue.to_write > 0 {
            let taken = cx.tcp_write(socket, dialogue.to_write);
            if taken == 0 {
                return;
            }
            dialogue.to_write -= taken;
            self.report.sent_bytes += taken;
        }
    }
}

impl App for ResponseServer {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.listener = Some(cx.tcp_listen(self.local, &self.config));
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if Some(ready.socket) == self.listener {
            return self.accept(cx, ready.socket);
        }
        if ready.bits & SocketReady::WRITABLE != 0 {
            self.write(cx, ready.socket);
        }
        if ready.bits & !SocketReady::WRITABLE != 0 && self.open.contains_key(&ready.socket) {
            self.serve(cx, ready.socket);
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
