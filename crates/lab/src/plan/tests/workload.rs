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

#[test]
fn a_closed_incast_is_read() {
    let words = "size = \"fixed 1mb\"\nmatrix = \"incast 2\"\narrivals = \"closed\"\nrequests = 9\n\
                 clients = [\"host-2-*\", \"host-1-1\"]\nthink = \"1ms\"\nconcurrency = 3\nrequest = 200";
    let plan = faults(words);
    let asking =
        "Asking(Asking { concurrency: 3, think: 0.001000000s, bytes: 200, count: Some(9) })";
    assert!(plan.contains("clients: [0, 3, 4, 5]"), "{plan}");
    assert!(plan.contains(asking), "{plan}");
}

#[test]
fn what_is_wrong_with_a_workload_is_told_at_its_place() {
    let size = "size = \"web-search\"\n";
    let asking = "matrix = \"incast 2\"\narrivals = \"closed\"\n";
    let table = [
        ("load = 0.5".into(), "w.toml:10:1: \"size\" is missing"),
        (size.to_string(), "\"load\" is missing"),
        (format!("{size}load = 0"), "w.toml:12:8: a \"load\" is above 0 and at most 1, not 0"),
        (format!("{size}load = \"half\""), "w.toml:12:8: \"load\" must be a number\n"),
        (format!("{size}load = 1.2"), "w.toml:12:8: a \"load\" is above 0 and at most 1, not 1.2"),
        ("size = \"web-serch\"\nload = 1".into(), "did you mean \"web-search\"?"),
        ("size = \"fixed 0\"\nload = 1".into(), "a size of 0"),
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
            "one rack only",
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
