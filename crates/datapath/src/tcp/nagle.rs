//! Nagle's algorithm with Minshall's modification: does a small segment wait for others? (RFC 9293 section 3.7.4,
//! `tcp_nagle_test`.)

use super::skb::SkbId;
use super::{Connection, Cx, TcpConfig};
use crate::packet::TcpFlags;
use core::ops::BitOr;

/// Nagle's switches (`tp->nonagle`). With none of them a small segment waits while another is unacknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonagle(u8);

impl Nonagle {
    /// None of them.
    const NONE: Self = Self(0);
    /// `TCP_NAGLE_OFF`: no small segment waits (`TCP_NODELAY`).
    pub const OFF: Self = Self(1);
    /// `TCP_NAGLE_CORK`: every small segment waits (`TCP_CORK`, `MSG_MORE`).
    pub const CORK: Self = Self(2);
    /// `TCP_NAGLE_PUSH`: what there is goes once, whatever the others say.
    pub const PUSH: Self = Self(4);

    /// What the options of a connection ask for.
    pub fn asked(config: &TcpConfig) -> Self {
        let cork = if config.socket.cork { Self::CORK } else { Self::NONE };
        if config.nodelay { Self::OFF | cork } else { cork }
    }

    /// Whether `switch` is on.
    pub const fn has(self, switch: Self) -> bool {
        self.0 & switch.0 != 0
    }

    /// Turns `switch` on.
    pub const fn set(&mut self, switch: Self) {
        self.0 |= switch.0;
    }

    /// Turns `switch` off.
    pub const fn clear(&mut self, switch: Self) {
        self.0 &= !switch.0;
    }
}

impl BitOr for Nonagle {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Connection {
    /// `TCP_NODELAY` was set or cleared (`__tcp_sock_set_nodelay`).
    pub fn set_nodelay(&mut self, on: bool, cx: &mut Cx<'_>) {
        self.config_mut().nodelay = on;
        if on {
            self.snd.nonagle.set(Nonagle::OFF | Nonagle::PUSH);
            self.push_pending_frames(self.snd.nonagle, cx);
        } else {
            self.snd.nonagle.clear(Nonagle::OFF);
        }
    }

    /// `TCP_CORK` was set or cleared (`__tcp_sock_set_cork`).
    pub fn set_cork(&mut self, on: bool, cx: &mut Cx<'_>) {
        if on {
            self.snd.nonagle.set(Nonagle::CORK);
            return;
        }
        self.snd.nonagle.clear(Nonagle::CORK);
        if self.snd.nonagle.has(Nonagle::OFF) {
            self.snd.nonagle.set(Nonagle::PUSH);
        }
        self.push_pending_frames(self.snd.nonagle, cx);
    }

    /// `TCP_CORK`.
    pub fn is_corked(&self) -> bool {
        self.snd.nonagle.has(Nonagle::CORK)
    }

    /// The record may go, if it is small (`tcp_nagle_test`).
    pub(super) fn nagle_allows(&self, id: SkbId, mss: u32, nonagle: Nonagle) -> bool {
        let skb = self.queue.get(id);
        // Urgent data waits for nothing, nor does what is written while it is under way.
        if nonagle.has(Nonagle::PUSH) || skb.flags.contains(TcpFlags::FIN) || self.is_urgent() {
            return true;
        }
        skb.len() >= mss || !self.nagle_holds_small(nonagle)
    }

    /// A segment that is not full has to wait (`tcp_nagle_check`).
    pub(super) fn nagle_holds_small(&self, nonagle: Nonagle) -> bool {
        nonagle.has(Nonagle::CORK)
            || (nonagle == Nonagle::NONE && self.rec.packets_out > 0 && self.minshall_holds())
    }

    /// A small segment is still unacknowledged (`tcp_minshall_check`).
    fn minshall_holds(&self) -> bool {
        self.snd.small.after(self.snd.una) && !self.snd.small.after(self.snd.nxt)
    }
}
