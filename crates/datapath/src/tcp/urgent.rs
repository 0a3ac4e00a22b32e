//! Urgent data (RFC 9293 section 3.8.5, RFC 6093): one byte out of band, as Linux does it
//! (`tcp_check_urg`, `tcp_urg`, `tcp_recv_urg`, `tcp_mark_urg`).

use super::segment::Segment;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;

/// Urgent data, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Urgent {
    /// Just past the last urgent byte that we sent (`snd_up`), if there is one.
    snd_up: Option<Seq>,
    /// The urgent byte of the peer (`urg_seq`), and what is known of it.
    received: Option<(Seq, Byte)>,
}

/// What has become of the peer's urgent byte (`urg_data`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    /// Announced, not here (`TCP_URG_NOTYET`).
    Awaited,
    /// Here (`TCP_URG_VALID`).
    Here,
    /// Read (`TCP_URG_READ`).
    Read,
}

/// What reading urgent data gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentRead {
    /// The byte.
    Byte,
    /// There is none, or it has been read, or it is inline: `EINVAL`.
    None,
    /// It was announced and has not come: `EAGAIN`.
    Awaited,
}

/// How far a read may go before an urgent byte stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadLimit {
    /// Bytes to skip first: the urgent byte, if the reader is at it.
    pub skipped: u32,
    /// Bytes that it may take then.
    pub most: u32,
}

impl ReadLimit {
    /// No urgent byte is in the way.
    const NONE: Self = Self { skipped: 0, most: u32::MAX };
}

impl Connection {
    /// What was just written ends with an urgent byte (`tcp_mark_urg`).
    pub(super) fn mark_urgent(&mut self) {
        let end = self.snd.write_seq;
        self.rare().urgent.snd_up = Some(end);
    }

    /// Urgent data is not acknowledged yet (`tcp_urg_mode`).
    pub(super) fn is_urgent(&self) -> bool {
        let up = self.rare.as_ref().and_then(|rare| rare.urgent.snd_up);
        up.is_some_and(|up| up.after(self.snd.una))
    }

    /// The same, and a segment at `snd_una` can point at it.
    pub(super) fn is_urgent_within_reach(&self) -> bool {
        let up = self.rare.as_ref().and_then(|rare| rare.urgent.snd_up);
        up.is_some_and(|up| up.after(self.snd.una) && up.bytes_since(self.snd.una) <= 0xffff)
    }

    /// The urgent pointer of a segment that begins at `seq`, if it has one (`tcp_urg_mode`).
    #[inline]
    pub(super) fn urgent_pointer(&self, seq: Seq, flags: TcpFlags) -> Option<u16> {
        let up = self.rare.as_ref()?.urgent.snd_up?;
        if flags.contains(TcpFlags::SYN) || up == self.snd.una || up.before(self.snd.una) {
            return None;
        }
        self.pointer_from(seq, up)
    }

    fn pointer_from(&self, seq: Seq, up: Seq) -> Option<u16> {
        if !seq.before(up) {
            return None;
        }
        let ahead = up.bytes_since(seq);
        if ahead < 0x1_0000 {
            Some(ahead as u16)
        } else if (seq + 0xffff).after(self.snd.nxt) {
            // Too far to point at: as far as possible (RFC 9293 section 3.8.5).
            Some(0xffff)
        } else {
            None
        }
    }

    /// A segment says that urgent data is on its way, or brings it (`tcp_urg`).
    #[cold]
    pub(super) fn urgent_arrives(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.tcp.flags.contains(TcpFlags::URG) {
            self.check_urgent(seg, cx);
        }
        let Some((at, Byte::Awaited)) = self.rare().urgent.received else { return };
        let last = seg.seq + seg.len;
        if !at.before(seg.seq) && at.before(last) {
            self.rare().urgent.received = Some((at, Byte::Here));
            self.keep_urgent(at.bytes_since(seg.seq), &seg.packet.body);
            cx.ready |= SocketReady::READABLE;
        }
    }

    /// Takes note of an urgent pointer (`tcp_check_urg`).
    fn check_urgent(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let mut pointer = u32::from(seg.tcp.urgent);
        if pointer > 0 && self.config.sysctl.tcp_stdurg == 0 {
            pointer -= 1;
        }
        let at = seg.seq + pointer;
        if self.rcv.copied_seq.after(at) || at.before(self.rcv.nxt) {
            return;
        }
        let inline = self.config.socket.oob_inline;
        let known = self.rare().urgent.received;
        if let Some((old, _)) = known
            && !at.after(old)
        {
            return;
        }
        cx.ready |= SocketReady::READABLE;
        // An urgent byte before the new one is in line from now on, but for the one that the reader
        // stands at, which is passed over, taken or not.
        if let Some((old, _)) = known
            && old == self.rcv.copied_seq
            && !inline
            && self.rcv.copied_seq != self.rcv.nxt
        {
            self.skip_byte();
        }
        self.rare().urgent.received = Some((at, Byte::Awaited));
        self.expected = None;
    }

    /// The urgent byte is read (`MSG_OOB`). `peek`: and stays.
    pub fn read_urgent(&mut self, peek: bool) -> UrgentRead {
        let inline = self.config.socket.oob_inline;
        let Some(rare) = &mut self.rare else { return UrgentRead::None };
        match rare.urgent.received {
            _ if inline => UrgentRead::None,
            Some((at, Byte::Here)) => {
                if !peek {
                    rare.urgent.received = Some((at, Byte::Read));
                }
                UrgentRead::Byte
            }
            Some((_, Byte::Awaited)) => UrgentRead::Awaited,
            Some((_, Byte::Read)) | None => UrgentRead::None,
        }
    }

    /// Bytes that may be read before the urgent byte stops the reader; `None`: as many as there
    /// are.
    pub fn bytes_before_urgent(&self) -> Option<u32> {
        let (at, _) = self.rare.as_ref()?.urgent.received?;
        let ahead = at - self.rcv.copied_seq;
        (ahead >= 0 && at.before(self.rcv.nxt)).then_some(ahead as u32)
    }

    /// How far a read may go now.
    #[inline]
    pub(super) fn limit_of_read(&self) -> ReadLimit {
        match self.bytes_before_urgent() {
            None => ReadLimit::NONE,
            Some(0) if self.config.socket.oob_inline => ReadLimit::NONE,
            Some(0) => ReadLimit { skipped: 1, ..ReadLimit::NONE },
            Some(ahead) => ReadLimit { most: ahead, ..ReadLimit::NONE },
        }
    }

    /// A reader at the urgent byte skips it, unless it is inline.
    #[cold]
    pub(super) fn pass_urgent_byte(&mut self) {
        if self.limit_of_read().skipped > 0 {
            self.skip_byte();
            self.urgent_passed();
        }
    }

    /// The reader is at the urgent byte.
    pub fn at_urgent_mark(&self) -> bool {
        self.rare
            .as_ref()
            .and_then(|rare| rare.urgent.received)
            .is_some_and(|(at, _)| at == self.rcv.copied_seq)
    }

    /// Urgent data waits (`POLLPRI`).
    pub fn has_urgent(&self) -> bool {
        self.rare
            .as_ref()
            .and_then(|rare| rare.urgent.received)
            .is_some_and(|(_, state)| state == Byte::Here)
    }

    /// The reader has passed the urgent byte (`tcp_recvmsg_locked`).
    pub(super) fn urgent_passed(&mut self) {
        let copied = self.rcv.copied_seq;
        if let Some(rare) = &mut self.rare
            && let Some((at, state)) = rare.urgent.received
            && copied.after(at)
            && state != Byte::Awaited
        {
            rare.urgent.received = None;
            self.predict_if_calm();
        }
    }

    /// There is an urgent byte that the reader has not passed, whatever became of it (`urg_data`).
    pub(super) fn has_unpassed_urgent(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.urgent.received.is_some())
    }
}
