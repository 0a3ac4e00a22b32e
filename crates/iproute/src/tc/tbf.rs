//! `tbf rate RATE burst BYTES[/BYTES] ( limit BYTES | latency TIME ) [ mtu BYTES[/BYTES] ]
//! [ peakrate RATE ] [ overhead BYTES ] [ mpu BYTES ] [ linklayer TYPE ]`.

use super::show::{Push, Shown, map};
use crate::units::{
    decimal, rate, show_rate, show_size, show_time, shown_micros, size, size_and_cell, time,
    transmit_size,
};
use crate::words::{Result, Word, Words};
use datapath::qdisc::rate::{LinkLayer, RateConfig};
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::units::{Duration, Rate};
use serde_json::json;

const OPTIONS: [&str; 12] = [
    "rate",
    "burst",
    "buffer",
    "maxburst",
    "limit",
    "latency",
    "mtu",
    "minburst",
    "peakrate",
    "overhead",
    "mpu",
    "linklayer",
];

/// The words as they were said.
#[derive(Default)]
struct Said {
    rate: Option<Rate>,
    burst: Option<u32>,
    limit: Option<u32>,
    latency: Option<Duration>,
    mtu: Option<u32>,
    peakrate: Option<Rate>,
    overhead: u16,
    mpu: u16,
    link_layer: LinkLayer,
}

/// Reads tbf's options.
pub(super) fn parse(words: &mut Words<'_>) -> Result<TbfConfig> {
    let mut said = Said::default();
    while let Some(word) = words.next() {
        said.option(word, words)?;
    }
    said.finish(words)
}

impl Said {
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.text {
            "rate" => self.rate = Some(rate(words.value(word)?)?),
            "burst" | "buffer" | "maxburst" => {
                self.burst = Some(size_and_cell(words.value(word)?, word.text)?);
            }
            "limit" => self.limit = Some(size(words.value(word)?, "limit")?),
            "latency" => self.latency = Some(time(words.value(word)?, "latency")?),
            "mtu" | "minburst" => self.mtu = Some(size_and_cell(words.value(word)?, word.text)?),
            "peakrate" => self.peakrate = Some(rate(words.value(word)?)?),
            "overhead" => self.overhead = decimal(words.value(word)?, "overhead")?,
            "mpu" => self.mpu = size(words.value(word)?, "mpu")? as u16,
            "linklayer" => self.link_layer = link_layer(words.value(word)?)?,
            _ => return Err(word.unknown("tbf", &OPTIONS)),
        }
        Ok(())
    }

    fn finish(self, words: &Words<'_>) -> Result<TbfConfig> {
        let rate = self.rate.filter(|rate| *rate != Rate::default());
        let rate = rate.ok_or_else(|| words.missing("tbf", "rate"))?;
        let burst = self.burst.filter(|burst| *burst > 0);
        let burst = burst.ok_or_else(|| words.missing("tbf", "burst"))?;
        let peakrate = self.peakrate.filter(|rate| *rate != Rate::default());
        let peak = match (peakrate, self.mtu) {
            (Some(peak), Some(mtu)) => Some((peak, mtu)),
            (Some(_), None) => return Err(words.ended("tbf: \"peakrate\" needs \"mtu\"")),
            (None, _) => None,
        };
        if peak.is_some_and(|(peak, _)| peak <= rate) {
            return Err(words.ended("tbf: \"peakrate\" must be higher than \"rate\""));
        }
        let limit = match (self.limit, self.latency) {
            (Some(limit), None) => limit,
            (None, Some(latency)) => limit_of(latency, rate, burst, peak),
            _ => return Err(words.ended("tbf: either \"limit\" or \"latency\" is required")),
        };
        let config = |rate| RateConfig::with_link(rate, self.overhead, self.mpu, self.link_layer);
        let peak = peak.map(|(rate, mtu)| (config(rate), mtu));
        Ok(TbfConfig { rate: config(rate), burst, peak, limit })
    }
}

/// The queue that takes `latency` to drain at the rate after the burst, or at the peak rate if
/// that is less.
fn limit_of(latency: Duration, rate: Rate, burst: u32, peak: Option<(Rate, u32)>) -> u32 {
    let drained = |rate: Rate, bucket: u32| {
        let bytes = rate.bytes_per_sec() as f64 * latency.as_micros() as f64 / 1e6;
        bytes + f64::from(bucket)
    };
    let at_rate = drained(rate, burst);
    peak.map_or(at_rate, |(rate, mtu)| drained(rate, mtu).min(at_rate)) as u32
}

/// `linklayer ethernet|atm|adsl`.
pub(super) fn link_layer(word: Word<'_>) -> Result<LinkLayer> {
    match word.text {
        "ethernet" => Ok(LinkLayer::Ethernet),
        "atm" | "adsl" => Ok(LinkLayer::Atm),
        _ => Err(word.illegal("linklayer")),
    }
}

/// As tc shows it. The peak rate is missing in its JSON; so it is here.
pub(super) fn shown(tbf: &Tbf) -> Shown {
    let config = tbf.config();
    let rate = config.rate.rate();
    let burst = shown_bucket(config.rate, config.burst);
    let mut options = format!("rate {} burst {} ", show_rate(rate), show_size(burst));
    let mut options_json = map([("rate", json!(rate.bytes_per_sec())), ("burst", json!(burst))]);
    let mut latency = latency(config.limit, config.rate, config.burst);
    if let Some((peak, mtu)) = config.peak {
        let bucket = shown_bucket(peak, mtu);
        options.push_fmt(format_args!("peakrate {} ", show_rate(peak.rate())));
        options.push_fmt(format_args!("minburst {} ", show_size(bucket)));
        options_json.insert("minburst".to_owned(), json!(bucket));
        latency = latency.max(self::latency(config.limit, peak, mtu));
    }
    if let Some(latency) = latency {
        options.push_fmt(format_args!("lat {} ", show_time(Duration::from_micros(latency))));
        options_json.insert("lat".to_owned(), json!(latency));
    }
    Shown { options, options_json, ..Shown::default() }
}

/// A bucket's depth in bytes after its way through ns, ticks and µs.
fn shown_bucket(rate: RateConfig, bytes: u32) -> u32 {
    transmit_size(rate.rate(), rate.time_of(bytes))
}

/// µs that a full queue takes to drain after a full bucket; none if the bucket is larger.
fn latency(limit: u32, rate: RateConfig, bucket: u32) -> Option<u64> {
    let drains = 1e6 * f64::from(limit) / rate.rate().bytes_per_sec() as f64;
    let latency = drains - f64::from(shown_micros(rate.time_of(bucket)));
    (latency >= 0.0).then_some(latency as u64)
}

#[cfg(test)]
mod tests {
    use crate::tc::parse_qdisc;

    /// `tbf_change()` answers `EINVAL`: such a bucket never fills.
    #[test]
    fn a_peak_rate_must_be_higher_than_the_rate() {
        let with_peak = |peak| {
            let tbf = "tbf rate 1mbit burst 2000 limit 9000 mtu 1600";
            parse_qdisc(&format!("qdisc add dev x root {tbf} peakrate {peak}"))
        };
        assert!(with_peak("1001kbit").is_ok());
        for refused in ["1mbit", "999kbit"] {
            let error = with_peak(refused).expect_err(refused).to_string();
            assert!(error.ends_with("\"peakrate\" must be higher than \"rate\""), "{error}");
        }
    }
}
