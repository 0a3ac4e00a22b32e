//! `prio [ bands NUMBER ] [ priomap P1 ... P16 ]`.

use super::qdisc_text::{Push, QdiscText, map};
use crate::units::decimal;
use crate::words::{Result, Words};
use datapath::qdisc::prio::PrioConfig;
use serde_json::json;

/// Reads prio's options. A short map leaves the rest as it is by default; tc wants every entry
/// to name a band.
pub(super) fn parse(words: &mut Words<'_>) -> Result<PrioConfig> {
    let mut config = PrioConfig::default();
    while let Some(word) = words.next() {
        match word.text {
            "bands" => {
                let value = words.value(word)?;
                config.bands = decimal(value, "bands")?;
                if !(2..=16).contains(&config.bands) {
                    return Err(value.illegal("bands"));
                }
            }
            "priomap" => {
                for entry in &mut config.priomap {
                    let band = words.accept_as(|word| decimal(word, "priomap"));
                    let Some(band) = band else { break };
                    *entry = band;
                }
            }
            _ => return Err(word.unknown("prio", &["bands", "priomap"])),
        }
    }
    if config.priomap.iter().any(|band| *band >= config.bands) {
        return Err(words.unexpected_end("prio: \"priomap\" element is out of bands"));
    }
    Ok(config)
}

/// As tc shows prio.
pub(super) fn shown(config: &PrioConfig) -> QdiscText {
    let mut options = format!("bands {} priomap", config.bands);
    for band in config.priomap {
        options.push_fmt(format_args!(" {band}"));
    }
    let options_json = map([
        ("bands", json!(config.bands)),
        ("priomap", json!(config.priomap)),
        ("multiqueue", json!(false)),
    ]);
    QdiscText { options, options_json, ..QdiscText::default() }
}

/// pfifo_fast shows the bands and the map that prio has by default.
pub(super) fn shown_pfifo_fast() -> QdiscText {
    shown(&PrioConfig::default())
}
