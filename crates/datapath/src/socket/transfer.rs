//! Moving data: `send`, `recv` and their kin (`tcp_sendmsg`, `tcp_recvmsg`).

mod asleep;
mod error_queue;
mod urgent;

use super::answer::{Data, Received, Return, SyscallResult};
use super::argument::{Control, Iov, Message};
use super::call::{Fd, Progress};
use super::errno::Errno;
use super::stream::{Phase, Stream, falls_short, take_error, wait};
use super::table::File;
use super::{MAX_RW_COUNT, Sockets, number};
use crate::host::{Host, SocketId};
use crate::tcp::state::State;
use crate::tcp::{Connection, Cx, TcpRead, WriteFlags};
use crate::units::Instant;
use core::task::Poll;
use urgent::{receive_urgent, stops_at_urgent};

impl Sockets {
    /// `write(2)` and its kin, and what `sendfile` and `splice` send.
    pub(super) fn send(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let message = Message { iov: iov.clone(), ..Message::default() };
        if matches!(self.file(fd)?, File::Datagram(_)) {
            return self.send_datagram(now, host, fd, &message, flags, progress);
        }
        self.send_message(now, host, fd, &message, flags, progress)
    }

    /// `sendmsg(2)` (`tcp_sendmsg_locked`).
    pub(super) fn send_message(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        message: &Message,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let stream = self.stream_mut(fd)?;
        if stream.is_disconnected_under(progress) {
            return Poll::Ready(match progress.bytes {
                0 => Err(stream.leftover.take().unwrap_or(Errno::EPIPE)),
                moved => Ok(Return::value(moved as i64)),
            });
        }
        let (wanted, valid) = extent(&message.iov);
        let deferred = matches!(self.stream(fd)?.phase, Phase::Deferred(_));
        let first = !core::mem::replace(&mut progress.moving, true);
        if first && (flags & number::MSG_FASTOPEN != 0 || deferred) {
            self.open_by_write(now, host, fd, message, flags, progress)?;
        }
        if let Some(error) = self.stream_mut(fd)?.leftover.take() {
            return Poll::Ready(Err(error));
        }
        let stream = self.stream(fd)?;
        let zerocopy = stream.options.zerocopy && flags & number::MSG_ZEROCOPY != 0;
        let dont_wait = stream.nonblocking || flags & number::MSG_DONTWAIT != 0;
        let timeout = stream.options.send_timeout;
        let Phase::Connection(id) = stream.phase else {
            return Poll::Ready(Err(Errno::EPIPE));
        };
        let more = progress.bytes < wanted || !progress.opening;
        if let Some(ready) = self.wait_for_handshake(now, host, fd, id, dont_wait, more, progress) {
            return ready;
        }
        let timestamping = control_flags(&message.control)?;
        if progress.asleep
            && host.tcp_wakes(id).unwrap_or_default().total() == progress.wakes
            && !over(now, progress)
        {
            return Poll::Pending;
        }
        let limit = valid.unwrap_or(wanted);
        let writes = WriteFlags {
            more: flags & number::MSG_MORE != 0,
            end_of_record: flags & number::MSG_EOR != 0 && valid.is_none(),
            out_of_band: flags & number::MSG_OOB != 0,
            zerocopy,
            piece: message.iov.piece(),
            separate: !progress.asleep,
            timestamping,
        };
        let payload = message.iov.payload(progress.bytes.min(limit), limit);
        // Who has written something is told of that; the error is for the next call.
        let moved = progress.bytes > 0;
        let outcome = host.with_tcp(now, id, |tcp, cx| {
            if !tcp.takes_writes() || tcp.has_error() {
                let error = if moved { None } else { tcp.take_error().map(Errno::from) };
                return Err(error.unwrap_or(Errno::EPIPE));
            }
            Ok(tcp.write_with(payload, writes, cx))
        });
        match outcome.unwrap_or(Err(Errno::EPIPE)) {
            Ok(taken) => progress.bytes += taken,
            Err(_) if progress.bytes > 0 => {
                return falls_short(now, host, id, zerocopy, progress.bytes);
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
        if progress.bytes >= limit {
            if limit < wanted && progress.bytes == 0 {
                return Poll::Ready(Err(Errno::EFAULT));
            }
            return Poll::Ready(Ok(Return::value(progress.bytes as i64)));
        }
        progress.wakes = host.tcp_wakes(id).unwrap_or_default().total();
        progress.asleep = true;
        match wait(now, dont_wait, timeout, Errno::EAGAIN, progress) {
            Poll::Ready(Err(_)) if progress.bytes > 0 => {
                falls_short(now, host, id, zerocopy, progress.bytes)
            }
            other => other,
        }
    }

    /// The first write of a call that opens the connection (`tcp_sendmsg_fastopen`).
    fn open_by_write(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        message: &Message,
        flags: i32,
        progress: &mut Progress,
    ) -> Result<(), Errno> {
        let (wanted, valid) = extent(&message.iov);
        if valid == Some(0) && wanted > 0 {
            // The SYN goes before the memory is looked at only if it needs none of it.
            return Err(Errno::EFAULT);
        }
        let payload = message.iov.payload(0, wanted);
        progress.opening =
            self.fast_open_write(now, host, fd, message.address, payload, progress)?;
        let stream = self.stream(fd)?;
        if stream.options.zerocopy
            && flags & number::MSG_ZEROCOPY != 0
            && progress.bytes > 0
            && let Phase::Connection(id) = stream.phase
        {
            let bytes = progress.bytes as u32;
            let _ = host.with_tcp(now, id, |tcp, _| tcp.zerocopy_in_syn(bytes));
        }
        Ok(())
    }

    /// Waits until the connection is established; `None`: it is, or has failed
    /// (`sk_stream_wait_connect`). `more`: data waits to be sent then, and will carry the ACK.
    #[expect(clippy::too_many_arguments, reason = "a call's arguments, lent on")]
    fn wait_for_handshake(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        id: SocketId,
        dont_wait: bool,
        more: bool,
        progress: &mut Progress,
    ) -> Option<Poll<SyscallResult>> {
        let tcp = host.tcp_connection(id)?;
        let passive = tcp.is_passive_fast_open();
        let waits = matches!(tcp.state(), State::SynSent | State::SynRecv) && !passive;
        let opening = progress.opening;
        if !waits {
            if opening && tcp.state() == State::Close {
                // The handshake of this very call has failed; the socket may connect again.
                let error = take_error(host, id).unwrap_or(Errno::ECONNABORTED);
                return Some(Poll::Ready(Err(error)));
            }
            if core::mem::take(&mut progress.pending_write) {
                let _ = host.with_tcp(now, id, |tcp, _| tcp.set_write_pending(false));
            }
            if opening && let Ok(stream) = self.stream_mut(fd) {
                stream.connected = true;
            }
            progress.opening = false;
            return None;
        }
        if let Some(error) = take_error(host, id) {
            return Some(Poll::Ready(Err(error)));
        }
        let timeout = self.stream(fd).ok()?.options.send_timeout;
        let error = if opening { Errno::EINPROGRESS } else { Errno::EAGAIN };
        match wait(now, dont_wait, timeout, error, progress) {
            Poll::Ready(Err(_)) if opening && progress.bytes > 0 => {
                Some(Poll::Ready(Ok(Return::value(progress.bytes as i64))))
            }
            Poll::Pending => {
                progress.pending_write = more;
                if more {
                    let _ = host.with_tcp(now, id, |tcp, _| tcp.set_write_pending(true));
                }
                Some(Poll::Pending)
            }
            ready @ Poll::Ready(_) => Some(ready),
        }
    }

    /// `recvmsg(2)` (`tcp_recvmsg`).
    pub(super) fn receive(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        if flags & number::MSG_ERRQUEUE != 0 {
            return Poll::Ready(self.receive_error(now, host, fd, iov));
        }
        let stream = self.stream_mut(fd)?;
        if stream.is_disconnected_under(progress) {
            return Poll::Ready(match progress.bytes {
                0 => Err(Errno::EPIPE),
                moved => Ok(Return::value(moved as i64)),
            });
        }
        if let Some(error) = stream.leftover.take() {
            return Poll::Ready(Err(error));
        }
        let (dont_wait, timeout) = (
            stream.nonblocking || flags & number::MSG_DONTWAIT != 0,
            stream.options.receive_timeout,
        );
        let Phase::Connection(id) = stream.phase else {
            return match of_no_connection(stream, flags) {
                // The SYN waits for data; so does a reader.
                None => wait(now, dont_wait, timeout, Errno::EAGAIN, progress),
                Some(result) => Poll::Ready(result),
            };
        };
        if flags & number::MSG_OOB != 0 {
            return Poll::Ready(receive_urgent(now, host, id, iov, flags));
        }
        if progress.asleep && self.sleeps_on(now, host, fd, progress)? {
            return Poll::Pending;
        }
        if iov.is_empty() {
            return self.receive_nothing(now, host, fd, flags, progress);
        }
        let target = self.receive_target(iov, flags, fd)?;
        if flags & number::MSG_PEEK != 0 {
            return self.peek(now, host, fd, id, iov, target, dont_wait, progress);
        }
        // Bytes that are thrown away need no memory.
        let discards = flags & number::MSG_TRUNC != 0;
        let room = iov.len().min(MAX_RW_COUNT);
        let valid = if discards { None } else { iov.valid_len().filter(|valid| *valid < room) };
        let limit = valid.unwrap_or(room);
        loop {
            let left = limit - progress.bytes;
            if left == 0 && limit > 0 {
                break;
            }
            if limit == 0 && host.tcp_connection(id).is_some_and(|tcp| tcp.unread_bytes() > 0) {
                return Poll::Ready(Err(Errno::EFAULT));
            }
            if progress.bytes >= target
                && host.tcp_connection(id).is_some_and(Connection::would_block)
            {
                break;
            }
            let before = progress.bytes;
            let read = host.with_tcp(now, id, |tcp, cx| {
                if iov.fetches() {
                    fetch(tcp, left, &mut progress.fetched, cx)
                } else {
                    tcp.read(left, cx)
                }
            });
            match read.unwrap_or(TcpRead::Eof) {
                TcpRead::Data(bytes) => {
                    progress.bytes += bytes;
                    // An urgent byte ends a read even if more has been asked for.
                    if bytes < left && stops_at_urgent(host, id) {
                        break;
                    }
                }
                TcpRead::Eof => break,
                TcpRead::Reset if before > 0 => break,
                TcpRead::Reset => {
                    let error = take_error(host, id).unwrap_or(Errno::ENOTCONN);
                    return Poll::Ready(Err(error));
                }
                TcpRead::WouldBlock if before >= target.max(1) => break,
                TcpRead::WouldBlock => {
                    self.sleep_if_few_suffice(host, fd, target, progress)?;
                    return match wait(now, dont_wait, timeout, Errno::EAGAIN, progress) {
                        Poll::Ready(Err(_)) if before > 0 => {
                            let fetched = core::mem::take(&mut progress.fetched);
                            Poll::Ready(Ok(self.received(host, fd, id, before, fetched)))
                        }
                        other => other,
                    };
                }
            }
        }
        let fetched = core::mem::take(&mut progress.fetched);
        Poll::Ready(Ok(self.received(host, fd, id, progress.bytes, fetched)))
    }

    /// Bytes that a read waits for (`sock_rcvlowat`).
    fn receive_target(&self, iov: &Iov, flags: i32, fd: Fd) -> Result<u64, Errno> {
        if flags & number::MSG_WAITALL != 0 {
            return Ok(iov.len().min(MAX_RW_COUNT));
        }
        let lowat = u64::from(self.stream(fd)?.options.rcvlowat);
        Ok(lowat.min(iov.len()).max(1))
    }

    fn received(&self, host: &Host, fd: Fd, id: SocketId, bytes: u64, fetched: Vec<u8>) -> Return {
        let mut message = Received { bytes: fetched, ..Received::default() };
        if let (Ok(stream), Some(tcp)) = (self.stream(fd), host.tcp_connection(id))
            && stream.options.inq
        {
            message.control.push(Control::TcpInq(tcp.inq_hint() as i32));
        }
        Return { value: bytes as i64, data: Data::Message(message) }
    }

    /// `MSG_PEEK`: what would be read stays.
    #[expect(clippy::too_many_arguments, reason = "a call's arguments, lent on")]
    fn peek(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        id: SocketId,
        iov: &Iov,
        target: u64,
        dont_wait: bool,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let timeout = self.stream(fd)?.options.receive_timeout;
        let (bytes, blocks) = host
            .with_tcp(now, id, |tcp, _| (tcp.peek(iov.len()), tcp.is_open_for_reading()))
            .unwrap_or((0, false));
        if bytes > 0 && iov.valid_len() == Some(0) {
            return Poll::Ready(Err(Errno::EFAULT));
        }
        if bytes < target && blocks {
            progress.bytes = bytes;
            self.sleep_if_few_suffice(host, fd, target, progress)?;
            match wait(now, dont_wait, timeout, Errno::EAGAIN, progress) {
                Poll::Ready(Err(_)) if bytes > 0 => {}
                other => return other,
            }
        }
        if bytes == 0
            && let Some(error) = take_error(host, id)
        {
            return Poll::Ready(Err(error));
        }
        let mut fetched = Vec::new();
        if iov.fetches() {
            fetched.resize(bytes as usize, 0);
            let peeked = host.with_tcp(now, id, |tcp, _| tcp.peek_into(&mut fetched));
            peeked.map_err(|_| Errno::ENOTCONN)?;
        }
        // An ACK that is owed may go, as after a read.
        let _ = host.with_tcp(now, id, |tcp, cx| tcp.peeked(bytes as u32, cx));
        Poll::Ready(Ok(self.received(host, fd, id, bytes, fetched)))
    }

    /// Reads for `splice`: stops at urgent data, never passes it.
    pub(super) fn read_for_splice(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        len: u64,
        nonblocking: bool,
        progress: &mut Progress,
    ) -> Poll<Result<u64, Errno>> {
        if matches!(self.file(fd)?, File::Datagram(_)) {
            // One datagram; what of it does not fit is lost.
            let flags = if nonblocking { number::MSG_DONTWAIT } else { 0 };
            let read = self.receive_datagram(now, host, fd, &len.into(), flags, progress);
            return read.map(|read| read.map(|returned| returned.value as u64));
        }
        let stream = self.stream_mut(fd)?;
        if stream.is_disconnected_under(progress) {
            return Poll::Ready(Err(Errno::EPIPE));
        }
        if let Some(error) = stream.leftover.take() {
            return Poll::Ready(Err(error));
        }
        let nonblocking = nonblocking || stream.nonblocking;
        let Phase::Connection(id) = stream.phase else {
            return Poll::Ready(Err(Errno::ENOTCONN));
        };
        if stops_at_urgent(host, id) {
            return Poll::Ready(Ok(0));
        }
        match host.with_tcp(now, id, |tcp, cx| tcp.read(len, cx)).unwrap_or(TcpRead::Eof) {
            TcpRead::Data(bytes) => Poll::Ready(Ok(bytes)),
            TcpRead::Eof => Poll::Ready(Ok(0)),
            TcpRead::Reset => Poll::Ready(Err(take_error(host, id).unwrap_or(Errno::ENOTCONN))),
            TcpRead::WouldBlock if nonblocking => Poll::Ready(Err(Errno::EAGAIN)),
            TcpRead::WouldBlock => Poll::Pending,
        }
    }
}

/// Reads up to `max` bytes and appends them to `fetched`.
fn fetch(tcp: &mut Connection, max: u64, fetched: &mut Vec<u8>, cx: &mut Cx<'_>) -> TcpRead {
    let from = fetched.len();
    let room = max.min(tcp.unread_bytes().into()) as usize;
    fetched.resize(from + room, 0);
    let read = if room == 0 { tcp.read(max, cx) } else { tcp.read_into(&mut fetched[from..], cx) };
    let taken = if let TcpRead::Data(bytes) = read { bytes as usize } else { 0 };
    fetched.truncate(from + taken);
    read
}

/// How many bytes a write is about, and how many of them lie in memory if not all do.
fn extent(iov: &Iov) -> (u64, Option<u64>) {
    let wanted = iov.len().min(MAX_RW_COUNT);
    (wanted, iov.valid_len().filter(|valid| *valid < wanted))
}

/// What a read gives where there is no connection; `None`: it waits for one.
fn of_no_connection(stream: &Stream, flags: i32) -> Option<SyscallResult> {
    let is_urgent = flags & number::MSG_OOB != 0;
    Some(match stream.phase {
        Phase::Fresh | Phase::Deferred(_) if stream.config.socket.shut_read && !is_urgent => {
            Ok(Return::value(0))
        }
        Phase::Deferred(_) => return None,
        // Nobody has sent anything urgent.
        Phase::Fresh if is_urgent => Err(Errno::EINVAL),
        Phase::Fresh | Phase::Connection(_) | Phase::Listener(_) => Err(Errno::ENOTCONN),
    })
}

/// What control messages ask of a write.
fn control_flags(control: &[Control]) -> Result<u32, Errno> {
    let mut timestamping = 0;
    for message in control {
        match *message {
            Control::TimestampingFlags(flags) => timestamping = flags as u32,
            Control::Other { level: number::SOL_SOCKET, kind, .. } if !is_ignored(kind) => {
                return Err(Errno::EINVAL);
            }
            _ => {}
        }
    }
    Ok(timestamping)
}

/// A control message that a write takes, and that means nothing to a stream (`__sock_cmsg_send`).
const fn is_ignored(kind: i32) -> bool {
    use number::{SCM_CREDENTIALS, SCM_RIGHTS, SO_MARK, SO_PRIORITY};
    matches!(kind, SO_MARK | SO_PRIORITY | SCM_RIGHTS | SCM_CREDENTIALS)
}

/// The time of a waiting call is over.
fn over(now: Instant, progress: &Progress) -> bool {
    progress.deadline.is_some_and(|deadline| deadline <= now)
}
