//! A step's call as the datapath takes it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use datapath::socket::number as n;
use datapath::socket::{
    Address as SockAddr, Buffer, Control as Cmsg, EpollEvent, Iov, Md5Signature, Message,
    OptionValue, PollFd, Syscall,
};
use datapath::units::Duration;

use super::model::Model;
use super::step::{Address, AddressOf, Call, Control, Value};

/// The IPv4 address of a host.
pub fn v4_of(end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + end)
}

/// The IPv6 address of a host.
pub fn v6_of(end: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + u16::from(end))
}

/// The call with its descriptors chosen among those that are open.
pub fn syscall(call: &Call, model: &Model) -> Syscall {
    let fd = |which| model.choose(which);
    match call {
        &Call::Socket(domain, kind, protocol) => Syscall::Socket { domain, kind, protocol },
        &Call::Bind(which, to) => Syscall::Bind { fd: fd(which), address: address(to) },
        &Call::Listen(which, backlog) => Syscall::Listen { fd: fd(which), backlog },
        &Call::Accept(which, flags) => Syscall::Accept { fd: fd(which), flags },
        &Call::Connect(which, to) => Syscall::Connect { fd: fd(which), address: address(to) },
        Call::Read(which, memory) => Syscall::Read { fd: fd(*which), iov: iov(memory) },
        Call::Write(which, memory) => Syscall::Write { fd: fd(*which), iov: iov(memory) },
        Call::Send(which, to, memory, flags) => {
            let message = Message { address: address(*to), iov: iov(memory), ..Message::default() };
            Syscall::Send { fd: fd(*which), message, flags: *flags }
        }
        Call::SendMessage(which, to, memory, messages, flags) => {
            let control = messages.iter().map(control).collect();
            let message = Message { address: address(*to), iov: iov(memory), control };
            Syscall::Send { fd: fd(*which), message, flags: *flags }
        }
        Call::Receive(which, memory, flags) => {
            Syscall::Receive { fd: fd(*which), iov: iov(memory), flags: *flags }
        }
        &Call::Sendfile(out, from, offset, count) => Syscall::Sendfile {
            out_fd: fd(out),
            in_fd: fd(from),
            offset: offset.map(|offset| offset as u64),
            count: count as u64,
        },
        &Call::Splice(from, to, len, flags) => {
            Syscall::Splice { in_fd: fd(from), out_fd: fd(to), len: len as u64, flags }
        }
        Call::Pipe => Syscall::Pipe,
        Call::Open(path, flags) => Syscall::Open { path: path.clone(), flags: *flags },
        Call::Poll(fds, timeout_ms) => {
            let fds = fds.iter().map(|&(which, events)| PollFd { fd: fd(which), events }).collect();
            Syscall::Poll { fds, timeout_ms: *timeout_ms }
        }
        Call::Select(read, write, except, micros) => {
            let [read, write, except] =
                [read, write, except].map(|set| set.iter().map(|&which| fd(which)).collect());
            let timeout = micros.map(Duration::from_micros);
            Syscall::Select { read, write, except, timeout }
        }
        &Call::EpollCreate(size) => Syscall::EpollCreate { size },
        &Call::EpollCreate1(flags) => Syscall::EpollCreate1 { flags },
        &Call::EpollCtl(epoll, op, which, events) => {
            let fd = fd(which);
            let event = events.map(|events| EpollEvent { events, data: fd as u64 });
            Syscall::EpollCtl { epfd: model.choose(epoll), op, fd, event }
        }
        &Call::EpollWait(epoll, max_events, timeout_ms) => {
            Syscall::EpollWait { epfd: fd(epoll), max_events, timeout_ms }
        }
        &Call::Close(which) => Syscall::Close { fd: fd(which) },
        &Call::Shutdown(which, how) => Syscall::Shutdown { fd: fd(which), how },
        &Call::Fcntl(which, command, argument) => {
            Syscall::Fcntl { fd: fd(which), command, argument }
        }
        &Call::Ioctl(which, request, argument) => {
            Syscall::Ioctl { fd: fd(which), request, argument }
        }
        &Call::Get(which, level, name, len) => {
            Syscall::GetOption { fd: fd(which), level, name, len }
        }
        Call::Set(which, level, name, value) => {
            let len = if let Value::Number(_, len) = value { *len } else { 16 };
            let value = option(value);
            Syscall::SetOption { fd: fd(*which), level: *level, name: *name, value, len }
        }
        &Call::LocalName(which) => Syscall::LocalName { fd: fd(which) },
        &Call::PeerName(which) => Syscall::PeerName { fd: fd(which) },
    }
}

/// An address of one of the families.
pub fn ip(place: AddressOf, ipv6: bool) -> IpAddr {
    if ipv6 { v6(place).into() } else { v4(place).into() }
}

fn address(address: Address) -> SockAddr {
    match address {
        Address::Null => SockAddr::Null,
        Address::Unspecified => SockAddr::Unspecified,
        Address::Other(family, len) => SockAddr::Other { family, len },
        Address::V4(place, port) => SocketAddr::new(v4(place).into(), port).into(),
        Address::V6(place, port) => SocketAddr::new(v6(place).into(), port).into(),
        Address::Mapped(place, port) => {
            SocketAddr::new(v4(place).to_ipv6_mapped().into(), port).into()
        }
    }
}

fn v4(place: AddressOf) -> Ipv4Addr {
    match place {
        AddressOf::Host(end) => v4_of(end),
        AddressOf::Loopback => Ipv4Addr::LOCALHOST,
        AddressOf::Everywhere => Ipv4Addr::UNSPECIFIED,
        AddressOf::Nobody => Ipv4Addr::new(10, 0, 0, 99),
        AddressOf::Unreachable => Ipv4Addr::new(192, 0, 2, 1),
    }
}

fn v6(place: AddressOf) -> Ipv6Addr {
    match place {
        AddressOf::Host(end) => v6_of(end),
        AddressOf::Loopback => Ipv6Addr::LOCALHOST,
        AddressOf::Everywhere => Ipv6Addr::UNSPECIFIED,
        AddressOf::Nobody => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 99),
        AddressOf::Unreachable => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    }
}

fn iov(memory: &[i64]) -> Iov {
    let buffer = |&len: &i64| match len {
        0.. => Buffer::of(len as u64),
        _ => Buffer::faulty(len.unsigned_abs()),
    };
    match memory {
        [one] => Iov::One(buffer(one)),
        many => Iov::Many(many.iter().map(buffer).collect()),
    }
}

fn control(&Control(level, kind, value): &Control) -> Cmsg {
    let interface = (value & 3) as u32;
    let place = match value >> 2 & 3 {
        0 => AddressOf::Everywhere,
        1 => AddressOf::Host(0),
        2 => AddressOf::Host(1),
        _ => AddressOf::Loopback,
    };
    match (level, kind) {
        (n::SOL_IP, n::IP_TOS) => Cmsg::IpTos(value as u8),
        (n::SOL_IP, n::IP_TTL) => Cmsg::IpTtl(value),
        (n::SOL_IP, n::IP_PKTINFO) => {
            Cmsg::IpPktInfo { interface, spec_dst: v4(place), addr: Ipv4Addr::UNSPECIFIED }
        }
        (n::SOL_IPV6, n::IPV6_TCLASS) => Cmsg::Ipv6TrafficClass(value),
        (n::SOL_IPV6, n::IPV6_HOPLIMIT) => Cmsg::Ipv6HopLimit(value),
        (n::SOL_IPV6, n::IPV6_PKTINFO) => Cmsg::Ipv6PktInfo { addr: v6(place), interface },
        (n::SOL_UDP, n::UDP_SEGMENT) => Cmsg::UdpSegment(value as u16),
        (n::SOL_SOCKET, n::SO_TIMESTAMPING) => Cmsg::TimestampingFlags(value),
        _ => Cmsg::Other { level, kind, value },
    }
}

fn option(value: &Value) -> OptionValue {
    match value {
        Value::Number(number, _) => OptionValue::Number(*number),
        Value::Linger(on, seconds) => OptionValue::Linger { on: *on, seconds: *seconds },
        Value::Micros(micros) => OptionValue::Time(Duration::from_micros(*micros)),
        Value::Text(text) => OptionValue::Text(text.clone()),
        Value::Bytes(count) => OptionValue::Bytes(vec![0x5a; *count as usize]),
        Value::Md5(whose, prefix_len, key) => {
            let address = match address(*whose) {
                SockAddr::Inet(address) => address,
                _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            };
            let key = vec![7; *key as usize];
            OptionValue::Md5(Md5Signature { address, prefix_len: *prefix_len, key })
        }
        Value::Fault => OptionValue::Fault,
    }
}
