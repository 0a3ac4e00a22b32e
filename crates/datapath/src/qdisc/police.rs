//! The policer: a token bucket that drops instead of queueing (Linux `net/sched/act_police.c`).

use super::rate::RateConfig;
use crate::packet::Packet;
use crate::profile::Profile;
use crate::units::{Duration, Instant};

/// What becomes of a packet (`TC_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Action {
    /// It passes, and no further rule is evaluated (`ok`, `pass`).
    Ok,
    /// The next rule is evaluated (`pipe`, `continue`, `reclassify`).
    #[default]
    Pipe,
    /// It is dropped (`drop`, `shot`).
    Drop,
}

/// What a [`Police`] is configured with (`TCA_POLICE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoliceConfig {
    /// The rate; without one only the size is checked.
    pub rate: Option<RateConfig>,
    /// Bucket depth as time at `rate` (`tcfp_burst`).
    pub burst: Duration,
    /// The largest packet that conforms, in bytes.
    pub mtu: u32,
    /// The peak rate, with a bucket of one `mtu`.
    pub peak: Option<RateConfig>,
    /// Action for packets within the rate.
    pub conform: Action,
    /// Action for the others.
    pub exceed: Action,
}

/// The action's counters, as `tc -s filter` prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PoliceStats {
    /// Bytes seen.
    pub bytes: u64,
    /// Packets seen.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets that exceeded the rate or the size.
    pub overlimits: u64,
}

/// A policer.
#[derive(Clone, Debug)]
pub struct Police {
    config: PoliceConfig,
    /// The last update of the tokens (`tcfp_t_c`).
    counted_at: Instant,
    /// ns of transmission time (`tcfp_toks`).
    tokens: i64,
    /// The same at the peak rate (`tcfp_ptoks`).
    peak_tokens: i64,
    /// The headers of a super-packet count once, not for each segment.
    headers_once: bool,
    stats: PoliceStats,
}

impl PoliceConfig {
    /// The largest conforming packet that the kernel assumes for `rate` when tc gave none: what
    /// a rate table for 2047 byte packets covers (255 cells of 8 bytes).
    pub const DEFAULT_MTU: u32 = 2040;
}

impl Police {
    /// A policer with full buckets.
    pub fn new(config: PoliceConfig) -> Self {
        let peak_depth = config.peak.map_or(0, |peak| signed(peak.time_of(config.mtu)));
        Self {
            config,
            counted_at: Instant::ZERO,
            tokens: signed(config.burst),
            peak_tokens: peak_depth,
            headers_once: false,
            stats: PoliceStats::default(),
        }
    }

    /// The same of a node with this kernel: those before 6.19 count the headers of a super-packet once
    /// ([`ingress_counts_gso_headers`](Profile::ingress_counts_gso_headers)).
    pub fn of(profile: &Profile, config: PoliceConfig) -> Self {
        Self { headers_once: !profile.ingress_counts_gso_headers, ..Self::new(config) }
    }

    /// The configuration.
    pub fn config(&self) -> &PoliceConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> PoliceStats {
        self.stats
    }

    /// True if `packet`, arriving at `now`, may go on. At ingress the link-layer header does not
    /// count for the rate, but it does for the size (`tcf_police_mtu_check`).
    pub fn admit(&mut self, now: Instant, packet: &Packet) -> bool {
        self.judge(now, packet) != Action::Drop
    }

    /// What becomes of `packet`, arriving at `now` (`tcf_police_act` at ingress).
    pub fn judge(&mut self, now: Instant, packet: &Packet) -> Action {
        let (frames, segments) = if self.headers_once {
            (packet.len(), 1)
        } else {
            (packet.wire_len(), packet.segments())
        };
        let len = frames.saturating_sub(segments * packet.link.len());
        self.stats.bytes += u64::from(len);
        self.stats.packets += u64::from(packet.segments());
        let conforms = fits(packet, self.config.mtu) && self.take_tokens(now, len);
        let action = if conforms { self.config.conform } else { self.config.exceed };
        self.stats.overlimits += u64::from(!conforms);
        self.stats.drops += u64::from(action == Action::Drop);
        action
    }

    /// Takes the tokens for `len` bytes, if both buckets have them.
    fn take_tokens(&mut self, now: Instant, len: u32) -> bool {
        let Some(rate) = self.config.rate else { return true };
        let depth = signed(self.config.burst);
        let elapsed = signed(now.saturating_since(self.counted_at)).min(depth);
        let tokens = (self.tokens + elapsed).min(depth) - signed(rate.time_of(len));
        let peak_tokens = self.config.peak.map_or(0, |peak| {
            let peak_depth = signed(peak.time_of(self.config.mtu));
            (self.peak_tokens + elapsed).min(peak_depth) - signed(peak.time_of(len))
        });
        let conforms = tokens >= 0 && peak_tokens >= 0;
        if conforms {
            self.counted_at = now;
            self.tokens = tokens;
            self.peak_tokens = peak_tokens;
        }
        conforms
    }
}

/// True if the packet, or each segment of a super-packet, is at most `mtu` bytes long with its
/// link-layer header (`skb_gso_validate_mac_len`).
fn fits(packet: &Packet, mtu: u32) -> bool {
    let longest = if packet.segments() > 1 {
        packet.header_len() + u32::from(packet.meta.gso_size)
    } else {
        packet.len()
    };
    longest <= mtu
}

fn signed(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{frame, super_frame};
    use super::*;
    use crate::units::Rate;

    fn police(mbit: u64, burst: u64, mtu: u32) -> Police {
        let rate = RateConfig::new(Rate::from_mbit(mbit));
        Police::new(PoliceConfig {
            rate: Some(rate),
            burst: rate.time_of(burst as u32),
            mtu,
            peak: None,
            conform: Action::Pipe,
            exceed: Action::Drop,
        })
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_bucket_refills_at_the_rate() {
        // 1 byte per 1600 ns; a 1514 byte frame is 1500 bytes to the policer.
        let mut police = police(5, 4000, 2000);
        for (now, admitted) in [
            (0, true),
            (0, true),
            (0, false),       // 1000 bytes are left
            (799_999, false), // 1 ns of 500 bytes is missing
            (800_000, true),
            (800_000, false),
            (100_000_000, true), // full again, not fuller
            (100_000_000, true),
            (100_000_000, false),
        ] {
            assert_eq!(police.admit(at(now), &frame(1514)), admitted, "at {now}");
        }
        let stats = police.stats();
        assert_eq!((stats.packets, stats.bytes), (9, 13_500), "all packets are counted");
        assert_eq!((stats.drops, stats.overlimits), (4, 4));
    }

    #[test]
    fn the_size_check_sees_the_link_header_and_takes_no_tokens() {
        let mut police = police(5, 20_000, 1514);
        assert!(!police.admit(at(0), &frame(1515)));
        assert!(police.admit(at(0), &frame(1514)));
        assert!(police.admit(at(0), &super_frame(4, 1460)), "segments of 1514 bytes fit");
        assert!(!police.admit(at(0), &super_frame(4, 1461)));
    }

    /// As recorded from Linux 7.3 (`qdisc_pkt_len_segs_init`).
    #[test]
    fn each_segment_of_a_super_packet_counts_with_its_headers() {
        let mut police = police(5, 3_000, 2_000);
        assert!(police.admit(at(0), &super_frame(2, 1460)));
        assert_eq!(police.stats().bytes, 3_000);
        let mut older = Police::of(&Profile::linux_6_1(), *police.config());
        assert!(older.admit(at(0), &super_frame(2, 1460)));
        assert_eq!(older.stats().bytes, 2_960);
    }

    #[test]
    fn exceeding_packets_may_pass_with_a_count() {
        let mut config = *police(5, 1500, 2000).config();
        config.exceed = Action::Ok;
        let mut police = Police::new(config);
        assert_eq!(police.judge(at(0), &frame(1514)), Action::Pipe);
        assert_eq!(police.judge(at(0), &frame(1514)), Action::Ok);
        assert_eq!((police.stats().drops, police.stats().overlimits), (0, 1));
    }
}
