//! What a replay has to tell: tables, JSON, plots.

use std::path::PathBuf;

use datapath::packet::{FlowTuple, protocol};
use datapath::qdisc::Backlog;
use serde_json::{Value, json};

use super::source::Counts;
use super::tally::{Account, MOST_FLOWS, Tally};
use crate::output::Output;
use crate::plot::{Line, LineChart, grouped};
use crate::report::{Table, number};
use crate::store;

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The capture's name.
    pub capture: String,
    /// The qdiscs it went through.
    pub qdiscs: Vec<String>,
    /// What was read.
    pub counts: Counts,
    /// The count.
    pub tally: Tally,
    /// What never came out: no qdisc of ours holds anything back for ever but for lack of rate.
    pub waiting: Backlog,
    /// `tc -s qdisc show` at the end.
    pub tc_text: String,
    /// `tc -s -j qdisc show` at the end.
    pub tc_json: Value,
    /// The capture that was written.
    pub written: Option<String>,
}

impl Report {
    /// The largest flows, at most `most`, and all together.
    pub fn table(&self, most: usize) -> Table {
        let head = ["flow", "in", "drop", "mark", "acks", "mean", "99 %", "Mbit/s", "out"];
        let mut flows: Vec<(String, &Account)> =
            self.tally.flows.iter().map(|(flow, account)| (name(flow.as_ref()), account)).collect();
        if let Some(others) = &self.tally.others {
            flows.push((format!("beyond {MOST_FLOWS} flows"), others));
        }
        flows.sort_by_key(|(_, account)| std::cmp::Reverse(account.came.1));
        flows.truncate(most);
        flows.push(("all".into(), &self.tally.all));
        let rows = flows
            .into_iter()
            .map(|(name, account)| {
                let maybe = |value: Option<f64>| value.map_or("-".into(), number);
                vec![
                    name,
                    account.came.0.to_string(),
                    account.drops.to_string(),
                    account.marks.to_string(),
                    account.acks.to_string(),
                    maybe(account.mean_ms()),
                    maybe(account.quantile_ms(0.99)),
                    maybe(account.rate_in()),
                    maybe(account.rate_out()),
                ]
            })
            .collect();
        let mut numeric = vec![true; head.len()];
        numeric[0] = false;
        Table { head: head.map(String::from).to_vec(), rows, numeric }
    }

    /// Sentences below the table.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.counts.remarks();
        if self.tally.flows.len() > 1 {
            remarks.push(format!("{} flows", self.tally.flows.len()));
        }
        for (reason, count) in &self.tally.reasons {
            remarks.push(format!("{count} dropped: {}", reason.name()));
        }
        if self.waiting.packets > 0 {
            remarks.push(format!("{} packets are still in the qdisc", self.waiting.packets));
        }
        remarks
    }

    /// Everything as JSON.
    pub fn to_json(&self) -> Value {
        let flows: Vec<Value> = self
            .tally
            .flows
            .iter()
            .map(|(flow, account)| {
                let mut object = account_json(account);
                object["flow"] = json!(name(flow.as_ref()));
                object
            })
            .collect();
        let reasons: serde_json::Map<String, Value> = self
            .tally
            .reasons
            .iter()
            .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
            .collect();
        let width = self.tally.bins.width_ns;
        let bins: Vec<Value> = self
            .tally
            .bins
            .bins
            .iter()
            .enumerate()
            .map(|(index, bin)| {
                json!({
                    "time_s": index as f64 * width as f64 / 1e9,
                    "in_bytes": bin.in_bytes, "out_bytes": bin.out_bytes, "sent": bin.sent,
                    "delay_mean_ms": (bin.sent > 0)
                        .then(|| bin.delay_ns as f64 / bin.sent as f64 / 1e6),
                    "drops": bin.drops, "marks": bin.marks, "ack_drops": bin.acks,
                })
            })
            .collect();
        json!({
            "schema": 1,
            "capture": self.capture,
            "qdisc": self.qdiscs,
            "read": self.counts.to_json(),
            "total": account_json(&self.tally.all),
            "reasons": reasons,
            "waiting": { "packets": self.waiting.packets, "bytes": self.waiting.bytes },
            "flows": flows,
            "other_flows": self.tally.others.as_ref().map(account_json),
            "interval_s": width as f64 / 1e9,
            "intervals": bins,
            "tc": self.tc_json,
            "written": self.written,
        })
    }

    /// Draws throughput, delay and drops over time; returns the PNG files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn draw(&self, output: &Output) -> Result<Vec<PathBuf>, store::Error> {
        let bins = &self.tally.bins;
        let seconds = bins.width_ns as f64 / 1e9;
        let line = |label: &str, value: &dyn Fn(&super::bins::Bin) -> f64| Line {
            label: label.into(),
            points: bins
                .bins
                .iter()
                .enumerate()
                .map(|(i, bin)| (bins.seconds(i), value(bin)))
                .collect(),
            ..Line::default()
        };
        let mbit = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
        let rate = |count: u64| count as f64 / seconds;
        let charts = [
            (
                "throughput",
                "Throughput",
                "throughput [Mbit/s]",
                vec![
                    line("before", &|bin| mbit(bin.in_bytes)),
                    line("after", &|bin| mbit(bin.out_bytes)),
                ],
            ),
            (
                "delay",
                "Delay in the queue",
                "mean delay [ms]",
                vec![line("delay", &|bin| match bin.sent {
                    0 => f64::NAN,
                    sent => bin.delay_ns as f64 / sent as f64 / 1e6,
                })],
            ),
            (
                "drops",
                "Drops and marks",
                "packets per second",
                vec![
                    line("dropped", &|bin| rate(bin.drops)),
                    line("marked", &|bin| rate(bin.marks)),
                    line("ACKs filtered", &|bin| rate(bin.acks)),
                ],
            ),
        ];
        let mut pictures = Vec::new();
        for (file, title, y_label, lines) in charts {
            let chart = LineChart {
                title: format!("{title}: {}", self.capture),
                subtitle: format!(
                    "{}; bins of {} ms",
                    self.qdiscs.join(", "),
                    grouped(seconds * 1e3, 3)
                ),
                x_label: "time [s]".into(),
                y_label: y_label.into(),
                lines,
                ..LineChart::default()
            };
            pictures.push(output.chart(file, &output.titled(chart), &[])?);
        }
        Ok(pictures)
    }
}

fn account_json(account: &Account) -> Value {
    json!({
        "in": { "packets": account.came.0, "bytes": account.came.1, "mbit_per_s": account.rate_in() },
        "out": {
            "packets": account.sent.0, "bytes": account.sent.1, "mbit_per_s": account.rate_out(),
        },
        "drops": account.drops, "marks": account.marks, "ack_drops": account.acks,
        "delay_ms": {
            "mean": account.mean_ms(), "median": account.quantile_ms(0.5),
            "p95": account.quantile_ms(0.95), "p99": account.quantile_ms(0.99),
            "max": account.quantile_ms(1.0),
        },
    })
}

/// `tcp 10.0.0.1:80 > 10.0.0.2:40000`.
pub fn name(flow: Option<&FlowTuple>) -> String {
    let Some(flow) = flow else { return "not IP".into() };
    let kind = match flow.protocol {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        protocol::ICMP => "icmp".into(),
        protocol::ICMPV6 => "icmp6".into(),
        other => format!("ip{other}"),
    };
    let end = |address: std::net::IpAddr, port: u16| match (address, port) {
        (address, 0) => address.to_string(),
        (address, port) => std::net::SocketAddr::new(address, port).to_string(),
    };
    let (from, to) = (end(flow.src, flow.src_port), end(flow.dst, flow.dst_port));
    format!("{kind} {from} > {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_are_reported_in_full() {
        let end = |text: &str| text.parse::<std::net::SocketAddr>().unwrap();
        for (from, to) in [
            ("10.100.200.101:40001", "192.168.200.206:50020"),
            ("[2001:db8:1234:5678:9abc:def0:1234:5678]:40001", "[2001:db8::1]:5201"),
        ] {
            let (src, dst) = (end(from), end(to));
            let flow = FlowTuple {
                protocol: protocol::TCP,
                src: src.ip(),
                dst: dst.ip(),
                src_port: src.port(),
                dst_port: dst.port(),
                flow_label: 0,
            };
            let mut tally = Tally::default();
            tally.flows.push((Some(flow), Account::default()));
            let report = Report { tally, ..Report::default() };
            let rows = report.table(5).rows;
            assert_eq!(rows[0][0], format!("tcp {from} > {to}"));
        }
    }
}
