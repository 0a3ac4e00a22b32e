//! Hosts that are name spaces of one machine with one CPU: what their driver says besides [the law](crate#the-law). It is
//! for replays of what such a machine has recorded.
//!
//! Any interrupt of the machine may fire timers that have some slack, and softirqs fire timers in their order. What a
//! virtual device has taken in a softirq lies in the machine's backlog (`softnet_data`): it belongs to its sender until
//! the far end's turn comes in the same softirq. TCP Small Queues count it for so long.

use super::room::Charge;
use super::{Host, Socket, SocketId, TcpSocket};
use crate::node::Port;
use crate::packet::{Meta, Packet};
use crate::tcp::{Connection, truesize_of_segments};
use crate::units::Instant;
use std::collections::VecDeque;

/// Packets that lie in it, of one host.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// What the host does now it does in a softirq; in a system call each packet is received before it goes on.
    in_softirq: bool,
    /// Memory that owners get back, and with which packet of the machine's backlog.
    charges: VecDeque<(u32, Charge)>,
    /// Sockets that TCP Small Queues had stopped and that have memory back; the first goes on last (`tsq_work`).
    stopped: Vec<u32>,
    /// Memory that the segments of the packet sent last take beyond its own.
    cut_extra: u32,
}

/// The turn of what its queue has let go, but has yet to be put on the wire.
const LEAVING: u32 = u32::MAX;

/// A host as a name space of such a machine: [`Host::on_one_machine`].
pub struct OneMachine<'a> {
    host: &'a mut Host,
}

impl OneMachine<'_> {
    /// When a timer fires at the latest that may fire from `now` on, if there is one: any interrupt of the machine
    /// may fire it (`hrtimer_interrupt`).
    pub fn lax_timer(&self, now: Instant) -> Option<Instant> {
        self.host.ports.iter().filter_map(|port| port.lax_timer(now)).min()
    }

    /// Fires such timers at `now`; to be polled.
    pub fn fire_lax_timers(&mut self, now: Instant) {
        for (index, port) in (0..).zip(&self.host.ports) {
            if port.lax_timer(now).is_some() {
                self.host.port_timers.arm(index, now);
            }
        }
    }

    /// Sockets have the timers of their wheel fire that are due at `now`, before queues let anything go and before
    /// anything arrives (`TIMER_SOFTIRQ`); to be polled.
    #[cold]
    pub fn fire_wheel_timers(&mut self, now: Instant) {
        self.host.begin(now);
        let due = core::iter::from_fn(|| self.host.socket_timers.pop_due(now));
        let mut due: Vec<u32> = due.collect();
        let is_exact = |id: &u32| {
            self.host.connection_at(*id).is_some_and(|tcp| tcp.timers_turn(now) == <_>::default())
        };
        let exact: Vec<u32> = due.extract_if(.., |id| is_exact(id)).collect();
        for id in exact {
            self.host.socket_timers.arm(id, now);
        }
        self.host.run_in_turn(now, due);
    }

    /// Nothing is due at `now` but timers of high resolution of sockets (`HRTIMER_SOFTIRQ`).
    pub fn fires_exact_timers_only(&self, now: Instant) -> bool {
        let others = self.host.port_timers.next_at().min(self.host.neighbours_wake_at());
        self.host.socket_timers.next_at() <= now && others > now && !self.host.out.may_send()
    }

    /// The host is a name space of a machine whose softirqs its driver plays: `in_softirq` until said otherwise.
    #[cold]
    pub fn enter_softirq(&mut self, in_softirq: bool) {
        self.host.backlog.get_or_insert_default().in_softirq = in_softirq;
    }

    /// As [`credit`](Host::credit), but the packet's owner gets its memory back only by
    /// [`backlog_received`](Self::backlog_received), if this is a softirq. `turn`: the packet's place in the backlog.
    #[cold]
    pub fn credit_backlog(&mut self, now: Instant, port: Port, turn: u32) {
        if !self.host.is_in_softirq() {
            return self.host.credit(now, port);
        }
        let left = self.host.make_room(now, port);
        let charges = &mut self.host.backlog.get_or_insert_default().charges;
        if left.has_owner() {
            charges.push_back((turn, left));
        } else if let Some(leaving) = charges.iter_mut().find(|(turn, _)| *turn == LEAVING) {
            leaving.0 = turn;
        }
    }

    /// Whether packets lie in the backlog.
    pub fn has_backlog(&self) -> bool {
        self.host.backlog.as_ref().is_some_and(|backlog| !backlog.charges.is_empty())
    }

    /// What lay in the backlog up to this turn has been received: its owners have their memory back, and who waited for it
    /// is to go on. In `ksoftirqd` nobody is before all its packets are gone (`tcp_wfree`). To be polled.
    #[cold]
    pub fn backlog_received(&mut self, now: Instant, turn: u32, in_ksoftirqd: bool) {
        self.host.begin(now);
        while let Some(charge) = self.host.next_received(turn) {
            let Some(Socket::Tcp(TcpSocket::Connection(socket))) =
                self.host.sockets.get_mut(charge.owner)
            else {
                self.host.give_back(now, charge);
                continue;
            };
            let connection = &mut socket.connection;
            let waits = connection.transmit_done(charge.truesize);
            let goes_on = waits && !(in_ksoftirqd && connection.wmem_alloc() > 0);
            let stopped = &mut self.host.backlog.get_or_insert_default().stopped;
            if goes_on && !stopped.contains(&charge.owner) {
                stopped.push(charge.owner);
                connection.defer_output();
            }
        }
    }

    /// Whether a socket is to go on that TCP Small Queues have stopped.
    pub fn has_stopped(&self) -> bool {
        self.host.backlog.as_ref().is_some_and(|backlog| !backlog.stopped.is_empty())
    }

    /// Sockets that TCP Small Queues have stopped go on, the one that was stopped last first, except for the one that a
    /// program holds (`tcp_tsq_workfn`); to be polled.
    #[cold]
    pub fn stopped_go_on(&mut self, now: Instant, held: Option<SocketId>) {
        let Some(backlog) = &mut self.host.backlog else { return };
        let stopped = core::mem::take(&mut backlog.stopped);
        self.host.begin(now);
        for owner in stopped.into_iter().rev() {
            if held.is_none_or(|held| held.index() != owner as usize) {
                self.host.with_connection(now, owner, Connection::resume_output);
            }
        }
    }

    /// A program lets go of a socket, which goes on if its turn has come meanwhile (`tcp_release_cb`); to be polled.
    #[cold]
    pub fn release_socket(&mut self, now: Instant, socket: SocketId) {
        let queued =
            |backlog: &Backlog| backlog.stopped.iter().any(|it| *it as usize == socket.index());
        let is_queued = self.host.backlog.as_ref().is_some_and(|backlog| queued(backlog));
        self.host.begin(now);
        let _is_gone = self.host.with_tcp(now, socket, |tcp, cx| {
            if tcp.has_deferred_output() && !is_queued {
                tcp.resume_output(cx);
            }
        });
    }
}

impl Host {
    /// What there is to say of it besides the law, if it is a name space of a machine.
    #[inline]
    pub fn on_one_machine(&mut self) -> OneMachine<'_> {
        OneMachine { host: self }
    }

    /// Whether what leaves now stays in a backlog.
    #[inline]
    pub(super) fn is_in_softirq(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.in_softirq)
    }

    /// A packet is about to be cut: its segments are charged for what they take (`tcp_gso_segment`).
    #[cold]
    pub(super) fn charge_segments(&mut self, linear: bool, packet: &mut Packet) {
        let Meta { truesize, gso_size, .. } = packet.meta;
        let len = packet.body.len;
        let all = truesize_of_segments(linear, len, gso_size.into(), truesize.saturating_sub(len));
        packet.meta.truesize = all.max(truesize);
        self.backlog.get_or_insert_default().cut_extra = packet.meta.truesize - truesize;
    }

    #[inline]
    pub(super) fn take_cut_extra(&mut self) -> u32 {
        self.backlog.as_mut().map_or(0, |backlog| core::mem::take(&mut backlog.cut_extra))
    }

    /// A packet that its owner has yet to get back is about to lie in the backlog, in so many segments: each has its
    /// share (`skb_segment`).
    #[cold]
    pub(super) fn keep_in_backlog(&mut self, charge: Charge, segments: u32) {
        let charges = &mut self.backlog.get_or_insert_default().charges;
        let share = charge.truesize / segments;
        for left in (0..segments).rev() {
            let truesize = if left > 0 { share } else { charge.truesize - share * (segments - 1) };
            charges.push_back((LEAVING, Charge { truesize, ..charge }));
        }
    }

    fn next_received(&mut self, until: u32) -> Option<Charge> {
        let charges = &mut self.backlog.as_mut()?.charges;
        let (_, charge) = charges.pop_front_if(|(turn, _)| *turn <= until)?;
        Some(charge)
    }
}
