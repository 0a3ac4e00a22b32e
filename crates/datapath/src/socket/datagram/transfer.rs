//! Datagrams on their way out and in (`udp_sendmsg`, `udp_recvmsg`).

use super::{Corked, DatagramSocket, LONGEST, control};
use crate::host::{Host, IpcmCookie, SocketError, SocketId};
use crate::packet::Body;
use crate::reason::Enqueue;
use crate::socket::Sockets;
use crate::socket::answer::{Return, SyscallResult};
use crate::socket::argument::{Address, Iov, Message};
use crate::socket::call::{Fd, Progress};
use crate::socket::errno::Errno;
use crate::socket::number::{
    MSG_DONTROUTE, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_MORE, MSG_OOB, MSG_PEEK,
};
use crate::socket::stream::wait;
use crate::units::Instant;
use core::net::SocketAddr;
use core::task::Poll;

impl DatagramSocket {
    /// For whom a datagram is, and whether so much may be sent at all (`udp_sendmsg`, `udpv6_sendmsg`).
    fn destination(
        &self,
        host: &Host,
        address: Address,
        peer: Option<SocketAddr>,
        len: u64,
        flags: i32,
    ) -> Result<SocketAddr, Errno> {
        let told = match address {
            Address::Null => peer.ok_or(Errno::EDESTADDRREQ),
            given => self.address(given),
        };
        check_over(!self.ipv6 || told.is_ok_and(|remote| remote.is_ipv4()), len, flags)?;
        let mut remote = told?;
        if remote.port() == 0 {
            return Err(Errno::EINVAL);
        }
        if remote.ip().is_unspecified() {
            remote.set_ip(host.loopback_like(remote.ip()));
        }
        Ok(remote)
    }

    /// Sends what was gathered (`udp_push_pending_frames`); what goes wrong is told to nobody.
    pub(super) fn push_pending(&mut self, now: Instant, host: &mut Host) {
        let (Some(mut corked), Some(id)) = (self.corked.take(), self.id) else { return };
        let body = payload(host, &mut corked.content, corked.bytes);
        let _ = host.udp_send_with(now, id, corked.remote, body, &corked.cookie);
    }
}

impl Sockets {
    /// `sendmsg` (`udp_sendmsg`): the whole datagram or nothing.
    pub(in crate::socket) fn send_datagram(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        message: &Message,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let socket = self.datagram_mut(fd)?;
        let any = socket.any();
        let id = socket.open_at(now, host, any)?;
        let len = message.iov.len();
        let peer = socket.peer(host);
        let dont_route = flags & MSG_DONTROUTE != 0 || socket.settings.dont_route();
        let corked = socket.corked.is_some();
        let (remote, mut cookie) = if let Some(corked) = &socket.corked {
            check_over(corked.remote.is_ipv4(), len, flags)?;
            (corked.remote, corked.cookie)
        } else {
            let remote = socket.destination(host, message.address, peer, len, flags)?;
            let (gso_size, flow_label) = (socket.settings.gso_size, socket.label(message.address));
            (remote, IpcmCookie { flow_label, gso_size, dont_route, ..IpcmCookie::default() })
        };
        cookie.dont_fragment |= remote.is_ipv6() && socket.settings.dont_fragment();
        if !corked {
            control::sent(host, &message.control, remote.ip(), &mut cookie)?;
        }
        let waits = (socket.nonblocking || flags & MSG_DONTWAIT != 0, socket.settings.send_timeout);
        // Whatever goes wrong from here on is the end of what was gathered (`udp_flush_pending_frames`).
        let corked = socket.corked.take();
        let before = corked.as_ref().map_or(0, |corked| corked.bytes);
        let gathered = before + len;
        let asked = u32::try_from(gathered).unwrap_or(u32::MAX);
        host.udp_way(now, id, remote, asked, &cookie)?;
        if let Some(error) = socket.take_error(host) {
            return Poll::Ready(Err(error));
        }
        if socket.shut.1 {
            return Poll::Ready(Err(Errno::EPIPE));
        }
        if message.iov.valid_len().is_some() {
            return Poll::Ready(Err(Errno::EFAULT));
        }
        let mut content = corked.map_or_else(Vec::new, |corked| corked.content);
        if flags & MSG_MORE != 0 || socket.settings.cork {
            gather(&mut content, before, &message.iov);
            socket.corked = Some(Corked { remote, cookie, bytes: gathered, content });
            return Poll::Ready(Ok(Return::value(len as i64)));
        }
        let kept = content.len();
        let body = if let (0, Iov::Bytes(bytes)) = (before, &message.iov) {
            host.udp_payload(bytes)
        } else {
            gather(&mut content, before, &message.iov);
            payload(host, &mut content, gathered)
        };
        match host.udp_send_with(now, id, remote, body, &cookie) {
            // The queue has dropped it: told only to those who want to know of errors.
            Ok(Enqueue::Dropped) if wants_errors(host, id, remote) => {
                Poll::Ready(Err(Errno::ENOBUFS))
            }
            Ok(_) => Poll::Ready(Ok(Return::value(len as i64))),
            Err(SocketError::WouldBlock) => {
                let outcome = wait(now, waits.0, waits.1, Errno::EAGAIN, progress);
                if outcome.is_pending() && gathered > len {
                    content.truncate(kept);
                    let corked = Corked { remote, cookie, bytes: before, content };
                    self.datagram_mut(fd)?.corked = Some(corked);
                }
                outcome
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// `recvmsg` (`udp_recvmsg`): one datagram, what does not fit is lost.
    pub(in crate::socket) fn receive_datagram(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let socket = self.datagram_mut(fd)?;
        if flags & MSG_ERRQUEUE != 0 {
            return Poll::Ready(socket.receive_error(host, iov));
        }
        if let Some(error) = socket.take_error(host) {
            return Poll::Ready(Err(error));
        }
        // Without a port there is nothing to read, and none is looked for.
        let peeks = flags & MSG_PEEK != 0;
        let found = match socket.id {
            Some(id) if peeks => {
                let offset = u32::try_from(socket.settings.peek_off).ok();
                let found = host.udp_socket(id)?.peek(offset);
                found.map(|(datagram, skipped)| (id, datagram, skipped))
            }
            Some(id) => host.udp(id).and_then(|it| Some((id, it.first()?.clone(), 0))),
            None => None,
        };
        let Some((id, datagram, skipped)) = found else {
            let dont_wait = socket.nonblocking || flags & MSG_DONTWAIT != 0;
            // Only who would wait learns that nothing more is to be read (`__skb_wait_for_more_packets`).
            if socket.shut.0 && !dont_wait {
                return Poll::Ready(Ok(Return::value(0)));
            }
            return wait(now, dont_wait, socket.settings.receive_timeout, Errno::EAGAIN, progress);
        };
        if iov.valid_len().is_some_and(|valid| valid < u64::from(datagram.body.len - skipped)) {
            return Poll::Ready(Err(Errno::EFAULT));
        }
        if !peeks {
            host.datagram_read(id)?;
        }
        let control = socket.control_messages(host, &datagram);
        let returned = socket.received(&datagram, skipped, control, iov, flags);
        let moved = i32::try_from(returned.value).unwrap_or(i32::MAX);
        socket.settings.move_peek_off(if peeks { moved } else { -moved });
        Poll::Ready(Ok(returned))
    }
}

/// What `udp_sendmsg` looks at first, before what has been gathered; `udpv6_sendmsg` does not.
fn check_over(ipv4: bool, len: u64, flags: i32) -> Result<(), Errno> {
    match ipv4 {
        true if len > LONGEST => Err(Errno::EMSGSIZE),
        true if flags & MSG_OOB != 0 => Err(Errno::EOPNOTSUPP),
        _ => Ok(()),
    }
}

/// Whether a socket that sends to `remote` wants to know of errors (`IP_RECVERR`).
fn wants_errors(host: &Host, id: SocketId, remote: SocketAddr) -> bool {
    host.udp(id).is_some_and(|socket| socket.wants_errors(remote.is_ipv6()))
}

/// What was gathered, as a datagram has it: bytes, or only their number.
fn payload(host: &mut Host, content: &mut Vec<u8>, len: u64) -> Body {
    if content.is_empty() {
        return Body::of_len(len as u32);
    }
    content.resize(len as usize, 0);
    host.udp_payload(content)
}

/// Appends what is sent later to what was, `before` bytes, as far as there are bytes.
fn gather(content: &mut Vec<u8>, before: u64, iov: &Iov) {
    if let Iov::Bytes(bytes) = iov {
        content.resize(before as usize, 0);
        content.extend_from_slice(bytes);
    }
}
