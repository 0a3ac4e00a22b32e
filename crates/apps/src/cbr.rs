//! Constant bit rate: one UDP datagram after the other at a fixed interval.

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::SocketId;
use datapath::packet::Body;
use datapath::units::{Duration, Instant};

/// Sends datagrams of one size at one interval, whatever happens to them.
#[derive(Debug)]
pub struct Cbr {
    local: SocketAddr,
    remote: SocketAddr,
    size: u32,
    interval: Duration,
    tos: u8,
    socket: Option<SocketId>,
    next: Instant,
    report: AppReport,
}

impl Cbr {
    /// Datagrams with `size` bytes of payload from `local` to `remote`, one every `interval`.
    pub fn new(local: SocketAddr, remote: SocketAddr, size: u32, interval: Duration) -> Self {
        assert!(interval > Duration::ZERO, "datagrams need some time between them");
        Self {
            local,
            remote,
            size,
            interval,
            tos: 0,
            socket: None,
            next: Instant::ZERO,
            report: AppReport::default(),
        }
    }

    /// Sets the DSCP and ECN byte of the datagrams.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    fn send(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        let body = Body { offset: self.report.sent as u32, ..Body::of_len(self.size) };
        if cx.udp_send(socket, self.remote, body).is_ok() {
            self.report.sent += 1;
            self.report.sent_bytes += u64::from(self.size);
        }
        self.next += self.interval;
        cx.wake_at(self.next);
    }
}

impl App for Cbr {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.socket = Some(cx.udp_bind(self.local, self.tos));
        self.report.started = Some(cx.now);
        self.next = cx.now;
        self.send(cx);
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.send(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        cx.wake_at(Instant::FAR_FUTURE);
        self.report.finished = Some(cx.now);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
