//! Opens connections one after the other: how often does the first SYN get an answer?

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::SocketId;
use datapath::node::SocketReady;
use datapath::tcp::Connection;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::sync::Arc;

/// Attempts to connect at every interval. An attempt counts as answered (`received`) if the
/// connection was established without a second SYN; what is not established when the next one
/// is due is given up.
#[derive(Debug)]
pub struct Connect {
    local: SocketAddr,
    remote: SocketAddr,
    config: Arc<TcpConfig>,
    interval: Duration,
    count: u64,
    /// The attempt that waits for its answer.
    waiting: Option<SocketId>,
    begun: Instant,
    report: AppReport,
}

impl Connect {
    /// `count` attempts from the address of `local`, from a port of the host's choice each.
    pub fn new(
        local: SocketAddr,
        remote: SocketAddr,
        config: TcpConfig,
        interval: Duration,
        count: u64,
    ) -> Self {
        assert!(interval > Duration::ZERO, "attempts need some time between them");
        Self {
            local: SocketAddr::new(local.ip(), 0),
            remote,
            config: config.shared(),
            interval,
            count,
            waiting: None,
            begun: Instant::ZERO,
            report: AppReport::default(),
        }
    }

    fn attempt(&mut self, cx: &mut AppCx<'_>) {
        if let Some(socket) = self.waiting.take() {
            let _ = cx.host.tcp_abort(cx.now, socket);
        }
        if self.report.sent == self.count {
            self.report.finished.get_or_insert(cx.now);
            return;
        }
        self.report.sent += 1;
        // Without a free port the attempt has failed at once.
        if let Ok(socket) = cx.host.tcp_connect(cx.now, self.local, self.remote, &self.config) {
            cx.own(socket);
            self.waiting = Some(socket);
            self.begun = cx.now;
            self.report.socket = Some(socket);
        }
        cx.wake_at(cx.now + self.interval);
    }
}

impl App for Connect {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        self.attempt(cx);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if self.waiting != Some(ready.socket) || ready.bits & SocketReady::WRITABLE == 0 {
            return;
        }
        self.waiting = None;
        let failed = cx.host.tcp_connection(ready.socket).is_none_or(Connection::has_error);
        let info = cx.host.tcp_info(cx.now, ready.socket);
        if !failed && info.is_some_and(|info| info.total_retrans == 0) {
            self.report.received += 1;
            self.report.round_trips.push((cx.now, cx.now - self.begun));
        }
        let _ = cx.host.tcp_close(cx.now, ready.socket);
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.attempt(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        cx.wake_at(Instant::FAR_FUTURE);
        self.report.finished.get_or_insert(cx.now);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
