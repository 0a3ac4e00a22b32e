//! The least time that a flow would take in the empty network.
//!
//! A handshake of one round trip, then all segments, full but for the last, at the rate of the slowest
//! link, and the last one once more over each other link. No window ever waits: what TCP's slow start
//! takes longer counts as slowdown. Of a link that changes, its highest rate and its shortest delay count. Packets that are
//! spread over several ways one by one may be faster than this.

use std::collections::BTreeMap;

use datapath::units::Rate;

use crate::plan::Plan;

/// Ideal times by pair of hosts.
pub struct Ideals<'a> {
    plan: &'a Plan,
    paths: BTreeMap<(usize, usize), Path>,
}

/// The sums over the links of a path.
#[derive(Clone, Debug, Default)]
struct Path {
    /// Sum of the delays, in ns.
    delay: u64,
    /// Rates of the links, in bit/s.
    rates: Vec<u64>,
    /// The smallest MTU.
    mtu: u64,
    /// Bytes of an IP header: 20, or 40 of IPv6.
    ip: u64,
}

/// Bytes of an Ethernet header, of a TCP header with time stamps, and of one with the options of a SYN.
const ETHERNET: u64 = 14;
const TCP: u64 = 32;
const SYN: u64 = 40;

impl<'a> Ideals<'a> {
    /// Of a plan.
    pub fn new(plan: &'a Plan) -> Self {
        Self { plan, paths: BTreeMap::new() }
    }

    /// Nanoseconds from the SYN until the last byte has arrived.
    pub fn of(&mut self, from: usize, to: usize, bytes: u64) -> u64 {
        let back = self.path(to, from).handshake();
        let there = self.path(from, to);
        let (all, last) = there.packets(bytes);
        there.handshake() + back + there.burst(all, last)
    }

    /// Nanoseconds from a request of `client` over a connection that stands, of so many bytes, until the last byte
    /// of `bytes` has come back.
    pub fn of_answer(&mut self, client: usize, server: usize, request: u64, bytes: u64) -> u64 {
        let mut way = |from, to, bytes| {
            let path = self.path(from, to);
            let (all, last) = path.packets(bytes);
            path.burst(all, last)
        };
        way(client, server, request) + way(server, client, bytes)
    }

    fn path(&mut self, from: usize, to: usize) -> &Path {
        self.paths.entry((from, to)).or_insert_with(|| Path::between(self.plan, from, to))
    }
}

impl Path {
    /// The first of several equal ways.
    fn between(plan: &Plan, from: usize, to: usize) -> Self {
        let mut path = Self { mtu: u64::MAX, ip: 20, ..Self::default() };
        let mut node = from;
        while node != to && path.rates.len() <= plan.nodes.len() {
            let Some(link) = plan.paths.links(node, to).first().map(|link| &plan.links[*link])
            else {
                break;
            };
            let end = usize::from(link.ends[1] == node);
            let direction = &link.directions[end];
            path.delay += direction.least_delay().as_nanos();
            path.rates.push(direction.highest_rate().map_or(u64::MAX, Rate::bits_per_sec));
            if link.addresses.is_some_and(|addresses| addresses[end].0.is_ipv6()) {
                path.ip = 40;
            }
            path.mtu = path.mtu.min(u64::from(link.mtu));
            node = link.ends[1 - end];
        }
        path
    }

    /// A SYN, or what answers it.
    fn handshake(&self) -> u64 {
        let bytes = ETHERNET + self.ip + SYN;
        self.delay + self.rates.iter().map(|rate| nanos(bytes, *rate)).sum::<u64>()
    }

    /// Bytes on the wire of so many bytes in full segments, and of the last of these.
    fn packets(&self, bytes: u64) -> (u64, u64) {
        let headers = self.ip + TCP;
        let mss = self.mtu.saturating_sub(headers).max(1);
        let segments = bytes.div_ceil(mss).max(1);
        let last = bytes - (segments - 1) * mss + ETHERNET + headers;
        (bytes + segments * (ETHERNET + headers), last)
    }

    /// `all` bytes over the slowest link, and the last packet over the others.
    fn burst(&self, all: u64, last: u64) -> u64 {
        let slowest = self.rates.iter().copied().min().unwrap_or(u64::MAX);
        let once: u64 = self.rates.iter().map(|rate| nanos(last, *rate)).sum();
        self.delay + once - nanos(last, slowest) + nanos(all, slowest)
    }
}

fn nanos(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Experiment;

    #[test]
    fn a_link_that_changes_counts_as_what_it_is_at_best() {
        let took = |link: &str| {
            let text = format!(
                "schema = 1\nname = \"x\"\nnodes = {{ a = {{}}, b = {{}} }}\n[links.l]\n\
                 ends = [\"a\", \"b\"]\n{link}\n[flows.f]\napp = \"ping\"\nfrom = \"a\"\nto = \"b\"\n"
            );
            let plan = Experiment::parse("x.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
            Ideals::new(&plan.base).of(0, 1, 1_000_000)
        };
        let best = took("rate = \"100mbit\"\ndelay = \"1ms\"");
        assert!((80_000_000..90_000_000).contains(&best), "{best}");
        let rises =
            "rate = \"1mbit\"\ndelay = \"1ms\"\nschedule = [{ at = \"1s\", rate = \"100mbit\" }]";
        let falls =
            "rate = \"100mbit\"\ndelay = \"9ms\"\nschedule = [{ at = \"1s\", delay = \"1ms\" }]";
        assert_eq!([took(rises), took(falls)], [best; 2]);
    }
}
