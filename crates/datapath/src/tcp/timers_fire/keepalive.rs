//! The timer of idle connections: keepalive probes, FIN-WAIT-2 and TIME-WAIT
//! (`tcp_keepalive_timer`).

use crate::tcp::config::{Linger2, Sysctl};
use crate::tcp::state::State;
use crate::tcp::time_wait::TIME_WAIT_TICKS;
use crate::tcp::timer::{HZ, Timer};
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

impl Connection {
    /// `SO_KEEPALIVE` starts with the connection.
    pub(in crate::tcp) fn start_keepalive(&mut self, now: Instant) {
        if self.config.keepalive {
            self.set_keepalive(self.keepalive_time(), now);
        }
    }

    /// `SO_KEEPALIVE` was set or cleared: the first probe is a whole idle time away, however long it has been quiet
    /// (`tcp_set_keepalive`).
    pub fn keep_alive(&mut self, on: bool, now: Instant) {
        let was_on = core::mem::replace(&mut self.config_mut().keepalive, on);
        if !self.may_keep_alive() {
            return;
        }
        if !on {
            self.timers.stop(Timer::Keepalive);
        } else if !was_on {
            self.set_keepalive(self.keepalive_time(), now);
        }
    }

    /// `TCP_KEEPIDLE` was set: how long it has been quiet counts (`tcp_sock_set_keepidle_locked`).
    pub fn keepalive_changed(&mut self, now: Instant) {
        if !self.may_keep_alive() || !self.config.keepalive {
            return;
        }
        let left = self.keepalive_time().saturating_sub(self.idle_ticks(now));
        self.set_keepalive(left, now);
    }

    /// The timer is there for probes.
    fn may_keep_alive(&self) -> bool {
        !matches!(self.state, State::Close | State::Listen | State::TimeWait) && !self.orphan
    }

    fn set_keepalive(&mut self, ticks: u64, now: Instant) {
        let expiry = self.jiffies_clock().wheel_expiry(now, ticks);
        self.timers.place(Timer::Keepalive, now, expiry);
    }

    /// Idle time before the first probe, ticks.
    fn keepalive_time(&self) -> u64 {
        let seconds = match self.config.socket.keepalive_time_s {
            Some(own) => own.get(),
            None => Sysctl::seconds(self.config.sysctl.tcp_keepalive_time),
        };
        u64::from(seconds) * u64::from(HZ)
    }

    /// Distance of probes, ticks.
    fn keepalive_interval(&self) -> u64 {
        let seconds = match self.config.socket.keepalive_intvl_s {
            Some(own) => own.get(),
            None => Sysctl::seconds(self.config.sysctl.tcp_keepalive_intvl),
        };
        u64::from(seconds) * u64::from(HZ)
    }

    /// Ticks since anything arrived.
    fn idle_ticks(&self, now: Instant) -> u64 {
        let jiffies = self.jiffies32(now);
        let since_ack = jiffies.wrapping_sub(self.rcv_tstamp);
        let since_data = jiffies.wrapping_sub(self.ack.lrcvtime);
        since_ack.min(since_data).into()
    }

    /// How long an orphan waits for the peer's FIN, ticks (`tcp_fin_time`).
    pub(in crate::tcp) fn fin_time(&self) -> u64 {
        let seconds = match self.config.socket.linger2 {
            Linger2::Sysctl => Sysctl::seconds(self.config.sysctl.tcp_fin_timeout),
            Linger2::Seconds(own) => own.get(),
            Linger2::Never => 0,
        };
        let rto = u64::from(self.rto);
        (u64::from(seconds) * u64::from(HZ)).max((rto << 2) - (rto >> 1))
    }

    /// An orphan begins to wait for the peer's FIN; false: it does not wait at all
    /// (`TCP_LINGER2` below zero).
    pub(in crate::tcp) fn start_fin_wait_timer(&mut self, now: Instant) -> bool {
        if self.config.socket.linger2 == Linger2::Never {
            return false;
        }
        self.set_keepalive(self.fin_time(), now);
        true
    }

    /// 2 MSL.
    pub(in crate::tcp) fn start_time_wait_timer(&mut self, now: Instant) {
        self.set_keepalive(TIME_WAIT_TICKS, now);
    }

    /// Keepalive, FIN-WAIT-2 or TIME-WAIT (`tcp_keepalive_timer`).
    pub(super) fn keepalive_timeout(&mut self, cx: &mut Cx<'_>) {
        self.ack.clock = cx.now;
        match self.state {
            State::TimeWait => self.done(cx),
            State::FinWait2 if self.orphan => self.done(cx),
            State::Close | State::Listen | State::SynSent => {}
            _ if self.config.keepalive => self.keepalive_probe(cx),
            State::Established
            | State::SynRecv
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck
            | State::Closing => {}
        }
    }

    fn keepalive_probe(&mut self, cx: &mut Cx<'_>) {
        let idle_limit = self.keepalive_time();
        let busy = self.rec.packets_out > 0 || !self.queue.unsent_is_empty();
        let idle = self.idle_ticks(cx.now);
        if busy || idle < idle_limit {
            let wait = if busy { idle_limit } else { idle_limit - idle };
            self.set_keepalive(wait, cx.now);
            return;
        }
        let probes = u32::from(self.probes_out);
        let limit = match self.config.socket.keepalive_probes {
            Some(own) => own.get().into(),
            None => self.config.sysctl.tcp_keepalive_probes,
        };
        let over = match self.config.user_timeout_ms {
            Some(user_ms) => idle >= user_ms.get().into() && probes > 0,
            None => probes >= limit,
        };
        if over {
            self.send_reset(cx);
            return self.write_error(cx);
        }
        cx.mib.keep_alive += 1;
        self.probes_out = self.probes_out.saturating_add(1);
        self.send_probe_ack(self.snd.una - 1, cx);
        self.set_keepalive(self.keepalive_interval(), cx.now);
    }
}
