//! `ip nexthop add|replace|del|show|get` and `ip nexthop bucket show|get`.

mod show;

use super::names::{self, invalid};
use super::route::{read_gateway, read_weight};
use super::{Ip, IpError, IpResult, Options, verb};
use crate::words::{Result, Word, Words};
use core::net::IpAddr;
use datapath::fib::nexthop::{Object as NextHopObject, ObjectConfig};
use datapath::fib::resilient::{Member, ResilientConfig};
use datapath::fib::{FibError, Hop, NextHop};
use datapath::units::Duration;

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
            self.reach(None, gateway, Some(port))?;
        }
        Ok(ObjectConfig::Hop(NextHop { hop: Hop { port, gateway }, weight: 1, onlink }))
    }
}

/// The family of an object is that of its gateway, without one that with which it was made; a group has none
/// (`nh_dump_filtered`).
fn is_of(object: &NextHopObject, family: Option<bool>) -> bool {
    family.is_none_or(|v6| object.v6() == Some(v6))
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
