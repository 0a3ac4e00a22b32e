//! TCP of our own stack for tokio: [`TcpStream`] is `AsyncRead` and `AsyncWrite`, so that hyper, TLS and
//! all that is written for tokio's own run over it unchanged.
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
#![cfg(target_os = "linux")]

mod split;

pub use datapath::tcp::cc::Algorithm;
pub use live::endpoint::{Cidr, Counters, Settings, Stack};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};

use live::endpoint as blocking;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection. Dropping it closes it as `close(2)` does: what was written still goes out, and what was
/// not read resets it.
#[derive(Debug)]
pub struct TcpStream {
    inner: blocking::TcpStream,
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
        let inner = blocking::TcpStream::begin_connect(stack, peer, |_| {})?;
        poll_fn(|cx| inner.poll_connected(cx)).await?;
        Ok(Self { inner })
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

    fn poll_read_buf(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let len = std::task::ready!(self.inner.poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl From<blocking::TcpStream> for TcpStream {
    fn from(inner: blocking::TcpStream) -> Self {
        Self { inner }
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
        self.inner.poll_write(cx, bytes)
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
        let inner = poll_fn(|cx| self.inner.poll_accept(cx)).await?;
        let peer = inner.peer_addr();
        Ok((TcpStream { inner }, peer))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
}
