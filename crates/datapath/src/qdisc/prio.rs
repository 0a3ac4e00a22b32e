//! prio: bands in strict order (Linux `net/sched/sch_prio.c`).

use super::fifo::{Fifo, PRIORITY_TO_BAND};
use super::filter::Filter;
use super::{Backlog, Cx, Enqueue, Handle, Qdisc, Sched, Stats};
use crate::packet::Packet;
use crate::units::Instant;

/// What a [`Prio`] is configured with (`struct tc_prio_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrioConfig {
    /// Number of bands, 2 to 16.
    pub bands: u8,
    /// The band of each `skb->priority & 15`.
    pub priomap: [u8; 16],
}

impl Default for PrioConfig {
    fn default() -> Self {
        Self { bands: 3, priomap: PRIORITY_TO_BAND }
    }
}

/// Bands served in strict order.
#[derive(Clone, Debug)]
pub struct Prio {
    config: PrioConfig,
    handle: Handle,
    filters: Vec<Filter>,
    bands: Vec<Sched>,
    stats: Stats,
}

impl Prio {
    /// Bands of default pfifos, attached as `handle`.
    pub fn new(config: PrioConfig, handle: Handle) -> Self {
        assert!((2..=16).contains(&config.bands), "2 to 16 bands");
        assert!(config.priomap.iter().all(|band| *band < config.bands), "a map to existing bands");
        let bands = (0..config.bands).map(|_| Fifo::pfifo_default().into()).collect();
        Self { config, handle, filters: Vec::new(), bands, stats: Stats::default() }
    }

    /// The configuration.
    pub fn config(&self) -> &PrioConfig {
        &self.config
    }

    /// The bands, the most urgent first: classes 1 on.
    pub fn bands(&self) -> &[Sched] {
        &self.bands
    }

    /// The bands, to change or replace one.
    pub fn bands_mut(&mut self) -> &mut [Sched] {
        &mut self.bands
    }

    /// The filters in order of evaluation.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Adds a filter behind those of the same preference.
    pub fn add_filter(&mut self, filter: Filter) {
        filter.add_to(&mut self.filters);
    }

    /// Changes bands and map (`prio_change`). The backlog of removed bands is purged, and
    /// counts as dropped.
    pub fn change(&mut self, config: PrioConfig, cx: &mut Cx<'_>) {
        let fresh = Self::new(config, self.handle).bands;
        for mut gone in self.bands.drain(usize::from(config.bands).min(self.bands.len())..) {
            self.stats.drops += u64::from(gone.backlog().packets);
            gone.purge(cx);
        }
        self.bands.extend(fresh.into_iter().skip(self.bands.len()));
        self.config = config;
    }

    /// Counts packets that were discarded below.
    pub(super) fn count_drops(&mut self, drops: u64) {
        self.stats.drops += drops;
    }

    /// `skb->priority` may name a class of this qdisc; else the first filter that matches does;
    /// else the map decides. A class that does not exist means the map's first entry
    /// (`prio_classify`).
    fn classify(&self, packet: &Packet) -> usize {
        let priority = packet.meta.priority;
        let class = if self.handle.owns(Handle(priority)) {
            Handle(priority)
        } else {
            match Filter::class_of(&self.filters, packet) {
                Some(class) => class,
                None if Handle(priority).major() != 0 => return self.mapped(0),
                None => return self.mapped(priority),
            }
        };
        let band = usize::from(class.minor()).wrapping_sub(1);
        if band < self.bands.len() { band } else { self.mapped(0) }
    }

    fn mapped(&self, priority: u32) -> usize {
        usize::from(self.config.priomap[(priority & 15) as usize])
    }

    /// The first packet of the first band that has one (`prio_peek`).
    pub(super) fn peek(&mut self, cx: &mut Cx<'_>) -> Option<&Packet> {
        let dropped_before = cx.dropped.len();
        let band = self.bands.iter_mut().position(|band| band.peek(cx).is_some());
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        self.bands[band?].peek(cx)
    }
}

impl Qdisc for Prio {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let dropped_before = cx.dropped.len();
        let band = self.classify(place);
        let verdict = self.bands[band].enqueue_from(place, cx);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        verdict
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let dropped_before = cx.dropped.len();
        let any = self.bands.iter_mut().any(|band| band.dequeue_into(place, cx));
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        if any {
            self.stats.count_sent(place);
        }
        any
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.bands.iter_mut().for_each(|band| band.purge(cx));
    }

    fn wake_at(&self) -> Option<Instant> {
        self.bands.iter().filter_map(Qdisc::wake_at).min()
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().fold(Backlog::default(), |sum, band| sum + band.backlog())
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::super::fifo::FifoKind;
    use super::super::filter::Match;
    use super::super::testing::{Bench, flow_frame, frame};
    use super::*;

    fn prio() -> Prio {
        Prio::new(PrioConfig::default(), Handle::new(1, 0))
    }

    fn marked(len: u32, priority: u32) -> Packet {
        let mut packet = frame(len);
        packet.meta.priority = priority;
        packet
    }

    #[test]
    fn the_map_and_the_priority_choose_a_band() {
        let mut bench = Bench::new(prio());
        for (len, priority) in [
            (101, 0),           // map: band 1
            (102, 1),           // band 2
            (103, 6),           // band 0
            (104, 0x0001_0003), // class 1:3
            (105, 0x0001_0001), // class 1:1
            (106, 0x0001_0009), // no such class: as priority 0
            (107, 0x0002_0001), // another qdisc's class: as priority 0
        ] {
            bench.enqueue(0, marked(len, priority));
        }
        assert_eq!(bench.drain_lengths(0), [103, 105, 101, 106, 107, 102, 104]);
    }

    /// A DCTCP queue beside a classic one: DSCP 1 (TOS 0x04) goes to class 1:1.
    #[test]
    fn filters_choose_by_dscp_and_mark() {
        let mut prio = prio();
        let filter = |preference, wanted, minor| Filter {
            preference,
            matches: vec![wanted],
            class: Handle::new(1, minor),
        };
        prio.add_filter(filter(2, Match::All, 3));
        prio.add_filter(filter(1, Match::Tos { value: 0x04, mask: 0xfc }, 1));
        prio.add_filter(filter(1, Match::Mark { value: 7, mask: u32::MAX }, 2));
        let mut bench = Bench::new(prio);
        let mut by_mark = frame(102);
        by_mark.meta.mark = 7;
        for packet in [flow_frame(1, 100, 0), by_mark, flow_frame(1, 101, 0x06)] {
            bench.enqueue(0, packet);
        }
        assert_eq!(bench.drain_lengths(0), [101, 102, 100]);
    }

    #[test]
    fn bands_count_their_own_and_the_parent_counts_all() {
        let mut prio = prio();
        prio.bands_mut()[1] = Fifo::new(FifoKind::Packets(1)).into();
        let mut bench = Bench::new(prio);
        bench.enqueue(0, frame(100));
        assert_eq!(bench.enqueue(0, frame(100)), Enqueue::Dropped);
        assert_eq!(bench.qdisc().stats().drops, 1);
        assert_eq!(bench.qdisc().bands()[1].stats().drops, 1);
    }

    #[test]
    fn removed_bands_drop_their_packets() {
        let mut prio = prio();
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        prio.enqueue(marked(100, 1), &mut cx);
        let two = PrioConfig { bands: 2, priomap: [1; 16] };
        prio.change(two, &mut cx);
        assert_eq!((dropped.len(), prio.backlog()), (1, Backlog::default()));
    }
}
