//! What the two ends agreed on in the handshake (`tcp_options_received`), and timestamps.

use super::timer::INITIAL_JIFFIES;
use super::{Connection, TcpConfig};
use crate::packet::seq::Seq;
use crate::packet::{Tcp, TcpOptions, Timestamps};
use crate::units::Instant;
use core::num::NonZeroU32;

/// `MAX_TCP_OPTION_SPACE`, bytes.
pub(super) const MAX_OPTION_SPACE: u32 = 40;

/// MSS assumed until the peer tells (`TCP_MSS_DEFAULT`).
pub(super) const MSS_DEFAULT: u32 = 536;

/// Negotiated options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// Both ends send timestamps (`tstamp_ok`).
    pub timestamps: bool,
    /// Both ends can SACK (`sack_ok`).
    pub sack_ok: bool,
    /// Both ends scale windows (`wscale_ok`).
    pub wscale_ok: bool,
    /// Shift of the peer's windows (`snd_wscale`).
    pub snd_wscale: u8,
    /// Shift of our windows (`rcv_wscale`).
    pub rcv_wscale: u8,
    /// TSval to echo (`ts_recent`).
    pub ts_recent: u32,
    /// The latest segment's timestamp and what it echoes (`rcv_tsval`, `rcv_tsecr`).
    pub rcv_tsval: u32,
    /// See [`rcv_tsval`](Self::rcv_tsval).
    pub rcv_tsecr: u32,
    /// When it was taken, in s; 0 = never (`ts_recent_stamp`).
    pub ts_recent_stamp: u32,
    /// Added to our clock to make TSval (`tsoffset`).
    pub ts_offset: u32,
    /// Our MSS for the peer's segments, without options (`advmss`).
    pub advmss: u32,
}

/// Bytes of the timestamp option with its padding (`TCPOLEN_TSTAMP_ALIGNED`).
pub const TIMESTAMPS_LEN: u32 = 12;
/// Bytes of a TCP header without options.
pub const TCP_HEADER_LEN: u32 = 20;
/// PAWS does not apply to timestamps older than this (`TCP_PAWS_24DAYS`), s.
const PAWS_24_DAYS: u32 = 60 * 60 * 24 * 24;
/// `TCP_PAWS_MSL`, s.
const PAWS_MSL: u32 = 60;
/// Largest window shift (RFC 7323 section 2.3).
pub const MAX_WSCALE: u8 = 14;

impl Connection {
    /// Bytes of every segment's TCP header when there is nothing to SACK (`tcp_header_len`).
    #[inline]
    pub(super) fn header_len(&self) -> u32 {
        let plain = TCP_HEADER_LEN + if self.opt.timestamps { TIMESTAMPS_LEN } else { 0 };
        if self.md5_key().is_some() { plain + super::md5::OPTION_LEN } else { plain }
    }

    /// The timestamp clock of a connection that begins now: it began with the host, five minutes before jiffies
    /// wrap. A TSval of 0 would be taken for none when it comes back; no kernel's clock stands at 0 when it opens a
    /// connection.
    pub(super) fn start_ts_clock(&mut self, now: Instant) {
        let uptime = self.config.jiffies_at_zero.wrapping_sub(INITIAL_JIFFIES) as u32;
        self.opt.ts_offset = uptime + u32::from(now.as_millis() == 0 && uptime == 0);
        self.opt.ts_offset = self.opt.ts_offset.wrapping_add(self.config.socket.timestamp_offset);
    }

    /// Our timestamp clock: milliseconds plus a per-connection offset (`tcp_time_stamp`).
    #[inline]
    pub(super) fn ts_now(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.opt.ts_offset)
    }

    /// The same as a stamp to keep: 0 would be none, also in the kernel.
    pub(super) fn stamp(&self, now: Instant) -> Option<NonZeroU32> {
        NonZeroU32::new(self.ts_now(now).max(1))
    }

    /// The timestamp option for a segment sent now.
    pub(super) fn ts_option(&self, now: Instant) -> Option<Timestamps> {
        // The clock is not read for an ICMP error (`tcp_v4_mtu_reduced`).
        let now = if self.ack.unclocked { self.ack.clock } else { now };
        self.opt
            .timestamps
            .then(|| Timestamps { value: self.ts_now(now), echo: self.opt.ts_recent })
    }

    /// RFC 7323 section 4.3: remember the TSval of a segment that covers the last ACK sent
    /// (`tcp_replace_ts_recent`).
    pub(super) fn update_ts_recent(&mut self, seq: Seq, tcp: &Tcp, now: Instant) {
        let Some(ts) = tcp.options.timestamps else { return };
        if self.opt.timestamps && !seq.after(self.rcv.wup) && !self.is_older(ts.value, 0, now) {
            self.store_ts_recent(ts.value, now);
        }
    }

    /// Takes `value` as the TSval to echo.
    pub(super) fn store_ts_recent(&mut self, value: u32, now: Instant) {
        self.opt.ts_recent = value;
        self.opt.ts_recent_stamp = seconds(now);
    }

    pub(super) fn ts_recent_is_old(&self, now: Instant) -> bool {
        seconds(now) >= self.opt.ts_recent_stamp + PAWS_24_DAYS
    }

    /// RFC 7323 section 5: the segment is older than what was accepted before
    /// (`tcp_paws_discard`).
    pub(super) fn paws_rejects(&self, tcp: &Tcp, len: u32, now: Instant) -> bool {
        let Some(ts) = tcp.options.timestamps else { return false };
        if !self.opt.timestamps || self.opt.ts_recent_stamp == 0 {
            return false;
        }
        self.is_older(ts.value, PAWS_WINDOW, now) && !self.is_disordered_ack(tcp, ts, len)
    }

    /// The same in TIME-WAIT, where nothing is merely overtaken: a single tick is too old, for pure
    /// ACKs too, and for a RST while the latest timestamp is younger than MSL (`tcp_paws_reject`).
    pub(super) fn time_wait_paws_rejects(&self, tcp: &Tcp, now: Instant) -> bool {
        let Some(ts) = tcp.options.timestamps.filter(|_| self.opt.timestamps) else { return false };
        let reset = tcp.flags.contains(crate::packet::TcpFlags::RST);
        self.is_older(ts.value, 0, now)
            && !(reset && seconds(now) >= self.opt.ts_recent_stamp + PAWS_MSL)
    }

    /// A timestamp is more than so many ticks older than the latest, which counts for 24 days, and is none if it is 0,
    /// as some begin with that (`tcp_paws_check`).
    pub(super) fn is_older(&self, value: u32, ticks: i32, now: Instant) -> bool {
        let age = self.opt.ts_recent.wrapping_sub(value) as i32;
        age > ticks && self.opt.ts_recent != 0 && !self.ts_recent_is_old(now)
    }

    /// A pure ACK that was merely overtaken is harmless (`tcp_disordered_ack`).
    fn is_disordered_ack(&self, tcp: &Tcp, ts: Timestamps, len: u32) -> bool {
        let pure_ack =
            tcp.flags.contains(crate::packet::TcpFlags::ACK) && len == 0 && tcp.seq == self.rcv.nxt;
        let recent = self.opt.ts_recent.wrapping_sub(ts.value) <= self.rto;
        pure_ack && tcp.ack == self.snd.una && !self.changes_window(tcp) && recent
    }
}

/// Ticks by which a timestamp may be older than the latest: a segment that was merely overtaken
/// (`TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;

/// Seconds since the epoch, never 0 so that 0 can mean "never".
fn seconds(now: Instant) -> u32 {
    (now.as_millis() / 1_000) as u32 + 1
}

impl Negotiated {
    /// What the two SYNs agree on: `ours` as configured, `theirs` as received.
    pub fn agree(config: &TcpConfig, theirs: &TcpOptions, rcv_wscale: u8, advmss: u32) -> Self {
        let sysctl = &config.sysctl;
        let timestamps = sysctl.tcp_timestamps != 0 && theirs.timestamps.is_some();
        let wscale = theirs.window_scale().filter(|_| sysctl.tcp_window_scaling != 0);
        Self {
            timestamps,
            sack_ok: sysctl.tcp_sack != 0 && theirs.sack_permitted,
            wscale_ok: wscale.is_some(),
            snd_wscale: wscale.unwrap_or(0).min(MAX_WSCALE),
            rcv_wscale: if wscale.is_some() { rcv_wscale } else { 0 },
            ts_recent: theirs.timestamps.map_or(0, |ts| ts.value),
            rcv_tsval: theirs.timestamps.map_or(0, |ts| ts.value),
            rcv_tsecr: theirs.timestamps.map_or(0, |ts| ts.echo),
            ts_recent_stamp: u32::from(timestamps),
            ts_offset: 0,
            advmss: advmss - if timestamps { TIMESTAMPS_LEN } else { 0 },
        }
    }
}
