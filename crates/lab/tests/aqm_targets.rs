//! Queues that aim at a delay reach it: the controller in the loop with CUBIC, not alone as in the unit tests.

use lab::plan::Experiment;
use lab::run::{Options, run_plan};
use std::sync::atomic::AtomicBool;

/// Of a queue in front of eight CUBIC flows over 40 ms: the median delay in it, in ms, and the goodput in Mbit/s.
fn delay_and_goodput(queue: &str) -> (f64, f64) {
    let text = format!(
        "schema = 1\nname = \"q\"\nduration = \"40s\"\nwarmup = \"10s\"\n\
         [nodes]\nserver = {{}}\nrouter = {{ role = \"router\" }}\nclient = {{}}\n\
         [links.lan]\nends = [\"server\", \"router\"]\nrate = \"1gbit\"\n\
         [links.wan]\nends = [\"router\", \"client\"]\nrate = \"20mbit\"\nrtt = \"40ms\"\n\
         [sysctl]\n\"net.ipv4.tcp_ecn\" = 1\n[qdisc]\n\"router.wan\" = \"{queue}\"\n\
         [flows.ping]\napp = \"ping\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"20ms\"\n\
         [flows.many]\napp = \"bulk\"\nfrom = \"server\"\nto = \"client\"\ncount = 8\nstart = \"1s\"\nspread = \"1s\"\n"
    );
    let experiment =
        Experiment::parse("q.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}\n{text}"));
    let stop = AtomicBool::new(false);
    let result = run_plan(&experiment.base, "q", &Options::silent(&stop)).expect("it runs");
    let metric = |wanted: &str| {
        let found = result.metrics.iter().find(|it| format!("{} {}", it.scope, it.name) == wanted);
        found.unwrap_or_else(|| panic!("no {wanted}")).value
    };
    (metric("ping latency median") - 40.0, metric("total goodput"))
}

/// RFC 8033, section 1: the target is the mean delay that pie aims at.
#[test]
fn pie_reaches_its_target() {
    for (queue, least, most) in [
        ("pie", 10.0, 20.0),
        ("pie ecn", 10.0, 20.0),
        ("pie dq_rate_estimator", 10.0, 20.0),
        ("pie bytemode", 10.0, 20.0),
        ("pie target 40ms", 30.0, 50.0),
        ("pie target 5ms", 2.0, 9.0),
    ] {
        let (delay, goodput) = delay_and_goodput(queue);
        println!("{queue}: {delay:.1} ms, {goodput:.2} Mbit/s");
        assert!((least..most).contains(&delay), "{queue}: {delay} ms");
        assert!(goodput > 17.5, "{queue}: {goodput} Mbit/s");
    }
}
