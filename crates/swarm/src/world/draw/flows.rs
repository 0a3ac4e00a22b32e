//! Which hosts exchange data, and how.

use super::WorldTraits;
use crate::draw::Draw;
use crate::world::plan::{App, CloseMode, EndBehaviour, Flow, Node, Options, ReadMode, Wire};

pub(super) fn flows(
    draw: &mut Draw,
    mood: &WorldTraits,
    nodes: &[Node],
    wires: &[Wire],
) -> Vec<Flow> {
    let hosts: Vec<usize> = (0..nodes.len()).filter(|node| !nodes[*node].router).collect();
    let mtus: Vec<u32> = wires.iter().map(|wire| wire.mtu).collect();
    let mtu = mtus.iter().copied().min().unwrap_or(1_500).min(1_500);
    let count = draw.log_range(1..=mood.size.flows);
    let one = |draw: &mut Draw| {
        let from = *draw.one_of(&hosts);
        let mut others: Vec<usize> = hosts.iter().copied().filter(|host| *host != from).collect();
        let to = *draw.one_of(&others);
        others.retain(|host| *host != to);
        let start_us = match draw.range(0..=3) {
            0 => 0,
            1 => draw.log_range(0..=mood.heal_us),
            _ => draw.range(0..=mood.heal_us / 2),
        };
        let stop_us =
            if draw.percent(25) { start_us + draw.log_range(0..=mood.heal_us) } else { 0 };
        let mut client = options(draw, mood);
        let mut server = options(draw, mood);
        if draw.percent(6) {
            client.md5 = Some("one".to_owned());
            server.md5 = Some((*draw.weighted(&[(5, "one"), (1, "two")])).to_owned());
        }
        let ipv6 = mood.ipv6 && draw.percent(60);
        // The largest network-layer packet of the flow's connections.
        let limits = [client.maxseg, server.maxseg].into_iter().filter(|it| *it > 0);
        let segment = limits.map(|it| u32::from(it) + SEGMENT_HEADERS).min();
        let paths = Paths { packet: segment.map_or(mtu, |it| it.min(mtu)), mtu, mtus: &mtus, ipv6 };
        Flow {
            from,
            to,
            ipv6,
            start_us,
            stop_us: stop_us.min(mood.heal_us),
            app: app(draw, mood, &paths, &others),
            client,
            server,
        }
    };
    (0..count).map(|_| one(draw)).collect()
}

/// Headers of a segment without options, bytes.
const SEGMENT_HEADERS: u32 = 40;

/// What packets of a flow may meet.
struct Paths<'a> {
    /// The largest packet of its connections.
    packet: u32,
    /// The smallest MTU, or that of Ethernet.
    mtu: u32,
    /// That of every wire.
    mtus: &'a [u32],
    ipv6: bool,
}

fn app(draw: &mut Draw, mood: &WorldTraits, paths: &Paths<'_>, others: &[usize]) -> App {
    // A packet is the unit of work; a few flows are long.
    let [packets, of_long] = mood.size.packets;
    let most = u64::from(paths.packet.saturating_sub(SEGMENT_HEADERS))
        * if draw.percent(15) { of_long } else { packets };
    let gap = |draw: &mut Draw| {
        if draw.percent(50) { 0 } else { draw.log_range(1..=mood.heal_us / 4) }
    };
    let count = draw.log_range(1..=60);
    match draw.range(0..=19) {
        0..=10 => App::Talk {
            client: manners(draw, mood, most),
            server: manners(draw, mood, most),
            count: draw.log_range(1..=6) as u32,
            fast_open: draw.percent(15),
            backlog: draw.log_range(0..=128) as u32,
            listen_us: if mood.rude && draw.percent(20) { draw.range(0..=mood.heal_us) } else { 0 },
        },
        11..=13 => App::Send {
            bytes: bytes(draw, most),
            chunk: draw.log_range(1 + most / 4_000..=200_000),
            gap_us: gap(draw),
            on_off_us: if draw.percent(20) {
                // A millisecond in all, at least: a sender that waits for room wakes at each turn.
                [500 + draw.log_range(1..=mood.heal_us), 500 + draw.log_range(1..=mood.heal_us)]
            } else {
                [0, 0]
            },
            pause: if draw.percent(20) {
                [draw.log_range(1..=most), draw.log_range(1..=mood.heal_us)]
            } else {
                [0, 0]
            },
        },
        14 => App::Request {
            request: draw.log_range(1..=most / 60),
            response: draw.log_range(1..=most / 60),
            think_us: gap(draw),
            count,
        },
        15 => App::Query {
            request: draw.log_range(1..=most / 60),
            response: draw.log_range(1..=most / 60),
            think_us: gap(draw),
            count,
            more: others.iter().copied().filter(|_| draw.percent(30)).collect(),
        },
        16 => App::Connect {
            every_us: draw.log_range(1 + mood.heal_us * 10 / packets..=mood.heal_us),
            count,
        },
        17 => App::Cbr {
            size: payload(draw, paths, 15),
            every_us: draw.log_range(1 + mood.heal_us / packets..=mood.heal_us),
        },
        18 => App::Ping {
            size: payload(draw, paths, 0),
            every_us: draw.log_range(1 + mood.heal_us * 2 / packets..=mood.heal_us),
        },
        _ => App::Probe {
            size: payload(draw, paths, 0),
            every_us: draw.log_range(1 + mood.heal_us * 2 / packets..=mood.heal_us),
        },
    }
}

/// What a connection carries.
fn bytes(draw: &mut Draw, most: u64) -> u64 {
    if draw.percent(30) { draw.range(0..=most) } else { draw.log_range(1..=most) }
}

/// Of a datagram; now and then as much as just fits a wire, or a byte or two more, and in `large` of a
/// hundred cases perhaps one that has to be cut.
fn payload(draw: &mut Draw, paths: &Paths<'_>, large: u64) -> u32 {
    if draw.percent(20) {
        let headers = if paths.ipv6 { 48 } else { 28 };
        let fits = draw.one_of(paths.mtus).saturating_sub(headers).min(LARGEST_NEAR);
        return (fits + draw.range(0..=3) as u32).saturating_sub(1);
    }
    let most = if draw.percent(large) { 9_000 } else { u64::from(paths.mtu) - 48 };
    draw.log_range(0..=most) as u32
}

/// Datagrams that just fit a wire are no larger.
const LARGEST_NEAR: u32 = 9_000;

fn manners(draw: &mut Draw, mood: &WorldTraits, most: u64) -> EndBehaviour {
    let after = draw.log_range(0..=mood.heal_us);
    let ending = match draw.range(0..=9) {
        4..=5 => CloseMode::Wait,
        6 if mood.rude => CloseMode::Close,
        7 if mood.rude => CloseMode::Abort(after),
        8 if mood.rude => CloseMode::CloseAfter(after),
        9 if mood.rude => CloseMode::Never,
        _ => CloseMode::Shutdown,
    };
    let reading = match draw.range(0..=9) {
        6 if mood.rude => {
            ReadMode::Slow(draw.log_range(1 + most / 500..=most), draw.log_range(1_000..=1_000_000))
        }
        7 if mood.rude => ReadMode::Never,
        8 if mood.rude => ReadMode::UpTo(draw.log_range(1..=most)),
        _ => ReadMode::Eager,
    };
    EndBehaviour {
        write: if draw.percent(25) { 0 } else { bytes(draw, most) },
        chunk: draw.log_range(1 + most / 4_000..=100_000),
        gap_us: if draw.percent(70) { 0 } else { draw.log_range(1..=mood.heal_us / 20) },
        reading,
        ending,
    }
}

const CONGESTION_CONTROLS: &[&str] = &[
    "reno",
    "cubic",
    "dctcp",
    "bbr",
    "bbr3",
    "bic",
    "highspeed",
    "scalable",
    "vegas",
    "veno",
    "cdg",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "prague",
    "westwood",
    "yeah",
];

fn options(draw: &mut Draw, mood: &WorldTraits) -> Options {
    let mut options = Options::default();
    if draw.percent(50) {
        options.congestion = Some((*draw.one_of(CONGESTION_CONTROLS)).to_owned());
    }
    options.nodelay = draw.percent(30);
    options.tos = if draw.percent(20) { draw.range(0..=63) as u8 * 4 } else { 0 };
    if !mood.tuned {
        return options;
    }
    let mut some = |chance: u64, least: u64, most: u64| {
        if draw.percent(chance) { draw.log_range(least..=most) } else { 0 }
    };
    options.sndbuf = some(12, 1, 1_000_000) as u32;
    // A few kilobytes at least: of the smallest buffer small segments leave a window of less than one.
    options.rcvbuf = some(12, 4_096, 1_000_000) as u32;
    options.pacing = some(8, 10_000, 100_000_000);
    options.keepalive_s = some(8, 1, 600) as u32;
    options.user_timeout_ms = some(8, 1, 60_000) as u32;
    options.maxseg = some(8, 88, 9_000) as u16;
    options.syncnt = some(8, 1, 6) as u8;
    options.defer_accept = some(6, 1, 5) as u8;
    options.window_clamp = some(6, 256, 1_000_000) as u32;
    options.notsent_lowat = some(8, 1, 1_000_000) as u32;
    options.rcvlowat = some(5, 1, 10_000) as u32;
    options.linger2_s = some(5, 1, 100) as i32;
    options.fastopen = some(15, 1, 20) as u32;
    options.pmtu = some(10, 1, 6) as u8;
    options
}
