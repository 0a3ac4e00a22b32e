//! Metrics of routes, as iproute2 6.1 prints them.

use super::*;

#[test]
fn metrics_are_shown_in_the_order_of_their_numbers() {
    for (said, shown, json) in [
        (
            "fastopen_no_cookie 1 quickack 1 initrwnd 20 rto_min 5ms features ecn initcwnd 10 \
             advmss 1000 window 9 mtu lock 1400",
            "mtu lock 1400 window 9 advmss 1000 initcwnd 10 features ecn rto_min lock 5ms \
             initrwnd 20 quickack 1 fastopen_no_cookie 1 ",
            r#"{"mtu":1400,"window":9,"advmss":1000,"initcwnd":10,"ecn":null,"rto_min":5,"initrwnd":20,"quickack":1,"fastopen_no_cookie":1}"#,
        ),
        ("features ecn", "features ecn ", r#"{"ecn":null}"#),
        (
            "congctl reno reordering 6 hoplimit 255 ssthresh 4 cwnd 3 rttvar 5ms rtt 10ms",
            "rtt 10ms rttvar 5ms ssthresh 4 cwnd 3 reordering 6 hoplimit 255 congctl reno ",
            r#"{"rtt":10,"rttvar":5,"ssthresh":4,"cwnd":3,"reordering":6,"hoplimit":255,"congestion":"reno"}"#,
        ),
        (
            "rtt lock 800ms cwnd lock 7 congctl lock cubic initcwnd lock 4 window lock 7",
            "window lock 7 rtt lock 800ms cwnd lock 7 initcwnd lock 4 congctl lock cubic ",
            r#"{"window":7,"rtt":800,"cwnd":7,"initcwnd":4,"congestion":"cubic"}"#,
        ),
        ("rtt 801ms", "rtt 801ms ", r#"{"rtt":801}"#),
        ("rtt 1.5s", "rtt 1.5s ", r#"{"rtt":1500}"#),
        ("rtt 12.3ms", "rtt 13ms ", r#"{"rtt":13}"#),
        ("rtt 5msecs", "rtt 5ms ", r#"{"rtt":5}"#),
        ("rtt .5ms", "rtt 1ms ", r#"{"rtt":1}"#),
        ("rttvar 200ms", "rttvar 200ms ", r#"{"rttvar":200}"#),
        ("ssthresh 4294967295", "ssthresh 4294967295 ", r#"{"ssthresh":4294967295}"#),
        ("rto_min 999ms", "rto_min lock 999ms ", r#"{"rto_min":999}"#),
        ("rto_min 1s", "rto_min lock 1s ", r#"{"rto_min":1000}"#),
        ("rto_min 1.25s", "rto_min lock 1.25s ", r#"{"rto_min":1250}"#),
        ("rto_min 5500us", "rto_min lock 5500us ", r#"{"rto_min":5.5}"#),
    ] {
        let mut ip = router();
        ip.run(&format!("route add 28.0.0.0/8 via 10.0.2.9 dev a2 onlink {said}")).expect(said);
        let line = format!("28.0.0.0/8 via 10.0.2.9 dev a2 onlink {shown}\n");
        assert_eq!(ip.run("route show 28.0.0.0/8").unwrap(), line);
        ip.run(&format!("route replace {}", line.trim_end())).expect("what is shown is read");
        assert_eq!(ip.run("route show 28.0.0.0/8").unwrap(), line);
        let end = format!(r#""dev":"a2","flags":["onlink"],"metrics":[{json}]}}]"#);
        let listed = ip.run("-j route show 28.0.0.0/8").unwrap();
        assert!(listed.ends_with(&end), "{listed}");
        let answer = ip.run("route get 28.1.1.1").unwrap();
        assert!(answer.ends_with(&format!("\n    cache {shown}\n")), "{answer}");
        let answer = ip.run("-j route get 28.1.1.1").unwrap();
        assert!(answer.ends_with(&format!(r#""cache":[],"metrics":[{json}]}}]"#)), "{answer}");
    }
    // Without a unit they are said in eighths and quarters of a ms. What is left of one is not shown, nor is a seventh
    // digit.
    for (said, shown) in [
        ("rtt 801", "rtt 100ms "),
        ("rttvar 800", "rttvar 200ms "),
        ("rttvar 3", "rttvar 0ms "),
        ("rtt 1000000", "rtt 125s "),
        ("rtt 151969.024s", "rtt 151969s "),
        ("rtt 0", ""),
        ("cwnd 0", ""),
        ("hoplimit 0", ""),
    ] {
        let mut ip = router();
        ip.run(&format!("route add 28.0.0.0/8 via 10.0.2.9 dev a2 onlink {said}")).expect(said);
        let line = format!("28.0.0.0/8 via 10.0.2.9 dev a2 onlink {shown}\n");
        assert_eq!(ip.run("route show 28.0.0.0/8").unwrap(), line);
    }
    let mut ip = router();
    for wrong in [
        "rtt 100us",
        "rtt x",
        "rtt 5m",
        "rtt 1e3",
        "rtt .",
        "hoplimit 300",
        "cwnd x",
        "cwnd -1",
        "congctl nosuch",
        "congctl lock",
        "quickack lock 1",
        "reordering 4294967296",
    ] {
        ip.run(&format!("route add 28.0.0.0/8 via 10.0.2.9 {wrong}")).expect_err(wrong);
    }
    for wrong in ["rto_min 1.2345678s", "rto_min 1.s5", "rto_min .5s", "rto_min 1.-5s"] {
        ip.run(&format!("route add 28.0.0.0/8 via 10.0.2.9 {wrong}")).expect_err(wrong);
    }
    ip.run("-6 route add fd28::/64 via fd00:1::2 mtu 1400").unwrap();
    let answer = ip.run("-6 route get fd28::1").unwrap();
    assert!(answer.ends_with("metric 1024 mtu 1400 pref medium\n"), "{answer}");
}
