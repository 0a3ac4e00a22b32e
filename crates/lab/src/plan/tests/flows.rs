//! Flows and their applications.

use super::*;

#[test]
fn every_application_is_read_and_misses_what_it_needs() {
    let table: [(&str, &str, App); 6] = [
        (
            "chunk",
            "chunk = \"1kb\"\ngap = \"1ms\"",
            App::Chunk { chunk: 1024, gap: Duration::from_millis(1), bytes: None },
        ),
        (
            "request",
            "request = 1\nresponse = 2\nrequests = 3",
            App::Request { request: 1, response: 2, think: Duration::ZERO, count: Some(3) },
        ),
        (
            "on-off",
            "on = \"1s\"\noff = \"2s\"",
            App::OnOff { on: Duration::from_secs(1), off: Duration::from_secs(2) },
        ),
        ("cbr", "rate = \"1mbit\"", App::Cbr { rate: Rate::from_mbit(1), size: 1200 }),
        ("ping", "", App::Ping { interval: Duration::from_millis(200), size: 56 }),
        ("probe", "size = 1", App::Probe { interval: Duration::from_millis(20), size: 1 }),
    ];
    let with = |app: &str, keys: &str| {
        let text = GOOD.replacen("app = \"fixed\"", &format!("app = \"{app}\""), 1).replacen(
            "bytes = \"1gb\"",
            keys,
            1,
        );
        Experiment::parse("demo.toml", &text, &[])
    };
    for (name, keys, app) in table {
        let plan = with(name, keys).unwrap_or_else(|faults| panic!("{faults}")).base;
        assert_eq!(plan.flows[0].app, app);
        let first = keys.split(" = ").next().unwrap_or("");
        if !["", "size"].contains(&first) {
            let fault = &with(name, "").unwrap_err().0[0];
            assert_eq!(fault.message, format!("\"{first}\" is missing"), "{name}");
        }
    }
}

#[test]
fn programs_need_a_kernel() {
    let program = "program = [\"iperf3\", \"-c\", \"{to}\"]";
    let text = GOOD
        .replacen("app = \"fixed\"", &format!("app = \"program\"\n{program}"), 1)
        .replacen("bytes = \"1gb\"", "", 1);
    let fault = &Experiment::parse("demo.toml", &text, &[]).unwrap_err().0[0];
    assert!(fault.message.starts_with("a program needs a kernel's stack"), "{}", fault.message);
    let text = text.replacen("duration", "stack = \"kernel\"\nduration", 1);
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    let program = ["iperf3", "-c", "{to}"].map(String::from).to_vec();
    assert_eq!(plan.flows[0].app, App::Program { program, server: Vec::new() });
    let empty = text.replace("[\"iperf3\", \"-c\", \"{to}\"]", "[]");
    assert!(Experiment::parse("demo.toml", &empty, &[]).is_err());
}

#[test]
fn rrul_is_eight_streams_and_four_probes() {
    let text = GOOD.replace("app = \"fixed\"", "app = \"rrul\"").replace("bytes = \"1gb\"", "");
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap().base;
    assert_eq!(plan.flows.len(), 12);
    assert_eq!(plan.flows.iter().filter(|flow| flow.app.is_tcp()).count(), 8);
    assert_eq!(plan.flows[3].tos, 0xb8);
    assert_eq!(plan.flows[4].from, plan.flows[0].to);
}

/// One word stands for many nodes, links, ports and flows.
#[test]
fn counts_and_patterns_make_many() {
    let text = GOOD
        .replace("[nodes.a]", "[nodes.a]\ncount = 3")
        .replace("ends = [\"a\", \"r\"]", "ends = [\"a-*\", \"r\"]")
        .replace("from = \"a\"", "from = \"a-*\"")
        .replace("\"r.access\" =", "\"r.access-*\" =")
        .replace("pcap = [\"a.access\"]", "pcap = [\"a-*.access-*\"]");
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    let names = |list: Vec<&str>| list.into_iter().map(String::from).collect::<Vec<_>>();
    let nodes: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
    assert_eq!(nodes, names(vec!["a-1", "a-2", "a-3", "r", "b"]));
    let links: Vec<String> = plan.links.iter().map(|link| link.name.clone()).collect();
    assert_eq!(links, names(vec!["access-1", "access-2", "access-3", "wire"]));
    assert_eq!(plan.links[2].ends, [2, 3]);
    assert!(plan.links[..3].iter().all(|link| link.ports[1].police.is_some()));
    let flows: Vec<(String, usize)> =
        plan.flows.iter().map(|flow| (flow.name.clone(), flow.from)).collect();
    let named = |number: usize| (format!("bulk-{number}"), number - 1);
    assert_eq!(flows, [named(1), named(2), named(3)]);
    assert!(plan.flows.iter().all(|flow| flow.group.as_deref() == Some("bulk")));
    assert_eq!(plan.measure.pcap.len(), 3);
}

/// Nothing would come of it but a connection between two kinds of addresses.
#[test]
fn a_flow_stays_within_one_family_of_addresses() {
    let text = |address: &str| {
        format!(
            "schema = 1\nname = \"families\"\nnodes = {{ a = {{}}, r = {{ role = \"router\" }}, b = {{}} }}\n\
             [links]\nl = {{ ends = [\"a\", \"r\"], delay = \"1ms\" }}\n\
             m = {{ ends = [\"r\", \"b\"], addresses = [\"2001:db8::1/64\", \"2001:db8::2/64\"] }}\n\
             [flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n{address}\n"
        )
    };
    let faults = Experiment::parse("x.toml", &text(""), &[]).unwrap_err().to_string();
    let message =
        "7:8: the first address of \"a\" is IPv4, but \"b\" is IPv6; give their first links";
    assert!(faults.contains(message), "{faults}");
    assert!(Experiment::parse("x.toml", &text("address = \"10.9.0.1\""), &[]).is_ok());
}

/// Two programs of one host cannot have one port, and routers have no programs: this holds for those
/// named in `also` and for all servers of a query, too.
#[test]
fn every_host_that_answers_is_checked() {
    let text = |keys: &str| {
        format!(
            "schema = 1\nname = \"answers\"\n[nodes]\na = {{}}\nb = {{}}\nc = {{}}\nd = {{}}\n\
             r = {{ role = \"router\" }}\n[links]\nl = {{ ends = [\"a\", \"r\"], delay = \"1ms\" }}\n\
             m = {{ ends = [\"r\", \"b\"], delay = \"1ms\" }}\nn = {{ ends = [\"r\", \"c\"] }}\n\
             o = {{ ends = [\"c\", \"d\"] }}\n[flows]\nf = {{ from = \"a\", {keys} }}\n"
        )
    };
    let cbr = "app = \"cbr\", rate = \"1mbit\", to = \"b\", also";
    let query = "app = \"query\", response = 1000, to";
    for (keys, hosts, message) in [
        (cbr, "[\"b\"]", Some("\"b\" is named twice: it answers once")),
        (cbr, "[\"c\", \"c\"]", Some("\"c\" is named twice: it answers once")),
        (cbr, "[\"r\"]", Some("\"r\" is a router and runs no applications")),
        (cbr, "[\"c\"]", None),
        (query, "[\"b\", \"b\"]", Some("\"b\" is named twice: it answers once")),
        (query, "[\"b\", \"r\"]", Some("\"r\" is a router and runs no applications")),
        (query, "[\"b\", \"a\"]", Some("a flow needs two different hosts")),
        (query, "[\"b\", \"d\"]", Some("no path from \"a\" to \"d\"")),
        (query, "[\"b\", \"c\"]", None),
    ] {
        let parsed = Experiment::parse("x.toml", &text(&format!("{keys} = {hosts}")), &[]);
        match (parsed, message) {
            (Ok(_), None) => (),
            (Err(faults), Some(message)) => {
                let place = format!("x.toml:15:1: {message}");
                let faults = faults.to_string();
                assert!(faults.contains(&place) || faults.contains("no path"), "{hosts}: {faults}");
                assert!(faults.contains(message), "{hosts}: {faults}");
            }
            (parsed, _) => panic!("{hosts}: {:?}", parsed.map(|_| "valid")),
        }
    }
}

/// A ping needs no program that answers, and a query asks all hosts of `to`: `also` would do nothing, and is refused where it stands.
#[test]
fn also_is_refused_where_it_has_no_effect() {
    let text = |app: &str| {
        format!(
            "schema = 1\nname = \"also\"\nnodes = {{ a = {{}}, b = {{}}, c = {{}} }}\n\
             [links]\nl = {{ ends = [\"a\", \"b\"], delay = \"1ms\" }}\n\
             m = {{ ends = [\"b\", \"c\"], delay = \"1ms\" }}\n\
             [flows.f]\nfrom = \"a\"\nto = \"b\"\nalso = [\"c\"]\n{app}\n"
        )
    };
    for (app, why) in [
        ("app = \"ping\"", "a ping is answered without a program"),
        ("app = \"query\"\nresponse = 9", "a query asks all hosts of \"to\""),
    ] {
        let faults = Experiment::parse("x.toml", &text(app), &[]).expect_err(app).to_string();
        assert!(
            faults.contains(&format!("x.toml:10:8: \"also\" has no effect: {why}")),
            "{faults}"
        );
    }
    let request = text("app = \"request\"\nrequest = 9\nresponse = 9");
    let taken = Experiment::parse("x.toml", &request, &[]);
    assert!(taken.is_ok_and(|experiment| experiment.base.flows[0].anycast_hosts == [2]));
}

/// Questions and answers over wires that take no time would go on for ever within one moment.
#[test]
fn a_path_without_any_delay_is_refused() {
    let text = |app: &str, link: &str| {
        format!(
            "schema = 1\nname = \"instant\"\nnodes = {{ a = {{}}, b = {{}} }}\n\
             [links.wire]\nends = [\"a\", \"b\"]\n{link}\n\
             [flows.f]\napp = \"{app}\"\nfrom = \"a\"\nto = \"b\"\n"
        )
    };
    let faults = Experiment::parse("x.toml", &text("bulk", ""), &[]).unwrap_err().to_string();
    assert!(
        faults.contains(":7:8: the path from \"a\" to \"b\" and back takes no time"),
        "{faults}"
    );
    let queue = |qdisc: &str| text("bulk", &format!("[qdisc]\n\"a.wire\" = \"{qdisc}\""));
    for queue in ["pfifo", "fq_codel limit 5", "cake"].map(queue) {
        let faults = Experiment::parse("x.toml", &queue, &[]).unwrap_err().to_string();
        assert!(faults.contains("takes no time"), "{queue}: {faults}");
    }
    for good in [
        text("ping", ""),
        text("bulk", "rate = \"1gbit\""),
        text("bulk", "delay = \"1ns\""),
        queue("tbf rate 1mbit burst 5k limit 10k"),
        queue("cake bandwidth 1mbit"),
        queue("netem delay 1ms"),
    ] {
        assert!(Experiment::parse("x.toml", &good, &[]).is_ok(), "{good}");
    }
}

/// Lists, patterns with several `*`, and pairs.
#[test]
fn hosts_are_named_by_lists_and_joined_in_pairs() {
    let flows = |from: &str, to: &str, pair: &str| {
        let text = format!(
            "schema = 1\nname = \"pairs\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\n\
             spines = 1\nhosts = 3\nrate = \"1gbit\"\n[flows.f]\napp = \"bulk\"\nfrom = {from}\n\
             to = {to}\npair = \"{pair}\"\n"
        );
        let plan = Experiment::parse("p.toml", &text, &[]).map(|experiment| experiment.base)?;
        let name = |node: usize| plan.nodes[node].name.clone();
        let both = |flow: &FlowPlan| format!("{} {}", name(flow.from), name(flow.to));
        Ok::<_, Diagnostics>(plan.flows.iter().map(both).collect::<Vec<_>>())
    };
    let pairs = flows("\"host-1-*\"", "\"host-2-*\"", "one-to-one").unwrap();
    assert_eq!(pairs, ["host-1-1 host-2-1", "host-1-2 host-2-2", "host-1-3 host-2-3"]);
    let both = flows("[\"host-*-1\", \"host-1-2\"]", "\"h*-2-3\"", "product").unwrap();
    assert_eq!(both, ["host-1-1 host-2-3", "host-2-1 host-2-3", "host-1-2 host-2-3"]);
    let fault = flows("\"host-1-*\"", "\"host-2-1\"", "one-to-one").unwrap_err();
    assert!(fault.to_string().contains("these are 3 and 1"), "{fault}");
    let fault = flows("[]", "\"host-2-1\"", "product").unwrap_err();
    assert!(
        fault.to_string().contains("p.toml:11:8: \"from\" must name at least one host"),
        "{fault}"
    );
}
