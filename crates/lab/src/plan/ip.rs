//! The words of `ip` inside a plan: what a node is told before it starts and while it runs, and
//! when wires are cut.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use datapath::fib::Algorithm;
use datapath::units::Duration;
use iproute::ip::{Ip, IpError};
use sim::topology::{WireId, default_addresses};

use super::doc::{Kind, Node, Origin};
use super::network::{LinkPlan, NodePlan};
use super::read::{Faults, Reader};
use super::{quantity, sysctl};

/// What chooses among the links of a `[routes]` entry.
pub const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("linux", Algorithm::System),
    ("l3", Algorithm::L3),
    ("l4", Algorithm::L4),
    ("per-packet", Algorithm::PerPacket),
    ("modulo", Algorithm::Modulo),
    ("credit", Algorithm::Credit),
];

/// `ip = ["route add …"]`.
pub fn lines(table: &mut Reader<'_, '_>) -> Vec<String> {
    table.texts("ip").iter().map(|(text, _)| (*text).to_owned()).collect()
}

/// `ip_at = ["2s link set left down"]`, put into the order of time.
pub fn timed_lines(table: &mut Reader<'_, '_>) -> Vec<(Duration, String)> {
    let texts = table.texts("ip_at");
    let mut lines: Vec<(Duration, String)> = texts
        .iter()
        .filter_map(|(text, at)| {
            let (time, words) = split_time(text, at, table.faults)?;
            if words.is_empty() {
                let message = format!("\"{}\" has a time, but no command", text.trim());
                let help = "add an ip command after it, e.g. \"2s link set left down\"";
                table.faults.add(at, message, Some(help.into()));
                return None;
            }
            Some((time, words.to_owned()))
        })
        .collect();
    lines.sort_by_key(|(time, _)| *time);
    lines
}

/// `events = ["2s down", "3s up"]`, put into the order of time.
pub fn events(table: &mut Reader<'_, '_>) -> Vec<(Duration, bool)> {
    let texts = table.texts("events");
    let mut events: Vec<(Duration, bool)> = texts
        .iter()
        .filter_map(|(text, at)| {
            let (time, word) = split_time(text, at, table.faults)?;
            match word {
                "down" => Some((time, false)),
                "up" => Some((time, true)),
                _ => {
                    let message = format!("\"{word}\" is neither \"up\" nor \"down\"");
                    table.faults.add(at, message, None);
                    None
                }
            }
        })
        .collect();
    events.sort_by_key(|(time, _)| *time);
    events
}

fn split_time<'a>(text: &'a str, at: &Origin, faults: &Faults<'_>) -> Option<(Duration, &'a str)> {
    let (time, rest) = split_word(text);
    match quantity::time(time) {
        Ok(time) => Some((time, rest)),
        Err(message) => {
            let help = Some("begin with a time, e.g. \"2s link set left down\"".into());
            faults.add(at, message, help);
            None
        }
    }
}

/// The first word of a text, and what comes behind it.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

/// The links of each node, each with its place among all.
pub fn links_of_nodes(count: usize, links: &[LinkPlan]) -> Vec<Vec<(usize, &LinkPlan)>> {
    let mut of_nodes = vec![Vec::new(); count];
    for (index, link) in links.iter().enumerate() {
        for end in link.ends {
            if let Some(of_node) = of_nodes.get_mut(end) {
                of_node.push((index, link));
            }
        }
    }
    of_nodes
}

/// The words of `ip` that give a node with these links its devices, named like them, and their addresses.
pub fn interfaces(node: usize, links: &[(usize, &LinkPlan)]) -> Ip {
    let mut ip = Ip::new();
    for &(index, link) in links {
        let end = usize::from(link.ends[0] != node);
        ip.devices.add(&link.name);
        let addresses = link.addresses.unwrap_or_else(|| default_addresses(WireId(index as u32)));
        let (address, len) = addresses[end];
        let line = format!("address add {address}/{len} dev {}", link.name);
        // Two links with one address are reported elsewhere.
        let _ = ip.run(&line);
    }
    // A rule for another interface would wait for ever.
    ip.devices.complete();
    ip
}

/// The lines of `ip` that one table of the file has for the nodes it is about.
pub struct Lines<'a> {
    /// What the table is called: like its node, if it is about one alone.
    whose: &'a str,
    /// Before anything runs.
    first: Vec<Line<'a>>,
    timed: Vec<(Duration, Line<'a>)>,
}

/// A line of `ip` and where it was written.
struct Line<'a> {
    words: Cow<'a, str>,
    place: Place<'a>,
    /// What is wrong with it has been told: of one node that is enough.
    reported: Cell<bool>,
}

enum Place<'a> {
    /// A text, and the byte at which the words begin.
    Text(&'a str, usize, &'a Origin),
    /// The name and the value of a sysctl.
    Sysctl(&'a Origin, &'a Origin),
}

impl<'a> Lines<'a> {
    /// Those of the table `node`, called `whose`. What is no line at all was told when the table was
    /// read, and is left out.
    pub fn of(whose: &'a str, node: &'a Node) -> Self {
        let settings = match node.get("sysctl").map(|node| &node.kind) {
            Some(Kind::Table(entries)) => sysctl::routing(entries),
            _ => Vec::new(),
        };
        let settings = settings
            .into_iter()
            .map(|(line, key, value)| Line::new(line, Place::Sysctl(&key.at, &value.at)));
        let own = texts(node, "ip")
            .into_iter()
            .map(|(text, at)| Line::new(text, Place::Text(text, 0, at)));
        let timed = texts(node, "ip_at").into_iter().filter_map(|(text, at)| {
            let (time, words) = split_word(text);
            let offset = text.trim_end().len() - words.len();
            let line = Line::new(words, Place::Text(text, offset, at));
            (!words.is_empty()).then_some((quantity::time(time).ok()?, line))
        });
        Self { whose, first: settings.chain(own).collect(), timed: timed.collect() }
    }
}

/// The texts of a list, or the one text, that `node` has for `key`.
fn texts<'a>(node: &'a Node, key: &str) -> Vec<(&'a str, &'a Origin)> {
    let items = match node.get(key) {
        None => &[],
        Some(Node { kind: Kind::List(items), .. }) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    let text = |item: &'a Node| match &item.kind {
        Kind::Text(text) => Some((text.as_str(), &item.at)),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

impl<'a> Line<'a> {
    fn new(words: impl Into<Cow<'a, str>>, place: Place<'a>) -> Self {
        Self { words: words.into(), place, reported: Cell::new(false) }
    }

    /// Runs it, and tells what is wrong with it; `of` is a node's name where others have it too.
    fn check(&self, ip: &mut Ip, of: Option<&str>, faults: &Faults<'_>) {
        let Err(error) = ip.run(&self.words) else { return };
        if self.reported.replace(true) {
            return;
        }
        let on = of.map_or(String::new(), |name| format!("on \"{name}\": "));
        let (message, column, nearest) = match error {
            IpError::Grammar(error) => (error.message, Some(error.column), error.nearest),
            error => (error.to_string(), None, None),
        };
        // A value of a sysctl is like no word: what has one is wrong with the name.
        let named = nearest.is_some();
        let help = nearest.map(|word| format!("did you mean \"{word}\"?"));
        let message = format!("{on}{message}");
        match (&self.place, column) {
            (Place::Text(text, offset, at), Some(column)) => {
                let before = text.get(..offset + column).unwrap_or(text);
                faults.add_in_text(at, before.chars().count(), message, help);
            }
            (Place::Sysctl(name, _), _) if named => faults.add(name, message, help),
            (Place::Text(_, _, at) | Place::Sysctl(_, at), _) => faults.add(at, message, help),
        }
    }
}

/// Runs every line where it would be run, and tells what is wrong with it. Each node has lines of its
/// own, and before them the `shared` ones.
pub fn check(
    (nodes, own): (&[NodePlan], &[Vec<Rc<Lines<'_>>>]),
    shared: &Lines<'_>,
    links: &[LinkPlan],
    faults: &Faults<'_>,
) {
    if !nodes.iter().any(NodePlan::has_lines) {
        return;
    }
    let of_nodes = links_of_nodes(nodes.len(), links);
    for (index, ((plan, own), links)) in nodes.iter().zip(own).zip(&of_nodes).enumerate() {
        if !plan.has_lines() {
            continue;
        }
        let mut ip = interfaces(index, links);
        let own = own.iter().map(AsRef::as_ref);
        let tables: Vec<&Lines<'_>> = std::iter::once(shared).chain(own).collect();
        check_node(&plan.name, &tables, &mut ip, faults);
    }
}

/// Runs the lines of all tables about one node, in the order in which they apply.
fn check_node(name: &str, tables: &[&Lines<'_>], ip: &mut Ip, faults: &Faults<'_>) {
    let of = |table: &Lines<'_>| (table.whose != name).then_some(name);
    for table in tables {
        for line in &table.first {
            line.check(ip, of(table), faults);
        }
    }
    let mut timed: Vec<(&Lines<'_>, &(Duration, Line<'_>))> =
        tables.iter().flat_map(|table| table.timed.iter().map(|line| (*table, line))).collect();
    timed.sort_by_key(|(_, (time, _))| *time);
    for (table, (_, line)) in timed {
        line.check(ip, of(table), faults);
    }
}
