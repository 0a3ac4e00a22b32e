//! Names of nodes and links: which are valid, and which nodes one means.

use std::collections::BTreeSet;

use super::diagnostic::suggest;
use super::doc::{Key, Origin};
use super::limits::NAME_MAX;
use super::network::NodePlan;
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
            format!("the name of a {what} may contain only letters, digits, \"-\" and \"_\"");
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

/// Places by name: of so many names that each is looked for no slower than the others.
pub struct Index(Vec<usize>);

impl Index {
    /// Of those that `name` tells the names of, from 0 on.
    pub fn new<'a>(count: usize, name: impl Fn(usize) -> &'a str) -> Self {
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by_key(|place| name(*place));
        Self(places)
    }

    /// Those called `wanted`, in their order. What they are called is asked again.
    pub fn find<'a>(&self, wanted: &str, name: impl Fn(usize) -> &'a str) -> &[usize] {
        let from = self.0.partition_point(|place| name(*place) < wanted);
        let count = self.0[from..].partition_point(|place| name(*place) == wanted);
        &self.0[from..from + count]
    }
}

/// The nodes of a plan, to be found by their names.
pub struct NamedNodes<'a> {
    /// The nodes.
    pub plans: &'a [NodePlan],
    index: Index,
}

impl<'a> NamedNodes<'a> {
    /// With an index of their names.
    pub fn new(plans: &'a [NodePlan]) -> Self {
        Self { plans, index: Index::new(plans.len(), |node| &plans[node].name) }
    }

    /// All names, in the order of the nodes.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.plans.iter().map(|node| node.name.as_str())
    }

    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.find(name, |node| &self.plans[node].name).first().copied()
    }

    /// The nodes that `name` means: one, or with `*` every node whose name fits. A fault, which names the nearest
    /// one, if there is none.
    pub fn matching(&self, name: &str, at: &Origin, faults: &Faults<'_>) -> Vec<usize> {
        if !name.contains('*') {
            let found = self.find(name);
            if found.is_none() && faults.accepts_more() {
                let help = suggest(name, self.names());
                faults.add(at, format!("no node is called \"{name}\""), help);
            }
            return found.into_iter().collect();
        }
        let fits = |(_, node): &(usize, &str)| matches(name, node);
        let found: Vec<usize> =
            self.names().enumerate().filter(fits).map(|(index, _)| index).collect();
        if found.is_empty() {
            faults.add(at, format!("no node matches \"{name}\""), None);
        }
        found
    }
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
    use super::{Index, matches};
    use std::cell::Cell;

    #[test]
    fn a_name_is_found_without_looking_at_all() {
        let names: Vec<String> = (0..10_000).map(|number| format!("n{}", number / 2)).collect();
        let index = Index::new(names.len(), |place| &names[place]);
        let asked = Cell::new(0);
        let name = |place: usize| {
            asked.set(asked.get() + 1);
            &*names[place]
        };
        assert_eq!(index.find("n1234", name), [2_468, 2_469]);
        assert!(asked.get() < 40, "{}", asked.get());
        assert!(index.find("", name).is_empty());
        assert!(index.find("n99999", name).is_empty());
    }

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
