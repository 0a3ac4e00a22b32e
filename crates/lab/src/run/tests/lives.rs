//! Flows that live for a part of the run only, and what is measured of them.

use super::*;
use crate::results::FlowStatus;

/// A queue of 20 Mbit/s between two hosts, and these flows and settings.
fn bottleneck(settings: &str, flows: &str) -> RunResult {
    over_link("", settings, flows)
}

/// The same with more said of the link.
fn over_link(link: &str, settings: &str, flows: &str) -> RunResult {
    let text = format!(
        "schema = 1\nname = \"lives\"\n{settings}\n[nodes]\na = {{}}\nb = {{}}\nr = {{ role = \"router\" }}\n\
         [links.lan]\nends = [\"a\", \"r\"]\nrate = \"1gbit\"\n\
         [links.w]\nends = [\"r\", \"b\"]\nrate = \"20mbit\"\nrtt = \"20ms\"\n{link}\n\
         [qdisc]\n\"r.w\" = \"fq_codel\"\n{flows}"
    );
    let experiment = Experiment::parse("l.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    run_plan(&experiment.base, "lives", &Options::silent(&stop)).expect("it runs")
}

fn value(run: &RunResult, scope: &str, name: &str) -> Option<f64> {
    run.metrics.iter().find(|it| it.scope == scope && it.name == name).map(|it| it.value)
}

fn flow(name: &str, words: &str) -> String {
    format!("[flows.{name}]\nfrom = \"a\"\nto = \"b\"\ngroup = \"all\"\n{words}\n")
}

/// Who was gone when the warm-up ended has no goodput, and is nobody to be fair to.
#[test]
fn flows_that_end_within_the_warm_up_have_no_rate() {
    let ended = [
        "app = \"fixed\"\nbytes = \"100kb\"",
        "app = \"bulk\"\nstop = \"500ms\"",
        "app = \"cbr\"\nrate = \"1mbit\"\nstop = \"500ms\"",
    ];
    let bulk = flow("bulk", "app = \"bulk\"\ncount = 2");
    let without = bottleneck("duration = \"4s\"\nwarmup = \"2s\"", &bulk);
    for words in ended {
        let both = bulk.clone() + &flow("short", words);
        let run = bottleneck("duration = \"4s\"\nwarmup = \"2s\"", &both);
        assert_eq!(value(&run, "short", "goodput"), None, "{words}");
        for scope in ["total", "all"] {
            assert!(value(&run, scope, "fairness") > Some(0.99), "{words}: {scope}");
        }
        let least = value(&run, "all", "throughput min");
        assert!(least > Some(8.0) && least <= Some(10.0), "{words}: {least:?}");
        let [sum, alone] = [&run, &without].map(|run| value(run, "all", "goodput").unwrap());
        assert!((sum - alone).abs() < 0.2, "{words}: {sum} {alone}");
    }
}

/// Who waits after the warm-up for what does not come has a goodput: none.
#[test]
fn flows_that_get_nothing_after_the_warm_up_have_a_rate_of_zero() {
    for words in ["app = \"fixed\"\nbytes = \"100mb\"", "app = \"bulk\""] {
        let settings = "duration = \"4s\"\nwarmup = \"2s\"";
        let run = over_link("events = [\"1s down\"]", settings, &flow("f", words));
        assert_eq!(value(&run, "f", "goodput"), Some(0.0), "{words}");
        assert_eq!(value(&run, "all", "throughput mean"), Some(0.0), "{words}");
    }
}

/// Of a queue that no packet leaves after the warm-up there is no delay.
#[test]
fn an_unused_queue_has_no_delay() {
    let short = flow("short", "app = \"fixed\"\nbytes = \"100kb\"");
    let pinged = "[flows.p]\napp = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"100ms\"\n";
    let run =
        |more: &str| bottleneck("duration = \"4s\"\nwarmup = \"2s\"", &format!("{short}{more}"));
    let (unused, used) = (run(""), run(pinged));
    for name in ["queue delay mean", "queue delay 99 %"] {
        assert_eq!(value(&unused, "r.w", name), None, "{name}");
        assert!(value(&used, "r.w", name).is_some(), "{name}");
    }
    assert!(value(&unused, "r.w", "sent") > Some(60.0));
}

/// Attempts to connect carry no payload: whoever has made all of them is finished.
#[test]
fn attempts_to_connect_come_to_an_end() {
    let connect = |words: &str| {
        let flows = flow("c", &format!("app = \"connect\"\ninterval = \"50ms\"\n{words}"));
        let run = bottleneck("duration = \"3s\"", &flows);
        (run.flows[0].status, run.flows[0].end_ns)
    };
    let seconds = |tenths: u64| Some(tenths * 100_000_000);
    assert_eq!(connect("attempts = 10"), (FlowStatus::Finished, seconds(5)));
    assert_eq!(connect("stop = \"2s\""), (FlowStatus::Finished, seconds(20)));
    assert_eq!(connect("attempts = 100"), (FlowStatus::Unfinished, None));
    assert_eq!(connect(""), (FlowStatus::Open, None));
}

/// What a socket has learned when its flow is over is told once, however long the run goes on.
#[test]
fn the_mean_round_trip_time_is_that_of_the_life() {
    let srtt = |seconds: u32, words: &str| {
        let pings = "[flows.p]\napp = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"100ms\"\n";
        let settings = format!("duration = \"{seconds}s\"");
        let run = bottleneck(&settings, &(flow("short", words) + pings));
        value(&run, "short", "srtt mean").unwrap()
    };
    for words in ["app = \"fixed\"\nbytes = \"2mb\"", "app = \"bulk\"\nstop = \"1s\""] {
        assert_eq!(srtt(3, words).to_bits(), srtt(6, words).to_bits(), "{words}");
    }
}

/// Who has less to say than the early part is long is measured by the time that it took.
#[test]
fn the_early_part_of_a_short_flow_is_all_of_it() {
    let settings = "duration = \"3s\"";
    for (words, bytes) in [
        ("app = \"fixed\"\nbytes = \"100kb\"\nstart = \"15ms\"", Some(102_400.0)),
        ("app = \"bulk\"\nstop = \"500ms\"", None),
    ] {
        let flows = flow("short", words) + "[measure]\nearly = \"2s\"\n";
        let run = bottleneck(settings, &flows);
        let early = value(&run, "short", "early goodput");
        assert_eq!(early, value(&run, "short", "goodput"), "{words}");
        assert_eq!(early, value(&run, "all", "early goodput"), "{words}");
        if let Some(bytes) = bytes {
            let took = run.flows[0].end_ns.unwrap() - run.flows[0].start_ns;
            let expected = bytes * 8e3 / took as f64;
            assert!((early.unwrap() / expected - 1.0).abs() < 1e-9, "{early:?} {expected}");
        }
    }
}
