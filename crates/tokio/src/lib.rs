//! TCP and UDP of our own stack for tokio: [`TcpStream`] is `AsyncRead` and `AsyncWrite`, so that hyper, TLS and
//! all that is written for tokio's own run over it unchanged; [`UdpSocket`] has the calls of tokio's own.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use ackwright_tokio::{Settings, Stack, TcpListener};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let stack = Stack::open(&Settings::default())?; // a TUN device: as root
//! let listener = TcpListener::bind(&stack, "10.77.0.2:80".parse()?)?;
//! loop {
//!     let (mut stream, _peer) = listener.accept().await?;
//!     tokio::spawn(async move {
//!         let mut memory = [0; 4096];
//!         let len = stream.read(&mut memory).await?;
//!         stream.write_all(&memory[..len]).await
//!     });
//! }
//! # }
//! ```
//!
//! No reactor of tokio's is needed: the stack's own thread wakes tasks, in any runtime.
//!
//! What can be asked of both, sockets answer as those of `tokio::net` do (`tests/as_tokio.rs` asks both):
//! every future may be dropped at any time, and nothing is lost with it; a task that has done
//! much lets others go on (`tokio::task::coop`); of several tasks that poll one direction the last one is woken. A
//! connection's addresses are told without a `Result`, as it always has them. `readable` and `writable` look at the
//! socket itself: tokio's may be wrong until a call has said `WouldBlock`, ours are not.
#![cfg(target_os = "linux")]

mod ready;
mod split;
mod turn;
mod udp;

pub use datapath::tcp::cc::Algorithm;
pub use live::endpoint::{Cidr, Counters, Settings, Stack};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use udp::UdpSocket;

use crate::ready::{directions, now, of_interest, wait};
use crate::turn::StableWaker;

use live::endpoint as blocking;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

/// A connection. Dropping it closes it as `close(2)` does: what was written still goes out, and what was
/// not read resets it.
#[derive(Debug)]
pub struct TcpStream {
    inner: blocking::TcpStream,
    reads: StableWaker,
    writes: StableWaker,
}

/// Waits for connections.
#[derive(Debug)]
pub struct TcpListener {
    inner: blocking::TcpListener,
}

impl TcpStream {
    /// Connects to `peer`.
    ///
    /// # Errors
    /// As of `connect(2)`.
    pub async fn connect(stack: &Stack, peer: SocketAddr) -> io::Result<Self> {
        let stream = Self::from(blocking::TcpStream::start_connect(stack, peer, |_| {})?);
        poll_fn(|cx| stream.writes.poll(cx, |cx| stream.inner.poll_connected(cx))).await?;
        Ok(stream)
    }

    /// Our address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// Those of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.inner.peer_addr()
    }

    /// `TCP_NODELAY`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.inner.set_nodelay(on)
    }

    /// `TCP_NODELAY`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.inner.nodelay()
    }

    /// `TCP_CONGESTION`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_congestion_control(&self, algorithm: Algorithm) -> io::Result<()> {
        self.inner.set_congestion_control(algorithm)
    }

    /// `TCP_CONGESTION`: the name of what is in charge.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn congestion_control(&self) -> io::Result<&'static str> {
        self.inner.congestion_control()
    }

    /// The stack's own stream, for `TCP_INFO` and what else there is.
    pub fn get_ref(&self) -> &blocking::TcpStream {
        &self.inner
    }

    /// The stack's own stream.
    pub fn into_inner(self) -> blocking::TcpStream {
        self.inner
    }

    /// Two halves that may live in different tasks. The connection is closed when both are dropped; the
    /// writing half ends its direction when it is.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::split(self)
    }

    /// Two halves for one task, which cost nothing, and end nothing when they are dropped.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::lend(self)
    }

    /// What a read would give, which stays; 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn peek(&self, memory: &mut [u8]) -> io::Result<usize> {
        wait(self.cancel_wait(), |cx| self.inner.poll_peek(cx, memory)).await
    }

    /// The same for who polls by himself.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let peek = |cx: &mut Context<'_>| self.inner.poll_peek(cx, buf.initialize_unfilled());
        let len = ready!(self.reads.poll(cx, peek))?;
        buf.advance(len);
        Poll::Ready(Ok(len))
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

    /// Waits until there is something to read, the end or an error among it.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until there is room to write, or that fails.
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
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reads.poll(cx, |cx| self.inner.poll_ready(cx, true, false)).map_ok(drop)
    }

    /// The same as [`writable`](Self::writable) for who polls by himself.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.poll(cx, |cx| self.inner.poll_ready(cx, false, true)).map_ok(drop)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is. The connection has failed.
    pub fn try_read(&self, memory: &mut [u8]) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_read(cx, memory))
    }

    /// Reads what is there into several places, one after the other.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is. The connection has failed.
    pub fn try_read_vectored(&self, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_read_vectored(cx, places))
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`: there is none. The connection has failed, or is shut for writing.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_write(cx, bytes))
    }

    /// Writes as much of all of these, one after the other, as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`: there is none. The connection has failed, or is shut for writing.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        now(self.cancel_wait(), |cx| self.inner.poll_write_vectored(cx, pieces))
    }

    /// The error that ended the connection, or what ICMP has told meanwhile, once (`SO_ERROR`).
    ///
    /// # Errors
    /// None: tokio's has them.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.inner.take_error())
    }

    fn cancel_wait(&self) -> impl Fn(&Waker) {
        |waker| self.inner.cancel_wait(waker)
    }

    fn poll_read_buf(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = |cx: &mut Context<'_>| self.inner.poll_read(cx, buf.initialize_unfilled());
        let len = ready!(self.reads.poll(cx, read))?;
        buf.advance(len);
        Poll::Ready(Ok(()))
    }

    fn poll_write_all_of(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes.poll(cx, |cx| self.inner.poll_write_vectored(cx, pieces))
    }
}

impl From<blocking::TcpStream> for TcpStream {
    fn from(inner: blocking::TcpStream) -> Self {
        Self { inner, reads: StableWaker::new(), writes: StableWaker::new() }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_buf(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_all_of(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_all_of(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.inner.shutdown(Shutdown::Write))
    }
}

impl TcpListener {
    /// Listens at `local`; an unspecified address is any of the stack's.
    ///
    /// # Errors
    /// Another listener has it, or the stack has not this address.
    pub fn bind(stack: &Stack, local: SocketAddr) -> io::Result<Self> {
        Ok(Self { inner: blocking::TcpListener::bind(stack, local)? })
    }

    /// The next connection, and who has made it. What is cancelled loses none.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        wait(|waker| self.inner.cancel_wait(waker), |cx| self.poll_accept(cx)).await
    }

    /// The same for who polls by himself. Each task whose poll is pending is woken.
    ///
    /// # Errors
    /// The stack's device has gone away.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let inner = ready!(self.inner.poll_accept(cx))?;
        let peer = inner.peer_addr();
        Poll::Ready(Ok((inner.into(), peer)))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
}
