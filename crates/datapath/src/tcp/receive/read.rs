//! What the application reads (`tcp_recvmsg`).

use crate::tcp::state::State;
use crate::tcp::urgent::ReadLimit;
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpRead {
    /// That many bytes.
    Data(u64),
    /// Nothing yet.
    WouldBlock,
    /// The peer has closed.
    Eof,
    /// The connection failed.
    Reset,
}

impl Connection {
    /// A packet socket has let go of what it saw of this connection's segments.
    pub fn unshare_received(&mut self) {
        self.rcv.queue.unshare();
        self.rcv.out_of_order.unshare();
    }

    /// Whether a read would find nothing, not even an end.
    #[inline]
    pub fn would_block(&self) -> bool {
        self.rcv.unread_bytes() == 0
            && self.error.is_none()
            && !self.rcv.fin_received
            && !self.shut_read
            && self.state != State::Close
    }

    /// The application reads up to `max` bytes (`tcp_recvmsg`).
    pub fn read(&mut self, max: u64, cx: &mut Cx<'_>) -> TcpRead {
        self.read_with(max, None, cx)
    }

    /// The same, into memory: as many bytes as it has room for. What was sent as a length is zeroes.
    pub fn read_into(&mut self, memory: &mut [u8], cx: &mut Cx<'_>) -> TcpRead {
        self.read_with(memory.len() as u64, Some(memory), cx)
    }

    fn read_with(&mut self, max: u64, memory: Option<&mut [u8]>, cx: &mut Cx<'_>) -> TcpRead {
        if self.rare.is_some() {
            self.pass_urgent_byte();
        }
        let unread = u64::from(self.rcv.unread_bytes().min(self.limit_of_read().most));
        if unread == 0 {
            // Whoever has read the end need not hear of what came after it (`SOCK_DONE`).
            return if self.rcv.fin_received {
                self.read_fin();
                TcpRead::Eof
            } else if self.error.is_some() {
                TcpRead::Reset
            } else if self.would_block() {
                TcpRead::WouldBlock
            } else {
                TcpRead::Eof
            };
        }
        let taken = unread.min(max) as u32;
        if let Some(memory) = memory {
            self.copy_received(self.rcv.copied_seq, &mut memory[..taken as usize]);
        }
        self.take_unread(taken, cx.now);
        if u64::from(taken) < max {
            self.read_fin();
        }
        if self.rare.is_some() {
            self.urgent_passed();
        }
        self.cleanup_rbuf(taken, cx);
        TcpRead::Data(u64::from(taken))
    }

    /// A read of up to `max` bytes where there are some, and nothing but those to hear of: how many it was. It needs
    /// nothing but the connection; [`ack_after_read`](Self::ack_after_read) says whether an ACK follows. `None`, and nothing
    /// done, in all other cases.
    #[inline]
    pub fn read_bytes(&mut self, now: Instant, max: u64) -> Option<u32> {
        let unread = self.rcv.unread_bytes();
        let may_end = self.rcv.fin_received || self.shut_read || self.error.is_some();
        if unread == 0 || may_end || self.rare.is_some() || !self.state.is_synchronized() {
            return None;
        }
        let taken = u64::from(unread).min(max) as u32;
        self.take_unread(taken, now);
        Some(taken)
    }

    /// Takes so many bytes, which are there, out of the receive queue.
    #[inline]
    fn take_unread(&mut self, bytes: u32, now: Instant) {
        if !self.config.profile.reads_keep_tcp_mstamp {
            self.ack.clock = now;
        }
        let mut left = bytes;
        while left > 0 {
            left -= self.read_from_front(left);
            // Segment by segment: what a filled hole delivers at once is not one RTT's worth.
            self.rcv_space_adjust(self.ack.clock);
        }
    }

    /// Bytes that a read of up to `max` would give, which stay (`MSG_PEEK`).
    pub fn peek(&mut self, max: u64) -> u64 {
        let ReadLimit { skipped, most } = self.limit_of_read();
        let unread = self.rcv.unread_bytes().saturating_sub(skipped).min(most);
        u64::from(unread).min(max)
    }

    /// The bytes that a read would give, which stay; gives their number.
    pub fn peek_into(&mut self, memory: &mut [u8]) -> u64 {
        let from = self.rcv.copied_seq + self.limit_of_read().skipped;
        let seen = self.peek(memory.len() as u64);
        self.copy_received(from, &mut memory[..seen as usize]);
        seen
    }

    /// One unread byte is passed over.
    pub(in crate::tcp) fn skip_byte(&mut self) {
        if self.rcv.unread_bytes() > 0 {
            self.read_from_front(1);
        }
    }

    /// Whoever reads on finds the end: a record that is a FIN alone has been read, too (`found_fin_ok`).
    fn read_fin(&mut self) {
        if let Some(front) = self.rcv.queue.front()
            && front.fin
            && front.end_seq == self.rcv.copied_seq + 1
        {
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(front.truesize);
            self.rcv.queue.pop();
        }
    }

    /// Reads up to `max` bytes from the oldest run; returns how many.
    fn read_from_front(&mut self, max: u32) -> u32 {
        let front = *self.rcv.queue.front().expect("unread bytes lie in the queue");
        let end = front.end_seq - u32::from(front.fin);
        let taken = end.bytes_since(self.rcv.copied_seq).min(max);
        self.rcv.copied_seq += taken;
        self.forget_read();
        if self.rcv.copied_seq == end {
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(front.truesize);
            self.rcv.queue.pop();
            if self.rcv.hole_filled && self.rcv.queue.is_empty() {
                // So much waits seldom, and there may be many connections.
                self.rcv.hole_filled = false;
                self.rcv.queue.give_room_back();
            }
        }
        taken
    }
}
