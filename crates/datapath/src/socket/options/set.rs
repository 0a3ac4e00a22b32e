//! `setsockopt(2)` (`sk_setsockopt`, `do_ip_setsockopt`, `do_ipv6_setsockopt`).

use super::{state_of, stored};
use crate::host::Host;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use crate::socket::number::*;
use crate::socket::stream::{Phase, Stream};
use crate::tcp::Connection;
use crate::tcp::config::{PmtuDiscovery, TcpConfig, lock};
use crate::tcp::state::State;
use crate::units::Instant;
use core::num::{NonZeroU8, NonZeroU32};

/// One `setsockopt` under way.
pub(super) struct Setter<'a> {
    pub now: Instant,
    pub host: &'a mut Host,
    pub stream: &'a mut Stream,
}

impl Setter<'_> {
    /// Changes the configuration of the socket and of what it has become.
    pub(super) fn configure(&mut self, change: impl Fn(&mut TcpConfig)) {
        change(&mut self.stream.config);
        match self.stream.phase {
            Phase::Connection(id) => {
                let _ = self.host.with_tcp(self.now, id, |tcp, _| change(tcp.config_mut()));
            }
            Phase::Listener(id) => {
                let _ = self.host.tcp_configure_listener(id, change);
            }
            Phase::Fresh | Phase::Deferred(_) => {}
        }
    }

    /// Does something to the connection, if there is one.
    pub(super) fn with_tcp(&mut self, act: impl FnOnce(&mut Connection, &mut crate::tcp::Cx<'_>)) {
        if let Some(id) = self.stream.connection() {
            let _ = self.host.with_tcp(self.now, id, act);
        }
    }

    /// `sk_state`.
    pub(super) fn state(&self) -> State {
        match self.stream.phase {
            Phase::Fresh => State::Close,
            Phase::Listener(_) => State::Listen,
            Phase::Deferred(_) => State::SynSent,
            Phase::Connection(id) => state_of(self.host.tcp_connection(id)),
        }
    }

    /// Neither closed nor listening.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state(), State::Close | State::Listen)
    }

    pub(super) fn keep(&mut self, level: i32, name: i32, value: i64) -> Result<(), Errno> {
        let value = stored(level, name).ok_or(Errno::ENOPROTOOPT)?.of(value)?;
        self.stream.options.kept.insert((level, name), value);
        Ok(())
    }

    /// `SO_TIMESTAMP` and `SO_TIMESTAMPNS` are one option with two units (`sock_set_timestamp`).
    fn timestamp(&mut self, name: i32, on: bool) -> Result<(), Errno> {
        for other in [SO_TIMESTAMP, SO_TIMESTAMPNS] {
            self.keep(SOL_SOCKET, other, (on && other == name).into())?;
        }
        Ok(())
    }

    /// By another TOS or mark, or without gateways, there may be another route (`sk_dst_reset`).
    fn reset_route(&mut self) {
        let connection = self.stream.connection().and_then(|id| self.host.tcp_connection(id));
        self.stream.options.route_forgotten_at = connection.map(Connection::segs_out);
    }

    pub(super) fn socket(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        let on = value != 0;
        match name {
            SO_REUSEADDR => self.stream.options.reuse_address = on,
            SO_REUSEPORT => self.stream.options.reuse_port = on,
            SO_SNDBUF => self.send_buffer(self.bounded(value)),
            SO_SNDBUFFORCE => self.send_buffer(value.clamp(0, i64::from(i32::MAX / 2))),
            SO_RCVBUF => self.receive_buffer(self.bounded(value)),
            SO_RCVBUFFORCE => self.receive_buffer(value.clamp(0, i64::from(i32::MAX / 2))),
            SO_BUF_LOCK => {
                let locks = lock::named(value).ok_or(Errno::EINVAL)?;
                self.configure(|config| config.socket.buf_lock = Some(locks));
            }
            SO_KEEPALIVE => {
                let now = self.now;
                self.with_tcp(|tcp, _| tcp.keep_alive(on, now));
                self.configure(|config| config.keepalive = on);
            }
            SO_OOBINLINE => self.configure(|config| config.socket.oob_inline = on),
            SO_PRIORITY => self.configure(|config| config.priority = value as u32),
            SO_MARK => {
                if self.stream.config.mark != value as u32 {
                    self.reset_route();
                }
                self.configure(|config| config.mark = value as u32);
            }
            SO_DONTROUTE => {
                self.keep(SOL_SOCKET, name, value)?;
                self.reset_route();
                self.configure(|config| config.socket.dont_route = on);
                match self.stream.phase {
                    Phase::Listener(id) | Phase::Connection(id) => {
                        let _ = self.host.tcp_set_dont_route(id, on);
                    }
                    Phase::Fresh | Phase::Deferred(_) => {}
                }
            }
            SO_TIMESTAMP | SO_TIMESTAMPNS => self.timestamp(name, on)?,
            SO_RCVLOWAT => self.receive_low_water(value),
            SO_TXREHASH if matches!(value, -1..=1) => {
                let own = (value >= 0).then_some(on);
                self.configure(|config| config.socket.txrehash = own);
            }
            SO_ZEROCOPY if matches!(value, 0 | 1) => self.stream.options.zerocopy = on,
            SO_TXREHASH | SO_ZEROCOPY => return Err(Errno::EINVAL),
            SO_TIMESTAMPING => {
                let flags = value as u32;
                if flags & !0x3_ffff != 0 {
                    return Err(Errno::EINVAL);
                }
                let opt_id = flags & SOF_TIMESTAMPING_OPT_ID as u32 != 0;
                let closed = self.stream.connection().is_none();
                let has = |flag: i32| flags & flag as u32 != 0;
                if has(SOF_TIMESTAMPING_OPT_STATS) && !has(SOF_TIMESTAMPING_OPT_TSONLY) {
                    return Err(Errno::EINVAL);
                }
                if opt_id && closed {
                    return Err(Errno::EINVAL);
                }
                self.stream.config.socket.timestamping = flags;
                self.with_tcp(|tcp, _| tcp.set_timestamping(flags));
            }
            SO_MAX_PACING_RATE => {
                let unlimited = value < 0 || value == i64::from(u32::MAX);
                let rate = if unlimited { u64::MAX } else { value as u64 };
                self.configure(|config| config.max_pacing_rate = rate);
                self.with_tcp(|tcp, _| tcp.pacing_changed());
            }
            SO_TYPE | SO_PROTOCOL | SO_DOMAIN | SO_ERROR | SO_ACCEPTCONN | SO_SNDLOWAT
            | SO_INCOMING_NAPI_ID => {
                return Err(Errno::ENOPROTOOPT);
            }
            _ => return self.keep(SOL_SOCKET, name, value),
        }
        Ok(())
    }

    /// A buffer's size, `net.core.wmem_max` or `net.core.rmem_max` at most, by which one below zero is the largest.
    fn bounded(&self, value: i64) -> i64 {
        (value as u32).min(self.stream.config.profile.rmem_max).into()
    }

    /// `SO_SNDBUF`: doubled, and no longer tuned.
    fn send_buffer(&mut self, value: i64) {
        // Zero is given as well, and is not "autotuned".
        let given = NonZeroU32::new((value as u32).max(1));
        self.configure(|config| {
            config.send_buffer = given;
            config.lock_buffer(lock::SEND);
        });
        let sndbuf = self.stream.config.sndbuf();
        self.with_tcp(|tcp, cx| {
            tcp.set_sndbuf(sndbuf);
            tcp.lowat_changed(cx);
        });
    }

    fn receive_buffer(&mut self, value: i64) {
        let given = NonZeroU32::new((value as u32).max(1));
        self.configure(|config| {
            config.receive_buffer = given;
            config.lock_buffer(lock::RECEIVE);
        });
        let rcvbuf = self.stream.config.rcvbuf();
        self.with_tcp(|tcp, _| tcp.set_rcvbuf(rcvbuf));
    }

    fn receive_low_water(&mut self, value: i64) {
        let value = if value < 0 { i64::from(i32::MAX) } else { value.max(1) };
        let config = &self.stream.config;
        let cap = if config.rcvbuf_is_locked() {
            let tcp = self.stream.connection().and_then(|id| self.host.tcp_connection(id));
            tcp.map_or_else(|| config.rcvbuf(), Connection::rcvbuf) / 2
        } else {
            config.sysctl.tcp_rmem[2] >> 1
        };
        let lowat = value.min(cap.into()) as u32;
        self.stream.options.rcvlowat = lowat;
        self.configure(|config| config.socket.rcvlowat = lowat);
        self.with_tcp(Connection::rcvlowat_changed);
        self.widen_clamp(lowat);
    }

    /// A `TCP_WINDOW_CLAMP` that was set before there is a connection follows `SO_RCVLOWAT` where this makes the buffer
    /// larger (`tcp_set_rcvlowat`).
    fn widen_clamp(&mut self, lowat: u32) {
        let config = &self.stream.config;
        let grows = lowat > config.sysctl.tcp_rmem[1] / 2 && !config.rcvbuf_is_locked();
        if grows && config.socket.window_clamp.is_some() && self.stream.connection().is_none() {
            self.configure(|config| config.socket.window_clamp = NonZeroU32::new(lowat));
        }
    }

    pub(super) fn ip(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        match name {
            IP_TOS => {
                let tos = value as u8 & !3;
                if self.stream.config.tos != tos {
                    self.reset_route();
                    self.configure(|config| config.set_tos(tos));
                }
            }
            IP_TTL => {
                if value != -1 && !(1..=255).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                let ttl = NonZeroU8::new(value.max(0) as u8);
                self.configure(|config| config.socket.ttl = ttl);
                self.with_tcp(|tcp, _| tcp.take_hoplimit_of_route());
            }
            IP_MTU_DISCOVER => {
                let how = path_mtu_discovery(value)?;
                self.configure(|config| config.socket.pmtu_discovery = how);
            }
            IP_RECVERR => self.configure(|config| config.socket.recverr = value != 0),
            IP_FREEBIND | IP_TRANSPARENT => self.stream.options.freebind = value != 0,
            _ => return self.keep(SOL_IP, name, value),
        }
        Ok(())
    }

    pub(super) fn ipv6(&mut self, name: i32, value: i64) -> Result<(), Errno> {
        match name {
            IPV6_V6ONLY => {
                if self.stream.bound.is_some() || self.stream.phase != Phase::Fresh {
                    return Err(Errno::EINVAL);
                }
                self.stream.options.v6_only = value != 0;
            }
            IPV6_TCLASS => {
                if !(-1..=0xff).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                let class = if value < 0 { 0 } else { value as u8 };
                self.configure(|config| config.change_ipv6(|own| own.traffic_class = class & !3));
            }
            IPV6_UNICAST_HOPS => {
                if !(-1..=255).contains(&value) {
                    return Err(Errno::EINVAL);
                }
                self.configure(|config| config.socket.hop_limit = u8::try_from(value).ok());
                self.with_tcp(|tcp, _| tcp.take_hoplimit_of_route());
            }
            IPV6_MTU_DISCOVER => {
                let how = path_mtu_discovery(value)?;
                self.configure(|config| config.change_ipv6(|own| own.pmtu_discovery = how));
            }
            IPV6_RECVERR => {
                self.configure(|config| config.change_ipv6(|own| own.recverr = value != 0));
            }
            IPV6_AUTOFLOWLABEL => {
                self.configure(|config| {
                    config.change_ipv6(|own| own.auto_flow_label = Some(value != 0));
                });
            }
            // What a datagram is cut into, which no segment is.
            IPV6_MTU if value == 0 || value >= IPV6_MIN_MTU => {}
            IPV6_MTU => return Err(Errno::EINVAL),
            IPV6_FREEBIND => self.stream.options.freebind = value != 0,
            _ => return self.keep(SOL_IPV6, name, value),
        }
        Ok(())
    }
}

/// `IP_MTU_DISCOVER` and `IPV6_MTU_DISCOVER`.
pub(in crate::socket) fn path_mtu_discovery(value: i64) -> Result<PmtuDiscovery, Errno> {
    let how = usize::try_from(value).ok().and_then(|index| PmtuDiscovery::ALL.get(index));
    how.copied().ok_or(Errno::EINVAL)
}

/// `IPV6_MIN_MTU`.
pub(in crate::socket) const IPV6_MIN_MTU: i64 = 1_280;
