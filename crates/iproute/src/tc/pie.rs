//! `pie [ limit PACKETS ] [ target TIME ] [ tupdate TIME ] …`, as tc of iproute2 6.x reads and shows it.

use super::positive_time;
use super::qdisc_text::{Push, QdiscText, map, show_micros, six_digits};
use crate::units::{number, significant_digits};
use crate::words::{Result, Word, Words};
use datapath::qdisc::pie::{Pie, PieConfig, PieParams, PschedTime};
use datapath::units::Duration;
use serde_json::json;

const OPTIONS: [&str; 11] = [
    "limit",
    "target",
    "tupdate",
    "alpha",
    "beta",
    "ecn",
    "noecn",
    "bytemode",
    "nobytemode",
    "dq_rate_estimator",
    "no_dq_rate_estimator",
];

/// The largest `alpha` and `beta` (`ALPHA_MAX`, `BETA_MAX`).
const GAIN_MAX: u32 = 32;

/// What was said of a pie; the rest keeps its default, or its value on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieWords {
    limit: Option<u32>,
    target: Option<PschedTime>,
    tupdate: Option<Duration>,
    alpha: Option<u32>,
    beta: Option<u32>,
    ecn: Option<bool>,
    bytemode: Option<bool>,
    dq_rate_estimator: Option<bool>,
}

impl PieWords {
    /// Reads pie's options.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        while let Some(word) = words.next() {
            match word.text {
                "ecn" => said.ecn = Some(true),
                "noecn" => said.ecn = Some(false),
                "bytemode" => said.bytemode = Some(true),
                "nobytemode" => said.bytemode = Some(false),
                "dq_rate_estimator" => said.dq_rate_estimator = Some(true),
                "no_dq_rate_estimator" => said.dq_rate_estimator = Some(false),
                "limit" => said.limit = positive(words.value(word)?, word, u32::MAX)?,
                "alpha" => said.alpha = positive(words.value(word)?, word, GAIN_MAX)?,
                "beta" => said.beta = positive(words.value(word)?, word, GAIN_MAX)?,
                "target" => said.target = positive_time(word, words)?.map(PschedTime::of),
                "tupdate" => said.tupdate = positive_time(word, words)?.map(PieConfig::tupdate_of),
                _ => return Err(word.unknown("pie", &OPTIONS)),
            }
        }
        Ok(said)
    }

    /// `base` with what was said.
    pub fn over(&self, base: PieConfig) -> PieConfig {
        let params = PieParams {
            target: self.target.unwrap_or(base.params.target),
            alpha: self.alpha.unwrap_or(base.params.alpha),
            beta: self.beta.unwrap_or(base.params.beta),
            bytemode: self.bytemode.unwrap_or(base.params.bytemode),
            dq_rate_estimator: self.dq_rate_estimator.unwrap_or(base.params.dq_rate_estimator),
            mtu: base.params.mtu,
        };
        PieConfig {
            limit: self.limit.unwrap_or(base.limit),
            tupdate: self.tupdate.unwrap_or(base.tupdate),
            ecn: self.ecn.unwrap_or(base.ecn),
            params,
        }
    }
}

/// A number of at most `most`; tc does not send zero.
fn positive(value: Word<'_>, option: Word<'_>, most: u32) -> Result<Option<u32>> {
    let given = number(value, option.text)?;
    if given > most {
        return Err(value.illegal(option.text));
    }
    Ok(Some(given).filter(|&given| given > 0))
}

/// pie as tc shows it.
pub(super) fn shown(pie: &Pie) -> QdiscText {
    let mut shown = QdiscText::default();
    push_options(&mut shown, pie.config());
    let (vars, own) = (pie.vars(), pie.own_stats());
    // Of a probability above 1 the kernel shows the lower bits.
    let probability = (vars.probability << 8) as f64 / u64::MAX as f64;
    let delay = vars.qdelay.shown_micros();
    let estimate = Some(vars.avg_dq_rate()).filter(|_| pie.config().params.dq_rate_estimator);
    shown.stats.push_fmt(format_args!(
        "  prob {} delay {}",
        significant_digits(probability, 6),
        show_micros(delay)
    ));
    if let Some(rate) = estimate {
        shown.stats.push_fmt(format_args!(" avg_dq_rate {rate}"));
    }
    shown.stats.push_fmt(format_args!(
        "\n  pkts_in {} overlimit {} dropped {} maxq {} ecn_mark {}\n",
        own.packets_in, own.overlimit, own.dropped, own.maxq as u16, own.ecn_mark
    ));
    shown.stats_json = map([("prob", six_digits(probability)), ("delay", json!(delay))]);
    shown.stats_json.extend(estimate.map(|rate| ("avg_dq_rate".to_owned(), json!(rate))));
    shown.stats_json.extend(map([
        ("pkts_in", json!(own.packets_in)),
        ("overlimit", json!(own.overlimit)),
        ("dropped", json!(own.dropped)),
        ("maxq", json!(own.maxq)),
        ("ecn_mark", json!(own.ecn_mark)),
    ]));
    shown
}

fn push_options(shown: &mut QdiscText, config: &PieConfig) {
    let target = config.params.target.shown_micros();
    let tupdate = config.tupdate.as_micros() as u32;
    let PieParams { alpha, beta, bytemode, dq_rate_estimator, .. } = config.params;
    shown.options = format!(
        "limit {}p target {} tupdate {} alpha {alpha} beta {beta} ",
        config.limit,
        show_micros(target),
        show_micros(tupdate)
    );
    shown.options_json = map([
        ("limit", json!(config.limit)),
        ("target", json!(target)),
        ("tupdate", json!(tupdate)),
        ("alpha", json!(alpha)),
        ("beta", json!(beta)),
    ]);
    let flags =
        [("ecn", config.ecn), ("bytemode", bytemode), ("dq_rate_estimator", dq_rate_estimator)];
    for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
        shown.options.push_fmt(format_args!("{name} "));
        shown.options_json.insert(name.to_owned(), json!(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::rng::Rng;

    fn config(text: &str) -> PieConfig {
        let words = PieWords::parse(&mut Words::new(text)).expect(text);
        words.over(PieConfig::new(1514))
    }

    #[test]
    fn options_are_read_and_shown_as_tc_does() {
        for (text, shown) in [
            ("", "limit 1000p target 15ms tupdate 15ms alpha 2 beta 20 "),
            (
                "limit 50 target 20ms tupdate 30ms alpha 1 beta 10 ecn bytemode dq_rate_estimator",
                "limit 50p target 20ms tupdate 30ms alpha 1 beta 10 ecn bytemode dq_rate_estimator ",
            ),
            // A tick has 64 ns, an update takes whole jiffies, and tc does not send zeros.
            ("target 1us tupdate 1ms", "limit 1000p target 0us tupdate 1ms alpha 2 beta 20 "),
            ("tupdate 1us", "limit 1000p target 15ms tupdate 1ms alpha 2 beta 20 "),
            (
                "limit 0 target 0 tupdate 0 alpha 0 beta 0 ecn noecn",
                "limit 1000p target 15ms tupdate 15ms alpha 2 beta 20 ",
            ),
            ("limit 0x10 alpha 32", "limit 16p target 15ms tupdate 15ms alpha 32 beta 20 "),
        ] {
            let pie = Pie::new(config(text), Rng::stream(1, 1));
            assert_eq!(super::shown(&pie).options, shown, "{text}");
        }
        for (text, message) in [
            ("alpha 33", "illegal value for \"alpha\": \"33\""),
            ("beta -1", "illegal value for \"beta\": \"-1\""),
            ("target", "\"target\" needs a value"),
            ("byte_mode", "pie: unknown parameter \"byte_mode\" (did you mean \"bytemode\"?)"),
        ] {
            let error = PieWords::parse(&mut Words::new(text)).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn statistics_are_those_of_tc() {
        let fresh = Pie::new(config("dq_rate_estimator"), Rng::stream(1, 1));
        assert_eq!(
            shown(&fresh).stats,
            "  prob 0 delay 0us avg_dq_rate 0\n  pkts_in 0 overlimit 0 dropped 0 maxq 0 ecn_mark 0\n"
        );
        let json = serde_json::Value::Object(shown(&fresh).stats_json);
        assert_eq!(json["avg_dq_rate"], 0);
    }
}
