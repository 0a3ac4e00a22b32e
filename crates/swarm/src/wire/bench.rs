//! The host, turned by its law, and the listener on its wire.

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;
use std::collections::VecDeque;

use datapath::host::{Host, Offloads, PortConfig};
use datapath::node::{Done, Node as _, Output, Port};
use datapath::packet::{Link, Packet};
use datapath::profile::Profile;
use datapath::socket::{Call as Waiting, Errno, Return, Sockets, Syscall, number};
use datapath::tcp::TcpConfig;
use datapath::tcp::state::State;
use datapath::units::{Duration, Instant};

use super::calls::{Call, KEY};
use super::icmp::Icmp;
use super::segment::{Damage, Ends, Segment, in_ip, packets, set_checksum};
use super::{Setup, Step};
use crate::case::Digest;
use crate::oracle::frame::{self, Content, Options, flag, sum};
use crate::oracle::tcp::{Broken, Flow, after};

/// Port of the listener.
const LISTENER: u16 = 8080;
/// Port of the peer to which the host connects.
const SERVER: u16 = 80;
/// First port of the peer's own flows.
const CLIENT: u16 = 40_000;
/// Outputs that one input may bring about.
const MAX_OUTPUTS: u32 = 20_000;
/// Times that a host may want to be called in one wait, and more for each second of it.
const MAX_WAKES: u64 = 5_000;
/// Connections and listeners that may be there.
const MAX_SOCKETS: usize = 2_000;

/// A host under test.
pub(super) struct Bench {
    pub now: Instant,
    pub host: Host,
    pub sockets: Sockets,
    /// Its open sockets and the flow of each.
    pub open: Vec<(i32, Option<usize>)>,
    pub flows: Vec<Flow>,
    pub digest: Digest,
    /// Flows of which the host has sent something that a peer would answer.
    pub to_answer: Vec<usize>,
    /// Flows whose latest segment was a bare ACK, in the order of sending, since the last input.
    bare_acks: Vec<usize>,
    answered_at: Vec<(usize, Instant)>,
    device: VecDeque<(Instant, Done)>,
    busy: Duration,
    port: Port,
    tso: bool,
    ipv6: bool,
    max_mtu: u32,
    addresses: [IpAddr; 2],
    fresh: u16,
    handed_in: u64,
    sent: u64,
    id: u16,
}

impl Bench {
    pub fn new(setup: &Setup) -> Self {
        let addresses = addresses(setup.ipv6);
        let has = |name: &str| setup.offloads.iter().any(|it| it == name);
        let mut host = Host::new();
        let mtu = setup.mtu.clamp(if setup.ipv6 { 1_280 } else { 68 }, 65_535);
        let port = host.add_port(PortConfig {
            mtu,
            addresses: vec![(addresses[0], if setup.ipv6 { 64 } else { 24 })],
            link: Link::None,
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
            ipv6: setup.ipv6,
            max_mtu: mtu,
            addresses,
            fresh: 0,
            handed_in: 0,
            sent: 0,
            id: 0,
        };
        for words in &setup.sysctls {
            bench.sysctl(words);
        }
        bench.host.credit(bench.now, port, None);
        bench
    }

    /// The time, for reports.
    pub fn clock(&self) -> String {
        let micros = (self.now.as_nanos() - START.as_nanos()) / 1_000;
        format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::Wait(micros) => self.pass(Duration::from_micros(*micros)),
            Step::Timer(times) => (0..*times).try_for_each(|_| self.next_timer()),
            Step::Segment(segment) => self.segment(segment),
            Step::Tunnelled(protocol, segment) => self.tunnelled(*protocol, segment),
            Step::Icmp(icmp) => self.icmp(icmp),
            Step::Call(call) => self.call(call),
            Step::Sysctl(words) => {
                self.sysctl(words);
                self.settle()
            }
            Step::Mtu(mtu) => {
                let mtu = (*mtu).clamp(if self.ipv6 { 1_280 } else { 68 }, 65_535);
                self.max_mtu = self.max_mtu.max(mtu);
                self.host.port_config_mut(self.port).mtu = mtu;
                self.settle()
            }
        }
    }

    fn sysctl(&mut self, words: &str) {
        if let Some((name, value)) = words.split_once('=') {
            // One that is refused changes nothing.
            let _ = self.host.set_tcp_sysctl(name, value);
        }
    }

    // Packets in.

    fn ends(&self) -> Ends<'static> {
        let [host, peer] = self.addresses;
        Ends { peer, host, now_ms: self.now.as_millis(), key: KEY }
    }

    fn flow_of(&mut self, counted: u16, fresh: bool) -> usize {
        if fresh || self.flows.is_empty() {
            self.fresh += 1;
            let ports = (LISTENER, CLIENT + self.fresh);
            let peer_next = u32::from(self.fresh).wrapping_mul(0x9e37_79b9);
            self.flows.push(Flow::new(ports, peer_next));
            return self.flows.len() - 1;
        }
        self.flows.len() - 1 - usize::from(counted) % self.flows.len()
    }

    pub fn segment(&mut self, segment: &Segment) -> Result<(), Broken> {
        let at = self.flow_of(segment.flow, segment.fresh);
        let ends = self.ends();
        let bytes = segment.bytes(&self.flows[at], &ends);
        self.id = self.id.wrapping_add(1);
        let mut list = packets(&bytes, segment, self.id, &ends);
        let pieces = segment.pieces.is_some_and(|it| it.words > 0);
        if let Some(damage) = segment.damage.filter(|_| !pieces) {
            for packet in &mut list {
                damage_packet(packet, damage, &ends);
            }
        }
        if pieces && let Ok(read) = frame::read_tcp(&bytes, Options::Skipped) {
            let stateless = self.is_stateless(at);
            self.flows[at].heard(&read, stateless);
        }
        let before = self.state_of(at);
        self.bare_acks.clear();
        for packet in &list {
            if !pieces {
                self.listen_in(packet);
            }
            self.hand_in(packet)?;
        }
        match frame::read_tcp(&bytes, Options::Skipped) {
            Ok(read) if segment.damage.is_none() && list.len() == 1 => {
                self.check_rfc5961(at, before, &read)
            }
            _ => Ok(()),
        }
    }

    /// The flow hears what is whole.
    fn listen_in(&mut self, packet: &[u8]) {
        let Ok(frame) = frame::read(packet, Options::Skipped) else { return };
        let Content::Tcp(segment) = frame.content else { return };
        let ports = (segment.destination, segment.source);
        if let Some(at) = self.flows.iter().position(|flow| flow.ports == ports) {
            let stateless = self.is_stateless(at);
            self.flows[at].heard(&segment, stateless);
        }
    }

    fn tunnelled(&mut self, protocol: u8, segment: &Segment) -> Result<(), Broken> {
        let at = self.flow_of(segment.flow, false);
        let ends = self.ends();
        let inner = in_ip(&segment.bytes(&self.flows[at], &ends), 6, 0, 1, &ends);
        let outer = in_ip(&inner, protocol, 0, 2, &ends);
        self.hand_in(&outer)
    }

    fn icmp(&mut self, icmp: &Icmp) -> Result<(), Broken> {
        if self.flows.is_empty() {
            return Ok(());
        }
        let at = self.flow_of(icmp.flow, false);
        let before = self.state_of(at);
        self.hand_in(&icmp.bytes(&self.flows[at], &self.ends()))?;
        let after = self.state_of(at);
        let open = matches!(before, Some(State::Established | State::CloseWait));
        let flow = &self.flows[at];
        let in_flight = flow.present().is_some_and(|out| out.end != out.acked);
        // An unreachable peer may bring a timeout forward, and that may be the last (RFC 6069).
        if before != after && open && !in_flight {
            let what = format!("an ICMP message made {before:?} into {after:?} (RFC 5927)");
            return Err(("RFC 5961", what));
        }
        Ok(())
    }

    fn hand_in(&mut self, packet: &[u8]) -> Result<(), Broken> {
        let Ok(packet) = Packet::parse_ip(packet) else { return Ok(()) };
        self.handed_in += 1;
        self.host.receive(self.now, self.port, packet);
        self.settle()
    }

    /// RFC 5961: what is in the window does not end a connection; only the next number does. And
    /// challenges are rare.
    fn check_rfc5961(
        &mut self,
        at: usize,
        before: Option<State>,
        read: &frame::Segment,
    ) -> Result<(), Broken> {
        let Some(before) = before.filter(|state| is_established(*state)) else { return Ok(()) };
        let (reset, syn) = (read.has(flag::RST), read.has(flag::SYN));
        if !reset && !syn {
            return Ok(());
        }
        let died = self.state_of(at).is_none_or(|state| state == State::Close);
        let lawful = reset && self.flows[at].may_reset(read.seq);
        if died && !lawful {
            let what = format!("{before:?} was ended by {read:?}, after {:?}", self.flows[at]);
            return Err(("RFC 5961", what));
        }
        if read.len > 0 || died || !self.bare_acks.contains(&at) {
            return Ok(());
        }
        self.check_rate(at)
    }

    /// Challenges of one connection keep their distance (`tcp_invalid_ratelimit`).
    fn check_rate(&mut self, at: usize) -> Result<(), Broken> {
        let limit = self.host.tcp_defaults().sysctl.tcp_invalid_ratelimit;
        let latest = self.answered_at.iter().rev().find(|(flow, _)| *flow == at);
        let since = latest.map(|(_, when)| self.now.saturating_since(*when).as_millis());
        self.answered_at.push((at, self.now));
        match since {
            Some(since) if since + 1 < u64::from(limit) => {
                let what = format!("two challenges within {since} ms, the limit is {limit} ms");
                Err(("RFC 5961", what))
            }
            _ => Ok(()),
        }
    }

    /// An ACK of this flow would be taken for the return of a cookie.
    fn is_stateless(&mut self, at: usize) -> bool {
        match self.state_of(at) {
            Some(State::Close) => true,
            Some(_) => {
                self.flows[at].had_connection = true;
                false
            }
            None => !self.flows[at].had_connection,
        }
    }

    /// The state of a flow's connection, if there is one.
    pub fn state_of(&self, at: usize) -> Option<State> {
        let ports = self.flows[at].ports;
        let mut sockets = self.host.tcp_sockets();
        let found = sockets.find(|(local, remote, _)| (local.port(), remote.port()) == ports);
        found.map(|(_, _, state)| state)
    }

    // Calls.

    fn call(&mut self, call: &Call) -> Result<(), Broken> {
        if self.open.is_empty() && !matches!(call, Call::Socket) {
            return Ok(());
        }
        let slot = match self.open.len() {
            0 => 0,
            count => count - 1 - usize::from(call.slot()) % count,
        };
        let fd = self.open.get(slot).map_or(-1, |(fd, _)| *fd);
        let [here, there] = self.addresses;
        let here = SocketAddr::new(here, LISTENER).into();
        let there = SocketAddr::new(there, SERVER).into();
        for syscall in call.syscalls(fd, here, there, self.ipv6) {
            let outcome = self.syscall(&syscall);
            self.digest.add(outcome.as_ref().map_or(u64::MAX, |done| done.value as u64));
            self.note(slot, &syscall, &outcome);
            self.settle()?;
            self.check_read(slot)?;
        }
        if matches!(call, Call::Close(_) | Call::Abort(_)) && slot < self.open.len() {
            self.open.remove(slot);
        }
        Ok(())
    }

    /// Carries out a call that does not wait. One that would is given up.
    pub fn syscall(&mut self, syscall: &Syscall) -> Result<Return, Errno> {
        let mut call = Waiting::from(syscall.clone());
        match self.sockets.call(self.now, &mut self.host, &mut call) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Err(Errno::EAGAIN),
        }
    }

    /// What a call says about flows.
    pub fn note(&mut self, slot: usize, syscall: &Syscall, outcome: &Result<Return, Errno>) {
        match (syscall, outcome) {
            (Syscall::Socket { .. }, Ok(done)) => self.open.push((done.value as i32, None)),
            (Syscall::Accept { .. }, Ok(done)) => {
                let fd = done.value as i32;
                let flow = self.find_flow(fd);
                self.open.push((fd, flow));
            }
            (Syscall::Connect { .. } | Syscall::Send { .. }, outcome) => {
                let (fd, known) = self.open[slot];
                let flow = known.or_else(|| self.begin_flow(fd));
                self.open[slot].1 = flow;
                if let (Some(flow), Syscall::Send { .. }, Ok(done)) = (flow, syscall, outcome) {
                    self.flows[flow].written += done.value as u64;
                }
            }
            (Syscall::Receive { flags, .. }, Ok(done)) => {
                let counts = flags & (number::MSG_PEEK | number::MSG_OOB | number::MSG_ERRQUEUE);
                if let (0, Some(flow)) = (counts, self.open[slot].1) {
                    self.flows[flow].read += done.value as u64;
                }
            }
            _ => {}
        }
    }

    /// The ports of the connection behind a descriptor.
    fn ports_of(&self, fd: i32) -> Option<(u16, u16)> {
        let connection = self.host.tcp_connection(self.sockets.host_socket(fd)?)?;
        Some((connection.local().port(), connection.remote().port()))
    }

    fn find_flow(&self, fd: i32) -> Option<usize> {
        let ports = self.ports_of(fd)?;
        self.flows.iter().position(|flow| flow.ports == ports)
    }

    /// A socket has just sent a SYN: from here on its flow is another one.
    fn begin_flow(&mut self, fd: i32) -> Option<usize> {
        let ports = self.ports_of(fd)?;
        self.flows.retain(|flow| flow.ports != ports || flow.written == 0);
        if let Some(at) = self.find_flow(fd) {
            return Some(at);
        }
        let peer_next = u32::from(ports.0).wrapping_mul(0x85eb_ca6b);
        self.flows.push(Flow::new(ports, peer_next));
        Some(self.flows.len() - 1)
    }

    fn check_read(&self, slot: usize) -> Result<(), Broken> {
        let Some((_, Some(flow))) = self.open.get(slot) else { return Ok(()) };
        let flow = &self.flows[*flow];
        if flow.read <= flow.in_order() {
            return Ok(());
        }
        let what = format!("{} bytes were read, {} came in order", flow.read, flow.in_order());
        Err(("exact bytes", what))
    }

    // Time.

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) -> Result<(), Broken> {
        let until = self.now + time;
        let limit = MAX_WAKES + MAX_WAKES * time.as_millis() / 1_000;
        let mut wakes = 0;
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.advance(at)?;
            wakes += 1;
            if wakes > limit {
                let what = format!("it wanted to be called {wakes} times in {time:?}");
                return Err(("limits", what));
            }
        }
        self.now = until;
        self.settle()
    }

    fn next_timer(&mut self) -> Result<(), Broken> {
        match self.next_event() {
            Some(at) => self.advance(at),
            None => Ok(()),
        }
    }

    /// When something happens by itself.
    pub fn next_event(&self) -> Option<Instant> {
        let device = self.device.front().map(|(at, _)| *at);
        self.host.wake_at().into_iter().chain(device).min()
    }

    pub fn advance(&mut self, to: Instant) -> Result<(), Broken> {
        self.now = self.now.max(to);
        while let Some((_, done)) = self.device.pop_front_if(|(at, _)| *at <= self.now) {
            self.host.credit(self.now, self.port, Some(done));
        }
        self.settle()
    }

    // Packets out.

    /// Takes all that the host has to say at this instant.
    pub fn settle(&mut self) -> Result<(), Broken> {
        let mut outputs = 0;
        while let Some(output) = self.host.poll(self.now) {
            outputs += 1;
            if outputs > MAX_OUTPUTS {
                return Err(("limits", format!("{outputs} outputs of one input")));
            }
            match output {
                Output::Send(_, packet) => self.take(&packet)?,
                Output::Drop(reason, packet) => {
                    self.digest.add_text(reason.name());
                    self.digest.add(u64::from(packet.len()));
                    self.hear_lost(&packet);
                }
                Output::Ready(ready) => self.digest.add(u64::from(ready.bits)),
                Output::Event(_) => {}
            }
        }
        self.check_quiet()
    }

    /// A drained host wants nothing before later, and its counters agree with the wire.
    fn check_quiet(&self) -> Result<(), Broken> {
        if let Some(at) = self.host.wake_at().filter(|at| *at <= self.now) {
            let what = format!("drained at {:?}, and wants to be called at {at:?}", self.now);
            return Err(("wake_at later than now", what));
        }
        let stats = self.host.port(self.port).stats;
        if (stats.rx_packets, stats.tx_packets) != (self.handed_in, self.sent) {
            let what = format!("{} in, {} out, but {stats:?}", self.handed_in, self.sent);
            return Err(("conservation", what));
        }
        let count = self.host.tcp_sockets().count();
        if count > MAX_SOCKETS {
            return Err(("limits", format!("{count} sockets")));
        }
        Ok(())
    }

    fn take(&mut self, packet: &Packet) -> Result<(), Broken> {
        self.sent += u64::from(packet.segments());
        let done = Done { owner: packet.meta.owner, truesize: packet.meta.truesize };
        if self.tso && packet.segments() > 1 {
            for segment in packet.segment() {
                self.hear_sent(&segment)?;
            }
        } else {
            self.hear_sent(packet)?;
        }
        if self.busy == Duration::ZERO {
            self.host.credit(self.now, self.port, Some(done));
        } else {
            let free = self.device.back().map_or(self.now, |(at, _)| *at);
            self.device.push_back((free.max(self.now) + self.busy, done));
        }
        Ok(())
    }

    /// What the host has dropped of its own has been sent as far as numbers go.
    fn hear_lost(&mut self, packet: &Packet) {
        for segment in packet.segment() {
            let Ok(frame) = frame::read(&bytes_of(&segment), Options::Skipped) else { continue };
            let Content::Tcp(segment) = frame.content else { continue };
            let ports = (segment.source, segment.destination);
            if frame.source == self.addresses[0]
                && let Some(flow) = self.flows.iter_mut().find(|flow| flow.ports == ports)
            {
                flow.lost(&segment);
            }
        }
    }

    /// The listener hears what has been sent.
    fn hear_sent(&mut self, packet: &Packet) -> Result<(), Broken> {
        let bytes = bytes_of(packet);
        self.digest.add(bytes.len() as u64);
        self.digest.add(self.now.as_nanos());
        if bytes.len() > self.max_mtu as usize {
            let what = format!("{} bytes with an MTU of {}", bytes.len(), self.max_mtu);
            return Err(("well-formed", what));
        }
        reparse(&bytes)?;
        let frame = frame::read(&bytes, Options::Refused);
        let frame = frame.map_err(|why| ("well-formed", format!("{why}: {packet:?}")))?;
        if frame.source != self.addresses[0] {
            return Err(("well-formed", format!("it comes from {}", frame.source)));
        }
        match frame.content {
            Content::Tcp(segment) => self.hear_segment(&segment),
            Content::Fragment => {
                self.flows.iter_mut().for_each(|flow| flow.in_pieces = true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn hear_segment(&mut self, segment: &frame::Segment) -> Result<(), Broken> {
        self.digest.add(u64::from(segment.seq) << 32 | u64::from(segment.ack));
        self.digest.add(u64::from(segment.flags) << 32 | u64::from(segment.window));
        let ports = (segment.source, segment.destination);
        let Some(at) = self.flows.iter().position(|flow| flow.ports == ports) else {
            return Ok(());
        };
        let bare = segment.len == 0 && segment.flags & 0x3f == flag::ACK;
        let flow = &mut self.flows[at];
        flow.offered.may_shrink |= self.host.tcp_defaults().sysctl.tcp_shrink_window != 0;
        let probe = flow.present().is_some_and(|out| after(out.end, segment.seq));
        flow.sent(segment)
            .map_err(|(law, why)| (law, format!("{why}\nin {segment:?}\nafter {flow:?}")))?;
        if bare && segment.sack.is_empty() {
            self.bare_acks.push(at);
        }
        if !bare || probe {
            self.to_answer.push(at);
        }
        Ok(())
    }
}

/// What is emitted reads back as the same bytes.
fn reparse(bytes: &[u8]) -> Result<(), Broken> {
    let packet = Packet::parse_ip(bytes)
        .map_err(|why| ("well-formed", format!("it does not read back: {why}")))?;
    let mut again = Vec::with_capacity(bytes.len());
    packet.emit(&bytes[bytes.len() - packet.body.len as usize..], &mut again);
    if again != bytes {
        return Err(("well-formed", "it reads back as another packet".to_owned()));
    }
    Ok(())
}

/// A packet as it goes on the wire: its payload is zeroes.
fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2_048);
    packet.emit_headers(&mut bytes);
    bytes.resize(bytes.len() + packet.body.len as usize, 0);
    bytes
}

/// RFC 5961 is about these.
fn is_established(state: State) -> bool {
    matches!(
        state,
        State::Established | State::FinWait1 | State::CloseWait | State::LastAck | State::Closing
    )
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

/// Makes a packet wrong.
fn damage_packet(packet: &mut Vec<u8>, damage: Damage, ends: &Ends<'_>) {
    let transport = if packet[0] >> 4 == 4 { 20 } else { 40 };
    match damage {
        Damage::TcpChecksum => {
            if let Some(byte) = packet.get_mut(transport + 17) {
                *byte ^= 1;
            }
        }
        Damage::IpHeader if transport == 20 => packet[11] ^= 1,
        Damage::IpHeader => packet[7] = 0,
        Damage::Cut(bytes) => {
            let len = packet.len().saturating_sub(bytes.into()).max(1);
            packet.truncate(len);
        }
        Damage::Byte(place, value) => {
            let place = usize::from(place) % packet.len();
            packet[place] = value;
            if transport == 20 {
                packet[10..12].fill(0);
                let total = !sum(&packet[..20], 0);
                packet[10..12].copy_from_slice(&total.to_be_bytes());
            }
            set_checksum(&mut packet[transport..], ends);
        }
        Damage::Flipped(place, value) => {
            let place = usize::from(place) % packet.len();
            packet[place] = value;
        }
        Damage::DataOffset(words) => {
            if let Some(byte) = packet.get_mut(transport + 12) {
                *byte = words << 4 | *byte & 15;
            }
            set_checksum(&mut packet[transport..], ends);
        }
    }
}

/// Where the clock stands at first.
const START: Instant = Instant::from_nanos(1_000_000_250_000);
