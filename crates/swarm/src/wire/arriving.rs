//! What arrives at the host: segments, ICMP messages, damaged packets; and what none of them may cause.

use core::net::SocketAddr;

use datapath::node::Rx;
use datapath::packet::Packet;
use datapath::tcp::state::State;

use super::bench::{Bench, CLIENT, LISTENER};
use super::calls::KEY;
use super::icmp::Icmp;
use super::segment::{Damage, Segment, SegmentContext, in_ip, packets, set_checksum};
use crate::case::BrokenLaw;
use crate::oracle::frame::{self, Content, Options, flag, sum};
use crate::oracle::insight;
use crate::oracle::tcp::{Arrival, Liveness, ObservedFlow};

impl Bench {
    pub(super) fn ends(&self) -> SegmentContext<'static> {
        let [host, peer] = self.addresses;
        SegmentContext { peer, host, now_ms: self.now.as_millis(), key: KEY }
    }

    pub(super) fn flow_of(&mut self, counted: u16, fresh: bool) -> usize {
        if fresh || self.flows.is_empty() {
            self.fresh += 1;
            let ports = (LISTENER, CLIENT + self.fresh);
            let peer_next = u32::from(self.fresh).wrapping_mul(0x9e37_79b9);
            self.flows.push(ObservedFlow::new(ports, peer_next));
            return self.flows.len() - 1;
        }
        self.flows.len() - 1 - usize::from(counted) % self.flows.len()
    }

    pub(super) fn segment(&mut self, segment: &Segment) -> Result<(), BrokenLaw> {
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
            let arrival = self.arrival(at, segment.ecn);
            self.flows[at].in_fragments = true;
            // Fragments that come later may complete it, at an unknown time.
            self.flows[at].on_inbound(&read, &Arrival { calm: false, quiet: false, ..arrival });
        }
        let before = self.state_of(at);
        let look = self.view(at);
        self.bare_acks.clear();
        self.flows[at].resent.clear();
        // A segment without ACK is thrown away (`tcp_rcv_established`), and so is one that
        // acknowledges what was never sent or too little (`tcp_ack`): none gives an occasion to send.
        let flow = &self.flows[at];
        let acks = |read: &frame::Segment| {
            read.has(flag::ACK) && flow.acks_sent_data(read) && !flow.acks_less(read)
        };
        let is_heard = frame::read_tcp(&bytes, Options::Skipped).is_ok_and(|read| acks(&read));
        for packet in &list {
            if !pieces {
                self.listen_in(packet);
            }
            self.inject(packet)?;
            self.check_states()?;
        }
        self.check_sense(at, look.as_ref(), list.len() == 1 && is_heard)?;
        self.check_cookie_age(at, before)?;
        match frame::read_tcp(&bytes, Options::Skipped) {
            Ok(read) if segment.damage.is_none() && list.len() == 1 => {
                self.check_rfc5961(at, before, &read)
            }
            _ => Ok(()),
        }
    }

    /// Complete packets are shown to the flow.
    pub(super) fn listen_in(&mut self, packet: &[u8]) {
        let Ok(frame) = frame::read(packet, Options::Skipped) else { return };
        let Content::Tcp(segment) = frame.content else { return };
        let ports = (segment.destination, segment.source);
        if let Some(at) = self.flows.iter().position(|flow| flow.ports == ports) {
            let arrival = self.arrival(at, frame.ecn);
            self.flows[at].on_inbound(&segment, &arrival);
        }
    }

    pub(super) fn tunnelled(&mut self, protocol: u8, segment: &Segment) -> Result<(), BrokenLaw> {
        let at = self.flow_of(segment.flow, false);
        let ends = self.ends();
        let inner = in_ip(&segment.bytes(&self.flows[at], &ends), 6, 0, 1, &ends);
        let outer = in_ip(&inner, protocol, 0, 2, &ends);
        self.inject(&outer)
    }

    pub(super) fn icmp(&mut self, icmp: &Icmp) -> Result<(), BrokenLaw> {
        if self.flows.is_empty() {
            return Ok(());
        }
        let at = self.flow_of(icmp.flow, false);
        let before = self.state_of(at);
        let look = self.view(at);
        self.inject(&icmp.bytes(&self.flows[at], &self.ends()))?;
        if let (Some(look), Some(now), true) =
            (look, self.view(at), self.is_quiet() && self.one_mtu)
        {
            let flow = &self.flows[at];
            insight::changes_nothing(&look, &now, icmp.number(flow), flow)?;
            insight::narrows(&look, &now, flow)?;
        }
        let after = self.state_of(at);
        let open = matches!(before, Some(State::Established | State::CloseWait));
        // An unreachable peer may bring a timeout forward, and that may be the last (RFC 6069), if one
        // has expired for what is still queued (`tcp_ld_RTO_revert`). What has been acknowledged on
        // the wire need not be: the host drops an ACK from beyond its window, or that is not signed.
        let expired = look.is_some_and(|it| it.info.unacked > 0 && it.info.retransmits > 0);
        if before != after && open && !expired {
            let what = format!("an ICMP message made {before:?} into {after:?} (RFC 5927)");
            return Err(("RFC 5961", what));
        }
        Ok(())
    }

    pub(super) fn inject(&mut self, packet: &[u8]) -> Result<(), BrokenLaw> {
        let Ok(mut packet) = Packet::parse_ip(packet) else { return Ok(()) };
        self.handed_in += 1;
        let rx = self.host.receive(self.now, self.port, &mut packet);
        assert_eq!(rx, Rx::Taken, "the host passes nothing on");
        self.drain_output()
    }

    /// RFC 5961: what is in the window does not end a connection; only the next number does. And
    /// challenges are rare.
    pub(super) fn check_rfc5961(
        &mut self,
        at: usize,
        before: Option<State>,
        read: &frame::Segment,
    ) -> Result<(), BrokenLaw> {
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
    pub(super) fn check_rate(&mut self, at: usize) -> Result<(), BrokenLaw> {
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

    fn arrival(&mut self, at: usize, ecn: u8) -> Arrival {
        let state = self.state_of(at);
        let calm = state == Some(State::Established) && !self.signs;
        let now_ms = self.now.as_millis();
        Arrival { there: self.there(at), ecn, now_ms, quiet: self.is_quiet(), calm }
    }

    /// Nothing waits in the host: what it has sent is on the wire, what it got it has looked at.
    pub fn is_quiet(&self) -> bool {
        self.device.is_empty() && !self.gro
    }

    /// What there is of a flow's connection.
    pub(super) fn there(&mut self, at: usize) -> Liveness {
        match self.state_of(at) {
            Some(State::Close) | None if self.flows[at].had_connection => Liveness::Gone,
            Some(State::Close) | None => Liveness::Nothing,
            Some(state) => {
                self.flows[at].lives();
                match state {
                    State::TimeWait => Liveness::Past,
                    State::FinWait2 => Liveness::Waiting,
                    _ => Liveness::Living,
                }
            }
        }
    }

    /// The state of a flow's connection, if there is one. One that is dead and still open stands for
    /// it only where no other one has come.
    pub(super) fn state_of(&self, at: usize) -> Option<State> {
        let ports = self.flows[at].ports;
        let sockets = self.host.tcp_sockets();
        let its = |&(local, remote, _): &(SocketAddr, SocketAddr, State)| {
            (local.port(), remote.port()) == ports
        };
        let states = sockets.filter(its).map(|(_, _, state)| state);
        states.reduce(|one, other| if one == State::Close { other } else { one })
    }
}

/// RFC 5961 is about these.
fn is_established(state: State) -> bool {
    matches!(
        state,
        State::Established | State::FinWait1 | State::CloseWait | State::LastAck | State::Closing
    )
}

/// Makes a packet wrong.
fn damage_packet(packet: &mut Vec<u8>, damage: Damage, ends: &SegmentContext<'_>) {
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
