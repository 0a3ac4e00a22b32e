//! How a world is drawn: small ones are as likely as large ones, and many lack some kinds of impairments, so that the
//! others have time to show their effects.

mod flows;

use datapath::profile::Profile;

use super::build::DETOURS;
use super::plan::{
    Case, Change, ChangeKind, Direction, Impairments, Node, Offload, UnobservedRun, Wire,
};
use super::words;
use crate::draw::Draw;
use crate::qdisc::words as tc;

/// How large a world may become.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// When it is healed at the latest, µs.
    pub heal_us: u64,
    /// Flows.
    pub flows: u64,
    /// Packets' worth of bytes of a flow, and of one of the few that are long.
    pub packets: [u64; 2],
}

impl Size {
    /// A world for which there is time when seeds are counted in thousands.
    pub const ANY: Self = Self { heal_us: 40_000_000, flows: 20, packets: [2_000, 12_000] };
    /// A world for which there is time when they are counted in millions.
    pub const SMALL: Self = Self { heal_us: 4_000_000, flows: 4, packets: [30, 120] };
}

/// Which kinds of impairment a world has, and the bounds of its sizes.
struct WorldTraits {
    size: Size,
    /// Links lose, damage, double and delay.
    troubled: bool,
    /// Queues are other than a plain one.
    queues: bool,
    /// Things change while it runs.
    changing: bool,
    /// Applications have bad manners.
    rude: bool,
    /// Kernels are set up otherwise.
    tuned: bool,
    ipv6: bool,
    heal_us: u64,
    /// The smallest MTU that a wire may have.
    least_mtu: u64,
}

/// Any world of that size.
pub fn case(draw: &mut Draw, size: Size) -> Case {
    let mood = mood(draw, size);
    let mut nodes = nodes(draw, &mood);
    let mut wires = wires(draw, &mood, &nodes);
    let flows = flows::flows(draw, &mood, &nodes, &wires);
    let changes = changes(draw, &mood, &nodes, &wires);
    let late_us = if draw.percent(12) { draw.log_range(1..=50_000) } else { 0 };
    for node in &mut nodes {
        node.slow = late_us > 0 && draw.percent(50);
    }
    let stops = draw.log_range(0..=8);
    let mut stops_us: Vec<u64> = (0..stops).map(|_| draw.range(1..=mood.heal_us)).collect();
    stops_us.sort_unstable();
    let seed = draw.bits() >> 1;
    let second = *draw.weighted(&[
        (3, UnobservedRun::Finest),
        (1, UnobservedRun::WhenUseful),
        (1, UnobservedRun::OneByOne),
    ]);
    if mood.changing && draw.percent(30) {
        schedules(draw, &mood, &mut wires);
    }
    Case { seed, heal_us: mood.heal_us, second, late_us, stops_us, nodes, wires, flows, changes }
}

fn mood(draw: &mut Draw, size: Size) -> WorldTraits {
    let heal_us = draw.log_range(100_000..=size.heal_us);
    let ipv6 = draw.percent(30);
    let small_mtus = draw.percent(25);
    WorldTraits {
        size,
        troubled: draw.percent(60),
        queues: draw.percent(60),
        changing: draw.percent(55),
        rude: draw.percent(60),
        tuned: draw.percent(60),
        ipv6,
        heal_us,
        least_mtu: match (small_mtus, ipv6) {
            (true, false) => *draw.one_of(&[68, 128, 296, 552, 576, 1_000]),
            _ => 1_280,
        },
    }
}

/// Routers first, then hosts.
fn nodes(draw: &mut Draw, mood: &WorldTraits) -> Vec<Node> {
    let routers = *draw.weighted(&[(3, 0), (4, 1), (3, 2), (2, 3)]);
    let hosts = if routers == 0 { 2 } else { draw.log_range(2..=8) };
    let profiles = if draw.percent(70) {
        vec![*draw.one_of(&Profile::NAMES)]
    } else {
        Profile::NAMES.to_vec()
    };
    let node = |draw: &mut Draw, router: bool| {
        let count = if mood.tuned { draw.log_range(0..=8) } else { 0 };
        Node {
            router,
            profile: (*draw.one_of(&profiles)).to_owned(),
            offload: *draw.weighted(&[
                (4, Offload::Off),
                (3, Offload::Gso),
                (2, Offload::Tso),
                (2, Offload::Nic),
            ]),
            gro: draw.percent(25),
            rx_usecs: if draw.percent(15) { draw.log_range(1..=2_000) as u32 } else { 0 },
            slow: false,
            buffer: draw.maybe(if router && mood.queues { 20 } else { 0 }, |draw| {
                let alpha = *draw.one_of(&[[1, 1], [1, 4], [8, 1], [1, 16]]);
                [draw.log_range(2_000..=1_000_000) as u32, alpha[0], alpha[1]]
            }),
            policy: if mood.tuned { draw.range(0..=3) as u8 } else { 0 },
            algorithm: if mood.tuned && draw.percent(50) { draw.range(1..=5) as u8 } else { 0 },
            sysctls: (0..count).map(|_| words::sysctl(draw)).collect(),
        }
    };
    (0..routers + hosts).map(|index| node(draw, index < routers)).collect()
}

/// Routers in a chain, several wires between some; each host at a router, a few at two.
fn wires(draw: &mut Draw, mood: &WorldTraits, nodes: &[Node]) -> Vec<Wire> {
    let routers = nodes.iter().filter(|node| node.router).count();
    let mut wires = Vec::new();
    if routers == 0 {
        wires.push(wire(draw, mood, [0, 1]));
        return wires;
    }
    for router in 1..routers {
        for _ in 0..draw.log_range(1..=3) {
            wires.push(wire(draw, mood, [router - 1, router]));
        }
    }
    if routers == 3 && draw.percent(40) {
        wires.push(wire(draw, mood, [2, 0]));
    }
    for host in routers..nodes.len() {
        let at = draw.range(0..=routers as u64 - 1) as usize;
        let ends = if draw.percent(50) { [host, at] } else { [at, host] };
        wires.push(wire(draw, mood, ends));
        if draw.percent(10) {
            let at = draw.range(0..=routers as u64 - 1) as usize;
            wires.push(wire(draw, mood, [host, at]));
        }
    }
    // What fits one of them does not fit the next by a byte or two.
    if draw.percent(20) {
        let mtu = wires[0].mtu;
        for wire in &mut wires[1..] {
            let near = mtu.saturating_add(draw.range(0..=4) as u32).saturating_sub(2);
            wire.mtu = near.clamp(mood.least_mtu as u32, LARGEST_MTU);
        }
    }
    wires
}

/// No packet is larger.
const LARGEST_MTU: u32 = 65_535;

fn wire(draw: &mut Draw, mood: &WorldTraits, ends: [usize; 2]) -> Wire {
    let mtu = match draw.range(0..=9) {
        0..=5 => 1_500,
        6 => *draw.one_of(&[1_280, 1_400, 1_492, 2_000, 9_000, 65_535]),
        _ => draw.range(mood.least_mtu..=9_000),
    };
    let there = direction(draw, mood);
    // Many wires are the same in both directions; equal kinds of links share their lanes.
    let back = if draw.percent(50) {
        Direction {
            tc: Vec::new(),
            police: None,
            impairments: Impairments::default(),
            ..there.clone()
        }
    } else {
        direction(draw, mood)
    };
    Wire { ends, mtu: mtu.max(mood.least_mtu) as u32, veth: draw.percent(15), there, back }
}

fn direction(draw: &mut Draw, mood: &WorldTraits) -> Direction {
    let kbit = match draw.range(0..=9) {
        0..=2 => 0,
        3..=5 => *draw.one_of(&[1_000, 10_000, 100_000, 1_000_000]),
        _ => draw.log_range(64..=1_000_000),
    };
    let delay_us = match draw.range(0..=9) {
        0 => 0,
        1..=3 => *draw.one_of(&[22, 100, 1_000, 10_000]),
        _ => draw.log_range(1..=200_000),
    };
    Direction {
        kbit,
        delay_us,
        steps: Vec::new(),
        period_us: 0,
        ring: draw.log_range(1..=64) as u32,
        impairments: if mood.troubled && draw.percent(45) {
            impairments(draw, mood)
        } else {
            Impairments::default()
        },
        tc: if mood.queues && draw.percent(45) { tc::build(draw) } else { Vec::new() },
        police: draw.maybe(if mood.queues { 10 } else { 0 }, tc::police),
        healed: words::sane(draw),
    }
}

/// Some links change their rate and delay by steps, some of them again and again.
fn schedules(draw: &mut Draw, mood: &WorldTraits, wires: &mut [Wire]) {
    for wire in wires {
        for direction in [&mut wire.there, &mut wire.back] {
            if draw.percent(50) {
                continue;
            }
            let mut at_us = 0;
            for _ in 0..draw.log_range(1..=20) {
                let kbit = draw.log_range(1_000..=1_000_000);
                let delay_us = draw.log_range(0..=100_000);
                direction.steps.push([at_us, kbit, delay_us]);
                at_us += draw.log_range(1..=mood.heal_us);
            }
            direction.period_us = if draw.percent(50) { at_us } else { 0 };
        }
    }
}

fn impairments(draw: &mut Draw, mood: &WorldTraits) -> Impairments {
    let mut parts = |chance: u64, most: u64| {
        if draw.percent(chance) { draw.log_range(1..=most) } else { 0 }
    };
    let loss = parts(50, 300);
    let corruption = parts(20, 200);
    let duplication = parts(30, 300);
    let reordering = parts(30, 300);
    let jitter_us = parts(40, 100_000);
    let reorder_us = if reordering > 0 { parts(100, 200_000) } else { 0 };
    let jitter_reorders = jitter_us > 0 && draw.percent(50);
    let count = if draw.percent(35) { draw.range(1..=3) } else { 0 };
    let rules = (0..count).map(|_| rule(draw, mood)).collect();
    Impairments {
        loss,
        corruption,
        duplication,
        reordering,
        reorder_us,
        jitter_us,
        jitter_reorders,
        rules,
    }
}

fn rule(draw: &mut Draw, mood: &WorldTraits) -> String {
    let k = draw.log_range(1..=50);
    let n = draw.log_range(1..=40);
    let from = draw.range(0..=mood.heal_us) * 1_000;
    let matches = match draw.range(0..=6) {
        0 => format!("data {k}"),
        1 => format!("every {} {k}", n + 1),
        2 => format!("off {} {}", draw.log_range(0..=100_000), draw.range(1..=4)),
        3 => format!("ack {k}"),
        4 => format!("ackevery {} {k}", n + 1),
        5 => format!("syn {}", draw.range(1..=5)),
        _ => format!("time {from} {}", from + draw.log_range(1..=5_000_000_000)),
    };
    let nanos = draw.log_range(1..=500_000_000);
    let action = match draw.range(0..=5) {
        0..=1 => "drop".to_owned(),
        2 => format!("delay {nanos}"),
        3 => format!("dup {nanos}"),
        4 if matches.starts_with("time") => "hold".to_owned(),
        _ => "ce".to_owned(),
    };
    format!("f {matches} {action}")
}

fn changes(draw: &mut Draw, mood: &WorldTraits, nodes: &[Node], wires: &[Wire]) -> Vec<Change> {
    if !mood.changing {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for _ in 0..draw.log_range(1..=20) {
        let at_us = draw.range(0..=mood.heal_us);
        change(draw, mood, nodes, wires, at_us, &mut changes);
    }
    changes.retain(|change| change.at_us < mood.heal_us);
    changes.sort_by_key(|change| change.at_us);
    changes
}

fn change(
    draw: &mut Draw,
    mood: &WorldTraits,
    nodes: &[Node],
    wires: &[Wire],
    at_us: u64,
    changes: &mut Vec<Change>,
) {
    let wire = draw.range(0..=wires.len() as u64 - 1) as usize;
    let node = draw.range(0..=nodes.len() as u64 - 1) as usize;
    let end = draw.range(0..=2) as usize;
    let span = draw.log_range(1..=mood.heal_us);
    match draw.range(0..=9) {
        0..=2 => {
            changes.push(Change { at_us, what: ChangeKind::Link { wire, end, up: false } });
            changes.push(Change {
                at_us: at_us + span,
                what: ChangeKind::Link { wire, end, up: true },
            });
        }
        3 => {
            let kbit = if draw.percent(10) { 0 } else { draw.log_range(64..=1_000_000) };
            changes.push(Change { at_us, what: ChangeKind::Rate { wire, end: end % 2, kbit } });
        }
        4 => {
            let mtu = *draw.one_of(&[mood.least_mtu, 1_280, 1_400, 1_500, 9_000]);
            let mtu = mtu.max(mood.least_mtu) as u32;
            changes.push(Change { at_us, what: ChangeKind::Mtu { wire, end, mtu } });
        }
        5..=6 if mood.queues => {
            let end = end % 2;
            let direction = if end == 0 { &wires[wire].there } else { &wires[wire].back };
            let words = tc::any_command(&direction.tc, draw);
            changes.push(Change { at_us, what: ChangeKind::Tc { wire, end, words } });
        }
        5..=7 if mood.tuned => {
            let words = words::sysctl(draw);
            changes.push(Change { at_us, what: ChangeKind::Sysctl { node, words } });
        }
        8 => {
            let hosts: Vec<usize> = (0..nodes.len()).filter(|node| !nodes[*node].router).collect();
            let to = *draw.one_of(&hosts);
            let kind = match draw.range(0..=5) {
                0 => "blackhole".to_owned(),
                1 => "unreachable".to_owned(),
                2 => "prohibit".to_owned(),
                // In a circle with a link that copies, one packet becomes 2 to the power of its TTL.
                _ if wires.iter().any(copies) => "unreachable".to_owned(),
                _ => format!("lookup {}", DETOURS + draw.range(0..=4) as u32),
            };
            let rule = |begins| ChangeKind::Rule { node, to, kind: kind.clone(), begins };
            changes.push(Change { at_us, what: rule(true) });
            changes.push(Change { at_us: at_us + span, what: rule(false) });
        }
        _ => changes.push(Change { at_us, what: ChangeKind::FlushMetrics { node } }),
    }
}

/// Whether packets may come out of a wire twice.
fn copies(wire: &Wire) -> bool {
    [&wire.there, &wire.back].into_iter().any(|direction| {
        direction.impairments.copies()
            || direction.tc.iter().any(|words| words.contains("duplicate"))
    })
}
