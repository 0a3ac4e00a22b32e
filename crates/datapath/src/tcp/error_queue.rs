//! The error queue of a socket (`sk_error_queue`): what waits there for the application, and the time stamps of what it
//! writes (`SO_TIMESTAMPING`).

use super::{Connection, Cx, IcmpError, SocketError};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::units::Instant;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// The stage of transmission that a time stamp belongs to (`SCM_TSTAMP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// It entered the queue (`SCM_TSTAMP_SCHED`).
    Scheduled,
    /// It was handed to the device (`SCM_TSTAMP_SND`).
    Sent,
    /// It was acknowledged (`SCM_TSTAMP_ACK`).
    Acked,
}

/// A time stamp of a written byte (`SO_TIMESTAMPING`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which moment.
    pub kind: StampKind,
    /// When that was.
    pub at: Instant,
    /// The byte's number since the option was set (`ee_data`), 0 without `OPT_ID`.
    pub key: u32,
}

/// What the error queue of a socket holds (`MSG_ERRQUEUE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorQueueEntry {
    /// A time stamp.
    Stamp(Stamp),
    /// Zero-copy writes whose memory is free.
    ZeroCopied(ZeroCopied),
    /// An ICMP error that ended an attempt to connect.
    Icmp(ConnectError),
}

/// An ICMP error about a SYN (`ip_icmp_error`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// What it means.
    pub error: SocketError,
    /// The message itself.
    pub icmp: IcmpError,
    /// Our end.
    pub local: SocketAddr,
    /// Whom we wanted to connect to.
    pub remote: SocketAddr,
}

/// Bytes whose times are wanted.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Where byte 0 of the numbering is (`sk_tskey`).
    origin: Seq,
    /// Written bytes that have not been through every stage: last byte, and what is asked.
    wanted: VecDeque<TimestampRequest>,
}

#[derive(Clone, Copy, Debug)]
struct TimestampRequest {
    last: Seq,
    flags: u32,
    sent: bool,
}

/// `SOF_TIMESTAMPING_TX_SOFTWARE`.
const TX_SOFTWARE: u32 = 2;
/// `SOF_TIMESTAMPING_OPT_ID`.
const OPT_ID: u32 = 128;
/// `SOF_TIMESTAMPING_TX_SCHED`.
const TX_SCHED: u32 = 256;
/// `SOF_TIMESTAMPING_TX_ACK`.
const TX_ACK: u32 = 512;
/// `SOF_TIMESTAMPING_OPT_ID_TCP`.
const OPT_ID_TCP: u32 = 65_536;

/// Writes whose memory is finished with (`SO_EE_ORIGIN_ZEROCOPY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroCopied {
    /// Number of the first (`ee_info`).
    pub first: u32,
    /// Number of the last (`ee_data`).
    pub last: u32,
    /// Some of it was sent, and so copied: who looks at packets on their way does (`SO_EE_CODE_ZEROCOPY_COPIED`).
    pub copied: bool,
}

impl Connection {
    /// `setsockopt(SO_TIMESTAMPING)`: bytes are numbered from here on, if they are to be.
    pub fn set_timestamping(&mut self, flags: u32) {
        let before = self.config.socket.timestamping;
        if flags & OPT_ID != 0 && before & OPT_ID == 0 {
            let origin = if flags & OPT_ID_TCP != 0 { self.snd.write_seq } else { self.snd.una };
            self.rare().stamps.origin = origin;
        }
        self.config_mut().socket.timestamping = flags;
    }

    /// The last byte of a write has been queued (`tcp_tx_timestamp`). `flags`: what is asked of
    /// this write, besides the socket's own.
    pub(super) fn stamp_write(&mut self, flags: u32) {
        let flags = if flags == 0 { self.config.socket.timestamping } else { flags };
        if flags & (TX_SOFTWARE | TX_SCHED | TX_ACK) == 0 {
            return;
        }
        let last = self.snd.write_seq - 1;
        self.rare().stamps.wanted.push_back(TimestampRequest { last, flags, sent: false });
    }

    /// Bytes up to `end` have been handed down for the first time.
    #[cold]
    pub(super) fn stamp_sent(&mut self, end: Seq, cx: &mut Cx<'_>) {
        let numbered = self.config.socket.timestamping & OPT_ID != 0;
        let Some(rare) = &mut self.rare else { return };
        let Stamps { origin, wanted } = &mut rare.stamps;
        for one in wanted.iter_mut().filter(|one| !one.sent && one.last.before(end)) {
            one.sent = true;
            let key = if numbered { one.last.bytes_since(*origin) } else { 0 };
            for (flag, kind) in [(TX_SCHED, StampKind::Scheduled), (TX_SOFTWARE, StampKind::Sent)] {
                if one.flags & flag != 0 {
                    rare.error_queue.push_back(ErrorQueueEntry::Stamp(Stamp {
                        kind,
                        at: cx.now,
                        key,
                    }));
                    cx.ready |= SocketReady::ERROR;
                }
            }
        }
        wanted.retain(|one| !one.sent || one.flags & TX_ACK != 0);
    }

    /// Bytes up to `snd_una` are acknowledged (`tcp_ack_tstamp`).
    #[cold]
    pub(super) fn stamp_acked(&mut self, cx: &mut Cx<'_>) {
        let numbered = self.config.socket.timestamping & OPT_ID != 0;
        let una = self.snd.una;
        let Some(rare) = &mut self.rare else { return };
        let Stamps { origin, wanted } = &mut rare.stamps;
        while let Some(one) = wanted.front().copied().filter(|one| one.last.before(una)) {
            wanted.pop_front();
            if one.flags & TX_ACK != 0 {
                let key = if numbered { one.last.bytes_since(*origin) } else { 0 };
                let stamp = Stamp { kind: StampKind::Acked, at: cx.now, key };
                rare.error_queue.push_back(ErrorQueueEntry::Stamp(stamp));
                cx.ready |= SocketReady::ERROR;
            }
        }
    }

    /// Takes the next entry of the error queue (`MSG_ERRQUEUE`).
    pub fn take_notice(&mut self) -> Option<ErrorQueueEntry> {
        self.rare.as_mut()?.error_queue.pop_front()
    }

    /// All that the application was not told, which outlives the connection (`sk_error_queue`).
    pub fn take_notices(&mut self) -> VecDeque<ErrorQueueEntry> {
        self.rare.as_mut().map(|rare| core::mem::take(&mut rare.error_queue)).unwrap_or_default()
    }

    /// Something waits in the error queue (`POLLERR`).
    pub fn has_notice(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.error_queue.is_empty())
    }

    /// Whether time stamps are wanted.
    #[inline]
    pub(super) fn wants_stamps(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.stamps.wanted.is_empty())
    }
}
