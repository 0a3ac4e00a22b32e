//! Datagrams.

use crate::ready::{directions, now, of_interest, wait};
use crate::turn::StableWaker;
use live::endpoint::{self as blocking, Stack};
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};
use tokio::io::{Interest, ReadBuf, Ready};

/// Sends and receives datagrams, with the calls of `tokio::net::UdpSocket`. Of tasks that poll one direction the last
/// one is woken; of those that await, each.
#[derive(Debug)]
pub struct UdpSocket {
    inner: blocking::UdpSocket,
    reads: StableWaker,
    writes: StableWaker,
}

impl UdpSocket {
    /// A socket at `local`; an unspecified address is any of the stack's, port 0 a free one.
    ///
    /// # Errors
    /// Another socket has it, or the stack has not this address.
    pub fn bind(stack: &Stack, local: SocketAddr) -> io::Result<Self> {
        Ok(blocking::UdpSocket::bind(stack, local)?.into())
    }

    /// From now on it receives from `peer` alone, and [`send`](Self::send) sends there.
    ///
    /// # Errors
    /// There is no route, or `peer` is of another family.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.inner.connect(peer)
    }

    /// Its address and port.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Whom it is connected to.
    ///
    /// # Errors
    /// `NotConnected`: it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// The stack's own socket, for its options.
    pub fn get_ref(&self) -> &blocking::UdpSocket {
        &self.inner
    }

    /// The stack's own socket.
    pub fn into_inner(self) -> blocking::UdpSocket {
        self.inner
    }

    /// What ICMP has told of what a connected socket has sent, once.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Sends a datagram to whom it is connected to; gives its length.
    ///
    /// # Errors
    /// It is too long, or the socket is not connected; ICMP has told of an earlier one.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        wait(self.cancel_wait(), |cx| self.inner.poll_send(cx, bytes)).await
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.poll(cx, |cx| self.inner.poll_send(cx, bytes))
    }

    /// The same at once or not at all.
    ///
    /// # Errors
    /// As of [`send`](Self::send); `WouldBlock`: there is no room.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_send(cx, bytes))
    }

    /// Sends a datagram to `target`; gives its length.
    ///
    /// # Errors
    /// It is too long, or there is no route.
    pub async fn send_to(&self, bytes: &[u8], target: SocketAddr) -> io::Result<usize> {
        wait(self.cancel_wait(), |cx| self.inner.poll_send_to(cx, bytes, target)).await
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// As of [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.writes.poll(cx, |cx| self.inner.poll_send_to(cx, bytes, target))
    }

    /// The same at once or not at all.
    ///
    /// # Errors
    /// As of [`send_to`](Self::send_to); `WouldBlock`: there is no room.
    pub fn try_send_to(&self, bytes: &[u8], target: SocketAddr) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_send_to(cx, bytes, target))
    }

    /// Receives a datagram, of which as much is kept as `memory` has room for; gives that length. Who gives up loses
    /// none.
    ///
    /// # Errors
    /// ICMP has told of a datagram that a connected socket has sent.
    pub async fn recv(&self, memory: &mut [u8]) -> io::Result<usize> {
        Ok(self.recv_from(memory).await?.0)
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_recv_from(cx, buf).map_ok(drop)
    }

    /// The same at once or not at all.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv); `WouldBlock`: nothing has come.
    pub fn try_recv(&self, memory: &mut [u8]) -> io::Result<usize> {
        Ok(self.try_recv_from(memory)?.0)
    }

    /// Receives a datagram; gives its length and who has sent it.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub async fn recv_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(self.cancel_wait(), |cx| self.inner.poll_recv_from(cx, memory)).await
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let receive =
            |cx: &mut Context<'_>| self.inner.poll_recv_from(cx, buf.initialize_unfilled());
        let (len, from) = ready!(self.reads.poll(cx, receive))?;
        buf.advance(len);
        Poll::Ready(Ok(from))
    }

    /// The same at once or not at all.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv); `WouldBlock`: nothing has come.
    pub fn try_recv_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        now(self.cancel_wait(), |cx| self.inner.poll_recv_from(cx, memory))
    }

    /// What [`recv`](Self::recv) would give, which stays.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub async fn peek(&self, memory: &mut [u8]) -> io::Result<usize> {
        Ok(self.peek_from(memory).await?.0)
    }

    /// What [`recv_from`](Self::recv_from) would give, which stays.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub async fn peek_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(self.cancel_wait(), |cx| self.inner.poll_peek_from(cx, memory)).await
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let peek = |cx: &mut Context<'_>| self.inner.poll_peek_from(cx, buf.initialize_unfilled());
        let (len, from) = ready!(self.reads.poll(cx, peek))?;
        buf.advance(len);
        Poll::Ready(Ok(from))
    }

    /// The same at once or not at all.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv); `WouldBlock`: nothing has come.
    pub fn try_peek_from(&self, memory: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        now(self.cancel_wait(), |cx| self.inner.poll_peek_from(cx, memory))
    }

    /// Waits until there is something of `interest`, and tells what.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let [reading, writing] = directions(interest);
        let ready =
            wait(self.cancel_wait(), |cx| self.inner.poll_ready(cx, reading, writing)).await?;
        Ok(of_interest(ready, interest))
    }

    /// Waits until there is something to receive.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until there is room to send.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// The same as [`readable`](Self::readable) for who polls by himself.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reads.poll(cx, |cx| self.inner.poll_ready(cx, true, false)).map_ok(drop)
    }

    /// The same as [`writable`](Self::writable) for who polls by himself.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.poll(cx, |cx| self.inner.poll_ready(cx, false, true)).map_ok(drop)
    }

    fn cancel_wait(&self) -> impl Fn(&std::task::Waker) {
        |waker| self.inner.cancel_wait(waker)
    }
}

impl From<blocking::UdpSocket> for UdpSocket {
    fn from(inner: blocking::UdpSocket) -> Self {
        Self { inner, reads: StableWaker::new(), writes: StableWaker::new() }
    }
}
