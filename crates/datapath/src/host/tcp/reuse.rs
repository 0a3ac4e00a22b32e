//! Ports towards a peer: which are free, and which have nothing but a connection in TIME-WAIT that may be taken over
//! (`__inet_hash_connect`, `__inet_check_established`, `tcp_twsk_unique`).

use crate::host::Host;
use crate::tcp::{Connection, Endpoints, Ends};
use crate::units::{Duration, Instant};
use core::net::{IpAddr, SocketAddr};

/// How a port towards a peer is taken.
enum Use {
    /// By no connection, or by one that makes way.
    Free,
    /// By one in TIME-WAIT that makes way then.
    FreeFrom(Instant),
    /// By one that does not.
    Taken,
}

impl Host {
    /// Whether a socket that has chosen its port may connect between these ends.
    pub(in crate::host) fn may_connect(&mut self, ends: Ends) -> bool {
        let there = self.tcp_stack().connections.get(&ends);
        there.is_none_or(|id| self.connection_at(id).and_then(Connection::recyclable).is_some())
    }

    /// A connection is about to begin between `ends`: one in TIME-WAIT makes way for it.
    pub(super) fn take_over_time_wait(&mut self, now: Instant, ends: &mut Endpoints) {
        let between = Ends { local: ends.local, remote: ends.remote };
        if let Some(id) = self.tcp_stack().connections.get(&between) {
            self.recycle(now, id, between, ends);
        }
    }

    #[cold]
    fn recycle(&mut self, now: Instant, id: u32, between: Ends, ends: &mut Endpoints) {
        let Some(left) = self.connection_at(id).and_then(Connection::recyclable) else {
            return;
        };
        ends.iss = left.iss;
        ends.ts_recent = (left.ts_recent, left.ts_recent_stamp);
        self.tcp_stack().mib.time_wait_recycled += 1;
        self.unhash(id, between);
        self.with_connection(now, id, Connection::retire);
    }

    /// A port from which `remote` is not connected to yet. That there is none is remembered until a connection is gone,
    /// or as long as none in TIME-WAIT can make way: a program that goes on trying has not to wait for a search each
    /// time.
    pub(in crate::host) fn free_tcp_port(
        &mut self,
        now: Instant,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Option<u16> {
        if let Some(learnt) = &self.tcp_stack().learnt
            && let Some((asked, until)) = learnt.ports_used_up
            && asked == (local, remote)
            && now < until
        {
            return None;
        }
        let mut until = self.none_makes_way_before(now);
        for _ in 0..self.sockets.ephemeral.attempts() {
            let port = self.sockets.ephemeral.next();
            match self.use_of(now, Ends { local: SocketAddr::new(local, port), remote }) {
                Use::Free => return Some(port),
                Use::FreeFrom(later) => until = until.min(later),
                Use::Taken => {}
            }
        }
        let learnt = self.tcp_stack().learnt.get_or_insert_default();
        learnt.ports_used_up = Some(((local, remote), until));
        None
    }

    /// How the ends of a connection whose port nobody has chosen are taken.
    fn use_of(&mut self, now: Instant, ends: Ends) -> Use {
        let Some(id) = self.tcp_stack().connections.get(&ends) else { return Use::Free };
        match self.connection_at(id).and_then(Connection::reusable_from) {
            Some(from) if from <= now.as_millis() => Use::Free,
            Some(from) => Use::FreeFrom(Instant::ZERO + Duration::from_millis(from)),
            None => Use::Taken,
        }
    }

    /// When a connection that goes into TIME-WAIT now makes way at the earliest (`tcp_tw_reuse`).
    fn none_makes_way_before(&mut self, now: Instant) -> Instant {
        let defaults = &self.tcp_stack().defaults;
        match (defaults.sysctl.tcp_tw_reuse, defaults.profile.has_tw_reuse_delay) {
            (0, _) => Instant::FAR_FUTURE,
            (_, true) => now + Duration::from_millis(defaults.sysctl.tcp_tw_reuse_delay.into()),
            // Its timestamp may have come in an earlier second.
            (_, false) => now,
        }
    }
}
