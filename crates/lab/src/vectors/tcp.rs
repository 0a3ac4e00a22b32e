//! TCP transfers recorded from a real kernel, rebuilt in the simulator and compared packet by
//! packet at the sender.
//!
//! The recorded path is S - R - D - V: a bottleneck queue on R, a delay emulator D, and a box of
//! loss rules between S and R. Everything but the queues takes no time.

use super::{Divergence, Error, Scenario, Verdict};
use datapath::host::Offloads;
use datapath::node::Port;
use datapath::packet::{Packet, SackBlock, TcpFlags};
use datapath::profile::Profile;
use datapath::qdisc::police::Police;
use datapath::rng::Rng;
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::{SysctlError, TcpConfig};
use datapath::units::{Duration, Instant};
use iproute::tc::{Device, parse_police, parse_qdisc};
use serde::Deserialize;
use serde_json::Value;
use sim::app::{TcpSend, TcpSink};
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::pcap::Reader;
use sim::record::Observer;
use sim::rules::{Direction, Rule};
use sim::topology::Topology;
use sim::world::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

/// The `case` object of a recording.
#[derive(Deserialize)]
struct Case {
    name: String,
    cc: Vec<String>,
    start: Vec<f64>,
    bytes: Vec<u64>,
    dur: f64,
    police: String,
    rules: Vec<String>,
    #[serde(rename = "sysS")]
    sysctl_sender: Vec<String>,
    #[serde(rename = "sysV")]
    sysctl_receiver: Vec<String>,
    offl: String,
    srv: String,
    app: String,
    nodelay: u8,
}

/// One packet at the sender's interface, normalised as in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    time_ns: u64,
    outgoing: bool,
    port: u16,
    flags: u16,
    seq: u32,
    ack: u32,
    len: u32,
    ecn: u8,
    sack: Vec<(u32, u32)>,
}

/// How far a packet's time may lie from the recorded one.
const TOLERANCE_NS: u64 = 1_000_000;
/// The server's port.
const SERVER_PORT: u16 = 5_001;
/// The first client port.
const CLIENT_PORT: u16 = 40_001;
/// `jiffies` at the recordings' time zero.
const JIFFIES_AT_T0: u64 = 4_294_669_296;
/// `MAX_TCP_HEADER` of the recorded kernel, which has no wireless link layers built in.
const MAX_TCP_HEADER: u32 = 256;

/// True for a recording of a TCP transfer.
pub fn recognises(first: &Value) -> bool {
    first.get("case").is_some() && first.get("flows").is_some()
}

/// Rebuilds and compares the one transfer of a file.
pub fn replay(path: &Path, lines: &[Value]) -> Result<Vec<Scenario>, Error> {
    let format = |problem: String| Error::Format { line: 1, problem };
    let record = lines.first().ok_or(Error::UnknownKind)?;
    let case: Case =
        Case::deserialize(&record["case"]).map_err(|error| format(error.to_string()))?;
    let commands: Vec<String> =
        Vec::deserialize(&record["tc"]).map_err(|error| format(error.to_string()))?;
    if let Some(unknown) = case.cc.iter().find(|name| Algorithm::by_name(name).is_none()) {
        let reason = format!("congestion control {unknown} is not available");
        return Ok(vec![Scenario {
            name: case.name,
            verdict: Verdict::Skipped(reason),
            compared: 0,
        }]);
    }
    let expected = read_capture(&capture_path(path))?;
    let got = simulate(&case, &commands).map_err(format)?;
    let (verdict, compared) = compare(&expected, &got);
    Ok(vec![Scenario { name: case.name, verdict, compared }])
}

/// `x.json.gz` and `x.s.pcap.gz` lie side by side.
fn capture_path(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split(".json").next().unwrap_or_default();
    path.with_file_name(format!("{stem}.s.pcap.gz"))
}

fn read_capture(path: &Path) -> Result<Vec<Seen>, Error> {
    let unreadable = |problem: String| Error::Format {
        line: 1,
        problem: format!("{}: {problem}", path.display()),
    };
    let file = BufReader::new(File::open(path).map_err(|error| unreadable(error.to_string()))?);
    let unzipped = flate2::bufread::MultiGzDecoder::new(file);
    let mut reader = Reader::new(unzipped).map_err(|error| unreadable(error.to_string()))?;
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().map_err(|error| unreadable(error.to_string()))? {
        let interface = &reader.interfaces()[record.interface];
        let packet = record
            .packet(interface, 0, 0)
            .and_then(Result::ok)
            .ok_or_else(|| unreadable(format!("packet {} is not TCP", seen.len())))?;
        let time = record.nanos.unwrap_or_default();
        seen.push(Seen::of(time, &packet).ok_or_else(|| unreadable("not TCP".to_owned()))?);
    }
    Ok(seen)
}

impl Seen {
    fn of(time_ns: u64, packet: &Packet) -> Option<Self> {
        let tcp = packet.tcp()?;
        let outgoing = tcp.dst_port == SERVER_PORT;
        let sack = tcp.options.sack.as_slice();
        Some(Self {
            time_ns,
            outgoing,
            port: if outgoing { tcp.src_port } else { tcp.dst_port },
            flags: tcp.flags.0,
            seq: tcp.seq.0,
            ack: tcp.ack.0,
            len: packet.body.len,
            ecn: packet.network.tos() & 3,
            sack: sack.iter().map(|SackBlock { start, end }| (start.0, end.0)).collect(),
        })
    }
}

/// Makes sequence numbers relative to the SYN of their direction.
#[derive(Default)]
struct Relative {
    initial: BTreeMap<(u16, bool), u32>,
}

impl Relative {
    fn normalise(&mut self, mut seen: Seen) -> Seen {
        let syn = seen.flags & 2 != 0;
        if syn {
            self.initial.insert((seen.port, seen.outgoing), seen.seq);
        }
        let own = self.initial.get(&(seen.port, seen.outgoing)).copied().unwrap_or_default();
        let other = self.initial.get(&(seen.port, !seen.outgoing)).copied().unwrap_or_default();
        seen.seq = seen.seq.wrapping_sub(own);
        if seen.flags & 0x10 != 0 {
            seen.ack = seen.ack.wrapping_sub(other);
        }
        for block in &mut seen.sack {
            *block = (block.0.wrapping_sub(other), block.1.wrapping_sub(other));
        }
        seen
    }
}

/// Watches the sender's interface.
struct SenderTap {
    out: LinkId,
    back: LinkId,
    relative: Relative,
    seen: Vec<Seen>,
}

impl Observer for SenderTap {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == self.out {
            self.take(now, packet);
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == self.back {
            self.take(now, packet);
        }
    }
}

impl SenderTap {
    fn take(&mut self, now: Instant, packet: &Packet) {
        if let Some(seen) = Seen::of(now.as_nanos(), packet) {
            let seen = self.relative.normalise(seen);
            self.seen.push(seen);
        }
    }
}

fn simulate(case: &Case, commands: &[String]) -> Result<Vec<Seen>, String> {
    let mut topology = Topology::new();
    let sender = topology.host("S");
    let router = topology.router("R");
    let delay = topology.router("D");
    let receiver = topology.host("V");
    let rules = case
        .rules
        .iter()
        .map(|rule| rule.parse::<Rule>().map_err(|error| error.to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    let through_box =
        |direction| LinkConfig { rules: rules.clone(), direction, ..LinkConfig::default() };
    let forward = through_box(Direction::Forward);
    let first = topology.wire_with(sender, router, forward, through_box(Direction::Reverse));
    let second = topology.wire(router, delay, LinkConfig::default());
    let back = LinkConfig::delay(box_delay(case));
    let third = topology.wire_with(delay, receiver, LinkConfig::default(), back);
    let client: IpAddr = Ipv4Addr::new(10, 0, 1, 2).into();
    let server: IpAddr = Ipv4Addr::new(10, 0, 3, 2).into();
    topology.addresses(first, (client, 24), (Ipv4Addr::new(10, 0, 1, 1).into(), 24));
    topology.addresses(third, (Ipv4Addr::new(10, 0, 3, 1).into(), 24), (server, 24));
    for wire in [first, second, third] {
        let wire = topology.wire_mut(wire);
        for end in [&mut wire.a, &mut wire.b] {
            // The recorded path is made of veth pairs.
            end.interface.orphans = true;
            let tso = case.offl == "tso";
            let gso = case.offl != "off";
            end.interface.offloads = Offloads { gso, tso, gro: false };
        }
    }
    let mut world = topology.build(1).map_err(|error| error.to_string())?;
    let devices = [
        ("S e0", (sender, Port(0))),
        ("R r0", (router, Port(0))),
        ("R r1", (router, Port(1))),
        ("D d0", (delay, Port(0))),
        ("D d1", (delay, Port(1))),
        ("V v0", (receiver, Port(0))),
    ];
    for command in commands {
        configure(&mut world, &devices, command)?;
    }
    police(&mut world, router, &case.police)?;
    world.slow_apps(sender, box_delay(case) * 2);
    add_applications(&mut world, case, sender, receiver, client, server)?;
    let tap = Rc::new(RefCell::new(SenderTap {
        out: world.link_of(sender, Port(0)),
        back: world.link_of(router, Port(0)),
        relative: Relative::default(),
        seen: Vec::new(),
    }));
    world.observe(Box::new(Rc::clone(&tap)));
    // The recording ends a few clock reads after `dur`.
    let end = at_seconds(case.dur);
    world.run_until(end + Duration::from_micros(1));
    drop(world);
    let mut tap = Rc::into_inner(tap).expect("the world is gone").into_inner();
    tap.seen.retain(|seen| seen.time_ns <= end.as_nanos() + 100);
    Ok(tap.seen)
}

/// What the recorded box, a program, took: a microsecond a round trip, which adds up until borders
/// of milliseconds are crossed. It is added on the way back, before the emulated delay, because
/// packets that meet at the bottleneck in the same nanosecond then meet in the recorded order.
fn box_delay(case: &Case) -> Duration {
    Duration::from_nanos(if case.rules.is_empty() { 0 } else { 1_002 })
}

/// Carries out one recorded `NETNS tc qdisc ...` command.
fn configure(
    world: &mut World,
    devices: &[(&str, (NodeId, Port))],
    command: &str,
) -> Result<(), String> {
    let (namespace, tc) = command.split_once(' ').ok_or("a tc command without a namespace")?;
    if !tc.starts_with("tc qdisc") || tc.contains("ingress") {
        return Ok(());
    }
    let parsed = parse_qdisc(tc).map_err(|error| error.to_string())?;
    let name = format!("{namespace} {}", parsed.device);
    let (node, port) = devices
        .iter()
        .find(|(device, _)| *device == name)
        .map(|(_, place)| *place)
        .ok_or_else(|| format!("no device {name}"))?;
    world.with_host(node, |now, host| {
        let rng = Rng::stream(1, u64::from(node.0) << 8 | u64::from(port.0));
        host.change_qdisc(now, port, |root, cx| {
            let applied = parsed.apply(root, Device::default(), rng, cx);
            applied.map(|_| ()).map_err(|error| error.to_string())
        })
    })
}

fn police(world: &mut World, router: NodeId, words: &str) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    let text = format!("{words} mtu 2000 conform-exceed drop");
    let mut words = iproute::words::Words::new(&text);
    let config = parse_police(&mut words).map_err(|error| error.to_string())?;
    world.with_host(router, |_, host| {
        host.add_policer(Port(0), Police::new(config));
    });
    Ok(())
}

fn add_applications(
    world: &mut World,
    case: &Case,
    sender: NodeId,
    receiver: NodeId,
    client: IpAddr,
    server: IpAddr,
) -> Result<(), String> {
    let mut srv = case.srv.split_whitespace().map(str::parse::<u64>);
    let mut next = || srv.next().transpose().map_err(|error| format!("srv: {error}"));
    let receive_buffer = next()?.unwrap_or(0) as u32;
    let pause = (next()?, next()?);
    let mut config = config(&case.sysctl_receiver, "cubic")?;
    config.receive_buffer = receive_buffer;
    let mut sink = TcpSink::new(SocketAddr::new(server, SERVER_PORT), config);
    if let (Some(at), Some(nanos)) = pause {
        sink = sink.pause(at, Duration::from_nanos(nanos));
    }
    world.add_app(receiver, Box::new(sink), Instant::ZERO, None);
    for (index, cc) in case.cc.iter().enumerate() {
        let mut config = self::config(&case.sysctl_sender, cc)?;
        config.nodelay = case.nodelay != 0;
        let local = SocketAddr::new(client, CLIENT_PORT + index as u16);
        let mut app = TcpSend::bulk(local, SocketAddr::new(server, SERVER_PORT), config);
        if case.bytes[index] > 0 {
            app = app.limit(case.bytes[index]);
        }
        if let Some((chunk, gap)) = case.app.split_once(' ') {
            let number = |text: &str| text.parse().map_err(|error| format!("app: {error}"));
            app = app.chunks(number(chunk)?, Duration::from_nanos(number(gap)?));
        }
        // At the end of the recording the program closes, which pushes what was held back.
        let stop = Some(at_seconds(case.dur));
        world.add_app(sender, Box::new(app), at_seconds(case.start[index]), stop);
    }
    Ok(())
}

fn config(sysctls: &[String], cc: &str) -> Result<TcpConfig, String> {
    let profile = Profile { max_tcp_header: MAX_TCP_HEADER, ..Profile::linux_6_1() };
    let mut config = TcpConfig::for_profile(profile);
    config.jiffies_at_zero = JIFFIES_AT_T0;
    let mut cc = cc.to_owned();
    for setting in sysctls {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("no = in {setting}"))?;
        if name == "net.ipv4.tcp_congestion_control" {
            value.clone_into(&mut cc);
            continue;
        }
        config.sysctl.set(name, value).map_err(|error| match error {
            SysctlError::Unknown => format!("unknown sysctl {name}"),
            SysctlError::Value(problem) => problem,
        })?;
    }
    config.congestion_control = Algorithm::by_name(&cc)
        .ok_or_else(|| format!("congestion control {cc} is not available"))?;
    Ok(config)
}

/// Seconds of a recording, exact to the nanosecond for its short decimals.
fn at_seconds(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}

fn compare(expected: &[Seen], got: &[Seen]) -> (Verdict, u64) {
    let mut compared = 0;
    for (index, want) in expected.iter().enumerate() {
        let Some(have) = got.get(index) else {
            return (differs(index, want, "packets", want, "nothing more"), compared);
        };
        if let Some(field) = first_difference(want, have) {
            return (differs(index, want, field, want, &have.to_string()), compared);
        }
        compared += 9;
    }
    if let Some(extra) = got.get(expected.len()) {
        let index = expected.len();
        let divergence = Divergence {
            time: Some(extra.time_ns),
            index: Some(index as u64),
            field: "packets".to_owned(),
            expected: "nothing more".to_owned(),
            got: extra.to_string(),
        };
        return (Verdict::Failed(divergence), compared);
    }
    (Verdict::Passed, compared)
}

fn first_difference(want: &Seen, have: &Seen) -> Option<&'static str> {
    let Seen { time_ns, outgoing, port, flags, seq, ack, len, ecn, sack } = want;
    [
        ("direction", *outgoing == have.outgoing),
        ("flow", *port == have.port),
        ("flags", *flags == have.flags),
        ("seq", *seq == have.seq),
        ("len", *len == have.len),
        ("ack", *ack == have.ack),
        ("sack", *sack == have.sack),
        ("ecn", *ecn == have.ecn),
        ("time", time_ns.abs_diff(have.time_ns) <= TOLERANCE_NS),
    ]
    .into_iter()
    .find(|(_, equal)| !equal)
    .map(|(field, _)| field)
}

fn differs(index: usize, at: &Seen, field: &str, want: &Seen, got: &str) -> Verdict {
    Verdict::Failed(Divergence {
        time: Some(at.time_ns),
        index: Some(index as u64),
        field: field.to_owned(),
        expected: want.to_string(),
        got: got.to_owned(),
    })
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = if self.outgoing { '>' } else { '<' };
        let flags = TcpFlags(self.flags);
        let mut sack = String::new();
        for (start, end) in &self.sack {
            write!(sack, " {start}:{end}")?;
        }
        write!(
            f,
            "{} {direction} {} {flags:?} {}:{}({}) ack {}{}{sack}{}",
            self.time_ns,
            self.port,
            self.seq,
            self.seq.wrapping_add(self.len),
            self.len,
            self.ack,
            if self.sack.is_empty() { "" } else { " sack" },
            if self.ecn == 0 { String::new() } else { format!(" ecn {}", self.ecn) },
        )
    }
}
