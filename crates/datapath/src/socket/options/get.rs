//! `getsockopt(2)` (`sk_getsockopt`, `do_tcp_getsockopt`, `do_ip_getsockopt`).

use super::state_of;
use crate::host::Host;
use crate::socket::answer::CcInfo;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "a hundred names, each of them plain")]
use crate::socket::number::*;
use crate::socket::option::OptionValue;
use crate::socket::stream::{Phase, Stream};
use crate::tcp::Connection;
use crate::tcp::config::{Linger2, PmtuDiscovery};
use crate::tcp::info::TcpInfo;
use crate::tcp::state::State;
use crate::tcp::timer::HZ;
use crate::units::Instant;
use core::num::{NonZeroU8, NonZeroU32};

fn stored_option(stream: &Stream, level: i32, name: i32) -> Result<OptionValue, Errno> {
    super::stored(level, name).ok_or(Errno::ENOPROTOOPT)?;
    Ok(OptionValue::Number(stream.options.kept.get(&(level, name)).copied().unwrap_or(0)))
}

fn tcp_of<'a>(host: &'a Host, stream: &Stream) -> Option<&'a Connection> {
    host.tcp_connection(stream.connection()?)
}

pub(super) fn socket_value(
    host: &mut Host,
    stream: &Stream,
    name: i32,
) -> Result<OptionValue, Errno> {
    let options = &stream.options;
    let config = &stream.config;
    let number = match name {
        SO_ERROR => {
            let error =
                stream.connection().and_then(|id| host.tcp_take_any_error(id).unwrap_or_default());
            error.map_or(0, |error| Errno::from(error).number().into())
        }
        SO_REUSEADDR => options.reuse_address.into(),
        SO_REUSEPORT => options.reuse_port.into(),
        SO_SNDBUF => {
            tcp_of(host, stream).map_or_else(|| config.sndbuf(), Connection::sndbuf).into()
        }
        SO_RCVBUF => {
            tcp_of(host, stream).map_or_else(|| config.rcvbuf(), Connection::rcvbuf).into()
        }
        SO_BUF_LOCK => config.buf_lock().into(),
        SO_KEEPALIVE => config.keepalive.into(),
        SO_OOBINLINE => config.socket.oob_inline.into(),
        SO_PRIORITY => config.priority.into(),
        SO_MARK => config.mark.into(),
        SO_RCVLOWAT => options.rcvlowat.into(),
        SO_SNDLOWAT => 1,
        SO_TXREHASH => config.rehashes().into(),
        SO_INCOMING_NAPI_ID => 0,
        SO_ZEROCOPY => options.zerocopy.into(),
        SO_TIMESTAMPING => config.socket.timestamping.into(),
        SO_MAX_PACING_RATE => match config.max_pacing_rate {
            u64::MAX => -1,
            rate => rate as i64,
        },
        SO_TYPE => SOCK_STREAM.into(),
        SO_PROTOCOL => IPPROTO_TCP.into(),
        SO_DOMAIN => i64::from(if stream.ipv6 { AF_INET6 } else { AF_INET }),
        SO_ACCEPTCONN => matches!(stream.phase, Phase::Listener(_)).into(),
        SO_COOKIE => stream.host_socket().map_or(0, |id| id.index() as i64 + 1),
        SO_LINGER => {
            return Ok(OptionValue::Linger {
                on: options.linger.is_some(),
                seconds: reported_linger(options.linger_time),
            });
        }
        SO_RCVTIMEO => return Ok(OptionValue::Time(options.receive_timeout.unwrap_or_default())),
        SO_SNDTIMEO => return Ok(OptionValue::Time(options.send_timeout.unwrap_or_default())),
        SO_MEMINFO => return Ok(OptionValue::MemInfo(memory(host, stream))),
        _ => return stored_option(stream, SOL_SOCKET, name),
    };
    Ok(OptionValue::Number(number))
}

/// The time of `SO_LINGER` as it is told. One below zero is as long as can be, of whose seconds the lower 32 bits are
/// told (`MAX_SCHEDULE_TIMEOUT / HZ`).
pub(in crate::socket) fn reported_linger(seconds: u32) -> u32 {
    if seconds > i32::MAX as u32 { (i64::MAX / i64::from(HZ)) as u32 } else { seconds }
}

/// `SO_MEMINFO` (`sk_get_meminfo`).
fn memory(host: &Host, stream: &Stream) -> [u32; 9] {
    let mut memory = [0; 9];
    let config = &stream.config;
    memory[1] = config.rcvbuf();
    memory[3] = config.sndbuf();
    if let Some(tcp) = tcp_of(host, stream) {
        memory[0] = tcp.rmem_alloc();
        memory[1] = tcp.rcvbuf();
        memory[2] = tcp.wmem_alloc();
        memory[3] = tcp.sndbuf();
        memory[5] = tcp.wmem_queued();
    }
    memory
}

pub(super) fn tcp_value(
    now: Instant,
    host: &mut Host,
    stream: &Stream,
    name: i32,
) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let own = &config.socket;
    let sysctl = &config.sysctl;
    let tcp = tcp_of(host, stream);
    let or =
        |own: Option<NonZeroU32>, default: u32| i64::from(own.map_or(default, NonZeroU32::get));
    let number = match name {
        TCP_NODELAY => config.nodelay.into(),
        TCP_CORK => tcp.map_or(own.cork, Connection::is_corked).into(),
        TCP_MAXSEG => match (tcp, config.max_segment) {
            (Some(tcp), own) if own.is_none() || state_of(Some(tcp)) != State::Close => {
                tcp.mss().into()
            }
            (_, None) => {
                stream.remains.as_ref().map_or(MSS_DEFAULT, |left| left.info.snd_mss.into())
            }
            (_, Some(own)) => own.get().into(),
        },
        TCP_KEEPIDLE => or(own.keepalive_time_s, sysctl.tcp_keepalive_time),
        TCP_KEEPINTVL => or(own.keepalive_intvl_s, sysctl.tcp_keepalive_intvl),
        TCP_KEEPCNT => or(own.keepalive_probes.map(NonZeroU32::from), sysctl.tcp_keepalive_probes),
        TCP_SYNCNT => or(own.syn_retries.map(NonZeroU32::from), sysctl.tcp_syn_retries),
        TCP_LINGER2 => match own.linger2 {
            Linger2::Sysctl => sysctl.tcp_fin_timeout.into(),
            Linger2::Seconds(own) => own.get().into(),
            Linger2::Never => -1,
        },
        TCP_DEFER_ACCEPT => seconds_of(own.defer_accept),
        TCP_WINDOW_CLAMP => match tcp {
            Some(tcp) => tcp.window_clamp().into(),
            None => or(own.window_clamp, 0),
        },
        TCP_QUICKACK => tcp.map_or(!own.delays_acks, Connection::is_quick).into(),
        TCP_USER_TIMEOUT => config.user_timeout_ms.map_or(0, NonZeroU32::get).into(),
        TCP_NOTSENT_LOWAT => i64::from(own.notsent_lowat.map_or(0, NonZeroU32::get) as i32),
        TCP_FASTOPEN => match stream.phase {
            Phase::Listener(id) => {
                host.tcp_listener(id).map_or(0, |listener| listener.fast_open_limit().into())
            }
            _ => stream.options.fast_open_limit.into(),
        },
        TCP_FASTOPEN_CONNECT => stream.options.fast_open_connect.into(),
        TCP_FASTOPEN_NO_COOKIE => own.fastopen_no_cookie.into(),
        TCP_FASTOPEN_KEY => {
            let keys = own.fastopen_key.unwrap_or(sysctl.tcp_fastopen_key);
            return Ok(OptionValue::Bytes(keys.to_bytes()));
        }
        TCP_INQ => stream.options.inq.into(),
        TCP_TX_DELAY => own.tx_delay_us.into(),
        TCP_THIN_LINEAR_TIMEOUTS => own.thin_linear.into(),
        TCP_SAVE_SYN => own.save_syn.into(),
        TCP_SAVED_SYN => {
            let id = stream.connection();
            let syn = id.and_then(|id| host.with_tcp(now, id, |tcp, _| tcp.take_saved_syn()).ok());
            return Ok(OptionValue::Bytes(syn.unwrap_or_default()));
        }
        TCP_RTO_MAX_MS => or(own.rto_max_ms, sysctl.tcp_rto_max_ms),
        TCP_RTO_MIN_US => or(own.rto_min_us, sysctl.tcp_rto_min_us),
        TCP_DELACK_MAX_US => or(own.delack_max_us, 200_000),
        TCP_REPAIR | TCP_THIN_DUPACK => 0,
        TCP_TIMESTAMP => tcp.map_or(now.as_millis() as u32, |tcp| tcp.timestamp(now)).into(),
        TCP_CONGESTION => {
            let name = tcp.map_or(config.congestion_control.name(), Connection::cc_name);
            return Ok(OptionValue::Text(name.to_owned()));
        }
        TCP_INFO => {
            let listener = match stream.phase {
                Phase::Listener(id) => host.tcp_listener(id),
                _ => None,
            };
            let mut info = match (tcp, listener) {
                (Some(tcp), _) => tcp.info(now),
                (None, Some(listener)) => TcpInfo::of_listener(config, now, listener.backlog()),
                (None, None) => of_closed(stream, now),
            };
            if tcp.is_some() {
                info.state = state_of(tcp);
            }
            return Ok(OptionValue::TcpInfo(Box::new(info)));
        }
        TCP_CC_INFO => {
            let info = tcp.and_then(|tcp| tcp.cc_info(now)).map_or(CcInfo::None, CcInfo::from);
            return Ok(OptionValue::CcInfo(info));
        }
        _ => return stored_option(stream, SOL_TCP, name),
    };
    Ok(OptionValue::Number(number))
}

/// What a socket without a connection says of itself, and of one that it had.
fn of_closed(stream: &Stream, now: Instant) -> TcpInfo {
    let new = TcpInfo::of_closed(&stream.config, now);
    match &stream.remains {
        None => new,
        Some(remains) => TcpInfo {
            last_data_sent: new.last_data_sent,
            last_data_recv: new.last_data_recv,
            last_ack_recv: new.last_ack_recv,
            ..remains.info
        },
    }
}

pub(super) fn ip_value(
    now: Instant,
    host: &mut Host,
    stream: &Stream,
    name: i32,
) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let number = match name {
        IP_TOS => i64::from(tcp_of(host, stream).map_or(config.tos, |tcp| tcp.config().tos)),
        IP_TTL => config.socket.ttl.map_or(64, NonZeroU8::get).into(),
        IP_MTU_DISCOVER => pmtu_number(config.socket.pmtu_discovery),
        IP_RECVERR => config.socket.recverr.into(),
        IP_FREEBIND | IP_TRANSPARENT => stream.options.freebind.into(),
        IP_MTU => path_mtu(now, host, stream)?.into(),
        _ => return stored_option(stream, SOL_IP, name),
    };
    Ok(OptionValue::Number(number))
}

pub(super) fn ipv6_value(
    now: Instant,
    host: &mut Host,
    stream: &Stream,
    name: i32,
) -> Result<OptionValue, Errno> {
    let config = &stream.config;
    let number = match name {
        IPV6_V6ONLY => stream.options.v6_only.into(),
        IPV6_TCLASS => {
            tcp_of(host, stream).map_or(config, Connection::config).traffic_class().into()
        }
        // That of the route counts as the socket's, unlike with IPv4.
        IPV6_UNICAST_HOPS => {
            let config = tcp_of(host, stream).map_or(config, Connection::config);
            config.socket.hop_limit.unwrap_or(64).into()
        }
        IPV6_MTU_DISCOVER => pmtu_number(config.pmtu_discovery(true)),
        IPV6_RECVERR => config.recverr(true).into(),
        IPV6_AUTOFLOWLABEL => config.auto_flow_label().into(),
        IPV6_FREEBIND => stream.options.freebind.into(),
        IPV6_MTU => path_mtu(now, host, stream)?.into(),
        _ => return stored_option(stream, SOL_IPV6, name),
    };
    Ok(OptionValue::Number(number))
}

/// The packet size of the route, if the socket has one.
fn path_mtu(now: Instant, host: &mut Host, stream: &Stream) -> Result<u32, Errno> {
    let tcp = tcp_of(host, stream).ok_or(Errno::ENOTCONN)?;
    if stream.options.route_forgotten_at == Some(tcp.segs_out()) {
        return Err(Errno::ENOTCONN);
    }
    // The route may have been told what the connection does not heed.
    let (own, remote) = (tcp.path_mtu(), tcp.remote().ip());
    Ok(host.path_mtu(now, remote).map_or(own, |told| told.bytes.min(own)))
}

pub(in crate::socket) fn pmtu_number(how: PmtuDiscovery) -> i64 {
    PmtuDiscovery::ALL.iter().position(|known| *known == how).map_or(1, |index| index as i64)
}

/// And back (`retrans_to_secs`).
pub(super) fn seconds_of(retransmissions: u8) -> i64 {
    let (mut period, mut timeout) = (0, 1);
    for _ in 0..retransmissions {
        period += timeout;
        timeout = (timeout << 1).min(120);
    }
    period
}

/// `TCP_MSS_DEFAULT`.
const MSS_DEFAULT: i64 = 536;
