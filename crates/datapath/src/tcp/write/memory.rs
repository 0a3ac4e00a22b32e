//! The memory of what was written: how much there is, and who waits for it (`sk_sndbuf`,
//! `sk_stream_write_space`).

use crate::node::SocketReady;
use crate::tcp::cc::CongestionControl;
use crate::tcp::{Connection, Cx};

impl Connection {
    /// `SO_SNDBUF` was set: bytes as the kernel doubles them, at least the minimum.
    pub fn set_sndbuf(&mut self, bytes: u32) {
        self.snd.sndbuf = bytes;
    }

    /// `sk_sndbuf`, bytes.
    pub fn sndbuf(&self) -> u32 {
        self.snd.sndbuf
    }

    /// `sk_wmem_queued`, bytes.
    pub fn wmem_queued(&self) -> u32 {
        self.snd.wmem_queued
    }

    /// `sk_wmem_alloc`, bytes.
    pub fn wmem_alloc(&self) -> u32 {
        self.snd.wmem_alloc
    }

    /// Enough space that a writer should be woken (`__sk_stream_is_writeable`). If there is not,
    /// the next space is told.
    pub fn poll_writable(&mut self) -> bool {
        let free = i64::from(self.snd.sndbuf) - i64::from(self.snd.wmem_queued);
        let writable = free >= i64::from(self.snd.wmem_queued >> 1)
            && self.notsent_bytes() * 2 < self.notsent_lowat();
        if !writable {
            self.snd.no_space = true;
        }
        writable
    }

    /// `sk_stream_memory_free`: another record may be started.
    pub(super) fn memory_is_free(&self) -> bool {
        self.snd.wmem_queued < self.snd.sndbuf && self.notsent_bytes() < self.notsent_lowat()
    }

    fn notsent_lowat(&self) -> u64 {
        match self.config.socket.notsent_lowat {
            Some(own) => own.get().into(),
            None => self.config.sysctl.tcp_notsent_lowat.into(),
        }
    }

    /// Space was freed: wakes the writer if it waits and there is enough (`tcp_check_space`,
    /// `sk_stream_write_space`).
    pub(in crate::tcp) fn check_space(&mut self, cx: &mut Cx<'_>) {
        if !self.snd.no_space {
            return;
        }
        if self.should_expand_sndbuf() {
            self.sndbuf_expand();
            self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        }
        let free = self.snd.sndbuf.saturating_sub(self.snd.wmem_queued);
        let enough = free >= self.snd.wmem_queued >> 1;
        if enough && self.notsent_bytes() * 2 < self.notsent_lowat() {
            self.snd.no_space = false;
            cx.ready |= SocketReady::WRITABLE;
        }
    }

    /// `tcp_should_expand_sndbuf`: the window is not full for lack of data.
    fn should_expand_sndbuf(&self) -> bool {
        self.packets_in_flight() < self.window.snd_cwnd && !self.config.sndbuf_is_locked()
    }

    /// Room for two windows of full segments (`tcp_sndbuf_expand`).
    pub(in crate::tcp) fn sndbuf_expand(&mut self) {
        let profile = &self.config.profile;
        let per_mss =
            self.snd.mss_clamp.max(self.snd.mss) + profile.max_tcp_header + profile.shared_info_len;
        let per_mss = per_mss.next_power_of_two() + profile.sk_buff_len;
        let segments = self
            .config
            .profile
            .init_cwnd
            .max(10)
            .max(self.window.snd_cwnd)
            .max(self.rec.reordering + 1);
        let windows = self.cc.sndbuf_expand();
        let wanted = segments.saturating_mul(windows).saturating_mul(per_mss);
        if self.snd.sndbuf < wanted {
            self.snd.sndbuf = wanted.min(self.config.sysctl.tcp_wmem[2]);
        }
    }
}
