//! Packets of the script: those it sends, and those it waits for.

use super::conn::{Conn, Phase, Protocol};
use super::{Due, FOREVER, LATE, Run, Step};
use crate::actual::{ActualPacket, ActualTransport};
use crate::ast::{Direction, OptionSpec, Outer, PacketSpec, Ports, Time, TransportSpec};
use crate::compare::{Difference, TimestampRule, differences, joined, torn};
use crate::encap;
use crate::show;
use crate::wire::{Offsets, inbound};
use core::net::SocketAddr;
use datapath::packet::{Network, Packet, TcpFlags, Transport};
use datapath::units::Instant;

/// How many packets a failure shows.
const SHOWN: usize = 6;

impl Run<'_> {
    /// Sends a packet of the script to the host.
    pub(super) fn inbound(&mut self, spec: &PacketSpec, due: Due) -> Step<()> {
        let index = self.conn_for(spec)?;
        self.wait_for(due, "inbound packet")?;
        let conn = &mut self.conns[index];
        let mut syn = false;
        if let TransportSpec::Tcp(tcp) = &spec.transport {
            let flags = TcpFlags(tcp.flags);
            syn = flags.contains(TcpFlags::SYN);
            if conn.phase == Phase::SynAckOut && flags.contains(TcpFlags::ACK) {
                conn.phase = Phase::Accepted;
            } else if conn.phase == Phase::SynOut && flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
                conn.phase = Phase::Connected;
                conn.live_remote_isn = tcp.seq;
            }
        }
        let spec = self.with_echoes(spec, index)?;
        let conn = &self.conns[index];
        let Some(ends) = conn.ends() else {
            let reason = "no earlier event says which connection this packet belongs to";
            return Err(self.fail(spec.pos, "connection", reason, Vec::new()));
        };
        let packet = inbound(&spec, ends, conn.offsets(syn), self.settings.mss);
        self.harness.receive(packet);
        self.pass(self.now(), |_| false)?;
        Ok(())
    }

    /// The packet with the TS values that the host has sent in place of those of the script.
    fn with_echoes(&self, spec: &PacketSpec, index: usize) -> Step<PacketSpec> {
        let mut spec = spec.clone();
        let TransportSpec::Tcp(tcp) = &mut spec.transport else { return Ok(spec) };
        if tcp.flags & TcpFlags::ACK.0 == 0 {
            return Ok(spec);
        }
        for option in tcp.options.iter_mut().flatten() {
            if let OptionSpec::Timestamps(_, echo) = option {
                let sent = self.conns[index].echoed(*echo, self.settings.ts_ecr_scaled);
                if let Some(sent) = sent {
                    *echo = sent;
                } else {
                    {
                        let reason =
                            format!("TS ecr {echo} echoes no TS val that the host has sent");
                        let details = vec!["  --tcp_ts_ecr_scaled allows it".to_owned()];
                        return Err(self.fail(spec.pos, "option TS", reason, details));
                    }
                }
            }
        }
        Ok(spec)
    }

    /// Waits for a packet, or several that make up one line, and compares.
    pub(super) fn outbound(&mut self, spec: &PacketSpec, due: Due) -> Step<()> {
        let index = self.conn_for(spec)?;
        let syn_ack = matches!(&spec.transport, TransportSpec::Tcp(tcp)
            if TcpFlags(tcp.flags).contains(TcpFlags::SYN | TcpFlags::ACK));
        if syn_ack
            && self.conns[index].phase == Phase::SynIn
            && let TransportSpec::Tcp(tcp) = &spec.transport
        {
            self.conns[index].script_local_isn = tcp.seq;
        }
        let wanted = payload(spec);
        let mut got: Vec<ActualPacket> = Vec::new();
        let mut label = 0;
        let mut len = 0;
        let at = loop {
            let Some((sent_at, outer, packet)) = self.next_packet(index, due)? else {
                return Err(self.missing_packet(spec, due, &got));
            };
            if syn_ack
                && self.conns[index].phase == Phase::SynIn
                && let Some(tcp) = packet.tcp()
            {
                self.conns[index].phase = Phase::SynAckOut;
                self.conns[index].live_local_isn = tcp.seq.0;
            }
            let actual = ActualPacket { outer, ..self.actual(&packet, index) };
            self.log.push(format!(
                "{} outbound {}",
                show::seconds(self.micros(sent_at)),
                show::actual(&actual, Direction::Outbound)
            ));
            if let Some(last) = got.last()
                && let Some(difference) = torn(last, &actual, wanted.saturating_sub(len))
            {
                got.push(actual);
                return self.differ(spec, &got, &[difference], sent_at);
            }
            label = match packet.network {
                Network::Ipv6(ip) => ip.flow_label.get(),
                _ => label,
            };
            len += actual.len;
            got.push(actual);
            if len >= wanted || self.settings.strict_segments {
                break sent_at;
            }
        };
        self.harness.kernel.sniffed(at);
        let mut whole = joined(&got);
        let conn = &mut self.conns[index];
        if let (TransportSpec::Tcp(tcp), ActualTransport::Tcp(actual)) =
            (&spec.transport, &mut whole.transport)
            && let Some(options) = &tcp.options
        {
            conn.learn_timestamps(options, &mut actual.options);
        }
        let rule = TimestampRule {
            tick_usecs: self.settings.ts_tick_usecs,
            tolerance_usecs: self.settings.tolerance(due.time),
        };
        let family = self.settings.ip_version.family();
        let mut found = differences(spec, &whole, family, rule);
        if let Some(what) = conn.check_flow_label(spec.ip.flow_label, label) {
            let said = format!("{:#x}", spec.ip.flow_label);
            found.push(Difference::new("flowlabel", said, what));
        }
        let before = self.last.map(|last| last.time);
        if let Some((expected, actual)) = self.time_difference(due, self.micros(at), before) {
            found.push(Difference::new("time", expected, actual));
        }
        if found.is_empty() { Ok(()) } else { self.differ(spec, &got, &found, at) }
    }

    /// The next packet of the connection, with the headers around it; `None` if none comes in time.
    fn next_packet(
        &mut self,
        index: usize,
        due: Due,
    ) -> Step<Option<(Instant, Vec<Outer>, Packet)>> {
        let latest = match due.kind {
            Time::Any => self.now() + FOREVER,
            _ => due.end.unwrap_or(due.time).max(self.now()) + LATE,
        };
        loop {
            if self.harness.kernel.sent.is_empty() {
                let came = self.pass(latest, |run| !run.harness.kernel.sent.is_empty())?;
                if !came {
                    return Ok(None);
                }
            }
            let Some((at, packet)) = self.harness.kernel.sent.pop_front() else { return Ok(None) };
            let (outer, packet) = encap::unwrapped(&packet);
            if self.belongs(index, &packet) {
                return Ok(Some((at, outer, packet)));
            }
        }
    }

    /// Whether the host sent this packet on the script's connection; learns its ends from the
    /// first one.
    fn belongs(&mut self, index: usize, packet: &Packet) -> bool {
        let Some((local, remote)) = packet_ends(packet) else { return false };
        let conn = &mut self.conns[index];
        let icmp = matches!(packet.transport, Transport::Icmp(_));
        if let (Some(our), Some(their)) = (conn.local, conn.remote) {
            let same = if icmp {
                conn.protocol == Protocol::Icmp
                    && our.ip() == local.ip()
                    && their.ip() == remote.ip()
            } else {
                our == local && their == remote
            };
            if same {
                return true;
            }
        }
        let opens = match (&packet.transport, conn.protocol) {
            (Transport::Tcp(tcp), Protocol::Tcp) => {
                conn.phase == Phase::SynOut
                    && tcp.flags.contains(TcpFlags::SYN)
                    && !tcp.flags.contains(TcpFlags::ACK)
            }
            (Transport::Udp(_), Protocol::Udp) | (Transport::Icmp(_), Protocol::Icmp) => {
                conn.phase == Phase::Connecting
            }
            _ => false,
        };
        let fits = match conn.remote {
            Some(known) if icmp => known.ip() == remote.ip(),
            Some(known) => known == remote,
            None => false,
        };
        if opens && fits {
            conn.local = Some(local);
            if let Some(tcp) = packet.tcp() {
                conn.live_local_isn = tcp.seq.0;
            }
        }
        opens && fits
    }

    fn actual(&self, packet: &Packet, index: usize) -> ActualPacket {
        let syn = packet.tcp().is_some_and(|tcp| tcp.flags.contains(TcpFlags::SYN));
        ActualPacket::of(packet, self.conns[index].offsets(syn))
    }

    // Which connection a packet of the script belongs to.

    fn conn_for(&mut self, spec: &PacketSpec) -> Step<usize> {
        if let TransportSpec::Tcp(tcp) = &spec.transport {
            let flags = TcpFlags(tcp.flags);
            let phase = self.current.map(|index| self.conns[index].phase);
            if spec.direction == Direction::Inbound
                && matches!(phase, None | Some(Phase::Listening))
            {
                return Ok(self.passive(tcp.seq, tcp.ports));
            }
            if let Some(index) = self.current
                && spec.direction == Direction::Outbound
                && flags.contains(TcpFlags::SYN)
                && !flags.contains(TcpFlags::ACK)
                && phase == Some(Phase::Connecting)
            {
                self.conns[index].phase = Phase::SynOut;
                self.conns[index].script_local_isn = tcp.seq;
                return Ok(index);
            }
        }
        let Some(index) = self.current else {
            let reason = "there is no socket that this packet could belong to";
            return Err(self.fail(spec.pos, "connection", reason, Vec::new()));
        };
        let conn = &self.conns[index];
        let fits = match (&spec.transport, conn.protocol) {
            (TransportSpec::Tcp(_), Protocol::Tcp)
            | (TransportSpec::Udp(..), Protocol::Udp)
            | (TransportSpec::Icmp(_), _) => true,
            (TransportSpec::Tcp(tcp), _) => tcp.ports != Ports::default(),
            (TransportSpec::Udp(ports, _), _) => *ports != Ports::default(),
        };
        if fits {
            return Ok(index);
        }
        let reason = "the current socket is of another protocol than this packet";
        Err(self.fail(spec.pos, "protocol", reason, Vec::new()))
    }

    /// A connection that the script opens.
    fn passive(&mut self, isn: u32, ports: Ports) -> usize {
        let mut conn = Conn::new(Phase::SynIn, Protocol::Tcp);
        let port = if ports.src == 0 { self.next_port } else { ports.src };
        self.next_port = self.next_port.wrapping_add(1).max(1024);
        let bind_port = if ports.dst == 0 { self.settings.bind_port } else { ports.dst };
        conn.local = Some(SocketAddr::new(self.settings.local, bind_port));
        conn.remote = Some(SocketAddr::new(self.settings.remote, port));
        conn.live_remote_isn = isn;
        self.conns.push(conn);
        self.current = Some(self.conns.len() - 1);
        self.conns.len() - 1
    }

    // Failures.

    fn differ(
        &mut self,
        spec: &PacketSpec,
        got: &[ActualPacket],
        found: &[Difference],
        at: Instant,
    ) -> Step<()> {
        let first = &found[0];
        let reason = format!(
            "outbound packet: {} expected {}, actual {}",
            first.field, first.expected, first.actual
        );
        let field = first.field.clone();
        let mut details =
            vec![format!("  script: {}", show::spec(spec, self.settings.ip_version.family()))];
        for actual in got {
            let text = show::actual(actual, Direction::Outbound);
            details.push(format!("  actual: {text}  at {}", show::seconds(self.micros(at))));
        }
        let width = found.iter().map(|it| it.field.len()).max().unwrap_or(5).max(5);
        let column = found.iter().map(|it| it.expected.chars().count()).max().unwrap_or(8).max(8);
        details.push(format!("  {:width$}  {:column$}  actual", "field", "expected"));
        for Difference { field, expected, actual } in found {
            details.push(format!("  {field:width$}  {expected:column$}  {actual}"));
        }
        let stop = self.fail(spec.pos, field, reason, details);
        match stop {
            super::Stop::Fail(failure) if self.settings.non_fatal_packets => {
                self.warnings.push(*failure);
                Ok(())
            }
            stop => Err(stop),
        }
    }

    fn missing_packet(&self, spec: &PacketSpec, due: Due, got: &[ActualPacket]) -> super::Stop {
        let mut details =
            vec![format!("  script: {}", show::spec(spec, self.settings.ip_version.family()))];
        for actual in got {
            details.push(format!("  so far: {}", show::actual(actual, Direction::Outbound)));
        }
        let until = show::seconds(self.now());
        let reason = if got.is_empty() {
            format!(
                "no packet was sent, expected at {}, waited until {until}",
                show::seconds(due.time)
            )
        } else {
            let have: u32 = got.iter().map(|it| it.len).sum();
            format!("only {have} of {} bytes were sent by {until}", payload(spec))
        };
        self.fail(spec.pos, if got.is_empty() { "packet" } else { "payload" }, reason, details)
    }

    /// The latest packets in both directions, in the script's numbers.
    pub(super) fn around(&self) -> Vec<String> {
        let from = self.harness.kernel.seen.len().saturating_sub(SHOWN);
        self.harness.kernel.seen[from..]
            .iter()
            .map(|(direction, at, packet)| {
                let text = match self.current {
                    Some(index) => self.shown(*direction, packet, index),
                    None => show::actual(&ActualPacket::of(packet, Offsets::default()), *direction),
                };
                format!("  {:>10} {text}", show::seconds(self.micros(*at)))
            })
            .collect()
    }

    fn shown(&self, direction: Direction, packet: &Packet, index: usize) -> String {
        let (_, inner) = encap::unwrapped(packet);
        let syn = inner.tcp().is_some_and(|tcp| tcp.flags.contains(TcpFlags::SYN));
        let offsets = self.conns[index].offsets(syn);
        let offsets = match direction {
            Direction::Outbound => offsets,
            Direction::Inbound => Offsets { remote: offsets.local, local: offsets.remote },
        };
        show::actual(&ActualPacket::of(packet, offsets), direction)
    }
}

/// Bytes of payload that a line stands for.
const fn payload(spec: &PacketSpec) -> u32 {
    match &spec.transport {
        TransportSpec::Tcp(tcp) => tcp.len,
        TransportSpec::Udp(_, len) => *len,
        TransportSpec::Icmp(_) => 0,
    }
}

/// The sender's and the receiver's end of a packet.
fn packet_ends(packet: &Packet) -> Option<(SocketAddr, SocketAddr)> {
    let (src, dst) = packet.transport.ports().unwrap_or((0, 0));
    Some((SocketAddr::new(packet.network.src()?, src), SocketAddr::new(packet.network.dst()?, dst)))
}
