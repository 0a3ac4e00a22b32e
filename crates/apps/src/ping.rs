//! Round-trip probes: ICMP echo, or UDP to an echo server.
//!
//! Datagrams leave at exact intervals. Echo requests leave as those of iputils' ping, which counts
//! whole milliseconds: after an answer it waits for what seems to be left of the interval, so that
//! the next request comes later by the fraction of a millisecond that the answer had. Its requests
//! drift through the phases of whatever else happens at regular times.

use crate::{App, AppCx, AppReport};
use core::net::{IpAddr, SocketAddr};
use datapath::host::SocketId;
use datapath::node::SocketReady;
use datapath::packet::Body;
use datapath::units::{Duration, Instant};
use std::collections::VecDeque;

/// Sends a probe at every interval and times the answers.
#[derive(Debug)]
pub struct Ping {
    protocol: Protocol,
    size: u32,
    interval: Duration,
    tos: u8,
    socket: Option<SocketId>,
    next: Instant,
    latest: Instant,
    /// Probes without an answer so far: their number and when they left.
    waiting: VecDeque<(u16, Instant)>,
    report: AppReport,
}

#[derive(Debug)]
enum Protocol {
    Icmp(IpAddr),
    Udp { local: SocketAddr, remote: SocketAddr },
}

/// Probes that are remembered without an answer; older ones count as lost.
const WAITING_MAX: usize = 4096;
/// Shorter waits ping does not sleep through; it looks at the clock until they are over.
const SHORT_WAIT: Duration = Duration::from_millis(10);

impl Ping {
    /// ICMP echo requests with `size` bytes of payload to `remote`.
    pub fn icmp(remote: IpAddr, size: u32, interval: Duration) -> Self {
        Self::new(Protocol::Icmp(remote), size, interval)
    }

    /// Datagrams from `local` to an echo server at `remote`.
    pub fn udp(local: SocketAddr, remote: SocketAddr, size: u32, interval: Duration) -> Self {
        Self::new(Protocol::Udp { local, remote }, size, interval)
    }

    /// Sets the DSCP and ECN byte of the probes (`ping -Q`).
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    fn new(protocol: Protocol, size: u32, interval: Duration) -> Self {
        assert!(interval > Duration::ZERO, "probes need some time between them");
        Self {
            protocol,
            size,
            interval,
            tos: 0,
            socket: None,
            next: Instant::ZERO,
            latest: Instant::ZERO,
            waiting: VecDeque::new(),
            report: AppReport::default(),
        }
    }

    fn send(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        let number = self.report.sent as u16;
        let sent = match self.protocol {
            Protocol::Icmp(remote) => {
                cx.host.ping_send(cx.now, socket, remote, number, self.size, self.tos)
            }
            Protocol::Udp { remote, .. } => {
                let body = Body { offset: u32::from(number), ..Body::of_len(self.size) };
                cx.udp_send(socket, remote, body)
            }
        };
        if sent.is_ok() {
            if self.waiting.len() == WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back((number, cx.now));
            self.report.sent += 1;
            self.report.sent_bytes += u64::from(self.size);
        }
        self.latest = cx.now;
        self.next += self.interval;
        cx.wake_at(self.next);
    }

    /// An answer has come: ping looks at the clock (`pinger`, `main_loop`).
    fn read_clock(&mut self, cx: &mut AppCx<'_>) {
        let waited = Duration::from_millis((cx.now - self.latest).as_millis());
        if self.next > cx.now && waited + SHORT_WAIT < self.interval {
            self.next = cx.now + (self.interval - waited);
            cx.wake_at(self.next);
        }
    }
}

impl App for Ping {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        let socket = match self.protocol {
            Protocol::Icmp(_) => cx.host.ping_open(cx.now),
            Protocol::Udp { local, .. } => cx.udp_bind(local, self.tos),
        };
        cx.own(socket);
        self.socket = Some(socket);
        self.report.started = Some(cx.now);
        self.next = cx.now;
        self.send(cx);
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        while let Some(answer) = cx.datagram_read(ready.socket).expect("is open") {
            let number = match self.protocol {
                Protocol::Icmp(_) => answer.sequence.unwrap_or_default(),
                Protocol::Udp { .. } => AppCx::label_of(&answer.body) as u16,
            };
            let Some(place) = self.waiting.iter().position(|(sent, _)| *sent == number) else {
                continue;
            };
            let (_, sent_at) = self.waiting.remove(place).expect("found there");
            self.report.received += 1;
            self.report.receive(answer.at, u64::from(answer.body.len));
            self.report.round_trips.push((answer.at, answer.at - sent_at));
        }
        if matches!(self.protocol, Protocol::Icmp(_)) {
            self.read_clock(cx);
        }
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.send(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        self.next = Instant::ZERO;
        cx.wake_at(Instant::FAR_FUTURE);
        self.report.finished = Some(cx.now);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}
