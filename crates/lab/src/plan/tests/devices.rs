//! What stands at the ends of links: offloads, qdiscs, trouble, shared buffers.

use super::*;

#[test]
fn devices_cut_and_merge_as_their_nodes_say() {
    let with = |words: &str| {
        let text = GOOD.replacen("[nodes.b]", &format!("[nodes.b]\n{words}"), 1);
        Experiment::parse("demo.toml", &text, &[])
    };
    let words = "offload = \"nic\"\ngro = \"on\"\nrx_usecs = 50\nsysctl.net.ipv4.ipfrag_time = 5";
    let plan = with(words).unwrap_or_else(|faults| panic!("{faults}")).base;
    let of = |node: usize| {
        let node = &plan.nodes[node];
        (node.offload, node.gro, node.rx_usecs)
    };
    assert_eq!((of(0), of(2)), ((Offload::Off, false, 0), (Offload::Nic, true, 50)));
    assert_eq!(plan.nodes[2].sysctls.last().expect("one").name, "net.ipv4.ipfrag_time");
    for (words, message) in [
        ("gro = \"of\"", "\"on\" or \"off\""),
        ("rx_usecs = -1", "\"rx_usecs\" must be 0 or more"),
        ("rx_usecs = 2000000", "\"rx_usecs\" must be"),
        ("offload = \"card\"", "not a valid offload"),
        ("sysctl.net.ipv4.ipfrag_time = \"soon\"", "whole number"),
        ("sysctl.net.ipv4.ipfrag_tim = 3", "is not modelled"),
    ] {
        let faults = with(words).unwrap_err();
        assert!(faults.0[0].message.contains(message), "{words}: {}", faults.0[0]);
    }
}

#[test]
fn qdiscs_can_be_trees() {
    let tree = |second: &str| {
        let list = format!("[\"root handle 1: prio bands 3\", \"{second}\"]");
        let text = GOOD.replacen("\"pfifo limit 1000\"", &list, 1);
        Experiment::parse("demo.toml", &text, &[])
    };
    let good = tree("parent 1:1 fq_codel").unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(good.base.links[1].ports[0].qdiscs.len(), 2);
    let fault = &tree("parent 1:9 fq_codel").unwrap_err().0[0];
    assert_eq!(fault.position, Some((31, 44)), "{fault}");
    let fault = &tree("parent 1:1 fq_codle").unwrap_err().0[0];
    assert_eq!(fault.position, Some((31, 56)), "{fault}");
}

#[test]
fn a_port_name_takes_precedence_over_a_pattern() {
    let of_port = |lines: &str| {
        let text = GOOD.replacen("\"r.wire\" = \"pfifo limit 1000\"", lines, 1);
        let good = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        good.base.links[1].ports[0].qdiscs.join(" ")
    };
    let (name, pattern) = ("\"r.wire\" = \"pfifo\"", "\"r.*\" = \"fq\"");
    assert_eq!(of_port(&format!("{name}\n{pattern}")), "pfifo");
    assert_eq!(of_port(&format!("{pattern}\n{name}")), "pfifo");
    assert_eq!(of_port(&format!("{pattern}\n\"*.wire\" = \"codel\"")), "codel");
}

#[test]
fn trouble_on_links_is_read_per_direction() {
    let trouble = "rtt = \"${rtt}\"\nloss = \"0.1%\"\nrules = [\"f data 100 drop\"]\n\
                   [links.wire.backward]\nloss = \"50%\"\nrate = \"1mbit\"";
    let text = GOOD.replacen("rtt = \"${rtt}\"", trouble, 1);
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap().base;
    let [forward, backward] = &plan.links[1].directions;
    assert_eq!((forward.loss, backward.loss), (1_000, 500_000));
    assert_eq!(backward.rate.unwrap().bits_per_sec(), 1_000_000);
    assert_eq!(backward.delay.as_millis(), 10);
    assert_eq!((forward.rules.len(), backward.rules.len()), (1, 1));
    let bad = text.replace("f data 100 drop", "f data 100 dorp");
    let fault = &Experiment::parse("demo.toml", &bad, &[]).unwrap_err().0[0];
    assert_eq!(fault.position, Some((27, 10)));
}

#[test]
fn dctcp_and_switches_have_their_words() {
    let text = GOOD
        .replace("role = \"router\"", "role = \"router\"\nbuffer = 4_000_000\nbuffer_alpha = \"1/4\"")
        .replace(
            "[nodes.a]",
            "[nodes.a]\ndctcp_ack = \"b0c05d0e99\"\ndctcp_shift_g = 6\ndctcp_alpha_on_init = 0\n\
             dctcp_syn_ect = false",
        )
        .replace(
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\", \
             \"parent 1:1 handle 10: red limit 400000 min 75000 max 75000 avpkt 1500 burst 51 \
             probability 1 ecn\", \"filter parent 1: protocol ip prio 1 u32 match ip dsfield 0x04 0xfc \
             flowid 1:1\"]",
        )
        + "\n[routes.a]\nb = \"access features ecn\"\n";
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    let buffer = plan.nodes[1].buffer.expect("a shared buffer");
    assert_eq!((buffer.bytes, buffer.alpha), (4_000_000, (1, 4)));
    assert_eq!(plan.nodes[0].dctcp_ack, Some(DctcpAck::DelayNew));
    assert_eq!((plan.nodes[0].dctcp.shift_g, plan.nodes[0].dctcp.alpha_on_init), (6, 0));
    assert!(!plan.nodes[0].dctcp_syn_ect && plan.nodes[2].dctcp_syn_ect);
    assert_eq!(plan.route_features, [((0, 2), Features::ECN)].into());
    assert_eq!(plan.links[1].ports[0].qdiscs.len(), 3);
}

/// A number without quotes is what a file, and `--set`, give for it first of all.
#[test]
fn a_share_of_the_buffer_is_a_number_or_a_fraction() {
    let alpha = |value: &str| {
        let line = format!("role = \"router\"\nbuffer = 1000\nbuffer_alpha = {value}");
        let text = GOOD.replace("role = \"router\"", &line);
        let plan =
            Experiment::parse("demo.toml", &text, &[]).map_err(|faults| faults.to_string())?;
        Ok::<_, String>(plan.base.nodes[1].buffer.expect("a shared buffer").alpha)
    };
    for (value, expected) in [
        ("2", (2, 1)),
        ("0.25", (25, 100)),
        ("\"0.5\"", (5, 10)),
        ("\"8\"", (8, 1)),
        ("\"7/33\"", (7, 33)),
    ] {
        assert_eq!(alpha(value), Ok(expected), "{value}");
    }
    for value in ["0", "0.0", "-1", "-0.5", "\"1/0\"", "\"x\"", "\"\"", "true", "\"1/-2\""] {
        let fault = alpha(value).expect_err(value);
        assert!(fault.contains("must be a positive number"), "{value}: {fault}");
    }
}
