//! `ip route get`: the kernel's answer, and with `-d` how it was found.

use super::json::{Object, list};
use super::names::{self, invalid};
use super::route::read_tos;
use super::show::Selector;
use super::{Ip, IpError, IpResult, Options};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::{Decision, Hop, Protocol, RouteKey, RouteType};

const WORDS: [&str; 10] =
    ["from", "iif", "oif", "tos", "mark", "ipproto", "sport", "dport", "fibmatch", "to"];

/// A question as its words put it.
struct Question {
    key: RouteKey,
    from: bool,
    mark: bool,
    fibmatch: bool,
}

impl Ip {
    pub(super) fn route_get(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let asked = self.read_question(words, options.family())?;
        if asked.fibmatch {
            let found = self.fib.matching(&asked.key);
            let route =
                found.ok_or(IpError::Answer("RTNETLINK answers: Network is unreachable"))?;
            let selector = Selector::nothing();
            return Ok(if options.json {
                list(&[self.route_json(&route, &selector, options)])
            } else {
                self.route_text(&route, &selector, options)
            });
        }
        let explain = self.explain || options.details;
        let hop = match self.fib.lookup(&asked.key) {
            Decision::Forward(hop) => Some(hop),
            Decision::Local => None,
            Decision::Blackhole => {
                return Err(IpError::Answer("RTNETLINK answers: Invalid argument"));
            }
            Decision::Unreachable => {
                return Err(IpError::Answer("RTNETLINK answers: No route to host"));
            }
            Decision::Prohibit => {
                return Err(IpError::Answer("RTNETLINK answers: Permission denied"));
            }
            Decision::NoRoute => {
                return Err(IpError::Answer("RTNETLINK answers: Network is unreachable"));
            }
        };
        Ok(if options.json {
            let answer = self.answer_json(&asked, hop);
            list(&[if explain { answer.raw("why", &self.why_json(&asked.key)) } else { answer }
                .finish()])
        } else {
            let mut text = self.answer_text(&asked, hop);
            if explain {
                text += &self.why_text(&asked.key);
            }
            text
        })
    }

    /// The first address tells the family of the other, unless `-4` or `-6` did.
    fn read_question(&self, words: &mut Words<'_>, mut family: Option<bool>) -> Result<Question> {
        let mut asked = None;
        let mut from = None;
        let (mut mark, mut fibmatch) = (false, false);
        let mut key = RouteKey::to(IpAddr::from([0, 0, 0, 0]));
        while let Some(word) = words.next() {
            match word.text {
                "from" => from = Some(host(words.value(word)?, &mut family)?),
                "iif" => {
                    let port = self.devices.read(words.value(word)?)?;
                    key.iif = Some(port).filter(|&port| port != super::LOOPBACK);
                }
                "oif" | "dev" => key.oif = Some(self.devices.read(words.value(word)?)?),
                "tos" | "dsfield" => key.tos = read_tos(words.value(word)?)?,
                "mark" => {
                    key.mark = names::number(words.value(word)?, "Invalid \"mark\" value")?;
                    mark = true;
                }
                "ipproto" => key.protocol = names::ip_protocol(words.value(word)?)?,
                "sport" => key.src_port = port(words.value(word)?)?,
                "dport" => key.dst_port = port(words.value(word)?)?,
                "fibmatch" => fibmatch = true,
                "to" => asked = Some(host(words.value(word)?, &mut family)?),
                _ if asked.is_none() => {
                    let read = host(word, &mut family);
                    asked = Some(read.map_err(|error| with_nearest(error, word))?);
                }
                _ => return Err(word.unknown("route get", &WORDS)),
            }
        }
        let dst = asked.ok_or_else(|| words.ended("need at least a destination address"))?;
        key.dst = dst;
        key.src = from.unwrap_or(RouteKey::to(dst).src);
        Ok(Question { key, from: from.is_some(), mark, fibmatch })
    }

    fn answer_text(&self, asked: &Question, hop: Option<Hop>) -> String {
        let key = &asked.key;
        let v6 = key.dst.is_ipv6();
        let mut out = String::new();
        if hop.is_none() {
            let _ = write!(out, "{} ", names::type_name(self.local_kind(key)));
        }
        let _ = write!(out, "{} ", key.dst);
        if asked.from || v6 {
            let _ = write!(out, "from {} ", key.src);
        }
        if key.tos != 0 {
            let _ = write!(out, "tos {:#04x} ", key.tos);
        }
        if let Some(gateway) = hop.and_then(|hop| hop.gateway) {
            let _ = write!(out, "via {gateway} ");
        }
        let _ = write!(out, "dev {} ", self.answer_device(key, hop));
        if hop.is_none() {
            out += "table local ";
        }
        if let Some(protocol) = self.told_protocol(key) {
            let _ = write!(out, "proto {protocol} ");
        }
        if let Some(source) = self.answer_source(asked) {
            let _ = write!(out, "src {source} ");
        }
        if v6 {
            let _ = write!(out, "metric {} ", self.metric(key));
            if let Some(iif) = key.iif {
                let _ = write!(out, "iif {} ", self.devices.name(iif));
            }
            return out + "pref medium\n";
        }
        if asked.mark {
            let _ = write!(out, "mark {:#x} ", key.mark);
        }
        if key.iif.is_none() {
            out += "uid 0 ";
        }
        out += "\n    cache ";
        if let Some(flags) = self.cache_flags(key, hop) {
            let _ = write!(out, "<{}> ", flags.join(","));
        }
        if let Some(iif) = key.iif {
            let _ = write!(out, "iif {} ", self.devices.name(iif));
        }
        out + "\n"
    }

    fn answer_json(&self, asked: &Question, hop: Option<Hop>) -> Object {
        let key = &asked.key;
        let v6 = key.dst.is_ipv6();
        let mut object = Object::default();
        if hop.is_none() {
            object = object.text("type", names::type_name(self.local_kind(key)));
        }
        object = object.text("dst", &key.dst.to_string());
        if asked.from || v6 {
            object = object.text("from", &key.src.to_string());
        }
        if key.tos != 0 {
            object = object.text("tos", &format!("{:#04x}", key.tos));
        }
        if let Some(gateway) = hop.and_then(|hop| hop.gateway) {
            object = object.text("gateway", &gateway.to_string());
        }
        object = object.text("dev", self.answer_device(key, hop));
        if hop.is_none() {
            object = object.text("table", "local");
        }
        if let Some(protocol) = self.told_protocol(key) {
            object = object.text("protocol", &protocol);
        }
        if let Some(source) = self.answer_source(asked) {
            object = object.text("prefsrc", &source.to_string());
        }
        if v6 {
            object = object.number("metric", self.metric(key)).words("flags", &[]);
            if let Some(iif) = key.iif {
                object = object.text("iif", self.devices.name(iif));
            }
            return object.text("pref", "medium");
        }
        object = object.words("flags", &[]);
        if asked.mark {
            object = object.text("mark", &format!("{:#x}", key.mark));
        }
        if key.iif.is_none() {
            object = object.number("uid", 0u32);
        }
        object = object.words("cache", &self.cache_flags(key, hop).unwrap_or_default());
        if let Some(iif) = key.iif {
            object = object.text("iif", self.devices.name(iif));
        }
        object
    }

    /// IPv6 answers tell who made the route, unless it was `ip` without a word.
    fn told_protocol(&self, key: &RouteKey) -> Option<String> {
        let route = self.fib.matching(key).filter(|_| key.dst.is_ipv6())?;
        (route.protocol != Protocol::BOOT).then(|| names::protocol_name(route.protocol))
    }

    /// Broadcast answers keep their device, local ones come from `lo`.
    fn answer_device(&self, key: &RouteKey, hop: Option<Hop>) -> &str {
        match (hop, self.local_kind(key)) {
            (Some(hop), _) => self.devices.name(hop.port),
            (None, RouteType::Broadcast) => {
                let paths = self.fib.candidates(key);
                paths.first().map_or("lo", |path| self.devices.name(path.hop.port))
            }
            (None, _) => "lo",
        }
    }

    /// The address that a packet without one would take. IPv6 tells it even where one was given.
    fn answer_source(&self, asked: &Question) -> Option<IpAddr> {
        let key = &asked.key;
        if key.iif.is_some() || asked.from && key.dst.is_ipv4() {
            return None;
        }
        self.fib.source(key, self.devices.own())
    }

    fn local_kind(&self, key: &RouteKey) -> RouteType {
        self.fib.matching(key).map_or(RouteType::Local, |route| route.kind)
    }

    fn metric(&self, key: &RouteKey) -> u32 {
        self.fib.matching(key).map_or(0, |route| route.metric)
    }

    fn cache_flags(&self, key: &RouteKey, hop: Option<Hop>) -> Option<Vec<&'static str>> {
        match (hop, self.local_kind(key)) {
            (Some(_), _) => None,
            (None, RouteType::Broadcast) => Some(vec!["local", "brd"]),
            (None, _) => Some(vec!["local"]),
        }
    }
}

fn host(word: Word<'_>, family: &mut Option<bool>) -> Result<IpAddr> {
    let (addr, _) = names::loose_prefix(word, *family)?;
    *family = Some(addr.is_ipv6());
    Ok(addr)
}

fn with_nearest(
    mut error: crate::words::GrammarError,
    word: Word<'_>,
) -> crate::words::GrammarError {
    error.nearest = word.unknown("route get", &WORDS).nearest;
    error
}

fn port(word: Word<'_>) -> Result<u16> {
    word.text.parse().map_err(|_| invalid(word, "port value is invalid", None))
}
