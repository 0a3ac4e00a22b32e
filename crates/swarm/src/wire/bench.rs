//! The host, driven by its law, and the observer on its wire.

use core::net::IpAddr;
use std::collections::VecDeque;

use datapath::host::{Host, Offloads, PortConfig, SocketId};
use datapath::node::Port;
use datapath::packet::LinkHeader;
use datapath::profile::Profile;
use datapath::socket::Sockets;
use datapath::tcp::TcpConfig;
use datapath::tcp::state::State;
use datapath::units::{Duration, Instant};

use super::mtu::{PathMtuChange, possible_mtu};
use super::{Setup, Step};
use crate::case::{BrokenLaw, Digest};
use crate::oracle::tcp::ObservedFlow;

/// Port of the listener.
pub(super) const LISTENER: u16 = 8080;
/// Port of the peer to which the host connects.
pub(super) const SERVER: u16 = 80;
/// First port of the peer's own flows.
pub(super) const CLIENT: u16 = 40_000;
/// Outputs that one input may bring about.
pub(super) const MAX_OUTPUTS: u32 = 20_000;
/// Times that a host may want to be called in one wait, and more for each second of it.
pub(super) const MAX_WAKES: u64 = 5_000;
/// Connections and listeners that may be there.
pub(super) const MAX_SOCKETS: usize = 2_000;

/// Sysctls that decide what is sent when.
const TELLING: [&str; 11] = [
    "tcp_recovery",
    "tcp_mtu_probing",
    "tcp_reordering",
    "tcp_max_reordering",
    "tcp_notsent_lowat",
    "tcp_min_tso_segs",
    "tcp_limit_output_bytes",
    "tcp_early_retrans",
    "tcp_base_mss",
    "tcp_min_snd_mss",
    "tcp_autocorking",
];

/// A host under test.
pub(super) struct Bench {
    pub now: Instant,
    pub host: Host,
    pub sockets: Sockets,
    /// Its open sockets and the flow of each.
    pub open: Vec<(i32, Option<usize>)>,
    pub flows: Vec<ObservedFlow>,
    pub digest: Digest,
    /// Flows of which the host has sent something that a peer would answer.
    pub to_answer: Vec<usize>,
    /// Flows whose latest segment was a bare ACK, in the order of sending, since the last input.
    pub bare_acks: Vec<usize>,
    pub answered_at: Vec<(usize, Instant)>,
    pub device: VecDeque<Instant>,
    pub busy: Duration,
    pub port: Port,
    pub tso: bool,
    pub gro: bool,
    pub ipv6: bool,
    pub max_mtu: u32,
    pub addresses: [IpAddr; 2],
    pub fresh: u16,
    pub handed_in: u64,
    pub sent: u64,
    pub id: u16,
    /// Somebody has set a key: honest segments are signed, and others fail.
    pub signs: bool,
    /// The MTU has never changed.
    pub one_mtu: bool,
    /// What the route says about it, if that has changed.
    pub rerouted: Option<PathMtuChange>,
    /// The largest value that `tcp_min_snd_mss` has had.
    pub lowest_mss: u32,
    /// Sockets whose writers wait for memory, and what was acknowledged when they began to.
    pub writers: Vec<(SocketId, u64)>,
    /// The sysctls that bear on what is sent when are what they are by default.
    pub by_default: bool,
    /// The kernel has RACK and proportional rate reduction.
    pub modern: bool,
    /// Accurate ECN or DCTCP may be in use.
    pub other_ecn: bool,
    /// Somebody has asked for Fast Open.
    pub fast_open: bool,
}

impl Bench {
    pub fn new(setup: &Setup) -> Self {
        let addresses = addresses(setup.ipv6);
        let has = |name: &str| setup.offloads.iter().any(|it| it == name);
        let mut host = Host::new();
        let mtu = possible_mtu(setup.ipv6, setup.mtu);
        let port = host.add_port(PortConfig {
            mtu,
            addresses: vec![(addresses[0], if setup.ipv6 { 64 } else { 24 })],
            link: LinkHeader::None,
            offloads: Offloads { gso: has("gso"), tso: has("tso"), gro: has("gro") },
            orphans: has("orphans"),
            ..PortConfig::default()
        });
        let profile = Profile::by_name(&setup.profile).unwrap_or_default();
        host.set_tcp_defaults(TcpConfig::for_profile(profile));
        let mut bench = Self {
            now: START,
            host,
            sockets: Sockets::new(),
            open: Vec::new(),
            flows: Vec::new(),
            digest: Digest::default(),
            to_answer: Vec::new(),
            bare_acks: Vec::new(),
            answered_at: Vec::new(),
            device: VecDeque::new(),
            busy: Duration::from_micros(setup.busy_us),
            port,
            tso: has("tso"),
            gro: has("gro"),
            ipv6: setup.ipv6,
            max_mtu: mtu,
            addresses,
            fresh: 0,
            handed_in: 0,
            sent: 0,
            id: 0,
            signs: false,
            other_ecn: false,
            fast_open: false,
            one_mtu: true,
            rerouted: None,
            lowest_mss: 0,
            writers: Vec::new(),
            by_default: true,
            modern: setup.profile != "linux-2.6.22",
        };
        for words in &setup.sysctls {
            bench.sysctl(words);
        }
        bench.host.grant(bench.now, port, 1);
        bench
    }

    /// The time, for reports.
    pub fn clock(&self) -> String {
        let micros = (self.now.as_nanos() - START.as_nanos()) / 1_000;
        format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
    }

    pub fn step(&mut self, step: &Step) -> Result<(), BrokenLaw> {
        self.perform(step)?;
        self.check_states()?;
        self.check_writers()
    }

    fn perform(&mut self, step: &Step) -> Result<(), BrokenLaw> {
        match step {
            Step::Wait(micros) => self.pass(Duration::from_micros(*micros)),
            Step::Timer(times) => (0..*times).try_for_each(|_| self.next_timer()),
            Step::Segment(segment) => self.segment(segment),
            Step::Tunnelled(protocol, segment) => self.tunnelled(*protocol, segment),
            Step::Icmp(icmp) => self.icmp(icmp),
            Step::Call(call) => self.call(call),
            Step::Sysctl(words) => {
                self.sysctl(words);
                self.drain_output()
            }
            Step::Mtu(mtu) => {
                self.set_mtu(*mtu);
                self.drain_output()
            }
            Step::RouteMtu(mtu) => {
                self.set_route_mtu(*mtu);
                self.drain_output()
            }
        }
    }

    fn sysctl(&mut self, words: &str) {
        if let Some((name, value)) = words.split_once('=') {
            self.by_default &= !TELLING.iter().any(|end| name.ends_with(end));
            if name.ends_with("tcp_window_scaling") {
                self.flows.iter_mut().for_each(|flow| flow.offered.ambiguous());
            }
            self.other_ecn |= value == "dctcp";
            self.other_ecn |= name.ends_with("tcp_ecn") && !matches!(value, "0" | "1" | "2");
            // One that is refused changes nothing.
            let _ = self.host.set_tcp_sysctl(name, value);
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) -> Result<(), BrokenLaw> {
        let until = self.now + time;
        let limit = MAX_WAKES + MAX_WAKES * time.as_millis() / 1_000;
        let mut wakes = 0;
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.advance(at)?;
            self.check_due()?;
            wakes += 1;
            if wakes > limit {
                let what = format!("it wanted to be called {wakes} times in {time:?}");
                return Err(("limits", what));
            }
        }
        self.now = until;
        self.drain_output()?;
        self.check_due()
    }

    /// No ACK is overdue.
    fn check_due(&mut self) -> Result<(), BrokenLaw> {
        let quiet = self.device.is_empty();
        for at in 0..self.flows.len() {
            // What finds no room in the receive buffer is dropped without an ACK before Linux 6.7.
            let judged = self
                .connection(at)
                .is_some_and(|tcp| tcp.state() == State::Established && tcp.rcvbuf() >= 65_536);
            if !quiet || !judged {
                self.flows[at].taken.released();
            }
            self.flows[at].taken.check_due(self.now.as_millis())?;
        }
        Ok(())
    }

    fn next_timer(&mut self) -> Result<(), BrokenLaw> {
        match self.next_event() {
            Some(at) => self.advance(at),
            None => Ok(()),
        }
    }

    /// When something happens by itself.
    pub fn next_event(&self) -> Option<Instant> {
        let device = self.device.front().copied();
        self.host.wake_at().into_iter().chain(device).min()
    }

    pub fn advance(&mut self, to: Instant) -> Result<(), BrokenLaw> {
        self.now = self.now.max(to);
        while self.device.pop_front_if(|at| *at <= self.now).is_some() {
            self.host.credit(self.now, self.port);
        }
        self.drain_output()
    }
}

fn addresses(ipv6: bool) -> [IpAddr; 2] {
    let last = |last: u8| {
        if ipv6 {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
        } else {
            IpAddr::from([10, 0, 0, last])
        }
    };
    [last(1), last(2)]
}

/// Where the clock stands at first.
const START: Instant = Instant::from_nanos(1_000_000_250_000);
