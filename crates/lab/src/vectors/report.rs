//! How replays end: scenario by scenario, and what transfers come to.

use serde_json::{Value, json};
use std::fmt;

/// How transfers compare in all ([`transfers`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transfers {
    /// How many there are.
    pub compared: usize,
    /// Packet sequences that are identical.
    pub identical: usize,
    /// Goodput within 2 %, and the same numbers of RTOs and fast retransmits.
    pub alike: usize,
}

/// Counts the transfers in `reports`; none if they hold other vectors only.
pub fn transfers(reports: &[Report]) -> Option<Transfers> {
    let scenarios = reports.iter().flat_map(|report| &report.scenarios);
    let all: Vec<_> = scenarios.filter_map(|one| Some((one, one.figures?))).collect();
    (!all.is_empty()).then(|| Transfers {
        compared: all.len(),
        identical: all.iter().filter(|(one, _)| one.verdict == Verdict::Passed).count(),
        alike: all.iter().filter(|(_, figures)| figures.alike()).count(),
    })
}

impl Transfers {
    /// The counts as JSON.
    pub fn to_json(&self) -> Value {
        json!({ "compared": self.compared, "identical": self.identical, "alike": self.alike })
    }
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, identical, alike } = self;
        writeln!(f, "{identical} of {compared} transfers identical packet by packet;")?;
        writeln!(f, "{alike} with goodput within 2 % and the same RTOs and fast retransmits")
    }
}

/// The first point where a replay and the recording part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// When, in ns of the scenario's clock, where the recording has a time there.
    pub time: Option<u64>,
    /// Where: index into the recorded sequence that differs.
    pub index: Option<u64>,
    /// Which recorded value differs, as a path (`out.time`, `snaps.mid.tins[1].drops`).
    pub field: String,
    /// What the kernel did.
    pub expected: String,
    /// What the model did.
    pub got: String,
}

/// How one scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was compared is equal.
    Passed,
    /// Something differs; this is the first such thing.
    Failed(Divergence),
    /// Nothing could be compared, and why.
    Skipped(String),
}

/// The outcome of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in the file.
    pub name: String,
    /// Passed, failed or skipped.
    pub verdict: Verdict,
    /// How many recorded values were compared.
    pub compared: u64,
    /// Of a transfer: what it comes to, recorded and rebuilt.
    pub figures: Option<Figures>,
}

/// A number on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// In the recording.
    pub recorded: u64,
    /// In the replay.
    pub ours: u64,
}

impl Pair {
    /// True if both are the same.
    pub fn equal(self) -> bool {
        self.recorded == self.ours
    }

    /// Ours in parts of the recorded one; equal numbers, zeros too, are 1.
    pub fn ratio(self) -> f64 {
        if self.equal() { 1.0 } else { self.ours as f64 / self.recorded as f64 }
    }

    fn to_json(self) -> Value {
        json!({ "expected": self.recorded, "got": self.ours })
    }
}

/// What a transfer comes to, recorded and rebuilt: how much a difference between packets matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes acknowledged over the time they took, bit/s.
    pub goodput_bps: Pair,
    /// Segments retransmitted.
    pub retransmissions: Pair,
    /// Expiries of the retransmission timer.
    pub timeouts: Pair,
    /// Segments retransmitted in fast recovery.
    pub fast_retransmits: Pair,
    /// Largest difference of congestion windows between samples of the same moment, segments.
    pub cwnd_difference: u32,
    /// Largest difference of smoothed RTTs, µs.
    pub srtt_difference_us: u32,
}

/// How far goodput may lie from the recorded one to be called the same.
const GOODPUT_TOLERANCE: f64 = 0.02;

impl Figures {
    /// Goodput within 2 %, and the same numbers of timeouts and of fast retransmits.
    pub fn alike(&self) -> bool {
        (self.goodput_bps.ratio() - 1.0).abs() <= GOODPUT_TOLERANCE
            && self.timeouts.equal()
            && self.fast_retransmits.equal()
    }

    /// The fields that stand beside a divergence.
    fn to_fields(self) -> [(String, Value); 8] {
        [
            ("goodput_ratio", json!(self.goodput_bps.ratio())),
            ("goodput_bps", self.goodput_bps.to_json()),
            ("retransmissions", self.retransmissions.to_json()),
            ("rtos", self.timeouts.to_json()),
            ("fast_retransmits", self.fast_retransmits.to_json()),
            ("largest_cwnd_difference", json!(self.cwnd_difference)),
            ("largest_srtt_difference_us", json!(self.srtt_difference_us)),
            ("alike", json!(self.alike())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |pair: Pair| format!("{}/{}", pair.recorded, pair.ours);
        write!(
            f,
            "goodput {:.3} of the recorded; recorded/ours: retransmissions {}, RTOs {}, \
             fast retransmits {}; largest difference: cwnd {}, srtt {} us",
            self.goodput_bps.ratio(),
            both(self.retransmissions),
            both(self.timeouts),
            both(self.fast_retransmits),
            self.cwnd_difference,
            self.srtt_difference_us,
        )
    }
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file, as it was named.
    pub file: String,
    /// What the file holds (`cake`, `ack-filter`, `multipath`, `tcp`).
    pub kind: &'static str,
    /// Scenario by scenario, in the order of the file.
    pub scenarios: Vec<Scenario>,
}

impl Report {
    /// How many scenarios passed.
    pub fn passed(&self) -> usize {
        self.scenarios.iter().filter(|one| one.verdict == Verdict::Passed).count()
    }

    /// The scenarios that failed, with their first divergence.
    pub fn failures(&self) -> impl Iterator<Item = (&Scenario, &Divergence)> {
        self.scenarios.iter().filter_map(|one| match &one.verdict {
            Verdict::Failed(divergence) => Some((one, divergence)),
            Verdict::Passed | Verdict::Skipped(_) => None,
        })
    }

    /// How many scenarios failed.
    pub fn failed(&self) -> usize {
        self.failures().count()
    }

    /// The report as JSON, for `--json`.
    pub fn to_json(&self) -> Value {
        let scenarios: Vec<Value> = self.scenarios.iter().map(Scenario::to_json).collect();
        json!({
            "file": self.file,
            "kind": self.kind,
            "passed": self.passed(),
            "failed": self.failed(),
            "skipped": self.scenarios.len() - self.passed() - self.failed(),
            "scenarios": scenarios,
        })
    }
}

impl Scenario {
    /// The scenario as JSON.
    pub fn to_json(&self) -> Value {
        let mut object = json!({ "name": self.name, "compared": self.compared });
        match &self.verdict {
            Verdict::Passed => object["result"] = json!("pass"),
            Verdict::Skipped(reason) => {
                object["result"] = json!("skip");
                object["reason"] = json!(reason);
            }
            Verdict::Failed(divergence) => {
                object["result"] = json!("fail");
                object["divergence"] = json!({
                    "time": divergence.time,
                    "index": divergence.index,
                    "field": divergence.field,
                    "expected": divergence.expected,
                    "got": divergence.got,
                });
                if let (Some(figures), Value::Object(fields)) =
                    (self.figures, &mut object["divergence"])
                {
                    fields.extend(figures.to_fields());
                }
            }
        }
        if let Some(figures) = self.figures {
            object["alike"] = json!(figures.alike());
        }
        object
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.scenarios {
            match &one.verdict {
                Verdict::Passed => {}
                Verdict::Skipped(reason) => writeln!(f, "skipped {}: {reason}", one.name)?,
                Verdict::Failed(divergence) => {
                    writeln!(f, "FAILED {}: {divergence}", one.name)?;
                    if let Some(figures) = &one.figures {
                        writeln!(f, "  {figures}")?;
                    }
                }
            }
        }
        let compared: u64 = self.scenarios.iter().map(|one| one.compared).sum();
        let (file, kind, total) = (&self.file, self.kind, self.scenarios.len());
        write!(f, "{file}: {kind}: {} of {total} passed", self.passed())?;
        writeln!(f, ", {} failed ({compared} values compared)", self.failed())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if let Some(index) = self.index {
            write!(f, " at index {index}")?;
        }
        if let Some(time) = self.time {
            write!(f, " at {time} ns")?;
        }
        write!(f, ": expected {}, got {}", self.expected, self.got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_the_first_divergence() {
        let divergence = Divergence {
            time: Some(12),
            index: Some(3),
            field: "out.time".to_owned(),
            expected: "12".to_owned(),
            got: "13".to_owned(),
        };
        let scenarios = vec![
            Scenario {
                name: "good".to_owned(),
                verdict: Verdict::Passed,
                compared: 7,
                figures: None,
            },
            Scenario {
                name: "bad".to_owned(),
                verdict: Verdict::Failed(divergence),
                compared: 4,
                figures: None,
            },
        ];
        let report = Report { file: "x".to_owned(), kind: "cake", scenarios };
        assert_eq!((report.passed(), report.failed()), (1, 1));
        assert_eq!(
            report.to_string(),
            "FAILED bad: out.time at index 3 at 12 ns: expected 12, got 13\n\
             x: cake: 1 of 2 passed, 1 failed (11 values compared)\n"
        );
        assert_eq!(report.to_json()["scenarios"][1]["divergence"]["got"], "13");
        assert_eq!(transfers(&[report]), None);
    }

    fn figures() -> Figures {
        let same = Pair { recorded: 3, ours: 3 };
        Figures {
            goodput_bps: Pair { recorded: 1_000, ours: 981 },
            retransmissions: Pair { recorded: 9, ours: 7 },
            timeouts: same,
            fast_retransmits: same,
            cwnd_difference: 2,
            srtt_difference_us: 40,
        }
    }

    #[test]
    fn transfers_are_alike_within_two_percent_and_with_equal_counts() {
        let plain = figures();
        let other = Pair { recorded: 3, ours: 4 };
        assert!(plain.alike(), "the number of retransmissions may differ");
        assert!(!Figures { goodput_bps: Pair { recorded: 1_000, ours: 979 }, ..plain }.alike());
        assert!(!Figures { goodput_bps: Pair { recorded: 0, ours: 9 }, ..plain }.alike());
        assert!(!Figures { timeouts: other, ..plain }.alike());
        assert!(!Figures { fast_retransmits: other, ..plain }.alike());
        assert!(Figures { goodput_bps: Pair { recorded: 0, ours: 0 }, ..plain }.alike());
    }

    #[test]
    fn a_differing_transfer_is_reported_with_figures() {
        let divergence = Divergence {
            time: None,
            index: Some(3),
            field: "seq".to_owned(),
            expected: "1".to_owned(),
            got: "2".to_owned(),
        };
        let verdict = Verdict::Failed(divergence);
        let one = |name: &str, verdict, figures| Scenario {
            name: name.to_owned(),
            verdict,
            compared: 1,
            figures: Some(figures),
        };
        let rto = Figures { timeouts: Pair { recorded: 0, ours: 1 }, ..figures() };
        let scenarios = vec![one("same", Verdict::Passed, figures()), one("other", verdict, rto)];
        let report = Report { file: "x".to_owned(), kind: "tcp", scenarios };
        assert_eq!(
            report.to_string(),
            "FAILED other: seq at index 3: expected 1, got 2\n  \
             goodput 0.981 of the recorded; recorded/ours: retransmissions 9/7, RTOs 0/1, \
             fast retransmits 3/3; largest difference: cwnd 2, srtt 40 us\n\
             x: tcp: 1 of 2 passed, 1 failed (2 values compared)\n"
        );
        let divergence = &report.to_json()["scenarios"][1]["divergence"];
        assert_eq!(divergence["rtos"], json!({ "expected": 0, "got": 1 }));
        assert_eq!(divergence["largest_cwnd_difference"], 2);
        assert_eq!(divergence["goodput_ratio"], 0.981);
        assert_eq!(divergence["alike"], false);
        let counted = transfers(&[report]).expect("transfers");
        assert_eq!(counted, Transfers { compared: 2, identical: 1, alike: 1 });
    }
}
