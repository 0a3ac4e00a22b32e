//! System calls over a link between two hosts, step by step.

use super::*;
use crate::host::PortConfig;
use crate::node::{Node as _, Output, Port};
use crate::units::Duration;
use core::net::SocketAddr;

/// Two hosts, each with a process, and a wire without delay between them.
struct Pair {
    now: Instant,
    hosts: [Host; 2],
    processes: [Sockets; 2],
}

const SERVER: usize = 0;
const CLIENT: usize = 1;

impl Pair {
    fn new() -> Self {
        let host = |last: u8| {
            let mut host = Host::new();
            let addresses = vec![([10, 0, 0, last].into(), 24)];
            host.add_port(PortConfig { addresses, ..PortConfig::default() });
            for _ in 0..64 {
                host.credit(Instant::ZERO, Port(0), None);
            }
            host
        };
        Self {
            now: Instant::ZERO,
            hosts: [host(1), host(2)],
            processes: [Sockets::new(), Sockets::new()],
        }
    }

    fn begin(&mut self, who: usize, syscall: Syscall) -> (Call, Poll<Result<Return, Errno>>) {
        let mut call = Call::from(syscall);
        let outcome = self.processes[who].call(self.now, &mut self.hosts[who], &mut call);
        self.settle();
        (call, outcome)
    }

    fn again(&mut self, who: usize, call: &mut Call) -> Poll<Result<Return, Errno>> {
        let outcome = self.processes[who].call(self.now, &mut self.hosts[who], call);
        self.settle();
        outcome
    }

    fn value(&mut self, who: usize, syscall: Syscall) -> Result<i64, Errno> {
        match self.begin(who, syscall).1 {
            Poll::Ready(outcome) => outcome.map(|returned| returned.value),
            Poll::Pending => panic!("the call would block"),
        }
    }

    /// Carries packets over until none is left.
    fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for from in 0..2 {
                while let Some(output) = self.hosts[from].poll(self.now) {
                    quiet = false;
                    if let Output::Send(_, packet) = output {
                        let done = crate::node::Done {
                            owner: packet.meta.owner,
                            truesize: packet.meta.truesize,
                        };
                        self.hosts[from].credit(self.now, Port(0), Some(done));
                        self.hosts[1 - from].receive(self.now, Port(0), packet);
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
        self.settle();
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
    assert_eq!(pair.value(SERVER, socket()), Ok(3));
    assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address("0.0.0.0:80") }), Ok(0));
    assert_eq!(pair.value(SERVER, Syscall::Listen { fd: 3, backlog: 1 }), Ok(0));
    let (mut accept, outcome) = pair.begin(SERVER, Syscall::Accept { fd: 3, flags: 0 });
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.value(CLIENT, socket()), Ok(3));
    let remote = address("10.0.0.1:80");
    let (mut connect, outcome) = pair.begin(CLIENT, Syscall::Connect { fd: 3, address: remote });
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.again(CLIENT, &mut connect), Poll::Ready(Ok(Return::value(0))));
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
