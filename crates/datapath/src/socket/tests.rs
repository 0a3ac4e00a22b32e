//! System calls over a link between two hosts, step by step.

use super::*;
use crate::host::PortConfig;
use crate::node::{Poll as Said, Port, Rx};
use crate::packet::Packet;
use crate::tcp::mib::Mib;
use crate::units::Duration;
use core::net::SocketAddr;

mod bytes;
mod datagrams;
mod errors;
mod features;
mod flow_labels;
mod peers;
mod readiness;
mod time_wait;

/// Two hosts, each with a process, and a wire without delay between them.
struct Pair {
    now: Instant,
    hosts: [Host; 2],
    processes: [Sockets; 2],
    /// Packets from this host are lost.
    cut: [bool; 2],
    /// Every packet that crossed, and who sent it.
    wire: Vec<(usize, Packet)>,
}

const SERVER: usize = 0;
const CLIENT: usize = 1;

impl Pair {
    fn new() -> Self {
        let host = |last: u8| {
            let mut host = Host::new();
            let addresses = vec![
                ([10, 0, 0, last].into(), 24),
                (core::net::IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)]), 64),
            ];
            host.add_port(PortConfig { addresses, ..PortConfig::default() });
            host.grant(Instant::ZERO, Port(0), 64);
            let idle = host.poll(Instant::ZERO, &mut Packet::default());
            assert!(matches!(idle, Said::Idle(_)));
            host
        };
        Self {
            now: Instant::ZERO + Duration::from_secs(1_000),
            hosts: [host(1), host(2)],
            processes: [Sockets::new(), Sockets::new()],
            cut: [false; 2],
            wire: Vec::new(),
        }
    }

    /// A listener at 3, and a connection: 4 at the server, 3 at the client.
    fn connected() -> Self {
        let mut pair = Self::new();
        pair.listen(8);
        assert_eq!(pair.value(CLIENT, socket()), Ok(3));
        pair.connect(3);
        assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
        pair
    }

    fn listen(&mut self, backlog: i32) {
        assert_eq!(self.value(SERVER, socket()), Ok(3));
        let address = address("0.0.0.0:80");
        assert_eq!(self.value(SERVER, Syscall::Bind { fd: 3, address }), Ok(0));
        assert_eq!(self.value(SERVER, Syscall::Listen { fd: 3, backlog }), Ok(0));
    }

    fn connect(&mut self, fd: Fd) {
        let syscall = Syscall::Connect { fd, address: address("10.0.0.1:80") };
        let (mut call, outcome) = self.begin(CLIENT, syscall);
        assert_eq!(outcome, Poll::Pending);
        assert_eq!(self.again(CLIENT, &mut call), Poll::Ready(Ok(Return::value(0))));
    }

    fn begin(&mut self, who: usize, syscall: Syscall) -> (Call, Poll<Result<Return, Errno>>) {
        let mut call = Call::from(syscall);
        let outcome = self.again(who, &mut call);
        (call, outcome)
    }

    fn again(&mut self, who: usize, call: &mut Call) -> Poll<Result<Return, Errno>> {
        let outcome = self.processes[who].call(self.now, &mut self.hosts[who], call);
        self.settle();
        outcome
    }

    fn returned(&mut self, who: usize, syscall: Syscall) -> Result<Return, Errno> {
        match self.begin(who, syscall).1 {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("the call would block"),
        }
    }

    /// The client's name.
    fn local(&mut self, fd: Fd) -> SocketAddr {
        match self.returned(CLIENT, Syscall::LocalName { fd }) {
            Ok(Return { data: Data::Address(local), .. }) => local,
            other => panic!("{other:?}"),
        }
    }

    fn value(&mut self, who: usize, syscall: Syscall) -> Result<i64, Errno> {
        self.returned(who, syscall).map(|returned| returned.value)
    }

    fn nonblocking(&mut self, who: usize, fd: Fd) {
        let argument = number::O_RDWR | number::O_NONBLOCK;
        let syscall = Syscall::Fcntl { fd, command: number::F_SETFL, argument };
        assert_eq!(self.value(who, syscall), Ok(0));
    }

    fn set(&mut self, who: usize, fd: Fd, level: i32, name: i32, value: i32) {
        assert_eq!(self.value(who, Syscall::set(fd, level, name, value)), Ok(0));
    }

    fn get(&mut self, who: usize, fd: Fd, level: i32, name: i32) -> i64 {
        let returned = self.returned(who, Syscall::get(fd, level, name)).expect("an option");
        returned.option_number().expect("a number")
    }

    fn sysctl(&mut self, who: usize, name: &str, value: &str) {
        assert_eq!(self.hosts[who].set_tcp_sysctl(name, value), Ok(()));
    }

    fn mib(&self, who: usize) -> Mib {
        self.hosts[who].tcp_mib()
    }

    /// Carries packets over until none is left.
    fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for from in 0..2 {
                let mut place = Packet::default();
                loop {
                    match self.hosts[from].poll(self.now, &mut place) {
                        Said::Idle(_) => break,
                        Said::Send { .. } => self.carry(from, place.take()),
                        Said::Drop(_) | Said::Ready(_) | Said::Event(_) => {}
                    }
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn carry(&mut self, from: usize, mut packet: Packet) {
        self.hosts[from].credit(self.now, Port(0));
        self.wire.push((from, packet.clone()));
        if !self.cut[from] {
            let rx = self.hosts[1 - from].receive(self.now, Port(0), &mut packet);
            assert_eq!(rx, Rx::Taken);
        }
    }

    /// Time passes, timer by timer.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let next = self.hosts.iter().filter_map(Host::wake_at).min();
            match next {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.settle();
                }
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// The packets that a host has sent since the last question.
    fn sent(&mut self, who: usize) -> Vec<Packet> {
        let all = core::mem::take(&mut self.wire);
        all.into_iter().filter(|(from, _)| *from == who).map(|(_, packet)| packet).collect()
    }
}

fn address(text: &str) -> Address {
    Address::Inet(text.parse::<SocketAddr>().expect("an address"))
}

fn socket() -> Syscall {
    let (domain, kind) = (number::AF_INET, number::SOCK_STREAM);
    Syscall::Socket { domain, kind, protocol: number::IPPROTO_TCP }
}

#[test]
fn a_blocking_accept_and_connect_meet() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (mut accept, outcome) = pair.begin(SERVER, Syscall::Accept { fd: 3, flags: 0 });
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    pair.connect(3);
    let Poll::Ready(Ok(Return { value: 4, data: Data::Address(_) })) =
        pair.again(SERVER, &mut accept)
    else {
        panic!("the connection is there to accept")
    };
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 1_000)), Ok(1_000));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 5_000)), Ok(1_000));
    pair.pass(Duration::from_millis(50));
    assert_eq!(pair.value(CLIENT, Syscall::Close { fd: 3 }), Ok(0));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 5_000)), Ok(0), "end of the stream");
    assert_eq!(pair.value(CLIENT, Syscall::read(3, 1)), Err(Errno::EBADF));
}

#[test]
fn a_blocking_write_larger_than_the_buffers_is_one_call() {
    let mut pair = Pair::connected();
    pair.set(CLIENT, 3, number::SOL_SOCKET, number::SO_SNDBUF, 20_000);
    pair.set(SERVER, 4, number::SOL_SOCKET, number::SO_RCVBUF, 20_000);
    let (mut write, outcome) = pair.begin(CLIENT, Syscall::write(3, 500_000));
    assert_eq!(outcome, Poll::Pending);
    let mut read = 0;
    for _ in 0..10_000 {
        pair.pass(Duration::from_millis(1));
        if let Poll::Ready(Ok(returned)) =
            pair.begin(SERVER, Syscall::recv(4, 8_000, number::MSG_DONTWAIT)).1
        {
            read += returned.value;
        }
        if let Poll::Ready(outcome) = pair.again(CLIENT, &mut write) {
            assert_eq!(outcome, Ok(Return::value(500_000)));
            break;
        }
    }
    pair.pass(Duration::from_secs(1));
    while read < 500_000 {
        read += pair.value(SERVER, Syscall::read(4, 100_000)).expect("the rest");
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(read, 500_000);
}

#[test]
fn ipv4_mapped_addresses_are_ipv4_on_the_wire_and_mapped_to_the_caller() {
    let mut pair = Pair::new();
    let v6 =
        || Syscall::Socket { domain: number::AF_INET6, kind: number::SOCK_STREAM, protocol: 0 };
    assert_eq!(pair.value(SERVER, v6()), Ok(3));
    assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address("[::]:80") }), Ok(0));
    assert_eq!(pair.value(SERVER, Syscall::Listen { fd: 3, backlog: 1 }), Ok(0));
    for (fd, to, shown) in
        [(3, "[::ffff:10.0.0.1]:80", "::ffff:10.0.0.2"), (4, "[fd00::1]:80", "fd00::2")]
    {
        assert_eq!(pair.value(CLIENT, v6()), Ok(fd.into()));
        let (mut call, _) = pair.begin(CLIENT, Syscall::Connect { fd, address: address(to) });
        assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Ok(Return::value(0))), "{to}");
        let accepted = pair.returned(SERVER, Syscall::Accept { fd: 3, flags: 0 }).expect("one");
        let Data::Address(peer) = accepted.data else { panic!("an address") };
        assert_eq!(peer.ip().to_string(), shown);
        assert_eq!(pair.value(CLIENT, Syscall::write(fd, 100)), Ok(100));
        assert_eq!(pair.value(SERVER, Syscall::read(accepted.value as Fd, 1_000)), Ok(100));
    }
}
