//! Addresses and ports of TCP sockets: `bind`, `listen` (`inet_bind`, `inet_csk_get_port`).

use super::answer::{Return, SyscallResult};
use super::argument::Address;
use super::call::Fd;
use super::errno::Errno;
use super::stream::{Fixed, Phase};
use super::table::File;
use super::{Sockets, family};
use crate::host::Host;
use crate::tcp::state::State;
use crate::units::Instant;
use core::net::SocketAddr;

impl Sockets {
    /// `bind(2)`.
    pub(super) fn bind(&mut self, host: &mut Host, fd: Fd, address: Address) -> SyscallResult {
        let stream = self.stream(fd)?;
        let mut address = match address {
            Address::Unspecified if !stream.ipv6 => stream.any(),
            other => family::to_bind(stream.address(other))?,
        };
        let has_port = stream.bound.is_some_and(|bound| bound.port() != 0);
        if has_port || stream.phase != Phase::Fresh {
            return Err(Errno::EINVAL);
        }
        let foreign = !stream.options.freebind && stream.config.sysctl.ip_nonlocal_bind == 0;
        if foreign && !host.is_local_address(address.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let fixed = Fixed { address: !address.ip().is_unspecified(), port: address.port() != 0 };
        if address.port() == 0 {
            address = self.at_free_port(host, fd, address)?;
        } else if self.bind_conflicts(host, fd, address) {
            return Err(Errno::EADDRINUSE);
        }
        let stream = self.stream_mut(fd)?;
        (stream.bound, stream.fixed) = (Some(address), fixed);
        Ok(Return::value(0))
    }

    /// The address with a port that nobody has: the host does not know of sockets that are only bound.
    fn at_free_port(
        &self,
        host: &mut Host,
        fd: Fd,
        address: SocketAddr,
    ) -> Result<SocketAddr, Errno> {
        let mut first = None;
        loop {
            let port = host.tcp_free_port(address.ip()).ok_or(Errno::EADDRINUSE)?;
            let at = SocketAddr::new(address.ip(), port);
            if !self.bind_conflicts(host, fd, at) {
                return Ok(at);
            }
            match first {
                Some(first) if first == port => return Err(Errno::EADDRINUSE),
                Some(_) => {}
                None => first = Some(port),
            }
        }
    }

    /// Whether another socket keeps `address` from being bound (`inet_csk_bind_conflict`).
    fn bind_conflicts(&self, host: &Host, fd: Fd, address: SocketAddr) -> bool {
        let Ok(stream) = self.stream(fd) else { return false };
        let (reuse, reuse_port) = (stream.options.reuse_address, stream.options.reuse_port);
        let overlaps = |other: SocketAddr| {
            other.port() == address.port()
                && (other.ip() == address.ip()
                    || other.ip().is_unspecified()
                    || address.ip().is_unspecified())
        };
        let own = self.files.iter().flatten().any(|file| match file {
            File::Stream(other) => {
                let listens = matches!(other.phase, Phase::Listener(_));
                let shared = (reuse && other.options.reuse_address && !listens)
                    || (reuse_port && other.options.reuse_port);
                other.bound.is_some_and(overlaps) && !shared
            }
            _ => false,
        });
        own || host.tcp_sockets().any(|(local, _, state)| {
            // What no descriptor stands for any more still has its port.
            let blocks = match state {
                State::Listen => !reuse_port,
                State::TimeWait | State::Close => !reuse,
                State::Established
                | State::SynSent
                | State::SynRecv
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::LastAck
                | State::Closing => !reuse && !reuse_port,
            };
            blocks && overlaps(local)
        })
    }

    /// `listen(2)`.
    pub(super) fn listen(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        backlog: i32,
    ) -> SyscallResult {
        // A negative backlog is a very large one.
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        let stream = self.stream(fd)?;
        match stream.phase {
            Phase::Fresh => {}
            Phase::Listener(id) => {
                host.tcp_set_backlog(id, backlog)?;
                return Ok(Return::value(0));
            }
            Phase::Deferred(_) | Phase::Connection(_) => return Err(Errno::EINVAL),
        }
        let mut local = stream.bound.unwrap_or(stream.any());
        if local.port() == 0 {
            local = self.at_free_port(host, fd, local)?;
        }
        let stream = self.stream_mut(fd)?;
        let reuse_port = stream.options.reuse_port;
        let taken = host
            .tcp_sockets()
            .any(|(other, _, state)| state == State::Listen && other == local && !reuse_port);
        if taken {
            return Err(Errno::EADDRINUSE);
        }
        stream.bound = Some(local);
        stream.clear_quickack();
        let fast_open = stream.options.fast_open_limit;
        let v6_only = stream.options.v6_only;
        let id = host.tcp_listen_with(now, local, &stream.config, backlog, fast_open, v6_only);
        stream.phase = Phase::Listener(id);
        Ok(Return::value(0))
    }
}
