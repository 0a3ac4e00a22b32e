//! Two hosts with a process each, run step by step. At the end everything is closed, the wire is repaired, and
//! nothing may be left.

use datapath::host::{Host, Offloads, PortConfig};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::{LinkHeader, MacAddr, Packet};
use datapath::socket::{Syscall, number};
use datapath::units::{Duration, Instant};

use super::pings::Pings;
use super::process::{CallContext, Process};
use super::step::Step;
use super::totals::Totals;
use super::translate::{v4_of, v6_of};
use super::watch::{Readiness, Watch};
use super::wire::{Event, Wires};
use super::{Case, sysctls, translate};
use crate::case::{Digest, Violation};

/// Two hosts and the wire between them.
pub struct Bench {
    now: Instant,
    hosts: [Host; 2],
    processes: [Process; 2],
    pings: [Pings; 2],
    watches: [Watch; 2],
    wires: Wires,
    totals: Totals,
    digest: Digest,
    /// What the hosts have said since the last step.
    work: u64,
    /// It is checked that readiness is reported: this takes time, so only in some cases.
    is_watched: bool,
    /// Packets that a device takes.
    room: i64,
    /// So long after the last close connections may stay.
    patience: Duration,
}

/// What a step may cost: a second's worth of packets of the fastest wire is far below.
const MOST_WORK: u64 = 2_000_000;
/// When the last trace of a connection must be gone on a healed wire with both ends closed: the
/// longest distance of retransmissions several times, FIN-WAIT-2 and TIME-WAIT.
const GONE_AFTER: Duration = Duration::from_secs(1_440);
/// Between two retransmissions at most (`TCP_RTO_MAX`).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How patient orphans are at the end. With few `tcp_retries2` probes of a closed window that are answered
/// never come to an end: an orphan gives up once the doubled RTO is two minutes, which takes 17 doublings
/// of 1 ms (`tcp_probe_timer`, `tcp_send_probe0`; `tcp_rto_min_us` may be 1).
const PATIENCE: [(&str, &str); 2] = [("tcp_orphan_retries", "0"), ("tcp_retries2", "24")];

impl Bench {
    /// Both hosts with nothing open but what a process begins with.
    pub fn new(case: &Case) -> Self {
        let hosts = [0, 1].map(|end| host(end, case));
        let processes = [Process::new(), Process::new()];
        let wires = Wires::new(case.wire, case.luck);
        let now = Instant::from_nanos(1);
        Self {
            now,
            hosts,
            processes,
            pings: <_>::default(),
            watches: <_>::default(),
            wires,
            totals: Totals::default(),
            digest: Digest::default(),
            work: 0,
            is_watched: case.luck.is_multiple_of(4),
            room: i64::from(case.wire.ring) + 1,
            patience: GONE_AFTER,
        }
    }

    /// Does one step.
    pub fn step(&mut self, number: usize, step: &Step) -> Result<(), Violation> {
        self.work = 0;
        match step {
            Step::Wait(micros) => {
                self.note_readiness()?;
                return self.run_until(self.now + Duration::from_micros(*micros));
            }
            Step::Ping(end, ipv6, place, len) => {
                let end = usize::from(*end);
                let remote = translate::ip(*place, *ipv6);
                let sent = self.pings[end].send(self.now, &mut self.hosts[end], remote, *len);
                self.digest.add(u64::from(sent));
            }
            Step::Sysctl(end, name, value) => {
                let told = self.hosts[usize::from(*end)].set_tcp_sysctl(name, value);
                if let Some(takes) = sysctls::accepts(name, value)
                    && takes != told.is_ok()
                {
                    let what = format!("{name} = {value} gave {told:?}, unlike the kernel");
                    return Err(Violation::new("sysctl ranges", format!("step {number}"), what));
                }
                if told.is_ok() {
                    self.note_patience(name, value);
                }
                self.digest.add(u64::from(told.is_ok()));
            }
            Step::Call(end, call) => {
                let syscall = translate::syscall(call, &self.processes[usize::from(*end)].model);
                self.note_deferral(&syscall);
                self.with_process(usize::from(*end), |process, judge| {
                    process.begin(judge, number, syscall)
                })?;
            }
            Step::Probe(end, which) => {
                self.with_process(usize::from(*end), |process, judge| {
                    process.probe(judge, number, *which)
                })?;
            }
        }
        self.run_until(self.now)
    }

    /// Orphans in FIN-WAIT-2 wait as long as they are told (`tcp_fin_time`), once as sockets and once more
    /// without (`tcp_keepalive_timer`, `tcp_time_wait`).
    fn note_patience(&mut self, name: &str, value: &str) {
        if name.ends_with("tcp_fin_timeout")
            && let Ok(seconds) = value.trim().parse()
        {
            self.wait_longer(Duration::from_secs(seconds) * 2);
        }
    }

    /// Where a listener waits for data, a request whose handshake is complete waits as well, for as many
    /// timeouts as it was told, up to 255 (`syn_ack_recalc`, `secs_to_retrans`).
    fn note_deferral(&mut self, syscall: &Syscall) {
        if let Syscall::SetOption {
            level: number::SOL_TCP, name: number::TCP_DEFER_ACCEPT, ..
        } = syscall
        {
            self.wait_longer(LONGEST_TIMEOUT * u64::from(u8::MAX));
        }
    }

    fn wait_longer(&mut self, by: Duration) {
        self.patience = self.patience.max(GONE_AFTER + by);
    }

    fn with_process(
        &mut self,
        end: usize,
        act: impl FnOnce(&mut Process, &mut CallContext<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let under_way = self.processes.iter().map(Process::bytes_in_flight);
        let under_way = under_way.fold(0, u64::saturating_add);
        let mut judge = CallContext {
            now: self.now,
            host: &mut self.hosts[end],
            totals: &mut self.totals,
            digest: &mut self.digest,
            under_way,
        };
        act(&mut self.processes[end], &mut judge)
    }

    /// Lets time pass.
    fn run_until(&mut self, until: Instant) -> Result<(), Violation> {
        self.run_due()?;
        let watches = until > self.now && self.is_watched;
        while let Some(at) = self.next_at().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.run_due()?;
            if watches {
                self.check_readiness()?;
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        let hosts = self.hosts.iter().filter_map(Host::wake_at);
        let deadlines = self.processes.iter().filter_map(Process::next_deadline);
        hosts.chain(deadlines).chain(self.wires.next_at()).min()
    }

    /// Everything that is due now, until nothing is.
    fn run_due(&mut self) -> Result<(), Violation> {
        loop {
            let mut busy = self.retry()?;
            while let Some(event) = self.wires.pop(self.now) {
                busy = true;
                match event {
                    Event::Sent(end, true) => self.hosts[end].credit(self.now, Port(0)),
                    Event::Sent(_, false) => {}
                    Event::Arrives(end, mut packet) => {
                        let rx = self.hosts[end].receive(self.now, Port(0), &mut packet);
                        assert_eq!(rx, Rx::Taken, "hosts pass nothing on");
                        self.check_accept_queues(end)?;
                    }
                }
            }
            for end in 0..2 {
                busy |= self.drain(end)?;
            }
            if !busy {
                return self.check_wake();
            }
        }
    }

    /// Hands calls that wait in again; true if one has come to an end.
    fn retry(&mut self) -> Result<bool, Violation> {
        let before = self.processes.iter().map(Process::waiting).sum::<usize>();
        for end in 0..2 {
            self.with_process(end, Process::retry)?;
        }
        Ok(self.processes.iter().map(Process::waiting).sum::<usize>() < before)
    }

    /// Hears all that a host has to say; true if there was something.
    fn drain(&mut self, end: usize) -> Result<bool, Violation> {
        let mut heard = false;
        let mut packet = Packet::default();
        loop {
            let said = self.hosts[end].poll(self.now, &mut packet);
            if matches!(said, Poll::Idle(_)) {
                break;
            }
            heard = true;
            self.work += 1;
            if self.work > MOST_WORK {
                let what = format!("more than {MOST_WORK} packets and wake-ups in one step");
                return Err(Violation::new("limits of work", self.now.as_micros(), what));
            }
            match said {
                Poll::Send { port, .. } => self.send(end, port, packet.take()),
                Poll::Drop(reason) => self.digest.add(reason as u64),
                Poll::Ready(ready) => {
                    self.digest.add(u64::from(ready.bits));
                    self.watches[end].on_ready(ready);
                }
                Poll::Event(_) | Poll::Idle(_) => {}
            }
            self.check_accept_queues(end)?;
        }
        self.check_accept_queues(end)?;
        let answers = self.pings[end].read(&mut self.hosts[end]);
        let answers = answers.map_err(|what| self.violation("echo replies", what))?;
        self.digest.add(answers);
        Ok(heard)
    }

    /// A device takes a packet.
    fn send(&mut self, end: usize, port: Port, packet: Packet) {
        let left = self.wires.transmit(self.now, end, packet);
        let knows = self.wires.promises() && self.hosts[end].credit_at(self.now, port, left);
        self.wires.on_sent(end, left, !knows);
    }

    fn violation(&self, oracle: &'static str, what: String) -> Violation {
        Violation::new(oracle, self.now.as_micros(), what)
    }

    fn check_accept_queues(&mut self, end: usize) -> Result<(), Violation> {
        let queues = self.processes[end].accept_queues(&self.hosts[end]);
        let kept = self.watches[end].accept_queues(&self.hosts[end], &queues);
        kept.map_err(|what| self.violation("accept queues", what))
    }

    /// From here on only the wire makes descriptors ready.
    fn note_readiness(&mut self) -> Result<(), Violation> {
        self.run_due()?;
        for end in 0..2 {
            let now = self.readiness(end)?;
            self.watches[end].restart(now);
        }
        Ok(())
    }

    fn check_readiness(&mut self) -> Result<(), Violation> {
        for end in 0..2 {
            let now = self.readiness(end)?;
            let kept = self.watches[end].readiness(now);
            kept.map_err(|what| self.violation("wake-ups", what))?;
        }
        Ok(())
    }

    /// What the descriptors of a process are ready for; none of them while calls wait, which change
    /// that themselves.
    fn readiness(&mut self, end: usize) -> Result<Readiness, Violation> {
        let mut readiness = Readiness::new();
        self.with_process(end, |process, judge| {
            readiness = process.readiness(judge);
            Ok(())
        })?;
        let said = self.hosts[end].poll(self.now, &mut Packet::default());
        assert!(matches!(said, Poll::Idle(_)), "observing changes nothing: {said:?}");
        Ok(readiness)
    }

    fn check_wake(&self) -> Result<(), Violation> {
        for (end, host) in self.hosts.iter().enumerate() {
            if let Some(at) = host.wake_at().filter(|at| *at <= self.now) {
                let what = format!("host {end} has nothing to do, and wants to be woken at {at:?}");
                return Err(Violation::new("wake-up later than now", self.now.as_micros(), what));
            }
        }
        Ok(())
    }

    /// Closes everything, heals the wire, and looks at what is left.
    pub fn wind_up(&mut self) -> Result<(), Violation> {
        self.wires.repair();
        for end in 0..2 {
            // Whose peer believes none of his segments, or never opens its window, gives up when his
            // patience ends.
            for (name, value) in PATIENCE {
                self.hosts[end].set_tcp_sysctl(name, value).expect("its default");
            }
            self.with_process(end, Process::close_all_but_listeners)?;
        }
        self.is_watched = false;
        for end in 0..2 {
            self.pings[end].close(&mut self.hosts[end]);
        }
        self.wait_for_listeners_only()?;
        for end in 0..2 {
            self.with_process(end, Process::close_all)?;
        }
        self.wait_for_listeners_only()?;
        self.check_credits()?;
        self.digest.add(self.now.as_nanos());
        Ok(())
    }

    /// Whoever connects in the meantime is accepted and closed.
    fn wait_for_listeners_only(&mut self) -> Result<(), Violation> {
        let deadline = self.now + self.patience;
        self.run_until(self.now)?;
        while !self.has_listeners_only() {
            self.work = 0;
            let Some(at) = self.next_at().filter(|at| *at <= deadline) else {
                return Err(Violation::new("nothing is left", "the end", self.remaining_sockets()));
            };
            self.run_until(at)?;
            for end in 0..2 {
                self.with_process(end, Process::dismiss_all)?;
            }
        }
        Ok(())
    }

    /// Once nothing is under way, the devices have all of their room.
    fn check_credits(&mut self) -> Result<(), Violation> {
        while let Some(at) = self.wires.next_at() {
            self.run_until(at)?;
        }
        for host in &self.hosts {
            let room = host.port(Port(0)).room();
            if room != self.room {
                let what = format!("room for {room} packets of {}", self.room);
                return Err(self.violation("credits", what));
            }
        }
        Ok(())
    }

    fn has_listeners_only(&self) -> bool {
        self.hosts.iter().zip(&self.processes).all(|(host, process)| {
            host.sockets.len() == process.model.listeners().len() && host.sockets.leaving() == 0
        })
    }

    fn remaining_sockets(&self) -> String {
        let of = |host: &Host| {
            let tcp: Vec<String> = host
                .tcp_sockets()
                .map(|(local, remote, state)| format!("{local} {remote} {state:?}"))
                .collect();
            let (open, leaving) = (host.sockets.len(), host.sockets.leaving());
            format!("{open} sockets, {leaving} with packets under way [{}]", tcp.join(", "))
        };
        format!("left: {}; {}", of(&self.hosts[0]), of(&self.hosts[1]))
    }

    /// What could be seen.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.processes.iter().map(|process| process.calls).sum()
    }
}

fn host(end: u8, case: &Case) -> Host {
    let mut host = Host::new();
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let port = host.add_port(PortConfig {
        addresses: vec![(v4_of(end).into(), 24), (v6_of(end).into(), 64)],
        link: LinkHeader::Ethernet { src: mac(end), dst: mac(1 - end) },
        offloads: Offloads { gso: case.wire.gro, tso: false, gro: case.wire.gro },
        ..PortConfig::default()
    });
    // A device that makes promises takes what follows in the same chain, too.
    host.set_xmit_more(port, case.wire.promises);
    host.grant(Instant::ZERO, port, u32::from(case.wire.ring) + 1);
    host
}
