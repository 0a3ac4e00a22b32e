//! Numbers passed to calls: ordinary ones, limits of ranges, and nonsense.

use datapath::socket::number as n;

use super::step::Control;
use crate::draw::Draw;

/// Every option that is known by a name, with its level.
const OPTIONS: &[(i32, i32)] = &[
    (n::SOL_SOCKET, n::SO_DEBUG),
    (n::SOL_SOCKET, n::SO_REUSEADDR),
    (n::SOL_SOCKET, n::SO_TYPE),
    (n::SOL_SOCKET, n::SO_ERROR),
    (n::SOL_SOCKET, n::SO_DONTROUTE),
    (n::SOL_SOCKET, n::SO_BROADCAST),
    (n::SOL_SOCKET, n::SO_SNDBUF),
    (n::SOL_SOCKET, n::SO_RCVBUF),
    (n::SOL_SOCKET, n::SO_KEEPALIVE),
    (n::SOL_SOCKET, n::SO_OOBINLINE),
    (n::SOL_SOCKET, n::SO_NO_CHECK),
    (n::SOL_SOCKET, n::SO_PRIORITY),
    (n::SOL_SOCKET, n::SO_LINGER),
    (n::SOL_SOCKET, n::SO_REUSEPORT),
    (n::SOL_SOCKET, n::SO_RCVLOWAT),
    (n::SOL_SOCKET, n::SO_SNDLOWAT),
    (n::SOL_SOCKET, n::SO_RCVTIMEO),
    (n::SOL_SOCKET, n::SO_SNDTIMEO),
    (n::SOL_SOCKET, n::SO_BINDTODEVICE),
    (n::SOL_SOCKET, n::SO_TIMESTAMP),
    (n::SOL_SOCKET, n::SO_ACCEPTCONN),
    (n::SOL_SOCKET, n::SO_TIMESTAMPNS),
    (n::SOL_SOCKET, n::SO_SNDBUFFORCE),
    (n::SOL_SOCKET, n::SO_RCVBUFFORCE),
    (n::SOL_SOCKET, n::SO_MARK),
    (n::SOL_SOCKET, n::SO_TIMESTAMPING),
    (n::SOL_SOCKET, n::SO_PROTOCOL),
    (n::SOL_SOCKET, n::SO_DOMAIN),
    (n::SOL_SOCKET, n::SO_RXQ_OVFL),
    (n::SOL_SOCKET, n::SO_PEEK_OFF),
    (n::SOL_SOCKET, n::SO_BUSY_POLL),
    (n::SOL_SOCKET, n::SO_INCOMING_CPU),
    (n::SOL_SOCKET, n::SO_INCOMING_NAPI_ID),
    (n::SOL_SOCKET, n::SO_MAX_PACING_RATE),
    (n::SOL_SOCKET, n::SO_MEMINFO),
    (n::SOL_SOCKET, n::SO_COOKIE),
    (n::SOL_SOCKET, n::SO_ZEROCOPY),
    (n::SOL_SOCKET, n::SO_TXTIME),
    (n::SOL_SOCKET, n::SO_TXREHASH),
    (n::SOL_TCP, n::TCP_NODELAY),
    (n::SOL_TCP, n::TCP_MAXSEG),
    (n::SOL_TCP, n::TCP_CORK),
    (n::SOL_TCP, n::TCP_KEEPIDLE),
    (n::SOL_TCP, n::TCP_KEEPINTVL),
    (n::SOL_TCP, n::TCP_KEEPCNT),
    (n::SOL_TCP, n::TCP_SYNCNT),
    (n::SOL_TCP, n::TCP_LINGER2),
    (n::SOL_TCP, n::TCP_DEFER_ACCEPT),
    (n::SOL_TCP, n::TCP_WINDOW_CLAMP),
    (n::SOL_TCP, n::TCP_INFO),
    (n::SOL_TCP, n::TCP_QUICKACK),
    (n::SOL_TCP, n::TCP_CONGESTION),
    (n::SOL_TCP, n::TCP_MD5SIG),
    (n::SOL_TCP, n::TCP_THIN_LINEAR_TIMEOUTS),
    (n::SOL_TCP, n::TCP_THIN_DUPACK),
    (n::SOL_TCP, n::TCP_USER_TIMEOUT),
    (n::SOL_TCP, n::TCP_REPAIR),
    (n::SOL_TCP, n::TCP_REPAIR_QUEUE),
    (n::SOL_TCP, n::TCP_QUEUE_SEQ),
    (n::SOL_TCP, n::TCP_REPAIR_OPTIONS),
    (n::SOL_TCP, n::TCP_REPAIR_WINDOW),
    (n::SOL_TCP, n::TCP_FASTOPEN),
    (n::SOL_TCP, n::TCP_TIMESTAMP),
    (n::SOL_TCP, n::TCP_NOTSENT_LOWAT),
    (n::SOL_TCP, n::TCP_CC_INFO),
    (n::SOL_TCP, n::TCP_SAVE_SYN),
    (n::SOL_TCP, n::TCP_SAVED_SYN),
    (n::SOL_TCP, n::TCP_FASTOPEN_CONNECT),
    (n::SOL_TCP, n::TCP_ULP),
    (n::SOL_TCP, n::TCP_MD5SIG_EXT),
    (n::SOL_TCP, n::TCP_FASTOPEN_KEY),
    (n::SOL_TCP, n::TCP_FASTOPEN_NO_COOKIE),
    (n::SOL_TCP, n::TCP_ZEROCOPY_RECEIVE),
    (n::SOL_TCP, n::TCP_INQ),
    (n::SOL_TCP, n::TCP_TX_DELAY),
    (n::SOL_TCP, n::TCP_RTO_MAX_MS),
    (n::SOL_TCP, n::TCP_RTO_MIN_US),
    (n::SOL_TCP, n::TCP_DELACK_MAX_US),
    (n::SOL_IP, n::IP_TOS),
    (n::SOL_IP, n::IP_TTL),
    (n::SOL_IP, n::IP_OPTIONS),
    (n::SOL_IP, n::IP_RECVOPTS),
    (n::SOL_IP, n::IP_RETOPTS),
    (n::SOL_IP, n::IP_PKTINFO),
    (n::SOL_IP, n::IP_MTU_DISCOVER),
    (n::SOL_IP, n::IP_RECVERR),
    (n::SOL_IP, n::IP_RECVTTL),
    (n::SOL_IP, n::IP_RECVTOS),
    (n::SOL_IP, n::IP_MTU),
    (n::SOL_IP, n::IP_FREEBIND),
    (n::SOL_IP, n::IP_TRANSPARENT),
    (n::SOL_IP, n::IP_PASSSEC),
    (n::SOL_IP, n::IP_RECVORIGDSTADDR),
    (n::SOL_IP, n::IP_MINTTL),
    (n::SOL_IP, n::IP_CHECKSUM),
    (n::SOL_IP, n::IP_BIND_ADDRESS_NO_PORT),
    (n::SOL_IP, n::IP_RECVFRAGSIZE),
    (n::SOL_IP, n::IP_RECVERR_RFC4884),
    (n::SOL_IP, n::IP_MULTICAST_TTL),
    (n::SOL_IP, n::IP_MULTICAST_LOOP),
    (n::SOL_IP, n::IP_MULTICAST_ALL),
    (n::SOL_IP, n::IP_LOCAL_PORT_RANGE),
    (n::SOL_IPV6, n::IPV6_FLOWINFO),
    (n::SOL_IPV6, n::IPV6_UNICAST_HOPS),
    (n::SOL_IPV6, n::IPV6_MULTICAST_HOPS),
    (n::SOL_IPV6, n::IPV6_MULTICAST_LOOP),
    (n::SOL_IPV6, n::IPV6_MULTICAST_ALL),
    (n::SOL_IPV6, n::IPV6_MTU_DISCOVER),
    (n::SOL_IPV6, n::IPV6_MTU),
    (n::SOL_IPV6, n::IPV6_RECVERR),
    (n::SOL_IPV6, n::IPV6_RECVERR_RFC4884),
    (n::SOL_IPV6, n::IPV6_FLOWINFO_SEND),
    (n::SOL_IPV6, n::IPV6_RECVPKTINFO),
    (n::SOL_IPV6, n::IPV6_RECVHOPLIMIT),
    (n::SOL_IPV6, n::IPV6_RECVPATHMTU),
    (n::SOL_IPV6, n::IPV6_DONTFRAG),
    (n::SOL_IPV6, n::IPV6_AUTOFLOWLABEL),
    (n::SOL_IPV6, n::IPV6_V6ONLY),
    (n::SOL_IPV6, n::IPV6_RECVTCLASS),
    (n::SOL_IPV6, n::IPV6_TCLASS),
    (n::SOL_IPV6, n::IPV6_MINHOPCOUNT),
    (n::SOL_IPV6, n::IPV6_RECVORIGDSTADDR),
    (n::SOL_IPV6, n::IPV6_TRANSPARENT),
    (n::SOL_IPV6, n::IPV6_RECVFRAGSIZE),
    (n::SOL_IPV6, n::IPV6_FREEBIND),
];

/// Options of UDP sockets.
const OF_DATAGRAMS: &[(i32, i32)] = &[
    (n::SOL_UDP, n::UDP_CORK),
    (n::SOL_UDP, n::UDP_SEGMENT),
    (n::SOL_UDP, n::UDP_GRO),
    (n::SOL_UDP, n::UDP_NO_CHECK6_TX),
    (n::SOL_UDP, n::UDP_NO_CHECK6_RX),
];

/// What control messages of `sendmsg` may be about.
const CONTROLS: &[(i32, i32)] = &[
    (n::SOL_IP, n::IP_TOS),
    (n::SOL_IP, n::IP_TTL),
    (n::SOL_IP, n::IP_PKTINFO),
    (n::SOL_IPV6, n::IPV6_TCLASS),
    (n::SOL_IPV6, n::IPV6_HOPLIMIT),
    (n::SOL_IPV6, n::IPV6_PKTINFO),
    (n::SOL_IPV6, n::IPV6_DONTFRAG),
    (n::SOL_UDP, n::UDP_SEGMENT),
    (n::SOL_UDP, n::UDP_SEGMENT),
    (n::SOL_SOCKET, n::SO_MARK),
    (n::SOL_SOCKET, n::SO_PRIORITY),
    (n::SOL_SOCKET, n::SO_TIMESTAMPING),
    (n::SOL_SOCKET, n::SCM_TXTIME),
];

/// Control messages of `sendmsg`: mostly one or two, with values that mean something.
pub fn control(draw: &mut Draw) -> Vec<Control> {
    let count = *draw.weighted(&[(10, 0), (60, 1), (20, 2), (10, 3)]);
    let one = |draw: &mut Draw| {
        let (level, kind) = if draw.percent(95) { *draw.one_of(CONTROLS) } else { option(draw) };
        let value = match draw.range(0..=9) {
            0..=3 => draw.range(0..=2) as i32,
            4..=8 => draw.log_range(0..=1_500) as i32,
            _ => int(draw),
        };
        Control(level, kind, value)
    };
    (0..count).map(|_| one(draw)).collect()
}

/// A level and a name; one time in ten they do not belong together.
pub fn option(draw: &mut Draw) -> (i32, i32) {
    let names = if draw.percent(90) { OPTIONS } else { OF_DATAGRAMS };
    let (level, name) = *draw.one_of(names);
    if draw.percent(90) {
        return (level, name);
    }
    let level = *draw.one_of(&[n::SOL_SOCKET, n::SOL_TCP, n::SOL_IP, n::SOL_IPV6, n::SOL_UDP, -1]);
    (level, draw.range(0..=90) as i32 - 2)
}

/// A number for an argument that is an `int`.
pub fn int(draw: &mut Draw) -> i32 {
    match draw.range(0..=9) {
        0..=4 => draw.range(0..=3) as i32,
        5..=6 => draw.log_range(0..=i32::MAX as u64) as i32,
        7 => -(draw.log_range(1..=i32::MAX as u64) as i32),
        _ => *draw.one_of(&[-1, i32::MIN, i32::MAX, i32::MAX - 1, 0x7fff, 0x8000, 0xffff, 0x10000]),
    }
}

/// A number for an option: mostly one that means something.
pub fn option_number(draw: &mut Draw) -> i64 {
    match draw.range(0..=9) {
        0..=3 => draw.range(0..=2) as i64,
        4..=6 => draw.log_range(0..=1_000_000) as i64,
        _ => i64::from(int(draw)),
    }
}

/// A length in bytes: mostly small, sometimes far too large.
pub fn length(draw: &mut Draw) -> i64 {
    match draw.range(0..=99) {
        0..=4 => 0,
        5..=93 => draw.log_range(1..=200_000) as i64,
        94..=96 => draw.log_range(1..=5_000_000) as i64,
        97 => draw.log_range(1..=i64::MAX as u64) as i64,
        98 => {
            *draw.one_of(&[0x7fff_f000, 0x7fff_f001, 0xffff_ffff, 1 << 32, i64::MAX, i64::MAX - 1])
        }
        _ => -(draw.log_range(1..=100_000) as i64),
    }
}

/// Flags of `send` and `recv`: none, some, all.
pub fn message_flags(draw: &mut Draw) -> i32 {
    const FLAGS: &[i32] = &[
        n::MSG_OOB,
        n::MSG_PEEK,
        n::MSG_DONTROUTE,
        n::MSG_TRUNC,
        n::MSG_EOR,
        n::MSG_WAITALL,
        n::MSG_ERRQUEUE,
        n::MSG_NOSIGNAL,
        n::MSG_MORE,
        n::MSG_ZEROCOPY,
        n::MSG_FASTOPEN,
    ];
    let mut flags = if draw.percent(60) { n::MSG_DONTWAIT } else { 0 };
    for _ in 0..FLAGS.len() {
        if !draw.percent(25) {
            break;
        }
        flags |= *draw.one_of(FLAGS);
    }
    if draw.percent(1) { int(draw) } else { flags }
}

/// Events of `poll` and `epoll`.
pub fn events(draw: &mut Draw) -> u32 {
    const EVENTS: &[u32] = &[
        n::EPOLLIN,
        n::EPOLLOUT,
        n::EPOLLPRI,
        n::EPOLLERR,
        n::EPOLLHUP,
        n::EPOLLRDHUP,
        n::EPOLLRDNORM,
        n::EPOLLWRNORM,
    ];
    let mut events = *draw.one_of(EVENTS);
    for _ in 0..EVENTS.len() {
        if !draw.percent(50) {
            break;
        }
        events |= *draw.one_of(EVENTS);
    }
    events
}

/// A timeout in ms: none, short, endless, nonsense.
pub fn timeout_ms(draw: &mut Draw) -> i32 {
    match draw.range(0..=9) {
        0..=5 => 0,
        6..=7 => draw.log_range(1..=60_000) as i32,
        8 => -1,
        _ => *draw.one_of(&[i32::MAX, i32::MIN, -2]),
    }
}
