//! What a socket is ready for.

use super::stack::State;
use super::wait::WaitFor;
use datapath::host::SocketId;
use datapath::socket::number::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use std::io;
use std::task::{Poll, Waker};

/// What a socket is ready for, as `poll(2)` tells it (`tcp_poll`, `udp_poll`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each bit that poll(2) tells")]
pub struct Readiness {
    /// A read finds something, or the end (`EPOLLIN`).
    pub readable: bool,
    /// A write finds room (`EPOLLOUT`).
    pub writable: bool,
    /// Nothing more will come to read (`EPOLLRDHUP`).
    pub read_closed: bool,
    /// Nothing can be written any more (`EPOLLHUP`, or an error).
    pub write_closed: bool,
    /// An error waits to be told (`EPOLLERR`).
    pub error: bool,
}

impl Readiness {
    /// Of a connection that is gone: it can be neither read nor written, and both tell that.
    pub(super) const GONE: Self = Self::of(EPOLLIN | EPOLLOUT | EPOLLHUP);

    /// From `EPOLL*` bits, read as mio and tokio do.
    pub(super) const fn of(events: u32) -> Self {
        Self {
            readable: events & EPOLLIN != 0,
            writable: events & EPOLLOUT != 0,
            read_closed: events & (EPOLLRDHUP | EPOLLHUP) != 0,
            write_closed: events & EPOLLHUP != 0
                || events & EPOLLERR != 0 && events & EPOLLOUT != 0,
            error: events & EPOLLERR != 0,
        }
    }

    /// Whether there is something of what one waits for: reading, writing. An error is of interest to both.
    fn is_of(self, [reading, writing]: [bool; 2]) -> bool {
        let for_reading = self.readable || self.read_closed || self.error;
        let for_writing = self.writable || self.write_closed || self.error;
        reading && for_reading || writing && for_writing
    }

    /// Itself, if it is of interest; else `waker` waits for that.
    pub(super) fn or_wait(
        self,
        state: &mut State,
        socket: SocketId,
        waker: &Waker,
        interest: [bool; 2],
    ) -> Poll<io::Result<Self>> {
        if self.is_of(interest) {
            return Poll::Ready(Ok(self));
        }
        for (is_wanted, what) in interest.into_iter().zip([WaitFor::Readable, WaitFor::Writable]) {
            if is_wanted {
                state.wait(socket, what, waker);
            }
        }
        Poll::Pending
    }
}
