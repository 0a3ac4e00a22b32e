//! Two hosts and a wire with trouble, turned by hand: over it go bytes, or packets as in the
//! simulator.
#![allow(dead_code, reason = "each test uses some of it")]

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;

use datapath::host::{Host, Offloads, PortConfig};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::{Ecn, FrameRef, Frames, LinkHeader, MacAddr, Packet};
use datapath::units::{Duration, Instant};

/// What the wire does to packets, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairments {
    pub loss: u32,
    pub duplication: u32,
    pub corruption: u32,
    pub reordering: u32,
    pub marks: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub seed: u64,
    pub trouble: Impairments,
    pub mtu: u32,
    pub offloads: Offloads,
    pub v6: bool,
    /// Packets are sent as bytes and parsed again; otherwise they are handed over.
    pub as_bytes: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 1,
            trouble: Impairments::default(),
            mtu: 1_500,
            offloads: Offloads { gso: true, tso: false, gro: false },
            v6: false,
            as_bytes: true,
        }
    }
}

enum OnTheWire {
    Bytes(FrameRef),
    Packet(Packet),
}

pub struct Net {
    pub now: Instant,
    pub hosts: [Host; 2],
    /// Frames of the receiving devices.
    pub devices: Frames,
    /// Everything that was sent, as headers and lengths: the same for runs that are the same.
    pub digest: u64,
    pub packets: u64,
    setting: Setting,
    wire: VecDeque<(Instant, usize, OnTheWire)>,
    wakes: [Instant; 2],
    random: u64,
    bytes: Vec<u8>,
    place: Packet,
}

const DELAY: Duration = Duration::from_millis(5);

impl Net {
    pub fn new(setting: Setting) -> Self {
        let hosts = [0, 1].map(|index| {
            let mut host = Host::new();
            let port = host.add_port(PortConfig {
                mtu: setting.mtu,
                addresses: vec![
                    (Ipv4Addr::new(10, 0, 0, 1 + index).into(), 24),
                    (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + u16::from(index)).into(), 64),
                ],
                link: LinkHeader::Ethernet {
                    dst: MacAddr([2 - index; 6]),
                    src: MacAddr([index; 6]),
                },
                offloads: setting.offloads,
                ..PortConfig::default()
            });
            host.grant(Instant::ZERO, port, 1_000);
            host
        });
        let mut net = Self {
            now: Instant::ZERO,
            hosts,
            devices: Frames::new(2_048, 100_000),
            digest: 0,
            packets: 0,
            setting,
            wire: VecDeque::new(),
            wakes: [Instant::FAR_FUTURE; 2],
            random: setting.seed | 1,
            bytes: Vec::new(),
            place: Packet::default(),
        };
        net.turn(0);
        net.turn(1);
        net
    }

    /// An address of host `index`.
    pub fn address(&self, index: usize, port: u16) -> SocketAddr {
        let last = 1 + index as u8;
        if self.setting.v6 {
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()), port).into()
        } else {
            (Ipv4Addr::new(10, 0, 0, last), port).into()
        }
    }

    /// A number below `limit` (xorshift64*).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1_000) < u64::from(per_mille)
    }

    /// Lets a host say what it has to say.
    pub fn turn(&mut self, index: usize) {
        loop {
            let mut place = core::mem::take(&mut self.place);
            let said = self.hosts[index].poll(self.now, &mut place);
            match said {
                Poll::Send { port, .. } => {
                    let packet = place.take();
                    self.place = place;
                    self.send(index, packet);
                    self.hosts[index].credit(self.now, port);
                    continue;
                }
                Poll::Idle(at) => self.wakes[index] = at,
                Poll::Drop(_) => drop(place.take()),
                Poll::Ready(_) | Poll::Event(_) => {}
            }
            self.place = place;
            if let Poll::Idle(_) = said {
                return;
            }
        }
    }

    fn note(&mut self, packet: &Packet) {
        let what = format!("{:?} {:?} {:?}", packet.network, packet.transport, packet.meta);
        for byte in what.bytes().chain(self.now.as_nanos().to_be_bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn send(&mut self, from: usize, mut packet: Packet) {
        self.packets += 1;
        if !self.setting.as_bytes {
            self.note(&packet);
        }
        let Impairments { loss, duplication, corruption, reordering, marks } = self.setting.trouble;
        if self.happens(loss) {
            return;
        }
        if self.happens(marks) && packet.network.ecn() != Ecn::NotEct {
            packet.mark_ce();
        }
        let damaged = self.happens(corruption);
        let times = 1 + u32::from(self.happens(duplication));
        for _ in 0..times {
            let late = if self.happens(reordering) { self.below(20_000_000) } else { 0 };
            let at = self.now + DELAY + Duration::from_nanos(late);
            if !self.setting.as_bytes {
                let mut packet = packet.clone();
                if damaged {
                    packet.damage();
                }
                self.put(at, 1 - from, OnTheWire::Packet(packet));
                continue;
            }
            // As a device with segmentation offload does.
            for index in 0..packet.segment_count() {
                let segment = packet.segment().nth(index as usize).expect("a segment");
                self.bytes.clear();
                segment.emit_whole(&mut self.bytes);
                if damaged {
                    let headers = 14 + segment.network.len() as usize;
                    let at = headers as u64 + self.below((self.bytes.len() - headers) as u64);
                    self.bytes[at as usize] ^= 1 << (at & 7);
                }
                let frame = self.devices.copy(&self.bytes).expect("a device has frames");
                self.put(at, 1 - from, OnTheWire::Bytes(frame));
            }
        }
    }

    fn put(&mut self, at: Instant, to: usize, what: OnTheWire) {
        let mut place = self.wire.len();
        while place > 0 && self.wire[place - 1].0 > at {
            place -= 1;
        }
        self.wire.insert(place, (at, to, what));
    }

    /// The next thing that happens by itself; false if nothing will before `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let arrives = self.wire.front().map_or(Instant::FAR_FUTURE, |first| first.0);
        let next = arrives.min(self.wakes[0]).min(self.wakes[1]);
        if next > limit {
            return false;
        }
        self.now = self.now.max(next);
        if arrives <= self.now {
            let (_, to, what) = self.wire.pop_front().expect("it is the next");
            let mut packet = match what {
                OnTheWire::Packet(packet) => packet,
                OnTheWire::Bytes(frame) => Packet::parse_ethernet(&frame).expect("a frame"),
            };
            packet.meta.truesize = 0;
            let rx = self.hosts[to].receive(self.now, Port(0), &mut packet);
            assert_eq!(rx, Rx::Taken, "no routers here");
            assert!(packet.body.frame.is_none(), "what was taken is not held by its place");
            self.turn(to);
            return true;
        }
        for index in 0..2 {
            if self.wakes[index] <= self.now {
                self.turn(index);
            }
        }
        true
    }

    /// Nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.wire.is_empty()
    }
}
