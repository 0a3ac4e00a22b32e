//! Links that change, in the words of files.

use super::*;
use datapath::qdisc::netem::Loss;
use datapath::units::{Duration, Rate};
use sim::schedule::Schedule;
use std::fs;

const FILE: &str = r#"schema = 1
name = "v"
nodes = { a = {}, b = {} }
[links.wire]
ends = ["a", "b"]
rate = "10mbit"
delay = "5ms"
WORDS
[flows]
load = { app = "bulk", from = "a", to = "b" }
"#;

fn folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("ackwright-varying-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a directory for the test");
    folder
}

fn read(words: &str) -> Result<Direction, String> {
    let name = folder().join("v.toml").display().to_string();
    let text = FILE.replace("WORDS", words);
    let experiment = Experiment::parse(&name, &text, &[]).map_err(|faults| faults.to_string())?;
    Ok(experiment.base.links[0].directions[0].clone())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn schedules_come_from_the_file_or_from_beside_it() {
    let rates = [
        (ms(0), Rate::from_mbit(10)),
        (ms(1000), Rate::from_mbit(2)),
        (ms(3000), Rate::from_mbit(8)),
    ];
    let delays = [(ms(0), ms(5)), (ms(2000), ms(50))];
    let wanted = Schedule::new(&rates, &delays, None);
    let write = |name: &str, text: &str| fs::write(folder().join(name), text).expect("a file");
    write("s.csv", "at,rate,delay\n1s,2mbit,\n# later\n2,,0.05\n3,8000000,\n");
    write(
        "s.json",
        r#"[{"at": "1s", "rate": 2000000}, {"at": 2, "delay": "50ms"}, {"at": 3.0, "rate": "8mbit"}]"#,
    );
    let list = "[{ at = \"1s\", rate = \"2mbit\" }, { at = \"2s\", delay = \"50ms\" }, \
                { at = \"3s\", rate = \"8mbit\" }]";
    for words in [list, "\"s.csv\"", "\"s.json\""] {
        let found = read(&format!("schedule = {words}")).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(found.schedule.as_deref(), Some(&wanted), "{words}");
        assert_eq!(found.rate, Some(Rate::from_mbit(10)));
    }
    let repeated = read(&format!("schedule = {list}\nschedule_repeat = \"4s\"")).unwrap();
    assert_eq!(repeated.schedule.as_deref(), Some(&Schedule::new(&rates, &delays, Some(ms(4000)))));
    // One direction may be said anew.
    let still = read(&format!("schedule = {list}\nforward = {{ rate = \"5mbit\" }}")).unwrap();
    assert_eq!((still.schedule, still.rate), (None, Some(Rate::from_mbit(5))));
}

#[test]
fn traces_are_mahimahis() {
    fs::write(folder().join("t.trace"), "0\n4\n4\n10\n").expect("a file");
    let text = FILE.replace("rate = \"10mbit\"\n", "").replace("WORDS", "trace = \"t.trace\"");
    let name = folder().join("v.toml").display().to_string();
    let plan =
        Experiment::parse(&name, &text, &[]).unwrap_or_else(|faults| panic!("{faults}")).base;
    let times = [ms(0), ms(4), ms(4), ms(10)];
    let direction = &plan.links[0].directions[0];
    assert_eq!(direction.schedule.as_deref(), Some(&Schedule::opportunities(&times)));
    assert_eq!(direction.rate, Some(Rate::from_bits_per_sec(4_800_000)));
    // Beside it the delay changes at its own times, long after the trace has ended.
    let steps = "trace = \"t.trace\"\nschedule = [{ at = \"3s\", delay = \"200ms\" }]";
    let text = text.replace("trace = \"t.trace\"", steps);
    let plan =
        Experiment::parse(&name, &text, &[]).unwrap_or_else(|faults| panic!("{faults}")).base;
    let delays = [(ms(0), ms(5)), (ms(3000), ms(200))];
    let expected = Schedule::opportunities(&times).with_delays(&delays);
    assert_eq!(plan.links[0].directions[0].schedule.as_deref(), Some(&expected));
}

#[test]
fn losses_come_in_bursts_and_jitter_has_a_memory() {
    let simple = read("loss = \"0.5%\"").unwrap();
    assert_eq!((simple.loss, simple.loss_model), (5_000, Loss::None));
    for words in ["gemodel 1%", "gemodel 1% 10%", "gemodel 1% 10% 70%", "gemodel 1% 10% 70% 0.1%"] {
        let found = read(&format!("loss = \"{words}\"")).unwrap();
        assert!(matches!(found.loss_model, Loss::Gemodel(_)), "{words}");
    }
    // A share of 2 % in bursts of 5: out of the bad state by 1/5, into it by 0.02 / 0.98 / 5.
    let Loss::Gemodel(model) = read("loss = \"2% burst 5\"").unwrap().loss_model else {
        panic!("a model of bursts")
    };
    let share = |chance: u32| f64::from(chance) / f64::from(u32::MAX);
    assert!(
        (share(model.r) - 0.2).abs() < 1e-6 && (share(model.p) - 0.02 / 0.98 / 5.0).abs() < 1e-6
    );
    let jitter = read("jitter = \"5ms 25%\"").unwrap();
    assert_eq!((jitter.jitter, jitter.jitter_correlation >> 28), (ms(5), 4));
}

#[test]
fn packets_that_come_later_have_a_share_and_a_time() {
    for words in [
        "reorder = \"1%\"\nreorder_by = \"5ms\"",
        "reorder = \"0%\"\nreorder_by = \"5ms\"",
        "reorder_by = \"5ms\"\nforward = { reorder = \"1%\" }",
        "reorder_by = \"5ms\"\nbackward = { reorder = \"1%\" }",
        "reorder = \"1%\"\nreorder_by = \"5ms\"\nforward = { reorder_by = \"9ms\" }",
    ] {
        read(words).unwrap_or_else(|told| panic!("{words}: {told}"));
    }
}

#[test]
fn faults_are_reported_with_their_position() {
    let write = |name: &str, text: &str| fs::write(folder().join(name), text).expect("a file");
    write("bad.csv", "at,rate\n1,2mbit\n2,fast\n");
    write("back.csv", "at,rate\n2,2mbit\n1,1mbit\n");
    write("bad.trace", "1\n5\n3\n");
    write("still.trace", "0\n0\n");
    for (words, what) in [
        ("schedule = []", ":8:12: the schedule has no steps"),
        ("schedule = [{ rate = \"1mbit\" }]", ":8:13: \"at\" is missing"),
        ("schedule = [{ at = \"1s\" }]", "step 1 has neither rate nor delay"),
        (
            "schedule = [{ at = \"2s\", rate = \"1mbit\" }, { at = \"1s\", rate = \"2mbit\" }]",
            "step 2 is not later than the one before",
        ),
        ("schedule = \"bad.csv\"", "bad.csv:3:2: \"fast\" is not a rate"),
        ("schedule = \"back.csv\"", "back.csv:3: step 2 is not later"),
        ("schedule = \"none.csv\"", "none.csv: "),
        ("schedule_repeat = \"1s\"", "\"schedule_repeat\" needs a \"schedule\""),
        (
            "schedule = [{ at = \"2s\", rate = \"1mbit\" }]\nschedule_repeat = \"1s\"",
            ":9:19: the schedule repeats before its last step",
        ),
        ("trace = \"bad.trace\"", "a \"rate\" or a \"trace\""),
        ("loss = \"gemodel\"", "one to four shares"),
        ("loss = \"1% burst 0\"", "\"0\" is not a mean burst length: 1 to 1000000 packets"),
        ("loss = \"1% burst 2e6\"", "\"2e6\" is not a mean burst length: 1 to 1000000 packets"),
        ("loss = \"90% burst 1\"", "bursts of 1 packets lose 50.0000 % at most, not 90 %"),
        ("reorder_by = \"5ms\"", ":8:14: \"reorder_by\" needs \"reorder\""),
        ("forward = { reorder_by = \"5ms\" }", ":8:26: \"reorder_by\" needs \"reorder\""),
        ("jitter = \"5ms 25\"", "percentage"),
    ] {
        let told = read(words).unwrap_err();
        assert!(told.contains(what), "{words}: {told}");
    }
    for (file, what) in [
        ("bad.trace", ":3: 3 is earlier than the line above"),
        ("still.trace", "last for some time"),
    ] {
        let text = FILE
            .replace("rate = \"10mbit\"\n", "")
            .replace("WORDS", &format!("trace = \"{file}\""));
        let name = folder().join("v.toml").display().to_string();
        let told = Experiment::parse(&name, &text, &[]).unwrap_err().to_string();
        assert!(told.contains(what), "{told}");
    }
}
