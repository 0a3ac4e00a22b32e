//! What kernels have counted (`nstat`), under the names that our own hosts' counters have.

use std::collections::BTreeMap;

use live::netns::Namespace;

use crate::results::Metric;

/// A metric of `total`, and the kernel's counters that it sums up.
const COUNTERS: [(&str, &[&str]); 8] = [
    ("reordering", &["TCPSACKReorder", "TCPRenoReorder", "TCPTSReorder"]),
    ("out of order", &["TCPOFOQueue"]),
    ("rto", &["TCPTimeouts"]),
    ("retransmits", &["RetransSegs"]),
    ("lost retransmits", &["TCPLostRetransmit"]),
    ("fast recoveries", &["TCPSackRecovery", "TCPRenoRecovery"]),
    ("tail loss probes", &["TCPLossProbes"]),
    ("spurious recoveries", &["TCPFullUndo", "TCPDSACKUndo", "TCPLossUndo", "TCPPartialUndo"]),
];

/// Adds what the kernel of a namespace has counted to the metrics of a run.
pub fn add(metrics: &mut [Metric], namespace: &Namespace) -> std::io::Result<()> {
    let read = || -> std::io::Result<String> {
        let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
        Ok(snmp + &std::fs::read_to_string("/proc/thread-self/net/netstat")?)
    };
    let text = namespace.within(read)??;
    let counted = parse(&text);
    for (name, kernels) in COUNTERS {
        let sum: u64 = kernels.iter().filter_map(|kernel| counted.get(*kernel)).sum();
        let ours = metrics.iter_mut().find(|one| one.scope == "total" && one.name == name);
        if let Some(metric) = ours {
            metric.value += sum as f64;
        }
    }
    Ok(())
}

/// Two lines for each group: names, then values.
fn parse(text: &str) -> BTreeMap<&str, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = BTreeMap::new();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        if names.starts_with("Tcp") {
            let values = values.split_whitespace().map(|value| value.parse().unwrap_or(0));
            all.extend(names.split_whitespace().zip(values).skip(1));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: InSegs RetransSegs\nTcp: 7 3\n\
                    TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 2\n";
        let counted = super::parse(text);
        assert_eq!((counted["RetransSegs"], counted["TCPTimeouts"]), (3, 2));
        assert!(!counted.contains_key("Forwarding"));
    }
}
