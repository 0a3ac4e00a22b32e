//! The end of a connection: shutdown, close, reset, failure (`tcp_shutdown`, `tcp_close`, `tcp_done`).

use super::nagle::Nonagle;
use super::skb::Skb;
use super::state::State;
use super::timer::{Pending, Timer};
use super::{Connection, Cx, SocketError};
use crate::node::SocketReady;
use crate::packet::TcpFlags;

impl Connection {
    /// The application will not write any more: FIN after what is queued (`tcp_shutdown`). In
    /// SYN-RECV, FIN waits for the end of the handshake; in SYN-SENT the connection is given up
    /// (`inet_shutdown`, `tcp_disconnect`).
    pub fn shutdown_write(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::SynSent {
            // Who gives up has not failed: nothing is counted.
            return self.end_with(SocketError::Reset, cx);
        }
        self.shut_write = true;
        if self.state != State::SynRecv {
            self.close_sending(cx);
        }
    }

    /// The application will not read any more.
    pub fn shutdown_read(&mut self, cx: &mut Cx<'_>) {
        self.shut_read = true;
        cx.ready |= SocketReady::READABLE | SocketReady::HANGUP;
    }

    /// The application has shut down reading, writing.
    pub fn is_shut(&self) -> (bool, bool) {
        (self.shut_read || self.rcv.fin_received, self.shut_write)
    }

    /// The handshake is over, and the application had shut down writing before.
    pub(super) fn send_deferred_fin(&mut self, cx: &mut Cx<'_>) {
        self.close_sending(cx);
    }

    /// FIN is queued, and the state follows (`tcp_close_state`).
    fn close_sending(&mut self, cx: &mut Cx<'_>) {
        if self.snd.fin_queued {
            return;
        }
        match self.state {
            State::Established | State::SynRecv => {
                self.state = State::FinWait1;
                self.send_fin(cx);
            }
            State::CloseWait => {
                self.state = State::LastAck;
                self.send_fin(cx);
            }
            State::SynSent
            | State::FinWait1
            | State::FinWait2
            | State::TimeWait
            | State::Close
            | State::LastAck
            | State::Listen
            | State::Closing => {}
        }
    }

    /// The application closes the socket (`tcp_close`).
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        if self.orphan {
            return;
        }
        self.orphan = true;
        self.shut_read = true;
        let unread = self.rcv.unread_bytes();
        match self.state {
            State::SynSent | State::Listen | State::Close => {
                self.fast_open_ends(cx);
                self.done(cx);
            }
            // The socket is closed already, and what waits is another (`tcp_close`).
            State::TimeWait => self.rcv.rmem_alloc -= self.rcv.queue.purge(),
            _ if unread > 0 => {
                // RFC 2525 section 2.17: data was lost to the peer; say so.
                cx.mib.abort_on_close += 1;
                self.rcv.rmem_alloc -= self.rcv.queue.purge();
                self.send_reset_and_die(cx);
            }
            State::Established
            | State::SynRecv
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck
            | State::Closing => {
                self.shut_write = true;
                self.close_sending(cx);
                if self.state == State::FinWait2 {
                    if self.start_fin_wait_timer(cx.now) {
                        self.keep_window_for_time_wait(self.fin_time(), cx);
                    } else {
                        cx.mib.abort_on_linger += 1;
                        self.send_reset_and_die(cx);
                    }
                }
            }
        }
    }

    /// Closes, and resets rather than waits (`SO_LINGER` of 0 s).
    pub fn close_hard(&mut self, cx: &mut Cx<'_>) {
        let unread = self.rcv.unread_bytes() > 0 && self.state != State::Close;
        if unread || self.state == State::TimeWait {
            // What was not read is looked at first; and what waits in TIME-WAIT is another socket.
            return self.close(cx);
        }
        if !self.orphan && self.state != State::Close {
            cx.mib.abort_on_data += 1;
        }
        self.abort(cx);
    }

    /// The application dissolves the connection but keeps the socket (`tcp_disconnect`). True if that
    /// is told as an error: it was reset, or never there.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>) -> bool {
        let told = self.ends_with_reset() || self.state == State::SynSent;
        self.abort(cx);
        told
    }

    /// Ends the connection with a reset (`tcp_disconnect`, `SO_LINGER` 0).
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        self.orphan = true;
        if self.ends_with_reset() {
            self.send_reset_and_die(cx);
        } else {
            self.done(cx);
        }
    }

    /// Whether a peer has to be told that it ends now (`tcp_need_reset`).
    fn ends_with_reset(&self) -> bool {
        match self.state {
            State::Established
            | State::CloseWait
            | State::FinWait1
            | State::FinWait2
            | State::SynRecv => true,
            State::Closing | State::LastAck => self.snd.nxt != self.snd.write_seq,
            State::SynSent | State::TimeWait | State::Close | State::Listen => false,
        }
    }

    fn send_reset_and_die(&mut self, cx: &mut Cx<'_>) {
        self.send_reset(cx);
        self.done(cx);
    }

    /// Queues FIN: on the last record if possible (`tcp_send_fin`).
    pub(super) fn send_fin(&mut self, cx: &mut Cx<'_>) {
        self.snd.fin_queued = true;
        if let Some(tail) = self.queue.unsent_tail() {
            let skb = self.queue.get_mut(tail);
            skb.flags |= TcpFlags::FIN;
            skb.end_seq += 1;
        } else {
            let seq = self.snd.write_seq;
            let flags = TcpFlags::ACK | TcpFlags::FIN;
            let overhead = self.config.profile.skb_overhead;
            self.queue.push_unsent(Skb::new(seq, seq + 1, flags, overhead));
            self.snd.wmem_queued += overhead;
        }
        self.snd.write_seq += 1;
        self.push_pending_frames(Nonagle::OFF, cx);
    }

    /// The connection is over (`tcp_done`).
    pub(super) fn done(&mut self, cx: &mut Cx<'_>) {
        // Whoever ended it (`tcp_set_state`).
        cx.mib.estab_resets +=
            u64::from(matches!(self.state, State::Established | State::CloseWait));
        self.state = State::Close;
        self.shut_read = true;
        self.shut_write = true;
        self.queue.clear();
        if self.rare.is_some() {
            self.zerocopy_acked(cx);
        }
        self.forget_written();
        self.snd.wmem_queued = 0;
        self.rec.packets_out = 0;
        for timer in [
            Timer::Transmit,
            Timer::DelayedAck,
            Timer::Keepalive,
            Timer::CompressedAck,
            Timer::Pacing,
        ] {
            self.timers.stop(timer);
        }
        self.pending = Pending::None;
        cx.ready |= SocketReady::HANGUP;
    }

    /// The connection failed: the application will see `error` (`tcp_write_err`, `tcp_reset`).
    pub(super) fn fail(&mut self, error: SocketError, cx: &mut Cx<'_>) {
        // A handshake that ends so (`tcp_done`).
        cx.mib.attempt_fails += u64::from(matches!(self.state, State::SynSent | State::SynRecv));
        self.end_with(error, cx);
    }

    /// The connection is over, and the application will see `error`.
    fn end_with(&mut self, error: SocketError, cx: &mut Cx<'_>) {
        self.error = Some(error);
        // As the queue is thrown away (`tcp_write_queue_purge`).
        self.backoff = 0;
        self.fast_open_ends(cx);
        if let Some(rare) = &mut self.rare {
            rare.fast_open.request = None;
            rare.fast_open.syn_data_acked &= error != SocketError::Refused;
        }
        cx.ready |= SocketReady::ERROR | SocketReady::READABLE | SocketReady::WRITABLE;
        self.done(cx);
    }
}
