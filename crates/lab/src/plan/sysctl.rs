//! The sysctl names that a plan may set.

use super::diagnostic::suggest;
use super::doc::{Key, Kind, Node};
use super::model::SysctlSetting;
use super::read::Faults;

/// What a sysctl holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One number within bounds.
    Number(i64, i64),
    /// Three rising numbers (`tcp_rmem`).
    Triple,
    /// The name of a congestion control.
    Word,
}

/// Every name that has an effect here.
const NAMES: [(&str, Shape); 41] = [
    ("net.core.rmem_max", Shape::Number(2304, MAX)),
    ("net.core.wmem_max", Shape::Number(4608, MAX)),
    ("net.ipv4.ip_default_ttl", Shape::Number(1, 255)),
    ("net.ipv4.tcp_abc", Shape::Number(0, 2)),
    ("net.ipv4.tcp_adv_win_scale", Shape::Number(-31, 31)),
    ("net.ipv4.tcp_autocorking", Shape::Number(0, 1)),
    ("net.ipv4.tcp_challenge_ack_limit", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_comp_sack_delay_ns", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_comp_sack_nr", Shape::Number(0, 255)),
    ("net.ipv4.tcp_comp_sack_slack_ns", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_congestion_control", Shape::Word),
    ("net.ipv4.tcp_dsack", Shape::Number(0, 1)),
    ("net.ipv4.tcp_early_retrans", Shape::Number(0, 4)),
    ("net.ipv4.tcp_ecn", Shape::Number(0, 5)),
    ("net.ipv4.tcp_fack", Shape::Number(0, 1)),
    ("net.ipv4.tcp_fin_timeout", Shape::Number(1, MAX)),
    ("net.ipv4.tcp_frto", Shape::Number(0, 2)),
    ("net.ipv4.tcp_invalid_ratelimit", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_keepalive_intvl", Shape::Number(1, 32767)),
    ("net.ipv4.tcp_keepalive_probes", Shape::Number(1, 127)),
    ("net.ipv4.tcp_keepalive_time", Shape::Number(1, 32767)),
    ("net.ipv4.tcp_limit_output_bytes", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_max_reordering", Shape::Number(3, MAX)),
    ("net.ipv4.tcp_min_tso_segs", Shape::Number(1, 65535)),
    ("net.ipv4.tcp_moderate_rcvbuf", Shape::Number(0, 1)),
    ("net.ipv4.tcp_notsent_lowat", Shape::Number(0, MAX)),
    ("net.ipv4.tcp_pacing_ca_ratio", Shape::Number(0, 1000)),
    ("net.ipv4.tcp_pacing_ss_ratio", Shape::Number(0, 1000)),
    ("net.ipv4.tcp_recovery", Shape::Number(0, 7)),
    ("net.ipv4.tcp_reordering", Shape::Number(3, 300)),
    ("net.ipv4.tcp_retries2", Shape::Number(0, 255)),
    ("net.ipv4.tcp_rmem", Shape::Triple),
    ("net.ipv4.tcp_sack", Shape::Number(0, 1)),
    ("net.ipv4.tcp_slow_start_after_idle", Shape::Number(0, 1)),
    ("net.ipv4.tcp_syn_retries", Shape::Number(1, 127)),
    ("net.ipv4.tcp_thin_linear_timeouts", Shape::Number(0, 1)),
    ("net.ipv4.tcp_timestamps", Shape::Number(0, 2)),
    ("net.ipv4.tcp_tso_rtt_log", Shape::Number(0, 31)),
    ("net.ipv4.tcp_tso_win_divisor", Shape::Number(0, 1024)),
    ("net.ipv4.tcp_window_scaling", Shape::Number(0, 1)),
    ("net.ipv4.tcp_wmem", Shape::Triple),
];

const MAX: i64 = i32::MAX as i64;

/// Reads a `[sysctl]` table. Dotted keys may be quoted (`"net.ipv4.tcp_sack"`) or not, since TOML
/// then makes tables of them.
pub fn read(entries: &[(Key, Node)], faults: &Faults<'_>) -> Vec<SysctlSetting> {
    let mut settings = Vec::new();
    collect("", entries, faults, &mut settings);
    settings
}

fn collect(
    prefix: &str,
    entries: &[(Key, Node)],
    faults: &Faults<'_>,
    settings: &mut Vec<SysctlSetting>,
) {
    for (key, node) in entries {
        let name =
            if prefix.is_empty() { key.name.clone() } else { format!("{prefix}.{}", key.name) };
        if let Kind::Table(inner) = &node.kind {
            collect(&name, inner, faults, settings);
            continue;
        }
        let Some((known, shape)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let help = suggest(&name, NAMES.iter().map(|(known, _)| *known));
            faults.add(&key.at, format!("no sysctl \"{name}\" is modelled"), help);
            continue;
        };
        match value(node, *shape) {
            Ok((values, word)) => settings.push(SysctlSetting { name: known, values, word }),
            Err(problem) => faults.add(&node.at, format!("{name} {problem}"), None),
        }
    }
}

fn value(node: &Node, shape: Shape) -> Result<(Vec<i64>, Option<String>), String> {
    let numbers = numbers(node);
    match shape {
        Shape::Word => match &node.kind {
            Kind::Text(word) => Ok((Vec::new(), Some(word.clone()))),
            _ => Err("takes the name of a congestion control".into()),
        },
        Shape::Number(low, high) => match numbers.as_deref() {
            Some([number]) if (low..=high).contains(number) => Ok((vec![*number], None)),
            _ => Err(format!("takes a whole number from {low} to {high}")),
        },
        Shape::Triple => match numbers.as_deref() {
            Some([min, default, max]) if 0 < *min && min <= default && default <= max => {
                Ok((vec![*min, *default, *max], None))
            }
            _ => Err("takes three rising sizes: \"4096 131072 6291456\"".into()),
        },
    }
}

/// The numbers in a value: a number, a truth value, a list, or a text of numbers.
fn numbers(node: &Node) -> Option<Vec<i64>> {
    match &node.kind {
        Kind::Int(number) => Some(vec![*number]),
        Kind::Bool(truth) => Some(vec![i64::from(*truth)]),
        Kind::Text(text) => text.split_whitespace().map(|word| word.parse().ok()).collect(),
        Kind::List(items) => items.iter().map(|item| numbers(item)?.first().copied()).collect(),
        Kind::Float(_) | Kind::Table(_) => None,
    }
}
