//! The closed choice of qdiscs, and a qdisc as it is attached: with its handle, and with the
//! packet that its parent has looked at.

use super::fifo::{Fifo, PfifoFast};
use super::handle::Handle;
use super::netem::Netem;
use super::tbf::Tbf;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::units::Instant;

/// Any qdisc.
#[derive(Clone, Debug)]
pub enum AnyQdisc {
    /// pfifo, bfifo, pfifo_head_drop, noqueue.
    Fifo(Fifo),
    /// pfifo_fast.
    PfifoFast(PfifoFast),
    /// tbf.
    Tbf(Box<Tbf>),
    /// netem.
    Netem(Box<Netem>),
}

/// Calls the same method of whichever qdisc it is.
macro_rules! each {
    ($any:expr, $qdisc:ident => $call:expr) => {
        match $any {
            AnyQdisc::Fifo($qdisc) => $call,
            AnyQdisc::PfifoFast($qdisc) => $call,
            AnyQdisc::Tbf($qdisc) => $call,
            AnyQdisc::Netem($qdisc) => $call,
        }
    };
}

impl Qdisc for AnyQdisc {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        each!(self, qdisc => qdisc.enqueue(packet, cx))
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        each!(self, qdisc => qdisc.dequeue(cx))
    }

    fn wake_at(&self) -> Option<Instant> {
        each!(self, qdisc => qdisc.wake_at())
    }

    fn backlog(&self) -> Backlog {
        each!(self, qdisc => qdisc.backlog())
    }

    fn stats(&self) -> Stats {
        each!(self, qdisc => qdisc.stats())
    }
}

/// A qdisc where it is attached (`struct Qdisc`): at the root of a port or under a class.
#[derive(Clone, Debug)]
pub struct Sched {
    /// Its handle, `major:`.
    pub handle: Handle,
    qdisc: AnyQdisc,
    /// The packet that `peek` has taken out early and that still belongs to this queue.
    held: Option<Packet>,
}

impl Sched {
    /// Attaches `qdisc` as `handle`.
    pub fn new(handle: Handle, qdisc: impl Into<AnyQdisc>) -> Self {
        Self { handle, qdisc: qdisc.into(), held: None }
    }

    /// The qdisc itself.
    pub fn qdisc(&self) -> &AnyQdisc {
        &self.qdisc
    }

    /// The qdisc itself, to change its settings.
    pub fn qdisc_mut(&mut self) -> &mut AnyQdisc {
        &mut self.qdisc
    }

    /// The packet that the next `dequeue` gives, without taking it.
    ///
    /// A FIFO just looks; a qdisc that decides at dequeue takes the packet out and keeps it
    /// (`qdisc_peek_dequeued`), so its decision falls now and not when the parent has tokens.
    pub fn peek(&mut self, cx: &mut Cx<'_>) -> Option<&Packet> {
        match &mut self.qdisc {
            AnyQdisc::Fifo(fifo) => return fifo.peek(),
            deciding => {
                if self.held.is_none() {
                    self.held = deciding.dequeue(cx);
                }
            }
        }
        self.held.as_ref()
    }

    /// Whether `packet` may go straight to a device that has room, because nothing waits and the
    /// qdisc does not mind; it is then counted as sent.
    #[inline]
    pub fn bypass(&mut self, packet: &Packet) -> bool {
        match &mut self.qdisc {
            AnyQdisc::Fifo(fifo) => fifo.bypass(packet),
            _ => false,
        }
    }

    /// Everything attached, outermost first: the parent class and the qdisc.
    pub fn tree(&self) -> Vec<(Handle, &Sched)> {
        let mut found = vec![(Handle::ROOT, self)];
        let mut next = 0;
        while let Some(&(_, sched)) = found.get(next) {
            found.extend(sched.children());
            next += 1;
        }
        found
    }

    /// The direct children with the class that each is attached to.
    fn children(&self) -> Vec<(Handle, &Sched)> {
        let class = |minor| Handle::new(self.handle.major(), minor);
        match &self.qdisc {
            AnyQdisc::Tbf(tbf) => vec![(class(1), tbf.child())],
            AnyQdisc::Netem(netem) => {
                netem.child().map(|child| (class(1), child)).into_iter().collect()
            }
            AnyQdisc::Fifo(_) | AnyQdisc::PfifoFast(_) => Vec::new(),
        }
    }

    /// Attaches `child` to the class `parent` and gives back what was there before, with the
    /// packets that still wait in it; `Err` gives `child` back: there is no such class.
    ///
    /// # Errors
    /// No class of that id exists in this tree, or its owner takes no inner qdisc.
    pub fn graft(&mut self, parent: Handle, child: Box<Sched>) -> Result<Box<Sched>, Box<Sched>> {
        let slot = if parent == Handle::ROOT { Some(self) } else { self.class_mut(parent) };
        match slot {
            Some(slot) => Ok(Box::new(core::mem::replace(slot, *child))),
            None => Err(child),
        }
    }

    /// What is attached to the class `parent`.
    pub fn class_mut(&mut self, parent: Handle) -> Option<&mut Sched> {
        let here = self.handle.owns(parent);
        let child = match &mut self.qdisc {
            AnyQdisc::Tbf(tbf) => tbf.child_mut(),
            AnyQdisc::Netem(netem) => netem.child_mut(here)?,
            AnyQdisc::Fifo(_) | AnyQdisc::PfifoFast(_) => return None,
        };
        if here { Some(child) } else { child.class_mut(parent) }
    }
}

impl Qdisc for Sched {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.qdisc.enqueue(packet, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.held.take().or_else(|| self.qdisc.dequeue(cx))
    }

    fn wake_at(&self) -> Option<Instant> {
        self.qdisc.wake_at()
    }

    fn backlog(&self) -> Backlog {
        let held = self.held.as_ref().map_or(Backlog::default(), Backlog::of);
        self.qdisc.backlog() + held
    }

    fn stats(&self) -> Stats {
        self.qdisc.stats()
    }
}

impl<Q: Into<AnyQdisc>> From<Q> for Sched {
    fn from(qdisc: Q) -> Self {
        Self::new(Handle::NONE, qdisc)
    }
}

impl From<Fifo> for AnyQdisc {
    fn from(fifo: Fifo) -> Self {
        Self::Fifo(fifo)
    }
}

impl From<PfifoFast> for AnyQdisc {
    fn from(pfifo_fast: PfifoFast) -> Self {
        Self::PfifoFast(pfifo_fast)
    }
}

impl From<Tbf> for AnyQdisc {
    fn from(tbf: Tbf) -> Self {
        Self::Tbf(Box::new(tbf))
    }
}

impl From<Netem> for AnyQdisc {
    fn from(netem: Netem) -> Self {
        Self::Netem(Box::new(netem))
    }
}
