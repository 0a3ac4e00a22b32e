//! Follows routes: whether packets arrive, and whether that takes time.

use std::collections::BTreeSet;

use datapath::units::Duration;

use super::network::{LinkPlan, NodePlan, Role};
use super::routes::{Hop, ShortestPaths};

/// Why packets would not arrive.
pub struct Problem {
    /// The node at fault, if one is.
    pub node: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Follows the routes from `from` to `to` on every way that packets may take. Where the words of
/// `ip` decide, nobody follows them.
pub fn walk(
    from: usize,
    to: usize,
    nodes: &[NodePlan],
    links: &[LinkPlan],
    hops: &ShortestPaths,
) -> Result<(), Problem> {
    let name = |node: usize| nodes[node].name.as_str();
    let mut states = vec![Visit::New; nodes.len()];
    // Nodes to enter, and nodes to leave (`false`) once all behind them is done.
    let mut stack = vec![(from, true)];
    while let Some((node, enter)) = stack.pop() {
        if !enter {
            states[node] = Visit::Done;
            continue;
        }
        if node == to || states[node] == Visit::Done || nodes[node].has_own_routes() {
            continue;
        }
        if states[node] == Visit::Open {
            let message = format!("packets from \"{}\" to \"{}\" would loop", name(from), name(to));
            let help = Some(format!("see the routes of \"{}\"", name(node)));
            return Err(Problem { node: Some(node), message, help });
        }
        if node != from && nodes[node].role == Role::Host {
            let message = format!(
                "packets from \"{}\" to \"{}\" would have to cross the host \"{}\"",
                name(from),
                name(to),
                name(node)
            );
            let help = Some("make it a router: role = \"router\"".into());
            return Err(Problem { node: Some(node), message, help });
        }
        states[node] = Visit::Open;
        stack.push((node, false));
        match hops.hop(node, to) {
            Hop::Links(ways) => {
                for &link in ways {
                    let ends = links[link].ends;
                    stack.push((if ends[0] == node { ends[1] } else { ends[0] }, true));
                }
            }
            Hop::None => {
                let message = format!("no path from \"{}\" to \"{}\"", name(from), name(to));
                return Err(Problem { node: None, message, help: None });
            }
            Hop::Ambiguous => {
                let message = format!(
                    "the links form a loop, and \"{}\" has no route to \"{}\"",
                    name(node),
                    name(to)
                );
                let help = Some(format!("add [routes.{}] {} = \"LINK\"", name(node), name(to)));
                return Err(Problem { node: Some(node), message, help });
            }
        }
    }
    Ok(())
}

/// Qdiscs in which no time passes by itself: what the device takes goes on at once.
const UNTIMED: [&str; 9] = [
    "noqueue",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "codel",
    "fq_codel",
    "red",
    "prio",
];

/// Whether a packet may have to wait in such a qdisc although the device has room.
fn may_delay(qdisc: &str) -> bool {
    let has = |word: &str| qdisc.split_whitespace().any(|it| it == word);
    (has("bandwidth") || !has("cake")) && !UNTIMED.into_iter().any(has)
}

/// True if packets may come from `from` to `to` on a way where no time passes: over links without a
/// rate, a delay or a qdisc that makes packets wait.
pub fn is_instant(from: usize, to: usize, links: &[LinkPlan], ways: &ShortestPaths) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![from];
    while let Some(node) = stack.pop() {
        if node == to {
            return true;
        }
        let (true, Hop::Links(set)) = (seen.insert(node), ways.hop(node, to)) else { continue };
        for link in set.iter().map(|&link| &links[link]) {
            let end = usize::from(link.ends[1] == node);
            let direction = &link.directions[end];
            let delay = direction.least_delay().max(direction.jitter);
            let timed = direction.rate.is_some() || delay > Duration::ZERO;
            if !timed && !link.ports[end].qdiscs.iter().any(|qdisc| may_delay(qdisc)) {
                stack.push(link.ends[1 - end]);
            }
        }
    }
    false
}

/// How far a walk has come with a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    /// It lies on the way that is being followed.
    Open,
    /// All ways from it arrive.
    Done,
}
