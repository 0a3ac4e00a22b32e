//! `dualpi2 [ limit PACKETS ] [ target TIME ] [ step_thresh TIME|PACKETS ] …`, as tc of iproute2 6.17 reads and shows it.

use super::positive_time;
use super::qdisc_text::{Push, QdiscText, map, six_digits};
use crate::units::{decimal, leading_number, parse_signed, show_time, time};
use crate::words::{Result, Word, Words};
use datapath::qdisc::dualpi2::{DualPi2, DualPi2Config, Gain, StepThreshold, memory_limit_of};
use datapath::units::{Duration, Instant};
use serde_json::{Value, json};

const OPTIONS: [&str; 20] = [
    "limit",
    "memlimit",
    "coupling_factor",
    "step_thresh",
    "min_qlen_step",
    "drop_on_overload",
    "overflow",
    "drop_enqueue",
    "drop_dequeue",
    "classic_protection",
    "max_rtt",
    "typical_rtt",
    "target",
    "tupdate",
    "alpha",
    "beta",
    "split_gso",
    "no_split_gso",
    "l4s_ect",
    "any_ect",
];

/// The maximum round trip is so many typical ones unless told (`RTT_TYP_TO_MAX`).
const MAX_OVER_TYPICAL: u64 = 6;
/// tc sends gains in 1/256 Hz (`ALPHA_BETA_SCALE`).
const GAIN_SCALE: f64 = 256.0;
/// The longest time that the kernel keeps of those that it holds in 32 bits of ns (`convert_us_to_nsec`).
const LONGEST: Duration = Duration::from_nanos(u32::MAX as u64);

/// What was said of a dualpi2; the rest keeps its default, or its value on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DualPi2Words {
    limit: Option<u32>,
    memory_limit: Option<u32>,
    target: Option<Duration>,
    tupdate: Option<Duration>,
    alpha: Option<Gain>,
    beta: Option<Gain>,
    step_threshold: Option<StepThreshold>,
    min_qlen_step: Option<u32>,
    coupling_factor: Option<u8>,
    drop_overload: Option<bool>,
    drop_early: Option<bool>,
    classic_protection: Option<u8>,
    ecn_mask: Option<u8>,
    split_gso: Option<bool>,
}

/// The round trips that the controller is to be tuned for.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    max: Option<Duration>,
    typical: Option<Duration>,
}

impl DualPi2Words {
    /// Reads dualpi2's options.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        let mut round_trips = RoundTrips::default();
        while let Some(word) = words.next() {
            match word.text {
                "max_rtt" => round_trips.max = positive_time(word, words)?,
                "typical_rtt" => round_trips.typical = positive_time(word, words)?,
                _ if said.switch(word) || said.option(word, words)? => {}
                _ => return Err(word.unknown("dualpi2", &OPTIONS)),
            }
        }
        said.tune(round_trips, words)?;
        Ok(said)
    }

    /// Takes a word that stands alone; false if `word` is none.
    fn switch(&mut self, word: Word<'_>) -> bool {
        match word.text {
            "drop_on_overload" => self.drop_overload = Some(true),
            "overflow" => self.drop_overload = Some(false),
            "drop_enqueue" => self.drop_early = Some(true),
            "drop_dequeue" => self.drop_early = Some(false),
            "split_gso" => self.split_gso = Some(true),
            "no_split_gso" => self.split_gso = Some(false),
            "l4s_ect" => self.ecn_mask = Some(1),
            "any_ect" => self.ecn_mask = Some(3),
            _ => return false,
        }
        true
    }

    /// Takes a word with its value; false if `word` is none. Zero means what is left out, except where zero is a value.
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<bool> {
        match word.text {
            "limit" => self.limit = positive(words.value(word)?, word.text)?,
            "memlimit" => self.memory_limit = positive(words.value(word)?, word.text)?,
            "min_qlen_step" => self.min_qlen_step = Some(decimal(words.value(word)?, word.text)?),
            "target" => self.target = positive_time(word, words)?,
            "tupdate" => {
                self.tupdate = positive_time(word, words)?.map(|time| time.min(LONGEST));
            }
            "alpha" => self.alpha = Some(gain(words.value(word)?, word.text)?),
            "beta" => self.beta = Some(gain(words.value(word)?, word.text)?),
            "step_thresh" => self.step_threshold = step_threshold(words.value(word)?)?,
            "coupling_factor" => self.coupling_factor = Some(coupling(words.value(word)?)?),
            "classic_protection" => self.classic_protection = Some(share(words.value(word)?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Target, update time and gains for round trips, which win over what was said of these.
    fn tune(&mut self, round_trips: RoundTrips, words: &Words<'_>) -> Result<()> {
        let micros = |time: Duration| time.as_micros();
        let (max, typical) = match (round_trips.max.map(micros), round_trips.typical.map(micros)) {
            (None, None) => return Ok(()),
            (Some(max), None) => (max, (max / MAX_OVER_TYPICAL).max(1)),
            (None, Some(typical)) => (typical * MAX_OVER_TYPICAL, typical),
            (Some(max), Some(typical)) if typical > max => {
                let message = "dualpi2: \"typical_rtt\" must not be above \"max_rtt\"";
                return Err(words.unexpected_end(message));
            }
            (Some(max), Some(typical)) => (max, typical),
        };
        let tupdate = (typical as f64).min(max as f64 / 3.0).max(1.0) as u64;
        let max_seconds = max as f64 / 1e6;
        let alpha = tupdate as f64 / max as f64 / max_seconds * f64::from(0.1_f32);
        let beta = f64::from(0.3_f32) / max_seconds;
        let gains = [alpha, beta].map(|gain| gain_of(gain).filter(|_| gain * GAIN_SCALE >= 1.0));
        let [Some(alpha), Some(beta)] = gains else {
            let message = "dualpi2: for this \"max_rtt\" there is no alpha or no beta";
            return Err(words.unexpected_end(message));
        };
        (self.alpha, self.beta) = (Some(alpha), Some(beta));
        self.target = Some(Duration::from_micros(typical));
        self.tupdate = Some(Duration::from_micros(tupdate).min(LONGEST));
        Ok(())
    }

    /// `base` with what was said.
    pub fn over(&self, base: DualPi2Config) -> DualPi2Config {
        let of_limit = self.limit.map(|limit| memory_limit_of(limit, base.mtu));
        DualPi2Config {
            limit: self.limit.unwrap_or(base.limit),
            memory_limit: self.memory_limit.or(of_limit).unwrap_or(base.memory_limit),
            target: self.target.unwrap_or(base.target),
            tupdate: self.tupdate.unwrap_or(base.tupdate),
            alpha: self.alpha.unwrap_or(base.alpha),
            beta: self.beta.unwrap_or(base.beta),
            step_threshold: self.step_threshold.unwrap_or(base.step_threshold),
            min_qlen_step: self.min_qlen_step.unwrap_or(base.min_qlen_step),
            coupling_factor: self.coupling_factor.unwrap_or(base.coupling_factor),
            drop_overload: self.drop_overload.unwrap_or(base.drop_overload),
            drop_early: self.drop_early.unwrap_or(base.drop_early),
            classic_protection: self.classic_protection.unwrap_or(base.classic_protection),
            ecn_mask: self.ecn_mask.unwrap_or(base.ecn_mask),
            split_gso: self.split_gso.unwrap_or(base.split_gso),
            mtu: base.mtu,
        }
    }
}

/// A decimal number; tc does not send zero.
fn positive(word: Word<'_>, what: &str) -> Result<Option<u32>> {
    Ok(Some(decimal(word, what)?).filter(|&number: &u32| number > 0))
}

/// A gain in Hz. The kernel takes from 1/256 Hz to 2²³ Hz.
fn gain(word: Word<'_>, what: &str) -> Result<Gain> {
    let hertz = leading_number(word.text).filter(|(_, unit)| unit.is_empty());
    hertz.and_then(|(hertz, _)| gain_of(hertz)).ok_or_else(|| word.illegal(what))
}

fn gain_of(hertz: f64) -> Option<Gain> {
    let scaled = hertz * GAIN_SCALE;
    let is_in_range = (1.0..=f64::from(Gain::MAX)).contains(&scaled);
    is_in_range.then(|| Gain::from_256th_hz(scaled as u32))
}

/// A time, or packets with one of their units.
fn step_threshold(word: Word<'_>) -> Result<Option<StepThreshold>> {
    if let Ok(time) = time(word, "step_thresh") {
        let threshold = StepThreshold::Sojourn(time.min(LONGEST));
        return Ok(Some(threshold).filter(|_| time > Duration::ZERO));
    }
    let digits = word.text.trim_end_matches(char::is_alphabetic);
    let unit = &word.text[digits.len()..];
    if !["p", "pkt", "pkts", "packet", "packets"].contains(&unit) {
        return Err(word.illegal("step_thresh"));
    }
    let packets: u32 = digits.parse().map_err(|_| word.illegal("step_thresh"))?;
    Ok(Some(StepThreshold::Packets(packets)).filter(|_| packets > 0))
}

/// 1 to 255.
fn coupling(word: Word<'_>) -> Result<u8> {
    let factor = parse_signed(word.text).and_then(|factor| u8::try_from(factor).ok());
    factor.filter(|factor| *factor > 0).ok_or_else(|| word.illegal("coupling_factor"))
}

/// Per cent, rounded to whole ones.
fn share(word: Word<'_>) -> Result<u8> {
    match leading_number(word.text) {
        Some((percent, "" | "%")) if (0.0..=100.0).contains(&percent.round_ties_even()) => {
            Ok(percent.round_ties_even() as u8)
        }
        _ => Err(word.illegal("classic_protection")),
    }
}

/// dualpi2 as tc shows it at `now`.
pub(super) fn shown(dualpi2: &DualPi2, now: Instant) -> QdiscText {
    let (mut shown, config) = (QdiscText::default(), dualpi2.config());
    push_options(&mut shown, config);
    let own = dualpi2.own_stats();
    let probability = f64::from(dualpi2.controller().probability) / f64::from(u32::MAX);
    let [delay_c, delay_l] =
        dualpi2.delays(now).map(|delay| delay.as_micros().min(u64::from(u32::MAX)));
    let credit = dualpi2.credit();
    let turn = if credit > 0 { "C-queue" } else { "L-queue" };
    // tc ends the last line twice.
    shown.stats = format!(
        "prob {probability:.6} delay_c {delay_c}us delay_l {delay_l}us\n\
         pkts_in_c {} pkts_in_l {} maxq {}\n\
         ecn_mark {} step_mark {}\n\
         credit {credit} ({turn})\n\
         memory_used {} (max {}) of memory limit {}\n\n",
        own.packets_in_c,
        own.packets_in_l,
        own.maxq,
        own.ecn_mark,
        own.step_marks,
        own.memory_used,
        own.max_memory_used,
        config.memory_limit,
    );
    shown.stats_json = map([
        ("prob", six_digits(probability)),
        ("delay-c", json!(delay_c)),
        ("delay-l", json!(delay_l)),
        ("pkts-in-c", json!(own.packets_in_c)),
        ("pkts-in-l", json!(own.packets_in_l)),
        ("maxq", json!(own.maxq)),
        ("ecn-mark", json!(own.ecn_mark)),
        ("step-mark", json!(own.step_marks)),
        ("credit", json!(credit)),
        ("memory-used", json!(own.memory_used)),
        ("max-memory-used", json!(own.max_memory_used)),
        ("memory-limit", json!(config.memory_limit)),
    ]);
    shown
}

fn push_options(shown: &mut QdiscText, config: &DualPi2Config) {
    let mut put = |key: &str, value: Value, text: String| {
        shown.options.push_fmt(format_args!("{text} "));
        shown.options_json.insert(key.to_owned(), value);
    };
    let micros = |time: Duration| json!(time.as_micros());
    let hertz = |gain: Gain| f64::from(gain.to_256th_hz()) / GAIN_SCALE;
    put("limit", json!(config.limit), format!("limit {}p", config.limit));
    put("memory-limit", json!(config.memory_limit), format!("memlimit {}B", config.memory_limit));
    put("target", micros(config.target), format!("target {}", show_time(config.target)));
    put("tupdate", micros(config.tupdate), format!("tupdate {}", show_time(config.tupdate)));
    let (alpha, beta) = (hertz(config.alpha), hertz(config.beta));
    put("alpha", six_digits(alpha), format!("alpha {alpha:.6}"));
    put("beta", six_digits(beta), format!("beta {beta:.6}"));
    match config.step_threshold {
        StepThreshold::Packets(packets) => {
            put("step-thresh-pkts", json!(packets), format!("step_thresh {packets}p"));
        }
        StepThreshold::Sojourn(time) => {
            put("step-thresh-us", micros(time), format!("step_thresh {}", show_time(time)));
        }
    }
    let least = config.min_qlen_step;
    put("min-qlen-step", json!(least), format!("min_qlen_step {least}p"));
    let coupling = config.coupling_factor;
    put("coupling", json!(coupling), format!("coupling_factor {coupling}"));
    let [text, value] =
        if config.drop_overload { ["drop_on_overload", "drop"] } else { ["overflow", "overflow"] };
    put("drop-overload", json!(value), text.to_owned());
    let [text, value] = if config.drop_early {
        ["drop_enqueue", "drop-enqueue"]
    } else {
        ["drop_dequeue", "drop-dequeue"]
    };
    put("drop-early", json!(value), text.to_owned());
    let share = config.classic_protection;
    put("c-protection", json!(share), format!("classic_protection {share}%"));
    let [text, value] =
        if config.ecn_mask == 1 { ["l4s_ect", "l4s-ect"] } else { ["any_ect", "any-ect"] };
    put("ecn-mask", json!(value), text.to_owned());
    if config.split_gso {
        put("split-gso", Value::Null, "split_gso".to_owned());
    } else {
        shown.options.push_str("no_split_gso ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::qdisc::Handle;
    use datapath::rng::Rng;

    fn config(text: &str) -> DualPi2Config {
        let words = DualPi2Words::parse(&mut Words::new(text)).expect(text);
        words.over(DualPi2Config::new(1514))
    }

    fn options(text: &str) -> String {
        let dualpi2 = DualPi2::new(config(text), Handle::new(1, 0), Rng::stream(1, 1));
        shown(&dualpi2, Instant::ZERO).options
    }

    #[test]
    fn options_come_back_as_tc_shows_them() {
        assert_eq!(
            options(""),
            "limit 10000p memlimit 30280000B target 15ms tupdate 16ms alpha 0.156250 beta 3.195312 \
             step_thresh 1ms min_qlen_step 0p coupling_factor 2 drop_on_overload drop_dequeue \
             classic_protection 10% l4s_ect split_gso "
        );
        assert_eq!(
            options(
                "limit 100 memlimit 5000 target 20ms tupdate 10ms alpha 1 beta 2.5 step_thresh 5pkts \
                 min_qlen_step 2 coupling_factor 3 overflow drop_enqueue classic_protection 25% any_ect \
                 no_split_gso"
            ),
            "limit 100p memlimit 5000B target 20ms tupdate 10ms alpha 0.996094 beta 2.496094 \
             step_thresh 5p min_qlen_step 2p coupling_factor 3 overflow drop_enqueue \
             classic_protection 25% any_ect no_split_gso "
        );
    }

    /// The values are those of RFC 9332, appendix A.1: a typical round trip of 15 ms and a maximum of 100 ms give gains of
    /// 0.16 and 3.2 Hz at an update time of 16 ms.
    #[test]
    fn round_trips_tune_the_controller() {
        let by_max = config("max_rtt 100ms");
        assert_eq!(by_max.target.as_micros(), 16_666);
        assert_eq!(by_max.tupdate.as_micros(), 16_666);
        assert_eq!(by_max.alpha, Gain::from_256th_hz(42));
        assert_eq!(by_max.beta, Gain::from_256th_hz(768));
        assert_eq!(
            config("typical_rtt 16666us alpha 5"),
            config("max_rtt 99996us typical_rtt 16666us")
        );
        let near = config("max_rtt 30ms typical_rtt 20ms");
        assert_eq!((near.target.as_micros(), near.tupdate.as_micros()), (20_000, 10_000));
    }

    #[test]
    fn zero_is_not_sent_and_a_limit_brings_its_memory() {
        let default = DualPi2Config::new(1514);
        assert_eq!(config("limit 0 memlimit 0 target 0 tupdate 0 step_thresh 0"), default);
        assert_eq!(config("limit 10").memory_limit, 30_280);
        assert_eq!(config("memlimit 7 limit 10").memory_limit, 7);
        assert_eq!(config("min_qlen_step 0").min_qlen_step, 0);
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, expected) in [
            (
                "limits 5",
                "column 0: dualpi2: unknown parameter \"limits\" (did you mean \"limit\"?)",
            ),
            ("coupling_factor 0", "column 16: illegal value for \"coupling_factor\": \"0\""),
            ("coupling_factor 256", "column 16: illegal value for \"coupling_factor\": \"256\""),
            (
                "classic_protection 101%",
                "column 19: illegal value for \"classic_protection\": \"101%\"",
            ),
            ("alpha 0", "column 6: illegal value for \"alpha\": \"0\""),
            ("beta 1e8", "column 5: illegal value for \"beta\": \"1e8\""),
            ("step_thresh 5q", "column 12: illegal value for \"step_thresh\": \"5q\""),
            (
                "max_rtt 5ms typical_rtt 6ms",
                "column 27: dualpi2: \"typical_rtt\" must not be above \"max_rtt\"",
            ),
            (
                "max_rtt 20s",
                "column 11: dualpi2: for this \"max_rtt\" there is no alpha or no beta",
            ),
        ] {
            let error = DualPi2Words::parse(&mut Words::new(text)).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }
}
