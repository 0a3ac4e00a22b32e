//! Datagrams: UDP sockets like those of `std::net`, over a stack of ours.

use super::errors::{call_failed, errno, failed};
use super::ready::Readiness;
use super::stack::{Shared, Stack, State};
use super::wait::{WaitFor, wait, wait_for};
use datapath::host::{Datagram, Host, SocketError, SocketId, UdpSocket as Udp};
use datapath::socket::udp_poll;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Sends and receives datagrams. Calls that wait stand beside those that do not (`poll_…`); dropping it closes it.
#[derive(Debug)]
pub struct UdpSocket {
    stack: Stack,
    id: SocketId,
}

/// No length of a datagram is above this (`udp_sendmsg`); what its headers leave of it is less.
const LONGEST: usize = 65_535;

impl UdpSocket {
    /// A socket at `local`; an unspecified address is any of the stack's, port 0 a free one.
    ///
    /// # Errors
    /// Another socket has it, or the stack has not this address.
    pub fn bind(stack: &Stack, local: SocketAddr) -> io::Result<Self> {
        let id = stack.shared.call(|state, now| {
            state.check()?;
            let host = &mut state.host;
            if !local.ip().is_unspecified() && !host.is_local_address(local.ip()) {
                return Err(errno(libc::EADDRNOTAVAIL));
            }
            host.udp_bind(now, local).map_err(|error| match error {
                // Of UDP no free port is one that is in use (`udp_lib_get_port`).
                SocketError::AddressNotAvailable => errno(libc::EADDRINUSE),
                other => call_failed(other),
            })
        })?;
        Ok(Self { stack: stack.clone(), id })
    }

    /// From now on it receives from `peer` alone, and [`send`](Self::send) sends there.
    ///
    /// # Errors
    /// There is no route, or `peer` is of another family.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.shared().call(|state, _| {
            state.check()?;
            let host = &mut state.host;
            let peer = meant(host, peer);
            same_family(host, self.id, peer)?;
            if is_of_many(peer.ip()) {
                return Err(errno(libc::EACCES));
            }
            host.udp_connect(self.id, peer).map_err(call_failed)
        })
    }

    /// Its address and port.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.look(|udp| Ok(udp.local))
    }

    /// Whom it is connected to.
    ///
    /// # Errors
    /// `ENOTCONN`: it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let peer = self.stack.with_host(|host| host.udp_peer(self.id)).map_err(call_failed)?;
        peer.ok_or_else(|| errno(libc::ENOTCONN))
    }

    /// The stack that it is of.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The stack's own socket, to set its options and to look at its counters.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn with<T>(&self, act: impl FnOnce(&mut Udp) -> T) -> io::Result<T> {
        self.shared().call(|state, _| {
            state.check()?;
            state.host.udp_socket(self.id).map(act).map_err(call_failed)
        })
    }

    /// Sends a datagram to `target`; gives its length.
    ///
    /// # Errors
    /// It is too long, there is no route, or ICMP has told of an earlier one of a connected socket.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_somewhere(cx, bytes, Some(target))
    }

    /// Sends a datagram to whom it is connected to.
    ///
    /// # Errors
    /// As above; `EDESTADDRREQ`: it is not connected.
    pub fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_somewhere(cx, bytes, None)
    }

    /// `udp_sendmsg`: the length is looked at first, then the address, then the pending error.
    fn poll_send_somewhere(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        target: Option<SocketAddr>,
    ) -> Poll<io::Result<usize>> {
        self.shared().call(|state, now| {
            state.check()?;
            let host = &mut state.host;
            if bytes.len() > LONGEST {
                return Poll::Ready(Err(errno(libc::EMSGSIZE)));
            }
            let target = match target {
                Some(target) => target,
                None => match host.udp_peer(self.id).map_err(call_failed)? {
                    Some(peer) => peer,
                    None => return Poll::Ready(Err(errno(libc::EDESTADDRREQ))),
                },
            };
            let target = meant(host, target);
            same_family(host, self.id, target)?;
            if target.port() == 0 {
                return Poll::Ready(Err(errno(libc::EINVAL)));
            }
            if is_of_many(target.ip()) {
                return Poll::Ready(Err(errno(libc::EACCES)));
            }
            if let Some(error) = host.udp_take_error(self.id).map_err(call_failed)? {
                return Poll::Ready(Err(failed(error)));
            }
            match host.udp_send_bytes(now, self.id, target, bytes) {
                Ok(_queued_or_dropped) => Poll::Ready(Ok(bytes.len())),
                Err(SocketError::WouldBlock) => {
                    state.wait(self.id, WaitFor::Writable, cx.waker());
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(call_failed(error))),
            }
        })
    }

    /// Receives a datagram, of which as much as `memory` has room for is kept; gives its length and who sent it.
    ///
    /// # Errors
    /// ICMP has told of a datagram that a connected socket has sent.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        memory: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_receive(cx, |state| {
            let read = state.host.datagram_read(self.id).map_err(call_failed)?;
            Ok(read.map(|datagram| copy(&datagram, memory)))
        })
    }

    /// The same, but the datagram stays for the next one who asks.
    ///
    /// # Errors
    /// As above.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        memory: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_receive(cx, |state| {
            let udp = state.host.udp(self.id).ok_or_else(|| errno(libc::EBADF))?;
            Ok(udp.first().map(|datagram| copy(datagram, memory)))
        })
    }

    /// A pending error comes before what waits (`__skb_recv_udp`).
    fn poll_receive<T>(
        &self,
        cx: &mut Context<'_>,
        receive: impl FnOnce(&mut State) -> io::Result<Option<T>>,
    ) -> Poll<io::Result<T>> {
        self.shared().call(|state, _| {
            state.check()?;
            if let Some(error) = state.host.udp_take_error(self.id).map_err(call_failed)? {
                return Poll::Ready(Err(failed(error)));
            }
            if let Some(done) = receive(state)? {
                return Poll::Ready(Ok(done));
            }
            state.wait(self.id, WaitFor::Readable, cx.waker());
            Poll::Pending
        })
    }

    /// What it is ready for, once that is something of what is asked for: to receive, to send.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        reading: bool,
        writing: bool,
    ) -> Poll<io::Result<Readiness>> {
        self.shared().call(|state, _| {
            state.check()?;
            let events = udp_poll(state.host.udp_socket(self.id).map_err(call_failed)?);
            let mut ready = Readiness::of(events);
            // A call that receives tells the error, and after it all is as before.
            ready.readable |= ready.error;
            ready.write_closed = false;
            ready.or_wait(state, self.id, cx.waker(), [reading, writing])
        })
    }

    /// A waker that was given to a `poll_…` waits no more: whoever gives up, and will not poll again, says so.
    pub fn cancel_wait(&self, waker: &Waker) {
        self.shared().cancel_wait(self.id, waker);
    }

    /// Sends a datagram to `target`, and waits until there is room for it.
    ///
    /// # Errors
    /// As of [`poll_send_to`](Self::poll_send_to).
    pub fn send_to(&self, bytes: &[u8], target: SocketAddr) -> io::Result<usize> {
        wait(|cx| self.poll_send_to(cx, bytes, target))
    }

    /// Sends a datagram to whom it is connected to, and waits until there is room for it.
    ///
    /// # Errors
    /// As of [`poll_send`](Self::poll_send).
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        wait(|cx| self.poll_send(cx, bytes))
    }

    /// Waits for a datagram.
    ///
    /// # Errors
    /// As of [`poll_recv_from`](Self::poll_recv_from).
    pub fn recv_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(|cx| self.poll_recv_from(cx, memory))
    }

    /// The same, but waits no longer than that; `None` if nothing has come.
    ///
    /// # Errors
    /// As of [`poll_recv_from`](Self::poll_recv_from).
    pub fn recv_from_for(
        &self,
        memory: &mut [u8],
        longest: Duration,
    ) -> io::Result<Option<(usize, SocketAddr)>> {
        wait_for(longest, |cx| self.poll_recv_from(cx, memory)).transpose()
    }

    /// Waits for a datagram, and leaves it where it is.
    ///
    /// # Errors
    /// As of [`poll_recv_from`](Self::poll_recv_from).
    pub fn peek_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(|cx| self.poll_peek_from(cx, memory))
    }

    /// What ICMP has told of what a connected socket has sent, once (`SO_ERROR`).
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.shared().call(|state, _| {
            state.check()?;
            let taken = state.host.udp_take_error(self.id).map_err(call_failed)?;
            Ok(taken.map(failed))
        })
    }

    fn look<T>(&self, look: impl FnOnce(&Udp) -> io::Result<T>) -> io::Result<T> {
        self.stack.with_host(|host| look(host.udp(self.id).ok_or_else(|| errno(libc::EBADF))?))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.stack.shared
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.shared().call(|state, _| {
            if state.check().is_ok() {
                let _is_open = state.host.datagram_close(self.id);
            }
            state.wake_all_of(self.id);
        });
    }
}

/// Whom an unspecified address means: the host itself.
fn meant(host: &Host, mut target: SocketAddr) -> SocketAddr {
    if target.ip().is_unspecified() {
        target.set_ip(host.loopback_like(target.ip()));
    }
    target
}

fn same_family(host: &Host, id: SocketId, target: SocketAddr) -> io::Result<()> {
    let udp = host.udp(id).ok_or_else(|| errno(libc::EBADF))?;
    match (udp.local, target) {
        (SocketAddr::V4(_), SocketAddr::V6(_)) => Err(errno(libc::EAFNOSUPPORT)),
        (SocketAddr::V6(_), SocketAddr::V4(_)) => Err(errno(libc::ENETUNREACH)),
        _ => Ok(()),
    }
}

/// A stack of one device sends to single hosts alone.
fn is_of_many(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

fn copy(datagram: &Datagram, memory: &mut [u8]) -> (usize, SocketAddr) {
    let bytes = datagram.body.bytes();
    let len = bytes.len().min(memory.len());
    memory[..len].copy_from_slice(&bytes[..len]);
    (len, datagram.from)
}
