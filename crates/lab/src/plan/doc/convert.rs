//! TOML as a tree whose values know where they stand.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Document, Key, Kind, Node, Origin};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::read::NOTED;

/// A table, in the order of the file.
pub(super) fn convert_table(
    span: Range<usize>,
    table: &DeTable<'_>,
    document: &Document,
    faults: &mut Vec<Diagnostic>,
) -> Node {
    let mut entries: Vec<(Key, Node)> = table
        .iter()
        .map(|(key, value)| {
            let name = Key { name: key.get_ref().to_string(), at: Origin::File(key.span()) };
            (name, convert_value(value, document, faults))
        })
        .collect();
    entries.sort_by_key(|(key, _)| match &key.at {
        Origin::File(span) => span.start,
        Origin::Override(_) => 0,
    });
    Node { kind: Kind::Table(entries), at: Origin::File(span) }
}

/// A value; what no experiment can have is a fault, and stands as a placeholder.
pub(super) fn convert_value(
    value: &Spanned<DeValue<'_>>,
    document: &Document,
    faults: &mut Vec<Diagnostic>,
) -> Node {
    let at = Origin::File(value.span());
    let mut bad = |message: &str| {
        if faults.len() < NOTED {
            faults.push(document.fault(&at, 0, message.into(), None));
        }
        Kind::Bool(false)
    };
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Kind::Int(number),
            Err(_) => bad("the number is too large"),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Kind::Float(number),
            _ => bad("the number is not finite"),
        },
        DeValue::Boolean(truth) => Kind::Bool(*truth),
        DeValue::Datetime(_) => bad("a date has no meaning in an experiment"),
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|item| convert_value(item, document, faults)).collect())
        }
        DeValue::Table(table) => return convert_table(value.span(), table, document, faults),
    };
    Node { kind, at }
}
