//! What Prague promises of the flows beside it and of the queue in front of it
//! (draft-briscoe-iccrg-prague-congestion-control, RFC 9331 section 4.3).

use lab::plan::Experiment;
use lab::results::RunResult;
use lab::run::{Options, run_plan};
use std::sync::atomic::AtomicBool;

/// A bottleneck towards the client with this queue, a ping through it, and these flows.
fn run(rate: &str, rtt: &str, queue: &str, flows: &str) -> RunResult {
    let text = format!(
        "schema = 1\nname = \"p\"\nduration = \"40s\"\nwarmup = \"15s\"\n\
         [nodes]\nserver = {{}}\nrouter = {{ role = \"router\" }}\nclient = {{}}\n\
         [links.lan]\nends = [\"server\", \"router\"]\nrate = \"1gbit\"\n\
         [links.wan]\nends = [\"router\", \"client\"]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\n\
         [sysctl]\n\"net.ipv4.tcp_ecn\" = 1\n[qdisc]\n\"router.wan\" = \"{queue}\"\n\
         [flows.ping]\napp = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"50ms\"\n{flows}"
    );
    let experiment =
        Experiment::parse("p.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}\n{text}"));
    let stop = AtomicBool::new(false);
    run_plan(&experiment.base, "p", &Options::silent(&stop)).expect("it runs")
}

fn flow(name: &str, module: &str, more: &str) -> String {
    format!(
        "[flows.{name}]\napp = \"bulk\"\nfrom = \"server\"\nto = \"client\"\n\
         congestion_control = \"{module}\"\n{more}\n"
    )
}

fn metric(result: &RunResult, wanted: &str) -> f64 {
    let found = result.metrics.iter().find(|it| format!("{} {}", it.scope, it.name) == wanted);
    found.unwrap_or_else(|| panic!("no {wanted}")).value
}

/// Section 3.3: in a queue that marks as RFC 3168 asks for, CUBIC keeps its share.
#[test]
fn cubic_is_not_starved_in_a_classic_queue() {
    for queue in [
        "codel ecn",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 20mbit probability 0.1 ecn",
    ] {
        let flows = flow("old", "cubic", "") + &flow("new", "prague", "");
        let result = run("20mbit", "20ms", queue, &flows);
        let [old, new] = ["old goodput", "new goodput"].map(|name| metric(&result, name));
        println!("{queue}: cubic {old}, prague {new}");
        assert!(old > 6.0 && new > 4.0, "{queue}: cubic {old}, prague {new} Mbit/s");
    }
}

/// RFC 9332, section 2: coupled by the square, CUBIC (which uses Reno's growth here) and Prague get about the same rate,
/// and only CUBIC waits for the target of 15 ms.
#[test]
fn two_coupled_queues_share_a_line_and_only_the_classic_one_is_long() {
    let pings = "[flows.low]\napp = \"ping\"\nfrom = \"server\"\nto = \"client\"\ninterval = \"50ms\"\ntos = 1\n\
                 [flows.high]\napp = \"ping\"\nfrom = \"server\"\nto = \"client\"\ninterval = \"50ms\"\n";
    let flows = flow("classic", "cubic", "") + &flow("l4s", "prague", "") + pings;
    let result = run("50mbit", "20ms", "dualpi2", &flows);
    let of = |name: &str| metric(&result, name);
    let [classic, l4s] = ["classic goodput", "l4s goodput"].map(of);
    let [low, high] = ["low latency median", "high latency median"].map(of);
    println!("cubic {classic}, prague {l4s} Mbit/s; ECT(1) {low}, without ECN {high} ms");
    assert!(classic + l4s > 44.0, "cubic {classic}, prague {l4s} Mbit/s");
    assert!((0.5..2.0).contains(&(classic / l4s)), "cubic {classic}, prague {l4s} Mbit/s");
    assert!(low < 20.0 + 2.0, "ECT(1) {low} ms");
    assert!((30.0..45.0).contains(&high), "without ECN {high} ms");
}

/// Beside others of its kind it is not taken in by the same rule: a step keeps the queue at a
/// millisecond, and the line is full.
#[test]
fn a_step_for_l4s_keeps_the_line_full_and_the_queue_empty() {
    for rtt in ["10ms", "50ms"] {
        let flows = flow("one", "prague", "") + &flow("two", "prague", "");
        let result = run("50mbit", rtt, "codel limit 1000 ce_threshold 1ms target 100ms", &flows);
        let goodput = metric(&result, "total goodput");
        let base: f64 = rtt.trim_end_matches("ms").parse().expect("a number");
        let queue = metric(&result, "ping latency 99 %") - base;
        println!("{rtt}: {goodput} Mbit/s, queue {queue} ms");
        assert!(goodput > 44.0, "{rtt}: {goodput} Mbit/s");
        assert!(queue < 2.5, "{rtt}: {queue} ms");
    }
}

/// Section 3.5: a hundred flows with two segments each would keep 240 ms in front of a line that moves
/// one in 1.2 ms.
#[test]
fn many_flows_keep_the_queue_low_by_windows_below_two_segments() {
    let flows = flow("many", "prague", "count = 100\nspread = \"2s\"");
    let result = run("10mbit", "10ms", "codel limit 2000 ce_threshold 3ms target 500ms", &flows);
    let (goodput, ping) =
        (metric(&result, "total goodput"), metric(&result, "ping latency median"));
    println!("{goodput} Mbit/s, ping {ping} ms");
    assert!(goodput > 8.0, "{goodput} Mbit/s");
    assert!(ping < 40.0, "{ping} ms");
}
