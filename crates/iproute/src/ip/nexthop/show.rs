//! What is shown of next-hop objects and of the buckets of resilient groups, as text and as JSON.

use super::super::json::{Object, list};
use super::super::names::{self, invalid};
use super::super::{Ip, IpError, IpResult, Options, verb};
use super::is_of;
use crate::words::Words;
use core::fmt::Write as _;
use datapath::fib::nexthop::{Object as NextHopObject, ObjectConfig};
use datapath::fib::resilient::{BucketInfo, Member, Resilient};
use datapath::fib::{FibError, NextHop};
use datapath::units::{Duration, NANOS_PER_SEC};

impl Ip {
    pub(super) fn nexthop_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
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

    pub(super) fn objects_out(
        &self,
        objects: &[(u32, &NextHopObject)],
        options: Options,
    ) -> String {
        if options.json {
            let items: Vec<String> =
                objects.iter().map(|&(id, object)| self.object_json(id, object)).collect();
            return list(&items);
        }
        objects.iter().map(|&(id, object)| self.object_text(id, object, options.details)).collect()
    }

    pub(in crate::ip) fn object_text(
        &self,
        id: u32,
        object: &NextHopObject,
        details: bool,
    ) -> String {
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

    pub(super) fn bucket_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
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

fn scope(object: &NextHopObject, hop: &NextHop) -> &'static str {
    if hop.hop.gateway.is_some() || object.v6() == Some(true) { "link" } else { "host" }
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
