//! Names of nodes and links: which are valid, and which nodes one means.

use std::collections::BTreeSet;

use super::diagnostic::suggest;
use super::doc::{Key, Origin};
use super::limits::NAME_MAX;
use super::model::NodePlan;
use super::read::Faults;

/// Names go into file names and port names: letters, digits, `-` and `_`.
pub fn is_name(text: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(valid)
}

/// A fault unless the key is a name that is not too long.
pub fn check_name(key: &Key, what: &str, faults: &Faults<'_>) {
    if !is_name(&key.name) {
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

/// True if `name` is like `pattern`, in which each `*` stands for anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut name) = name.strip_suffix(tail) else { return false };
    // Each part as early as it can be: what is left is the longest.
    middle.split('*').all(|part| match name.split_once(part) {
        Some((_, behind)) => {
            name = behind;
            true
        }
        None => false,
    })
}

/// `NAME`, or `NAME-1` to `NAME-count`.
pub fn numbered(name: &str, count: Option<i64>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|number| format!("{name}-{number}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// By trying every length for each `*`.
    fn slowly(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|from| slowly(rest, &name[from..])),
            Some((first, rest)) => name.first() == Some(first) && slowly(rest, &name[1..]),
        }
    }

    proptest::proptest! {
        #[test]
        fn each_star_stands_for_anything(pattern in "[ab*]{0,7}", name in "[ab]{0,8}") {
            let expected = slowly(pattern.as_bytes(), name.as_bytes());
            proptest::prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }
}
