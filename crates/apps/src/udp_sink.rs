//! The far end of UDP senders: one that only counts, and one that sends everything back.

use crate::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::node::SocketReady;

/// Reads and counts datagrams.
#[derive(Debug)]
pub struct UdpSink {
    local: SocketAddr,
    report: AppReport,
}

/// Sends each datagram back to where it came from (RFC 862).
#[derive(Debug)]
pub struct UdpEcho {
    local: SocketAddr,
    tos: u8,
    report: AppReport,
}

impl UdpSink {
    /// A sink at `local`.
    pub fn new(local: SocketAddr) -> Self {
        Self { local, report: AppReport::default() }
    }
}

impl UdpEcho {
    /// An echo server at `local`.
    pub fn new(local: SocketAddr) -> Self {
        Self { local, tos: 0, report: AppReport::default() }
    }

    /// Sets the DSCP and ECN byte of the answers.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }
}

impl App for UdpSink {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        cx.udp_bind(self.local, 0);
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        while let Some(datagram) = cx.datagram_read(ready.socket).expect("is open") {
            self.report.received += 1;
            self.report.receive(cx.now, u64::from(datagram.body.len));
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }

    fn received_bytes(&self) -> u64 {
        self.report.received_bytes
    }
}

impl App for UdpEcho {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        cx.udp_bind(self.local, self.tos);
        self.report.started = Some(cx.now);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        while let Some(datagram) = cx.datagram_read(ready.socket).expect("is open") {
            self.report.received += 1;
            self.report.receive(cx.now, u64::from(datagram.body.len));
            if cx.udp_send(ready.socket, datagram.from, datagram.body.clone()).is_ok() {
                self.report.sent += 1;
                self.report.sent_bytes += u64::from(datagram.body.len);
            }
        }
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
