//! `tbf rate RATE burst BYTES[/BYTES] ( limit BYTES | latency TIME ) [ mtu BYTES[/BYTES] ]
//! [ peakrate RATE ] [ overhead BYTES ] [ mpu BYTES ] [ linklayer TYPE ]`.

use super::qdisc_text::{Push, QdiscText, map};
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

/// The options that may be cut short, in the order in which tc looks at them.
const CUT_SHORT: [&str; 6] = ["limit", "latency", "burst", "peakrate", "overhead", "linklayer"];

/// The words as they were said. What is zero was not said, as for tc.
#[derive(Default)]
struct ParsedOptions {
    rate: Option<Rate>,
    burst: Option<u32>,
    limit: Option<u32>,
    latency: Option<Duration>,
    mtu: Option<u32>,
    peakrate: Option<Rate>,
    overhead: Option<u16>,
    mpu: Option<u32>,
    link_layer: LinkLayer,
}

/// Reads tbf's options.
pub(super) fn parse(words: &mut Words<'_>) -> Result<TbfConfig> {
    let mut said = ParsedOptions::default();
    while let Some(word) = words.next() {
        said.option(word, words)?;
    }
    said.finish(words)
}

impl ParsedOptions {
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.cut_short(&CUT_SHORT).unwrap_or(word.text) {
            "rate" => once(&mut self.rate, rate(words.value(word)?)?, word, "rate")?,
            "burst" | "buffer" | "maxburst" => {
                let burst = size_and_cell(words.value(word)?, word.text)?;
                once(&mut self.burst, burst, word, "buffer/burst/maxburst")?;
            }
            "limit" => {
                not_both(word, self.latency.is_some())?;
                once(&mut self.limit, size(words.value(word)?, "limit")?, word, "limit")?;
            }
            "latency" => {
                not_both(word, self.limit.is_some())?;
                once(&mut self.latency, time(words.value(word)?, "latency")?, word, "latency")?;
            }
            "mtu" | "minburst" => {
                let mtu = size_and_cell(words.value(word)?, word.text)?;
                once(&mut self.mtu, mtu, word, "mtu/minburst")?;
            }
            "peakrate" => once(&mut self.peakrate, rate(words.value(word)?)?, word, "peakrate")?,
            "overhead" => {
                let overhead = decimal(words.value(word)?, "overhead")?;
                once(&mut self.overhead, overhead, word, "overhead")?;
            }
            "mpu" => once(&mut self.mpu, size(words.value(word)?, "mpu")?, word, "mpu")?,
            "linklayer" => self.link_layer = link_layer(words.value(word)?)?,
            _ => return Err(word.unknown("tbf", &OPTIONS)),
        }
        Ok(())
    }

    fn finish(self, words: &Words<'_>) -> Result<TbfConfig> {
        let rate = self.rate.ok_or_else(|| words.missing("tbf", "rate"))?;
        let burst = self.burst.ok_or_else(|| words.missing("tbf", "burst"))?;
        let peak = match (self.peakrate, self.mtu) {
            (Some(peak), Some(mtu)) => Some((peak, mtu)),
            (Some(_), None) => return Err(words.unexpected_end("tbf: \"peakrate\" needs \"mtu\"")),
            (None, _) => None,
        };
        if peak.is_some_and(|(peak, _)| peak <= rate) {
            return Err(words.unexpected_end("tbf: \"peakrate\" must be higher than \"rate\""));
        }
        let of_latency = || self.latency.map(|latency| limit_of(latency, rate, burst, peak));
        let limit = self.limit.or_else(of_latency).ok_or_else(|| {
            words.unexpected_end("tbf: either \"limit\" or \"latency\" is required")
        })?;
        let (overhead, mpu) = (self.overhead.unwrap_or(0), self.mpu.unwrap_or(0) as u16);
        let config = |rate| RateConfig::with_link(rate, overhead, mpu, self.link_layer);
        let peak = peak.map(|(rate, mtu)| (config(rate), mtu));
        Ok(TbfConfig { rate: config(rate), burst, peak, limit })
    }
}

/// Fills `place` unless it is filled: tc takes no option twice. A zero leaves it empty.
fn once<T: Default + PartialEq>(
    place: &mut Option<T>,
    value: T,
    word: Word<'_>,
    what: &str,
) -> Result<()> {
    if place.is_some() {
        return Err(word.error(format!("tbf: duplicate \"{what}\" specification"), None));
    }
    *place = (value != T::default()).then_some(value);
    Ok(())
}

/// The size of the queue is given either way, as bytes or by its time.
fn not_both(word: Word<'_>, other_said: bool) -> Result<()> {
    if other_said {
        let message = "tbf: specifying both \"limit\" and \"latency\" is not allowed";
        return Err(word.error(message.to_owned(), None));
    }
    Ok(())
}

/// The queue that takes `latency` to drain at the rate after the burst, or at the peak rate if
/// that is less. tc lets what exceeds 32 bits wrap.
fn limit_of(latency: Duration, rate: Rate, burst: u32, peak: Option<(Rate, u32)>) -> u32 {
    let drained = |rate: Rate, bucket: u32| {
        let bytes = rate.bytes_per_sec() as f64 * latency.as_micros() as f64 / 1e6;
        bytes + f64::from(bucket)
    };
    let at_rate = drained(rate, burst);
    peak.map_or(at_rate, |(rate, mtu)| drained(rate, mtu).min(at_rate)) as u64 as u32
}

/// `linklayer ethernet|atm|adsl`.
pub(super) fn link_layer(word: Word<'_>) -> Result<LinkLayer> {
    match word.text {
        "ethernet" => Ok(LinkLayer::Ethernet),
        "atm" | "adsl" => Ok(LinkLayer::Atm),
        _ => Err(word.illegal("linklayer")),
    }
}

/// As tc shows it: the limit only where a full bucket is more than the queue holds. The peak rate
/// is missing in its JSON; so it is here.
pub(super) fn shown(tbf: &Tbf, details: bool) -> QdiscText {
    let config = tbf.config();
    let rate = config.rate.rate();
    let mut shown = QdiscText {
        options: format!("rate {} ", show_rate(rate)),
        options_json: map([("rate", json!(rate.bytes_per_sec()))]),
        ..QdiscText::default()
    };
    push_bucket(&mut shown, "burst", (config.rate, config.burst), details);
    let mut latency = latency(config.limit, config.rate, config.burst);
    if let Some((peak, mtu)) = config.peak {
        shown.options.push_fmt(format_args!("peakrate {} ", show_rate(peak.rate())));
        let name = if details { "mtu" } else { "minburst" };
        push_bucket(&mut shown, name, (peak, mtu), details);
        latency = latency.max(self::latency(config.limit, peak, mtu));
    }
    if let Some(latency) = latency {
        // tc prints times of 32 bits (`sprint_time`).
        let time = show_time(Duration::from_micros((latency as u32).into()));
        shown.options.push_fmt(format_args!("lat {time} "));
        shown.options_json.insert("lat".to_owned(), json!(latency));
    } else {
        shown.options.push_fmt(format_args!("limit {} ", show_size(config.limit)));
        shown.options_json.insert("limit".to_owned(), json!(config.limit));
    }
    push_link(&mut shown, config.rate, details);
    shown
}

/// A bucket's depth; in detail with its cell, which the kernel no longer knows, and the least
/// packet. In JSON that occurs once, where tc repeats it.
fn push_bucket(shown: &mut QdiscText, name: &str, bucket: (RateConfig, u32), details: bool) {
    let (rate, bytes) = bucket;
    let depth = shown_bucket(rate, bytes);
    let size = show_size(depth);
    if !details {
        shown.options.push_fmt(format_args!("{name} {size} "));
        shown.options_json.insert(name.to_owned(), json!(depth));
        return;
    }
    let least = show_size(u32::from(rate.mpu()));
    shown.options.push_fmt(format_args!("{name} {size}/1 mpu {least} "));
    shown.options_json.insert(name.to_owned(), json!(format!("{size}/1")));
    shown.options_json.insert("mpu".to_owned(), json!(rate.mpu()));
}

/// What the link adds to each packet; that Ethernet adds nothing is a detail.
fn push_link(shown: &mut QdiscText, rate: RateConfig, details: bool) {
    if rate.overhead() > 0 {
        shown.options.push_fmt(format_args!("overhead {} ", rate.overhead()));
        shown.options_json.insert("overhead".to_owned(), json!(rate.overhead()));
    }
    let name = match rate.link_layer() {
        LinkLayer::Atm => "atm",
        LinkLayer::Ethernet if details => "ethernet",
        LinkLayer::Ethernet => return,
    };
    shown.options.push_fmt(format_args!("linklayer {name} "));
    shown.options_json.insert("linklayer".to_owned(), json!(name));
}

/// A bucket's depth in bytes after its way through ns, ticks and µs.
fn shown_bucket(rate: RateConfig, bytes: u32) -> u32 {
    transmit_size(rate.rate(), rate.time_of(bytes))
}

/// µs that a full queue takes to drain after a full bucket; none if the bucket is larger.
fn latency(limit: u32, rate: RateConfig, bucket: u32) -> Option<u64> {
    let drains = 1e6 * (f64::from(limit) / rate.rate().bytes_per_sec() as f64);
    let latency = drains - f64::from(shown_micros(rate.time_of(bucket)));
    (latency >= 0.0).then_some(latency as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::{Spec, parse_qdisc};
    use datapath::qdisc::fifo::{Fifo, FifoKind};
    use serde_json::Value;

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

    /// As tc 6.1 takes or refuses them. A zero is as good as nothing said.
    #[test]
    fn no_option_is_given_twice() {
        for (options, refused) in [
            ("limit 0", Some("either \"limit\" or \"latency\" is required")),
            ("latency 0", Some("either \"limit\" or \"latency\" is required")),
            ("latency 0.1us", Some("either \"limit\" or \"latency\" is required")),
            ("limit 10k latency 0", Some("both \"limit\" and \"latency\" is not allowed")),
            ("latency 1ms limit 10k", Some("both \"limit\" and \"latency\" is not allowed")),
            ("limit 10k limit 10k", Some("duplicate \"limit\" specification")),
            ("latency 1ms latency 1ms", Some("duplicate \"latency\" specification")),
            ("limit 10k rate 1mbit", Some("duplicate \"rate\" specification")),
            ("limit 10k maxburst 10k", Some("duplicate \"buffer/burst/maxburst\" specification")),
            ("limit 10k mtu 1500 minburst 9k", Some("duplicate \"mtu/minburst\" specification")),
            ("limit 10k overhead 1 overhead 1", Some("duplicate \"overhead\" specification")),
            ("limit 10k mpu 64 mpu 64", Some("duplicate \"mpu\" specification")),
            (
                "limit 10k mtu 1500 peakrate 2mbit peakrate 2mbit",
                Some("duplicate \"peakrate\" specification"),
            ),
            ("limit 10k mtu 0 peakrate 2mbit", Some("\"peakrate\" needs \"mtu\"")),
            ("limit 0 latency 1ms", None),
            ("latency 0 limit 10k", None),
            ("limit 0 limit 10k", None),
            ("limit 10k linklayer atm linklayer atm", None),
            ("limit 10k mtu 1500 peakrate 0", None),
        ] {
            let command = format!("qdisc add dev x root tbf rate 1mbit burst 10k {options}");
            let error = parse_qdisc(&command).err().map(|error| error.message);
            match (error, refused) {
                (Some(error), Some(refused)) => assert!(error.ends_with(refused), "{error}"),
                (error, refused) => assert_eq!(error.as_deref(), refused, "{options}"),
            }
        }
        for first in ["rate 0 rate 1mbit burst 10k", "burst 0 rate 1mbit burst 10k"] {
            let command = format!("qdisc add dev x root tbf {first} limit 10k");
            assert!(parse_qdisc(&command).is_ok(), "{command}");
        }
    }

    /// As tc 6.1 showed them in text and JSON.
    #[test]
    fn the_limit_and_the_link_are_shown_as_tc_shows_them() {
        for (said, text, json) in [
            (
                "rate 1mbit burst 10k limit 2k",
                "rate 1Mbit burst 10Kb limit 2Kb ",
                r#"{"rate":125000,"burst":10240,"limit":2048}"#,
            ),
            (
                "rate 1mbit burst 10240 limit 10239",
                "rate 1Mbit burst 10Kb limit 10Kb ",
                r#"{"rate":125000,"burst":10240,"limit":10239}"#,
            ),
            (
                "rate 1mbit burst 10k limit 10k mpu 64",
                "rate 1Mbit burst 10Kb lat 0us ",
                r#"{"rate":125000,"burst":10240,"lat":0}"#,
            ),
            (
                "rate 100kbit burst 1600b latency 1ms",
                "rate 100Kbit burst 1600b lat 959us ",
                r#"{"rate":12500,"burst":1600,"lat":959}"#,
            ),
            (
                "rate 8bit burst 10kb latency 1s",
                "rate 8bit burst 69b lat 1.58e+03s ",
                r#"{"rate":1,"burst":69,"lat":10171482557}"#,
            ),
            (
                "rate 8bit burst 300b limit 5000",
                "rate 8bit burst 25b lat 680s ",
                r#"{"rate":1,"burst":25,"lat":4974877907}"#,
            ),
            (
                "rate 16bit burst 10kb limit 20000 peakrate 24bit mtu 2000",
                "rate 16bit burst 344b peakrate 24bit minburst 350b lat 1.24e+03s ",
                r#"{"rate":2,"burst":344,"minburst":350,"lat":9827802325}"#,
            ),
            (
                "rate 100gbit burst 10kb latency 400ms",
                "rate 100Gbit burst 0b lat 56.4ms ",
                r#"{"rate":12500000000,"burst":0,"lat":56403}"#,
            ),
            (
                "rate 1mbit burst 10k limit 2000 overhead 14",
                "rate 1Mbit burst 10Kb limit 2000b overhead 14 ",
                r#"{"rate":125000,"burst":10254,"limit":2000,"overhead":14}"#,
            ),
            (
                "rate 1mbit burst 10k limit 20000 overhead 14 linklayer adsl",
                "rate 1Mbit burst 11342b lat 69.3ms overhead 14 linklayer atm ",
                r#"{"rate":125000,"burst":11342,"lat":69264,"overhead":14,"linklayer":"atm"}"#,
            ),
            (
                "rate 1mbit burst 10k limit 2000 linklayer atm mtu 1500 peakrate 2mbit",
                "rate 1Mbit burst 11342b peakrate 2Mbit minburst 1696b lat 1.22ms linklayer atm ",
                r#"{"rate":125000,"burst":11342,"minburst":1696,"lat":1216,"linklayer":"atm"}"#,
            ),
        ] {
            assert_eq!(shown_of(said, false), [text, json], "{said}");
        }
    }

    /// As tc 6.1 showed them with `-d`, but that its JSON repeats `mpu` with a peak rate.
    #[test]
    fn details_are_shown_as_tc_shows_them() {
        for (said, text, json) in [
            (
                "rate 1mbit burst 10k limit 20k",
                "rate 1Mbit burst 10Kb/1 mpu 0b lat 81.9ms linklayer ethernet ",
                r#"{"rate":125000,"burst":"10Kb/1","mpu":0,"lat":81920,"linklayer":"ethernet"}"#,
            ),
            (
                "rate 1mbit burst 10k limit 20k mtu 1500 peakrate 2mbit overhead 14 mpu 64",
                "rate 1Mbit burst 10Kb/1 mpu 64b peakrate 2Mbit mtu 1514b/1 mpu 64b lat 81.8ms \
                 overhead 14 linklayer ethernet ",
                r#"{"rate":125000,"burst":"10Kb/1","mpu":64,"mtu":"1514b/1","lat":81808,"overhead":14,"linklayer":"ethernet"}"#,
            ),
        ] {
            assert_eq!(shown_of(said, true), [text, json], "{said}");
        }
    }

    /// Text and JSON of a tbf that was made by these words.
    fn shown_of(said: &str, details: bool) -> [String; 2] {
        let command = parse_qdisc(&format!("qdisc add dev x root tbf {said}")).expect(said);
        let Some(Spec::Tbf(config)) = command.spec else { panic!("{said} is a tbf") };
        let child = Fifo::new(FifoKind::Bytes(config.limit)).into();
        let shown = shown(&Tbf::new(config, child), details);
        [shown.options, Value::Object(shown.options_json).to_string()]
    }

    /// As tc 6.1 took or refused them, by what it sent.
    #[test]
    fn some_options_are_cut_short() {
        let read = |options: &str| {
            parse_qdisc(&format!("qdisc add dev x root tbf {options}")).map(|command| command.spec)
        };
        for (short, whole) in [
            ("rate 1mbit b 2k l 9k", "rate 1mbit burst 2k limit 9k"),
            ("rate 1mbit bu 2k lat 9ms", "rate 1mbit burst 2k latency 9ms"),
            ("rate 1mbit burst 2k la 9ms", "rate 1mbit burst 2k latency 9ms"),
            (
                "rate 1mbit burst 2k li 9k mtu 1500 p 2mbit o 14 lin atm",
                "rate 1mbit burst 2k limit 9k mtu 1500 peakrate 2mbit overhead 14 linklayer atm",
            ),
        ] {
            assert_eq!(read(short), Ok(read(whole).expect(whole)), "{short}");
        }
        for refused in [
            "rat 1mbit burst 2k limit 9k",
            "rate 1mbit buf 2k limit 9k",
            "rate 1mbit maxb 2k limit 9k",
            "rate 1mbit burst 2k limit 9k mt 1500",
            "rate 1mbit burst 2k limit 9k minb 1500",
            "rate 1mbit burst 2k limit 9k mp 64",
            "rate 1mbit burst 2k limits 9k",
        ] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
