//! What a congestion module with a `cong_control` is told and may do, by a transfer over a path of
//! 10 Mbit/s and 20 ms.

use super::*;
use crate::tcp::cc::rate_based::RateBased;
use crate::tcp::cc::{CwndEvent, Window};
use crate::tcp::{Connection, Cx, TcpConfig};
use crate::trace::CaState;
use crate::units::{Bytes, Rate};
use std::collections::BTreeMap;

const ONE_WAY: Duration = Duration::from_millis(10);
/// Payload that the path carries in a second, bytes: of 1,514 bytes on the wire 1,448 are data.
const GOODPUT: u64 = 10_000_000 / 8 * 1_448 / 1_514;

/// A sender, a receiver, and a line between them.
struct Path {
    hosts: [Host; 2],
    now: Instant,
    /// When each line is free again, and what is told to the host then.
    busy: [Option<Instant>; 2],
    flying: BTreeMap<(Instant, u64), (usize, Packet)>,
    count: u64,
    socket: SocketId,
    accepted: Option<SocketId>,
    /// Bytes that the application still has.
    left: u64,
    /// Data packets by number that do not arrive.
    lost: core::ops::Range<u64>,
    /// Nothing arrives before this.
    held_until: Instant,
    data_packets: u64,
    longest: u16,
}

impl Path {
    fn new(config: &TcpConfig) -> Self {
        let [mut sender, mut receiver] = ["10.0.0.1", "10.0.0.2"].map(|address| {
            let mut host = Host::new();
            host.add_port(port_with(address));
            host.grant(ms(1), Port(0), 1);
            host
        });
        receiver.tcp_listen(ms(1), at("10.0.0.2:80"), &TcpConfig::default());
        let (local, remote) = (at("10.0.0.1:4000"), at("10.0.0.2:80"));
        let socket = sender.tcp_connect(ms(1), local, remote, config).expect("a port is free");
        sender.with_tcp(ms(1), socket, Connection::steer_by_rate).expect("open");
        Self {
            hosts: [sender, receiver],
            now: ms(1),
            busy: [None; 2],
            flying: BTreeMap::new(),
            count: 0,
            socket,
            accepted: None,
            left: u64::MAX,
            lost: 0..0,
            held_until: Instant::ZERO,
            data_packets: 0,
            longest: 0,
        }
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            self.applications();
            (0..2).for_each(|side| self.pump(side));
            let wakes = self.hosts.iter().filter_map(Host::wake_at);
            let lines = self.busy.iter().flatten().copied();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = wakes.chain(lines).chain(arrival).min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            for side in 0..2 {
                if self.busy[side].take_if(|at| *at <= self.now).is_some() {
                    self.hosts[side].credit(self.now, Port(0));
                }
            }
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, packet) = entry.remove();
                receive(&mut self.hosts[to], self.now, packet);
            }
        }
    }

    fn applications(&mut self) {
        let [sender, receiver] = &mut self.hosts;
        if self.left > 0 {
            self.left -= sender.tcp_write(self.now, self.socket, self.left).expect("open");
        }
        if let Some(socket) = self.accepted {
            receiver.tcp_read(self.now, socket, u64::MAX).expect("open");
        }
    }

    fn pump(&mut self, side: usize) {
        let mut place = Packet::default();
        loop {
            match self.hosts[side].poll(self.now, &mut place) {
                Poll::Idle(_) => return,
                Poll::Send { .. } => self.transmit(side, place.take()),
                Poll::Ready(ready) if side == 1 => {
                    self.accepted.get_or_insert(ready.socket);
                    if let Ok(Some(socket)) = self.hosts[1].tcp_accept(ready.socket) {
                        self.accepted = Some(socket);
                    }
                }
                _ => {}
            }
        }
    }

    fn transmit(&mut self, side: usize, packet: Packet) {
        let end = self.now + Rate::from_mbit(10).time_to_send(Bytes(packet.len()));
        let gso_segs = packet.meta.gso_segs;
        assert!(self.busy[side].replace(end).is_none(), "one packet a credit");
        if side == 0 && packet.body.len > 0 {
            self.longest = self.longest.max(gso_segs);
            self.data_packets += 1;
            if self.lost.contains(&self.data_packets) {
                return;
            }
        }
        self.count += 1;
        let arrival = (end + ONE_WAY).max(self.held_until);
        self.flying.insert((arrival, self.count), (1 - side, packet));
    }

    fn module(&mut self) -> RateBased {
        let of = |tcp: &mut Connection, _: &mut Cx<'_>| tcp.rate_based().clone();
        self.hosts[0].with_tcp(self.now, self.socket, of).expect("a connection")
    }

    fn with_module(&mut self, act: impl FnOnce(&mut RateBased)) {
        let changed = self.hosts[0].with_tcp(self.now, self.socket, |tcp, _| act(tcp.rate_based()));
        changed.expect("open");
    }

    fn window(&self) -> Window {
        self.connection().window()
    }

    fn connection(&self) -> &Connection {
        self.hosts[0].tcp_connection(self.socket).expect("a connection")
    }
}

fn is_near(value: u64, expected: u64) -> bool {
    value.abs_diff(expected) * 20 <= expected
}

/// Window and pacing rate are what the module says, and TCP paces though no `fq` does.
#[test]
fn it_finds_the_rate_of_the_path_and_keeps_the_queue_short() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(4_000));
    let module = path.module();
    assert!(module.path_is_full() && is_near(module.rate, GOODPUT), "{} byte/s", module.rate);
    assert_eq!(path.window().pacing_rate, module.rate);
    assert!(path.hosts[0].port(Port(0)).backlog().packets <= 2, "paced, so nothing waits");
    assert!(path.connection().flight() < path.window().snd_cwnd, "the rate limits");
    assert!(module.iss.is_some());
    let steady = module.samples.last().expect("many");
    assert!(!steady.is_app_limited && !steady.is_retrans && steady.prior_in_flight > 0);
    assert_eq!(steady.interval_us, steady.send_interval_us.max(steady.ack_interval_us));
}

/// The first flight counts as application-limited until the first ACK, then what is sent into an
/// empty pipe does; idle times neither shrink the window nor let the known rate be forgotten.
#[test]
fn app_limited_phases_are_reported() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(3_000));
    path.left = 0;
    path.run_until(ms(4_000));
    let (before, known) = (path.window(), path.module());
    path.with_module(|module| (module.samples.clear(), module.events.clear()).0);
    for burst in 0..3 {
        path.left = 1_000;
        path.run_until(ms(4_000 + (burst + 1) * 5_000));
    }
    let module = path.module();
    assert_eq!(module.events, [CwndEvent::TxStart; 3]);
    assert_eq!(module.samples.len(), 3);
    assert!(module.samples[1..].iter().all(|sample| sample.is_app_limited));
    assert_eq!(module.rate, known.rate);
    assert_eq!(path.window().snd_cwnd, before.snd_cwnd);
}

/// Recovery repairs, and leaves the window alone.
#[test]
fn a_loss_does_not_reduce_its_window() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(3_000));
    let (before, known) = (path.window(), path.module());
    path.lost = path.data_packets + 5..path.data_packets + 6;
    path.run_until(ms(3_500));
    let module = path.module();
    assert_eq!(module.states[known.states.len()..].last(), Some(&CaState::Open));
    assert!(module.states[known.states.len()..].contains(&CaState::Recovery));
    assert_eq!(module.reductions, 1);
    assert!(!module.events.contains(&CwndEvent::CompleteCwr));
    let of_recovery = &module.samples[known.samples.len()..];
    assert!(of_recovery.iter().map(|sample| sample.losses).sum::<u32>() > 0);
    assert!(of_recovery.iter().any(|sample| sample.is_retrans));
    assert!(is_near(path.window().snd_cwnd.into(), before.snd_cwnd.into()));
}

/// A second of silence: a timeout, found to have been spurious.
#[test]
fn a_spurious_timeout_is_reported_and_undone() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(3_000));
    path.held_until = ms(4_000);
    path.run_until(ms(5_000));
    let module = path.module();
    assert!(module.events.contains(&CwndEvent::Loss) && module.states.contains(&CaState::Loss));
    assert_eq!(module.undone, 1);
    path.run_until(ms(7_000));
    assert!(is_near(path.module().rate, GOODPUT));
}

/// `SO_MAX_PACING_RATE` binds it, and super-packets are as short as it says.
#[test]
fn the_applications_limit_is_kept() {
    let config = TcpConfig { max_pacing_rate: 125_000, ..TcpConfig::default() };
    let mut path = Path::new(&config);
    path.run_until(ms(1_000));
    path.longest = 0;
    let before = path.connection().bytes_acked();
    path.run_until(ms(5_000));
    assert_eq!(path.window().pacing_rate, 125_000);
    let rate = (path.connection().bytes_acked() - before) / 4;
    assert!(is_near(rate, 125_000), "{rate} byte/s");
    assert_eq!(path.longest, 1, "`min_tso_segs` says one, the sysctl two");
}

/// The send buffer holds three windows.
#[test]
fn the_send_buffer_grows_as_it_says() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(3_000));
    let (sndbuf, cwnd) = (path.connection().sndbuf(), path.module().largest_cwnd);
    let per_segment = 4_096 + 256;
    assert!(sndbuf > 2 * cwnd * per_segment && sndbuf <= 3 * cwnd * per_segment, "{sndbuf}");
}

/// A flight that the module keeps small tells nothing of the path.
#[test]
fn it_may_mark_its_own_samples_as_limited() {
    let mut path = Path::new(&TcpConfig::default());
    path.run_until(ms(3_000));
    path.with_module(|module| module.rest = true);
    path.run_until(ms(3_300));
    assert_eq!(path.window().snd_cwnd, 4);
    assert!(path.connection().flight() <= 4);
    assert!(path.module().samples.last().is_some_and(|sample| sample.is_app_limited));
    path.with_module(|module| module.rest = false);
    path.run_until(ms(4_000));
    assert!(path.module().samples.last().is_some_and(|sample| !sample.is_app_limited));
}
