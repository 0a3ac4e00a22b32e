//! How a world runs: epoch by epoch, on one thread or several, with what comes from outside between them.

use crate::assign::assign;
use crate::divide::{Shard, split};
use crate::event::{EventId, Kind};
use crate::groups::{Chooser, Groups};
use crate::link::{Link, LinkId, NodeId};
use crate::log::Rank;
use crate::threads;
use crate::world::World;
use datapath::reason::Reason;
use datapath::units::{Duration, Instant};
use std::cmp::Reverse;
use std::time;

impl World {
    /// Runs until `end`, events at `end` included. The time is then `end`.
    pub fn run_until(&mut self, end: Instant) {
        self.start_run();
        let mut done = self.now();
        while self.run_epoch(&mut done, end) {}
        self.set_now(self.now().max(end));
        self.begin_outside();
        // A node that is read from outside is seen at this time.
        for index in 0..self.node_count() as u32 {
            let at = self.division.node(NodeId(index));
            let part = &mut self.shards[at.part].part;
            part.prefetch_node(at.index + 8);
            part.pump_unless_idle(NodeId(at.index));
            if !self.division.is_empty() && !part.log.records.is_empty() {
                // All have the same place in the order: they are shown as they come.
                self.settle();
            }
        }
        self.end_outside();
    }

    fn set_now(&mut self, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.part.now = now);
    }

    fn start_run(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.part.run += 1);
        if core::mem::take(&mut self.grown) {
            self.whole();
            let Chooser { grouping, threads, .. } = self.chooser;
            let part = &self.shards[0].part;
            self.chooser = Chooser::new(grouping, threads, &part.links);
            self.chooser.balance.guess(&part.nodes);
            self.regroup();
        }
        self.ask_observers();
    }

    /// Observers are asked what they want to see.
    pub(crate) fn ask_observers(&mut self) {
        let unasked = core::mem::take(&mut self.unasked);
        for Shard { part, .. } in &mut self.shards {
            if unasked {
                part.log.note_interest(&self.observers, part.links.len(), &part.names);
            }
            part.update_observed();
        }
    }

    /// Nodes are grouped anew, and groups divided among threads.
    fn regroup(&mut self) {
        let begun = time::Instant::now();
        let mut expected = vec![0; self.shards.len()];
        for (_, link) in self.links() {
            for (node, cost) in self.chooser.balance.costs(link) {
                expected[self.division.node(node).part] += link.stats.packets * cost;
            }
        }
        self.chooser.balance.settle(&self.division, &expected);
        let links: Vec<&Link> = self.links().map(|(_, link)| link).collect();
        let groups = Groups::new(self.node_count(), &links, self.chooser.join());
        let parts = assign(&groups, &links, &self.chooser);
        let same_width = groups.width == self.shards[0].epoch.groups.width;
        if parts.as_ref().is_some_and(|parts| same_width && self.division.are(parts)) {
            return self.chooser.balance.divided(begun);
        }
        self.whole();
        self.grown = false;
        if let Some(parts) = parts {
            let whole = self.shards.pop().expect("it is whole");
            assert!(!whole.part.one_machine, "one thread works on the name spaces of a machine");
            (self.shards, self.division) = split(whole, &groups, &parts);
            self.unasked = true;
        } else {
            let Shard { part, epoch } = &mut self.shards[0];
            part.calendar = part.calendar.with_width(groups.width, part.now);
            epoch.groups = groups;
        }
        self.ask_observers();
        self.chooser.balance.divided(begun);
    }

    /// Processes the next epoch that has events, up to `end`; everything before `done` has been processed.
    /// False if there is none. Links go up or down between epochs.
    fn run_epoch(&mut self, done: &mut Instant, end: Instant) -> bool {
        let calendar = &self.shards[0].part.calendar;
        let command = self.due_commands.peek().map(|Reverse((at, _))| *at);
        let first = self.shards.iter().filter_map(|shard| shard.part.next_epoch());
        let Some(number) = first.chain(command.map(|at| calendar.number(at))).min() else {
            return false;
        };
        let begin = calendar.begin(number).max(*done);
        if begin > end {
            return false;
        }
        if command.is_some_and(|at| at <= begin) {
            self.run_command();
            return true;
        }
        let limit = end + Duration::from_nanos(1);
        let limit = command.map_or(limit, |at| at.min(limit));
        let regroup = if self.shards.len() > 1 && self.chooser.pays(limit - begin) {
            threads::run(
                &mut self.thread_pool,
                (&mut self.shards, self.division.epochs_ahead),
                (done, limit),
                &mut self.chooser,
                &mut self.observers,
            )
        } else {
            let after = calendar.begin(number + 1).min(limit);
            let before = self.stats().events;
            for Shard { part, epoch } in &mut self.shards {
                epoch.run_span(part, (begin, after));
            }
            self.settle();
            *done = after;
            self.chooser.count(1, self.stats().events - before)
        };
        if regroup {
            self.regroup();
        }
        true
    }

    /// A command is due, and nothing before it but notifications of applications at that time.
    fn run_command(&mut self) {
        let Some(Reverse((at, index))) = self.due_commands.pop() else { return };
        self.set_now(at);
        let number = EventId::new(Kind::Command, index).number();
        for Shard { part, .. } in &mut self.shards {
            if part.pending_at == at {
                core::mem::swap(&mut part.ready, &mut part.pending);
                part.ready.sort_by_key(|ready| ready.rank);
                part.call_ready_apps();
            }
            part.rank = Rank::of_event(part.run, number);
        }
        self.shards[0].part.count_event();
        let (link, up) = self.commands[index as usize];
        self.set_link_up(link, up);
        self.end_outside();
    }

    fn set_link_up(&mut self, id: LinkId, up: bool) {
        let end = self.division.far_end(id);
        if !up {
            let part = &mut self.shards[end.part].part;
            for packet in part.calendar.sever(LinkId(end.index)) {
                part.on_link_drop(LinkId(end.index), Reason::LinkDown, packet);
            }
        }
        if !self.division.is_empty() {
            // Packets lost on the link have the same place in the order as those that its node drops.
            self.settle();
        }
        let at = self.division.link(id);
        let part = &mut self.shards[at.part].part;
        let link = &mut part.links[at.index as usize];
        link.up = up;
        let (node, port) = link.near;
        part.nodes[node.0 as usize].host.set_port_up(part.now, port, up);
        part.pump(node);
    }
}
