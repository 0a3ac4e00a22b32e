//! Bytes and datagrams that were written and read, and between which ends.

use core::task::Poll;
use std::collections::BTreeSet;

use datapath::socket::number::{
    MSG_ERRQUEUE, MSG_MORE, MSG_OOB, MSG_PEEK, MSG_TRUNC, SO_OOBINLINE, SO_PEEK_OFF, SOL_SOCKET,
    SOL_UDP, SPLICE_F_MORE, UDP_CORK, UDP_GRO, UDP_SEGMENT,
};
use datapath::socket::{Address, Control, Data, Fd, OptionValue, Return, Syscall};

use super::about::written_by;
use super::{CallContext, CallResult, Process, canonical};
use crate::calls::model::Kind;
use crate::calls::totals::Direction;

impl Process {
    /// Bytes and datagrams, written and read.
    pub(super) fn keep_books(
        &mut self,
        judge: &mut CallContext<'_>,
        syscall: &Syscall,
        way: Option<Direction>,
        outcome: &CallResult,
    ) -> Result<(), String> {
        let Ok(returned) = outcome else {
            if let Some(datagrams) = written_by(syscall).and_then(|fd| self.model.datagrams_mut(fd))
            {
                datagrams.fails();
            }
            return Ok(());
        };
        let moved = returned.value as u64;
        match syscall {
            // Datagrams have no urgent bytes, and IPv6 ones do not mind (`udpv6_sendmsg`).
            Syscall::Send { fd, flags, .. }
                if flags & MSG_OOB != 0 && self.model.kind(*fd) != Some(Kind::Datagram) =>
            {
                if let Some(way) = way.or_else(|| self.direction_of(*fd)) {
                    judge.totals.urgent(way);
                    judge.totals.wrote(way, moved);
                }
            }
            Syscall::Send { fd, message, flags } => {
                let size = message.control.iter().rev().find_map(|control| match control {
                    Control::UdpSegment(size) => Some(*size),
                    _ => None,
                });
                self.wrote(judge, *fd, way, moved, size, flags & MSG_MORE != 0);
            }
            Syscall::Write { fd, .. } | Syscall::Sendfile { out_fd: fd, .. } => {
                self.wrote(judge, *fd, way, moved, None, false);
            }
            Syscall::SetOption { fd, level: SOL_SOCKET, name: SO_PEEK_OFF, .. } => {
                if let Some(datagrams) = self.model.datagrams_mut(*fd) {
                    datagrams.peeks_within = true;
                }
            }
            Syscall::SetOption { fd, level: SOL_UDP, name, value, .. } => {
                self.set_of_datagrams(judge, *fd, *name, value);
            }
            Syscall::Read { fd, iov } => self.read(judge, *fd, iov.len(), 0, returned)?,
            Syscall::Receive { fd, iov, flags } => {
                self.read(judge, *fd, iov.len(), *flags, returned)?;
            }
            Syscall::Splice { in_fd, out_fd, flags, .. } => {
                self.wrote(judge, *out_fd, way, moved, None, flags & SPLICE_F_MORE != 0);
                if let Some(way) = self.direction_of(*in_fd) {
                    judge.totals.read((way.1, way.0), moved, judge.under_way)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A call has written: `size` is the `UDP_SEGMENT` of a control message, `more` says that what a UDP socket
    /// is given waits for the rest (`MSG_MORE`, `SPLICE_F_MORE`).
    fn wrote(
        &mut self,
        judge: &mut CallContext<'_>,
        fd: Fd,
        way: Option<Direction>,
        bytes: u64,
        size: Option<u16>,
        more: bool,
    ) {
        if let Some(datagrams) = self.model.datagrams_mut(fd) {
            let size = size.unwrap_or(datagrams.gso_size);
            if more || datagrams.cork {
                datagrams.gather(bytes, size);
            } else {
                let sent = datagrams.send(bytes, size);
                self.sent(judge, fd, sent);
            }
        } else if let Some(way) = way.or_else(|| self.direction_of(fd)) {
            judge.totals.wrote(way, bytes);
        }
    }

    /// `UDP_CORK`, `UDP_SEGMENT`.
    fn set_of_datagrams(
        &mut self,
        judge: &mut CallContext<'_>,
        fd: Fd,
        name: i32,
        value: &OptionValue,
    ) {
        let OptionValue::Number(value) = *value else { return };
        let Some(datagrams) = self.model.datagrams_mut(fd) else { return };
        match name {
            UDP_CORK => {
                datagrams.cork = value as i32 != 0;
                if !datagrams.cork {
                    let sent = datagrams.push();
                    self.sent(judge, fd, sent);
                }
            }
            UDP_SEGMENT => datagrams.gso_size = value as u16,
            UDP_GRO => datagrams.gro |= value as i32 != 0,
            _ => {}
        }
    }

    fn sent(&mut self, judge: &mut CallContext<'_>, fd: Fd, datagrams: BTreeSet<u64>) {
        let Some(local) = self.local_name(judge, fd) else { return };
        for bytes in datagrams {
            judge.totals.sent(local.port(), bytes);
        }
    }

    fn read(
        &mut self,
        judge: &mut CallContext<'_>,
        fd: Fd,
        room: u64,
        flags: i32,
        returned: &Return,
    ) -> Result<(), String> {
        let moved = returned.value as u64;
        match self.model.kind(fd) {
            Some(Kind::Datagram) if flags & MSG_ERRQUEUE == 0 => {
                let Data::Message(message) = &returned.data else { return Ok(()) };
                let Some(from) = message.from else { return Ok(()) };
                let cut = message.flags & MSG_TRUNC != 0;
                let within = self.model.datagrams_mut(fd).is_some_and(|it| it.peeks_within);
                if cut && flags & MSG_TRUNC == 0 || within && flags & MSG_PEEK != 0 {
                    return Ok(());
                }
                let size = message.control.iter().find_map(|control| match control {
                    Control::UdpGro(size) => Some(*size as u64),
                    _ => None,
                });
                let several = self.model.datagrams_mut(fd).is_some_and(|it| it.gro);
                match size {
                    Some(size) if several && size > 0 && size < moved => {
                        judge.totals.received(from.port(), size)?;
                        let last = (moved - 1) % size + 1;
                        judge.totals.received(from.port(), last)
                    }
                    Some(size) => Err(format!("{moved} bytes in datagrams of {size}")),
                    // It is not reported once the option is off again.
                    None if several => Ok(()),
                    None => judge.totals.received(from.port(), moved),
                }
            }
            Some(Kind::Stream(stream)) if flags & (MSG_PEEK | MSG_ERRQUEUE) == 0 => {
                let Some((local, peer)) = stream.ends else { return Ok(()) };
                let way = (peer, local);
                if flags & MSG_OOB != 0 {
                    return judge.totals.took(way, moved, judge.under_way);
                }
                if moved > 0 && self.has_urgent_in_line(judge, fd) {
                    judge.totals.reads_urgent_in_line(way);
                }
                judge.totals.read(way, moved, judge.under_way)?;
                let ended = moved == 0 && room > 0 && !stream.partial;
                if !ended {
                    return Ok(());
                }
                let by_cookie = judge.host.tcp_mib().syn_cookies_recv > 0;
                judge.totals.ended(way, judge.under_way, by_cookie)
            }
            _ => Ok(()),
        }
    }

    /// `SO_OOBINLINE`.
    pub(super) fn has_urgent_in_line(&mut self, judge: &mut CallContext<'_>, fd: Fd) -> bool {
        let option = Syscall::get(fd, SOL_SOCKET, SO_OOBINLINE);
        match self.quietly(judge, option) {
            Poll::Ready(Ok(returned)) => returned.option_number() == Some(1),
            _ => false,
        }
    }

    pub(super) fn direction_of(&self, fd: Fd) -> Option<Direction> {
        match self.model.kind(fd)? {
            Kind::Stream(stream) => stream.ends,
            _ => None,
        }
    }

    /// Where a connection is to go, as long as it is not there; `begins`: with this call.
    pub(super) fn note_aim(
        &mut self,
        judge: &CallContext<'_>,
        fd: Fd,
        address: Address,
        begins: bool,
    ) {
        let Address::Inet(mut aim) = address else { return };
        aim = canonical(aim);
        if aim.ip().is_unspecified() {
            aim.set_ip(judge.host.loopback_like(aim.ip()));
        }
        if let Some(stream) = self.model.stream_mut(fd) {
            stream.aim = Some(aim);
            // What was begun before was given up, by `shutdown` perhaps.
            stream.ends = stream.ends.filter(|(_, peer)| !begins || *peer == aim);
        }
    }

    /// A connection may have come into being.
    pub(super) fn record_connection(&mut self, judge: &mut CallContext<'_>, fd: Fd) {
        let Some(local) = self.local_name(judge, fd).filter(|local| local.port() != 0) else {
            return;
        };
        let peer = self.quietly(judge, Syscall::PeerName { fd });
        let Some(stream) = self.model.stream_mut(fd) else { return };
        let aim = match peer {
            Poll::Ready(Ok(Return { data: Data::Address(peer), .. })) => Some(canonical(peer)),
            _ => stream.aim.filter(|_| stream.ends.is_none() && !local.ip().is_unspecified()),
        };
        if let Some(aim) = aim
            && stream.ends != Some((local, aim))
        {
            stream.ends = Some((local, aim));
            judge.totals.begins((local, aim));
        }
    }
}
