//! Any file is replayed as a capture through a qdisc that its first byte chooses: it is refused, or
//! every packet of it has a fate.

#![no_main]

use std::sync::atomic::AtomicBool;

use datapath::units::Rate;
use lab::replay::{Files, Options, PacketSelection, replay};
use lab::run::NoProgress;
use libfuzzer_sys::fuzz_target;

const QDISCS: &[&[&str]] = &[
    &["cake bandwidth 1mbit ack-filter"],
    &["cake bandwidth 20mbit diffserv8 nat wash split-gso"],
    &["fq_codel limit 20"],
    &["fq"],
    &["tbf rate 1mbit burst 10kb limit 50kb", "codel"],
    &["prio", "red limit 100kb avpkt 1000"],
    &["netem delay 10ms 5ms loss 5% duplicate 5%", "pfifo limit 5"],
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, capture)) = bytes.split_first() else { return };
    let qdiscs =
        QDISCS[usize::from(*choice) % QDISCS.len()].iter().map(|words| (*words).to_owned());
    let options = Options {
        qdiscs: qdiscs.collect(),
        rate: (choice & 0x80 != 0).then(|| Rate::from_mbit(1)),
        select: PacketSelection::default(),
        seed: 1,
        partial: choice & 0x40 != 0,
    };
    let file = std::env::temp_dir().join(format!("ackwright-fuzz-{}.pcap", std::process::id()));
    std::fs::write(&file, capture).expect("room for a small file");
    if let Ok(report) =
        replay(&file, &options, Files::default(), &NoProgress, &AtomicBool::new(false))
    {
        assert!(!report.to_json().is_null(), "a replayed capture has a report");
    }
});
