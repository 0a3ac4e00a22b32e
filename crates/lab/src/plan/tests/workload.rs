//! `[workload]` as it is written.

use super::*;
use crate::plan::workload::Arrivals;
use crate::plan::workload::matrix::Matrix;

fn faults(words: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"w\"\nduration = \"1s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\n\
         spines = 1\nhosts = 3\nrate = \"1gbit\"\n[workload.w]\n{words}\n"
    );
    match Experiment::parse("w.toml", &text, &[]) {
        Ok(experiment) => format!("{:?}", experiment.base.workloads[0]),
        Err(faults) => faults.0[0].to_string(),
    }
}

#[test]
fn a_workload_is_read() {
    let text = "schema = 1\nname = \"w\"\nduration = \"1s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\n\
                spines = 1\nhosts = 3\nrate = \"1gbit\"\n[workload.w]\nsize = \"fixed 100kb\"\nload = 0.5\n\
                matrix = \"incast 4\"\nhosts = [\"host-1-*\", \"host-2-*\"]\nstop = \"10s\"\n";
    let plan = Experiment::parse("w.toml", text, &[]).unwrap().base;
    let workload = &plan.workloads[0];
    assert_eq!(workload.hosts.len(), 6);
    assert_eq!(workload.matrix, Matrix::Incast(4));
    assert_eq!(workload.stop, Duration::from_secs(1), "the end of the experiment");
    let Arrivals::Poisson(rate) = workload.arrivals else { panic!("{:?}", workload.arrivals) };
    assert!((rate - 0.5 * 6e9 / 8.0 / 102_400.0).abs() < 1e-6, "{rate}");
}

/// Some programs begin text with one.
#[test]
fn files_may_begin_with_a_byte_order_mark() {
    let folder = std::env::temp_dir().join(format!("ackwright-marks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("\u{feff}{text}")).expect("a file");
        path.display().to_string()
    };
    let sizes = file("sizes.cdf", "1000 0\n2000 1\n");
    let weights = file("weights.csv", &"1,1,1,1,1,1\n".repeat(6));
    let plan = faults(&format!("size = \"file {sizes}\"\nmatrix = \"file {weights}\"\nload = 0.5"));
    assert!(plan.starts_with("WorkloadPlan {"), "{plan}");
    std::fs::remove_dir_all(&folder).expect("it was there");
}

/// Connections of a workload have both ends in one family of addresses.
#[test]
fn hosts_of_a_workload_are_of_one_family() {
    let read = |hosts: &str| {
        let text = format!(
            "schema = 1\nname = \"w\"\nnodes = {{ a = {{}}, b = {{}}, c = {{}}, r = {{ role = \"router\" }} }}\n\
             [links]\nk = {{ ends = [\"a\", \"r\"], rate = \"1gbit\" }}\n\
             l = {{ ends = [\"b\", \"r\"], rate = \"1gbit\" }}\n\
             m = {{ ends = [\"c\", \"r\"], rate = \"1gbit\", addresses = [\"fd00::1/64\", \"fd00::2/64\"] }}\n\
             [workload.w]\nhosts = {hosts}\nsize = \"fixed 10kb\"\narrivals = \"closed\"\n"
        );
        Experiment::parse("w.toml", &text, &[]).map(|experiment| experiment.base.workloads.len())
    };
    let faults = read("[\"a\", \"b\", \"c\"]").unwrap_err().to_string();
    let message = "w.toml:9:9: the first address of \"a\" is IPv4, but that of \"c\" is IPv6";
    assert!(faults.contains(message), "{faults}");
    assert_eq!(read("[\"a\", \"b\"]").unwrap_or_else(|faults| panic!("{faults}")), 1);
}

#[test]
fn a_closed_incast_is_read() {
    let words = "size = \"fixed 1mb\"\nmatrix = \"incast 2\"\narrivals = \"closed\"\nrequests = 9\n\
                 clients = [\"host-2-*\", \"host-1-1\"]\nthink = \"1ms\"\nconcurrency = 3\nrequest = 200";
    let plan = faults(words);
    let asking = "Requests(RequestPattern { concurrency: 3, think: 0.001000000s, bytes: 200, count: Some(9) })";
    assert!(plan.contains("clients: [0, 3, 4, 5]"), "{plan}");
    assert!(plan.contains(asking), "{plan}");
}

#[test]
fn faults_of_workloads_are_reported_with_their_position() {
    let size = "size = \"web-search\"\n";
    let asking = "matrix = \"incast 2\"\narrivals = \"closed\"\n";
    let table = [
        ("load = 0.5".into(), "w.toml:10:1: \"size\" is missing"),
        (size.to_string(), "\"load\" is missing"),
        (format!("{size}load = 0"), "w.toml:12:8: a \"load\" must be above 0 and at most 1, not 0"),
        (format!("{size}load = \"half\""), "w.toml:12:8: \"load\" must be a number\n"),
        (
            format!("{size}load = 1.2"),
            "w.toml:12:8: a \"load\" must be above 0 and at most 1, not 1.2",
        ),
        ("size = \"web-serch\"\nload = 1".into(), "did you mean \"web-search\"?"),
        ("size = \"fixed 0\"\nload = 1".into(), "at least one byte"),
        ("size = \"pareto 1mb 0.9\"\nload = 1".into(), "above 1, not 0.9"),
        ("size = \"file nowhere.cdf\"\nload = 1".into(), "nowhere.cdf"),
        (format!("{size}load = 1\nmatrix = \"stride 6\""), "a number from 1 to 5, not 6"),
        (format!("{size}load = 1\nmatrix = \"al-to-all\""), "did you mean \"all-to-all\"?"),
        (
            format!("{size}load = 1\nof = \"bisection\"\nmatrix = \"rack-local 100%\""),
            "from rack to rack",
        ),
        (format!("{size}load = 1\nhosts = \"host-1-1\""), "two hosts or more"),
        (format!("{size}load = 1\nhosts = \"leaf-*\""), "is a router"),
        (
            format!("{size}load = 1\nhosts = \"host-1-*\"\nmatrix = \"rack-local 50%\""),
            "only one rack",
        ),
        (format!("{size}load = 1\narrivals = \"on-off\"\non = \"1ms\""), "\"off\" is missing"),
        (
            format!(
                "{size}arrivals = \"on-off\"\nload = 1\nmatrix = \"incast 2\"\non = \"1ms\"\noff = \"1ms\""
            ),
            "\"closed\" arrivals",
        ),
        (format!("{size}{asking}requests = 0"), "w.toml:14:12: \"requests\" must be 1 or more"),
        (format!("{size}{asking}requests = 30001"), "must be 30000 or less"),
        (format!("{size}{asking}request = 0"), "\"request\" must not be zero"),
        (format!("{size}{asking}load = 0.5"), "unknown key \"load\""),
        (format!("{size}{asking}clients = \"leaf-1\""), "none of the workload's hosts"),
        (format!("{size}{asking}clients = \"host-9-*\""), "host-9-*"),
        (format!("{size}{asking}clients = []"), "an incast needs a host that asks"),
        (format!("{size}load = 1\nclients = \"host-1-1\""), "unknown key \"clients\""),
        ("size = \"fixed 100\"\nload = 1".into(), "of one host; at most"),
        ("trace = \"nowhere.csv\"".into(), "nowhere.csv"),
        (format!("{size}load = 1\nlod = 2"), "unknown key \"lod\""),
        (
            format!(
                "{size}load = 1\n[flows.w]\napp = \"bulk\"\nfrom = \"host-1-1\"\nto = \"host-1-2\""
            ),
            "is called \"w\" too",
        ),
    ];
    for (words, what) in table {
        let found = faults(&words);
        assert!(found.contains(what), "{words}: {found}");
    }
}

/// A workload on four hosts of a star with 100 Mbit/s, in flows of 10 KB; what is wrong with it, or "".
fn on_a_star(words: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"w\"\nduration = \"1s\"\n[topology]\nkind = \"star\"\nhosts = 4\n\
         rate = \"100mbit\"\n[workload.w]\n{words}\n"
    );
    let faults = Experiment::parse("w.toml", &text, &[]).err();
    faults.map_or(String::new(), |faults| faults.to_string())
}

/// A host begins with a time of sending: where pauses are long, there is more of it than on average.
#[test]
fn too_many_flows_of_a_host_that_is_on_are_found_before_a_run() {
    let words = |on: &str, off: &str, load: &str| {
        format!(
            "size = \"fixed 10kb\"\narrivals = \"on-off\"\non = \"{on}\"\noff = \"{off}\"\nload = {load}"
        )
    };
    for (on, off, load, what) in [
        ("1ms", "10000s", "0.5", "this makes about 24416501 flows, 6104125 of one host"),
        ("1ms", "100s", "0.5", "this makes about 246580 flows, 61645 of one host"),
        ("1us", "10s", "0.5", "a host that is on would start 6103516235 flows a second"),
        ("1ms", "1000000000s", "1", "flows, "),
    ] {
        let found = on_a_star(&words(on, off, load));
        assert!(found.contains("w.toml:12:7: "), "{on} {off}: {found}");
        assert!(found.contains(what) && found.contains("a longer \"on\""), "{on} {off}: {found}");
    }
    for (on, off) in [("1ms", "3ms"), ("1ms", "10s"), ("10s", "10s"), ("1000s", "1us")] {
        assert_eq!(on_a_star(&words(on, off, "0.5")), "", "{on} {off}");
    }
}

/// Times are whole nanoseconds: flows that begin more often could not be told apart.
#[test]
fn flows_that_begin_too_fast_are_found_before_a_run() {
    let found = on_a_star("size = \"fixed 10kb\"\nload = 1\nstop = \"1us\"");
    assert_eq!(found, "");
    let found = on_a_star(
        "size = \"fixed 10kb\"\nload = 1\nstop = \"1us\"\nhosts = \"fast-*\"\n\
        [nodes]\nfast = { count = 2 }\n[links]\nl = { ends = [\"fast-1\", \"fast-2\"], rate = \"100000gbit\" }",
    );
    assert!(found.contains("w.toml:10:8: a host would start"), "{found}");
}

/// In an incast those that ask do not send: with one client the others send all.
#[test]
fn clients_of_an_incast_do_not_send() {
    let words = "size = \"fixed 150\"\nload = 1\nmatrix = \"incast 1\"\n\
                 hosts = [\"host-1\", \"host-2\"]\nclients = \"host-1\"";
    let found = on_a_star(words);
    assert!(found.contains("this makes about 83333 flows, 83333 of one host"), "{found}");
}

/// A list says who sends how many.
#[test]
fn a_list_with_too_many_flows_of_a_host_is_found_before_a_run() {
    let path = std::env::temp_dir().join(format!("ackwright-list-{}.csv", std::process::id()));
    let list = |count: usize| {
        let rows = "0.5,host-1,host-2,1000\n".repeat(count);
        std::fs::write(&path, format!("start,from,to,bytes\n0,host-2,host-1,5\n{rows}"))
            .expect("a file");
        on_a_star(&format!("trace = \"{}\"", path.display()))
    };
    let (most, more) = (list(60_000), list(60_001));
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!(most, "");
    assert!(more.contains("w.toml:9:9: "), "{more}");
    assert!(more.contains(":60003:2: at most 60000 flows of one host are possible"), "{more}");
}
