//! What was taken in, and what became of it; and how late we were.

use crate::device::RejectedFrames;
use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::units::{Duration, Instant};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Of one direction: what comes in by one device and leaves by the other. Packets are those of the
/// wire: a super-packet counts as its segments, and bytes as those of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Taken in.
    pub taken: Count,
    /// Handed to the device.
    pub sent: Count,
    /// Dropped, and why; what `tc qdisc change` discards goes by the reason that the kernel tells.
    pub dropped: BTreeMap<Reason, u64>,
    /// Refused by the device, or it was down.
    pub refused: u64,
    /// Still there when the time to drain was over.
    pub left: u64,
    /// What came and could not be taken in.
    pub lost: RejectedFrames,
}

/// Packets and their bytes, link-layer headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How much later than wanted the loop came back to a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// How often it was to come back at a certain time.
    pub wakes: u64,
    /// How often it came over 1 ms late.
    pub over_1ms: u64,
    /// The worst.
    pub max: Duration,
    /// By powers of two of ns.
    buckets: Vec<u64>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// By the port that packets leave by.
    pub directions: [Direction; 2],
    /// Of the loop.
    pub lateness: Lateness,
    /// When it began.
    pub began: Instant,
    /// When it ended, or now.
    pub now: Instant,
}

impl Count {
    /// One packet more.
    pub fn add(&mut self, packet: &Packet) {
        self.packets += u64::from(packet.segments());
        self.bytes += u64::from(packet.wire_len());
    }
}

impl Direction {
    /// Packets dropped for any reason.
    pub fn drops(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Taken in and neither gone nor waiting any more, once all has ended: 0, but for the packets that
    /// netem has duplicated, which count below.
    pub fn unaccounted(&self) -> i64 {
        let out = self.sent.packets + self.drops() + self.refused + self.left;
        self.taken.packets as i64 - out as i64
    }

    fn json(&self, from: &str, to: &str) -> Value {
        let Self { taken, sent, dropped, refused, left, lost } = self;
        let reasons: Map<String, Value> = dropped
            .iter()
            .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
            .collect();
        json!({
            "from": from, "to": to,
            "taken_packets": taken.packets, "taken_bytes": taken.bytes,
            "sent_packets": sent.packets, "sent_bytes": sent.bytes,
            "dropped": reasons, "refused": refused, "left": left,
            "unaccounted": self.unaccounted(),
            "lost": {
                "unreadable": lost.unreadable, "no_buffer": lost.no_buffer, "missed": lost.missed,
            },
            "copied": lost.copied,
        })
    }
}

impl Lateness {
    /// The loop was to come back at `wanted` and is there at `now`.
    pub fn add(&mut self, wanted: Instant, now: Instant) {
        let late = now - wanted;
        self.wakes += 1;
        self.over_1ms += u64::from(late > Duration::from_millis(1));
        self.max = self.max.max(late);
        let bucket = (u64::BITS - late.as_nanos().leading_zeros()) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// No more than this in `percent` of all cases, to the next power of two.
    pub fn percentile(&self, percent: u64) -> Duration {
        let wanted = (self.wakes * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        Duration::from_nanos(1 << found.unwrap_or(0)).min(self.max)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "wakes": self.wakes, "over_1ms": self.over_1ms,
            "p50_us": micros(self.percentile(50)), "p99_us": micros(self.percentile(99)),
            "max_us": micros(self.max),
        })
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

impl Account {
    /// As JSON; `names` are those of ports 0 and 1.
    pub fn json(&self, names: [&str; 2]) -> Value {
        let [back, forth] = &self.directions;
        json!({
            "seconds": (self.now - self.began).as_nanos() as f64 / 1e9,
            "directions": [forth.json(names[0], names[1]), back.json(names[1], names[0])],
            "late": self.lateness.json(),
        })
    }

    /// As a table.
    pub fn text(&self, names: [&str; 2]) -> String {
        let [back, forth] = &self.directions;
        let mut text = String::new();
        let columns = [(forth, names[0], names[1]), (back, names[1], names[0])];
        let head = columns.map(|(_, from, to)| format!("{from} > {to}"));
        // Names of files may be long.
        let wide = head.each_ref().map(|head| (head.chars().count() + 2).max(20));
        let mut row = |what: &str, value: &dyn Fn(&Direction) -> String, always: bool| {
            let cells = columns.map(|(direction, ..)| value(direction));
            if always || cells.iter().any(|cell| cell != "0") {
                let [one, two] = cells;
                let [first, second] = wide;
                let _ = writeln!(text, "{what:<34}{one:>first$}{two:>second$}");
            }
        };
        row("packets received", &|it| it.taken.packets.to_string(), true);
        row("packets sent", &|it| it.sent.packets.to_string(), true);
        row("bytes sent", &|it| it.sent.bytes.to_string(), true);
        let reasons: std::collections::BTreeSet<Reason> =
            columns.iter().flat_map(|(direction, ..)| direction.dropped.keys().copied()).collect();
        for reason in reasons {
            let count = |it: &Direction| it.dropped.get(&reason).copied().unwrap_or(0).to_string();
            row(&format!("dropped, {}", reason.name()), &count, true);
        }
        row("refused by the device", &|it| it.refused.to_string(), false);
        row("left when the drain ended", &|it| it.left.to_string(), false);
        row("not received: unreadable", &|it| it.lost.unreadable.to_string(), false);
        row("not received: no buffer", &|it| it.lost.no_buffer.to_string(), false);
        row("not received: socket was full", &|it| it.lost.missed.to_string(), false);
        row("unaccounted for", &|it| it.unaccounted().to_string(), false);
        let Lateness { wakes, over_1ms, max, .. } = &self.lateness;
        let [one, two] = head;
        let [first, second] = wide;
        let head = format!("{:<34}{one:>first$}{two:>second$}", "");
        format!(
            "{head}\n{text}late wake-ups: {over_1ms} of {wakes} over 1 ms; p50 {:.0} us, p99 {:.0} us, \
             worst {:.0} us\n",
            micros(self.lateness.percentile(50)),
            micros(self.lateness.percentile(99)),
            micros(*max),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_devices_stand_apart() {
        let account = Account::default();
        let name = "file:captures/uplink.pcapng,shaped.pcapng";
        let text = account.text([name, "eth1"]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains(&format!("  {name} > eth1  ")), "{text}");
        assert!(lines[0].ends_with(&format!("  eth1 > {name}")), "{text}");
        assert_eq!(lines[0].len(), lines[1].len(), "{text}");
        let short = account.text(["eth0", "eth1"]);
        assert_eq!(short.lines().next().unwrap().len(), 34 + 2 * 20);
    }

    #[test]
    fn lateness_is_rounded_up_to_a_power_of_two() {
        let mut lateness = Lateness::default();
        for nanos in [900, 1_000, 1_100, 3_000_000] {
            lateness.add(Instant::from_nanos(5), Instant::from_nanos(5 + nanos));
        }
        assert_eq!(lateness.percentile(50).as_nanos(), 1_024);
        assert_eq!(lateness.percentile(99).as_nanos(), 3_000_000, "no more than the worst");
        assert_eq!((lateness.wakes, lateness.over_1ms), (4, 1));
    }
}
