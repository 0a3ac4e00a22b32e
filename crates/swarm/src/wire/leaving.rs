//! What the host sends, and the observer on its wire.

use datapath::node::{Poll, SocketReady};
use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::tcp::state::State;
use datapath::units::Duration;

use super::bench::{Bench, MAX_OUTPUTS, MAX_SOCKETS};
use crate::case::BrokenLaw;
use crate::oracle::frame::{self, Content, Options, flag};
use crate::oracle::seq::after;

impl Bench {
    /// Takes all that the host has to say at this instant.
    pub(super) fn drain_output(&mut self) -> Result<(), BrokenLaw> {
        let mut outputs = 0;
        let mut packet = Packet::default();
        loop {
            let said = self.host.poll(self.now, &mut packet);
            if matches!(said, Poll::Idle(_)) {
                break;
            }
            outputs += 1;
            if outputs > MAX_OUTPUTS {
                return Err(("limits", format!("{outputs} outputs of one input")));
            }
            match said {
                Poll::Send { .. } => self.take(&packet)?,
                Poll::Drop(reason) => {
                    self.digest.add_text(reason.name());
                    self.digest.add(u64::from(packet.len()));
                    self.check_fits(reason, &packet)?;
                    self.on_local_drop(&packet);
                }
                Poll::Ready(ready) => {
                    self.digest.add(u64::from(ready.bits));
                    if ready.bits & SocketReady::WRITABLE != 0 {
                        self.writers.retain(|(waits, _)| *waits != ready.socket);
                    }
                }
                Poll::Event(_) | Poll::Idle(_) => {}
            }
        }
        self.check_idle()
    }

    /// A drained host wants nothing before later, and its counters agree with the wire.
    pub(super) fn check_idle(&self) -> Result<(), BrokenLaw> {
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

    pub(super) fn take(&mut self, packet: &Packet) -> Result<(), BrokenLaw> {
        self.sent += u64::from(packet.segments());
        if self.tso && packet.segments() > 1 {
            for segment in packet.segment() {
                self.on_sent(&segment)?;
            }
        } else {
            self.on_sent(packet)?;
        }
        if self.busy == Duration::ZERO {
            self.host.credit(self.now, self.port);
        } else {
            let free = self.device.back().copied().unwrap_or(self.now);
            self.device.push_back(free.max(self.now) + self.busy);
        }
        Ok(())
    }

    /// A connection looks at the MTU of its way before it sends (`tcp_current_mss`): no segment of its own is
    /// too long for the host's interface, unless it asks for the MTU of the path (`tcp_mtu_probe`).
    fn check_fits(&self, reason: Reason, packet: &Packet) -> Result<(), BrokenLaw> {
        if reason != Reason::PacketTooBig || !self.by_default {
            return Ok(());
        }
        let Ok(frame) = frame::read(&bytes_of(packet), Options::Skipped) else { return Ok(()) };
        match frame.content {
            Content::Tcp(segment)
                if frame.source == self.addresses[0] && accecn_slack(&segment) == 0 =>
            {
                Err(("segment size", format!("too long for the host itself: {segment:?}")))
            }
            _ => Ok(()),
        }
    }

    /// What the host has dropped of its own has been sent as far as numbers go.
    pub(super) fn on_local_drop(&mut self, packet: &Packet) {
        for segment in packet.segment() {
            let Ok(frame) = frame::read(&bytes_of(&segment), Options::Skipped) else { continue };
            let Content::Tcp(segment) = frame.content else { continue };
            let ports = (segment.source, segment.destination);
            if frame.source == self.addresses[0]
                && let Some(flow) = self.flows.iter_mut().find(|flow| flow.ports == ports)
            {
                flow.on_local_drop(&segment);
            }
        }
    }

    /// Shows the observer what has been sent.
    pub(super) fn on_sent(&mut self, packet: &Packet) -> Result<(), BrokenLaw> {
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
            Content::Tcp(segment) => self.on_sent_segment(&segment, frame.ecn),
            Content::Fragment => {
                self.flows.iter_mut().for_each(|flow| flow.in_pieces = true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn on_sent_segment(
        &mut self,
        segment: &frame::Segment,
        ecn: u8,
    ) -> Result<(), BrokenLaw> {
        self.digest.add(u64::from(segment.seq) << 32 | u64::from(segment.ack));
        self.digest.add(u64::from(segment.flags) << 32 | u64::from(segment.window));
        let ports = (segment.source, segment.destination);
        let Some(at) = self.flows.iter().position(|flow| flow.ports == ports) else {
            return Ok(());
        };
        let state = self.state_of(at);
        if segment.flags & (flag::SYN | flag::ACK) == flag::SYN | flag::ACK {
            self.flows[at].answered_at = Some(self.now.as_millis());
        }
        self.check_size(at, segment)?;
        let bare = segment.len == 0 && segment.flags & 0x3f == flag::ACK;
        // In other states a segment may be of a connection that is no more than a few numbers.
        let established = matches!(state, Some(State::Established | State::CloseWait));
        let classic = (established || segment.has(flag::SYN)) && !self.other_ecn;
        let flow = &mut self.flows[at];
        flow.offered.may_shrink |= self.host.tcp_defaults().sysctl.tcp_shrink_window != 0;
        let probe = flow.present().is_some_and(|out| after(out.end, segment.seq));
        if self.host.tcp_mib().ofo_pruned > 0 {
            flow.taken.clear_sacked();
        }
        flow.sent(segment, ecn, classic)
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

impl Bench {
    /// RFC 6691: what the peer's MSS tells is the length of data and options. No host goes below
    /// `tcp_min_snd_mss`, of which options are taken, too (`tcp_mtu_to_mss`). A cookie keeps one of
    /// four sizes, and whoever returns it may choose (`check_tcp_syn_cookie`).
    fn check_size(&mut self, at: usize, segment: &frame::Segment) -> Result<(), BrokenLaw> {
        let lowest = self.host.tcp_defaults().sysctl.tcp_min_snd_mss;
        self.lowest_mss = self.lowest_mss.max(lowest);
        let flow = &self.flows[at];
        let known = flow.active || self.host.tcp_mib().syn_cookies_sent == 0;
        if segment.len == 0 || segment.has(flag::SYN) || !known {
            return Ok(());
        }
        let unknown = if self.ipv6 { MSS_UNKNOWN_V6 } else { MSS_UNKNOWN };
        let longest = flow.longest_accepted(unknown, self.fast_open);
        let longest = longest.map(|mss| mss.max(self.lowest_mss) + accecn_slack(segment));
        match longest {
            Some(longest) if segment.len + segment.options_len > longest => {
                let what = format!("the peer takes {longest} bytes with options, not {segment:?}");
                Err(("segment size", what))
            }
            _ => Ok(()),
        }
    }
}

/// `TCP_MSS_DEFAULT`: the MSS of a peer that has not announced one.
const MSS_UNKNOWN: u32 = 536;
/// The same over IPv6 (`IPV6_MIN_MTU` less headers).
const MSS_UNKNOWN_V6: u32 = 1_220;

/// Options are counted once for all that is sent in one go (`tcp_current_mss`): once a D-SACK has left with its
/// first segment, there may be room for an option of Accurate ECN, which is a word longer.
fn accecn_slack(segment: &frame::Segment) -> u32 {
    let sack_len = 4 + 8 * segment.sack.len() as u32;
    let others_len = if segment.stamps.is_some() { 12 } else { 0 };
    let has_accecn = segment.md5.is_none() && segment.options_len > sack_len + others_len;
    if has_accecn && !segment.sack.is_empty() { 4 } else { 0 }
}

/// What is emitted reads back as the same bytes.
fn reparse(bytes: &[u8]) -> Result<(), BrokenLaw> {
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
