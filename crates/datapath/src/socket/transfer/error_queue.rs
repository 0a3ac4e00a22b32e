//! The error queue of TCP sockets (`inet_recv_error`).

use crate::host::Host;
use crate::socket::answer::{Data, Received, Return, SyscallResult};
use crate::socket::argument::{Control, ExtendedError, Iov};
use crate::socket::call::Fd;
use crate::socket::errno::Errno;
use crate::socket::stream::Stream;
use crate::socket::{Sockets, number};
use crate::tcp::{ConnectError, ErrorQueueEntry, StampKind};
use crate::units::Instant;

impl Sockets {
    /// `MSG_ERRQUEUE`: a time stamp, writes whose memory is free, or an ICMP error (`inet_recv_error`).
    pub(super) fn receive_error(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        iov: &Iov,
    ) -> SyscallResult {
        let stream = self.stream_mut(fd)?;
        let alone = stream.config.socket.timestamping & number::SOF_TIMESTAMPING_OPT_TSONLY as u32;
        let notice = stream.error_queue.pop_front().or_else(|| {
            let id = stream.connection()?;
            host.with_tcp(now, id, |tcp, _| tcp.take_notice()).unwrap_or_default()
        });
        let stamp = match notice.ok_or(Errno::EAGAIN)? {
            ErrorQueueEntry::Stamp(stamp) => stamp,
            ErrorQueueEntry::Icmp(told) => return Ok(error_of_connecting(stream, told, iov)),
            ErrorQueueEntry::ZeroCopied(range) => {
                let error = ExtendedError {
                    origin: number::SO_EE_ORIGIN_ZEROCOPY as u8,
                    code: u8::from(range.copied) * number::SO_EE_CODE_ZEROCOPY_COPIED as u8,
                    info: range.first,
                    data: range.last,
                    ipv6: stream.ipv6,
                    ..ExtendedError::default()
                };
                let message = Received {
                    from: None,
                    flags: number::MSG_ERRQUEUE,
                    control: vec![Control::ExtendedError(error)],
                    bytes: Vec::new(),
                };
                return Ok(Return { value: 0, data: Data::Message(message) });
            }
        };
        let info = match stamp.kind {
            StampKind::Sent => number::SCM_TSTAMP_SND,
            StampKind::Scheduled => number::SCM_TSTAMP_SCHED,
            StampKind::Acked => number::SCM_TSTAMP_ACK,
        };
        let error = ExtendedError {
            errno: Errno::ENOMSG.number(),
            origin: number::SO_EE_ORIGIN_TIMESTAMPING as u8,
            info: info as u32,
            data: stamp.key,
            ipv6: stream.ipv6,
            ..ExtendedError::default()
        };
        // The packet that was stamped comes along, unless only the time was asked for.
        let cut = alone == 0 && iov.is_empty();
        let message = Received {
            from: None,
            flags: number::MSG_ERRQUEUE | if cut { number::MSG_TRUNC } else { 0 },
            control: vec![Control::Timestamping(stamp.at), Control::ExtendedError(error)],
            bytes: Vec::new(),
        };
        Ok(Return { value: 0, data: Data::Message(message) })
    }
}

/// An ICMP error about a SYN, with the part of its header that is always quoted: ports and number (RFC 792).
fn error_of_connecting(stream: &Stream, told: ConnectError, iov: &Iov) -> Return {
    let error = ExtendedError::of_icmp(told.icmp, told.error.into());
    let mut quoted = [0; 8];
    quoted[..2].copy_from_slice(&told.local.port().to_be_bytes());
    quoted[2..4].copy_from_slice(&told.remote.port().to_be_bytes());
    quoted[4..].copy_from_slice(&told.icmp.seq.0.to_be_bytes());
    let taken = iov.len().min(quoted.len() as u64);
    let cut = taken < quoted.len() as u64;
    let message = Received {
        from: Some(stream.shown(told.remote)),
        flags: number::MSG_ERRQUEUE | if cut { number::MSG_TRUNC } else { 0 },
        control: vec![Control::ExtendedError(error)],
        bytes: if iov.fetches() { quoted[..taken as usize].to_vec() } else { Vec::new() },
    };
    Return { value: taken as i64, data: Data::Message(message) }
}
