//! The recorded path, rebuilt: S - R - D - V with their queues, the box of rules and the programs.

use super::capture::{SERVER_PORT, SenderTap, SentPacket};
use super::figures::{Counters, Sample};
use super::{Recorder, Recording};
use crate::stems::file_stem;
use crate::store::{self, Pending};
use apps::{TcpSend, TcpSink};
use datapath::host::Offloads;
use datapath::node::Port;
use datapath::qdisc::AnyQdisc;
use datapath::qdisc::cake::Draws;
use datapath::qdisc::police::Police;
use datapath::rng::Rng;
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::{SysctlError, TcpConfig};
use datapath::units::{Duration, Instant};
use iproute::tc::{Device, parse_police, parse_qdisc};
use pcap::{Snap, Writer};
use sim::capture::{Capture, LinkEnd};
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::rules::{Direction, Rule};
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::num::NonZeroU32;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

/// The first client port.
const CLIENT_PORT: u16 = 40_001;

/// The result of rebuilding a recorded transfer.
pub struct RebuiltTransfer {
    /// Packets at the sender.
    pub seen: Vec<SentPacket>,
    /// What the sender counted.
    pub counters: Counters,
    /// TCP_INFO at the moments asked for, in their order; none where there was no connection.
    pub samples: Vec<Option<Sample>>,
}

/// Rebuilds a transfer on the path that `commands` set up. `moments` are the times, in order, and
/// the flows whose TCP_INFO is wanted. `last` is the time
/// of the last recorded packet, `pcap` a directory for a capture of both ends.
pub fn simulate(
    case: &Recording,
    recorder: &Recorder,
    commands: &[String],
    moments: &[(Instant, usize)],
    last: Instant,
    pcap: Option<&Path>,
) -> Result<RebuiltTransfer, String> {
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
    // Hashes go along between name spaces, but not through a program.
    let boxed = !rules.is_empty();
    let veth = || LinkConfig { veth: true, ..LinkConfig::default() };
    let through_box = |direction| LinkConfig {
        rules: rules.clone(),
        direction,
        veth: !boxed,
        ..LinkConfig::default()
    };
    let forward = through_box(Direction::Forward);
    let first = topology.wire_with(sender, router, forward, through_box(Direction::Reverse));
    let second = topology.wire(router, delay, veth());
    let back = LinkConfig::delay(box_delay(case, recorder));
    let third = topology.wire_with(delay, receiver, veth(), back);
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
        configure(&mut world, &devices, command, (case, recorder))?;
    }
    police(&mut world, router, &case.police, recorder)?;
    world.on_one_machine(recorder.uses_slack);
    if recorder.prompt {
        world.prompt_apps();
        world.play_softirqs(sender);
    }
    world.slow_apps(sender, box_delay(case, recorder) * 2);
    let flows = add_applications(&mut world, case, recorder, sender, receiver, client, server)?;
    let tap = SenderTap::new(world.link_of(sender, Port(0)), world.link_of(router, Port(0)));
    let tap = Rc::new(RefCell::new(tap));
    world.observe(Box::new(Rc::clone(&tap)));
    let ends = [("S", sender, (router, Port(0))), ("V", receiver, (delay, Port(1)))]
        .map(|(name, node, far)| (name, world.link_of(node, Port(0)), world.link_of(far.0, far.1)));
    let capture =
        pcap.map(|directory| begin_capture(&mut world, case, directory, ends)).transpose()?;
    let mut samples = Vec::with_capacity(moments.len());
    for (at, flow) in moments {
        world.run_until(*at);
        let socket = flows.get(*flow).and_then(|app| world.report(*app).socket);
        let info = socket.and_then(|socket| world.host(sender).tcp_info(*at, socket));
        samples.push(info.map(|info| Sample { cwnd: info.snd_cwnd, srtt_us: info.rtt }));
    }
    // The recording ends a few clock reads after `dur`, sometimes some microseconds.
    let end = last.max(at_seconds(case.dur) + Duration::from_nanos(100));
    world.run_until(end);
    let counters = Counters::of(&world.host(sender).tcp_mib());
    drop(world);
    if let Some(capture) = capture.and_then(Rc::into_inner) {
        let pending = capture.into_inner().finish();
        let pending = pending.map_err(|error| format!("the capture of {}: {error}", case.name))?;
        pending.commit().map_err(|error| error.to_string())?;
    }
    let tap = Rc::into_inner(tap).expect("the world is gone").into_inner();
    Ok(RebuiltTransfer { seen: tap.into_packets(), counters, samples })
}

type SharedCapture = Rc<RefCell<Capture<Pending>>>;

/// Captures what passes the interfaces at `ends`: a name, the link out and the link in of each.
fn begin_capture(
    world: &mut World,
    case: &Recording,
    directory: &Path,
    ends: [(&str, LinkId, LinkId); 2],
) -> Result<SharedCapture, String> {
    let path = directory.join(format!("{}.pcapng", file_stem(&case.name)));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = store::begin(&path).map_err(|error| error.to_string())?;
    let mut capture = Capture::new(Writer::new(file).map_err(failed)?, Snap::Headers);
    for (name, out, back) in ends {
        capture.tap(out, LinkEnd::Sent, &format!("{name} out"));
        capture.tap(back, LinkEnd::Delivered, &format!("{name} in"));
    }
    let capture = Rc::new(RefCell::new(capture));
    world.observe(Box::new(Rc::clone(&capture)));
    Ok(capture)
}

/// What the recorded box, a program, took: a microsecond a round trip, which adds up until borders
/// of milliseconds are crossed. It is added on the way back, before the emulated delay, because
/// packets that meet at the bottleneck in the same nanosecond then meet in the recorded order.
fn box_delay(case: &Recording, recorder: &Recorder) -> Duration {
    let takes_time = !case.rules.is_empty() && !recorder.prompt;
    Duration::from_nanos(if takes_time { 1_002 } else { 0 })
}

/// Carries out one recorded `NETNS tc qdisc ...` command.
fn configure(
    world: &mut World,
    devices: &[(&str, (NodeId, Port))],
    command: &str,
    (case, recorder): (&Recording, &Recorder),
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
            let device = Device::of(&recorder.profile);
            parsed.apply(root, device, rng, cx).map_err(|error| error.to_string())?;
            if let (AnyQdisc::Cake(cake), Some(&draw)) = (root.qdisc_mut(), case.draw.get("cake")) {
                cake.set_draws(Draws::Fixed { dither: (draw >> 16) as u16, blue: draw });
            }
            Ok(())
        })
    })
}

fn police(
    world: &mut World,
    router: NodeId,
    words: &str,
    recorder: &Recorder,
) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    let text = format!("{words} mtu 2000 conform-exceed drop");
    let mut words = iproute::words::Words::new(&text);
    let config = parse_police(&mut words).map_err(|error| error.to_string())?;
    let police = Police::of(&recorder.profile, config);
    world.with_host(router, |_, host| host.add_policer(Port(0), police));
    Ok(())
}

/// The server and the senders; gives the senders, flow by flow.
fn add_applications(
    world: &mut World,
    case: &Recording,
    recorder: &Recorder,
    sender: NodeId,
    receiver: NodeId,
    client: IpAddr,
    server: IpAddr,
) -> Result<Vec<AppId>, String> {
    let mut srv = case.srv.split_whitespace().map(str::parse::<u64>);
    let mut next = || srv.next().transpose().map_err(|error| format!("srv: {error}"));
    let receive_buffer = next()?.unwrap_or(0) as u32;
    let pause = (next()?, next()?);
    let mut config = config(recorder, &case.sysctl_receiver, "cubic")?;
    config.receive_buffer = NonZeroU32::new(receive_buffer);
    if config.sysctl.tcp_timestamps == 1 {
        config.socket.timestamp_offset = case.draw.get("ts_off").copied().unwrap_or(DRAWN_OFFSET);
    }
    let mut sink = TcpSink::new(SocketAddr::new(server, SERVER_PORT), config);
    if let (Some(at), Some(nanos)) = pause {
        sink = sink.pause(at, Duration::from_nanos(nanos));
    }
    world.add_app(receiver, Box::new(sink), Instant::ZERO, None);
    let mut flows = Vec::new();
    for (index, cc) in case.cc.iter().enumerate() {
        let mut config = self::config(recorder, &case.sysctl_sender, cc)?;
        let draw = |module: &str| case.draw.get(module).copied();
        config.bbr.cycle_draw = draw("bbr").map(|draw| draw as u8);
        config.cdg.draw = draw("cdg");
        config.nv.draw = draw("nv").map(|draw| draw as u8);
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
        flows.push(world.add_app(sender, Box::new(app), at_seconds(case.start[index]), stop));
    }
    Ok(flows)
}

fn config(recorder: &Recorder, sysctls: &[String], cc: &str) -> Result<TcpConfig, String> {
    let mut config = TcpConfig::for_profile(recorder.profile.clone());
    config.jiffies_at_zero = recorder.jiffies_at_zero;
    if let Some(rmem_max) = recorder.rmem_max {
        config.sysctl.tcp_rmem[2] = rmem_max;
    }
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

/// What stands for the offset of timestamps that a kernel draws: seven of eight are 2^29 or more, of which `lp` takes
/// hardly any delay for a sign of others.
const DRAWN_OFFSET: u32 = 1 << 31;

/// Seconds of a recording, exact to the nanosecond for its short decimals.
fn at_seconds(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}
