//! Lookups by keys and by packets as bytes, and tables so large that lookups use their accelerations.

use core::net::IpAddr;

use datapath::fib::dissect::{flow as flow_of_bytes, packet_flow};
use datapath::fib::{Decision, HashInput, NextHop, Prefix, Route, RouteFilter, RouteKey};
use datapath::packet::Packet;

use super::bench::{Bench, CheckResult};
use super::frames::any_packet;
use super::hashing;
use super::model::Answer;
use super::steps::LookupBatch;
use super::values::{any_address, any_port, masked};
use crate::draw::Draw;

impl Bench {
    pub(super) fn check_lookups(&mut self, asked: LookupBatch) -> CheckResult {
        let mut draw = Draw::new(asked.seed, 0);
        let keys: Vec<RouteKey> = (0..asked.count).map(|_| self.question(&mut draw)).collect();
        let mut together = vec![Decision::NoRoute; keys.len()];
        self.ip.fib.lookup_many(&keys, |index, decision| together[index] = decision);
        for (key, together) in keys.iter().zip(together) {
            let flow = HashInput::from(key);
            let expected = self.model.answer(&self.ip.fib, self.ip.now, key, &flow);
            let forwarded = self.ip.fib.forward(self.ip.now, key, || flow);
            if let Some(bucket) = self.model.bucket.take() {
                self.groups.use_bucket(bucket, self.ip.now);
            }
            self.check_answer(key, &expected, self.ip.fib.lookup(key), "look-up")?;
            self.check_answer(key, &expected, together, "look-up of many")?;
            self.check_answer(key, &expected, forwarded, "forwarding")?;
            self.digest.add_text(&format!("{forwarded:?}"));
        }
        Ok(())
    }

    /// Packets of any make are read from their bytes and forwarded.
    pub(super) fn frames(&mut self, asked: LookupBatch) -> CheckResult {
        let mut draw = Draw::new(asked.seed, 0);
        for _ in 0..asked.count {
            let key = RouteKey { oif: None, iif: Some(0), ..self.question(&mut draw) };
            let made = any_packet(key.src, key.dst, &mut draw);
            let flow = flow_of_bytes(&made.bytes);
            if flow != Some(made.flow) {
                return self.broken("flow", format!("{flow:?} is read from {made:x?}"));
            }
            // A packet has the headers that its parser knows.
            let packet = Packet::parse_ip(&made.bytes[..]).ok();
            let outer = packet.and_then(|packet| Some(packet_flow(&packet)?.outer));
            if outer != Some(made.flow.outer) {
                return self.broken("flow", format!("{outer:?} is the packet's of {made:x?}"));
            }
            let flow = made.flow;
            let expected = self.model.answer(&self.ip.fib, self.ip.now, &key, &flow);
            let forwarded = self.ip.fib.forward(self.ip.now, &key, || flow);
            if let Some(bucket) = self.model.bucket.take() {
                self.groups.use_bucket(bucket, self.ip.now);
            }
            self.check_answer(&key, &expected, forwarded, "forwarding of a packet")?;
            if let Err(what) = hashing::check(self.ip.fib.settings(), &flow, &mut draw) {
                return self.broken("hash", what);
            }
            // Whatever is cut off, nothing panics.
            let short = &made.bytes[..draw.range(0..=made.bytes.len() as u64) as usize];
            if let Ok(packet) = Packet::parse_ip(short) {
                self.digest.add_text(&format!("{:?}", packet_flow(&packet)));
            }
        }
        Ok(())
    }

    /// Routes to many prefixes come, or go again.
    pub(super) fn many(&mut self, add: bool, seed: u64, count: u32) -> CheckResult {
        let mut draw = Draw::new(seed, 0);
        let ports = self.model.links.len() as u8;
        for _ in 0..count {
            let v6 = draw.percent(20);
            let addr = if v6 {
                IpAddr::V6((0x2001_0db8 << 96 | u128::from(draw.bits()) << 64).into())
            } else {
                IpAddr::V4((0x0a00_0000 | draw.bits() as u32 & 0xff_ffff).into())
            };
            let most = if v6 { 64 } else { 32 };
            let len = *draw.one_of(&[most, 24, 24, 22, 18, 28]);
            let prefix = Prefix::new(masked(addr, len), len).expect("no host bits");
            let hop = NextHop::new(u16::from(any_port(ports, &mut draw)), None);
            let route = Route { metric: 5, ..Route::new(prefix, vec![hop]) };
            let done = if add {
                self.ip.fib.add(route).is_ok()
            } else {
                self.ip.fib.delete(&RouteFilter::exactly(&route)).is_ok()
            };
            self.digest.add(u64::from(done));
            if done
                != self
                    .model
                    .one_of_many(add, &Route { metric: 5, ..Route::new(prefix, vec![hop]) })
            {
                return self
                    .broken("routes", format!("{prefix:?} of many: added {add}, done {done}"));
            }
        }
        match self.model.difference(&self.ip.fib) {
            None => Ok(()),
            Some(what) => self.broken("routes", format!("after many in {what}")),
        }
    }

    fn check_answer(
        &self,
        key: &RouteKey,
        expected: &Answer,
        came: Decision,
        how: &str,
    ) -> CheckResult {
        let right = match expected {
            Answer::Only(decision) => *decision == came,
            Answer::OneOf(hops) => match came {
                Decision::Forward(hop) => hops.contains(&hop),
                Decision::NoRoute => hops.is_empty(),
                _ => false,
            },
        };
        if right {
            return Ok(());
        }
        let routes = self.ip.fib.matching(key);
        let what = format!("{how} of {key:?}: expected {expected:?}, came {came:?} by {routes:?}");
        self.broken("answers", what)
    }

    /// A packet to an address near a route's prefix.
    fn question(&self, draw: &mut Draw) -> RouteKey {
        let v6 = draw.percent(30);
        let near = self.model.prefix(draw.bits()).filter(|_| draw.percent(80));
        let dst = match near {
            Some(prefix) => near_to(&prefix, draw),
            None => any_address(v6, draw),
        };
        let owned = self.ip.devices.addresses(0).first().map(|(addr, _)| *addr);
        let owned = owned.filter(|addr| addr.is_ipv4() == dst.is_ipv4() && draw.percent(30));
        RouteKey {
            src: owned.unwrap_or_else(|| any_address(dst.is_ipv6(), draw)),
            iif: draw.maybe(60, |draw| draw.range(0..=3) as u16),
            oif: draw.maybe(15, |draw| draw.range(0..=3) as u16),
            tos: *draw.weighted(&[(5, 0), (2, 0x10), (1, 0x08), (1, 0x13), (1, 0xff)]),
            mark: draw.range(0..=3) as u32,
            protocol: *draw.one_of(&[6, 17, 1, 58, 47]),
            src_port: draw.bits() as u16,
            dst_port: draw.range(1..=200) as u16,
            flow_label: draw.bits() as u32 & 0xf_ffff,
            ..RouteKey::to(dst)
        }
    }
}

/// An address in the prefix, or one bit beside it.
fn near_to(prefix: &Prefix, draw: &mut Draw) -> IpAddr {
    match prefix.addr() {
        IpAddr::V4(addr) => {
            let host = u32::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
            let flip = if draw.percent(30) { 1 << draw.range(0..=31) } else { 0 };
            IpAddr::V4((addr.to_bits() ^ draw.bits() as u32 & host ^ flip).into())
        }
        IpAddr::V6(addr) => {
            let host = u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
            let bits = u128::from(draw.bits()) << 64 | u128::from(draw.bits());
            let flip = if draw.percent(30) { 1 << draw.range(0..=127) } else { 0 };
            IpAddr::V6((addr.to_bits() ^ bits & host ^ flip).into())
        }
    }
}
