//! What is wrong in a file, and how it is told.

use super::*;

#[test]
fn faults_name_line_column_and_the_nearest_word() {
    let table: [FaultRow; 22] = [
        ("schema = 1", "schema = 2", (1, 10), "schema 1", None),
        ("duration", "durration", (3, 1), "unknown key", Some("duration")),
        ("duration = \"10s\"", "duration = \"0s\"", (3, 12), "longer than 0s", None),
        ("[nodes.b]", "[node.b]", (16, 2), "unknown key", Some("nodes")),
        ("linux-6.1\"", "linux-6.2\"", (17, 11), "not a valid profile", Some("linux-6.1")),
        ("tcp_sack", "tcp_sak", (11, 1), "is not modelled", Some("net.ipv4.tcp_sack")),
        (
            "tcp_sack\" = 1",
            "tcp_sack\" = 777",
            (11, 23),
            "net.ipv4.tcp_sack takes a whole number from 0 to 255",
            None,
        ),
        ("\"router\"", "\"ruter\"", (15, 8), "not a valid role", Some("router")),
        ("[\"a\", \"r\"]", "[\"a\", \"x\"]", (20, 14), "no node is called \"x\"", None),
        ("[\"a\", \"r\"]", "[\"a\", \"a\"]", (20, 8), "two different", None),
        ("[\"a\", \"r\"]", "[\"a\"]", (20, 8), "two ends", None),
        ("rate = \"1gbit\"", "rate = \"-1gbit\"", (21, 8), "negative", None),
        ("rate = \"1gbit\"", "rate = \"1gbitt\"", (21, 8), "not a unit", None),
        ("rate = \"1gbit\"", "rate = 5", (21, 8), "no unit", None),
        ("rate = \"1gbit\"", "mtu = 0", (21, 7), "68 or more", None),
        ("${rtt}", "${rrt}", (25, 10), "no parameter", Some("rtt")),
        ("\"r.access\"", "\"r.acess\"", (28, 1), "no port", Some("r.access")),
        ("pfifo limit", "pffo limit", (31, 13), "", Some("pfifo")),
        ("\"fixed\"", "\"fixd\"", (34, 7), "not a valid app", Some("fixed")),
        ("to = \"b\"", "to = \"c\"", (36, 6), "no node is called \"c\"", None),
        ("bytes = \"1gb\"", "start = \"10s\"", (33, 2), "", None),
        ("uniform", "gamma", (50, 7), "no distribution is called", Some("uniform = [")),
    ];
    for (from, to, position, message, word) in table {
        let fault = fault(from, to);
        let context = format!("{from} -> {to}: {fault}");
        assert_eq!(fault.position.map(|(line, _)| line), Some(position.0), "{context}");
        if !message.is_empty() {
            assert_eq!(fault.position, Some(position), "{context}");
        }
        assert!(fault.message.contains(message), "{context}");
        if let Some(word) = word {
            assert!(fault.help.as_deref().unwrap_or("").contains(word), "{context}");
        }
    }
}

#[test]
fn an_invalid_point_of_a_sweep_is_found_before_anything_runs() {
    let fault = fault("{ profile = \"linux-7.x\" }", "{ profile = \"linux-7.y\" }");
    assert_eq!(fault.position, Some((47, 21)));
    assert_eq!(fault.help.as_deref(), Some("did you mean \"linux-7.x\"?"));
}

/// Whatever a draw may choose is checked, not its ends alone.
#[test]
fn an_invalid_choice_of_a_draw_is_found_before_anything_runs() {
    let choice = "{ choice = [\"1ms\", \"oops\", \"2ms\"] }";
    let text = GOOD.split("[draw]").next().unwrap().to_owned();
    let text = format!("{text}[draw]\n\"links.access.rtt\" = {choice}\n");
    let faults = Experiment::parse("demo.toml", &text, &[]).unwrap_err();
    assert!(faults.to_string().contains("\"oops\" is not a time"), "{faults}");
}

#[test]
fn all_faults_are_told_at_once() {
    let text = GOOD.replace("duration", "duratoin").replace("\"fixed\"", "\"fixd\"");
    let faults = Experiment::parse("demo.toml", &text, &[]).unwrap_err();
    assert_eq!(faults.0.len(), 2, "{faults}");
}

proptest::proptest! {
    /// Whatever stands in a file: a plan or faults, never a panic.
    #[test]
    fn garbage_never_panics(at in 0usize..2000, what in "[\\PC\n]{0,12}") {
        let mut text = GOOD.to_string();
        let mut at = at % text.len();
        while !text.is_char_boundary(at) { at -= 1; }
        text.insert_str(at, &what);
        let _ = Experiment::parse("demo.toml", &text, &[]);
    }
}

/// What a run could not do is said of the file, where it is written.
#[test]
fn impossible_values_are_found_before_a_run() {
    let app =
        |words: &str| GOOD.replacen("app = \"fixed\"", words, 1).replace("bytes = \"1gb\"\n", "");
    let also = |words: &str| format!("{GOOD}{words}");
    for (text, position, message) in [
        (app("app = \"cbr\"\nrate = \"1mbit\"\nsize = 0"), (36, 8), "holds 1 to 65507 bytes"),
        (app("app = \"cbr\"\nrate = \"1mbit\"\nsize = 65508"), (36, 8), "holds 1 to 65507 bytes"),
        (app("app = \"ping\"\nsize = 65508"), (35, 8), "holds 0 to 65507 bytes"),
        (app("app = \"ping\"\ninterval = \"0ms\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"probe\"\ninterval = \"0s\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"connect\"\ninterval = \"0s\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"on-off\"\non = \"0s\"\noff = \"1s\""), (35, 6), "\"on\" must not be zero"),
        (app("app = \"chunk\"\nchunk = 0"), (35, 9), "\"chunk\" must not be zero"),
        (app("app = \"query\"\nresponse = 9\nrequest = 0"), (36, 11), "\"request\" must not"),
        (app("app = \"bulk\"\ncount = 35001"), (33, 8), "at most 35000 flows"),
        (app("app = \"bulk\"\nstart = \"2s\"\nstop = \"1s\""), (36, 8), "before it starts"),
        (
            GOOD.replace(
                "[links.wire]",
                "addresses = [\"10.0.0.5/30\", \"10.0.0.6/30\"]\n[links.wire]",
            ),
            (19, 8),
            "\"a\" and \"r\" would both have 10.0.0.5",
        ),
        (
            GOOD.replace(
                "[links.wire]",
                "[links.wire]\naddresses = [\"10.0.0.2/30\", \"10.0.0.1/30\"]",
            ),
            (22, 8),
            "\"a\" and \"b\" would both have 10.0.0.1",
        ),
        (also("[nodes.island]\n"), (51, 8), "no link leads to \"island\""),
        (
            GOOD.replace("[nodes.a]", "[nodes.a-1]\n[nodes.a]\ncount = 2"),
            (14, 8),
            "another node is called \"a-1\" too",
        ),
        (
            also(
                "[flows.x-1]\napp=\"bulk\"\nfrom=\"a\"\nto=\"b\"\n[flows.x]\napp=\"bulk\"\nfrom=\"a\"\nto=\"b\"\ncount=2",
            ),
            (55, 8),
            "another flow is called \"x-1\" too",
        ),
        (GOOD.replace("\"demo\"", "\"..\""), (2, 8), "except at the start"),
        (GOOD.replace("schema = 1", "schema = \"1\""), (1, 10), "a whole number, not a text"),
        (
            also("\"links.wire.rt\" = { uniform = [\"1ms\", \"2ms\"] }\n"),
            (51, 19),
            "unknown key \"rt\"",
        ),
    ] {
        let faults = Experiment::parse("demo.toml", &text, &[]).expect_err(&text);
        let found = faults.0.iter().find(|fault| fault.message.contains(message));
        let found = found.unwrap_or_else(|| panic!("{message}: {faults}"));
        assert_eq!(found.position, Some(position), "{found}");
    }
}

#[test]
fn a_file_that_is_no_text_says_where() {
    let path = std::env::temp_dir().join(format!("ackwright-latin1-{}.toml", std::process::id()));
    std::fs::write(&path, b"schema = 1\nname = \"m\xe4h\"\n").expect("a temporary file");
    let error = Experiment::load(&path, &[]).expect_err("it is no text").to_string();
    std::fs::remove_file(&path).expect("it was there");
    assert!(error.contains(".toml:2:10: this is not UTF-8 text from here on"), "{error}");
}

#[test]
fn the_new_words_are_checked() {
    for (from, to, message) in [
        ("[nodes.a]", "[nodes.a]\nbuffer_alpha = \"1/4\"", "\"buffer_alpha\" needs \"buffer\""),
        (
            "[nodes.a]",
            "[nodes.a]\nbuffer = 1000\nbuffer_alpha = \"0\"",
            "\"buffer_alpha\" must be a positive number, or a fraction such as \"1/4\"",
        ),
        ("from = \"a\"", "from = \"c*\"", "no node matches \"c*\""),
        (
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"pfifo\", \"filter parent 1: matchall flowid 1:1\"]",
            "the filter's parent is not a qdisc that uses filters",
        ),
        (
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"pfifo\", \"class parent 1: classid 1:1 htb rate 1mbit\"]",
            "No such file or directory",
        ),
        (
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"root handle 1: htb\", \"class parent 1: classid 1:1 htb ceil 1mbit\"]",
            "htb: the \"rate\" parameter is mandatory",
        ),
    ] {
        assert_eq!(fault(from, to).message, message);
    }
}

/// What would fill the memory of the machine is refused by arithmetic, before it is built.
#[test]
fn experiments_that_are_too_large_are_refused_with_a_remedy() {
    let star = |nodes: &str, links: &str, flows: &str, more: &str| {
        format!(
            "schema = 1\nname = \"large\"\n{more}\n[nodes]\nhub = {{ role = \"router\" }}\n{nodes}\n\
             [links]\n{links}\n[flows]\n{flows}\n"
        )
    };
    let pairs = "a = { count = 10000 }\nb = { count = 9000 }";
    let few = "a = { count = 2 }\nb = { count = 2 }";
    let up = "l = { ends = [\"a-*\", \"hub\"], delay = \"1ms\" }\n\
              m = { ends = [\"b-*\", \"hub\"] }";
    let flow = "f = { app = \"bulk\", from = \"a-1\", to = \"b-1\" }";
    let ten = |value: &str| (0..10).map(|axis| format!("p{axis} = {value}\n")).collect::<Vec<_>>();
    let axes = ten("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]").concat();
    let parameters = ten("0").concat();
    let sweep = format!("[parameters]\n{parameters}[sweep]\n{axes}");
    let two_hubs = "x = { ends = [\"a-*\", \"hub\"] }\ny = { ends = [\"a-*\", \"b-1\"] }";
    let table = [
        // No link leads to any of them, and a table for each would take 16 GB.
        (
            star("a = { count = 65000 }", "l = { ends = [\"a-*\", \"hbu\"] }", flow, ""),
            "no node is called \"hbu\"; did you mean \"hub\"?",
        ),
        (
            star(few, up, flow, "seed = 9223372036854775806\nrepetitions = 3"),
            "a seed of 9223372036854775806 with 3 repetitions is too large; the last seed may be",
        ),
        (
            star("a = { count = 65536 }", up, flow, ""),
            ":6:15: \"count\" must be 65535 or less, not 65536",
        ),
        (
            star(&format!("{pairs}\nc = {{ count = 46535 }}"), up, flow, ""),
            ":8:1: an experiment has at most 65535 nodes, not 65536; ask for fewer",
        ),
        (
            star(pairs, "l = { ends = [\"a-*\", \"b-*\"] }", flow, ""),
            "an experiment has at most 65535 links, not 90000000; ask for fewer",
        ),
        (
            star(pairs, up, "f = { app = \"bulk\", from = \"a-*\", to = \"b-*\", count = 10 }", ""),
            ":12:1: an experiment has at most 35000 flows, not 900000000; ask for fewer",
        ),
        (
            star(
                pairs,
                up,
                "f = { app = \"query\", from = \"a-*\", to = \"b-*\", response = \"1mb\" }",
                "",
            ),
            "an experiment has at most 200000 servers in its flows, not 90000000",
        ),
        (star(few, up, flow, &sweep), "the axes make 10 x 10 x 10 x 10 x 10"),
        (
            star(
                "a = { count = 9000, role = \"router\" }\nb = { count = 9000 }",
                two_hubs,
                flow,
                "",
            ),
            "9002 nodes with several links, or with routes of their own, would need 45000 routes",
        ),
        (
            star(few, up, flow, "repetitions = 50000\n[parameters]\np = 1\n[sweep]\np = [1, 2, 3]"),
            "3 points with 50000 repetitions are 150000 runs; at most 100000 are possible",
        ),
        (
            star(few, up, flow, "duration = \"60s\"\n[measure]\nsample = \"1us\""),
            ":5:10: 60000000 samples of 1 flows, 0 queues and 0 links take more than 2048 MB; \
             set \"sample\" in [measure] to 4us or more",
        ),
        (
            star(
                "a = { count = 25 }\nb = { count = 25 }",
                up,
                "f = { app = \"ping\", from = \"a-1\", to = \"b-1\" }",
                "duration = \"1s\"\n[measure]\nsample = \"1us\"\nutilisation = [\"*.*\"]",
            ),
            ":5:10: 1000000 samples of 1 flows, 0 queues and 100 links take more than 2048 MB; \
             set \"sample\" in [measure] to 2us or more",
        ),
        (
            star(few, up, flow, "[measure]\nsample = \"0s\"\nsteps = \"1s\""),
            "\"sample\" must be 1us or more",
        ),
        (
            star(
                few,
                up,
                "f = { app = \"ping\", from = \"a-1\", to = \"b-1\", interval = \"1ns\" }",
                "",
            ),
            "this makes 60000000000 probes; at most 20000000 are kept",
        ),
        (
            star(few, up, flow, "duration = \"20000000000s\""),
            ":3:12: \"20000000000s\" is too large",
        ),
        (star(few, up, flow, "duration = \"2000000000s\""), "a time may be at most 1000000000s"),
        (
            star(few, up, flow, &format!("[parameters]\np = \"{}\"", "x".repeat(1 << 20)))
                + &format!("t = [\"{}\"]", "${p}".repeat(100)),
            "the substituted parameters take more than 32 MB",
        ),
        (
            star(
                few,
                up,
                flow,
                &format!(
                    "[parameters]\nc = \"${{b}}\"\nb = \"{}\"\na = \"{}\"",
                    "${a}".repeat(64),
                    "x".repeat(1 << 20)
                ),
            ),
            "the substituted parameters take more than 32 MB",
        ),
        (
            star(&format!("{} = {{}}", "n".repeat(61)), up, flow, ""),
            "the name of a node may have at most 60 characters",
        ),
    ];
    for (text, message) in table {
        let faults = Experiment::parse("x.toml", &text, &[]).unwrap_err().to_string();
        assert!(faults.contains(message), "{message}\nis not in\n{faults}");
        assert!(faults.len() < 2_000, "{} bytes: {faults}", faults.len());
        assert!(!faults.contains("cycle"), "what follows from it is not told: {faults}");
    }
}

/// Names that results have for something else, what a sweep cannot change, tests that never begin.
#[test]
fn what_would_have_no_effect_or_two_meanings_is_refused() {
    let head = "schema = 1\nname = \"x\"\nduration = \"4s\"\nnodes = { a = {}, b = {} }\n";
    let wire = "[links.wire]\nends = [\"a\", \"b\"]\nrate = \"1mbit\"\n";
    let flow = |name: &str, app: &str| {
        format!("[flows.{name}]\napp = \"{app}\"\nfrom = \"a\"\nto = \"b\"\n")
    };
    let table = [
        (flow("total", "bulk"), ":8:8: \"total\" cannot be the name of a flow"),
        (
            flow("f", "rrul"),
            ":9:7: the streams of rrul start 5 s after the flow, and the experiment is over",
        ),
        (
            flow("f", "rrul") + "stop = \"3s\"",
            ":9:7: the streams of rrul start 5 s after the flow, and the flow stops",
        ),
        (flow("f", "bulk") + "[sweep]\nseed = [1, 2]", ":13:1: \"seed\" is the same"),
        (flow("f", "bulk") + "[sweep]\nrepetitions = [1, 2]", ":13:1: \"repetitions\" is the same"),
        (flow("f", "bulk") + "[sweep.a]\nx = { seed = 3 }", ":13:7: \"seed\" is the same"),
        (flow("f", "bulk") + "[sweep]\n\"draw.x\" = [1, 2]", ":13:1: [draw] is the same"),
        (
            flow("f", "bulk") + "[draw]\nseed = { uniform = [1, 5] }",
            ":13:1: \"seed\" is the same for all repetitions",
        ),
        (
            flow("f", "bulk") + "[draw]\n\"sweep.x\" = { choice = [1, 5] }",
            ":13:1: [sweep] is the same for all repetitions",
        ),
    ];
    for (text, message) in table {
        let text = format!("{head}{wire}{text}");
        let faults = Experiment::parse("x.toml", &text, &[]).unwrap_err().to_string();
        assert!(faults.contains(message), "{message}\nis not in\n{faults}");
    }
    let title = format!("{head}title = \"a\\u001bb\"\n{wire}{}", flow("f", "bulk"));
    let faults = Experiment::parse("x.toml", &title, &[]).unwrap_err().to_string();
    assert!(faults.contains(":5:9: a title must be one line"), "{faults}");
}

#[test]
fn a_port_that_two_patterns_name_is_watched_once() {
    let measure = "pcap = [\"r.*\", \"*.access\"]\nqueues = [\"*.*\", \"r.access\"]\n";
    let plan = Experiment::parse("x.toml", &GOOD.replace("pcap = [\"a.access\"]\n", measure), &[]);
    let measure = plan.unwrap_or_else(|faults| panic!("{faults}")).base.measure;
    for ports in [&measure.pcap, &measure.queues] {
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), ports.len());
    }
    assert_eq!(measure.pcap.len(), 3);
}
