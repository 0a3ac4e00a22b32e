//! Making, changing and deleting classes.

use super::class::{Class, Index};
use super::{ClassConfig, ClassState, Htb, HtbConfig, MAX_DEPTH, MAX_PRIO, QuantumSize};
use crate::qdisc::fifo::{Fifo, FifoKind};
use crate::qdisc::filter::Filter;
use crate::qdisc::{Cx, Handle, Qdisc as _, Sched};
use core::fmt;

/// Why a class cannot be made or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassError {
    /// There is one with this number (`EEXIST`).
    Exists,
    /// There is none with this number (`ENOENT`).
    NotFound,
    /// The number is of another qdisc, or none (`EINVAL`).
    BadNumber,
    /// There are seven levels above it already (`EINVAL`).
    TooDeep,
    /// It has classes below it, or a filter that leads to it (`EBUSY`).
    InUse,
}

/// As Linux 6.18 says it.
impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "File exists",
            Self::NotFound => "No such file or directory",
            Self::BadNumber => "Invalid argument",
            Self::TooDeep => "sch_htb: tree is too deep.",
            Self::InUse => "HTB class in use.",
        })
    }
}

impl std::error::Error for ClassError {}

impl Htb {
    /// Makes a class below another one, whose queue is discarded if it was a leaf; below anything else it is an outermost
    /// one. Gives what is odd about its quantum (`htb_change_class`).
    ///
    /// # Errors
    /// The number is taken or none of this qdisc, or the tree is too deep.
    pub fn add_class(
        &mut self,
        class: Handle,
        parent: Handle,
        config: &ClassConfig,
        cx: &mut Cx<'_>,
    ) -> Result<Option<QuantumSize>, ClassError> {
        if self.hash.find(class).is_some() {
            return Err(ClassError::Exists);
        }
        if !self.handle.owns(class) {
            return Err(ClassError::BadNumber);
        }
        let parent = self.hash.find(parent);
        let above = parent.and_then(|parent| self.class(parent).parent);
        if above.is_some_and(|above| self.class(above).level < 2) {
            return Err(ClassError::TooDeep);
        }
        if let Some(parent) = parent {
            self.make_inner(parent, cx);
            self.class_mut_of(parent).children += 1;
        }
        let leaf = self.leaves.len();
        let now = cx.now.as_nanos() as i64;
        let index = self.put(Class::new(class.minor(), parent, config, leaf, now));
        self.add_leaf(index);
        self.hash.insert(class.minor(), index);
        Ok(self.set(index, config))
    }

    /// Changes rates and bursts of a class, and of a leaf priority and quantum. Tokens and queued packets stay.
    ///
    /// # Errors
    /// There is no such class.
    pub fn change_class(
        &mut self,
        class: Handle,
        config: &ClassConfig,
    ) -> Result<Option<QuantumSize>, ClassError> {
        let index = self.hash.find(class).ok_or(ClassError::NotFound)?;
        Ok(self.set(index, config))
    }

    /// Deletes a class, and discards its queue. One above it that has no others is a leaf then (`htb_delete`).
    ///
    /// # Errors
    /// There is no such class, or it is in use.
    pub fn delete_class(&mut self, class: Handle, cx: &mut Cx<'_>) -> Result<(), ClassError> {
        let index = self.hash.find(class).ok_or(ClassError::NotFound)?;
        if self.class(index).children > 0 || self.has_filter_to(class) {
            return Err(ClassError::InUse);
        }
        self.remove_leaf(index, cx);
        self.hash.remove(class.minor());
        self.free.push(index);
        let Some(parent) = self.class(index).parent else { return Ok(()) };
        self.class_mut_of(parent).children -= 1;
        if self.class(parent).children == 0 {
            self.forget_waiting(parent);
            let (leaf, now) = (self.leaves.len(), cx.now.as_nanos() as i64);
            self.class_mut_of(parent).turn_into_leaf(leaf, now);
            self.add_leaf(parent);
        }
        Ok(())
    }

    /// The classes in the order in which the kernel shows them.
    pub fn classes(&self) -> impl Iterator<Item = Handle> {
        self.hash.iter().map(|(minor, _)| Handle::new(self.handle.major(), minor))
    }

    /// A class.
    pub fn state(&self, class: Handle) -> Option<ClassState> {
        let class = self.class(self.hash.find(class)?);
        let number = |index: Index| Handle::new(self.handle.major(), self.class(index).minor);
        Some(ClassState {
            config: class.config(),
            parent: class.parent.map_or(Handle::ROOT, number),
            level: class.level,
            stats: class.stats,
            tokens: class.tokens,
            ctokens: class.ctokens,
        })
    }

    /// The queue of a class, if it is a leaf.
    pub fn leaf(&self, class: Handle) -> Option<&Sched> {
        let class = self.class(self.hash.find(class)?);
        (class.level == 0).then(|| &self.leaves[class.leaf])
    }

    /// The same, to change it or to graft another.
    pub fn leaf_mut(&mut self, class: Handle) -> Option<&mut Sched> {
        let class = self.class(self.hash.find(class)?);
        let (level, leaf) = (class.level, class.leaf);
        self.touched = true;
        (level == 0).then(|| &mut self.leaves[leaf])
    }

    /// What the queue of a class is at first.
    pub(in crate::qdisc) fn first_leaf(&self) -> Sched {
        let HtbConfig { tx_queue_len, .. } = self.config;
        Fifo::new(FifoKind::Packets(tx_queue_len)).into()
    }

    /// The queues of all leaves.
    pub(in crate::qdisc) fn leaves(&self) -> &[Sched] {
        &self.leaves
    }

    /// The same, to change them.
    pub(in crate::qdisc) fn leaves_mut(&mut self) -> &mut [Sched] {
        self.touched = true;
        &mut self.leaves
    }

    /// The minor of the class that has the queue at `place` of [`Self::leaves`].
    pub(in crate::qdisc) fn minor_of_leaf(&self, place: usize) -> u16 {
        self.class(self.owners[place]).minor
    }

    /// Counts packets that were discarded below.
    pub(in crate::qdisc) fn count_drops(&mut self, drops: u64) {
        self.stats.drops += drops;
    }

    /// Adds a filter of this qdisc, or of one of its classes, which asks it if it has others below it. False if there is no such class.
    pub fn add_filter(&mut self, asked_by: Handle, filter: Filter) -> bool {
        if asked_by.minor() == 0 {
            filter.add_to(&mut self.filters);
            return true;
        }
        let Some(class) = self.hash.find(asked_by) else { return false };
        filter.add_to(&mut self.class_mut_of(class).filters);
        true
    }

    fn has_filter_to(&self, class: Handle) -> bool {
        let of_classes = self.hash.iter().flat_map(|(_, index)| &self.class(index).filters);
        self.filters.iter().chain(of_classes).any(|filter| filter.class == class)
    }

    /// Rates and bursts; priority and quantum are those of a leaf.
    fn set(&mut self, index: Index, config: &ClassConfig) -> Option<QuantumSize> {
        let rate2quantum = self.config.rate2quantum;
        let class = self.class_mut_of(index);
        class.set(config);
        if class.level > 0 {
            return None;
        }
        class.prio = config.prio.min(MAX_PRIO as u32 - 1) as u8;
        class.choose_quantum(config.quantum, rate2quantum)
    }

    /// A leaf becomes a class with others below it.
    fn make_inner(&mut self, index: Index, cx: &mut Cx<'_>) {
        if self.class(index).level > 0 {
            return;
        }
        self.remove_leaf(index, cx);
        let above = self.class(index).parent.map(|parent| self.class(parent).level);
        let level = above.unwrap_or(MAX_DEPTH as u8) - 1;
        self.class_mut_of(index).turn_into_inner(level);
    }

    /// Puts a class into the list of them.
    fn put(&mut self, class: Class) -> Index {
        if let Some(index) = self.free.pop() {
            self.classes[index as usize] = class;
            return index;
        }
        self.classes.push(class);
        self.places.push(0);
        self.classes.len() as Index - 1
    }

    /// The queue of a new leaf, behind all others.
    fn add_leaf(&mut self, owner: Index) {
        let leaf = self.first_leaf();
        self.leaves.push(leaf);
        self.owners.push(owner);
    }

    /// Discards the queue of a leaf, which counts as dropped, and takes the class out of all that sends and waits.
    fn remove_leaf(&mut self, index: Index, cx: &mut Cx<'_>) {
        if self.touched {
            self.settle();
        }
        self.deactivate(index);
        self.forget_waiting(index);
        let known = cx.dropped.len();
        let gone = self.class(index).leaf;
        self.leaves.remove(gone).purge(cx);
        self.owners.remove(gone);
        self.count_drops((cx.dropped.len() - known) as u64);
        for class in &mut self.classes {
            class.leaf -= usize::from(class.leaf > gone);
        }
        self.touched = true;
    }

    fn forget_waiting(&mut self, index: Index) {
        if self.class(index).mode != super::class::Mode::CanSend {
            self.remove_from_wait(index);
        }
    }
}
