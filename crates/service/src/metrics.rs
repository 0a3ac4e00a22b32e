//! What has passed, in the words of Prometheus (OpenMetrics 1.0): from what the control socket tells.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
/// What it means, and its values by labels.
type MetricFamily<T> = (&'static str, Family<Labels, T>);

/// Metrics that are being put together.
#[derive(Default)]
struct Metrics {
    counters: BTreeMap<&'static str, MetricFamily<Counter>>,
    gauges: BTreeMap<&'static str, MetricFamily<Gauge<f64, AtomicU64>>>,
}

impl Metrics {
    fn count(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, String)],
        value: &Value,
    ) {
        if let Some(value) = value.as_u64() {
            let (_, family) =
                self.counters.entry(name).or_insert_with(|| (help, Family::default()));
            family.get_or_create(&labels.to_vec()).inc_by(value);
        }
    }

    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, String)],
        value: Option<f64>,
    ) {
        if let Some(value) = value {
            let (_, family) = self.gauges.entry(name).or_insert_with(|| (help, Family::default()));
            family.get_or_create(&labels.to_vec()).set(value);
        }
    }

    fn text(self) -> String {
        let mut registry = Registry::with_prefix("ackwright");
        for (name, of) in self.counters {
            register(&mut registry, name, of);
        }
        for (name, of) in self.gauges {
            register(&mut registry, name, of);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("text can be written to a string");
        text
    }
}

/// What has one value without labels is written without braces.
fn register<T: Metric + TypedMetric + Clone + Default>(
    registry: &mut Registry,
    name: &'static str,
    (help, family): MetricFamily<T>,
) {
    let alone = family.get(&Labels::new()).map(|value| (*value).clone());
    match alone {
        Some(value) => registry.register(name, help, value),
        None => registry.register(name, help, family),
    }
}

/// Of what `show -j` and `tc -s -j qdisc show` answer.
pub fn of(shown: &Value, qdiscs: &Value) -> String {
    let mut metrics = Metrics::default();
    metrics.gauge("uptime_seconds", "Since it began", &[], shown["seconds"].as_f64());
    for direction in each(&shown["directions"]) {
        direction_of(&mut metrics, direction);
    }
    for port in each(&shown["ports"]) {
        port_of(&mut metrics, port);
    }
    for (reason, count) in shown["dropped"].as_object().into_iter().flatten() {
        let labels = vec![("reason", reason.clone())];
        metrics.count("dropped_packets", DROPPED, &labels, count);
    }
    for (name, count) in shown["counters"].as_object().into_iter().flatten() {
        let labels = vec![("name", name.clone())];
        metrics.count("ip_events", "Counters of nstat", &labels, count);
    }
    for (state, count) in shown["neighbours"].as_object().into_iter().flatten() {
        let labels = vec![("state", state.to_lowercase())];
        metrics.gauge("neighbours", "Neighbours by state", &labels, count.as_f64());
    }
    metrics.gauge("routes", "Routes in all tables", &[], shown["routes"].as_f64());
    let late = &shown["late"];
    metrics.count("wakeups", "Scheduled wake-ups of the loop", &[], &late["wakes"]);
    let help = "Of those, over 1 ms late";
    metrics.count("late_wakeups", help, &[], &late["over_1ms"]);
    for qdisc in each(qdiscs) {
        qdisc_of(&mut metrics, qdisc);
    }
    metrics.text()
}

const DROPPED: &str = "Packets dropped, by the kernel's reasons";
const RECEIVED_PACKETS: &str = "Packets received by a device";
const RECEIVED_BYTES: &str = "Bytes received by a device, link-layer headers included";
const SENT_PACKETS: &str = "Packets sent by a device";
const SENT_BYTES: &str = "Bytes sent by a device, link-layer headers included";
const LOST: &str = "Packets received but not accepted";
const REFUSED: &str = "Packets that a device refused to send";

/// Of a bump in the wire.
fn direction_of(metrics: &mut Metrics, direction: &Value) {
    let label = |key: &str| vec![("device", word(&direction[key]))];
    metrics.count(
        "received_packets",
        RECEIVED_PACKETS,
        &label("from"),
        &direction["taken_packets"],
    );
    metrics.count("received_bytes", RECEIVED_BYTES, &label("from"), &direction["taken_bytes"]);
    metrics.count("sent_packets", SENT_PACKETS, &label("to"), &direction["sent_packets"]);
    metrics.count("sent_bytes", SENT_BYTES, &label("to"), &direction["sent_bytes"]);
    metrics.count("refused_packets", REFUSED, &label("to"), &direction["refused"]);
    for (reason, count) in direction["dropped"].as_object().into_iter().flatten() {
        let labels = vec![("device", word(&direction["to"])), ("reason", reason.clone())];
        metrics.count("dropped_packets", DROPPED, &labels, count);
    }
    for (why, count) in direction["lost"].as_object().into_iter().flatten() {
        let labels = vec![("device", word(&direction["from"])), ("why", why.clone())];
        metrics.count("lost_packets", LOST, &labels, count);
    }
}

/// Of a router.
fn port_of(metrics: &mut Metrics, port: &Value) {
    let label = || vec![("device", word(&port["name"]))];
    metrics.count("received_packets", RECEIVED_PACKETS, &label(), &port["rx_packets"]);
    metrics.count("received_bytes", RECEIVED_BYTES, &label(), &port["rx_bytes"]);
    metrics.count("sent_packets", SENT_PACKETS, &label(), &port["tx_packets"]);
    metrics.count("sent_bytes", SENT_BYTES, &label(), &port["tx_bytes"]);
    metrics.count("refused_packets", REFUSED, &label(), &port["tx_errors"]);
    for (why, key) in [("unreadable", "rx_errors"), ("missed", "rx_dropped")] {
        let labels = vec![("device", word(&port["name"])), ("why", why.to_owned())];
        metrics.count("lost_packets", LOST, &labels, &port[key]);
    }
    let up = port["up"].as_bool().zip(port["carrier"].as_bool());
    let up = up.map(|(up, carrier)| f64::from(u8::from(up && carrier)));
    metrics.gauge("device_up", "Whether a device is up and has a carrier", &label(), up);
}

fn qdisc_of(metrics: &mut Metrics, qdisc: &Value) {
    let labels = || {
        ["dev", "kind", "handle"].map(|key| {
            let name = if key == "dev" { "device" } else { key };
            (name, word(&qdisc[key]))
        })
    };
    metrics.count(
        "qdisc_sent_packets",
        "Packets dequeued by a qdisc",
        &labels(),
        &qdisc["packets"],
    );
    metrics.count("qdisc_sent_bytes", "Bytes dequeued by a qdisc", &labels(), &qdisc["bytes"]);
    metrics.count("qdisc_drops", "Packets dropped by a qdisc", &labels(), &qdisc["drops"]);
    let help = "Times that the qdisc was over its limit";
    metrics.count("qdisc_overlimits", help, &labels(), &qdisc["overlimits"]);
    let (backlog, length) = (qdisc["backlog"].as_f64(), qdisc["qlen"].as_f64());
    metrics.gauge("qdisc_backlog_bytes", "Bytes queued", &labels(), backlog);
    metrics.gauge("qdisc_backlog_packets", "Packets queued", &labels(), length);
    for (index, tin) in each(&qdisc["tins"]).enumerate() {
        let tin_labels = || vec![("device", word(&qdisc["dev"])), ("tin", index.to_string())];
        for (name, help, key) in [
            ("cake_tin_sent_packets", "Packets of a tin", "sent_packets"),
            ("cake_tin_sent_bytes", "Bytes of a tin", "sent_bytes"),
            ("cake_tin_drops", "Packets dropped by a tin", "drops"),
            ("cake_tin_ecn_marks", "Packets marked with CE", "ecn_mark"),
            ("cake_tin_ack_drops", "ACKs dropped by the filter", "ack_drops"),
        ] {
            metrics.count(name, help, &tin_labels(), &tin[key]);
        }
        for (name, help, key) in [
            ("cake_tin_peak_delay_seconds", "Peak queueing delay", "peak_delay_us"),
            (
                "cake_tin_average_delay_seconds",
                "Moving average of the queueing delay",
                "avg_delay_us",
            ),
            (
                "cake_tin_base_delay_seconds",
                "Moving minimum of the queueing delay",
                "base_delay_us",
            ),
        ] {
            let seconds = tin[key].as_f64().map(|micros| micros / 1e6);
            metrics.gauge(name, help, &tin_labels(), seconds);
        }
    }
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_units_are_prometheus_own() {
        let shown = json!({
            "seconds": 1.5,
            "ports": [{ "name": "eth0", "up": true, "carrier": true, "rx_packets": 7, "tx_packets": 3 }],
            "dropped": { "NEIGH_FAILED": 2 },
            "neighbours": { "STALE": 1 },
            "late": { "wakes": 10, "over_1ms": 1 },
        });
        let qdiscs = json!([{
            "dev": "eth0", "kind": "cake", "handle": "1:", "packets": 3, "backlog": 100, "qlen": 1,
            "tins": [{ "sent_packets": 3, "avg_delay_us": 2500 }],
        }]);
        let text = of(&shown, &qdiscs);
        for line in [
            "ackwright_received_packets_total{device=\"eth0\"} 7",
            "ackwright_dropped_packets_total{reason=\"NEIGH_FAILED\"} 2",
            "ackwright_neighbours{state=\"stale\"} 1.0",
            "ackwright_late_wakeups_total 1",
            "ackwright_qdisc_backlog_bytes{device=\"eth0\",kind=\"cake\",handle=\"1:\"} 100.0",
            "ackwright_cake_tin_average_delay_seconds{device=\"eth0\",tin=\"0\"} 0.0025",
            "ackwright_device_up{device=\"eth0\"} 1.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
    }
}
