//! What `ackwright top` shows: devices, queues, tins and delays, from two answers of the control socket a
//! while apart.

use serde_json::{Value, json};

/// What `show -j` and `tc -s -j qdisc show` answered at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The first.
    pub shown: Value,
    /// The second.
    pub qdiscs: Value,
}

impl Sample {
    /// Both as one document.
    pub fn json(&self) -> Value {
        json!({ "show": self.shown, "qdiscs": self.qdiscs })
    }
}

/// The lines to show; `before` is an earlier sample, without which there are no rates. No line is longer
/// than `width`, and there are no more than `height`.
pub fn lines(before: Option<&Sample>, now: &Sample, width: usize, height: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let seconds = now.shown["seconds"].as_f64().unwrap_or(0.0);
    let since = before.and_then(|it| it.shown["seconds"].as_f64()).map(|then| seconds - then);
    let late = &now.shown["late"];
    lines.push(format!(
        "up {}   late wake-ups {} of {} over 1 ms, p99 {} us",
        clock(seconds),
        late["over_1ms"],
        late["wakes"],
        late["p99_us"]
    ));
    let per_second = |new: &Value, old: Option<&Value>| -> String {
        let (Some(new), Some(old)) = (new.as_f64(), old.and_then(Value::as_f64)) else {
            return "-".into();
        };
        since.filter(|span| *span > 0.0).map_or("-".into(), |span| rate((new - old) / span))
    };
    lines.push(format!(
        "{:<22}{:>10}{:>10}{:>12}{:>10}",
        "device", "packets", "per s", "bytes", "bit/s"
    ));
    for (index, flow) in flows(&now.shown).iter().enumerate() {
        let old = before.map(|it| flows(&it.shown)).and_then(|old| old.get(index).cloned());
        let old = old.as_ref().filter(|old| old.0 == flow.0);
        let bits = |value: &Value| json!(value.as_f64().unwrap_or(0.0) * 8.0);
        lines.push(format!(
            "{:<22}{:>10}{:>10}{:>12}{:>10}",
            flow.0,
            amount(&flow.1),
            per_second(&flow.1, old.map(|old| &old.1)),
            amount(&flow.2),
            per_second(&bits(&flow.2), old.map(|old| bits(&old.2)).as_ref()),
        ));
    }
    for qdisc in now.qdiscs.as_array().into_iter().flatten() {
        let name = |key: &str| qdisc[key].as_str().unwrap_or("?");
        lines.push(String::new());
        lines.push(format!(
            "{} {} {}  {}backlog {} ({} packets)  dropped {}  marked {}",
            name("dev"),
            name("kind"),
            name("handle"),
            bandwidth(qdisc),
            amount(&qdisc["backlog"]),
            qdisc["qlen"],
            amount(&qdisc["drops"]),
            amount(&marks(qdisc)),
        ));
        tins(qdisc, &mut lines);
    }
    lines.truncate(height.max(1));
    lines.iter().map(|line| line.chars().take(width).collect()).collect()
}

/// Name, packets and bytes of each device and direction.
fn flows(shown: &Value) -> Vec<(String, Value, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let directions = shown["directions"].as_array().into_iter().flatten().map(|it| {
        let name = format!("{} > {}", text(&it["from"]), text(&it["to"]));
        (name, it["sent_packets"].clone(), it["sent_bytes"].clone())
    });
    let ports = shown["ports"].as_array().into_iter().flatten().flat_map(|it| {
        [("rx", "in"), ("tx", "out")].map(|(key, way)| {
            let name = format!("{} {way}", text(&it["name"]));
            let of = |what: &str| it[format!("{key}_{what}")].clone();
            (name, of("packets"), of("bytes"))
        })
    });
    directions.chain(ports).collect()
}

fn tins(qdisc: &Value, lines: &mut Vec<String>) {
    let Some(tins) = qdisc["tins"].as_array() else { return };
    lines.push(format!(
        "{:>4}{:>10}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}{:>7}{:>7}",
        "tin", "packets", "average", "peak", "base", "drops", "marks", "acks-", "bulk", "sparse"
    ));
    for (index, tin) in tins.iter().enumerate() {
        lines.push(format!(
            "{index:>4}{:>10}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}{:>7}{:>7}",
            amount(&tin["sent_packets"]),
            delay(&tin["avg_delay_us"]),
            delay(&tin["peak_delay_us"]),
            delay(&tin["base_delay_us"]),
            amount(&tin["drops"]),
            amount(&tin["ecn_mark"]),
            amount(&tin["ack_drops"]),
            amount(&tin["bulk_flows"]),
            amount(&tin["sparse_flows"]),
        ));
    }
}

fn bandwidth(qdisc: &Value) -> String {
    let bytes = qdisc["options"]["bandwidth"].as_f64();
    bytes.map_or(String::new(), |bytes| format!("{}bit/s  ", rate(bytes * 8.0)))
}

fn marks(qdisc: &Value) -> Value {
    let of_tins = qdisc["tins"].as_array().into_iter().flatten();
    let sum: u64 = of_tins.filter_map(|tin| tin["ecn_mark"].as_u64()).sum();
    json!(qdisc["ecn_mark"].as_u64().unwrap_or(0) + sum)
}

/// A count, shortened from 100,000 on.
fn amount(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(value) if value < 1e5 => format!("{value:.0}"),
        Some(value) => rate(value),
    }
}

fn rate(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2}G", value / 1e9),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e3 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

fn delay(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(micros) if micros >= 1e6 => format!("{:.2}s", micros / 1e6),
        Some(micros) if micros >= 1e3 => format!("{:.1}ms", micros / 1e3),
        Some(micros) => format!("{micros:.0}us"),
    }
}

fn clock(seconds: f64) -> String {
    let whole = seconds as u64;
    format!("{}:{:02}:{:02}", whole / 3_600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, bytes: u64) -> Sample {
        let shown = json!({
            "seconds": seconds,
            "ports": [{ "name": "eth0", "rx_packets": 1, "rx_bytes": 100, "tx_packets": bytes / 1000, "tx_bytes": bytes }],
            "late": { "wakes": 3, "over_1ms": 0, "p99_us": 80.0 },
        });
        let qdiscs = json!([{
            "dev": "eth0", "kind": "cake", "handle": "1:", "backlog": 3000, "qlen": 2, "drops": 5,
            "options": { "bandwidth": 1_250_000 },
            "tins": [{ "sent_packets": 10, "avg_delay_us": 2500, "peak_delay_us": 9, "ecn_mark": 4 }],
        }]);
        Sample { shown, qdiscs }
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let lines = lines(Some(&sample(10.0, 1_000_000)), &sample(12.0, 3_500_000), 80, 40);
        let of = |begin: &str| lines.iter().find(|it| it.starts_with(begin)).expect(begin).clone();
        assert!(of("eth0 out").ends_with("3.50M    10.00M"), "{lines:?}");
        assert!(
            of("eth0 cake").contains("10.00Mbit/s  backlog 3000 (2 packets)  dropped 5  marked 4")
        );
        assert!(of("   0").contains("2.5ms") && of("   0").contains("9us"));
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn it_fits_into_any_terminal() {
        let shown = lines(None, &sample(1.0, 1), 20, 4);
        assert_eq!(shown.len(), 4);
        assert!(shown.iter().all(|line| line.chars().count() <= 20));
    }
}
