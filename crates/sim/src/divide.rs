//! Divides a world among threads, and makes one of its partitions again.

use crate::calendar::Calendar;
use crate::crossing::Crossings;
use crate::division::{Division, Slot};
use crate::epoch::Epoch;
use crate::event::EventId;
use crate::groups::Groups;
use crate::link::{Link, LinkConfig, LinkId, NodeId};
use crate::partition::{Partition, REMOTE, RemoteEnd};
use crate::pool::Pool;
use crate::state::{NO_LINK, NodeState};
use apps::NO_APP;
use core::mem::take;

/// A partition with its epochs: the work of one thread.
#[repr(align(128))]
pub(crate) struct Shard {
    pub part: Partition,
    pub epoch: Epoch,
}

impl NodeState {
    /// Changes the numbers that it refers to.
    fn renumber(&mut self, link: impl Fn(LinkId) -> LinkId, app: impl Fn(u32) -> u32) {
        let links = self.links.iter_mut().filter(|id| **id != NO_LINK);
        links.for_each(|id| *id = link(*id));
        let owners = self.owners.iter_mut().filter(|owner| **owner != NO_APP);
        owners.for_each(|owner| *owner = app(*owner));
    }
}

impl Partition {
    /// An empty partition at the same time, one of `count`, with epochs of this width.
    fn sibling(&mut self, count: usize, width: u64) -> Self {
        let mut other = Self::new();
        if let Some(remains) = self.remains.pop() {
            (other.nodes, other.links, other.apps, other.pool) = remains;
            other.pool.clear();
            other.place = other.pool.reserve();
        }
        (other.now, other.run, other.pending_at) = (self.now, self.run, self.pending_at);
        other.calendar = Calendar::new(width, self.now);
        other.out = (0..count).map(|_| Crossings::default()).collect();
        other
    }
}

/// Divides a world: each node belongs to the partition that `parts` says.
pub(crate) fn split(whole: Shard, groups: &Groups, parts: &[u32]) -> (Vec<Shard>, Division) {
    let mut whole = whole.part;
    let count = parts.iter().max().map_or(0, |most| *most as usize + 1);
    let mut all: Vec<_> = (0..count).map(|_| whole.sibling(count, groups.width)).collect();
    all.reverse();
    let part_of = |node: NodeId| parts[node.0 as usize];
    let cut = whole.links.iter().filter(|link| part_of(link.from.0) != part_of(link.to.0));
    let shortest = cut.map(|link| link.delay().as_nanos()).min().unwrap_or(u64::MAX);
    let mut division = Division { epochs_ahead: shortest / groups.width, ..Division::default() };
    for (name, node) in (0..).zip(whole.nodes.drain(..)) {
        let part = parts[name as usize] as usize;
        let here = &mut all[part];
        division.nodes.push(Slot { part, index: here.nodes.len() as u32 });
        here.names.nodes.push(name);
        here.nodes.push(node);
    }
    for (name, link) in (0..).zip(whole.links.drain(..)) {
        division.links.push(place_link(&mut all, &division.nodes, name, link));
    }
    for (name, mut app) in (0..).zip(whole.apps.drain(..)) {
        let Slot { part, index } = division.node(app.node);
        app.node = NodeId(index);
        division.apps.push(Slot { part, index: all[part].apps.len() as u32 });
        all[part].names.apps.push(name);
        all[part].apps.push(app);
    }
    for node in all.iter_mut().flat_map(|part| &mut part.nodes) {
        node.renumber(|link| LinkId(division.link(link).index), |app| division.app(app).index);
    }
    hand_over(&mut whole, &mut all, true, |node| division.node(node), |id| division.event(id));
    whole.remains.push((whole.nodes, whole.links, whole.apps, Pool::default()));
    (all[0].stats, all[0].remains) = (whole.stats, whole.remains);
    (all[0].pool, all[0].place) = (whole.pool, whole.place);
    let epoch = |part: &Partition| Epoch::new(groups.among(&part.names.nodes));
    let shard = |part| Shard { epoch: epoch(&part), part };
    (all.into_iter().map(shard).collect(), division)
}

/// Puts a link into the partition where it begins, and a stand-in where it ends.
fn place_link(all: &mut [Partition], nodes: &[Slot], name: u32, mut link: Link) -> [Slot; 2] {
    let (from, to) = (nodes[link.from.0.0 as usize], nodes[link.to.0.0 as usize]);
    let mut add = |part: usize, link: Link| {
        let here = &mut all[part];
        here.names.links.push(name);
        here.links.push(link);
        Slot { part, index: here.links.len() as u32 - 1 }
    };
    let to_there = (NodeId(to.index), link.to.1);
    link.near.0 = NodeId(from.index);
    if from.part == to.part {
        link.far = to_there;
        return [add(from.part, link); 2];
    }
    let stand_in = Link::new(&LinkConfig::default(), link.from, link.to, 0, LinkId(name));
    let there = add(to.part, stand_in);
    let here = add(from.part, link);
    let from = &mut all[here.part];
    from.links[here.index as usize].far.0 = NodeId(REMOTE + from.away.len() as u32);
    from.away.push(RemoteEnd { part: there.part, link: LinkId(there.index), to: to_there });
    [here, there]
}

/// Moves the events and pending notifications of a partition to those that have their nodes now, with the
/// numbers that nodes and events have there. Packets of the first stay in place if it keeps the pool.
fn hand_over(
    from: &mut Partition,
    all: &mut [Partition],
    has_pool: bool,
    node: impl Fn(NodeId) -> Slot,
    event: impl Fn(EventId) -> EventId,
) {
    for due in from.calendar.iter() {
        let Slot { part, index } = node(due.node());
        let it = due.renumbered(event(due.id()), NodeId(index));
        match due.link_of_arrival() {
            Some(_) if part > 0 || !has_pool => {
                all[part].admit(it, &mut from.pool.take(due.packet()));
            }
            _ => all[part].calendar.push(it),
        }
    }
    for mut ready in from.pending.drain(..) {
        let Slot { part, index } = node(ready.node);
        ready.node = NodeId(index);
        ready.rank = ready.rank.renumbered(&event);
        all[part].pending.push(ready);
        all[part].pending_at = from.pending_at;
    }
}

/// Makes one of the partitions of a world.
pub(crate) fn join(shards: Vec<Shard>, division: &Division, width: u64) -> Shard {
    let mut parts: Vec<Partition> = shards.into_iter().map(|shard| shard.part).collect();
    let mut whole = parts[0].sibling(0, width);
    whole.remains = take(&mut parts[0].remains);
    (whole.pool, whole.place) = (take(&mut parts[0].pool), parts[0].place);
    for (number, part) in parts.iter_mut().enumerate() {
        debug_assert!(part.out.iter().all(Crossings::is_empty), "all that crosses is delivered");
        let names = take(&mut part.names);
        for node in &mut part.nodes {
            node.renumber(|link| names.link(link), |app| names.app(app));
        }
        for app in &mut part.apps {
            app.node = names.node(app.node);
        }
        let node = |node| Slot { part: 0, index: names.node(node).0 };
        hand_over(part, core::slice::from_mut(&mut whole), number == 0, node, |id| names.event(id));
        whole.stats.add(&part.stats);
    }
    let mut nodes: Vec<_> = parts.iter_mut().map(|part| part.nodes.drain(..)).collect();
    whole.nodes.extend(division.nodes.iter().filter_map(|at| nodes[at.part].next()));
    drop(nodes);
    let mut apps: Vec<_> = parts.iter_mut().map(|part| part.apps.drain(..)).collect();
    whole.apps.extend(division.apps.iter().filter_map(|at| apps[at.part].next()));
    drop(apps);
    let mut links: Vec<_> = parts.iter_mut().map(|part| part.links.drain(..)).collect();
    for [from, to] in &division.links {
        if from.part != to.part {
            links[to.part].next();
        }
        whole.links.extend(links[from.part].next());
    }
    drop(links);
    whole.remains.extend(parts.into_iter().map(|it| (it.nodes, it.links, it.apps, it.pool)));
    for link in &mut whole.links {
        (link.near, link.far) = (link.from, link.to);
    }
    Shard { part: whole, epoch: Epoch::default() }
}
