//! What each level of a tree has counted since it was last changed, compared with the levels below it.

use datapath::qdisc::{AnyQdisc, Backlog, Handle, Qdisc as _, Sched, Stats};

/// The earlier counters of every level of a tree.
#[derive(Clone, Debug, Default)]
pub struct LevelCounters(Vec<(Handle, Stats, Backlog)>);

impl LevelCounters {
    /// The counters as they are now.
    pub fn of(root: &Sched) -> Self {
        let tree = root.tree().into_iter();
        Self(tree.map(|(place, sched)| (place, sched.stats(), sched.backlog())).collect())
    }

    /// What is not as it must be: who has classes has sent what these have, but for what it has looked
    /// at and not yet taken; and it counts their drops as its own. Marks that netem counts as drops
    /// (`marks`) happen below only.
    pub fn difference(&self, root: &Sched, marks: bool) -> Option<String> {
        let tree = root.tree();
        let since = |parent: Handle, now: Stats| {
            let before = self.0.iter().find(|(place, ..)| *place == parent);
            let (_, before, waited) = before.copied().unwrap_or_default();
            (now.bytes - before.bytes, now.drops - before.drops, u64::from(waited.bytes))
        };
        for (place, sched) in &tree {
            // Packets of no class go past the classes of htb.
            let is_filtered = matches!(sched.qdisc(), AnyQdisc::Netem(_) | AnyQdisc::Htb(_));
            let below = tree.iter().filter(|(parent, _)| {
                *parent != Handle::ROOT && parent.major() == sched.handle.major()
            });
            let below: Vec<_> = below.collect();
            if below.is_empty() || sched.handle == Handle::NONE {
                continue;
            }
            let (bytes, drops, _) = since(*place, sched.stats());
            // What a parent has looked at has been sent by its child.
            let (mut sent, mut dropped, mut looked_at_before, mut looked_at) = (0, 0, 0, 0);
            for (parent, child) in below {
                let (bytes, drops, waited) = since(*parent, child.stats());
                sent += bytes;
                dropped += drops;
                looked_at_before += waited;
                looked_at += u64::from(child.backlog().bytes);
            }
            // What netem has reordered does not pass below.
            let too_much = !is_filtered && bytes > sent + looked_at_before;
            if too_much || sent > bytes + looked_at || !marks && dropped > drops {
                return Some(format!(
                    "{} {:?} has sent {bytes} bytes and counts {drops} drops; those below it have \
                     sent {sent} and count {dropped}",
                    sched.qdisc().kind(),
                    sched.handle,
                ));
            }
        }
        None
    }
}
