//! Workloads and queries: what flows, when a request is answered, and when no port is left.

use super::*;
use crate::results::{FlowRecord, FlowStatus};

/// One flow at a time in a network without other traffic: each takes at least its ideal time, and a
/// small one little more.
#[test]
fn in_the_empty_network_there_is_hardly_a_slowdown() {
    let sizes = [("fixed 1kb", 1.1), ("fixed 10kb", 1.3), ("fixed 10mb", 1.2)];
    for (version, (size, most)) in [4, 6].into_iter().flat_map(|it| sizes.map(|size| (it, size))) {
        let text = format!(
            "schema = 1\nname = \"w\"\nduration = \"1s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\n\
             spines = 1\nhosts = 1\nrate = \"1gbit\"\nfabric_rate = \"10gbit\"\ndelay = \"10us\"\nip_version = {version}\n\
             [workload.w]\narrivals = \"closed\"\nsize = \"{size}\"\nthink = \"1ms\"\n"
        );
        let experiment = Experiment::parse("w.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        let stop = AtomicBool::new(false);
        let result = run_plan(&experiment.base, "w", &Options::silent(&stop)).unwrap();
        assert!(result.flows.len() > 10, "{size}: {}", result.flows.len());
        for flow in &result.flows {
            let Some(slowdown) = flow.slowdown() else { continue };
            assert!(slowdown >= 1.0, "{size}: {flow:?}");
            assert!(slowdown <= most, "{size}: {slowdown}");
            assert_eq!(flow.path.len(), 5, "{flow:?}");
        }
    }
}

/// Thousands of short flows: each arrives whole, and no more than the links carry.
#[test]
fn all_flows_of_a_workload_arrive() {
    let text = "schema = 1\nname = \"w\"\nduration = \"2s\"\n[topology]\nkind = \"star\"\nhosts = 8\n\
                rate = \"100mbit\"\ndelay = \"5us\"\n[workload.w]\nsize = \"facebook-web\"\nload = 0.5\n\
                stop = \"300ms\"\n[workload.x]\nsize = \"fixed 3kb\"\nload = 0.1\nstop = \"200ms\"\n";
    let experiment = Experiment::parse("w.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let result = run_plan(&experiment.base, "w", &Options::silent(&stop)).unwrap();
    assert!(result.flows.len() > 500, "{}", result.flows.len());
    assert!(result.flows.iter().all(|flow| Some(flow.received) == flow.bytes), "all arrive whole");
    assert!(result.virtual_ns < 2_000_000_000, "the run ends with the last flow");
    let again = run_plan(&experiment.base, "w", &Options::silent(&stop)).unwrap();
    assert_eq!(result.flows, again.flows);
    let total = result.metrics.iter().find(|it| it.scope == "total" && it.name == "goodput");
    assert!(total.is_some_and(|total| total.value < 800.0), "{total:?}");
}

/// An incast in a closed loop: each request goes when the one before is answered whole, over connections that stay.
#[test]
fn an_incast_asks_again_when_all_parts_are_there() {
    let run = |words: &str| {
        let text = format!(
            "schema = 1\nname = \"w\"\nduration = \"20s\"\n[topology]\nkind = \"star\"\nhosts = 9\n\
             rate = \"1gbit\"\ndelay = \"20us\"\n[sysctl]\n\"net.ipv4.tcp_early_retrans\" = 0\n\
             [qdisc]\n\"switch.host-1\" = \"bfifo limit 64kb\"\n[workload.w]\narrivals = \"closed\"\n{words}\n"
        );
        let experiment = Experiment::parse("w.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        let stop = AtomicBool::new(false);
        run_plan(&experiment.base, "w", &Options::silent(&stop)).unwrap()
    };
    let metric = |run: &RunResult, name: &str| {
        run.metrics.iter().find(|it| it.scope == "w" && it.name == name).map(|it| it.value)
    };
    // Blocks of 1 MB in eight parts, as in synchronised reads.
    let reads =
        run("size = \"fixed 1mb\"\nmatrix = \"incast 8\"\nclients = \"host-1\"\nrequests = 10");
    assert_eq!(reads.flows.len(), 80);
    assert!(reads.virtual_ns < 19_000_000_000, "the run ends with the last answer");
    for (number, parts) in (1..).zip(reads.flows.chunks(8)) {
        assert!(parts.iter().all(|it| it.request == Some(number) && it.bytes == Some(131_072)));
        assert!(parts.iter().all(|it| it.start_ns == parts[0].start_ns && it.to == 1), "{parts:?}");
        assert!(parts.iter().all(|it| it.slowdown() >= Some(1.0)), "{parts:?}");
        let whole = parts.iter().filter_map(|it| it.end_ns).max().unwrap();
        if let Some(next) = reads.flows.get(number as usize * 8) {
            assert_eq!(next.start_ns, whole, "at once when the last part is there");
        }
    }
    let timeouts: u32 = reads.flows.iter().filter_map(|it| it.rtos).sum();
    assert!(timeouts > 0, "eight windows do not fit into 64 kB");
    assert_eq!(metric(&reads, "timeouts total"), Some(f64::from(timeouts)));
    assert_eq!(metric(&reads, "requests answered"), Some(10.0));
    let slowest = metric(&reads, "request time 99.9 %").unwrap();
    assert!(slowest > 200.0, "a timeout is 200 ms or more: {slowest}");

    // Others each time, of another size, two at a time from each of two clients, until told to stop.
    let words = "size = \"exponential 20kb\"\nmatrix = \"incast 3\"\nclients = [\"host-2\", \"host-5\"]\n\
                 concurrency = 2\nthink = \"1ms\"\nstop = \"300ms\"";
    let mixed = run(words);
    let requests = mixed.flows.last().unwrap().request.unwrap() as usize;
    assert!(requests > 100 && mixed.flows.len() == requests * 3, "{requests}");
    assert!(mixed.flows.iter().all(|it| it.status == FlowStatus::Finished));
    let servers: BTreeSet<_> = mixed.flows.iter().map(|it| it.from).collect();
    assert_eq!(servers.len(), 9, "everybody answers somebody");
    assert!(mixed.flows.iter().all(|it| it.start_ns < 300_000_000));
    let fastest = mixed.flows.iter().filter_map(FlowRecord::slowdown).fold(f64::MAX, f64::min);
    assert!((1.0..1.5).contains(&fastest), "{fastest}");
    assert!(mixed.virtual_ns < 2_000_000_000, "it ends when nothing more begins");
    let again = run(words);
    assert_eq!((mixed.flows, mixed.fingerprint), (again.flows, again.fingerprint));
}

/// A query's goodput is what its answers hold over their time: that of synchronised reads.
#[test]
fn a_query_has_a_goodput() {
    let text = "schema = 1\nname = \"q\"\nduration = \"5s\"\nwarmup = \"30ms\"\n[topology]\nkind = \"star\"\n\
                hosts = 5\nrate = \"1gbit\"\ndelay = \"20us\"\n[flows.q]\napp = \"query\"\nfrom = \"host-1\"\n\
                to = [\"host-2\", \"host-3\"]\nresponse = \"1mb\"\nqueries = 10\nthink = \"1ms\"\n";
    let experiment = Experiment::parse("q.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let run = run_plan(&experiment.base, "q", &Options::silent(&stop)).unwrap();
    let metric = |name: &str| {
        run.metrics.iter().find(|it| it.scope == "q" && it.name == name).unwrap().value
    };
    // After the warm-up all but the first few; behind each but the last a pause of 1 ms.
    let (each, goodput) = (metric("latency mean"), metric("goodput"));
    let counted = 10.0 - (30.0 / (each + 1.0)).ceil();
    let expected = counted * 8.388_608e3 / (counted * each + counted - 1.0);
    assert!((goodput / expected - 1.0).abs() < 0.02, "{goodput} {expected}");
}

/// A closed loop that would begin more flows than a host can have is told, and not cut short.
#[test]
fn a_closed_loop_without_ports_left_is_an_error() {
    let text = "schema = 1\nname = \"w\"\nduration = \"20s\"\n[topology]\nkind = \"star\"\nhosts = 2\n\
                rate = \"10gbit\"\n[workload.w]\narrivals = \"closed\"\nsize = \"fixed 100\"\nconcurrency = 100\n";
    let experiment = Experiment::parse("w.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let ended = run_plan(&experiment.base, "w", &Options::silent(&stop)).map(|run| run.flows.len());
    let told = ended.unwrap_err().to_string();
    assert!(told.contains("\"w\" would have more than 60000 flows of one host by "), "{told}");
}
