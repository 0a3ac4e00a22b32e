//! How a case is drawn: first calls that establish connections, then anything.

use datapath::socket::number as n;

use super::step::{Address, AddressOf, Call, Descriptor, End, Memory, Step, Value, Wire};
use super::values;
use super::{Case, sysctls};
use crate::draw::Draw;

/// A case.
pub fn case(draw: &mut Draw) -> Case {
    let wire = wire(draw);
    let luck = draw.bits() as u32;
    let mut steps = Vec::new();
    if draw.percent(30) {
        for _ in 0..draw.range(1..=4) {
            steps.push(sysctl(draw));
        }
    }
    for _ in 0..draw.range(0..=3) {
        acquaint(draw, &mut steps);
    }
    let count = draw.log_range(4..=1_200);
    draw.many(count, |draw| any(draw, &mut steps));
    Case { luck, wire, steps }
}

fn wire(draw: &mut Draw) -> Wire {
    let bad = draw.percent(60);
    let chance = |draw: &mut Draw, most| {
        if bad && draw.percent(50) { draw.log_range(1..=most) as u16 } else { 0 }
    };
    Wire {
        rate: if draw.percent(60) { draw.log_range(64..=10_000_000) as u32 } else { 0 },
        delay: draw.log_range(0..=300_000) as u32,
        jitter: if bad && draw.percent(40) { draw.log_range(1..=200_000) as u32 } else { 0 },
        loss: chance(draw, 500),
        duplication: chance(draw, 500),
        corruption: chance(draw, 200),
        ring: draw.log_range(0..=60) as u8,
        gro: draw.percent(30),
        promises: draw.percent(30),
    }
}

/// A listener at one host, and a connection to it; or two UDP sockets.
fn acquaint(draw: &mut Draw, steps: &mut Vec<Step>) {
    let server = draw.range(0..=1) as End;
    let client = if draw.percent(10) { server } else { 1 - server };
    let port = port(draw);
    let v6 = draw.percent(30);
    let family = if v6 { n::AF_INET6 } else { n::AF_INET };
    let kind = if draw.percent(80) { n::SOCK_STREAM } else { n::SOCK_DGRAM };
    let flags = if draw.percent(70) { n::SOCK_NONBLOCK } else { 0 };
    let at = |place| if v6 { Address::V6(place, port) } else { Address::V4(place, port) };
    steps.push(Step::Call(server, Call::Socket(family, kind | flags, 0)));
    let server_socket = newest_of(steps, server);
    if draw.percent(20) {
        steps.push(Step::Call(server, set(draw, server_socket)));
    }
    steps.push(Step::Call(server, Call::Bind(server_socket, at(AddressOf::Everywhere))));
    if kind == n::SOCK_STREAM {
        let backlog = draw.log_range(0..=100) as i32;
        steps.push(Step::Call(server, Call::Listen(server_socket, backlog)));
    }
    for _ in 0..draw.log_range(1..=6) {
        steps.push(Step::Call(client, Call::Socket(family, kind | flags, 0)));
        let socket = newest_of(steps, client);
        if kind == n::SOCK_DGRAM && draw.percent(40) {
            // Little room at either end, and many to fill it.
            let mut little = |end, socket, name| {
                let value = Value::Number(draw.log_range(0..=8_000) as i64, 4);
                steps.push(Step::Call(end, Call::Set(socket, n::SOL_SOCKET, name, value)));
            };
            little(server, server_socket, n::SO_RCVBUF);
            little(client, socket, n::SO_SNDBUF);
            for _ in 0..draw.range(1..=12) {
                let memory = vec![draw.log_range(0..=4_000) as i64];
                let to = at(AddressOf::Host(server));
                steps.push(Step::Call(client, Call::Send(socket, to, memory, n::MSG_DONTWAIT)));
            }
        }
        if draw.percent(20) {
            steps.push(Step::Call(client, set(draw, socket)));
        }
        steps.push(Step::Call(client, Call::Connect(socket, at(AddressOf::Host(server)))));
        steps.push(Step::Call(
            client,
            Call::Send(socket, Address::Null, vec![values::length(draw)], n::MSG_DONTWAIT),
        ));
        if draw.percent(70) {
            steps.push(Step::Wait(draw.log_range(1..=1_000_000)));
        }
        if draw.percent(80) {
            steps.push(Step::Call(
                server,
                Call::Accept(Descriptor::Listener(0), accept_flags(draw)),
            ));
        }
    }
}

/// The descriptor that the latest `socket` has probably given: the openings so far, from 3 on.
fn newest_of(steps: &[Step], end: End) -> Descriptor {
    let opened = steps.iter().filter(
        |step| matches!(step, Step::Call(at, Call::Socket(..) | Call::Accept(..)) if *at == end),
    );
    Descriptor::Number(2 + opened.count() as i32)
}

fn any(draw: &mut Draw, steps: &mut Vec<Step>) {
    let end = draw.range(0..=1) as End;
    let step = match draw.range(0..=99) {
        0..=19 => Step::Wait(time(draw)),
        20..=23 => Step::Probe(end, which(draw)),
        24 => Step::Probe(end, epoll(draw)),
        25 => sysctl(draw),
        26 => {
            Step::Ping(end, draw.percent(40), draw_address(draw), draw.log_range(0..=70_000) as u32)
        }
        27 => return acquaint(draw, steps),
        _ => Step::Call(end, call(draw)),
    };
    steps.push(step);
}

fn time(draw: &mut Draw) -> u64 {
    let longest =
        *draw.weighted(&[(60, 20_000), (35, 2_000_000), (4, 70_000_000), (1, 8_000_000_000)]);
    draw.log_range(1..=longest)
}

fn call(draw: &mut Draw) -> Call {
    match draw.range(0..=139) {
        0..=5 => socket(draw),
        6..=8 => Call::Bind(which(draw), address(draw)),
        9..=11 => Call::Listen(stream(draw), values::int(draw)),
        12..=19 => Call::Accept(listener(draw), accept_flags(draw)),
        20..=26 => Call::Connect(stream(draw), address(draw)),
        27..=39 => Call::Read(plain(draw), memory(draw)),
        40..=52 => Call::Write(plain(draw), memory(draw)),
        53..=64 => {
            let to = if draw.percent(70) { Address::Null } else { address(draw) };
            let (socket, memory) = (socket_of(draw), memory(draw));
            if draw.percent(70) {
                return Call::Send(socket, to, memory, values::message_flags(draw));
            }
            let control = values::control(draw);
            Call::SendMessage(socket, to, memory, control, values::message_flags(draw))
        }
        65..=77 => Call::Receive(socket_of(draw), memory(draw), values::message_flags(draw)),
        78..=79 => {
            let offset = draw.maybe(50, values::length);
            Call::Sendfile(stream(draw), file(draw), offset, values::length(draw))
        }
        80..=83 => splice(draw),
        84 => Call::Pipe,
        85 => open(draw),
        86..=88 => Call::Poll(polled(draw), values::timeout_ms(draw)),
        89..=90 => Call::Select(
            some(draw),
            some(draw),
            some(draw),
            draw.maybe(80, |draw| draw.log_range(0..=1 << 40)),
        ),
        91 => Call::EpollCreate(values::int(draw)),
        92 => Call::EpollCreate1(if draw.percent(80) { 0 } else { values::int(draw) }),
        93..=95 => {
            let op = if draw.percent(90) { draw.range(1..=3) as i32 } else { values::int(draw) };
            let extra =
                if draw.percent(30) { draw.range(0..=3) as u32 * n::EPOLLONESHOT } else { 0 };
            let events = draw.maybe(95, |draw| values::events(draw) | extra);
            Call::EpollCtl(epoll(draw), op, which(draw), events)
        }
        96..=98 => {
            let most = if draw.percent(90) { draw.range(1..=4) as i32 } else { values::int(draw) };
            Call::EpollWait(epoll(draw), most, values::timeout_ms(draw))
        }
        99..=104 => Call::Close(which(draw)),
        105..=108 => {
            let how = if draw.percent(90) { draw.range(0..=2) as i32 } else { values::int(draw) };
            Call::Shutdown(socket_of(draw), how)
        }
        109..=111 => fcntl(draw),
        112..=113 => {
            let requests = [n::FIONREAD, n::FIONBIO, n::SIOCOUTQ, n::SIOCOUTQNSD, n::SIOCATMARK, 7];
            Call::Ioctl(which(draw), *draw.one_of(&requests), values::int(draw))
        }
        114..=121 => {
            let (level, name) = values::option(draw);
            let room = if draw.percent(90) { 1_024 } else { draw.range(0..=8) as u32 };
            Call::Get(socket_of(draw), level, name, room)
        }
        122..=133 => {
            let fd = socket_of(draw);
            set(draw, fd)
        }
        134..=136 => Call::LocalName(socket_of(draw)),
        _ => Call::PeerName(socket_of(draw)),
    }
}

fn socket(draw: &mut Draw) -> Call {
    if draw.percent(10) {
        return Call::Socket(values::int(draw), values::int(draw), values::int(draw));
    }
    let domain = *draw.one_of(&[n::AF_INET, n::AF_INET, n::AF_INET6]);
    let kind = *draw.weighted(&[(12, n::SOCK_STREAM), (6, n::SOCK_DGRAM), (1, n::SOCK_RAW)]);
    let flags = *draw.one_of(&[0, n::SOCK_NONBLOCK, n::SOCK_NONBLOCK | n::SOCK_CLOEXEC]);
    let protocols = [0, 0, 0, 0, n::IPPROTO_TCP, n::IPPROTO_UDP, n::IPPROTO_ICMP, n::IPPROTO_MPTCP];
    Call::Socket(domain, kind | flags, *draw.one_of(&protocols))
}

fn accept_flags(draw: &mut Draw) -> i32 {
    *draw.weighted(&[(60, n::SOCK_NONBLOCK), (35, 0), (5, 1)])
}

fn splice(draw: &mut Draw) -> Call {
    let flags = draw.range(0..=7) as i32;
    let len = values::length(draw).max(0);
    match draw.range(0..=3) {
        0 => Call::Splice(which(draw), which(draw), len, flags),
        1 => Call::Splice(file(draw), Descriptor::Pipe(index(draw)), len, flags),
        2 => Call::Splice(stream(draw), Descriptor::Pipe(index(draw)), len, flags),
        _ => Call::Splice(Descriptor::Pipe(index(draw)), stream(draw), len, flags),
    }
}

fn open(draw: &mut Draw) -> Call {
    let path = *draw.one_of(&["/small", "/large", "/new", "/none"]);
    let mut flags = draw.range(0..=3) as i32;
    for more in [n::O_CREAT, n::O_TRUNC, n::O_APPEND, n::O_NONBLOCK] {
        flags |= if draw.percent(40) { more } else { 0 };
    }
    Call::Open(path.to_owned(), flags)
}

fn fcntl(draw: &mut Draw) -> Call {
    let command = if draw.percent(90) { draw.range(0..=4) as i32 } else { values::int(draw) };
    let arguments = [0, n::O_NONBLOCK, n::O_NONBLOCK, n::O_RDWR | n::O_NONBLOCK];
    let argument = if draw.percent(90) { *draw.one_of(&arguments) } else { values::int(draw) };
    Call::Fcntl(which(draw), command, argument)
}

/// `setsockopt`: mostly with the type of value that the option has.
fn set(draw: &mut Draw, fd: Descriptor) -> Call {
    let (level, name) = values::option(draw);
    let fitting = match (level, name) {
        (n::SOL_SOCKET, n::SO_LINGER) => {
            Value::Linger(draw.percent(70), draw.log_range(0..=u64::from(u32::MAX)) as u32)
        }
        (n::SOL_SOCKET, n::SO_RCVTIMEO | n::SO_SNDTIMEO) => {
            Value::Micros(draw.log_range(0..=1 << 50))
        }
        (n::SOL_TCP, n::TCP_CONGESTION) => text(draw, &["cubic", "reno", "dctcp", "bbr", ""]),
        (n::SOL_TCP, n::TCP_ULP) => text(draw, &["tls", "mptcp", ""]),
        (n::SOL_TCP, n::TCP_FASTOPEN_KEY) => Value::Bytes(*draw.one_of(&[16, 32, 0, 8])),
        (n::SOL_TCP, n::TCP_MD5SIG | n::TCP_MD5SIG_EXT) => Value::Md5(
            address(draw),
            draw.maybe(50, |draw| draw.range(0..=140) as u8),
            draw.log_range(0..=90) as u32,
        ),
        (n::SOL_UDP, n::UDP_SEGMENT) if draw.percent(70) => {
            Value::Number(draw.log_range(0..=1_500) as i64, 4)
        }
        _ => {
            let len = if draw.percent(90) { 4 } else { draw.range(0..=8) as u32 };
            Value::Number(values::option_number(draw), len)
        }
    };
    let value = match draw.range(0..=49) {
        0 => Value::Fault,
        1 => Value::Bytes(draw.log_range(0..=300) as u32),
        2 => Value::Number(values::option_number(draw), 4),
        _ => fitting,
    };
    Call::Set(fd, level, name, value)
}

fn text(draw: &mut Draw, words: &[&str]) -> Value {
    Value::Text((*draw.one_of(words)).to_owned())
}

fn sysctl(draw: &mut Draw) -> Step {
    let end = draw.range(0..=1) as End;
    let place = draw.range(0..=sysctls::COUNT + 9);
    if place >= sysctls::COUNT {
        return sysctl_of_host(draw, end);
    }
    let name = sysctls::name(place);
    let value = match draw.range(0..=3) {
        0..=1 => draw.range(0..=10).to_string(),
        2 => draw.log_range(0..=1 << 33).to_string(),
        _ => i64::from(values::int(draw)).to_string(),
    };
    if draw.percent(5) {
        // An unread buffer of gigabytes would be filled in one step, packet by packet.
        let largest_default = 1 << 26;
        let three = [values::int(draw), values::int(draw).min(largest_default), values::int(draw)]
            .map(|it| it.to_string());
        let name = *draw.one_of(&["tcp_rmem", "tcp_wmem"]);
        return Step::Sysctl(end, name.to_owned(), three.join(" "));
    }
    Step::Sysctl(end, name.to_owned(), value)
}

/// Few ephemeral ports, and little memory for fragments.
fn sysctl_of_host(draw: &mut Draw, end: End) -> Step {
    let names = [
        sysctls::PORTS,
        "net.ipv4.ipfrag_low_thresh",
        "net.ipv4.ipfrag_high_thresh",
        "net.ipv6.ip6frag_low_thresh",
        "net.ipv6.ip6frag_high_thresh",
    ];
    let name = *draw.weighted(&[(5, 0), (1, 1), (1, 2), (1, 3), (1, 4)]);
    let value = match (name, draw.range(0..=9)) {
        (0, 0..=6) => {
            let first = draw.range(40_000..=40_010);
            format!("{first} {}", first + draw.log_range(0..=60))
        }
        (0, 7) => "32768 60999".to_owned(),
        (0, _) => {
            let words = draw.range(0..=3);
            let words: Vec<_> =
                (0..words).map(|_| values::option_number(draw).to_string()).collect();
            words.join(" ")
        }
        (_, 0) => values::int(draw).to_string(),
        _ => draw.log_range(0..=1 << 23).to_string(),
    };
    Step::Sysctl(end, names[name].to_owned(), value)
}

fn index(draw: &mut Draw) -> u32 {
    draw.range(0..=11) as u32
}

fn which(draw: &mut Draw) -> Descriptor {
    match draw.range(0..=19) {
        0 => Descriptor::Number(values::int(draw)),
        1 => Descriptor::Number(draw.range(0..=20) as i32),
        2..=3 => Descriptor::Listener(index(draw)),
        4..=5 => Descriptor::Datagram(index(draw)),
        6..=11 => Descriptor::Stream(index(draw)),
        _ => Descriptor::Any(index(draw)),
    }
}

fn stream(draw: &mut Draw) -> Descriptor {
    if draw.percent(85) { Descriptor::Stream(index(draw)) } else { which(draw) }
}

/// What is read from or written to.
fn plain(draw: &mut Draw) -> Descriptor {
    match draw.range(0..=19) {
        0..=15 => stream(draw),
        16..=17 => file(draw),
        _ => Descriptor::Pipe(index(draw)),
    }
}

fn socket_of(draw: &mut Draw) -> Descriptor {
    match draw.range(0..=9) {
        0..=5 => Descriptor::Stream(index(draw)),
        6..=8 => Descriptor::Datagram(index(draw)),
        _ => which(draw),
    }
}

fn listener(draw: &mut Draw) -> Descriptor {
    if draw.percent(90) { Descriptor::Listener(index(draw)) } else { which(draw) }
}

fn file(draw: &mut Draw) -> Descriptor {
    if draw.percent(90) { Descriptor::File(index(draw)) } else { which(draw) }
}

fn epoll(draw: &mut Draw) -> Descriptor {
    if draw.percent(90) { Descriptor::Epoll(index(draw)) } else { which(draw) }
}

fn some(draw: &mut Draw) -> Vec<Descriptor> {
    (0..draw.range(0..=3)).map(|_| which(draw)).collect()
}

fn polled(draw: &mut Draw) -> Vec<(Descriptor, i32)> {
    (0..draw.range(0..=4)).map(|_| (which(draw), values::events(draw) as i32)).collect()
}

/// Memory of a call: one piece, or several.
fn memory(draw: &mut Draw) -> Memory {
    let pieces = *draw.weighted(&[(85, 1), (10, 2), (3, 3), (2, 0)]);
    (0..pieces).map(|_| values::length(draw)).collect()
}

fn port(draw: &mut Draw) -> u16 {
    draw.range(5_000..=5_003) as u16
}

fn draw_address(draw: &mut Draw) -> AddressOf {
    match draw.range(0..=19) {
        0..=11 => AddressOf::Host(draw.range(0..=1) as End),
        12..=13 => AddressOf::Loopback,
        14..=16 => AddressOf::Everywhere,
        17..=18 => AddressOf::Nobody,
        _ => AddressOf::Unreachable,
    }
}

fn address(draw: &mut Draw) -> Address {
    let place = draw_address(draw);
    let port = match draw.range(0..=9) {
        0 => 0,
        1 => draw.log_range(1..=65_535) as u16,
        _ => port(draw),
    };
    match draw.range(0..=19) {
        0 => Address::Null,
        1 => Address::Unspecified,
        2 => Address::Other(values::int(draw), draw.range(0..=30) as u32),
        3..=12 => Address::V4(place, port),
        13..=16 => Address::V6(place, port),
        _ => Address::Mapped(place, port),
    }
}
