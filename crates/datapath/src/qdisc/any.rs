//! The closed enum of qdiscs.

use super::cake::Cake;
use super::codel::Codel;
use super::dualpi2::DualPi2;
use super::fifo::{Fifo, PfifoFast};
use super::fq::Fq;
use super::fq_codel::FqCodel;
use super::guest::Guest;
use super::htb::Htb;
use super::netem::Netem;
use super::pie::Pie;
use super::prio::Prio;
use super::red::Red;
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
    PfifoFast(Box<PfifoFast>),
    /// tbf.
    Tbf(Box<Tbf>),
    /// netem.
    Netem(Box<Netem>),
    /// red.
    Red(Box<Red>),
    /// codel.
    Codel(Box<Codel>),
    /// fq.
    Fq(Box<Fq>),
    /// fq_codel.
    FqCodel(Box<FqCodel>),
    /// dualpi2.
    DualPi2(Box<DualPi2>),
    /// pie.
    Pie(Box<Pie>),
    /// prio.
    Prio(Box<Prio>),
    /// htb.
    Htb(Box<Htb>),
    /// cake.
    Cake(Box<Cake>),
    /// A library user's own.
    Guest(Box<Guest>),
}

/// Calls the same method on any kind of qdisc.
macro_rules! each {
    ($any:expr, $qdisc:ident => $call:expr) => {
        match $any {
            AnyQdisc::Fifo($qdisc) => $call,
            AnyQdisc::PfifoFast($qdisc) => $call,
            AnyQdisc::Tbf($qdisc) => $call,
            AnyQdisc::Netem($qdisc) => $call,
            AnyQdisc::Red($qdisc) => $call,
            AnyQdisc::Codel($qdisc) => $call,
            AnyQdisc::Fq($qdisc) => $call,
            AnyQdisc::FqCodel($qdisc) => $call,
            AnyQdisc::DualPi2($qdisc) => $call,
            AnyQdisc::Pie($qdisc) => $call,
            AnyQdisc::Prio($qdisc) => $call,
            AnyQdisc::Htb($qdisc) => $call,
            AnyQdisc::Cake($qdisc) => $call,
            AnyQdisc::Guest($qdisc) => $call,
        }
    };
}

/// The pattern of kinds without classes: a new kind is listed here or has an arm of its own.
macro_rules! classless {
    () => {
        AnyQdisc::Fifo(_)
            | AnyQdisc::PfifoFast(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_)
    };
}
pub(super) use classless;

impl AnyQdisc {
    /// Its kind, as tc calls it (`Qdisc_ops.id`).
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fifo(fifo) => fifo.kind().name(),
            Self::PfifoFast(_) => "pfifo_fast",
            Self::Tbf(_) => "tbf",
            Self::Netem(_) => "netem",
            Self::Red(_) => "red",
            Self::Codel(_) => "codel",
            Self::Fq(_) => "fq",
            Self::FqCodel(_) => "fq_codel",
            Self::DualPi2(_) => "dualpi2",
            Self::Pie(_) => "pie",
            Self::Prio(_) => "prio",
            Self::Htb(_) => "htb",
            Self::Cake(_) => "cake",
            Self::Guest(guest) => guest.kind(),
        }
    }
}

impl Qdisc for AnyQdisc {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        each!(self, qdisc => qdisc.enqueue(packet, cx))
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        each!(self, qdisc => qdisc.dequeue(cx))
    }

    #[inline]
    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        each!(self, qdisc => qdisc.enqueue_from(place, cx))
    }

    #[inline]
    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        each!(self, qdisc => qdisc.dequeue_into(place, cx))
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        each!(self, qdisc => qdisc.purge(cx));
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

/// Makes each kind convertible into [`AnyQdisc`], boxed where it is large.
macro_rules! variants {
    ($($variant:ident($make:expr): $qdisc:ty),* $(,)?) => {
        $(impl From<$qdisc> for AnyQdisc {
            fn from(qdisc: $qdisc) -> Self {
                Self::$variant($make(qdisc))
            }
        })*
    };
}

variants! {
    Fifo(core::convert::identity): Fifo,
    PfifoFast(Box::new): PfifoFast,
    Tbf(Box::new): Tbf,
    Netem(Box::new): Netem,
    Red(Box::new): Red,
    Codel(Box::new): Codel,
    Fq(Box::new): Fq,
    FqCodel(Box::new): FqCodel,
    DualPi2(Box::new): DualPi2,
    Pie(Box::new): Pie,
    Prio(Box::new): Prio,
    Htb(Box::new): Htb,
    Cake(Box::new): Cake,
    Guest(Box::new): Guest,
}
