//! What has passed a router.

use super::Router;
use crate::sys;
use datapath::node::Port;
use datapath::qdisc::Qdisc as _;
use iproute::ip::statistics::LinkStatistics;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

impl Router {
    /// The ports with their counters, as `ip -s link` tells them.
    pub(super) fn link_statistics(&mut self) -> Vec<LinkStatistics> {
        let links = |router: &mut Self, index: usize| {
            let attached = &mut router.ends[index];
            let lost = attached.end.device.rejected();
            let port = router.host.port(attached.port);
            let link = router.host.fib().link(attached.port.0);
            let stats = port.stats;
            LinkStatistics {
                index: u32::from(attached.port.0) + 1,
                name: attached.end.device.name().to_owned(),
                mtu: port.config.mtu,
                up: link.up && !attached.gone,
                carrier: link.carrier,
                qdisc: port.qdisc().qdisc().kind().to_owned(),
                mac: attached.mac,
                rx: [
                    stats.rx_bytes,
                    stats.rx_packets,
                    lost.unreadable,
                    lost.missed + lost.no_buffer,
                ],
                tx: [
                    stats.tx_bytes,
                    stats.tx_packets - attached.refused.min(stats.tx_packets),
                    attached.refused,
                    stats.tx_dropped,
                ],
            }
        };
        (0..self.ends.len()).map(|index| links(self, index)).collect()
    }

    /// All of it, as JSON.
    pub fn json(&mut self) -> Value {
        let ports: Vec<Value> = self.link_statistics().iter().map(of_port).collect();
        let dropped: Map<String, Value> = self
            .dropped
            .iter()
            .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
            .collect();
        let counters: Map<String, Value> = self
            .host
            .ip_counters()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let table = self.host.neighbours().expect("a router has neighbours");
        let mut states: Map<String, Value> = Map::new();
        for (_, entry) in table.entries() {
            let count = states.entry(entry.state().name()).or_insert_with(|| json!(0_u64));
            *count = json!(count.as_u64().unwrap_or(0) + 1);
        }
        let following = self.following.as_ref();
        json!({
            "seconds": (sys::now() - self.began).as_nanos() as f64 / 1e9,
            "ports": ports,
            "dropped": dropped,
            "left": self.left,
            "counters": counters,
            "icmp_errors": self.host.stats.icmp_errors,
            "routes": self.host.fib().len(),
            "neighbours": states,
            "kernel": following.map(|it| json!({ "dumps": it.dumps, "changes": it.changes })),
            "late": self.lateness.json(),
        })
    }

    /// All of it, as a table.
    pub fn text(&mut self) -> String {
        let mut out = format!(
            "{:<16}{:>12}{:>16}{:>12}{:>16}{:>8}\n",
            "", "rx packets", "bytes", "tx packets", "bytes", "lost"
        );
        for LinkStatistics { name, rx, tx, .. } in self.link_statistics() {
            let lost = rx[2] + rx[3] + tx[2] + tx[3];
            let _ = writeln!(
                out,
                "{name:<16}{:>12}{:>16}{:>12}{:>16}{lost:>8}",
                rx[1], rx[0], tx[1], tx[0]
            );
        }
        let stats = self.host.stats;
        let _ = writeln!(
            out,
            "forwarded {}, delivered {}, ICMP errors {}",
            stats.forwarded, stats.in_delivers, stats.icmp_errors
        );
        for (reason, count) in &self.dropped {
            let _ = writeln!(out, "dropped, {:<25}{count:>10}", reason.name());
        }
        if self.left > 0 {
            let _ = writeln!(out, "left when the drain ended{:>19}", self.left);
        }
        out
    }

    /// What waits in the queue of a port.
    pub fn backlog(&self, port: Port) -> u32 {
        self.host.port(port).qdisc().backlog().packets
    }
}

fn of_port(link: &LinkStatistics) -> Value {
    json!({
        "name": link.name, "up": link.up, "carrier": link.carrier, "qdisc": link.qdisc,
        "rx_bytes": link.rx[0], "rx_packets": link.rx[1], "rx_errors": link.rx[2], "rx_dropped": link.rx[3],
        "tx_bytes": link.tx[0], "tx_packets": link.tx[1], "tx_errors": link.tx[2], "tx_dropped": link.tx[3],
    })
}
