//! What ours did beside what the kernel did: packet by packet, then snapshot by snapshot.

use super::super::json::{Field, first_difference};
use super::super::report::Divergence;
use super::{Departure, Input, Run};
use serde_json::Value;
use std::fmt::Display;

/// What a file says about the kernel's random numbers.
#[derive(Clone, Copy)]
pub(super) struct KnownRandomness {
    /// Dither and BLUE's draws are constant.
    pub(super) fixed: bool,
    /// So is the key of the flow hash.
    pub(super) keyed: bool,
}

/// The first difference between what we did and what the kernel did.
pub(super) fn compare(
    inputs: &[Input],
    run: &Run,
    variant: &Value,
    known: KnownRandomness,
    compared: &mut u64,
) -> Result<Option<Divergence>, String> {
    let expected = departures(inputs, variant)?;
    for (at, want) in expected.iter().enumerate() {
        let Some(got) = run.out.get(at) else {
            return Ok(Some(departed(at, "out.index", want.time, want.index, "nothing")));
        };
        let fields = [
            ("out.index", want.index, got.index),
            ("out.time", want.time, got.time),
            ("out.tos", u64::from(want.tos), u64::from(got.tos)),
            ("out.len", want.len, got.len),
        ];
        for (field, want_value, got_value) in fields {
            if want_value != got_value {
                return Ok(Some(departed(at, field, want.time, want_value, got_value)));
            }
            *compared += 1;
        }
    }
    if let Some(extra) = run.out.get(expected.len()) {
        let divergence = departed(expected.len(), "out.index", extra.time, "nothing", extra.index);
        return Ok(Some(divergence));
    }
    Ok(compare_snapshots(run, variant, known, compared))
}

fn departed(
    at: usize,
    field: &str,
    time: u64,
    expected: impl Display,
    got: impl Display,
) -> Divergence {
    Divergence {
        time: Some(time),
        index: Some(at as u64),
        field: field.to_owned(),
        expected: expected.to_string(),
        got: got.to_string(),
    }
}

/// What the kernel sent, with everything filled in that the file leaves out because it is as the
/// packet came.
fn departures(inputs: &[Input], variant: &Value) -> Result<Vec<Departure>, String> {
    let out = variant["out"].as_array().ok_or("a variant without out")?;
    let departure = |fields: &Value| {
        let index = fields[1].as_u64().ok_or("a departure without index")?;
        let input = inputs.get(index as usize).ok_or("a departure of no packet")?;
        let tos = fields[2].as_u64().map_or(input.packet.network.tos(), |tos| tos as u8);
        let len = fields[3].as_u64().unwrap_or(u64::from(input.packet.len()));
        Ok(Departure {
            time: fields[0].as_u64().ok_or("a departure without time")?,
            index,
            tos,
            len,
        })
    };
    out.iter().map(departure).collect()
}

fn compare_snapshots(
    run: &Run,
    variant: &Value,
    KnownRandomness { fixed, keyed }: KnownRandomness,
    compared: &mut u64,
) -> Option<Divergence> {
    let snapshots = variant["snaps"].as_array()?;
    for (expected, got) in snapshots.iter().zip(&run.snapshots) {
        let time = Some(got.time);
        let path = format!("snaps.{}", expected["label"].as_str().unwrap_or("?"));
        let mut differ = |field: &str, expected: &Value, got: &Value| {
            let ignored = |key: &str| ignored(key, keyed);
            let found =
                first_difference(&format!("{path}.{field}"), expected, got, &ignored, compared);
            found.map(|Field { path, expected, got }| Divergence {
                time,
                index: None,
                field: path,
                expected,
                got,
            })
        };
        if let Some(divergence) = differ("qdisc", &expected["qdisc"], &got.qdisc) {
            return Some(divergence);
        }
        // Deficits carry the dither.
        if fixed {
            let listed =
                |classes: &Value| sorted(classes.as_array().cloned().unwrap_or_default(), keyed);
            let classes = listed(&expected["classes"]);
            let moments: Vec<Value> = got.classes.iter().map(listed).collect();
            let seen = as_dumped(&classes, &moments);
            if let Some(divergence) = differ("classes", &classes, &seen) {
                return Some(divergence);
            }
        }
    }
    None
}

/// Our classes as a dump shows them that lasts some microseconds, in which packets come and go:
/// each class as it was at some moment of it, by preference one at which it is as `expected`.
fn as_dumped(expected: &Value, moments: &[Value]) -> Value {
    let first = moments.first().cloned().unwrap_or_default();
    let (Value::Array(expected), Value::Array(mut seen)) = (expected, first) else {
        return Value::Null;
    };
    for (want, got) in expected.iter().zip(&mut seen) {
        let mut others = moments.iter().filter_map(Value::as_array).flatten();
        if want != got && others.any(|other| other == want) {
            *got = want.clone();
        }
    }
    Value::Array(seen)
}

/// Fields that tell of the machine the recording was made on, or that depend on the hash key where
/// that isn't known.
fn ignored(key: &str, keyed: bool) -> bool {
    matches!(key, "handle" | "root" | "refcnt") || !keyed && key.starts_with("way_")
}

/// Classes in the order of their numbers, if these are known to agree; if not, in one that depends
/// neither on them, which come from the hash, nor on the time of the snapshot.
fn sorted(mut classes: Vec<Value>, keyed: bool) -> Value {
    if keyed {
        classes.sort_by_key(|class| class["minor"].as_u64());
        return Value::Array(classes);
    }
    // Recordings without a key do not tell the numbers.
    for class in &mut classes {
        class.as_object_mut().map(|fields| fields.remove("minor"));
    }
    classes.sort_by_cached_key(|class| {
        let cobalt = class["cobalt"].as_str().unwrap_or("");
        let timeless = cobalt.split(' ').filter(|word| !word.ends_with('s'));
        let timeless: Vec<String> = timeless.map(str::to_owned).collect();
        (class["tin"].as_u64(), class["dropped"].as_u64(), class["backlog"].to_string(), timeless)
    });
    Value::Array(classes)
}
