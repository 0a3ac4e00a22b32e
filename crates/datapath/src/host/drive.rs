//! The calls of a driver: hand in packets, poll, and come back in time. Credit is in [`super::room`].

use super::{Host, Socket};
use crate::node::{Poll, Port, Rx};
use crate::packet::Packet;
use crate::qdisc::Cx;
use crate::reason::Reason;
use crate::units::Instant;
use core::cmp::Reverse;
use rustc_hash::FxHashMap;

/// How often in a row a host may want to be called at once and then have nothing to send.
const EMPTY_TURNS: u32 = 10_000;

impl Host {
    /// A packet has arrived on `port`. It is read and edited in place: [`Rx`] says whether the driver is to
    /// forward it from there. Everything else comes out of [`poll`](Self::poll).
    ///
    /// # Panics
    /// Time ran backwards, or went on before [`Poll::Idle`].
    #[inline]
    pub fn receive(&mut self, now: Instant, port: Port, packet: &mut Packet) -> Rx {
        self.come_to(now);
        let rx = self.link_receive(now, port, packet);
        if rx == Rx::Taken {
            self.busy = true;
            // The old contents of the place must not keep their frame.
            if packet.body.frame.is_some() {
                packet.body.frame = None;
            }
        }
        rx
    }

    /// Sends a packet made outside of the host by `port`, as a packet socket does: into its queue, or past it.
    /// Drops come out of [`poll`](Self::poll).
    ///
    /// # Panics
    /// Time ran backwards, or went on before [`Poll::Idle`].
    pub fn send_by(&mut self, now: Instant, port: Port, mut packet: Packet) {
        self.begin(now);
        let _is_told_by_poll = self.transmit(now, port.0, &mut packet);
    }

    /// Does what is due, and returns the next output. A packet is written to
    /// `place`, whose contents are meaningless otherwise. To be called until it returns [`Poll::Idle`].
    ///
    /// # Panics
    /// Time ran backwards, or went on before [`Poll::Idle`]; or the host is in an endless loop, which
    /// is a fault of its own.
    #[inline]
    pub fn poll(&mut self, now: Instant, place: &mut Packet) -> Poll {
        self.come_to(now);
        if let Some(port) = self.chain
            && self.next_of_chain(port, place)
        {
            return self.sends(port);
        }
        let mut turns = 0;
        loop {
            let next = self.next_timer();
            if next <= now || self.upkeep_changed || self.out.may_send() {
                self.busy = true;
                if let Some(port) = self.next_packet(now, next, place) {
                    return self.sends(port);
                }
                turns += 1;
                assert!(turns < EMPTY_TURNS, "time stands still at {now:?}: due at {next:?}");
            } else if self.out.may_tell() {
                self.busy = true;
                return self.tell(now, place);
            } else if !self.complete_deferred(now) {
                self.busy = false;
                return Poll::Idle(next);
            }
        }
    }

    /// The time of [`Poll::Idle`], if [`poll`](Self::poll) would return nothing else and do nothing; `None` if it must
    /// be called to find out. Needs no place for a packet, and is short, because most calls find a host with no (more)
    /// output.
    ///
    /// # Panics
    /// As [`poll`](Self::poll).
    #[inline]
    pub fn idle_until(&mut self, now: Instant) -> Option<Instant> {
        self.come_to(now);
        if self.chain.is_some() || !self.out.is_empty() {
            return None;
        }
        let next = self.next_timer();
        if next.min(self.completes_at) <= now || self.upkeep_changed {
            return None;
        }
        self.busy = false;
        Some(next)
    }

    /// The time of the latest call.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The time of the latest [`Poll::Idle`], for a driver that has not kept it; `None` for never. O(1).
    pub fn wake_at(&self) -> Option<Instant> {
        let at = self.next_timer();
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// Begins an input at `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        self.come_to(now);
        self.busy = true;
    }

    /// Begins a system call at `now`, by which time packets may have left: sockets get their memory
    /// back, and the numbers of closed sockets whose last packets have left are free.
    #[inline]
    pub(super) fn begin_syscall(&mut self, now: Instant) {
        self.begin(now);
        self.complete_deferred(now);
    }

    /// It is `now`.
    #[inline]
    pub(super) fn come_to(&mut self, now: Instant) {
        if now != self.now {
            assert!(now > self.now, "time ran backwards, from {:?} to {now:?}", self.now);
            assert!(!self.busy, "not polled until idle at {:?}, and it is {now:?}", self.now);
            self.now = now;
        }
    }

    #[inline]
    fn sends(&mut self, port: Port) -> Poll {
        let more = self.ports[usize::from(port.0)].has_chain();
        self.chain = more.then_some(port);
        Poll::Send { port, more }
    }

    /// The next segment of the chain that has begun to leave by `port`.
    #[inline(never)]
    fn next_of_chain(&mut self, port: Port, place: &mut Packet) -> bool {
        self.ports[usize::from(port.0)].dequeue_chained(&mut self.out.spare, place)
    }

    /// Does what is due, and writes the next packet to send to `place`. The next timer fires at `next`.
    #[inline]
    fn next_packet(&mut self, now: Instant, next: Instant, place: &mut Packet) -> Option<Port> {
        if next <= now {
            self.run_timers(now);
        }
        if self.upkeep_changed {
            self.upkeep_changed = false;
            self.ask_for_upkeep();
        }
        self.receive_looped_back(now);
        if let Some(port) = self.out.direct.pop_into(place) {
            return Some(port);
        }
        self.next_queued(now, place)
    }

    /// The next packet of any port that may send; ports take turns packet by packet.
    #[inline(never)]
    fn next_queued(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        while let Some(&index) = self.out.sending.front() {
            let port = &mut self.ports[usize::from(index)];
            let mut cx = Cx { now, dropped: &mut self.out.dropped };
            if port.dequeue(&mut cx, &mut self.out.spare, place) {
                let freed = port.freed.take();
                if !port.room.may_send() {
                    port.listed = false;
                    self.out.sending.pop_front();
                    if let Some(at) = port.room.awaited() {
                        self.port_timers.arm(u32::from(index), at);
                    }
                }
                match freed {
                    Some(freed) if self.is_in_softirq() => {
                        let segments = self.ports[usize::from(index)].segments();
                        self.keep_in_backlog(freed, segments);
                    }
                    Some(freed) => self.give_back(now, freed),
                    None => {}
                }
                return Some(Port(index));
            }
            if let Some(at) = port.watchdog() {
                self.port_timers.arm(u32::from(index), at);
            }
            port.listed = false;
            self.out.sending.pop_front();
        }
        None
    }

    /// The next output other than a packet to send.
    #[inline]
    fn tell(&mut self, now: Instant, place: &mut Packet) -> Poll {
        if !self.out.dropped.is_empty() {
            return Poll::Drop(self.tell_drop(now, place));
        }
        if let Some(ready) = self.out.ready.pop_front() {
            return Poll::Ready(ready);
        }
        self.tell_event()
    }

    #[inline(never)]
    fn tell_drop(&mut self, now: Instant, place: &mut Packet) -> Reason {
        let (reason, packet) = self.out.next_drop();
        self.give_back_of(now, &packet);
        *place = packet;
        reason
    }

    #[inline(never)]
    fn tell_event(&mut self) -> Poll {
        let event = self.out.next_event().expect("there is something to tell");
        Poll::Event(Box::new(event))
    }

    /// Finds out when routes, fragments and neighbours need upkeep.
    #[inline(never)]
    fn ask_for_upkeep(&mut self) {
        let fragments = self.reassembly.as_ref().and_then(|it| it.wake_at());
        let at = self.fib.wake_at().into_iter().chain(fragments).min();
        self.upkeep_at = at.unwrap_or(Instant::FAR_FUTURE).min(self.neighbours_wake_at());
    }

    #[inline]
    fn next_timer(&self) -> Instant {
        debug_assert!(
            self.upkeep_changed || self.upkeep_at <= self.neighbours_wake_at(),
            "whoever changes when neighbours want to be called says so"
        );
        let queues = self.socket_timers.next_at().min(self.port_timers.next_at());
        queues.min(self.upkeep_at)
    }

    fn run_socket_timer(&mut self, now: Instant, id: u32) {
        if matches!(self.sockets.get(id), Some(Socket::Tcp(_))) {
            self.tcp_timer(now, id);
        }
    }

    /// Several sockets are due: they are called in the order of the kernel's timer wheel.
    #[cold]
    fn run_timers_in_turn(&mut self, now: Instant, first: u32) {
        let mut due = vec![first];
        due.extend(core::iter::from_fn(|| self.socket_timers.pop_due(now)));
        self.run_in_turn(now, due);
    }

    /// Timers that were set when others fired together were so in the order of those: the last is the first to fire.
    pub(super) fn run_in_turn(&mut self, now: Instant, due: Vec<u32>) {
        let (fired_at, fired) =
            self.fired.as_deref().map_or((now, &[][..]), |(at, ids)| (*at, ids));
        let places: FxHashMap<u32, usize> = fired.iter().copied().zip(0..).collect();
        let turn = |id: u32| {
            let turn = self.connection_at(id).map(|tcp| tcp.timers_turn(now));
            let is_of_those = turn.is_some_and(|(_, placed)| placed == fired_at);
            (turn, places.get(&id).copied().filter(|_| is_of_those))
        };
        let mut turns: Vec<_> = due.into_iter().map(|id| (Reverse(turn(id)), id)).collect();
        turns.sort_unstable();
        // Some have only been armed for a time that is over.
        let fires = |turn: Option<_>| turn.is_some_and(|turn| turn != <_>::default());
        let fire = turns.iter().filter(|(Reverse((turn, _)), _)| fires(*turn));
        let fire: Vec<u32> = fire.map(|(_, id)| *id).collect();
        if fire.len() > 1 {
            self.fired = Some(Box::new((now, fire)));
        }
        for (_, id) in turns {
            self.run_socket_timer(now, id);
        }
    }

    #[inline(never)]
    fn run_timers(&mut self, now: Instant) {
        self.run_neighbours(now);
        while let Some(id) = self.socket_timers.pop_due(now) {
            if self.socket_timers.next_at() <= now {
                self.run_timers_in_turn(now, id);
            } else {
                self.run_socket_timer(now, id);
            }
        }
        while let Some(index) = self.port_timers.pop_due(now) {
            self.complete(now, index as u16);
            self.list_port(index as u16);
            self.serve_interrupt(now, Port(index as u16));
            // A timer remembers its earliest time only: what is still ahead is armed again.
            let port = &self.ports[index as usize];
            self.port_timers.arm(index, port.room.frees_memory_at().min(port.interrupt_at()));
        }
        if self.upkeep_changed || self.upkeep_at <= now {
            self.fib.upkeep(now);
            self.expire_fragments(now);
            self.upkeep_changed = true;
        }
    }
}
