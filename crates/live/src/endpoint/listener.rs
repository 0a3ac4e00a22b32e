//! Listening sockets.

use super::errors::call_failed;
use super::stack::Stack;
use super::stream::TcpStream;
use super::wait::{WaitFor, wait, wait_for};
use datapath::host::{Host, SocketId};
use datapath::tcp::config::TcpConfig;
use datapath::tcp::state::State as Tcp;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Connections that may wait to be accepted, as of `std::net`.
const BACKLOG: u32 = 4_096;

/// Waits for connections. Dropping it closes it, and resets those that wait to be accepted.
#[derive(Debug)]
pub struct TcpListener {
    stack: Stack,
    id: SocketId,
    local: SocketAddr,
}

impl TcpListener {
    /// Listens at `local`; an unspecified address is any of the stack's.
    ///
    /// # Errors
    /// Another listener has it, or the stack has not this address.
    pub fn bind(stack: &Stack, local: SocketAddr) -> io::Result<Self> {
        Self::bind_with(stack, local, |_| {})
    }

    /// The same, with options that connections get.
    ///
    /// # Errors
    /// As above.
    pub fn bind_with(
        stack: &Stack,
        local: SocketAddr,
        set: impl FnOnce(&mut TcpConfig),
    ) -> io::Result<Self> {
        // Outside of the lock: what is not ours may panic, or ask the stack something.
        let mut config = stack.with_host(Host::tcp_defaults);
        set(&mut config);
        let (id, local) = stack.shared.call(|state, now| {
            state.check()?;
            let host = &mut state.host;
            let mut local = local;
            if !local.ip().is_unspecified() && !host.is_local_address(local.ip()) {
                return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
            }
            if local.port() == 0 {
                let free = host.tcp_free_port(local.ip());
                let none = || io::Error::from_raw_os_error(libc::EADDRINUSE);
                local.set_port(free.ok_or_else(none)?);
            }
            let taken = host.tcp_sockets().any(|(other, _, state)| {
                let overlap = other.ip() == local.ip()
                    || other.ip().is_unspecified()
                    || local.ip().is_unspecified();
                state == Tcp::Listen && other.port() == local.port() && overlap
            });
            if taken {
                return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
            }
            let id = host.tcp_listen_with(now, local, &config, BACKLOG, 0, false);
            Ok((id, local))
        })?;
        Ok(Self { stack: stack.clone(), id, local })
    }

    /// The next connection.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        loop {
            let accepted = self.stack.shared.call(|state, _| {
                state.check()?;
                let accepted = state.host.tcp_accept(self.id).map_err(call_failed)?;
                if accepted.is_none() {
                    state.wait(self.id, WaitFor::Readable, cx.waker());
                }
                Ok::<_, io::Error>(accepted)
            });
            let Some(id) = accepted? else { return Poll::Pending };
            // One that was reset while it waited may be gone already.
            if let Ok(stream) = TcpStream::of(self.stack.clone(), id) {
                return Poll::Ready(Ok(stream));
            }
        }
    }

    /// A waker that was given to [`poll_accept`](Self::poll_accept) waits no more: whoever gives up, and will
    /// not poll again, says so.
    pub fn cancel_wait(&self, waker: &Waker) {
        self.stack.shared.cancel_wait(self.id, waker);
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn accept(&self) -> io::Result<TcpStream> {
        wait(|cx| self.poll_accept(cx))
    }

    /// The same, but waits no longer than that; `None` if nobody has come.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn accept_for(&self, longest: Duration) -> io::Result<Option<TcpStream>> {
        wait_for(longest, |cx| self.poll_accept(cx)).transpose()
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.stack.shared.call(|state, now| {
            if state.check().is_ok() {
                let _is_open = state.host.tcp_close(now, self.id);
            }
            state.wake_all_of(self.id);
        });
    }
}
