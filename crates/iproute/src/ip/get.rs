//! `ip route get`: the kernel's answer, and with `-d` how it was found.

mod answer;

use super::json::{Object, list};
use super::names::{self, invalid};
use super::route::read_tos;
use super::show::Selector;
use super::{Ip, IpError, IpResult, Options, metrics};
use crate::words::{Result, Word, Words};
use answer::{Answer, GetRequest};
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::{
    Decision, Hop, Protocol, Route, RouteKey, RouteType, Rule, Scope, TableId, Target,
};
use datapath::packet::protocol;

const WORDS: [&str; 10] =
    ["from", "iif", "oif", "tos", "mark", "ipproto", "sport", "dport", "fibmatch", "to"];

impl Ip {
    pub(super) fn route_get(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let asked = self.read_question(words, options.family())?;
        if asked.fibmatch {
            // What is refused is refused here as well.
            self.answer(&asked)?;
            let found = self.fib.matching(&asked.key);
            let route = found.ok_or(IpError::Answer("RTNETLINK answers: No route to host"))?;
            let mut route = Route { table: self.answering_table(&route), ..route };
            self.begin_with_chosen(&mut route, &asked.key);
            let iif = asked.key.iif.filter(|_| asked.key.dst.is_ipv6());
            let selector = Selector::of_packet(iif);
            return Ok(if options.json {
                list(&[self.route_json(&route, &selector, options)])
            } else {
                self.route_text(&route, &selector, options)
            });
        }
        let explain = self.explain || options.details;
        let found = self.answer(&asked)?;
        Ok(if options.json {
            let answer = self.answer_json(&asked, &found, options);
            list(&[if explain { answer.raw("why", &self.why_json(&asked.key)) } else { answer }
                .finish()])
        } else {
            let mut text = self.answer_text(&asked, &found, options);
            if explain {
                text += &self.why_text(&asked.key);
            }
            text
        })
    }

    /// The first address tells the family of the other, unless `-4` or `-6` did.
    fn read_question(&self, words: &mut Words<'_>, mut family: Option<bool>) -> Result<GetRequest> {
        let mut asked = None;
        let mut from = None;
        let mut fibmatch = false;
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
        let dst =
            asked.ok_or_else(|| words.unexpected_end("need at least a destination address"))?;
        key.dst = dst;
        let from = from.filter(|from| !from.is_unspecified());
        key.src = from.unwrap_or(RouteKey::to(dst).src);
        if dst.is_ipv4() && key.protocol == 0 {
            // The packet that the kernel makes up is a datagram (`inet_rtm_getroute`).
            key.protocol = protocol::UDP;
        }
        if dst.is_ipv4() && key.iif.is_some() {
            // What comes in is not asked by where it has to leave (`ip_route_input_slow`).
            key.oif = None;
        }
        Ok(GetRequest { key, from: from.is_some(), fibmatch })
    }

    /// IPv6 lists the next hops from the chosen one on (`rt6_fill_node` of a sibling).
    fn begin_with_chosen(&self, route: &mut Route, key: &RouteKey) {
        if let (Target::Hops(hops), Decision::Forward(chosen)) =
            (&mut route.target, self.fib.lookup(key))
            && key.dst.is_ipv6()
            && let Some(at) = hops.iter().position(|hop| hop.hop == chosen)
        {
            hops.rotate_left(at);
        }
    }

    /// The table that has answered; `main` only with `-d`.
    fn shown_table(&self, found: &Answer, options: Options) -> Option<String> {
        let table = self.answering_table(found.route.as_ref()?);
        (options.details || table != TableId::MAIN).then(|| names::table_name(table))
    }

    /// Without rules of its own a namespace has one trie for `local` and `main` of IPv4, and answers from `main`
    /// (`fib_trie_unmerge`).
    fn answering_table(&self, route: &Route) -> TableId {
        let merged =
            route.prefix.addr().is_ipv4() && self.fib.rules(false) == Rule::defaults(false);
        if merged && route.table == TableId::LOCAL { TableId::MAIN } else { route.table }
    }

    fn answer_text(&self, asked: &GetRequest, found: &Answer, options: Options) -> String {
        let key = &asked.key;
        let v6 = key.dst.is_ipv6();
        let mut out = String::new();
        if options.details || found.kind != RouteType::Unicast {
            let _ = write!(out, "{} ", names::type_name(found.kind));
        }
        let _ = write!(out, "{} ", key.dst);
        if asked.from || v6 {
            let _ = write!(out, "from {} ", key.src);
        }
        let tos = found.tos();
        if tos != 0 {
            let _ = write!(out, "tos {tos:#04x} ");
        }
        match found.gateway {
            Some(gateway) if gateway.is_ipv6() && !v6 => {
                let _ = write!(out, "via inet6 {gateway} ");
            }
            Some(gateway) => {
                let _ = write!(out, "via {gateway} ");
            }
            None => {}
        }
        let _ = write!(out, "dev {} ", self.devices.name(found.port));
        if let Some(table) = self.shown_table(found, options) {
            let _ = write!(out, "table {table} ");
        }
        if let Some((protocol, scope)) = shown_protocol(asked, found, options) {
            let _ = write!(out, "proto {protocol} ");
            if let Some(scope) = scope {
                let _ = write!(out, "scope {scope} ");
            }
        }
        if let Some(source) = found.source {
            let _ = write!(out, "src {source} ");
        }
        let (metrics, features) = found.metrics(key);
        let metrics = metrics::text(&metrics, features);
        let iif =
            key.iif.map_or_else(String::new, |iif| format!("iif {} ", self.devices.name(iif)));
        if v6 {
            let metric = found.route.as_ref().map_or(0, |route| route.metric);
            return out + &format!("metric {metric} {metrics}{iif}pref medium\n");
        }
        for flag in flags(found) {
            let _ = write!(out, "{flag} ");
        }
        let _ = match key.mark {
            0 => Ok(()),
            mark @ 1..16 => write!(out, "mark {mark} "),
            mark => write!(out, "mark {mark:#x} "),
        };
        if key.iif.is_none() {
            out += "uid 0 ";
        }
        out += "\n    cache ";
        let cached = found.cache_flags(key.dst);
        if !cached.is_empty() {
            let _ = write!(out, "<{}> ", cached.join(","));
        }
        out + &format!("{metrics}{iif}\n")
    }

    fn answer_json(&self, asked: &GetRequest, found: &Answer, options: Options) -> Object {
        let key = &asked.key;
        let v6 = key.dst.is_ipv6();
        let mut object = Object::default();
        if options.details || found.kind != RouteType::Unicast {
            object = object.text("type", names::type_name(found.kind));
        }
        object = object.text("dst", &key.dst.to_string());
        if asked.from || v6 {
            object = object.text("from", &key.src.to_string());
        }
        let tos = found.tos();
        if tos != 0 {
            object = object.text("tos", &format!("{tos:#04x}"));
        }
        object = self.hop_json(object, Hop { port: found.port, gateway: found.gateway }, v6);
        if let Some(table) = self.shown_table(found, options) {
            object = object.text("table", &table);
        }
        if let Some((protocol, scope)) = shown_protocol(asked, found, options) {
            object = object.text("protocol", &protocol);
            if let Some(scope) = scope {
                object = object.text("scope", &scope);
            }
        }
        if let Some(source) = found.source {
            object = object.text("prefsrc", &source.to_string());
        }
        if v6 {
            object = object.number("metric", found.route.as_ref().map_or(0, |route| route.metric));
        }
        object = object.words("flags", if v6 { &[] } else { flags(found) });
        if !v6 && key.mark != 0 {
            object = object.number("mark", key.mark);
        }
        if !v6 && key.iif.is_none() {
            object = object.number("uid", 0u32);
        }
        if !v6 {
            object = object.words("cache", found.cache_flags(key.dst));
        }
        let (metrics, features) = found.metrics(key);
        object = metrics::json(object, &metrics, features);
        if let Some(iif) = key.iif {
            object = object.text("iif", self.devices.name(iif));
        }
        if v6 { object.text("pref", "medium") } else { object }
    }
}

impl GetRequest {
    /// Of what comes in nobody chooses the source; IPv6 tells it even where one was given.
    fn hides_source(&self) -> bool {
        self.key.iif.is_some() || self.from && self.key.dst.is_ipv4()
    }
}

/// IPv6 answers tell who made the route, unless it was `ip` without a word, and with `-d` its scope.
fn shown_protocol(
    asked: &GetRequest,
    found: &Answer,
    options: Options,
) -> Option<(String, Option<String>)> {
    let route = found.route.as_ref().filter(|_| asked.key.dst.is_ipv6())?;
    let told = options.details || route.protocol != Protocol::BOOT;
    let scope = options.details.then(|| names::scope_name(Scope::UNIVERSE));
    told.then(|| (names::protocol_name(route.protocol), scope))
}

/// The kernel's `RTCF_MULTICAST` and `RTM_F_OFFLOAD_FAILED` are one bit, and `ip` knows the latter.
fn flags(found: &Answer) -> &'static [&'static str] {
    match found.kind {
        RouteType::Multicast => &["rt_offload_failed"],
        _ => &[],
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
