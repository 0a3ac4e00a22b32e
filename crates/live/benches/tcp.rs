//! Payload bytes per CPU second of two TCP endpoints in one process: ours, and smoltcp's, in one run.
//!
//! ```text
//! cargo bench -p ackwright-live --bench tcp
//! ```
//!
//! Both ends of a stack lie in one thread, and packets go over as bytes: cut to an MTU of 1500, with all
//! checksums computed and checked. The reader compares what it gets. Time is virtual, so nothing waits. Ours
//! has SACK, timestamps and CUBIC; smoltcp has none of them. Super-packets are a row of their own: what a
//! TUN device with offloads takes whole.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use std::io::Write as _;

/// Payload of one measurement; the best of `RUNS` counts, because others use the machine.
const TOTAL: usize = 400 << 20;
const RUNS: usize = 5;
/// Bytes of each read and write.
const PIECE: usize = 64 << 10;
const BUFFER: usize = 1 << 20;
const MTU: usize = 1_500;

fn main() {
    let total = std::env::var("TOTAL").ok().and_then(|it| it.parse().ok()).unwrap_or(TOTAL);
    let mut best = [0.0_f64; 3];
    // One after the other, so that a slow minute slows all of them.
    for _ in 0..RUNS {
        let figures =
            [ours::transfer(total, false), theirs::transfer(total), ours::transfer(total, true)];
        for (best, cpu) in best.iter_mut().zip(figures) {
            *best = best.max(total as f64 / cpu);
        }
    }
    let [ours, theirs, whole] = best;
    let mut out = std::io::stdout().lock();
    let _is_gone = writeln!(
        out,
        "payload per CPU second, both ends, {} MB a run, best of {RUNS}\n\
         ours, packets of 1500 bytes      {:8.0} MB/s\n\
         smoltcp 0.14, the same           {:8.0} MB/s   ratio {:.2} (to reach: 0.4, goal 0.8)\n\
         ours, super-packets of 64 KB     {:8.0} MB/s",
        total >> 20,
        ours / 1e6,
        theirs / 1e6,
        ours / theirs,
        whole / 1e6,
    );
}

/// CPU seconds of this process so far.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process uses something");
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
}

/// What is sent, over and over: any piece of it can be compared.
fn pattern() -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..PATTERN + PIECE).map(|at| byte(at % PATTERN)).collect()
}

/// A prime: no boundary of packets falls together with one of the pattern.
const PATTERN: usize = 65_537;

mod ours {
    use super::{BUFFER, MTU, PATTERN, PIECE, cpu, pattern};
    use datapath::host::{Host, Offloads, PortConfig, TcpRead};
    use datapath::node::{Poll, Port};
    use datapath::packet::{Frames, LinkHeader, Packet};
    use datapath::units::{Duration, Instant};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::num::NonZeroU32;

    /// Two hosts, and the wire between them.
    struct World {
        hosts: [Host; 2],
        frames: Frames,
        bytes: Vec<u8>,
        place: Packet,
        now: Instant,
    }

    const ROOM: u32 = 64;

    impl World {
        fn new(whole: bool) -> Self {
            let host = |last| {
                let mut host = Host::new();
                let port = host.add_port(PortConfig {
                    addresses: vec![(Ipv4Addr::new(10, 0, 0, last).into(), 24)],
                    link: LinkHeader::None,
                    mtu: MTU as u32,
                    offloads: Offloads { gso: true, tso: whole, gro: false },
                    ..PortConfig::default()
                });
                host.grant(Instant::ZERO, port, ROOM);
                host
            };
            let frame = if whole { 66_000 } else { 2_048 };
            let mut world = Self {
                hosts: [host(1), host(2)],
                frames: Frames::new(frame, 8_192),
                bytes: Vec::new(),
                place: Packet::default(),
                now: Instant::ZERO,
            };
            world.settle();
            world
        }

        /// Carries packets over until nobody has anything to say.
        fn settle(&mut self) {
            let mut quiet = 0;
            while quiet < 2 {
                for from in 0..2 {
                    quiet += 1;
                    loop {
                        match self.hosts[from].poll(self.now, &mut self.place) {
                            Poll::Send { port, .. } => self.carry(from, port),
                            Poll::Ready(_) => {}
                            Poll::Idle(_) => break,
                            said => panic!("host {from}: {said:?}"),
                        }
                        quiet = 0;
                    }
                }
            }
        }

        fn carry(&mut self, from: usize, port: Port) {
            self.bytes.clear();
            self.place.emit_whole(&mut self.bytes);
            let size = self.place.meta.gso_size;
            drop(self.place.take());
            self.hosts[from].credit(self.now, port);
            let frame = self.frames.copy(&self.bytes).expect("a free frame");
            let mut packet = Packet::parse_ip(&frame).expect("an IP packet");
            packet.meta.truesize = frame.bytes().len() as u32 + 256;
            if size > 0 && packet.body.len > size.into() {
                packet.meta.gso_size = size;
                packet.meta.gso_segs = packet.body.len.div_ceil(size.into()) as u16;
            }
            drop(frame);
            let _taken = self.hosts[1 - from].receive(self.now, Port(0), &mut packet);
        }
    }

    /// CPU seconds for `total` bytes.
    pub fn transfer(total: usize, whole: bool) -> f64 {
        let mut world = World::new(whole);
        let server = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut config = world.hosts[0].tcp_defaults();
        config.send_buffer = NonZeroU32::new(BUFFER as u32);
        config.receive_buffer = NonZeroU32::new(BUFFER as u32);
        let listener = world.hosts[1].tcp_listen(world.now, server, &config);
        let client = world.hosts[0].tcp_connect(world.now, any, server, &config).expect("a port");
        world.settle();
        let peer = world.hosts[1].tcp_accept(listener);
        let peer = peer.expect("a listener").expect("a connection");
        let (data, mut memory) = (pattern(), vec![0; PIECE]);
        let (mut sent, mut got) = (0, 0);
        let began = cpu();
        while got < total {
            world.now += Duration::from_micros(20);
            world.settle();
            while sent < total {
                let at = sent % PATTERN;
                let piece = &data[at..at + PIECE.min(total - sent)];
                let taken = world.hosts[0].tcp_send(world.now, client, piece).expect("it is open");
                world.settle();
                if taken == 0 {
                    break;
                }
                sent += taken as usize;
            }
            loop {
                let read = world.hosts[1].tcp_receive(world.now, peer, &mut memory);
                world.settle();
                let Ok(TcpRead::Data(len)) = read else { break };
                let (at, len) = (got % PATTERN, len as usize);
                assert!(memory[..len] == data[at..at + len], "bytes differ at {got}");
                got += len;
            }
        }
        cpu() - began
    }
}

mod theirs {
    use super::{BUFFER, MTU, PATTERN, PIECE, cpu, pattern};
    use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
    use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
    use smoltcp::socket::tcp::{Socket, SocketBuffer};
    use smoltcp::time::{Duration, Instant};
    use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// Packets on their way, and buffers to use again.
    #[derive(Default)]
    struct Wire {
        packets: VecDeque<Vec<u8>>,
        spare: Vec<Vec<u8>>,
    }

    struct End {
        incoming: Rc<RefCell<Wire>>,
        outgoing: Rc<RefCell<Wire>>,
    }

    struct Arrived(Vec<u8>, Rc<RefCell<Wire>>);
    struct Leaving(Rc<RefCell<Wire>>);

    impl Device for End {
        type RxToken<'a> = Arrived;
        type TxToken<'a> = Leaving;

        fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving)> {
            let packet = self.incoming.borrow_mut().packets.pop_front()?;
            Some((Arrived(packet, Rc::clone(&self.incoming)), Leaving(Rc::clone(&self.outgoing))))
        }

        fn transmit(&mut self, _: Instant) -> Option<Leaving> {
            Some(Leaving(Rc::clone(&self.outgoing)))
        }

        fn capabilities(&self) -> DeviceCapabilities {
            let mut capabilities = DeviceCapabilities::default();
            capabilities.medium = Medium::Ip;
            capabilities.max_transmission_unit = MTU;
            capabilities
        }
    }

    impl RxToken for Arrived {
        fn consume<R, F: FnOnce(&[u8]) -> R>(self, act: F) -> R {
            let result = act(&self.0);
            self.1.borrow_mut().spare.push(self.0);
            result
        }
    }

    impl TxToken for Leaving {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, act: F) -> R {
            let mut packet = self.0.borrow_mut().spare.pop().unwrap_or_default();
            packet.resize(len, 0);
            let result = act(&mut packet);
            self.0.borrow_mut().packets.push_back(packet);
            result
        }
    }

    /// A stack with one socket.
    struct Host {
        device: End,
        interface: Interface,
        sockets: SocketSet<'static>,
        socket: SocketHandle,
    }

    impl Host {
        fn new(last: u8, incoming: &Rc<RefCell<Wire>>, outgoing: &Rc<RefCell<Wire>>) -> Self {
            let mut device = End { incoming: Rc::clone(incoming), outgoing: Rc::clone(outgoing) };
            let mut interface =
                Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::ZERO);
            interface.update_ip_addrs(|addresses| {
                let address = IpCidr::new(IpAddress::v4(10, 0, 0, last), 24);
                addresses.push(address).expect("room for an address");
            });
            let buffer = || SocketBuffer::new(vec![0; BUFFER]);
            let mut sockets = SocketSet::new(Vec::new());
            let socket = sockets.add(Socket::new(buffer(), buffer()));
            Self { device, interface, sockets, socket }
        }

        fn socket(&mut self) -> &mut Socket<'static> {
            self.sockets.get_mut(self.socket)
        }

        fn poll(&mut self, now: Instant) {
            let _changed = self.interface.poll(now, &mut self.device, &mut self.sockets);
        }
    }

    /// CPU seconds for `total` bytes.
    pub fn transfer(total: usize) -> f64 {
        let (there, back) = (Rc::default(), Rc::default());
        let (mut client, mut server) = (Host::new(1, &back, &there), Host::new(2, &there, &back));
        server.socket().listen(80).expect("a free port");
        let cx = client.interface.context();
        let socket = client.sockets.get_mut::<Socket<'_>>(client.socket);
        socket.connect(cx, (IpAddress::v4(10, 0, 0, 2), 80), 4_000).expect("a connection");
        let (data, mut memory) = (pattern(), vec![0; PIECE]);
        let (mut sent, mut got) = (0, 0);
        let mut now = Instant::ZERO;
        let began = cpu();
        while got < total {
            now += Duration::from_micros(20);
            let socket = client.socket();
            while sent < total && socket.can_send() {
                let at = sent % PATTERN;
                let piece = &data[at..at + PIECE.min(total - sent)];
                sent += socket.send_slice(piece).expect("it is open");
            }
            client.poll(now);
            server.poll(now);
            let socket = server.socket();
            while socket.can_recv() {
                let len = socket.recv_slice(&mut memory).expect("it is open");
                let at = got % PATTERN;
                assert!(memory[..len] == data[at..at + len], "bytes differ at {got}");
                got += len;
            }
            server.poll(now);
            client.poll(now);
        }
        cpu() - began
    }
}
