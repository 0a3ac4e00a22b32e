//! What may happen around a router.

use serde::{Deserialize, Serialize};

use super::Wire;
use crate::draw::Draw;

/// A machine at the far end of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// It answers questions for its addresses.
    pub answers: bool,
    /// So late, µs.
    pub after_us: u64,
}

/// Whom a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// The router's own hardware address.
    Ours,
    /// That of another machine, which the device receives as well.
    Others,
    /// Everybody's.
    Everybodys,
}

/// What happens. Interfaces and machines count from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Time goes on.
    Wait {
        /// By so many µs.
        us: u64,
    },
    /// A datagram comes in that is to go on.
    Packet {
        /// The interface and the machine that it comes from.
        from: [u8; 2],
        /// The interface and the machine that it is for.
        to: [u8; 2],
        /// It is for an address behind the first machine there.
        behind: bool,
        /// Over IPv6.
        ipv6: bool,
        /// Payload, bytes.
        size: u16,
        /// Time to live, or hop limit.
        ttl: u8,
        /// It must not be cut (IPv4).
        whole: bool,
        /// The frame is for.
        whose: Target,
        /// VLAN tags, outermost first (TCI: priority and VLAN, of which 0 is none).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<u16>,
    },
    /// A machine begins to answer, or ceases to.
    Answers {
        /// The interface and the machine.
        who: [u8; 2],
        /// It answers.
        on: bool,
    },
    /// A machine gets another hardware address, and says so to all.
    Moves {
        /// The interface and the machine.
        who: [u8; 2],
        /// By neighbour discovery, else by ARP.
        ipv6: bool,
    },
    /// A machine asks for the router's address.
    Asks {
        /// The interface and the machine.
        who: [u8; 2],
        /// By neighbour discovery, else by ARP.
        ipv6: bool,
    },
    /// A machine claims the address of another in an unsolicited answer.
    Lies {
        /// The interface and the machine.
        who: [u8; 2],
        /// Whose address.
        claims: u8,
    },
    /// A frame of any kind comes.
    Rubbish {
        /// The interface.
        port: u8,
        /// All of it behind the two hardware addresses.
        bytes: Vec<u8>,
    },
    /// The carrier comes or goes.
    Link {
        /// The interface.
        port: u8,
        /// It comes.
        up: bool,
    },
    /// The device has no room, or has room again.
    Room {
        /// The interface.
        port: u8,
        /// It has.
        there: bool,
    },
    /// A setting of the neighbour layer, of both families.
    Set {
        /// Its name behind `net.ipv4.neigh.default.`.
        name: String,
        /// Its value.
        value: u32,
    },
}

/// VLAN tags of a frame.
const TAGS: [&[u16]; 5] = [&[], &[0xa000], &[0, 0], &[7], &[0, 7]];

/// Settings and values that may be drawn.
const SETTINGS: [(&str, &[u32]); 12] = [
    ("unres_qlen_bytes", &[0, 2_000, 20_000]),
    ("mcast_solicit", &[1, 3, 5]),
    ("ucast_solicit", &[0, 1, 3]),
    ("delay_first_probe_time", &[1, 5]),
    ("base_reachable_time_ms", &[2_000, 30_000]),
    ("gc_stale_time", &[10, 60]),
    ("mcast_resolicit", &[0, 2]),
    ("retrans_time_ms", &[1_000, 3_000]),
    ("locktime", &[0, 100, 500]),
    ("gc_thresh1", &[0, 1, 128]),
    ("gc_thresh2", &[0, 2, 512]),
    ("gc_thresh3", &[0, 1, 4, 1_024]),
];

impl Machine {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let answers = draw.percent(75);
        Self { answers, after_us: draw.log_range(1..=3_000_000) }
    }
}

/// An interface, and a machine there.
fn somebody(ports: &[Wire], draw: &mut Draw) -> [u8; 2] {
    let port = draw.range(0..=ports.len() as u64 - 1) as usize;
    let machine = draw.range(0..=ports[port].machines.len() as u64 - 1);
    [port as u8, machine as u8]
}

impl Step {
    pub(super) fn draw(ports: &[Wire], draw: &mut Draw) -> Self {
        let port = |draw: &mut Draw| somebody(ports, draw)[0];
        match *draw.weighted(&[
            (40, 0),
            (20, 1),
            (4, 2),
            (4, 3),
            (6, 4),
            (3, 5),
            (4, 6),
            (3, 7),
            (4, 8),
            (2, 9),
        ]) {
            0 => Self::Packet {
                from: somebody(ports, draw),
                to: somebody(ports, draw),
                behind: draw.percent(20),
                ipv6: draw.percent(40),
                size: draw.log_range(8..=4_000) as u16,
                ttl: *draw.weighted(&[(20, 64), (2, 2), (1, 1), (1, 0)]),
                whole: draw.percent(30),
                whose: *draw.weighted(&[
                    (20, Target::Ours),
                    (1, Target::Others),
                    (1, Target::Everybodys),
                ]),
                tags: TAGS[*draw.weighted(&[(40, 0), (2, 1), (1, 2), (1, 3), (1, 4)])].to_vec(),
            },
            1 => Self::Wait { us: draw.log_range(1..=60_000_000) },
            2 => Self::Answers { who: somebody(ports, draw), on: draw.percent(50) },
            3 => Self::Moves { who: somebody(ports, draw), ipv6: draw.percent(40) },
            4 => Self::Asks { who: somebody(ports, draw), ipv6: draw.percent(40) },
            5 => Self::Lies { who: somebody(ports, draw), claims: draw.range(0..=3) as u8 },
            6 => Self::Rubbish { port: port(draw), bytes: rubbish(draw) },
            7 => Self::Link { port: port(draw), up: draw.percent(50) },
            8 => Self::Room { port: port(draw), there: draw.percent(50) },
            _ => {
                let (name, values) = *draw.one_of(&SETTINGS);
                Self::Set { name: name.to_owned(), value: *draw.one_of(values) }
            }
        }
    }

    /// The same in plainer words.
    pub(super) fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Packet { size, ttl, whole, behind, tags, .. } => {
                let mut plainer = Vec::new();
                let mut with = |change: &dyn Fn(&mut Self)| {
                    let mut step = self.clone();
                    change(&mut step);
                    if step != *self {
                        plainer.push(step);
                    }
                };
                if *size > 100 {
                    with(&|step| set_size(step, 100));
                }
                if *ttl > 1 && *ttl != 64 {
                    with(&|step| {
                        if let Self::Packet { ttl, .. } = step {
                            *ttl = 64;
                        }
                    });
                }
                if !tags.is_empty() {
                    with(&|step| {
                        if let Self::Packet { tags, .. } = step {
                            tags.clear();
                        }
                    });
                }
                if *whole || *behind {
                    with(&|step| {
                        if let Self::Packet { whole, behind, .. } = step {
                            (*whole, *behind) = (false, false);
                        }
                    });
                }
                plainer
            }
            Self::Wait { us } if *us > 1 => vec![Self::Wait { us: us / 2 }],
            Self::Rubbish { port, bytes } if bytes.len() > 2 => {
                vec![Self::Rubbish { port: *port, bytes: bytes[..bytes.len() / 2].to_vec() }]
            }
            _ => Vec::new(),
        }
    }
}

fn set_size(step: &mut Step, to: u16) {
    if let Step::Packet { size, .. } = step {
        *size = to;
    }
}

/// Bytes behind the hardware addresses: mostly with a kind that somebody reads.
fn rubbish(draw: &mut Draw) -> Vec<u8> {
    let kind: [u8; 2] = *draw.one_of(&[
        [8, 6],
        [8, 0],
        [0x86, 0xdd],
        [0x81, 0],
        [0x88, 0xa8],
        [0, 40],
        [0x88, 0x47],
    ]);
    let len = draw.log_range(0..=200);
    let begin: u8 = *draw.one_of(&[0x45, 0x60, 0, 0x4f]);
    let rest = (0..len).map(|_| draw.range(0..=255) as u8).collect::<Vec<_>>();
    [&kind[..], &[begin], &rest].concat()
}
