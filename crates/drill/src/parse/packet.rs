//! Packets.

use super::{Family, Parsed, Parser};
use crate::ast::{
    Direction, GreSpec, IcmpSpec, IpInfo, MplsLabel, Outer, PacketSpec, Ports, Quoted, TcpSpec,
    TosSpec, TransportSpec,
};
use crate::fault::{Fault, Pos};
use crate::icmp_names;
use crate::lex::Kind;

impl Parser {
    /// A packet; `<` or `>` is next.
    pub(super) fn packet(&mut self) -> Parsed<PacketSpec> {
        let pos = self.peek().pos;
        let direction = if self.eat('<') { Direction::Inbound } else { Direction::Outbound };
        if direction == Direction::Outbound {
            self.expect('>')?;
        }
        let outer = self.outer_headers()?;
        let ip = self.ip_info(direction)?;
        if self.is_word("encap") {
            return Err(Fault::no_meaning(pos, "PSP needs keys that only a device has"));
        }
        let transport = if self.eat_word("udp") {
            let ports = self.ports()?;
            self.expect('(')?;
            let len = self.number("UDP payload length", 65_507)?;
            self.expect(')')?;
            TransportSpec::Udp(ports, len)
        } else if self.eat_word("icmp") {
            TransportSpec::Icmp(self.icmp()?)
        } else {
            TransportSpec::Tcp(self.tcp(pos, direction)?)
        };
        Ok(PacketSpec { pos, direction, outer, ip, transport })
    }

    fn outer_headers(&mut self) -> Parsed<Vec<Outer>> {
        let mut outer = Vec::new();
        loop {
            if self.eat_word("ipv4") {
                let info = self.ip_info(Direction::Outbound)?;
                let src = self.ipv4_address()?;
                self.expect('>')?;
                let dst = self.ipv4_address()?;
                self.expect(':')?;
                outer.push(Outer::Ipv4(info, src, dst));
            } else if self.eat_word("ipv6") {
                let info = self.ip_info(Direction::Outbound)?;
                let src = self.ipv6_address()?;
                self.expect('>')?;
                let dst = self.ipv6_address()?;
                self.expect(':')?;
                outer.push(Outer::Ipv6(info, src, dst));
            } else if self.eat_word("gre") || self.eat_word("GREv0") {
                let gre = if self.eat(':') {
                    GreSpec::default()
                } else {
                    self.eat(',');
                    let gre = self.gre_fields()?;
                    self.expect(':')?;
                    gre
                };
                outer.push(Outer::Gre(gre));
            } else if self.eat_word("mpls") {
                let labels = self.mpls_stack()?;
                self.expect(':')?;
                outer.push(Outer::Mpls(labels));
            } else {
                return Ok(outer);
            }
            if outer.len() > MAX_LAYERS {
                return Err(self.expected("no more than four headers around a packet"));
            }
        }
    }

    /// `flags [key present, …], sum 0, off 0, key=5, seq 1`.
    pub(super) fn gre_fields(&mut self) -> Parsed<GreSpec> {
        if !self.eat_word("flags") {
            self.expect_word("Flags")?;
        }
        let flags =
            if self.eat('[') { self.gre_flags()? } else { self.number("GRE flags", 0xffff)? };
        let mut gre = GreSpec { flags: flags as u16, ..GreSpec::default() };
        self.eat(',');
        self.expect_word("sum")?;
        gre.sum = self.number("GRE checksum", 0xffff)? as u16;
        self.eat(',');
        self.expect_word("off")?;
        gre.offset = self.number("GRE offset", 0xffff)? as u16;
        self.eat(',');
        self.expect_word("key")?;
        self.eat('=');
        gre.key = self.number("GRE key", u32::MAX)?;
        self.eat(',');
        self.expect_word("seq")?;
        gre.sequence = self.number("GRE sequence number", u32::MAX)?;
        Ok(gre)
    }

    fn gre_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            let (pos, word) = self.any_word("a GRE flag")?;
            flags |= match word.as_str() {
                "none" => 0,
                "checksum" => 0x8000,
                "key" => 0x2000,
                "sequence" => {
                    self.expect('#')?;
                    0x1000
                }
                _ => {
                    let known = ["none", "checksum", "key", "sequence"];
                    return Err(Fault::unknown(pos, "GRE flag", &word, &known));
                }
            };
            if word != "none" {
                self.expect_word("present")?;
            }
            if !self.eat(',') {
                break;
            }
        }
        self.expect(']')?;
        Ok(flags)
    }

    /// `(label 1, tc 2, [S], ttl 3) …`.
    pub(super) fn mpls_stack(&mut self) -> Parsed<Vec<MplsLabel>> {
        let mut labels = Vec::new();
        while self.eat('(') {
            self.expect_word("label")?;
            let label = self.number("MPLS label", 0xf_ffff)?;
            self.expect(',')?;
            self.expect_word("tc")?;
            let class = self.number("MPLS traffic class", 7)? as u8;
            self.expect(',')?;
            let bottom = self.eat('[');
            if bottom {
                self.expect_word("S")?;
                self.expect(']')?;
                self.expect(',')?;
            }
            self.expect_word("ttl")?;
            let ttl = self.number("MPLS TTL", 255)? as u8;
            self.expect(')')?;
            labels.push(MplsLabel { label, class, bottom, ttl });
            if labels.len() > MAX_LABELS {
                return Err(self.expected("no more than eight MPLS labels"));
            }
        }
        Ok(labels)
    }

    fn ipv4_address(&mut self) -> Parsed<core::net::Ipv4Addr> {
        match self.next() {
            crate::lex::Token { kind: Kind::Ipv4(address), .. } => Ok(address),
            token => Err(Self::expected_at(&token, "an IPv4 address")),
        }
    }

    fn ipv6_address(&mut self) -> Parsed<core::net::Ipv6Addr> {
        match self.next() {
            crate::lex::Token { kind: Kind::Ipv6(address), .. } => Ok(address),
            token => Err(Self::expected_at(&token, "an IPv6 address")),
        }
    }

    /// `[ect0]`, `(tos 0x10)`, `[ect0, flowlabel 0x1]`, `[ttl 1]`, or nothing.
    fn ip_info(&mut self, direction: Direction) -> Parsed<IpInfo> {
        let close = if self.eat('[') {
            ']'
        } else if self.peek().kind == Kind::Char('(') {
            self.next();
            ')'
        } else {
            return Ok(IpInfo::default());
        };
        let mut info = IpInfo::default();
        loop {
            let (pos, word) = self.any_word("`ect0`, `tos`, `flowlabel` or `ttl`")?;
            match word.as_str() {
                "noecn" => info.tos = TosSpec::Ecn(0),
                "ect1" => info.tos = TosSpec::Ecn(1),
                "ect0" => info.tos = TosSpec::Ecn(2),
                "ce" => info.tos = TosSpec::Ecn(3),
                "ect01" if direction == Direction::Outbound => info.tos = TosSpec::Ect01,
                "ect01" => {
                    let what = "[ect01] says what is allowed, not what is sent";
                    return Err(Fault::new(pos, what, "use [ect0] or [ect1]"));
                }
                "tos" => info.tos = TosSpec::Tos(self.number("TOS", 255)? as u8),
                "flowlabel" => info.flow_label = self.number("flow label", 0xf_ffff)?,
                "ttl" => info.ttl = self.number("TTL", 255)? as u8,
                _ => {
                    let known = ["noecn", "ect0", "ect1", "ce", "ect01", "tos", "flowlabel", "ttl"];
                    return Err(Fault::unknown(pos, "IP field", &word, &known));
                }
            }
            if !self.eat(',') {
                break;
            }
        }
        self.expect(close)?;
        Ok(info)
    }

    /// `80 > 1000`, or nothing.
    fn ports(&mut self) -> Parsed<Ports> {
        let given = matches!(self.peek().kind, Kind::Int(_)) && *self.peek_at(1) == Kind::Char('>');
        if !given {
            return Ok(Ports::default());
        }
        let src = self.number("source port", 0xffff)? as u16;
        self.expect('>')?;
        Ok(Ports { src, dst: self.number("destination port", 0xffff)? as u16 })
    }

    fn tcp(&mut self, pos: Pos, direction: Direction) -> Parsed<TcpSpec> {
        let ports = self.ports()?;
        let (flags, ace) = self.tcp_flags()?;
        let (seq, len) = self.sequence_range()?;
        let ack = if self.eat_word("ack") { self.number("ack", u32::MAX)? } else { 0 };
        let window =
            if self.eat_word("win") { Some(self.number("win", 0xffff)? as u16) } else { None };
        let urgent = if self.eat_word("urg") { self.number("urg", 0xffff)? as u16 } else { 0 };
        let options = match self.peek().kind {
            Kind::Char('<') => self.tcp_options()?,
            _ => Some(Vec::new()),
        };
        if direction == Direction::Inbound {
            if window.is_none() {
                let what = "an inbound packet without `win`";
                return Err(Fault::new(pos, what, "say which window it advertises: `win 65535`"));
            }
            if options.is_none() {
                let what = "<...> says what is allowed, not what is sent";
                return Err(Fault::new(pos, what, "list the options"));
            }
        }
        Ok(TcpSpec { ports, flags, ace, seq, len, ack, window, urgent, options })
    }

    /// `S.`, `P.`, `.`, `SEW`, `.5` (ACE digit), `-`.
    fn tcp_flags(&mut self) -> Parsed<(u16, bool)> {
        let token = self.next();
        let (pos, mut text) = (token.pos, token.text.clone());
        match token.kind {
            Kind::Char('.') => {}
            Kind::Char('-') => return Ok((0, false)),
            Kind::Micros(_) if text.starts_with('.') => {}
            Kind::Word(_) => match &self.peek().kind {
                Kind::Char('.') => text.push_str(&self.next().text),
                Kind::Micros(_) if self.peek().text.starts_with('.') => {
                    text.push_str(&self.next().text);
                }
                _ => {}
            },
            _ => return Err(Self::expected_at(&token, "TCP flags (`S`, `P.`, `.`, `-`)")),
        }
        flags_of(&text).map_err(|what| {
            Fault::new(pos, what, "flags are F S R P . U, and E W A or one ACE digit 0 to 7")
        })
    }

    /// `1:1001(1000)`: first sequence number and length.
    fn sequence_range(&mut self) -> Parsed<(u32, u32)> {
        let pos = self.peek().pos;
        let begin = self.number("sequence number", u32::MAX)?;
        self.expect(':')?;
        let end = self.number("sequence number", u32::MAX)?;
        self.expect('(')?;
        let len = self.number("payload length", 0xffff)?;
        self.expect(')')?;
        if begin.wrapping_add(len) != end {
            let what = format!("{begin}:{end}({len}) does not add up");
            let fix = format!("{begin} and {len} bytes make {}", begin.wrapping_add(len));
            return Err(Fault::new(pos, what, fix));
        }
        Ok((begin, len))
    }

    fn icmp(&mut self) -> Parsed<IcmpSpec> {
        let (pos, kind_word) = self.any_word("an ICMP type")?;
        let family = self.family;
        let kind = icmp_names::kind(family, &kind_word)
            .ok_or_else(|| icmp_names::unknown_kind(pos, family, &kind_word))?;
        let mut code = 0;
        if let Kind::Word(word) = &self.peek().kind
            && !matches!(word.as_str(), "mtu" | "id")
        {
            let word = word.clone();
            let pos = self.next().pos;
            code = icmp_names::code(family, kind, &word)
                .ok_or_else(|| icmp_names::unknown_code(pos, family, kind, &word))?;
        }
        let mtu = if self.is_word("mtu") {
            let pos = self.next().pos;
            let max = if family == Family::V4 { 0xffff } else { u32::MAX };
            let mtu = self.number("MTU", max)?;
            let wants = match family {
                Family::V4 => (3, 4),
                Family::V6 => (2, 0),
            };
            if (kind, code) != wants {
                let fix = "only `unreachable frag_needed` and `packet_too_big` carry an MTU";
                return Err(Fault::new(pos, "this ICMP message has no MTU", fix));
            }
            Some(mtu)
        } else {
            None
        };
        let echo_id = if self.eat_word("id") { self.number("echo id", 0xffff)? as u16 } else { 0 };
        let quoted =
            if self.eat('[') { self.quoted_packet()? } else { Quoted::Tcp { seq: 0, len: 0 } };
        Ok(IcmpSpec { kind, code, mtu, echo_id, quoted })
    }

    fn quoted_packet(&mut self) -> Parsed<Quoted> {
        let (udp, raw) = (self.is_word("udp"), self.is_word("raw"));
        let quoted = if udp || raw {
            self.next();
            self.expect('(')?;
            let len = self.number("payload length", 0xffff)?;
            self.expect(')')?;
            if udp { Quoted::Udp(len) } else { Quoted::Raw(len) }
        } else {
            let (seq, len) = self.sequence_range()?;
            Quoted::Tcp { seq, len }
        };
        self.expect(']')?;
        Ok(quoted)
    }
}

/// The flags that letters stand for, and whether an ACE digit was among them.
fn flags_of(text: &str) -> Result<(u16, bool), String> {
    let (mut flags, mut letters, mut digit) = (0, false, None);
    for c in text.chars() {
        match c {
            'F' => flags |= 0x001,
            'S' => flags |= 0x002,
            'R' => flags |= 0x004,
            'P' => flags |= 0x008,
            '.' => flags |= 0x010,
            'U' => flags |= 0x020,
            'E' | 'W' | 'A' if digit.is_some() => {
                return Err(format!("flag `{c}` besides an ACE digit"));
            }
            'E' | 'W' | 'A' => {
                letters = true;
                flags |= match c {
                    'E' => 0x040,
                    'W' => 0x080,
                    _ => 0x100,
                };
            }
            '0'..='7' if letters || digit.is_some() => {
                return Err(format!("ACE digit `{c}` besides another ECN flag"));
            }
            '0'..='7' => digit = c.to_digit(8),
            _ => return Err(format!("unknown TCP flag `{c}`")),
        }
    }
    let ace = digit.unwrap_or(0) as u16;
    flags |= (ace & 1) << 6 | (ace & 2) << 6 | (ace & 4) << 6;
    Ok((flags, ace != 0))
}

const MAX_LAYERS: usize = 4;
const MAX_LABELS: usize = 8;
