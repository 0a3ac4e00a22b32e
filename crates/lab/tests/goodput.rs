//! Goodput in all is bytes over time: whatever flows there are, and whatever lay beyond holes when the
//! warm-up ended, it is never above what the link carries.

use std::sync::atomic::AtomicBool;

use lab::plan::Experiment;
use lab::run::{Options, run_plan};
use proptest::prelude::*;

/// One flow in the words of a file.
fn flow() -> impl Strategy<Value = String> {
    let app = prop_oneof![
        Just("app = \"bulk\"".to_owned()),
        (1u32..2000).prop_map(|kb| format!("app = \"fixed\", bytes = \"{kb}kb\"")),
        (1u32..200, 1u32..100)
            .prop_map(|(on, off)| format!("app = \"on-off\", on = \"{on}ms\", off = \"{off}ms\"")),
        (1u32..100, 1u32..100).prop_map(|(kb, gap)| format!(
            "app = \"chunk\", chunk = \"{kb}kb\", gap = \"{gap}ms\""
        )),
    ];
    let stop = prop_oneof![
        Just(String::new()),
        (1000u32..3000).prop_map(|at| format!(", stop = \"{at}ms\""))
    ];
    (app, 0u32..1000, stop)
        .prop_map(|(app, start, stop)| format!("{app}, start = \"{start}ms\"{stop}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn it_is_never_above_the_capacity(
        flows in prop::collection::vec(flow(), 1..6),
        mbit in 1u32..50,
        rtt in 0u32..80,
        warmup in prop_oneof![Just(0u32), 1u32..2500],
        loss in prop_oneof![Just("0%"), Just("1%"), Just("gemodel 1% 30%")],
        load in prop::option::of(1u32..10),
    ) {
        // Of the packet that is arriving when the warm-up ends all counts as later. Headers are more than
        // that once the time after it is not that of a few packets: something goes on to the end.
        let lasting = (warmup > 0).then(|| "app = \"bulk\"".to_owned());
        let flows: Vec<String> = lasting
            .iter()
            .chain(&flows)
            .enumerate()
            .map(|(number, flow)| format!("f{number} = {{ from = \"a\", to = \"b\", {flow} }}\n"))
            .collect();
        let workload = load.map_or(String::new(), |load| {
            format!("[workload.w]\nsize = \"exponential 20kb\"\nload = 0.{load}\n\
                     hosts = [\"a\", \"b\"]\nmatrix = \"stride 1\"\n")
        });
        let text = format!(
            "schema = 1\nname = \"g\"\nduration = \"3s\"\nwarmup = \"{warmup}ms\"\n\
             nodes = {{ a = {{}}, b = {{}} }}\n[links.wire]\nends = [\"a\", \"b\"]\n\
             rate = \"{mbit}mbit\"\nrtt = \"{rtt}ms\"\nloss = \"{loss}\"\n[flows]\n{}{workload}",
            flows.concat()
        );
        let experiment = Experiment::parse("g.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}\n{text}"));
        let stop = AtomicBool::new(false);
        let result = run_plan(&experiment.base, "g", &Options::silent(&stop)).unwrap();
        let total = result.metrics.iter().find(|it| it.scope == "total" && it.name == "goodput");
        // Both directions carry flows of a workload.
        let ways = if load.is_some() { 2.0 } else { 1.0 };
        if let Some(total) = total {
            prop_assert!(total.value <= f64::from(mbit) * ways, "{} of {mbit}\n{text}", total.value);
        }
    }
}
