//! Words that people write who have other tools at their fingertips, and what is meant here.

use super::diagnostic::{Diagnostic, suggest};
use super::doc::{Document, Kind, Node};

/// Keys of other tools, and ours.
const KEYS: [(&str, &[&str]); 12] = [
    ("repetitions", &["runs", "seeds", "reps", "iterations", "trials"]),
    ("rate", &["bandwidth", "bw", "capacity", "speed"]),
    ("delay", &["latency", "propagation"]),
    ("duration", &["time", "length", "simtime", "stop_time"]),
    ("congestion_control", &["cc", "tcp", "algorithm", "congestion"]),
    ("from", &["source", "src", "sender", "client"]),
    ("to", &["destination", "dst", "dest", "receiver", "server"]),
    ("count", &["number", "num", "parallel", "flows"]),
    ("ends", &["nodes", "between", "endpoints"]),
    ("loss", &["plr", "drop", "error_rate", "packet_loss"]),
    ("app", &["type", "kind", "application"]),
    ("pcap", &["capture", "captures", "tcpdump"]),
];

/// Keys of other tools that are something else here: a key of the table, the word, and what to write.
const ELSEWHERE: [(&str, &[&str], &str); 2] = [
    (
        "ends",
        &["buffer", "queue", "qdisc", "aqm", "limit", "queue_limit", "buffer_size"],
        "the queue of a port is in [qdisc]: \"NODE.LINK\" = \"pfifo limit 100\"",
    ),
    (
        "app",
        &["bytes"],
        "with app = \"fixed\" a flow sends `bytes`, with \"bulk\" as much as it can",
    ),
];

/// Values of other tools: what they are values of, ours, and theirs.
const VALUES: [(&str, &str, &[&str]); 6] = [
    ("app", "bulk", &["iperf", "iperf3", "netperf", "tcp", "ftp", "tcp_stream"]),
    ("app", "cbr", &["udp", "cbr_udp"]),
    ("app", "request", &["http", "https", "web", "curl", "wget", "tcp_rr"]),
    ("app", "probe", &["voip", "rtp", "irtt", "udp_rr"]),
    (CONGESTION_CONTROL, "reno", &["newreno", "tcp_reno", "tahoe"]),
    (CONGESTION_CONTROL, "bbr3", &["bbr2", "bbrv2", "bbrv3", "bbr-v3"]),
];

/// What messages call the values of `congestion_control`.
pub const CONGESTION_CONTROL: &str = "congestion control";

/// What was probably meant by a value that is none of `known`.
pub fn suggest_value<'a>(
    what: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let lower = word.to_lowercase();
    let habit =
        |(of, _, words): &&(&str, &str, &[&str])| *of == what && words.contains(&lower.as_str());
    match VALUES.iter().find(habit) {
        Some((_, ours, _)) => Some(format!("did you mean \"{ours}\"?")),
        None => suggest(word, known),
    }
}

/// What was probably meant by a key that a table does not have.
pub fn suggest_key(word: &str, known: &[&str]) -> Option<String> {
    let lower = word.to_lowercase();
    let means = |words: &[&str]| words.contains(&lower.as_str());
    if let Some((key, _)) = KEYS.iter().find(|(key, words)| known.contains(key) && means(words)) {
        return Some(format!("did you mean \"{key}\"?"));
    }
    match ELSEWHERE.iter().find(|(key, words, _)| known.contains(key) && means(words)) {
        Some((_, _, hint)) => Some((*hint).to_owned()),
        None => suggest(word, known.iter().copied()),
    }
}

/// Rates in bytes, which `tc` writes as most others write bits.
pub fn notes(document: &Document) -> Vec<Diagnostic> {
    let mut notes = Vec::new();
    add_notes(&document.root, document, &mut notes);
    notes
}

fn add_notes(node: &Node, document: &Document, notes: &mut Vec<Diagnostic>) {
    match &node.kind {
        Kind::Text(text) => {
            let Some((number, prefix, word)) = in_bytes(text) else { return };
            let small = prefix.to_lowercase();
            let message = format!(
                "\"{text}\" are {number} {word}bytes a second, as in tc; {number} {word}bits a second are \
                 \"{number}{small}bit\""
            );
            notes.push(document.fault(&node.at, 0, message, None));
        }
        Kind::List(items) => {
            for item in items {
                add_notes(item, document, notes);
            }
        }
        Kind::Table(entries) => {
            for (_, node) in entries {
                add_notes(node, document, notes);
            }
        }
        _ => {}
    }
}

/// The number of a rate in bytes such as `50Mbps`, its prefix as it is written, and what that is called.
fn in_bytes(text: &str) -> Option<(&str, &str, &'static str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let word = match unit.to_lowercase().as_str() {
        "kbps" => "kilo",
        "mbps" => "mega",
        "gbps" => "giga",
        _ => return None,
    };
    (!number.is_empty()).then_some((number, &unit[..1], word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_tools() {
        let link = ["ends", "rate", "delay", "rtt", "loss"];
        let top = ["schema", "name", "title", "duration", "repetitions", "seed"];
        let flow = ["from", "to", "app", "count", "congestion_control"];
        for (word, known, told) in [
            ("runs", &top[..], "did you mean \"repetitions\"?"),
            ("time", &top, "did you mean \"duration\"?"),
            ("bandwidth", &link, "did you mean \"rate\"?"),
            ("latency", &link, "did you mean \"delay\"?"),
            ("Buffer", &link, "the queue of a port is in [qdisc]"),
            ("cc", &flow, "did you mean \"congestion_control\"?"),
            ("bytes", &flow, "with app = \"fixed\""),
            // The nearest word, or all of them, where it is no habit.
            ("ratte", &link, "did you mean \"rate\"?"),
            ("bandwidth", &top, "valid: schema"),
        ] {
            let help = suggest_key(word, known).expect("a hint");
            assert!(help.starts_with(told), "{word}: {help}");
        }
    }

    #[test]
    fn values_of_other_tools() {
        let known = ["bulk", "fixed", "cbr", "request", "probe", "bbr", "bbr3", "reno", "cubic"];
        for (what, word, told) in [
            ("app", "iperf3", "did you mean \"bulk\"?"),
            ("app", "UDP", "did you mean \"cbr\"?"),
            ("app", "bulkk", "did you mean \"bulk\"?"),
            (CONGESTION_CONTROL, "newreno", "did you mean \"reno\"?"),
            (CONGESTION_CONTROL, "BBRv2", "did you mean \"bbr3\"?"),
            (CONGESTION_CONTROL, "http", "valid: bulk"),
        ] {
            let help = suggest_value(what, word, known).expect("a hint");
            assert!(help.starts_with(told), "{word}: {help}");
        }
    }

    #[test]
    fn rates_in_bytes_are_pointed_out() {
        let told = |text: &str| {
            let document = Document::parse("x.toml", text).expect("TOML");
            notes(&document).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let [note] = &told("[links.a]\nrate = \"50Mbps\"\n")[..] else { panic!("one note") };
        let first = "x.toml:2:8: \"50Mbps\" are 50 megabytes a second, as in tc; 50 megabits a second are \"50mbit\"";
        assert_eq!(note.lines().next(), Some(first));
        assert_eq!(told("[sweep]\nrate = [\"1.5 gbps\", \"8mbit\", \"100bps\"]\n").len(), 1);
        assert!(told("title = \"a line of 5 mbps\"\nrate = \"mbps\"\n").is_empty());
    }
}
