//! Why `ip route get` answers as it does: rule, table, prefix, hash, regions.

use super::Ip;
use super::json::{Object, list};
use super::names;
use core::fmt::Write as _;
use datapath::fib::multipath::Path;
use datapath::fib::{Algorithm, Decision, Explanation, Hop, RouteKey};

/// A next hop with its part of the 31-bit hash space.
struct Region<'a> {
    path: &'a Path,
    /// First and last hash; `None`: out of service.
    range: Option<(u32, u32)>,
}

impl Ip {
    pub(super) fn why_text(&self, key: &RouteKey) -> String {
        let mut out = String::new();
        let Some(why) = self.fib.explain(key) else { return out };
        let rule = self.rule_text(why.rule, self.fib.rules(key.dst.is_ipv6()));
        let _ = writeln!(out, "    rule {}", rule.trim_end().replace('\t', " "));
        let table = names::table_name(why.route.table);
        let _ = writeln!(out, "    route {:?} table {table}", why.route.prefix);
        if let Some(hash) = why.hash {
            let chooses = self.chooser(&why);
            let _ = writeln!(out, "    hash {hash:#010x} hash31 {:#010x} {chooses}", hash >> 1);
        } else if why.candidates.len() > 1 {
            let _ = writeln!(out, "    {}", self.chooser(&why));
        }
        if let Some((bucket, buckets)) = why.bucket {
            let _ = writeln!(out, "    bucket {bucket} of {buckets}");
        }
        let chosen = self.chosen(key);
        for Region { path, range } in regions(&why) {
            let _ = write!(out, "    nexthop ");
            if let Some(gateway) = path.hop.gateway {
                let _ = write!(out, "via {gateway} ");
            }
            let _ = write!(out, "dev {} weight {}", self.devices.name(path.hop.port), path.weight);
            match range {
                None => out += " out of service",
                Some((from, to)) if why.hash.is_some() && why.bucket.is_none() => {
                    let _ = write!(out, " bounds {from:#010x}..{to:#010x}");
                }
                Some(_) => {}
            }
            out += if Some(path.hop) == chosen { " <-\n" } else { "\n" };
        }
        out
    }

    pub(super) fn why_json(&self, key: &RouteKey) -> String {
        let Some(why) = self.fib.explain(key) else { return "null".to_owned() };
        let mut object = Object::default()
            .number("rule", why.rule.priority)
            .text("table", &names::table_name(why.route.table))
            .text("prefix", &format!("{:?}", why.route.prefix));
        if let Some(hash) = why.hash {
            object = object.number("hash", hash).number("hash31", hash >> 1);
        }
        if why.candidates.len() > 1 {
            object = match why.route.algorithm {
                Algorithm::System => object.number("policy", self.policy(&why)),
                algorithm => object.text("mp_algo", names::algorithm_name(algorithm).unwrap_or("")),
            };
        }
        if let Some((bucket, buckets)) = why.bucket {
            object = object.number("bucket", bucket).number("buckets", buckets);
        }
        let chosen = self.chosen(key);
        let hops: Vec<String> = regions(&why)
            .map(|Region { path, range }| {
                let mut hop = Object::default();
                if let Some(gateway) = path.hop.gateway {
                    hop = hop.text("gateway", &gateway.to_string());
                }
                hop =
                    hop.text("dev", self.devices.name(path.hop.port)).number("weight", path.weight);
                if let (Some((from, to)), None) = (range, why.bucket) {
                    hop = hop.number("lower_bound", from).number("upper_bound", to);
                }
                let in_service = if range.is_some() { "true" } else { "false" };
                let is_chosen = if Some(path.hop) == chosen { "true" } else { "false" };
                hop.raw("in_service", in_service).raw("chosen", is_chosen).finish()
            })
            .collect();
        object.raw("nexthops", &list(&hops)).finish()
    }

    fn chosen(&self, key: &RouteKey) -> Option<Hop> {
        match self.fib.lookup(key) {
            Decision::Forward(hop) => Some(hop),
            _ => None,
        }
    }

    /// `fib_multipath_hash_policy` of the route's address family.
    fn policy(&self, why: &Explanation<'_>) -> u32 {
        let v6 = why.route.prefix.addr().is_ipv6();
        self.fib.settings().hashed(v6).policy as u32
    }

    /// What chooses among the next hops, in words.
    fn chooser(&self, why: &Explanation<'_>) -> String {
        match why.route.algorithm {
            Algorithm::System => format!("policy {}", self.policy(why)),
            algorithm => format!("mp_algo {}", names::algorithm_name(algorithm).unwrap_or("")),
        }
    }
}

/// The next hops in order, each from where the one before ends.
fn regions<'a>(why: &Explanation<'a>) -> impl Iterator<Item = Region<'a>> {
    let mut next = 0u32;
    why.candidates.iter().map(move |path| {
        let range = (path.bound >= 0).then_some((next, path.bound as u32));
        next = range.map_or(next, |(_, last)| last + 1);
        Region { path, range }
    })
}
