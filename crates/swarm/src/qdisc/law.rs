//! What a root qdisc of each kind must do with its packets, beyond what holds for all kinds.

use datapath::packet::Packet;
use datapath::qdisc::{AnyQdisc, Sched};
use datapath::units::Instant;

use super::average::Average;
use super::bands::Bands;
use super::call::Call;
use super::classes::Classes;
use super::early::Early;
use super::rounds::Rounds;
use super::slots::SlotUsage;
use super::standing::OneQueue;
use super::tins::Tins;
use super::tokens::Buckets;
use crate::case::BrokenLaw;

/// The law of a root, with what it has to remember.
#[derive(Clone, Debug)]
pub enum Law {
    /// None is known here.
    None,
    /// codel.
    Codel(OneQueue),
    /// fq_codel.
    FqCodel(Rounds),
    /// red.
    Red(Box<Average>),
    /// netem.
    Netem(SlotUsage),
    /// CAKE.
    Cake(Box<Tins>),
    /// htb.
    Htb(Box<Classes>),
    /// prio.
    Prio(Bands),
    /// tbf.
    Tbf(Buckets),
    /// pie.
    Pie(Early),
}

impl Law {
    /// The law of a root that is new and empty.
    pub fn of_new(root: &Sched, now: Instant) -> Self {
        match root.qdisc() {
            AnyQdisc::Codel(codel) => Self::Codel(OneQueue::new(codel.config())),
            AnyQdisc::FqCodel(fq_codel) => Self::FqCodel(Rounds::new(fq_codel.config())),
            AnyQdisc::Red(red) => Self::Red(Box::new(Average::new(red, now))),
            AnyQdisc::Netem(netem) => SlotUsage::of(netem).map_or(Self::None, Self::Netem),
            AnyQdisc::Cake(cake) => Self::Cake(Box::new(Tins::new(cake, root.handle))),
            AnyQdisc::Prio(prio) => Self::Prio(Bands::new(prio, root.handle)),
            AnyQdisc::Tbf(tbf) => Self::Tbf(Buckets::new(tbf.config(), now)),
            AnyQdisc::Pie(pie) => Self::Pie(Early::new(pie, now)),
            AnyQdisc::Htb(htb) => Self::Htb(Box::new(Classes::new(htb, root.handle, now))),
            _ => Self::None,
        }
    }

    /// The law from now on, after a command that has changed the root itself, or what is below it.
    /// What codel and fq_codel remember under other settings is not known here.
    pub fn changed(&mut self, root: &Sched, now: Instant, itself: bool) {
        match (&mut *self, root.qdisc()) {
            (Self::Red(_), _) if !itself => {}
            (Self::Cake(tins), AnyQdisc::Cake(cake)) => tins.changed(cake),
            (Self::Htb(classes), AnyQdisc::Htb(htb)) => classes.changed(htb, now),
            (Self::Prio(bands), AnyQdisc::Prio(prio)) => bands.changed(prio),
            (Self::Tbf(buckets), AnyQdisc::Tbf(tbf)) if itself => {
                *buckets = Buckets::new(tbf.config(), now);
            }
            (Self::Codel(_) | Self::FqCodel(_), _) => *self = Self::None,
            (_, AnyQdisc::Netem(_) | AnyQdisc::Red(_)) => *self = Self::of_new(root, now),
            _ => {}
        }
    }

    /// A filter was added, to the root or below.
    pub fn filter(&mut self, words: &str) {
        match self {
            Self::Htb(classes) => classes.filter(words),
            Self::Prio(bands) => bands.filter(words),
            _ => {}
        }
    }

    /// A packet was given to the root; `came` is what it was before.
    pub fn entered(&mut self, call: &Call<'_>, came: &Packet) -> Result<(), BrokenLaw> {
        match (self, call.root.qdisc()) {
            (Self::Codel(queue), _) => queue.entered(call, came),
            (Self::FqCodel(rounds), AnyQdisc::FqCodel(judged)) => {
                rounds.entered(call, came, judged.flow_of(came))
            }
            (Self::Red(average), AnyQdisc::Red(red)) => average.entered(call, red, came),
            (Self::Cake(tins), AnyQdisc::Cake(cake)) => tins.entered(call, cake, came),
            (Self::Htb(classes), AnyQdisc::Htb(htb)) => classes.entered(call, htb, came),
            (Self::Prio(bands), AnyQdisc::Prio(prio)) => bands.entered(prio, came),
            (Self::Pie(early), AnyQdisc::Pie(pie)) => early.entered(call, pie, came),
            _ => Ok(()),
        }
    }

    /// The root was asked for a packet, and gave this one.
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        match (self, call.root.qdisc()) {
            (Self::Codel(queue), _) => queue.on_dequeue(call, packet),
            (Self::FqCodel(rounds), _) => rounds.on_dequeue(call, packet),
            (Self::Red(average), _) => {
                average.on_dequeue(call, packet);
                Ok(())
            }
            (Self::Netem(slots), _) => slots.on_dequeue(call, packet),
            (Self::Cake(tins), AnyQdisc::Cake(cake)) => tins.on_dequeue(cake, packet),
            (Self::Htb(classes), AnyQdisc::Htb(htb)) => classes.on_dequeue(call, htb, packet),
            (Self::Prio(bands), AnyQdisc::Prio(prio)) => bands.on_dequeue(call, prio, packet),
            (Self::Tbf(buckets), AnyQdisc::Tbf(tbf)) => buckets.on_dequeue(call, tbf, packet),
            _ => Ok(()),
        }
    }
}

/// Whether this queue gives a packet whenever it has one, so that it can be said whose turn it is.
pub fn is_prompt(sched: &Sched) -> bool {
    matches!(sched.qdisc(), AnyQdisc::Fifo(_) | AnyQdisc::PfifoFast(_))
}
