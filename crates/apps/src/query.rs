//! Partition and aggregate: a client asks several servers at once and waits for the last answer.

use crate::{App, AppCx, AppReport, Exchange};
use core::net::SocketAddr;
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::sync::Arc;

/// Asks every server at the same moment, over connections that stay open; the query is answered
/// when all of them have answered.
#[derive(Debug)]
pub struct QueryClient {
    /// Our end and the server's, a pair a server.
    ends: Vec<(SocketAddr, SocketAddr)>,
    config: Arc<TcpConfig>,
    exchange: Exchange,
    think: Duration,
    count: u64,
    legs: Vec<ServerConnection>,
    /// Connections that are not established yet.
    unconnected: usize,
    asked_at: Instant,
    report: AppReport,
}

/// The connection to one server.
#[derive(Clone, Copy, Debug)]
struct ServerConnection {
    socket: SocketId,
    connected: bool,
    to_write: u64,
    to_read: u64,
}

impl QueryClient {
    /// `count` queries, each an `exchange` with every server, with `think` between the last answer
    /// and the next query.
    pub fn new(
        ends: Vec<(SocketAddr, SocketAddr)>,
        config: TcpConfig,
        exchange: Exchange,
        think: Duration,
        count: u64,
    ) -> Self {
        assert!(exchange.request > 0 && exchange.response > 0, "messages have at least one byte");
        assert!(!ends.is_empty(), "a query needs a server");
        Self {
            unconnected: ends.len(),
            ends,
            config: config.shared(),
            exchange,
            think,
            count,
            legs: Vec::new(),
            asked_at: Instant::ZERO,
            report: AppReport::default(),
        }
    }

    fn send_query(&mut self, cx: &mut AppCx<'_>) {
        self.asked_at = cx.now;
        self.report.sent += 1;
        for index in 0..self.legs.len() {
            let leg = &mut self.legs[index];
            leg.to_write = self.exchange.request;
            leg.to_read = self.exchange.response;
            self.write(index, cx);
        }
    }

    fn write(&mut self, index: usize, cx: &mut AppCx<'_>) {
        let leg = &mut self.legs[index];
        while leg.to_write > 0 {
            let taken = cx.tcp_write(leg.socket, leg.to_write);
            if taken == 0 {
                return;
            }
            leg.to_write -= taken;
            self.report.sent_bytes += taken;
        }
    }

    fn read(&mut self, index: usize, cx: &mut AppCx<'_>) {
        let socket = self.legs[index].socket;
        loop {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => self.on_data(index, cx, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => return self.lose(index, cx),
            }
        }
    }

    fn on_data(&mut self, index: usize, cx: &mut AppCx<'_>, bytes: u64) {
        self.report.receive(cx.now, bytes);
        let complete = self.legs.len() == self.ends.len();
        let leg = &mut self.legs[index];
        leg.to_read = leg.to_read.saturating_sub(bytes);
        if leg.to_read == 0 && complete && self.legs.iter().all(|leg| leg.to_read == 0) {
            self.answered(cx);
        }
    }

    /// A server is gone: without it no query can be answered.
    fn lose(&mut self, index: usize, cx: &mut AppCx<'_>) {
        let leg = self.legs.remove(index);
        let _ = cx.host.tcp_close(cx.now, leg.socket);
        cx.wake_at(Instant::FAR_FUTURE);
        self.report.finished.get_or_insert(cx.now);
        self.count = self.report.sent;
        self.close(cx);
    }

    fn answered(&mut self, cx: &mut AppCx<'_>) {
        self.report.received += 1;
        self.report.round_trips.push((cx.now, cx.now - self.asked_at));
        if self.report.sent == self.count {
            self.report.finished = Some(cx.now);
            self.close(cx);
        } else if self.think > Duration::ZERO {
            cx.wake_at(cx.now + self.think);
        } else {
            self.send_query(cx);
        }
    }

    fn close(&mut self, cx: &mut AppCx<'_>) {
        for leg in &self.legs {
            let _ = cx.host.tcp_shutdown(cx.now, leg.socket);
        }
    }
}

impl App for QueryClient {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        for (local, remote) in &self.ends {
            let opened = cx.host.tcp_connect(cx.now, *local, *remote, &self.config);
            let Ok(socket) = opened else {
                // No port is free: without this leg there will be no query.
                self.report.finished = Some(cx.now);
                continue;
            };
            cx.own(socket);
            self.report.socket = Some(socket);
            self.legs.push(ServerConnection { socket, connected: false, to_write: 0, to_read: 0 });
        }
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        let Some(index) = self.legs.iter().position(|leg| leg.socket == ready.socket) else {
            return;
        };
        if ready.bits & SocketReady::WRITABLE != 0 {
            let leg = &mut self.legs[index];
            if leg.connected {
                self.write(index, cx);
            } else {
                leg.connected = true;
                self.unconnected -= 1;
                if self.unconnected == 0 && self.count > 0 {
                    self.send_query(cx);
                }
            }
        }
        if ready.bits & !SocketReady::WRITABLE != 0 {
            self.read(index, cx);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.send_query(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        cx.wake_at(Instant::FAR_FUTURE);
        self.count = self.report.sent;
        self.close(cx);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
