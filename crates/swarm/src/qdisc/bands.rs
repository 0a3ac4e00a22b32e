//! prio's bands (`sch_prio.c`): which one a packet goes to, and that none is passed over for a lower one.

use datapath::packet::Packet;
use datapath::qdisc::prio::Prio;
use datapath::qdisc::{Backlog, Handle, Qdisc as _};

use super::call::Call;
use super::filters::Filters;
use super::law::is_prompt;
use crate::case::BrokenLaw;

/// What was seen of each band.
#[derive(Clone, Debug)]
pub struct Bands {
    handle: Handle,
    filters: Filters,
    /// What waited in each, and how many packets had left it.
    seen: Vec<(Backlog, u64)>,
}

impl Bands {
    /// The bands as they are now.
    pub fn new(prio: &Prio, handle: Handle) -> Self {
        Self { handle, filters: Filters::default(), seen: look(prio) }
    }

    /// There are others, or something else in one.
    pub fn changed(&mut self, prio: &Prio) {
        self.seen = look(prio);
    }

    /// A filter was added, somewhere.
    pub fn filter(&mut self, words: &str) {
        self.filters.add(self.handle.major(), words);
    }

    /// A packet came.
    pub fn entered(&mut self, prio: &Prio, came: &Packet) -> Result<(), BrokenLaw> {
        let now = look(prio);
        let before = core::mem::replace(&mut self.seen, now);
        let grown = before.iter().zip(&self.seen).position(|(before, now)| before.0 != now.0);
        let band = self.band(prio, came);
        match grown {
            Some(grown) if grown != band => {
                let number = came.body.number();
                Err(("class", format!("packet {number} went to band {grown} instead of {band}")))
            }
            _ => Ok(()),
        }
    }

    /// `prio_classify`.
    fn band(&self, prio: &Prio, packet: &Packet) -> usize {
        let priority = packet.meta.priority;
        let mapped = |priority: u32| usize::from(prio.config().priomap[priority as usize % 16]);
        let is_own = priority >> 16 == u32::from(self.handle.major());
        let class = match self.filters.choice(0, packet) {
            _ if is_own => priority & 0xffff,
            Some(class) => class.into(),
            None if priority >> 16 != 0 => return mapped(0),
            None => return mapped(priority),
        };
        match class.checked_sub(1) {
            Some(band) if band < u32::from(prio.config().bands) => band as usize,
            _ => mapped(0),
        }
    }

    /// prio was asked, and gave this packet.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        prio: &Prio,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let before = core::mem::replace(&mut self.seen, look(prio));
        let waiting = before.iter().zip(prio.bands());
        let first = waiting
            .into_iter()
            .position(|((waited, _), sched)| waited.packets > 0 && is_prompt(sched));
        let from = before.iter().zip(&self.seen).position(|(before, now)| before.1 != now.1);
        let passed_over = match (first, from) {
            (Some(first), Some(from)) => first < from,
            (Some(_), None) => packet.is_none(),
            (None, _) => false,
        };
        if !passed_over {
            return Ok(());
        }
        let what = format!("at {:?} band {from:?} was served, and {first:?} has packets", call.now);
        Err(("bands", what))
    }
}

fn look(prio: &Prio) -> Vec<(Backlog, u64)> {
    prio.bands().iter().map(|band| (band.backlog(), band.stats().packets)).collect()
}
