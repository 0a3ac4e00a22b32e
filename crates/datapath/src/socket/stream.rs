//! TCP sockets: opening, connecting, moving data, closing (`inet_stream_ops`).

use super::call::{Address, Data, Fd, Iov, Outcome, Progress, Received, Return};
use super::errno::Errno;
use super::option::OptionValue;
use super::table::File;
use super::{Sockets, number};
use crate::host::{Host, TcpRead};
use crate::tcp::config::TcpConfig;
use crate::tcp::state::State;
use crate::tcp::{Connection, SocketError};
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::task::Poll;

/// A TCP socket of the process.
#[derive(Debug)]
pub(super) struct Stream {
    /// `AF_INET6`.
    pub ipv6: bool,
    /// `O_NONBLOCK`.
    pub nonblocking: bool,
    /// Where it is bound.
    pub bound: Option<SocketAddr>,
    /// Options, until there is a connection that has them.
    pub config: TcpConfig,
    /// What it has become.
    pub phase: Phase,
}

/// What has become of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing yet.
    Fresh,
    /// A listener, by its number at the host.
    Listener(u32),
    /// A connection, by its number at the host.
    Connection(u32),
}

impl Stream {
    /// Its number at the host, once it has one.
    pub fn host_socket(&self) -> Option<u32> {
        match self.phase {
            Phase::Fresh => None,
            Phase::Listener(id) | Phase::Connection(id) => Some(id),
        }
    }

    /// The address of the family's `INADDR_ANY`.
    fn any(&self) -> SocketAddr {
        let ip: IpAddr =
            if self.ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        SocketAddr::new(ip, 0)
    }
}

impl Sockets {
    /// `socket(2)`.
    pub(super) fn open_socket(
        &mut self,
        _host: &Host,
        domain: i32,
        kind: i32,
        protocol: i32,
    ) -> Outcome {
        let ipv6 = match domain {
            number::AF_INET => false,
            number::AF_INET6 => true,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        let flags = number::SOCK_NONBLOCK | number::SOCK_CLOEXEC;
        if kind & !flags != number::SOCK_STREAM {
            return Err(Errno::ESOCKTNOSUPPORT);
        }
        if !matches!(protocol, 0 | number::IPPROTO_TCP) {
            return Err(Errno::EPROTONOSUPPORT);
        }
        let stream = Stream {
            ipv6,
            nonblocking: kind & number::SOCK_NONBLOCK != 0,
            bound: None,
            config: TcpConfig::default(),
            phase: Phase::Fresh,
        };
        let fd = self.install(File::Stream(Box::new(stream)));
        Ok(Return::value(fd.into()))
    }

    /// `bind(2)`.
    pub(super) fn bind(&mut self, _host: &Host, fd: Fd, address: Address) -> Outcome {
        let stream = self.stream_mut(fd)?;
        let Address::Inet(address) = address else { return Err(Errno::EINVAL) };
        if stream.bound.is_some() {
            return Err(Errno::EINVAL);
        }
        stream.bound = Some(address);
        Ok(Return::value(0))
    }

    /// `listen(2)`.
    pub(super) fn listen(&mut self, host: &mut Host, fd: Fd, _backlog: i32) -> Outcome {
        let stream = self.stream_mut(fd)?;
        match stream.phase {
            Phase::Fresh => {
                let local = stream.bound.unwrap_or(stream.any());
                stream.phase = Phase::Listener(host.tcp_listen(local, &stream.config));
                Ok(Return::value(0))
            }
            Phase::Listener(_) => Ok(Return::value(0)),
            Phase::Connection(_) => Err(Errno::EINVAL),
        }
    }

    /// `accept4(2)`.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        flags: i32,
        _progress: &mut Progress,
    ) -> Poll<Outcome> {
        let stream = match self.stream(fd) {
            Ok(stream) => stream,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Phase::Listener(listener) = stream.phase else {
            return Poll::Ready(Err(Errno::EINVAL));
        };
        let Some(id) = host.tcp_accept(now, listener) else {
            return if stream.nonblocking {
                Poll::Ready(Err(Errno::EAGAIN))
            } else {
                Poll::Pending
            };
        };
        let peer = host.tcp_connection(id).map(Connection::remote);
        let accepted = Stream {
            ipv6: stream.ipv6,
            nonblocking: flags & number::SOCK_NONBLOCK != 0,
            bound: None,
            config: stream.config.clone(),
            phase: Phase::Connection(id),
        };
        let fd = self.install(File::Stream(Box::new(accepted)));
        let data = peer.map_or(Data::None, Data::Address);
        Poll::Ready(Ok(Return { value: fd.into(), data }))
    }

    /// `connect(2)`.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        address: Address,
        first: bool,
    ) -> Poll<Outcome> {
        let stream = match self.stream_mut(fd) {
            Ok(stream) => stream,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Address::Inet(remote) = address else { return Poll::Ready(Err(Errno::EAFNOSUPPORT)) };
        if stream.phase == Phase::Fresh {
            let local = stream.bound.unwrap_or(stream.any());
            let id = host.tcp_connect(now, local, remote, &stream.config);
            stream.phase = Phase::Connection(id);
            return if stream.nonblocking {
                Poll::Ready(Err(Errno::EINPROGRESS))
            } else {
                Poll::Pending
            };
        }
        let Phase::Connection(id) = stream.phase else { return Poll::Ready(Err(Errno::EISCONN)) };
        let nonblocking = stream.nonblocking;
        match host.tcp_connection(id).map(Connection::state) {
            Some(State::SynSent | State::SynRecv) if nonblocking => {
                Poll::Ready(Err(Errno::EALREADY))
            }
            Some(State::SynSent | State::SynRecv) => Poll::Pending,
            Some(State::Close) | None => {
                Poll::Ready(Err(errno_of(host.tcp_take_error(id)).unwrap_or(Errno::ECONNABORTED)))
            }
            Some(_) if first => Poll::Ready(Err(Errno::EISCONN)),
            Some(_) => Poll::Ready(Ok(Return::value(0))),
        }
    }

    /// `sendmsg(2)` and its shorter forms.
    pub(super) fn send(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<Outcome> {
        let stream = match self.stream(fd) {
            Ok(stream) => stream,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Phase::Connection(id) = stream.phase else { return Poll::Ready(Err(Errno::EPIPE)) };
        let wanted = iov.valid_len().unwrap_or(iov.len());
        if wanted == 0 && !iov.is_empty() {
            return Poll::Ready(Err(Errno::EFAULT));
        }
        let taken = host.tcp_write(now, id, wanted - progress.bytes);
        progress.bytes += taken;
        if progress.bytes == wanted {
            return Poll::Ready(Ok(Return::value(wanted as i64)));
        }
        let dont_wait = stream.nonblocking || flags & number::MSG_DONTWAIT != 0;
        match (dont_wait, progress.bytes) {
            (false, _) => Poll::Pending,
            (true, 0) => Poll::Ready(Err(Errno::EAGAIN)),
            (true, bytes) => Poll::Ready(Ok(Return::value(bytes as i64))),
        }
    }

    /// `recvmsg(2)` and its shorter forms.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
        flags: i32,
    ) -> Poll<Outcome> {
        let stream = match self.stream(fd) {
            Ok(stream) => stream,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Phase::Connection(id) = stream.phase else { return Poll::Ready(Err(Errno::ENOTCONN)) };
        let value = match host.tcp_read(now, id, iov.len()) {
            TcpRead::Data(bytes) => bytes as i64,
            TcpRead::Eof => 0,
            TcpRead::Reset => {
                let error = errno_of(host.tcp_take_error(id)).unwrap_or(Errno::ENOTCONN);
                return Poll::Ready(Err(error));
            }
            TcpRead::WouldBlock if stream.nonblocking || flags & number::MSG_DONTWAIT != 0 => {
                return Poll::Ready(Err(Errno::EAGAIN));
            }
            TcpRead::WouldBlock => return Poll::Pending,
        };
        Poll::Ready(Ok(Return { value, data: Data::Message(Received::default()) }))
    }

    /// `close(2)`.
    pub(super) fn close(&mut self, now: Instant, host: &mut Host, fd: Fd) -> Outcome {
        self.file(fd)?;
        if let Some(File::Stream(stream)) = self.files[fd as usize].take()
            && let Some(id) = stream.host_socket()
        {
            host.tcp_close(now, id);
        }
        Ok(Return::value(0))
    }

    /// `getsockopt(2)`.
    pub(super) fn get_option(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        level: i32,
        name: i32,
    ) -> Outcome {
        let stream = self.stream(fd)?;
        let id = stream.host_socket();
        let value = match (level, name) {
            (number::SOL_SOCKET, number::SO_ERROR) => {
                let error = id.and_then(|id| errno_of(host.tcp_take_error(id)));
                OptionValue::Number(error.map_or(0, |errno| errno.number().into()))
            }
            (number::SOL_TCP, number::TCP_INFO) => {
                let info = id.and_then(|id| host.tcp_info(now, id)).ok_or(Errno::EINVAL)?;
                OptionValue::TcpInfo(Box::new(info))
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        Ok(Return::zero_with(Data::Option(value)))
    }

    /// `setsockopt(2)`.
    pub(super) fn set_option(
        &mut self,
        fd: Fd,
        level: i32,
        name: i32,
        value: &OptionValue,
    ) -> Outcome {
        let stream = self.stream_mut(fd)?;
        let OptionValue::Number(value) = value else { return Err(Errno::EINVAL) };
        match (level, name) {
            (number::SOL_SOCKET, number::SO_REUSEADDR) => {}
            (number::SOL_TCP, number::TCP_NODELAY) => stream.config.nodelay = *value != 0,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(Return::value(0))
    }
}

fn errno_of(error: Option<SocketError>) -> Option<Errno> {
    error.map(Errno::from)
}
