//! What people type who know `tc`, `ss`, `ping`, `iperf3` and others: what does that here.

use clap::error::{ContextKind, ContextValue};

/// Words that are no commands of ours, and what does here what they do elsewhere.
const HABITS: [(&[&str], &str); 13] = [
    (&["packetdrill", "pkt", "test"], "`ackwright drill SCRIPT` runs packetdrill scripts"),
    (
        &["iperf3", "netperf", "netserver"],
        "`ackwright iperf` speaks iperf3's protocol; in an experiment file it is `app = \"bulk\"`",
    ),
    (
        &["flent", "rrul"],
        "an experiment file with `app = \"rrul\"`, and `flent = \"rrul\"` in [measure] for flent's plots",
    ),
    (
        &["ping", "fping", "irtt"],
        "`app = \"ping\"` or `\"probe\"` in an experiment file; `ackwright shell FILE HOST -- ping …` runs the real one there",
    ),
    (
        &["netem", "tc-netem"],
        "`ackwright emulate` is netem between two interfaces; in an experiment file links have `rate`, `delay` and `loss`",
    ),
    (
        &["ss", "netstat"],
        "`ackwright run FILE --ss-at end` prints `ss -tino` of every host of an experiment",
    ),
    (
        &["tcpdump", "tshark", "wireshark", "pcap", "capture"],
        "`ackwright run FILE --out DIR --pcap PORT`, `shape --capture FILE`, and `ackwright view FILE` shows a capture",
    ),
    (
        &["ethtool", "nstat", "ifstat", "stats"],
        "`ackwright ctl show` has the counters of a running `shape` or `route`, `ackwright ctl ip -s link` those of a router's devices",
    ),
    (
        &["sysctl"],
        "[sysctl] in an experiment file, a line `sysctl NAME=VALUE` in a file of `route`, or `ackwright ctl sysctl NAME=VALUE`",
    ),
    (
        &["traceroute", "mtr", "tracepath"],
        "`ackwright ip --config FILE route get ADDRESS …` shows the next hop that the kernel would choose",
    ),
    (
        &["simulate", "sim", "start", "exec", "experiment"],
        "`ackwright run FILE` runs an experiment file",
    ),
    (
        &["plot", "graph", "figure", "table", "latex"],
        "`ackwright run FILE --out DIR` draws plots in DIR/plots and writes table.csv and table.tex",
    ),
    (
        &["list", "ls", "experiments", "examples"],
        "`ackwright reproduce` lists the published experiments; files to begin with are in experiments/",
    ),
];

/// Prints what clap found wrong, and what a word of another program is called here; ends the program.
pub fn exit(error: &clap::Error) -> ! {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(hint) = hint(word)
    {
        // In place of clap's own guess, which goes by the letters of the word.
        stderr_line!(
            "error: unrecognized subcommand '{word}'\n\n  tip: {hint}\n\nFor more information, try '--help'."
        );
        std::process::exit(2);
    }
    error.exit()
}

fn hint(word: &str) -> Option<&'static str> {
    HABITS.iter().find(|(words, _)| words.contains(&word)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// No habit is a command, and each stands once.
    #[test]
    fn habits_are_no_commands() {
        let commands = crate::Cli::command();
        let mut words: Vec<&str> =
            HABITS.iter().flat_map(|(words, _)| words.iter().copied()).collect();
        assert!(words.iter().all(|word| commands.find_subcommand(word).is_none()));
        words.sort_unstable();
        assert!(words.windows(2).all(|two| two[0] != two[1]), "{words:?}");
    }
}
