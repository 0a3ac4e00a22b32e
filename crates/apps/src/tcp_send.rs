//! TCP senders: bulk, fixed size, chunk and gap, on and off. One program with four settings.

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::sync::Arc;

/// Connects, writes as its settings say, and shuts down after the last byte. It is finished when
/// the peer has closed as well.
#[derive(Debug)]
pub struct TcpSend {
    local: SocketAddr,
    remote: SocketAddr,
    config: Arc<TcpConfig>,
    limit: u64,
    chunk: u64,
    gap: Duration,
    on_off: Option<(Duration, Duration)>,
    socket: Option<SocketId>,
    phase: Phase,
    /// What is left of the chunk that is being written.
    chunk_left: u64,
    /// When that one began.
    chunk_began: Instant,
    report: AppReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Writes whenever there is room.
    Writing,
    /// Sleeps until its timer comes up.
    Resting,
    /// Has shut down.
    Closing,
    /// Has seen the end of the connection.
    Closed,
}

/// What one `write` call is given, unless said otherwise: 64 KiB.
const CHUNK: u64 = 64 * 1024;

impl TcpSend {
    /// Writes 64 KiB at a time without end, as fast as the connection takes it.
    pub fn bulk(local: SocketAddr, remote: SocketAddr, config: TcpConfig) -> Self {
        Self {
            local,
            remote,
            config: config.shared(),
            limit: u64::MAX,
            chunk: CHUNK,
            gap: Duration::ZERO,
            on_off: None,
            socket: None,
            phase: Phase::Writing,
            chunk_left: 0,
            chunk_began: Instant::ZERO,
            report: AppReport::default(),
        }
    }

    /// Ends after that many bytes.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Writes chunks of `size` bytes that begin `gap` apart, or one after the other where a chunk
    /// takes longer than that.
    pub fn chunks(mut self, size: u64, gap: Duration) -> Self {
        assert!(size > 0, "a chunk has at least one byte");
        (self.chunk, self.gap) = (size, gap);
        self
    }

    /// Writes for `on`, then sleeps for `off`, and so on.
    pub fn on_off(mut self, on: Duration, off: Duration) -> Self {
        assert!(on > Duration::ZERO, "an application that is never on sends nothing");
        self.on_off = Some((on, off));
        self
    }

    fn write(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        while self.phase == Phase::Writing {
            if self.chunk_left == 0 {
                self.chunk_left = self.chunk.min(self.limit - self.report.sent_bytes);
                self.chunk_began = cx.now;
            }
            if self.chunk_left == 0 {
                return self.shut_down(cx, socket);
            }
            let taken = cx.tcp_write(socket, self.chunk_left);
            if taken == 0 {
                return;
            }
            self.chunk_left -= taken;
            self.report.sent_bytes += taken;
            if self.chunk_left == 0 {
                self.report.sent += 1;
                self.rest_after_chunk(cx);
            }
        }
    }

    fn rest_after_chunk(&mut self, cx: &mut AppCx<'_>) {
        let next = self.chunk_began + self.gap;
        if next > cx.now && self.report.sent_bytes < self.limit {
            self.phase = Phase::Resting;
            cx.wake_at(next);
        }
    }

    fn shut_down(&mut self, cx: &mut AppCx<'_>, socket: SocketId) {
        self.phase = Phase::Closing;
        cx.wake_at(Instant::FAR_FUTURE);
        let _ = cx.host.tcp_shutdown(cx.now, socket);
    }

    fn read(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        while self.phase != Phase::Closed {
            match cx.tcp_read(socket, u64::MAX) {
                TcpRead::Data(bytes) => self.report.receive(cx.now, bytes),
                TcpRead::WouldBlock => return,
                TcpRead::Eof | TcpRead::Reset => {
                    self.phase = Phase::Closed;
                    cx.wake_at(Instant::FAR_FUTURE);
                    self.report.finished = Some(cx.now);
                    let _ = cx.host.tcp_close(cx.now, socket);
                }
            }
        }
    }
}

impl App for TcpSend {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        let opened = cx.host.tcp_connect(cx.now, self.local, self.remote, &self.config);
        let Ok(socket) = opened else {
            // No port is free: it has failed at once.
            self.phase = Phase::Closed;
            self.report.finished = Some(cx.now);
            return;
        };
        cx.own(socket);
        self.socket = Some(socket);
        self.report.socket = Some(socket);
        if let Some((on, _)) = self.on_off {
            cx.wake_at(cx.now + on);
        }
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if ready.bits & SocketReady::WRITABLE != 0 {
            self.write(cx);
        }
        if ready.bits & !SocketReady::WRITABLE != 0 {
            self.read(cx);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        match (self.phase, self.on_off) {
            (Phase::Writing, Some((_, off))) => {
                self.phase = Phase::Resting;
                cx.wake_at(cx.now + off);
            }
            (Phase::Resting, on_off) => {
                self.phase = Phase::Writing;
                if let Some((on, _)) = on_off {
                    cx.wake_at(cx.now + on);
                }
                self.write(cx);
            }
            _ => {}
        }
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        if let Some(socket) = self.socket
            && matches!(self.phase, Phase::Writing | Phase::Resting)
        {
            self.shut_down(cx, socket);
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }

    fn socket(&self) -> Option<SocketId> {
        self.report.socket
    }
}
