//! What a host reports about itself before and after an input: laws that cannot be checked on the wire alone.

use datapath::socket::{Errno, Return};
use datapath::tcp::Connection;
use datapath::tcp::state::State;
use datapath::units::Duration;

use super::bench::Bench;
use super::calls::Call;
use crate::case::BrokenLaw;
use crate::oracle::insight::{ConnectionView, HostView, may_follow};

/// `MAX_SYNCOOKIE_AGE`, ms.
const COOKIE_AGE: u64 = 2 * 60_000;
/// The memory of the records that are joined to make a super-packet.
const JOINED: u32 = 16 << 10;

impl Bench {
    /// What there is to be known of a flow's connection.
    pub(super) fn view(&self, at: usize) -> Option<ConnectionView> {
        let found = self.connection(at)?;
        let (sndbuf, wmem_queued) = (found.sndbuf(), found.wmem_queued());
        Some(ConnectionView { info: found.info(self.now), sndbuf, wmem_queued })
    }

    /// A flow's connection, unless it is closed.
    pub(super) fn connection(&self, at: usize) -> Option<&Connection> {
        let ports = self.flows[at].ports;
        let mut all = self.host.tcp_connections();
        all.find(|tcp| {
            (tcp.local().port(), tcp.remote().port()) == ports && tcp.state() != State::Close
        })
    }

    /// What a segment or a call has made of a connection makes sense. `once`: it was one input.
    pub(super) fn check_sense(
        &self,
        at: usize,
        before: Option<&ConnectionView>,
        once: bool,
    ) -> Result<(), BrokenLaw> {
        let (Some(before), Some(now)) = (before, self.view(at)) else { return Ok(()) };
        let flow = &self.flows[at];
        if flow.in_pieces || flow.urgent {
            return Ok(());
        }
        let quiet = self.is_quiet();
        if quiet {
            now.check(flow)?;
            self.check_path(at)?;
        }
        // A connection learns of another route's MTU with its next packet.
        let by_default = self.by_default && self.one_mtu;
        let around = HostView { quiet, by_default, modern: self.modern };
        if !once {
            return Ok(());
        }
        // What a busy device sends now may have been given to it before.
        if quiet && self.busy == Duration::ZERO {
            now.resends_within(flow)?;
        }
        now.follows(before, around)
    }

    /// A read that has emptied the buffer advertises the open window (`tcp_cleanup_rbuf`).
    pub(super) fn check_opened(
        &self,
        at: usize,
        read: &Result<Return, Errno>,
    ) -> Result<(), BrokenLaw> {
        let Some(now) = self.view(at) else { return Ok(()) };
        let flow = &self.flows[at];
        let all = now.info.bytes_received == flow.read && flow.host_sack.is_empty();
        let has_read = read.as_ref().is_ok_and(|done| done.value > 0);
        // No window smaller than a segment is opened (__tcp_select_window), and what the window may
        // grow to does not follow when a segment turns out larger (tcp_grow_window).
        let has_room = now.info.rcv_ssthresh >= now.info.rcv_mss;
        let has_read = has_read && has_room;
        let established = now.info.state == State::Established && flow.past.is_empty();
        let established = established && !flow.urgent && !flow.shut;
        if has_read && all && established && self.is_quiet() && flow.taken.is_closed() {
            return Err(("window opens", format!("nothing is left to read: {now:?}")));
        }
        Ok(())
    }

    /// States follow each other as they may.
    pub(super) fn check_states(&mut self) -> Result<(), BrokenLaw> {
        if self.host.port(self.port).rx_waiting() > 0 {
            return Ok(());
        }
        for at in 0..self.flows.len() {
            let now = self.state_of(at);
            if now.is_some_and(|state| state != State::Close) {
                self.flows[at].lives();
            } else {
                // The next one of these ports has challenges of its own.
                self.answered_at.retain(|(flow, _)| *flow != at);
            }
            let before = core::mem::replace(&mut self.flows[at].state, now);
            if self.flows[at].end_batch() > 1 {
                // One packet of a batch may end a connection, and a cookie in the next begin another.
                continue;
            }
            if let (Some(before), Some(now)) = (before, now)
                && !may_follow(before, now)
            {
                return Err(("states", format!("{now:?} follows {before:?}")));
            }
        }
        Ok(())
    }

    /// A SYN cookie is good for two minutes.
    pub(super) fn check_cookie_age(
        &self,
        at: usize,
        before: Option<State>,
    ) -> Result<(), BrokenLaw> {
        let Some(since) = self.flows[at].answered_at else { return Ok(()) };
        let age = self.now.as_millis() - since;
        let begun = before.is_none() && self.state_of(at) == Some(State::Established);
        if begun && age > COOKIE_AGE && self.is_quiet() {
            let what = format!("a cookie of {age} ms ago was taken");
            return Err(("SYN cookies", what));
        }
        Ok(())
    }

    /// A writer that got less than it wanted waits for memory.
    pub(super) fn note_writer(&mut self, fd: i32, call: &Call, outcome: &Result<Return, Errno>) {
        let Call::Send(_, wanted, _) = *call else { return };
        let waits = match outcome {
            Err(Errno::EAGAIN) => true,
            Ok(done) => (done.value as u64) < u64::from(wanted),
            Err(_) => false,
        };
        let Some(id) = self.sockets.host_socket(fd) else { return };
        let Some(tcp) = self.host.tcp_connection(id) else { return };
        let acked = tcp.info(self.now).bytes_acked;
        self.writers.retain(|(other, _)| *other != id);
        if waits {
            self.writers.push((id, acked));
        }
    }

    /// Whoever waits for memory has been woken when an ACK has freed some (`tcp_check_space`). What
    /// comes back when records are joined, or when a retransmission leaves out what was acknowledged,
    /// wakes nobody (`tcp_grow_skb`, `tcp_trim_head`): not even when nothing is sent then, as where a
    /// device gives memory back and the window is too small (`tcp_tsq_handler`).
    pub(super) fn check_writers(&mut self) -> Result<(), BrokenLaw> {
        for &(id, acked) in self.writers.iter().filter(|_| self.by_default) {
            let Some(tcp) = self.host.tcp_connection(id) else { continue };
            let info = tcp.info(self.now);
            let (sndbuf, wmem_queued) = (tcp.sndbuf(), tcp.wmem_queued());
            let look = ConnectionView { info, sndbuf, wmem_queued };
            let open = matches!(info.state, State::Established | State::CloseWait);
            let freed = info.bytes_acked > acked && info.last_ack_recv == 0;
            if open && freed && look.has_space(JOINED) {
                return Err(("writers are woken", format!("{look:?}")));
            }
        }
        Ok(())
    }
}
