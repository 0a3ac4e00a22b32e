//! `ip nexthop add|replace|del|show|get` and `ip nexthop bucket show|get`.

use super::json::{Object, list};
use super::names::{self, invalid};
use super::route::{read_gateway, read_weight};
use super::{Ip, IpError, IpResult, Options, verb};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::nexthop::{Object as NextHopObject, ObjectConfig};
use datapath::fib::resilient::{BucketInfo, Member, Resilient, ResilientConfig};
use datapath::fib::{FibError, Hop, NextHop};
use datapath::units::{Duration, NANOS_PER_SEC};

const WORDS: [&str; 11] = [
    "id",
    "via",
    "dev",
    "group",
    "type",
    "buckets",
    "idle_timer",
    "unbalanced_timer",
    "blackhole",
    "onlink",
    "proto",
];

/// A next-hop object as its words describe it.
#[derive(Default)]
struct ObjectWords {
    id: Option<u32>,
    gateway: Option<IpAddr>,
    port: Option<u16>,
    onlink: bool,
    blackhole: bool,
    group: Vec<Member>,
    resilient: Option<ResilientWords>,
}

/// A bucket of a resilient group, as it is listed.
fn bucket_line(id: u32, bucket: &BucketInfo, options: Options) -> String {
    let idle = seconds(bucket.idle_time);
    if !options.json {
        return format!("id {id} index {} idle_time {idle} nhid {} \n", bucket.index, bucket.id);
    }
    let inner = Object::default()
        .number("index", bucket.index)
        .raw("idle_time", &idle)
        .number("nhid", bucket.id);
    let no_flags: &[&str] = &[];
    Object::default()
        .number("id", id)
        .raw("bucket", &inner.finish())
        .words("flags", no_flags)
        .finish()
}

/// What was said of a resilient group.
#[derive(Default)]
struct ResilientWords {
    buckets: Option<u16>,
    idle_timer: Option<Duration>,
    unbalanced_timer: Option<Duration>,
}

impl Ip {
    pub(super) fn nexthop(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let verbs = ["add", "replace", "del", "show", "get", "bucket", "flush"];
        match verb(words, "nexthop", &verbs)? {
            "add" => {
                let (id, config) = self.read_object(words, options, false)?;
                let v6 = options.family().unwrap_or(false);
                self.fib.add_object_of(self.now, id, config, Some(v6))?;
            }
            "replace" => {
                let (id, config) = self.read_object(words, options, true)?;
                let v6 = options.family().unwrap_or(false);
                self.fib.replace_object_of(self.now, id, config, Some(v6))?;
            }
            "del" => {
                let id = read_id(words)?;
                self.fib.delete_object(self.now, id)?;
            }
            "get" => {
                let id = read_id(words)?;
                let object = self.fib.objects().get(id).ok_or(FibError::NoSuchEntry)?;
                return Ok(self.objects_out(&[(id, object)], options));
            }
            "bucket" => return self.bucket_show(words, options),
            "flush" => {
                let objects = self.fib.objects().iter();
                let its = objects.filter(|(_, object)| is_of(object, options.family()));
                let ids: Vec<u32> = its.map(|(id, _)| id).collect();
                for id in ids {
                    if self.fib.objects().get(id).is_some() {
                        self.fib.delete_object(self.now, id)?;
                    }
                }
            }
            _ => return self.nexthop_show(words, options),
        }
        Ok(String::new())
    }

    fn nexthop_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let (mut id, mut port, mut groups) = (None, None, false);
        while let Some(word) = words.next() {
            match word.text {
                "id" => {
                    let what = "invalid id value";
                    id = Some(names::number(words.value(word)?, what)?);
                }
                "dev" => port = Some(self.devices.read(words.value(word)?)?),
                "group" | "groups" => groups = true,
                _ => return Err(word.unknown("nexthop show", &["id", "dev", "group"]).into()),
            }
        }
        let on = |object: &NextHopObject| matches!(object.config(), ObjectConfig::Hop(hop) if Some(hop.hop.port) == port);
        let wanted: Vec<(u32, &NextHopObject)> = self
            .fib
            .objects()
            .iter()
            .filter(|(there, _)| id.is_none_or(|id| id == *there))
            .filter(|(_, object)| id.is_some() || is_of(object, options.family()))
            .filter(|(_, object)| port.is_none() || on(object))
            .filter(|(_, object)| !groups || !object.members().is_empty())
            .collect();
        if id.is_some() && wanted.is_empty() {
            return Err(FibError::NoSuchEntry.into());
        }
        Ok(self.objects_out(&wanted, options))
    }

    fn objects_out(&self, objects: &[(u32, &NextHopObject)], options: Options) -> String {
        if options.json {
            let items: Vec<String> =
                objects.iter().map(|&(id, object)| self.object_json(id, object)).collect();
            return list(&items);
        }
        objects.iter().map(|&(id, object)| self.object_text(id, object, options.details)).collect()
    }

    pub(super) fn object_text(&self, id: u32, object: &NextHopObject, details: bool) -> String {
        let mut out = format!("id {id} ");
        match object.config() {
            ObjectConfig::Blackhole => {}
            ObjectConfig::Hop(hop) => {
                if let Some(gateway) = hop.hop.gateway {
                    let _ = write!(out, "via {gateway} ");
                }
                let _ = write!(out, "dev {} ", self.devices.name(hop.hop.port));
            }
            ObjectConfig::Group(members) => {
                let _ = write!(out, "group {} ", group_text(members));
            }
            ObjectConfig::Resilient(members, config) => {
                let _ = write!(
                    out,
                    "group {} type resilient buckets {} idle_timer {} unbalanced_timer {} \
                     unbalanced_time {} ",
                    group_text(members),
                    config.buckets,
                    seconds(config.idle_timer),
                    seconds(config.unbalanced_timer),
                    seconds(self.unbalanced_time(object)),
                );
            }
        }
        match object.config() {
            ObjectConfig::Hop(hop) => {
                let _ = write!(out, "scope {} ", scope(object, hop));
            }
            _ if details => out += "scope global ",
            _ => {}
        }
        if *object.config() == ObjectConfig::Blackhole {
            out += "blackhole ";
        }
        if details {
            out += "proto unspec ";
        }
        if let ObjectConfig::Hop(hop) = object.config() {
            for flag in self.flags(hop) {
                let _ = write!(out, "{flag} ");
            }
        }
        out + "\n"
    }

    fn object_json(&self, id: u32, object: &NextHopObject) -> String {
        let out = Object::default().number("id", id);
        let no_flags: &[&str] = &[];
        match object.config() {
            ObjectConfig::Blackhole => out.flag("blackhole").words("flags", no_flags),
            ObjectConfig::Hop(hop) => {
                let out = match hop.hop.gateway {
                    Some(gateway) => out.text("gateway", &gateway.to_string()),
                    None => out,
                };
                out.text("dev", self.devices.name(hop.hop.port))
                    .text("scope", scope(object, hop))
                    .words("flags", &self.flags(hop))
            }
            ObjectConfig::Group(members) => {
                out.raw("group", &group_json(members)).words("flags", no_flags)
            }
            ObjectConfig::Resilient(members, config) => {
                let arguments = Object::default()
                    .number("buckets", config.buckets)
                    .raw("idle_timer", &seconds(config.idle_timer))
                    .raw("unbalanced_timer", &seconds(config.unbalanced_timer))
                    .raw("unbalanced_time", &seconds(self.unbalanced_time(object)));
                out.raw("group", &group_json(members))
                    .text("type", "resilient")
                    .raw("resilient_args", &arguments.finish())
                    .words("flags", no_flags)
            }
        }
        .finish()
    }

    fn flags(&self, hop: &NextHop) -> Vec<&'static str> {
        let link = self.fib.link(hop.hop.port);
        let (dead, linkdown) = (!link.up, !link.up || !link.carrier);
        let all = [("dead", dead), ("onlink", hop.onlink), ("linkdown", linkdown)];
        all.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
    }

    fn unbalanced_time(&self, object: &NextHopObject) -> Duration {
        let since = object.resilient().and_then(Resilient::unbalanced_since);
        since.map_or(Duration::ZERO, |since| self.now.saturating_since(since))
    }

    fn bucket_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        if verb(words, "nexthop bucket", &["show", "get"])? == "get" {
            return self.bucket_get(words, options);
        }
        let (mut wanted, mut member, mut over) = (None, None, None);
        while let Some(word) = words.next() {
            match word.text {
                "id" => wanted = Some(names::number(words.value(word)?, "invalid id value")?),
                "nhid" => member = Some(names::number(words.value(word)?, "invalid id value")?),
                "dev" => over = Some(self.devices.read(words.value(word)?)?),
                _ => {
                    let known = ["id", "nhid", "dev"];
                    return Err(word.unknown("nexthop bucket show", &known).into());
                }
            }
        }
        if let Some(id) = wanted {
            let object = self.fib.objects().get(id).ok_or(FibError::NoSuchEntry)?;
            if object.resilient().is_none() {
                return Err(IpError::Answer("Error: Nexthop group not of type resilient."));
            }
        }
        let is_over = |id: u32, port: u16| {
            self.fib.objects().get(id).is_some_and(|object| object.config().is_over(port))
        };
        let is_meant = |bucket: &BucketInfo| {
            member.is_none_or(|id| bucket.id == id)
                && over.is_none_or(|port| is_over(bucket.id, port))
        };
        let mut lines = Vec::new();
        for (id, _) in self.fib.objects().iter().filter(|(id, _)| wanted.is_none_or(|w| w == *id)) {
            let buckets = self.fib.buckets(self.now, id).into_iter().flatten();
            lines.extend(buckets.filter(is_meant).map(|bucket| bucket_line(id, &bucket, options)));
        }
        Ok(if options.json { list(&lines) } else { lines.concat() })
    }

    /// `ip nexthop bucket get id ID index INDEX` (`rtm_get_nexthop_bucket`).
    fn bucket_get(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let (mut id, mut index) = (None, None);
        while let Some(word) = words.next() {
            match word.text {
                "id" => id = Some(names::number(words.value(word)?, "invalid id value")?),
                "index" => {
                    let (value, what) = (words.value(word)?, "invalid bucket index value");
                    let number = u16::try_from(names::number(value, what)?);
                    index = Some(number.map_err(|_| invalid(value, what, None))?);
                }
                _ => return Err(word.unknown("nexthop bucket get", &["id", "index"]).into()),
            }
        }
        let (Some(id @ 1..), Some(index)) = (id, index) else {
            return Err(words.unexpected_end("\"id\" and \"index\" are required").into());
        };
        let object = self.fib.objects().get(id).ok_or(FibError::NoSuchEntry)?;
        if object.resilient().is_none() {
            return Err(IpError::Answer(if object.members().is_empty() {
                "Error: Not a nexthop group."
            } else {
                "Error: Nexthop group not of type resilient."
            }));
        }
        let bucket = self.fib.buckets(self.now, id).into_iter().flatten().nth(index.into());
        let bucket = bucket.ok_or(IpError::Answer("Error: Bucket index out of bounds."))?;
        let line = bucket_line(id, &bucket, options);
        Ok(if options.json { list(&[line]) } else { line })
    }

    fn read_object(
        &self,
        words: &mut Words<'_>,
        options: Options,
        replaces: bool,
    ) -> IpResult<(u32, ObjectConfig)> {
        let mut said = ObjectWords::default();
        while let Some(word) = words.next() {
            match word.text {
                "id" => said.id = Some(names::number(words.value(word)?, "invalid id value")?),
                "via" => said.gateway = Some(read_gateway(words, word, options.family())?),
                "dev" => said.port = Some(self.devices.read(words.value(word)?)?),
                "onlink" => said.onlink = true,
                "blackhole" => said.blackhole = true,
                "group" => said.group = read_group(words.value(word)?)?,
                "proto" | "protocol" => drop(words.value(word)?),
                "type" => said.resilient = read_type(words, word)?,
                "buckets" | "idle_timer" | "unbalanced_timer" | "unbalanced_time" => {
                    let value = words.value(word)?;
                    let Some(resilient) = &mut said.resilient else {
                        let what = "only resilient groups have it";
                        return Err(invalid(word, what, None).into());
                    };
                    resilient.read(word, value)?;
                }
                _ => return Err(word.unknown("nexthop", &WORDS).into()),
            }
        }
        if options.v6 && !said.group.is_empty() {
            return Err(IpError::Answer("Error: Invalid family for group."));
        }
        // 0 is none: the kernel finds one.
        let id = match said.id.filter(|&id| id != 0) {
            Some(id) => id,
            None if replaces => return Err(IpError::Answer("Error: Replace requires nexthop id.")),
            None => self.fib.objects().free_id(),
        };
        let there = self.fib.objects().get(id).filter(|_| replaces);
        let there = there.and_then(|object| match object.config() {
            ObjectConfig::Resilient(_, there) => Some(*there),
            _ => None,
        });
        let resilient = said.resilient.take().map(|words| words.config(there)).transpose()?;
        Ok((id, self.config(said, resilient)?))
    }

    fn config(
        &self,
        said: ObjectWords,
        resilient: Option<ResilientConfig>,
    ) -> IpResult<ObjectConfig> {
        let ObjectWords { gateway, port, onlink, blackhole, group, .. } = said;
        if !group.is_empty() {
            return Ok(match resilient {
                Some(config) => ObjectConfig::Resilient(group, config),
                None => ObjectConfig::Group(group),
            });
        }
        if blackhole {
            if gateway.is_some() || port.is_some() {
                return Err(IpError::Answer(
                    "Error: Blackhole attribute can not be used with gateway, oif, encap or fdb.",
                ));
            }
            return Ok(ObjectConfig::Blackhole);
        }
        let Some(port) = port else {
            return Err(IpError::Answer(
                "Error: Device attribute required for non-blackhole and non-fdb nexthops.",
            ));
        };
        let link = self.fib.link(port);
        if !link.up {
            return Err(IpError::Answer("Error: Nexthop device is not up."));
        }
        if !link.carrier {
            return Err(IpError::Answer("Error: Carrier for nexthop device is down."));
        }
        if let (Some(gateway), false) = (gateway, onlink) {
            self.reach(gateway, Some(port))?;
        }
        Ok(ObjectConfig::Hop(NextHop { hop: Hop { port, gateway }, weight: 1, onlink }))
    }
}

/// The family of an object is that of its gateway, without one that with which it was made; a group has none
/// (`nh_dump_filtered`).
fn is_of(object: &NextHopObject, family: Option<bool>) -> bool {
    family.is_none_or(|v6| object.v6() == Some(v6))
}

fn scope(object: &NextHopObject, hop: &NextHop) -> &'static str {
    if hop.hop.gateway.is_some() || object.v6() == Some(true) { "link" } else { "host" }
}

fn read_id(words: &mut Words<'_>) -> Result<u32> {
    let word = words.next().ok_or_else(|| words.unexpected_end("\"id\" is missing"))?;
    let value = if word.text == "id" { words.value(word)? } else { word };
    names::number(value, "invalid id value")
}

/// `1,3/2`: member 1 with weight 3, member 2 with weight 1.
fn read_group(word: Word<'_>) -> Result<Vec<Member>> {
    word.text
        .split('/')
        .map(|part| {
            let (id, weight) = part.split_once(',').map_or((part, None), |(id, w)| (id, Some(w)));
            let id = names::parse_number(id).filter(|&id| id > 0);
            let id = id.ok_or_else(|| invalid(word, "invalid id value", None))?;
            let weight = match weight {
                Some(text) => read_weight(Word { text, column: word.column })?,
                None => 1,
            };
            Ok(Member { id, weight })
        })
        .collect()
}

fn read_type(words: &mut Words<'_>, word: Word<'_>) -> Result<Option<ResilientWords>> {
    let value = words.value(word)?;
    match value.text {
        "mpath" => Ok(None),
        "resilient" => Ok(Some(ResilientWords::default())),
        _ => {
            let nearest = value.unknown("type", &["mpath", "resilient"]).nearest;
            Err(invalid(value, "\"type\" value is invalid", nearest))
        }
    }
}

impl ResilientWords {
    fn read(&mut self, word: Word<'_>, value: Word<'_>) -> Result<()> {
        let number = |what: &str| names::number(value, what);
        let time = |what: &str| Ok(Duration::from_secs(number(what)?.into()));
        match word.text {
            "buckets" => {
                let buckets = u16::try_from(number("invalid buckets value")?);
                let wrong = |_| invalid(value, "invalid buckets value", None);
                self.buckets = Some(buckets.map_err(wrong)?);
            }
            "idle_timer" => self.idle_timer = Some(time("invalid idle timer value")?),
            "unbalanced_timer" => {
                self.unbalanced_timer = Some(time("invalid unbalanced timer value")?);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the group that is `there` already was not told now stays as it is; a new one is told how many
    /// buckets it has (`nexthop_create_group`, `replace_nexthop_grp`).
    fn config(&self, there: Option<ResilientConfig>) -> IpResult<ResilientConfig> {
        let of_new = || self.buckets.map(|_| ResilientConfig::default());
        let usual = there.or_else(of_new).ok_or(IpError::Answer(
            "Error: Number of buckets not specified for nexthop group insertion.",
        ))?;
        Ok(ResilientConfig {
            buckets: self.buckets.unwrap_or(usual.buckets),
            idle_timer: self.idle_timer.unwrap_or(usual.idle_timer),
            unbalanced_timer: self.unbalanced_timer.unwrap_or(usual.unbalanced_timer),
        })
    }
}

fn group_text(members: &[Member]) -> String {
    let parts: Vec<String> = members
        .iter()
        .map(|member| match member.weight {
            1 => member.id.to_string(),
            weight => format!("{},{weight}", member.id),
        })
        .collect();
    parts.join("/")
}

fn group_json(members: &[Member]) -> String {
    let parts: Vec<String> = members
        .iter()
        .map(|member| {
            let object = Object::default().number("id", member.id);
            let object = match member.weight {
                1 => object,
                weight => object.number("weight", weight),
            };
            object.finish()
        })
        .collect();
    list(&parts)
}

/// Seconds in hundredths, without trailing zeros (`%g` of `clock_t`).
fn seconds(span: Duration) -> String {
    let hundredths = span.as_nanos() / (NANOS_PER_SEC / 100);
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match rest {
        0 => whole.to_string(),
        rest if rest % 10 == 0 => format!("{whole}.{}", rest / 10),
        rest => format!("{whole}.{rest:02}"),
    }
}
