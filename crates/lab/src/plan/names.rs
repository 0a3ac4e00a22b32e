//! Names of nodes and links: which are valid, and which nodes one means.

use std::collections::BTreeSet;

use super::diagnostic::suggest;
use super::doc::{Key, Origin};
use super::limits::NAME_MAX;
use super::model::NodePlan;
use super::read::Faults;

/// Names go into file names and port names.
pub fn check_name(key: &Key, what: &str, faults: &Faults<'_>) {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.name.is_empty() || !key.name.chars().all(valid) {
        let message =
            format!("the name of a {what} may hold letters, digits, \"-\" and \"_\" only");
        faults.add(&key.at, message, None);
    } else if key.name.len() > NAME_MAX {
        let message = format!("the name of a {what} may have at most {NAME_MAX} characters");
        faults.add(&key.at, message, None);
    }
}

/// What is called alike would share files and ports: `a-1` beside `a` with a count.
pub fn check_unique<'a>(
    what: &str,
    names: impl Iterator<Item = &'a str>,
    places: &[&Origin],
    faults: &Faults<'_>,
) {
    let mut known = BTreeSet::new();
    for (name, at) in names.zip(places) {
        if !known.insert(name) {
            faults.add(at, format!("another {what} is called \"{name}\" too"), None);
        }
    }
}

/// The index of the node called `name`; a fault that names the nearest one if there is none.
fn node_index(name: &str, at: &Origin, nodes: &[NodePlan], faults: &Faults<'_>) -> Option<usize> {
    let found = nodes.iter().position(|node| node.name == name);
    if found.is_none() {
        let help = suggest(name, nodes.iter().map(|node| node.name.as_str()));
        faults.add(at, format!("no node is called \"{name}\""), help);
    }
    found
}

/// The nodes that `name` means: one, or with `*` every node whose name fits.
pub fn node_indices(
    name: &str,
    at: &Origin,
    nodes: &[NodePlan],
    faults: &Faults<'_>,
) -> Vec<usize> {
    if !name.contains('*') {
        return node_index(name, at, nodes, faults).into_iter().collect();
    }
    let fits = |(_, node): &(usize, &NodePlan)| matches(name, &node.name);
    let found: Vec<usize> = nodes.iter().enumerate().filter(fits).map(|(index, _)| index).collect();
    if found.is_empty() {
        faults.add(at, format!("no node is called like \"{name}\""), None);
    }
    found
}

/// True if `name` is like `pattern`, in which one `*` stands for anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

/// `NAME`, or `NAME-1` to `NAME-count`.
pub fn numbered(name: &str, count: Option<i64>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|number| format!("{name}-{number}")).collect(),
    }
}
