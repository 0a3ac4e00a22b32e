//! Comparing what was recorded with what was computed, as JSON.

use serde_json::Value;

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where it is.
    pub path: String,
    /// What was recorded.
    pub expected: String,
    /// What was computed.
    pub got: String,
}

/// The first field of `expected`, in its order, that is not the same in `got`; keys that are
/// `ignored` are passed over. Counts what was compared.
pub fn first_difference(
    path: &str,
    expected: &Value,
    got: &Value,
    ignored: &impl Fn(&str) -> bool,
    compared: &mut u64,
) -> Option<Field> {
    match (expected, got) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().filter(|(key, _)| !ignored(key)).find_map(|(key, value)| {
                first_difference(&format!("{path}.{key}"), value, &got[key], ignored, compared)
            })
        }
        (Value::Array(items), Value::Array(others)) => {
            let inner = items.iter().zip(others).enumerate().find_map(|(at, (item, other))| {
                first_difference(&format!("{path}[{at}]"), item, other, ignored, compared)
            });
            let same_len = items.len() == others.len();
            inner.or_else(|| {
                (!same_len).then(|| Field {
                    path: format!("{path}.len"),
                    expected: items.len().to_string(),
                    got: others.len().to_string(),
                })
            })
        }
        (expected, got) if expected == got => {
            *compared += 1;
            None
        }
        (expected, got) => Some(Field {
            path: path.to_owned(),
            expected: expected.to_string(),
            got: got.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_has_a_path() {
        let expected = json!({ "a": 1, "way_x": 2, "tins": [{ "drops": 3 }, { "drops": 4 }] });
        let got = json!({ "a": 1, "way_x": 9, "tins": [{ "drops": 3 }, { "drops": 5 }] });
        let mut compared = 0;
        let ways = |key: &str| key.starts_with("way");
        let field = first_difference("qdisc", &expected, &got, &ways, &mut compared).unwrap();
        assert_eq!((field.path.as_str(), compared), ("qdisc.tins[1].drops", 2));
        assert_eq!((field.expected.as_str(), field.got.as_str()), ("4", "5"));
        let shorter = json!({ "a": 1, "tins": [{ "drops": 3 }] });
        let field = first_difference("qdisc", &expected, &shorter, &ways, &mut compared).unwrap();
        assert_eq!(field.path, "qdisc.tins.len");
    }
}
