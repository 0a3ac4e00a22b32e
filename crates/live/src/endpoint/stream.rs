//! Connections: like those of `std::net`, over a stack of ours.

mod look;

use super::errors::{call_failed, errno, failed, io_error};
use super::stack::{Shared, Stack, State};
use super::wait::{WaitFor, wait, wait_for};
use datapath::host::{Host, SocketId};
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::TcpConfig;
use datapath::tcp::info::TcpInfo;
use datapath::tcp::state::State as Tcp;
use datapath::tcp::{Connection, Cx, TcpRead};
use datapath::units::Instant;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// A connection. Calls that wait stand beside those that do not (`poll_…`); dropping it closes it as
/// `close(2)` does: what was written still goes out, and what was not read resets it.
#[derive(Debug)]
pub struct TcpStream {
    stack: Stack,
    id: SocketId,
    local: SocketAddr,
    peer: SocketAddr,
}

impl TcpStream {
    /// Connects to `peer`, and waits until that is done.
    ///
    /// # Errors
    /// As of `connect(2)`.
    pub fn connect(stack: &Stack, peer: SocketAddr) -> io::Result<Self> {
        Self::connect_with(stack, peer, |_| {})
    }

    /// The same, with options that the connection has from its first segment on.
    ///
    /// # Errors
    /// As of `connect(2)`.
    pub fn connect_with(
        stack: &Stack,
        peer: SocketAddr,
        set: impl FnOnce(&mut TcpConfig),
    ) -> io::Result<Self> {
        let stream = Self::start_connect(stack, peer, set)?;
        wait(|cx| stream.poll_connected(cx))?;
        Ok(stream)
    }

    /// Connects, but gives up after so long.
    ///
    /// # Errors
    /// As of `connect(2)`, and `ETIMEDOUT`.
    pub fn connect_for(stack: &Stack, peer: SocketAddr, longest: Duration) -> io::Result<Self> {
        let stream = Self::start_connect(stack, peer, |_| {})?;
        wait_for(longest, |cx| stream.poll_connected(cx))
            .unwrap_or_else(|| Err(errno(libc::ETIMEDOUT)))?;
        Ok(stream)
    }

    /// Begins to connect; [`poll_connected`](Self::poll_connected) tells when that is done.
    ///
    /// # Errors
    /// No route, or no port is free.
    pub fn start_connect(
        stack: &Stack,
        peer: SocketAddr,
        set: impl FnOnce(&mut TcpConfig),
    ) -> io::Result<Self> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Outside of the lock: what is not ours may panic, or ask the stack something.
        let mut config = stack.with_host(Host::tcp_defaults);
        set(&mut config);
        let connected = stack.shared.call(|state, now| {
            state.check()?;
            let host = &mut state.host;
            let mut peer = peer;
            if peer.ip().is_unspecified() {
                peer.set_ip(host.loopback_like(peer.ip()));
            }
            let local = host.tcp_local_for(now, SocketAddr::new(any, 0), peer).map_err(failed)?;
            host.tcp_connect(now, local, peer, &config).map_err(call_failed)
        });
        Self::of(stack.clone(), connected?)
    }

    /// Whether a connection that was [begun](Self::start_connect) is there within so long.
    ///
    /// # Errors
    /// As of `connect(2)`.
    pub fn connected_within(&self, longest: Duration) -> io::Result<bool> {
        wait_for(longest, |cx| self.poll_connected(cx))
            .map_or(Ok(false), |done| done.map(|()| true))
    }

    /// A connection that the host has.
    pub(super) fn of(stack: Stack, id: SocketId) -> io::Result<Self> {
        let ends =
            stack.with_host(|host| host.tcp_connection(id).map(|tcp| (tcp.local(), tcp.remote())));
        let (local, peer) = ends.ok_or_else(|| errno(libc::ECONNRESET))?;
        Ok(Self { stack, id, local, peer })
    }

    /// Whether the handshake is over.
    ///
    /// # Errors
    /// The connection was refused, or timed out.
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared().lock();
        state.check()?;
        let Some(tcp) = state.host.tcp_connection(self.id) else {
            return Poll::Ready(Err(errno(libc::ECONNRESET)));
        };
        if matches!(tcp.state(), Tcp::SynSent) {
            state.wait(self.id, WaitFor::Writable, cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(take_error(&mut state.host, self.id).map_or(Ok(()), Err))
    }

    /// Reads into `memory`; 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn poll_read(&self, cx: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>> {
        self.shared().call(|state, now| {
            state.check()?;
            self.read_at(state, now, cx, memory)
        })
    }

    /// Reads into several places, one after the other (`readv(2)`); 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The connection has failed. What was read before is told first.
    pub fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared().call(|state, now| {
            state.check()?;
            let mut places = places.iter_mut().filter(|place| !place.is_empty());
            // Nothing at all is no read (`sock_read_iter`), and never waits.
            let Some(first) = places.next() else { return Poll::Ready(Ok(0)) };
            let mut read = ready!(self.read_at(state, now, cx, first))?;
            for place in places {
                let unread = state.host.with_tcp(now, self.id, |tcp, _| tcp.peek(1));
                if read == 0 || unread != Ok(1) {
                    break;
                }
                match self.read_at(state, now, cx, place) {
                    Poll::Ready(Ok(len)) => read += len,
                    Poll::Ready(Err(_)) | Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(read))
        })
    }

    fn read_at(
        &self,
        state: &mut State,
        now: Instant,
        cx: &mut Context<'_>,
        memory: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match state.host.tcp_receive(now, self.id, memory).map_err(call_failed)? {
            TcpRead::Data(len) => Poll::Ready(Ok(len as usize)),
            TcpRead::Eof => Poll::Ready(Ok(0)),
            TcpRead::WouldBlock => {
                state.wait(self.id, WaitFor::Readable, cx.waker());
                Poll::Pending
            }
            TcpRead::Reset => {
                let failed = take_error(&mut state.host, self.id);
                Poll::Ready(Err(failed.unwrap_or_else(|| errno(libc::ECONNRESET))))
            }
        }
    }

    /// Writes as much of `bytes` as there is room for.
    ///
    /// # Errors
    /// The connection has failed, or is shut for writing.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// Writes as much of all of these, one after the other, as there is room for, in segments that do not
    /// heed where one ends (`writev(2)`).
    ///
    /// # Errors
    /// The connection has failed, or is shut for writing.
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared().call(|state, now| {
            state.check()?;
            let last = pieces.iter().rposition(|piece| !piece.is_empty());
            let mut written = 0;
            for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                let more = Some(at) != last;
                let write =
                    |tcp: &mut Connection, cx: &mut Cx<'_>| tcp.write_bytes(piece, more, cx);
                let taken = state.host.with_tcp(now, self.id, write).map_err(call_failed)? as usize;
                written += taken;
                if taken < piece.len() {
                    break;
                }
            }
            if written > 0 {
                return Poll::Ready(Ok(written));
            }
            // Nothing at all is asked the same (`tcp_sendmsg_locked`), but never waits.
            if let Some(error) = take_error(&mut state.host, self.id) {
                return Poll::Ready(Err(error));
            }
            let closed = state.host.tcp_connection(self.id).is_none_or(is_shut_for_writing);
            if closed {
                return Poll::Ready(Err(errno(libc::EPIPE)));
            }
            if last.is_none() {
                return Poll::Ready(Ok(0));
            }
            state.wait(self.id, WaitFor::Writable, cx.waker());
            Poll::Pending
        })
    }

    /// A waker that was given to a `poll_…` waits no more: whoever gives up, and will not poll again, says so.
    pub fn cancel_wait(&self, waker: &Waker) {
        self.shared().cancel_wait(self.id, waker);
    }

    /// Reads into `memory`, and waits until there is something.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn read(&self, memory: &mut [u8]) -> io::Result<usize> {
        wait(|cx| self.poll_read(cx, memory))
    }

    /// The same, but waits no longer than that; `None` if nothing has come.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn read_for(&self, memory: &mut [u8], longest: Duration) -> io::Result<Option<usize>> {
        wait_for(longest, |cx| self.poll_read(cx, memory)).transpose()
    }

    /// Writes as much of `bytes` as there is room for, and waits until there is some.
    ///
    /// # Errors
    /// The connection has failed, or is shut for writing.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        wait(|cx| self.poll_write(cx, bytes))
    }

    /// The same, but waits no longer than until `stop` is set, and `None` then: whoever sets it calls
    /// [`wake`](Self::wake) after it. Nothing was written if it is `None`.
    ///
    /// # Errors
    /// The connection has failed, or is shut for writing.
    pub fn write_unless(&self, bytes: &[u8], stop: &AtomicBool) -> io::Result<Option<usize>> {
        wait(|cx| match self.poll_write(cx, bytes) {
            // Looked at after this thread has said that it waits, so that no call of `wake` is missed.
            Poll::Pending if stop.load(Ordering::Acquire) => Poll::Ready(Ok(None)),
            polled => polled.map_ok(Some),
        })
    }

    /// Has those who wait for this connection look again.
    pub fn wake(&self) {
        self.shared().call(|state, _| state.wake_all_of(self.id));
    }

    /// Ends one direction or both (`shutdown(2)`).
    ///
    /// # Errors
    /// The connection is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.with(|tcp, cx| {
            if how != Shutdown::Read {
                tcp.shutdown_write(cx);
            }
            if how != Shutdown::Write {
                tcp.shutdown_read(cx);
            }
        })
    }

    /// Resets the connection, as `close(2)` does after `SO_LINGER` of 0 s. Threads that wait for it
    /// are woken.
    pub fn reset(&self) {
        self.shared().call(|state, now| {
            if state.check().is_ok() {
                let _is_gone = state.host.tcp_abort(now, self.id);
            }
            state.wake_all_of(self.id);
        });
    }

    /// Our address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Those of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The stack that it is of.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// `TCP_NODELAY`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.with(|tcp, cx| tcp.set_nodelay(on, cx))
    }

    /// `TCP_NODELAY`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.with(|tcp, _| tcp.config().nodelay)
    }

    /// `SO_KEEPALIVE`: a peer that vanished without a word is noticed after `tcp_keepalive_time` and
    /// `tcp_keepalive_probes` times `tcp_keepalive_intvl`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_keepalive(&self, on: bool) -> io::Result<()> {
        self.with(|tcp, cx| tcp.keep_alive(on, cx.now))
    }

    /// `TCP_CONGESTION`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_congestion_control(&self, algorithm: Algorithm) -> io::Result<()> {
        self.with(|tcp, cx| tcp.set_congestion_control(algorithm, cx.now))
    }

    /// `TCP_CONGESTION`: the name of what is in charge.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn congestion_control(&self) -> io::Result<&'static str> {
        self.with(|tcp, _| tcp.cc_name())
    }

    /// `SO_MAX_PACING_RATE` in byte/s; `u64::MAX` is no limit.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set_max_pacing_rate(&self, rate: u64) -> io::Result<()> {
        self.with(|tcp, _| {
            tcp.config_mut().max_pacing_rate = rate;
            tcp.pacing_changed();
        })
    }

    /// `TCP_INFO`; `None` once the connection is gone.
    pub fn info(&self) -> Option<TcpInfo> {
        self.with(|tcp, cx| tcp.info(cx.now)).ok()
    }

    /// The error that ended the connection, or what ICMP has told meanwhile, once (`SO_ERROR`);
    /// `ECONNRESET` as often as it is asked for once the connection is gone.
    pub fn take_error(&self) -> Option<io::Error> {
        io_error(self.shared().lock().host.tcp_take_any_error(self.id))
    }

    /// Bytes that were written and are not acknowledged (`SIOCOUTQ`).
    pub fn unacknowledged(&self) -> u32 {
        self.stack
            .with_host(|host| host.tcp_connection(self.id).map_or(0, Connection::unacked_bytes))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.stack.shared
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection, &mut Cx<'_>) -> T) -> io::Result<T> {
        self.shared().call(|state, now| {
            state.check()?;
            state.host.with_tcp(now, self.id, act).map_err(call_failed)
        })
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.shared().call(|state, now| {
            if state.check().is_ok() {
                // After `reset` there is none any more.
                let _is_gone = state.host.tcp_close(now, self.id);
            }
            // Nobody waits for it any more but futures that were forgotten without a word.
            state.wake_all_of(self.id);
        });
    }
}

impl io::Read for &TcpStream {
    fn read(&mut self, memory: &mut [u8]) -> io::Result<usize> {
        TcpStream::read(self, memory)
    }

    fn read_vectored(&mut self, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        wait(|cx| self.poll_read_vectored(cx, places))
    }
}

impl io::Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TcpStream::write(self, bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        wait(|cx| self.poll_write_vectored(cx, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for TcpStream {
    fn read(&mut self, memory: &mut [u8]) -> io::Result<usize> {
        TcpStream::read(self, memory)
    }

    fn read_vectored(&mut self, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        wait(|cx| self.poll_read_vectored(cx, places))
    }
}

impl io::Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TcpStream::write(self, bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        wait(|cx| self.poll_write_vectored(cx, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_shut_for_writing(tcp: &Connection) -> bool {
    tcp.state() == Tcp::Close || tcp.is_shut().1
}

/// What ended a connection, once. What ICMP has told and did not end it stays (`sk_err_soft`).
fn take_error(host: &mut Host, id: SocketId) -> Option<io::Error> {
    io_error(host.tcp_take_error(id))
}
