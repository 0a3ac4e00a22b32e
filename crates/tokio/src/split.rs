//! A stream in two halves, one for each direction.

use super::TcpStream;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

/// Reads.
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Arc<TcpStream>,
}

/// Writes; its end is the end of that direction.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    /// Somebody else ends the direction.
    forgotten: bool,
}

/// Reads, as long as the stream is lent.
#[derive(Debug)]
pub struct ReadHalf<'a> {
    stream: &'a TcpStream,
}

/// Writes, as long as the stream is lent. Its end ends nothing; [`poll_shutdown`](AsyncWrite::poll_shutdown) does.
#[derive(Debug)]
pub struct WriteHalf<'a> {
    stream: &'a TcpStream,
}

/// Two halves of different streams.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of the same stream")
    }
}

impl std::error::Error for ReuniteError {}

pub(super) fn split(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    let read = OwnedReadHalf { stream: Arc::clone(&stream) };
    (read, OwnedWriteHalf { stream, forgotten: false })
}

pub(super) fn lend(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf { stream }, WriteHalf { stream })
}

impl OwnedReadHalf {
    /// The stream again.
    ///
    /// # Errors
    /// The halves are of different streams.
    pub fn reunite(self, mut write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.stream, &write.stream) {
            return Err(ReuniteError(self, write));
        }
        write.forgotten = true;
        drop(write);
        Ok(Arc::into_inner(self.stream).expect("a stream has two halves"))
    }
}

impl OwnedWriteHalf {
    /// The stream again.
    ///
    /// # Errors
    /// The halves are of different streams.
    pub fn reunite(self, read: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        read.reunite(self)
    }

    /// Drops it without ending its direction, which goes on until the other half is dropped.
    pub fn forget(mut self) {
        self.forgotten = true;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if !self.forgotten {
            let _is_gone = self.stream.inner.shutdown(Shutdown::Write);
        }
    }
}

/// What both kinds of reading halves have.
macro_rules! reading_half {
    ($half:ty) => {
        impl $half {
            /// What a read would give, which stays; 0 bytes are the end of the stream.
            ///
            /// # Errors
            /// The connection has failed.
            pub async fn peek(&mut self, memory: &mut [u8]) -> io::Result<usize> {
                self.stream.peek(memory).await
            }

            /// The same for who polls by himself.
            ///
            /// # Errors
            /// The connection has failed.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_peek(cx, buf)
            }

            /// Waits until there is something to read, the end or an error among it.
            ///
            /// # Errors
            /// The stack's device has gone away.
            pub async fn readable(&self) -> io::Result<()> {
                self.stream.readable().await
            }

            /// Reads what is there.
            ///
            /// # Errors
            /// `WouldBlock`: nothing is. The connection has failed.
            pub fn try_read(&self, memory: &mut [u8]) -> io::Result<usize> {
                self.stream.try_read(memory)
            }

            /// Reads what is there into several places, one after the other.
            ///
            /// # Errors
            /// `WouldBlock`: nothing is. The connection has failed.
            pub fn try_read_vectored(&self, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.stream.try_read_vectored(places)
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.stream.poll_read_buf(cx, buf)
            }
        }
    };
}

/// What both kinds of writing halves have.
macro_rules! writing_half {
    ($half:ty) => {
        impl $half {
            /// Waits until there is room to write, or that fails.
            ///
            /// # Errors
            /// The stack's device has gone away.
            pub async fn writable(&self) -> io::Result<()> {
                self.stream.writable().await
            }

            /// Writes as much as there is room for.
            ///
            /// # Errors
            /// `WouldBlock`: there is none. The connection has failed, or is shut for writing.
            pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                self.stream.try_write(bytes)
            }

            /// Writes as much of all of these, one after the other, as there is room for.
            ///
            /// # Errors
            /// `WouldBlock`: there is none. The connection has failed, or is shut for writing.
            pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
                self.stream.try_write_vectored(pieces)
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_write_all_of(cx, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_write_all_of(cx, pieces)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.stream.inner.shutdown(Shutdown::Write))
            }
        }
    };
}

/// What all halves have.
macro_rules! half {
    ($half:ty) => {
        impl $half {
            /// Waits until there is something of `interest`, and tells what.
            ///
            /// # Errors
            /// The stack's device has gone away.
            pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                self.stream.ready(interest).await
            }

            /// Our address and port.
            pub fn local_addr(&self) -> SocketAddr {
                self.stream.local_addr()
            }

            /// Those of the other end.
            pub fn peer_addr(&self) -> SocketAddr {
                self.stream.peer_addr()
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.stream
            }
        }
    };
}

reading_half!(OwnedReadHalf);
reading_half!(ReadHalf<'_>);
writing_half!(OwnedWriteHalf);
writing_half!(WriteHalf<'_>);
half!(OwnedReadHalf);
half!(ReadHalf<'_>);
half!(OwnedWriteHalf);
half!(WriteHalf<'_>);
