//! netem as tc shows it.

use super::super::qdisc_text::{Push, QdiscText, map};
use crate::units::{show_percent, show_rate, show_time};
use datapath::qdisc::netem::{Chance, Correlated, FourState, Loss, NetemConfig};
use datapath::units::Duration;
use serde_json::{Map, Value, json};

/// The options in tc's order: those that are off are left out, but for `ecn` and `gap` in JSON.
pub(in super::super) fn shown(config: &NetemConfig) -> QdiscText {
    let mut text = format!("limit {}", config.limit);
    let mut json = map([("limit", json!(config.limit))]);
    push_delay(config, &mut text, &mut json);
    push_loss(&config.loss, &mut text, &mut json);
    for (name, chance) in [
        ("duplicate", &config.duplicate),
        ("reorder", &config.reorder),
        ("corrupt", &config.corrupt),
    ] {
        push_chance(name, name, chance, &mut text, &mut json);
    }
    push_rate(config, &mut text, &mut json);
    push_slot(config, &mut text, &mut json);
    if config.ecn {
        text.push_str(" ecn ");
    }
    json.insert("ecn".to_owned(), json!(config.ecn));
    if config.gap > 0 {
        text.push_fmt(format_args!(" gap {}", config.gap));
    }
    json.insert("gap".to_owned(), json!(config.gap));
    QdiscText { options: text, options_json: json, ..QdiscText::default() }
}

/// Parts of 2³² - 1 as a fraction of one.
fn share(parts: u32) -> Value {
    six_digits(f64::from(parts) / f64::from(u32::MAX))
}

/// ns as seconds.
fn seconds(nanos: i64) -> Value {
    six_digits(nanos as f64 / 1e9)
}

/// A number with the digits that C's `%g` keeps; a whole 0 if it is none.
fn six_digits(value: f64) -> Value {
    let rounded: f64 = format!("{value:.5e}").parse().expect("a number");
    if rounded == 0.0 { json!(0) } else { json!(rounded) }
}

fn show_nanos(nanos: i64) -> String {
    show_time(Duration::from_nanos(nanos.unsigned_abs()))
}

fn push_correlation(correlated: Correlated, text: &mut String) {
    if correlated.rho > 0 {
        text.push_fmt(format_args!(" {}", show_percent(correlated.rho)));
    }
}

fn push_delay(config: &NetemConfig, text: &mut String, json: &mut Map<String, Value>) {
    if config.delay == 0 {
        return;
    }
    text.push_fmt(format_args!(" delay {}", show_nanos(config.delay)));
    if config.jitter > 0 {
        text.push_fmt(format_args!("  {}", show_nanos(config.jitter)));
        push_correlation(config.delay_correlation, text);
    }
    let delay = map([
        ("delay", seconds(config.delay)),
        ("jitter", seconds(config.jitter)),
        ("correlation", share(config.delay_correlation.rho)),
    ]);
    json.insert("delay".to_owned(), Value::Object(delay));
}

fn push_chance(
    object: &str,
    name: &str,
    (chance, correlated): &(Chance, Correlated),
    text: &mut String,
    json: &mut Map<String, Value>,
) {
    if *chance == 0 {
        return;
    }
    text.push_fmt(format_args!(" {name} {}", show_percent(*chance)));
    push_correlation(*correlated, text);
    let fields = map([(name, share(*chance)), ("correlation", share(correlated.rho))]);
    json.insert(object.to_owned(), Value::Object(fields));
}

fn push_loss(loss: &Loss, text: &mut String, json: &mut Map<String, Value>) {
    match loss {
        Loss::None => {}
        Loss::Random(chance, correlated) => {
            push_chance("loss-random", "loss", &(*chance, *correlated), text, json);
        }
        Loss::State(chain) => {
            let FourState { p13, p31, p32, p23, p14, .. } = *chain;
            let fields = [("p13", p13), ("p31", p31), ("p32", p32), ("p23", p23), ("p14", p14)];
            push_model("state", &fields, text, json);
        }
        Loss::Gemodel(model) => {
            let one_minus_h = u32::MAX - model.h;
            let fields = [("p", model.p), ("r", model.r), ("1-h", one_minus_h), ("1-k", model.k1)];
            push_model("gemodel", &fields, text, json);
        }
    }
}

fn push_model(
    name: &str,
    fields: &[(&str, Chance)],
    text: &mut String,
    json: &mut Map<String, Value>,
) {
    text.push_fmt(format_args!(" loss {name}"));
    for (field, chance) in fields {
        text.push_fmt(format_args!(" {field} {}", show_percent(*chance)));
    }
    let object = fields.iter().map(|(field, chance)| ((*field).to_owned(), share(*chance)));
    json.insert(format!("loss-{name}"), Value::Object(object.collect()));
}

fn push_rate(config: &NetemConfig, text: &mut String, json: &mut Map<String, Value>) {
    let Some(rate) = &config.rate else { return };
    text.push_fmt(format_args!(" rate {}", show_rate(rate.rate)));
    for (name, value) in [
        ("packetoverhead", i64::from(rate.packet_overhead)),
        ("cellsize", i64::from(rate.cell_size)),
        ("celloverhead", i64::from(rate.cell_overhead)),
    ] {
        if value != 0 {
            text.push_fmt(format_args!(" {name} {value}"));
        }
    }
    let fields = map([
        ("rate", json!(rate.rate.bytes_per_sec())),
        ("packetoverhead", json!(rate.packet_overhead)),
        ("cellsize", json!(rate.cell_size)),
        ("celloverhead", json!(rate.cell_overhead)),
    ]);
    json.insert("rate".to_owned(), Value::Object(fields));
}

fn push_slot(config: &NetemConfig, text: &mut String, json: &mut Map<String, Value>) {
    let Some(slot) = &config.slot else { return };
    let time = |nanos: u64| show_time(Duration::from_nanos(nanos));
    text.push_fmt(format_args!(" slot {} {}", time(slot.min_delay), time(slot.max_delay)));
    for (name, count) in [("packets", slot.packets), ("bytes", slot.bytes)] {
        if count > 0 {
            text.push_fmt(format_args!(" {name} {count}"));
        }
    }
    let fields = map([
        ("min-delay", json!(slot.min_delay)),
        ("max-delay", json!(slot.max_delay)),
        ("packets", json!(slot.packets)),
        ("bytes", json!(slot.bytes)),
    ]);
    json.insert("slot".to_owned(), Value::Object(fields));
}
