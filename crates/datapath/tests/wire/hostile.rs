//! A host whose sockets carry bytes, and a wire that may say anything.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use datapath::host::{Host, Offloads, PortConfig, SocketId, TcpRead};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Frame, FrameWatch, Frames, Ipv4, LinkHeader, Network, Packet, Tcp, TcpFlags, TcpOptions,
    Transport,
};
use datapath::units::{Duration, Instant};

/// The host's address, and its peer's.
const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PEERS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: Port = Port(0);
/// The ports of the listener, the datagram socket and the peer.
const TCP: u16 = 80;
const UDP: u16 = 53;
const PEER_PORT: u16 = 4_000;
/// So long nothing comes at the end, that everything has been given up.
const SILENCE: Duration = Duration::from_secs(4_000);
/// What the host writes on its connection.
const GREETING: &[u8] = b"what is written while strangers talk";

/// The host, what is on the wire to it, and what it has sent.
struct Wire {
    host: Host,
    now: Instant,
    device: Frames,
    /// Frames that have come and gone.
    watched: Vec<FrameWatch>,
    /// The last number that the host has sent from its connection, and its last acknowledgment.
    next: (Seq, Seq),
    sockets: Vec<SocketId>,
}

/// Hands in what `bytes` say: each piece is an order, a time to wait, a length, and so many bytes. Whatever they are,
/// the host survives, keeps its books, and holds no frame once all is over.
pub fn check_host(bytes: &[u8]) {
    let gro = bytes.first().is_some_and(|byte| byte & 1 != 0);
    let mut wire = Wire::new(gro);
    wire.shake_hands();
    let mut rest = bytes.get(1..).unwrap_or_default();
    while let [order, wait, len, more @ ..] = rest {
        let (piece, behind) = more.split_at(usize::from(*len).min(more.len()));
        rest = behind;
        wire.go_on(Duration::from_micros(u64::from(*wait).pow(3)));
        wire.obey(*order, piece);
        wire.turn();
    }
    wire.end();
}

/// A segment of the peer's.
fn segment(flags: TcpFlags, seq: Seq, ack: Seq) -> Tcp {
    let options = TcpOptions::default();
    let (src_port, dst_port) = (PEER_PORT, TCP);
    Tcp { src_port, dst_port, seq, ack, flags, window: 65_535, urgent: 0, options }
}

impl Wire {
    fn new(gro: bool) -> Self {
        let mut host = Host::new();
        host.add_port(PortConfig {
            addresses: vec![(OURS, 24)],
            link: LinkHeader::None,
            offloads: Offloads { gso: true, tso: true, gro },
            ..PortConfig::default()
        });
        host.grant(Instant::ZERO, PORT, 1_000);
        let now = Instant::ZERO + Duration::from_secs(1);
        let config = host.tcp_defaults();
        let listener = host.tcp_listen(now, (OURS, TCP).into(), &config);
        let datagrams = host.udp_bind(now, (OURS, UDP).into()).expect("the port is free");
        let sockets = vec![listener, datagrams];
        let next = (Seq(0), Seq(0));
        Self { host, now, device: Frames::new(2_048, 4_096), watched: Vec::new(), next, sockets }
    }

    /// The peer connects.
    fn shake_hands(&mut self) {
        let at_once = Duration::from_millis(1);
        self.say(segment(TcpFlags::SYN, Seq(1_000), Seq(0)), b"");
        self.go_on(at_once);
        self.say(segment(TcpFlags::ACK, Seq(1_001), self.next.0), b"");
        self.go_on(at_once);
        let accepted = self.host.tcp_accept(self.sockets[0]).expect("it listens");
        self.sockets.push(accepted.expect("the peer has connected"));
    }

    /// A piece of what comes: bytes as they are, or what makes it further into the host.
    fn obey(&mut self, order: u8, piece: &[u8]) {
        match order % 8 {
            // Anything at all, by Ethernet or without.
            0 => self.bytes_come(piece, true),
            1 => self.bytes_come(piece, false),
            // The payload of a packet between the two hosts, of any protocol, whole or a fragment.
            2 | 3 => self.packet_comes(piece),
            // A segment of the connection with flags and numbers near the right ones, right checksums.
            4..=6 => self.segment_comes(order, piece),
            _ => self.call(piece),
        }
    }

    fn bytes_come(&mut self, bytes: &[u8], ethernet: bool) {
        let Some(frame) = self.device.copy(bytes) else { return };
        self.watched.push(frame.watch());
        let frame = Frame::lying_in(&frame, 0);
        let parsed = if ethernet { Packet::parse_ethernet(frame) } else { Packet::parse_ip(frame) };
        if let Ok(mut packet) = parsed {
            let rx = self.host.receive(self.now, PORT, &mut packet);
            assert_eq!(rx, Rx::Taken, "a host passes nothing on");
        }
    }

    fn packet_comes(&mut self, piece: &[u8]) {
        let [protocol, high, low, payload @ ..] = piece else { return };
        let offset = u16::from_be_bytes([*high, *low]);
        let len = 20 + payload.len() as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend(len.to_be_bytes());
        bytes.extend([0, 7]);
        bytes.extend((offset & 0x20ff).to_be_bytes());
        let protocol = [6, 17, 1, 4, 47, *protocol][usize::from(protocol % 6)];
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        let sum: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(payload);
        self.bytes_come(&bytes, false);
    }

    fn segment_comes(&mut self, order: u8, piece: &[u8]) {
        let [flags, seq, ack, window, payload @ ..] = piece else { return };
        let near = |base: Seq, by: u8| match by {
            0..=100 => base,
            101..=180 => base + u32::from(by - 100),
            _ => Seq(base.0.wrapping_sub(u32::from(by - 180))),
        };
        let flags = TcpFlags(u16::from(*flags) | if order == 4 { 0x10 } else { 0 });
        let tcp = segment(flags, near(self.next.1, *seq), near(self.next.0, *ack));
        let window = u16::from(*window) << 8;
        self.say(Tcp { window, urgent: u16::from(order / 8), ..tcp }, payload);
    }

    /// A segment of the peer's comes, with right checksums.
    fn say(&mut self, tcp: Tcp, payload: &[u8]) {
        let transport = Transport::Tcp(tcp);
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (PEERS, OURS) else { unreachable!("IPv4") };
        let ip = Ipv4::new(src, dst, 6);
        let body = match self.device.copy(payload) {
            Some(frame) => Body::of_frame(frame),
            None => return,
        };
        let packet =
            Packet { network: Network::Ipv4(ip), transport, body, ..Packet::default() }.finish();
        let mut bytes = Vec::new();
        packet.emit_whole(&mut bytes);
        self.bytes_come(&bytes, false);
    }

    /// The program does something.
    fn call(&mut self, piece: &[u8]) {
        let (what, len) = (piece.first().copied().unwrap_or(0), piece.len());
        let connection = self.sockets[2];
        match what % 6 {
            0 => {
                let _ = self.host.tcp_send(self.now, connection, GREETING);
            }
            1 => self.read(len),
            2 => {
                let _ = self.host.tcp_shutdown(self.now, connection);
            }
            3 => {
                let to = SocketAddr::new(PEERS, PEER_PORT);
                let _ = self.host.udp_send_bytes(self.now, self.sockets[1], to, piece);
            }
            4 => while let Ok(Some(_)) = self.host.datagram_read(self.sockets[1]) {},
            _ => {
                while let Ok(Some(other)) = self.host.tcp_accept(self.sockets[0]) {
                    self.sockets.push(other);
                }
            }
        }
    }

    /// Reads from all connections, so many bytes at a time.
    fn read(&mut self, len: usize) {
        let mut memory = vec![0; len.max(1)];
        for socket in &self.sockets[2..] {
            while let Ok(TcpRead::Data(read)) =
                self.host.tcp_receive(self.now, *socket, &mut memory)
            {
                assert!(read as usize <= memory.len(), "more than there is room for");
            }
        }
    }

    /// Everything that is to happen at this time happens.
    fn turn(&mut self) -> Instant {
        let mut place = Packet::default();
        loop {
            match self.host.poll(self.now, &mut place) {
                Poll::Send { port, .. } => {
                    self.host.credit(self.now, port);
                    let mut bytes = Vec::new();
                    place.emit_whole(&mut bytes);
                    if let Transport::Tcp(tcp) = &place.transport
                        && (tcp.src_port, tcp.dst_port) == (TCP, PEER_PORT)
                    {
                        let syn = u32::from(tcp.flags.contains(TcpFlags::SYN));
                        self.next = (tcp.seq + (syn + place.body.len), tcp.ack);
                    }
                    drop(place.take());
                }
                Poll::Drop(_) => drop(place.take()),
                Poll::Idle(next) => return next,
                Poll::Ready(_) | Poll::Event(_) => {}
            }
        }
    }

    /// Time goes on, and what is to happen meanwhile happens.
    fn go_on(&mut self, by: Duration) {
        let end = self.now + by;
        loop {
            let next = self.turn();
            if next > end {
                break;
            }
            assert!(next > self.now, "time stands still");
            self.now = next;
        }
        self.now = end;
        self.turn();
    }

    /// All is closed, and nobody says anything any more.
    fn end(mut self) {
        for socket in self.sockets.clone() {
            let _ = self.host.tcp_close(self.now, socket);
            let _ = self.host.datagram_close(socket);
        }
        self.go_on(SILENCE);
        assert_eq!(self.host.tcp_connections().count(), 0, "a connection is left");
        assert_eq!(self.device.held(), 0, "frames of the wire are held");
        assert_eq!(self.host.frames().1, 0, "frames of the host are held");
        let kept = self.watched.iter().filter(|frame| frame.holders() > 1).count();
        assert_eq!(kept, 0, "somebody else than the pool holds a frame");
    }
}
