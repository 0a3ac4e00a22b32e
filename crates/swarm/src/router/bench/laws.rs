//! What comes from the router, and the laws that it must obey.

use super::{
    BETWEEN_QUESTIONS, Bench, Duration, EVERYBODY, FrameContent, IpAddr, LinkHeader, Mac, MacAddr,
    Packet, Port, ROOM, Reason, address, arp, discovery, ours, read,
};

impl Bench<'_> {
    pub(super) fn is_dropped(&mut self, reason: Reason, packet: &Packet) {
        self.digest.add(reason as u64);
        let mut whole = packet.clone();
        whole.set_link(LinkHeader::Ethernet { dst: MacAddr(EVERYBODY), src: MacAddr(EVERYBODY) });
        let mut bytes = Vec::new();
        whole.emit_whole(&mut bytes);
        if let (_, _, FrameContent::Data { dst, number: Some(number), len, .. }) = read(&bytes)
            && let Some(track) = self.tracks.get_mut(&number).filter(|it| it.dst == dst)
        {
            track.dropped += len;
            if track.sent + track.dropped > track.len {
                let what = format!("{number} is dropped ({reason:?}) though it is gone: {track:?}");
                self.fail("conservation", what);
            }
        }
    }

    /// A frame leaves the router.
    pub(super) fn on_transmit(&mut self, port: Port, packet: &Packet) {
        let state = &mut self.ports[usize::from(port.0)];
        if state.full {
            state.owed += 1;
        }
        let (down, full, owed) = (state.down, state.full, state.owed);
        if full && owed > ROOM {
            self.fail("credit", format!("{port:?} has no room"));
        }
        if down {
            self.fail("links", format!("{port:?} sends without a carrier"));
        }
        if !full {
            self.host.credit(self.now, port);
        }
        let mut bytes = Vec::new();
        packet.emit_whole(&mut bytes);
        for byte in &bytes {
            self.digest.add(u64::from(*byte));
        }
        let (dst, src, said) = read(&bytes);
        if src != ours(port.0 as u8) {
            self.fail("frames", format!("{port:?} sends as {src:x?}"));
        }
        match said {
            FrameContent::Asks(target) => self.on_solicitation(port, target),
            FrameContent::Answers(target) => self.answers_for(port, target),
            FrameContent::Data { dst: to, number: Some(number), len, ttl } => {
                self.on_forwarded(port, dst, number, (to, len, ttl));
            }
            FrameContent::Error(number) => self.on_icmp_error(port, dst, number),
            FrameContent::Data { number: None, .. } | FrameContent::Other => {}
        }
    }

    /// The router asks for an address.
    pub(super) fn on_solicitation(&mut self, port: Port, target: IpAddr) {
        let late = self.ports[usize::from(port.0)].late_until.is_some_and(|until| self.now < until);
        let full = self.ports[usize::from(port.0)].full;
        let before = self
            .asked
            .insert((port.0, target), self.now)
            .filter(|_| !late && !full && !self.forgets);
        if let Some(before) = before.filter(|at| self.now.saturating_since(*at) < BETWEEN_QUESTIONS)
        {
            self.fail("questions", format!("{target} was asked for at {before:?} already"));
        }
        let wire = &self.case.ports[usize::from(port.0)];
        for (number, machine) in (0_u8..).zip(&wire.machines) {
            let who = [port.0 as u8, number];
            let answers = self.ports[usize::from(port.0)].machines[usize::from(number)].1;
            if !answers || address(who[0], number + 1, target.is_ipv6()) != target {
                continue;
            }
            let mac = self.mac(who);
            self.claims(who[0], target, mac);
            let us = (ours(who[0]), address(who[0], 0, target.is_ipv6()));
            let frame = if target.is_ipv6() {
                discovery((136, 0x60), us, (mac, target), target)
            } else {
                arp(true, us.0, (mac, target), us)
            };
            let at = self.now + Duration::from_micros(machine.after_us);
            self.coming.insert((at, self.turns), (port.0, frame));
        }
    }

    pub(super) fn answers_for(&mut self, port: Port, target: IpAddr) {
        let own = [false, true].map(|ipv6| address(port.0 as u8, 0, ipv6));
        let link_local = matches!(target, IpAddr::V6(it) if it.is_unicast_link_local());
        if !own.contains(&target) && !link_local {
            self.fail("answers", format!("{port:?} answers for {target}"));
        }
        self.ports[usize::from(port.0)].answers += 1;
    }

    /// A packet, or a piece of one, goes on to its next hop.
    pub(super) fn on_forwarded(
        &mut self,
        port: Port,
        mac: Mac,
        number: u16,
        (to, len, ttl): (IpAddr, u32, u8),
    ) {
        let Some(track) = self.tracks.get_mut(&number).filter(|it| it.dst == to) else { return };
        track.sent += len;
        let (next_hop, text) = (track.next_hop, format!("{number}: {track:?}"));
        if track.sent + track.dropped > track.len {
            self.fail("conservation", format!("more comes out than went in: {text}"));
        } else if !track.may_go
            || track.port != port.0
            || u32::from(ttl) + 1 != u32::from(track.ttl)
        {
            self.fail("forwarding", format!("leaves by {port:?} with a TTL of {ttl}: {text}"));
        } else if !self.claimed.contains(&(port.0, next_hop, mac)) {
            self.fail("neighbours", format!("{mac:x?} never advertised {next_hop}: {text}"));
        }
    }

    /// The router sends an ICMP error about a packet.
    pub(super) fn on_icmp_error(&mut self, port: Port, mac: Mac, number: u16) {
        let Some(track) = self.tracks.get_mut(&number) else { return };
        track.errors += 1;
        // Each lost fragment may cause an error of its own.
        if track.errors > 1 && track.len < 1_200 {
            let text = format!("{number}: {track:?}");
            self.fail("errors", format!("{port:?} repeats {mac:x?}: {text}"));
        }
    }

    /// Each packet has come out, and nothing is held.
    pub(super) fn check_empty(&mut self) {
        for port in 0..self.ports.len() as u16 {
            let backlog = self.host.port(Port(port)).backlog();
            if backlog.packets > 0 {
                self.fail("liveness", format!("{backlog:?} wait at {port} for ever"));
            }
        }
        let waiting = self
            .host
            .neighbours()
            .map_or(0, |table| table.entries().map(|(_, entry)| entry.waiting()).sum::<usize>());
        if waiting > 0 {
            self.fail("liveness", format!("{waiting} packets wait for neighbours for ever"));
        }
        let lost = self.tracks.iter().find(|(_, it)| it.sent + it.dropped != it.len);
        if let Some((number, track)) = lost {
            let what = format!("{number} is not accounted for: {track:?}");
            self.fail("conservation", what);
        }
        for number in 0..self.ports.len() {
            let port = &self.ports[number];
            let (questions, answers, was_down) = (port.questions, port.answers, port.was_down);
            // What finds no place among few neighbours gets no answer (`arp_process`, `neigh_event_ns`).
            let may_miss = was_down || self.forgets;
            if answers > questions || (answers < questions && !may_miss) {
                self.fail(
                    "answers",
                    format!("{number}: {answers} answers to {questions} questions"),
                );
            }
        }
        let held = self.watched.iter().filter(|frame| frame.holders() > 0).count();
        if held > 0 || self.host.frames().1 > 0 {
            self.fail("frames", format!("{held} frames are held when all is over"));
        }
    }
}
