use super::*;
use serde_json::json;

/// A recording made by hand from the golden vectors: two hops, three packets.
fn small(hop: &str) -> Vec<Value> {
    let hop_of = |index: u32| {
        json!({
            "dev": format!("a{index}"),
            "via": format!("10.0.{index}.2"),
            "weight": 1,
            "index": index,
        })
    };
    let hops: Vec<Value> = (1..=4).map(hop_of).collect();
    vec![
        json!({"type": "header", "kernel": "6.18"}),
        json!({"type": "tuple_sets", "sets": {"t": [
            ["192.0.2.1", "198.18.0.9", 6, 1024, 80],
            ["192.0.2.1", "198.18.0.9", 6, 1025, 80],
            ["10.9.0.7", "198.18.1.1", 0, 0, 0],
        ]}}),
        json!({
            "type": "route_get", "path": "input", "policy": 1, "seed": 12345,
            "hops": hops, "tuples": "t", "hop": hop,
        }),
    ]
}

#[test]
fn golden_choices_pass() {
    let scenarios = replay(&small("221")).unwrap();
    assert_eq!(scenarios.len(), 1);
    assert_eq!((&scenarios[0].verdict, scenarios[0].compared), (&Verdict::Passed, 3));
}

#[test]
fn one_altered_hop_fails_at_that_hop() {
    for (altered, index) in [("121", 0), ("231", 1), ("224", 2), ("22", 2)] {
        let scenarios = replay(&small(altered)).unwrap();
        let Verdict::Failed(divergence) = &scenarios[0].verdict else {
            panic!("{altered} passed");
        };
        assert_eq!((divergence.index, divergence.field.as_str()), (Some(index), "hop"));
    }
}

#[test]
fn malformed_records_name_their_line() {
    for broken in [json!({"type": "route_get"}), json!({"type": "other"}), json!({})] {
        let mut lines = small("221");
        lines.push(broken);
        assert!(matches!(replay(&lines), Err(Error::Format { line: 4, .. })));
    }
}
