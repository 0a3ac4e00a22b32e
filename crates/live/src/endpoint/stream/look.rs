//! What a connection is ready for, and what a read would give.

use super::super::ready::Readiness;
use super::super::wait::{WaitFor, wait};
use super::{TcpStream, take_error};
use crate::endpoint::errors::call_failed;
use datapath::socket::tcp_poll;
use datapath::tcp::{Connection, Cx};
use std::io;
use std::task::{Context, Poll};

impl TcpStream {
    /// What a read would give, which stays (`MSG_PEEK`); 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn poll_peek(&self, cx: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.shared().call(|state, now| {
            state.check()?;
            let peek = |tcp: &mut Connection, cx: &mut Cx<'_>| {
                let seen = tcp.peek_into(memory) as u32;
                // An ACK that is owed may go, as after a read.
                tcp.peeked(seen, cx);
                (seen as usize, tcp.peek(1) > 0, tcp.is_open_for_reading())
            };
            let peeked = state.host.with_tcp(now, self.id, peek).map_err(call_failed)?;
            let (seen, is_something, may_come) = peeked;
            if is_something {
                return Poll::Ready(Ok(seen));
            }
            if let Some(error) = take_error(&mut state.host, self.id) {
                return Poll::Ready(Err(error));
            }
            if may_come {
                state.wait(self.id, WaitFor::Readable, cx.waker());
                return Poll::Pending;
            }
            Poll::Ready(Ok(0))
        })
    }

    /// What it is ready for, once that is something of what is asked for: to read, to write.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        reading: bool,
        writing: bool,
    ) -> Poll<io::Result<Readiness>> {
        self.shared().call(|state, now| {
            state.check()?;
            let events = state.host.with_tcp(now, self.id, |tcp, _| tcp_poll(tcp));
            let ready = events.map_or(Readiness::GONE, Readiness::of);
            ready.or_wait(state, self.id, cx.waker(), [reading, writing])
        })
    }

    /// What a read would give, which stays; waits until there is something.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn peek(&self, memory: &mut [u8]) -> io::Result<usize> {
        wait(|cx| self.poll_peek(cx, memory))
    }
}
