//! A policer in front of the queue, as plain arithmetic: the bucket has enough tokens for a packet, or it has not.

use datapath::packet::Packet;
use datapath::qdisc::police::{Action, Police, PoliceConfig};
use datapath::units::Instant;
use iproute::tc::parse_police;
use iproute::words::Words;

/// A policer with bounds of its bucket's level, in bytes times 10⁹: least and most, because the kernel
/// rounds the time of each packet.
#[derive(Clone, Debug)]
pub struct PolicerBounds {
    police: Police,
    least: u128,
    most: u128,
    at: Instant,
}

/// 10⁹.
const NANOS: u128 = 1_000_000_000;

impl PolicerBounds {
    /// The policer of these words.
    pub fn of(words: &str) -> Option<Self> {
        let config = parse_police(&mut Words::new(words)).ok()?;
        let depth = depth(&config);
        Some(Self { police: Police::new(config), least: depth, most: depth, at: Instant::ZERO })
    }

    /// Whether a packet that comes now may go on.
    pub fn judge(&mut self, packet: &Packet, now: Instant) -> Result<bool, String> {
        let config = *self.police.config();
        let before = self.police.stats();
        let action = self.police.judge(now, packet);
        let conforms = self.police.stats().overlimits == before.overlimits;
        let bytes = packet.segment().map(|each| each.len() - each.link.len()).sum();
        self.check(&config, packet, bytes, now, conforms)?;
        let expected = if conforms { config.conform } else { config.exceed };
        let counted = self.police.stats();
        let is_counted = counted.packets - before.packets == u64::from(packet.segments())
            && counted.bytes - before.bytes == u64::from(bytes)
            && counted.drops - before.drops == u64::from(action == Action::Drop);
        if action == expected && is_counted {
            return Ok(action != Action::Drop);
        }
        Err(format!("{action:?} and {counted:?} after {before:?} where {expected:?} was said"))
    }

    fn check(
        &mut self,
        config: &PoliceConfig,
        packet: &Packet,
        bytes: u32,
        now: Instant,
        conforms: bool,
    ) -> Result<(), String> {
        let size = match packet.meta.gso_size {
            0 => packet.len(),
            size => packet.header_len() + u32::from(size),
        };
        if size > config.mtu {
            return if conforms { Err(format!("{size} bytes conform")) } else { Ok(()) };
        }
        let Some(rate) = config.rate else {
            return if conforms { Ok(()) } else { Err(format!("{size} bytes exceed")) };
        };
        let rate = u128::from(rate.rate().bytes_per_sec());
        let gained = u128::from(now.saturating_since(self.at).as_nanos()) * rate;
        let depth = depth(config);
        let (least, most) = ((self.least + gained).min(depth), (self.most + gained).min(depth));
        let cost = u128::from(bytes) * NANOS;
        let rounding = rate + u128::from(bytes) * 2;
        if conforms && most + rounding < cost {
            return Err(format!("{bytes} bytes conform where {} were left", most / NANOS));
        }
        if !conforms && config.peak.is_none() && least >= cost + rounding {
            return Err(format!("{bytes} bytes exceed where {} were left", least / NANOS));
        }
        if conforms {
            self.least = least.saturating_sub(cost + rounding);
            self.most = (most + rounding).saturating_sub(cost);
            self.at = now;
        }
        Ok(())
    }
}

fn depth(config: &PoliceConfig) -> u128 {
    let rate = config.rate.map_or(0, |rate| rate.rate().bytes_per_sec());
    u128::from(config.burst.as_nanos()) * u128::from(rate)
}
