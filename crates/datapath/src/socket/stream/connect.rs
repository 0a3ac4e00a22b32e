//! `connect(2)` in all its forms: waiting or not, with Fast Open, anew, and to `AF_UNSPEC`.

use super::{Phase, take_error, wait};
use crate::fib::Decision;
use crate::host::Host;
use crate::host::scope::rt_scope;
use crate::socket::answer::{Return, SyscallResult};
use crate::socket::argument::Address;
use crate::socket::call::{Fd, Progress};
use crate::socket::errno::Errno;
use crate::socket::{Sockets, family};
use crate::tcp::fastopen::switch;
use crate::tcp::state::State;
use crate::tcp::{Connection, Payload};
use crate::units::Instant;
use core::net::SocketAddr;
use core::task::Poll;

impl Sockets {
    /// `connect(2)`.
    pub(in crate::socket) fn connect(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        address: Address,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        if address == Address::Unspecified {
            return Poll::Ready(self.disconnect(now, host, fd));
        }
        let first = !core::mem::replace(&mut progress.moving, true);
        if self.stream_mut(fd)?.is_disconnected_under(progress) {
            return Poll::Ready(Err(Errno::EPIPE));
        }
        let stream = self.stream_mut(fd)?;
        let remote = stream.address(address)?;
        if !first && stream.phase == Phase::Fresh {
            // It was shut down while it waited.
            let error = stream.leftover.take().unwrap_or(Errno::ECONNABORTED);
            return Poll::Ready(Err(error));
        }
        if stream.disconnecting {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        match stream.phase {
            Phase::Fresh => {
                let wants_data = stream.options.fast_open_connect;
                let cookie = wants_data && host.tcp_may_send_syn_data(remote, &stream.config);
                if cookie {
                    stream.phase = Phase::Deferred(remote);
                    return Poll::Ready(Ok(Return::value(0)));
                }
                self.start_connect(
                    now,
                    host,
                    fd,
                    remote,
                    wants_data.then_some(Payload::Length(0)),
                )?;
                progress.bytes = 1;
            }
            Phase::Deferred(_) | Phase::Listener(_) => {
                return Poll::Ready(Err(Errno::EISCONN));
            }
            Phase::Connection(_) => {}
        }
        self.finish_connect(now, host, fd, progress)
    }

    /// Sends the SYN. `fast_open`: with a cookie and so much data, or a request for a cookie. Gives
    /// how much data went.
    pub(in crate::socket) fn start_connect(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        remote: SocketAddr,
        fast_open: Option<Payload<'_>>,
    ) -> Result<u32, Errno> {
        let stream = self.stream_mut(fd)?;
        let mut remote = remote;
        if remote.ip().is_unspecified() {
            remote.set_ip(host.loopback_like(remote.ip()));
        }
        let scope = rt_scope(stream.options.dont_route());
        if host.route_within(remote.ip(), scope) == Decision::NoRoute {
            return Err(Errno::ENETUNREACH);
        }
        let bound = stream.bound.filter(|bound| bound.is_ipv4() == remote.is_ipv4());
        let mut local = bound.unwrap_or_else(|| family::any(remote.is_ipv6()));
        if let (Some(stream_bound), None) = (stream.bound, bound)
            && stream_bound.ip().is_unspecified()
        {
            local.set_port(stream_bound.port());
        }
        let local = host.tcp_local_within(now, local, remote, scope).map_err(Errno::from)?;
        let id = host
            .tcp_connect_with(now, local, remote, &stream.config, fast_open)
            .map_err(Errno::from)?;
        if stream.remains.is_some() {
            let _ = host.with_tcp(now, id, |tcp, _| tcp.follows_another());
        }
        stream.phase = Phase::Connection(id);
        stream.bound = Some(local);
        stream.connected = false;
        stream.leftover = None;
        Ok(host.tcp_connection(id).map_or(0, Connection::syn_data_taken))
    }

    /// Waits for the end of the handshake (`__inet_stream_connect`). `progress.bytes`: this call has
    /// begun it.
    fn finish_connect(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let stream = self.stream_mut(fd)?;
        let Phase::Connection(id) = stream.phase else { return Poll::Ready(Err(Errno::EINVAL)) };
        let state = host.tcp_connection(id).map_or(State::Close, Connection::state);
        match state {
            State::SynSent | State::SynRecv => {
                let error = if progress.bytes == 1 { Errno::EINPROGRESS } else { Errno::EALREADY };
                let timeout = stream.options.send_timeout;
                wait(now, stream.nonblocking, timeout, error, progress)
            }
            // What remains in TIME-WAIT is no socket any more.
            State::Close | State::TimeWait => {
                if stream.connected {
                    return Poll::Ready(Err(Errno::EISCONN));
                }
                let error = take_error(host, id).unwrap_or(Errno::ECONNABORTED);
                // The socket may connect again.
                stream.reinitialise(now, host);
                stream.connected = false;
                host.tcp_close(now, id)?;
                Poll::Ready(Err(error))
            }
            _ if stream.connected => Poll::Ready(Err(Errno::EISCONN)),
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck
            | State::Listen
            | State::Closing => {
                stream.connected = true;
                Poll::Ready(Ok(Return::value(0)))
            }
        }
    }

    /// `connect` to `AF_UNSPEC` (`tcp_disconnect`).
    fn disconnect(&mut self, now: Instant, host: &mut Host, fd: Fd) -> SyscallResult {
        let stream = self.stream_mut(fd)?;
        let phase = stream.phase;
        stream.disconnects += 1;
        stream.clear_quickack();
        stream.reinitialise(now, host);
        match phase {
            Phase::Connection(id) => {
                // What nobody has asked for yet stays (`sk_err`).
                stream.leftover = take_error(host, id).or(stream.leftover);
                if host.tcp_connection(id).is_some_and(|tcp| tcp.state() == State::TimeWait) {
                    // The socket was closed already, and what remains goes on alone (`tcp_time_wait`).
                    let _ = host.tcp_close(now, id);
                } else if host.with_tcp(now, id, Connection::disconnect) == Ok(true) {
                    stream.leftover = Some(Errno::ECONNRESET);
                }
            }
            Phase::Listener(id) => {
                let _ = host.tcp_close(now, id);
            }
            Phase::Fresh | Phase::Deferred(_) => {}
        }
        stream.connected = false;
        stream.disconnecting = false;
        Ok(Return::value(0))
    }

    /// A write before the connection is there, with Fast Open (`tcp_sendmsg_fastopen`). True: it
    /// has sent the SYN, with some of the data or without; false: the connection is there
    /// already, as this call is the first to see.
    pub(in crate::socket) fn fast_open_write(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        address: Address,
        payload: Payload<'_>,
        progress: &mut Progress,
    ) -> Result<bool, Errno> {
        let stream = self.stream_mut(fd)?;
        let remote = if let Phase::Deferred(remote) = stream.phase {
            remote
        } else {
            if stream.config.sysctl.tcp_fastopen & switch::CLIENT == 0
                || address == Address::Unspecified
            {
                return Err(Errno::EOPNOTSUPP);
            }
            match stream.phase {
                Phase::Fresh => stream.address(address)?,
                Phase::Connection(id) => {
                    let state = host.tcp_connection(id).map(Connection::state);
                    if matches!(state, Some(State::SynSent | State::SynRecv)) {
                        return Err(Errno::EALREADY);
                    }
                    if stream.disconnecting {
                        return Err(Errno::EINVAL);
                    }
                    if stream.connected {
                        return Err(Errno::EISCONN);
                    }
                    if matches!(state, None | Some(State::Close)) {
                        let error = host
                            .tcp_take_error(id)
                            .ok()
                            .flatten()
                            .map_or(Errno::ECONNABORTED, Errno::from);
                        stream.reinitialise(now, host);
                        host.tcp_close(now, id)?;
                        return Err(error);
                    }
                    stream.connected = true;
                    return Ok(false);
                }
                _ => return Err(Errno::EISCONN),
            }
        };
        let taken = self.start_connect(now, host, fd, remote, Some(payload))?;
        progress.bytes = taken.into();
        Ok(true)
    }
}
