//! What a host reports unasked, compared with what can be observed: sockets that become ready are reported, and
//! connections are refused only for lack of room.

use std::collections::BTreeMap;

use datapath::host::{Host, SocketId};
use datapath::node::SocketReady;
use datapath::socket::Fd;

/// What a descriptor is ready for, by its number and the host's.
pub type Readiness = BTreeMap<(Fd, SocketId), Ready>;

/// What something is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// To be read, or accepted from.
    pub read: bool,
    /// To be written.
    pub write: bool,
}

/// A listener: how many wait, how many may, and how many might before.
#[derive(Clone, Copy, Debug)]
pub struct AcceptQueue {
    pub waiting: u32,
    pub backlog: u32,
    pub largest: u32,
}

/// What is known of one host.
#[derive(Debug, Default)]
pub struct Watch {
    /// SYNs and ACKs that found an accept queue full (`ListenOverflows`).
    overflows: u64,
    /// What readiness has been reported of which sockets since `before`.
    reported: BTreeMap<SocketId, u8>,
    before: Readiness,
}

impl Watch {
    /// The readiness of a socket is reported.
    pub fn on_ready(&mut self, ready: SocketReady) {
        *self.reported.entry(ready.socket).or_default() |= ready.bits;
    }

    /// Somebody is refused only by a queue with more than the backlog (`sk_acceptq_is_full`), and none
    /// has two more.
    pub fn accept_queues(&mut self, host: &Host, queues: &[AcceptQueue]) -> Result<(), String> {
        let overflows = host.tcp_mib_seen().map_or(0, |mib| mib.listen_overflows);
        let refused = overflows > core::mem::replace(&mut self.overflows, overflows);
        let is_full = |queue: &AcceptQueue| queue.waiting > queue.backlog;
        if refused && !queues.iter().any(is_full) {
            return Err(format!("a connection was refused, but no queue is full: {queues:?}"));
        }
        match queues.iter().find(|queue| queue.waiting > queue.largest + 1) {
            Some(queue) => Err(format!("too many wait: {queue:?}")),
            None => Ok(()),
        }
    }

    /// Readiness from here on is news.
    pub fn restart(&mut self, now: Readiness) {
        self.before = now;
        self.reported.clear();
    }

    /// All sockets that have become ready since the last time were reported.
    pub fn readiness(&mut self, now: Readiness) -> Result<(), String> {
        let end = SocketReady::ERROR | SocketReady::HANGUP;
        for (key @ (fd, socket), ready) in &now {
            let Some(before) = self.before.get(key) else { continue };
            let reported = self.reported.get(socket).copied().unwrap_or(0);
            if ready.read && !before.read && reported & (SocketReady::READABLE | end) == 0 {
                return Err(format!("{fd} is readable, but no waiter was notified"));
            }
            if ready.write && !before.write && reported & (SocketReady::WRITABLE | end) == 0 {
                return Err(format!("{fd} is writable, but no waiter was notified"));
            }
        }
        self.restart(now);
        Ok(())
    }
}
