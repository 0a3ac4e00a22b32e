//! Options at level `SOL_TCP` that are numbers (`do_tcp_setsockopt`).

use super::set::Setter;
use crate::host::SOMAXCONN;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use crate::socket::number::*;
use crate::socket::stream::Phase;
use crate::tcp::Connection;
use crate::tcp::config::{Linger2, MIN_RCVBUF};
use crate::tcp::fastopen::switch;
use crate::tcp::state::State;
use crate::tcp::timer::{HZ, TIMEOUT_MIN};
use core::num::{NonZeroU8, NonZeroU16, NonZeroU32};

impl Setter<'_> {
    /// Any of them. What is about the handshake or about timers has a function of its own.
    pub(super) fn tcp(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        let within = |low, high| within(value, low, high);
        match name {
            TCP_NODELAY => {
                self.configure(|config| config.nodelay = on);
                self.with_tcp(|tcp, cx| tcp.set_nodelay(on, cx));
            }
            TCP_CORK => {
                self.configure(|config| config.socket.cork = on);
                self.with_tcp(|tcp, cx| tcp.set_cork(on, cx));
            }
            TCP_MAXSEG => {
                if value != 0 {
                    within(88, LARGE)?;
                }
                let own = NonZeroU16::new(value as u16);
                self.configure(|config| config.max_segment = own);
            }
            TCP_WINDOW_CLAMP => self.window_clamp(value)?,
            TCP_QUICKACK => {
                if self.stream.connection().is_none() {
                    self.configure(|config| config.socket.delays_acks = !on);
                }
                self.with_tcp(|tcp, cx| tcp.set_quickack(value, cx));
            }
            TCP_NOTSENT_LOWAT => {
                let own = NonZeroU32::new(value as u32);
                self.configure(|config| config.socket.notsent_lowat = own);
                self.with_tcp(Connection::lowat_changed);
            }
            TCP_INQ => {
                within(0, 1)?;
                self.stream.options.inq = on;
            }
            TCP_TX_DELAY => {
                within(0, TX_DELAY_MAX)?;
                self.with_tcp(|tcp, _| tcp.set_tx_delay(value as u32));
                self.configure(|config| config.socket.tx_delay_us = value as u32);
            }
            TCP_THIN_LINEAR_TIMEOUTS => {
                within(0, 1)?;
                self.configure(|config| config.socket.thin_linear = on);
            }
            // Nothing comes of it any more.
            TCP_THIN_DUPACK => within(0, 1)?,
            TCP_REPAIR | TCP_REPAIR_QUEUE | TCP_QUEUE_SEQ | TCP_REPAIR_OPTIONS
            | TCP_REPAIR_WINDOW | TCP_TIMESTAMP => return Err(Errno::EPERM),
            _ => return self.tcp_of_handshake(name, value),
        }
        Ok(())
    }

    /// What is said about the handshake, or anything else.
    fn tcp_of_handshake(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        let within = |low, high| within(value, low, high);
        match name {
            TCP_SYNCNT => {
                within(1, COUNT_MAX)?;
                let own = NonZeroU8::new(value as u8);
                self.configure(|config| config.socket.syn_retries = own);
            }
            TCP_DEFER_ACCEPT => {
                let retries = retransmissions_of(value);
                self.configure(|config| config.socket.defer_accept = retries);
            }
            TCP_FASTOPEN => {
                if value < 0 || self.is_open() {
                    return Err(Errno::EINVAL);
                }
                let limit = (value as u32).min(SOMAXCONN);
                self.stream.options.fast_open_limit = limit;
                if let Phase::Listener(id) = self.stream.phase {
                    self.host.tcp_set_fast_open(id, limit)?;
                }
            }
            TCP_FASTOPEN_CONNECT => {
                within(0, 1)?;
                if self.stream.config.sysctl.tcp_fastopen & switch::CLIENT == 0 {
                    return Err(Errno::EOPNOTSUPP);
                }
                if self.state() != State::Close {
                    return Err(Errno::EINVAL);
                }
                self.stream.options.fast_open_connect = on;
            }
            TCP_FASTOPEN_NO_COOKIE => {
                within(0, 1)?;
                if self.is_open() {
                    return Err(Errno::EINVAL);
                }
                self.configure(|config| config.socket.fastopen_no_cookie = on);
            }
            TCP_SAVE_SYN => {
                within(0, 2)?;
                self.configure(|config| config.socket.save_syn = value as u8);
            }
            _ => return self.tcp_of_timers(name, value),
        }
        Ok(())
    }

    /// What is said about timers, or anything else: that is kept and has no effect.
    fn tcp_of_timers(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let within = |low, high| within(value, low, high);
        match name {
            TCP_KEEPIDLE => {
                within(1, LARGE)?;
                let own = NonZeroU32::new(value as u32);
                self.configure(|config| config.socket.keepalive_time_s = own);
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.keepalive_changed(now));
            }
            TCP_KEEPINTVL => {
                within(1, LARGE)?;
                let own = NonZeroU32::new(value as u32);
                self.configure(|config| config.socket.keepalive_intvl_s = own);
            }
            TCP_KEEPCNT => {
                within(1, COUNT_MAX)?;
                let own = NonZeroU8::new(value as u8);
                self.configure(|config| config.socket.keepalive_probes = own);
            }
            TCP_LINGER2 => {
                let own = Linger2::from_option(value.clamp(-1, 120) as i32);
                self.configure(|config| config.socket.linger2 = own);
            }
            TCP_USER_TIMEOUT => {
                within(0, i64::from(i32::MAX))?;
                let own = NonZeroU32::new(value as u32);
                self.configure(|config| config.user_timeout_ms = own);
            }
            TCP_RTO_MAX_MS => {
                within(1_000, 120_000)?;
                let own = NonZeroU32::new(value as u32);
                self.configure(|config| config.socket.rto_max_ms = own);
            }
            TCP_RTO_MIN_US => {
                let own = whole_jiffies(value)?;
                self.configure(|config| config.socket.rto_min_us = own);
            }
            TCP_DELACK_MAX_US => {
                let own = whole_jiffies(value)?;
                self.configure(|config| config.socket.delack_max_us = own);
            }
            _ => return self.keep(SOL_TCP, name, value),
        }
        Ok(())
    }

    fn window_clamp(&mut self, value: i64) -> Result<(), Errno> {
        if value == 0 && self.state() != State::Close {
            return Err(Errno::EINVAL);
        }
        let clamp = if value == 0 { 0 } else { value.max((MIN_RCVBUF / 2).into()) as u32 };
        self.configure(|config| config.socket.window_clamp = NonZeroU32::new(clamp));
        self.with_tcp(|tcp, _| tcp.set_window_clamp(clamp));
        Ok(())
    }
}

fn within(value: i64, low: i64, high: i64) -> Result<(), Errno> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// µs of `TCP_RTO_MIN_US` or `TCP_DELACK_MAX_US` in whole jiffies: two at least (`TCP_TIMEOUT_MIN`), 200 ms at most
/// (`TCP_RTO_MIN`, `TCP_DELACK_MAX`).
fn whole_jiffies(us: i64) -> Result<Option<NonZeroU32>, Errno> {
    let jiffies = (us as u32).div_ceil(JIFFY_US);
    if !(TIMEOUT_MIN..=HZ / 5).contains(&jiffies) {
        return Err(Errno::EINVAL);
    }
    Ok(NonZeroU32::new(jiffies * JIFFY_US))
}

/// `TCP_DEFER_ACCEPT` in s as SYN-ACK retransmissions (`secs_to_retrans`).
fn retransmissions_of(seconds: i64) -> u8 {
    if seconds <= 0 {
        return 0;
    }
    let (mut count, mut period, mut timeout) = (1, 1, 1);
    while seconds > period && count < 255 {
        count += 1;
        timeout = (timeout << 1).min(120);
        period += timeout;
    }
    count
}

/// `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_WINDOW`.
const LARGE: i64 = 32_767;

/// Beyond it a delay in eighths of a µs does not fit into a number with a sign.
const TX_DELAY_MAX: i64 = (1 << 28) - 1;

/// µs.
const JIFFY_US: u32 = 1_000_000 / HZ;

/// `MAX_TCP_KEEPCNT`, `MAX_TCP_SYNCNT`.
const COUNT_MAX: i64 = 127;

#[cfg(test)]
mod tests {
    use super::super::get::seconds_of;
    use super::*;

    #[test]
    fn deferring_is_counted_in_retransmissions() {
        for (seconds, count, back) in
            [(0, 0, 0), (1, 1, 1), (2, 2, 3), (3, 2, 3), (4, 3, 7), (60, 6, 63)]
        {
            assert_eq!(retransmissions_of(seconds), count, "{seconds} s");
            assert_eq!(seconds_of(count), back, "{seconds} s");
        }
    }
}
