//! Which next hop takes a flow: our answer beside the running kernel's, in a network namespace of its
//! own, for every policy and both address families.
//!
//! The kernel answers three times: questions over netlink (`ip route get`), packets of all kinds that
//! it really forwards, and datagrams and SYNs that sockets really send. Ours answers from the
//! configuration that `--import-kernel` reads at that moment, sysctls included.
//!
//! Needs what [`NEEDS`] says. Where something is missing the test says so, and compares nothing.
#![cfg(target_os = "linux")]

#[path = "../namespace/mod.rs"]
mod namespace;
mod packets;

use datapath::fib::{Decision, HashInput, RouteKey, dissect};
use datapath::packet::Packet;
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::ip::Ip;
use namespace::{in_namespace, read, scratch};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// How many flows of each kind and family every policy chooses for.
const FLOWS: u32 = 1000;

/// Number of the first packet or socket, one that nothing else ends with by chance.
const FIRST: u32 = 0x5eed_0000;

/// Policy and fields of IPv4 and of IPv6. Mostly they differ, so that none is taken for the other.
const POLICIES: [[(u32, u32); 2]; 7] = [
    [(0, 7), (1, 7)],
    [(1, 7), (0, 7)],
    [(2, 7), (2, 7)],
    [(3, 0x037), (3, 0x03f)],
    [(3, 0x030), (3, 0x008)],
    [(3, 0xdc0), (3, 0xfc0)],
    [(3, 0x905), (3, 0x249)],
];

/// What the namespace must be able to do. The kernel has to be one that we model: 6.16 sent what is
/// made here from the interface of its source address for the first time.
const NEEDS: &str = "
ip link add dev here type veth peer name there
ip nexthop list
test -w /proc/sys/net/ipv4/fib_multipath_hash_seed || { echo 'no fib_multipath_hash_seed' >&2; false; }
test -w /proc/sys/net/ipv6/fib_multipath_hash_policy || { echo 'no IPv6' >&2; false; }
python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'
IFS=.- read -r major minor rest < /proc/sys/kernel/osrelease
test \"$major\" -gt 6 -o \"$major\" -eq 6 -a \"$minor\" -ge 16 || { echo \"Linux $major.$minor is older than 6.16\" >&2; false; }
";

/// A router with an entrance and three exits, whose far ends we watch. The two IPv6 groups share no
/// next-hop object: the kernel keeps one cached route an object, and takes the source address by the
/// group of whichever route has used the object first.
const ROUTER: &str = "
set -e
ip link set lo up
for i in in0 a1 a2 a3; do
  ip link add $i type veth peer name p$i
  for d in $i p$i; do ip link set $d addrgenmode none; ip link set $d up; done
done
ip link set in0 address 02:00:00:00:09:01
ip address add 10.9.0.1/16 dev in0
ip -6 address add fd09::1/64 dev in0 nodad
for i in 1 2 3; do
  ip address add 10.0.$i.1/24 dev a$i
  ip -6 address add fd00:$i::1/64 dev a$i nodad
  ip neighbour add 10.0.$i.2 lladdr 02:00:00:00:00:0$i dev a$i nud permanent
  ip neighbour add fd00:$i::2 lladdr 02:00:00:00:00:0$i dev a$i nud permanent
  ip nexthop add id $i via 10.0.$i.2 dev a$i
  ip nexthop add id 6$i via fd00:$i::2 dev a$i
  ip nexthop add id 7$i via fd00:$i::2 dev a$i
done
ip nexthop add id 100 group 1/2,3/3
ip nexthop add id 101 group 1/2/3 type resilient buckets 32
ip nexthop add id 600 group 62/61,3/63
ip nexthop add id 700 group 73/72/71 type resilient buckets 32
ip neighbour add 10.0.1.3 lladdr 02:00:00:00:00:01 dev a1 nud permanent
ip neighbour add fd00:1::3 lladdr 02:00:00:00:00:01 dev a1 nud permanent
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \\
  net.ipv4.conf.in0.rp_filter=0 net.ipv4.fib_multipath_hash_seed=2015
ip -6 address add fd44::1/64 dev a2 nodad
ip route add 198.18.0.0/16 nexthop via 10.0.1.2 nexthop via 10.0.2.2 nexthop via 10.0.3.2 weight 2
ip route add 198.19.0.0/16 nhid 100
ip route add 198.20.0.0/16 nhid 101
ip route add 198.21.0.0/16 nexthop via 10.0.1.2 nexthop via 10.0.1.3 nexthop via 10.0.2.2
ip -6 route add fd45::/64 nexthop via fd00:1::2 nexthop via fd00:2::2 nexthop via fd00:3::2 weight 2
ip -6 route add fd46::/64 nhid 600
ip -6 route add fd47::/64 nhid 700
ip -6 route add fd48::/64 nexthop via fd00:1::2 nexthop via fd00:1::3 nexthop via fd00:2::2
ip -6 route add fd49::/64 dev a1
ip -6 route append fd49::/64 dev a2
";

/// A flow of this machine or through it.
struct Asked {
    src: IpAddr,
    dst: IpAddr,
    protocol: &'static str,
    sport: u16,
    dport: u16,
}

/// One of the destinations that have several next hops.
fn destination(rng: &mut Rng, v6: bool) -> IpAddr {
    if v6 {
        let net = 0xfd45 + u128::from(rng.below(4));
        return Ipv6Addr::from_bits(net << 112 | u128::from(rng.next_u64())).into();
    }
    Ipv4Addr::from_bits(0xc612_0000 + rng.below(4 << 16) as u32).into()
}

/// A source behind the entrance.
fn stranger(rng: &mut Rng, v6: bool) -> IpAddr {
    if v6 {
        return Ipv6Addr::from_bits(0xfd09 << 112 | u128::from(rng.next_u64())).into();
    }
    Ipv4Addr::new(10, 9, 1 + rng.below(250) as u8, rng.below(256) as u8).into()
}

/// An address of the router.
fn own(rng: &mut Rng, v6: bool) -> IpAddr {
    let addresses = if v6 {
        ["fd09::1", "fd00:1::1", "fd00:2::1", "fd00:3::1"]
    } else {
        ["10.9.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"]
    };
    addresses[rng.below(4) as usize].parse().expect("an address")
}

fn flow(rng: &mut Rng, v6: bool, src: IpAddr) -> Asked {
    let ports = rng.next_u32();
    Asked {
        src,
        dst: destination(rng, v6),
        protocol: if rng.below(2) == 0 { "tcp" } else { "udp" },
        sport: 1024 + (ports >> 16) as u16 % 60000,
        dport: 1 + (ports as u16) % 65535,
    }
}

/// `route get` of flows through the router and from it; some without a source, some with a demand
/// for an exit.
fn questions(rng: &mut Rng, v6: bool) -> Vec<String> {
    let mut questions = Vec::new();
    for _ in 0..FLOWS {
        let src = stranger(rng, v6);
        let Asked { src, dst, protocol, sport, dport } = flow(rng, v6, src);
        questions.push(format!(
            "route get {dst} from {src} iif in0 ipproto {protocol} sport {sport} dport {dport}"
        ));
    }
    for _ in 0..FLOWS {
        let src = own(rng, v6);
        let Asked { src, dst, protocol, sport, dport } = flow(rng, v6, src);
        let from = if rng.below(8) > 0 { format!("from {src} ") } else { String::new() };
        let over =
            if rng.below(8) == 0 { format!("oif a{} ", 1 + rng.below(2)) } else { String::new() };
        questions.push(format!(
            "route get {dst} {from}{over}ipproto {protocol} sport {sport} dport {dport}"
        ));
    }
    if v6 {
        questions.extend(WITHOUT_CHOICE.map(String::from));
    }
    questions
}

/// Two routes of one prefix that are no siblings, and a destination on the link: what `oif` means to
/// IPv6 with a source and without.
const WITHOUT_CHOICE: [&str; 10] = [
    "route get fd49::1",
    "route get fd49::1 oif a2",
    "route get fd49::1 from fd09::1",
    "route get fd49::1 from fd09::1 oif a1",
    "route get fd49::1 from fd09::1 oif a2",
    "route get fd49::1 from fd09::1 oif a3",
    "route get fd00:1::9 from fd09::1 oif a3",
    "route get fd00:2::1 from fd09::1",
    "route get fd00:2::1",
    "route get fd44::5",
];

/// What the kernel is asked, the same under every policy.
struct Trial {
    /// By family.
    questions: [Vec<String>; 2],
    /// Packets to be forwarded, by number.
    frames: Vec<Vec<u8>>,
    /// Flows of sockets, by number.
    sockets: Vec<Asked>,
}

impl Trial {
    fn new() -> Self {
        let mut rng = Rng::stream(2015, 1);
        let rng = &mut rng;
        let mut frames = Vec::new();
        let mut sockets = Vec::new();
        for v6 in [false, true] {
            for _ in 0..FLOWS {
                let (src, dst) = (stranger(rng, v6), destination(rng, v6));
                frames.push(packets::any(rng, src, dst, FIRST + frames.len() as u32));
                let src = own(rng, v6);
                sockets.push(flow(rng, v6, src));
            }
        }
        Self { questions: [false, true].map(|v6| questions(rng, v6)), frames, sockets }
    }

    fn write(&self, directory: &Path) {
        let put = |name: &str, lines: &[String]| {
            std::fs::write(directory.join(name), lines.join("\n") + "\n").expect("a file");
        };
        put("questions.4", &self.questions[0]);
        put("questions.6", &self.questions[1]);
        let frame = |(number, packet): (u32, &Vec<u8>)| {
            let hex = packet.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            format!("{number} {hex}")
        };
        put("frames", &(FIRST..).zip(&self.frames).map(frame).collect::<Vec<_>>());
        let socket = |(number, asked): (u32, &Asked)| {
            let Asked { src, dst, protocol, sport, dport } = asked;
            format!("{number} {protocol} {src} {sport} {dst} {dport}")
        };
        put("sockets", &(FIRST..).zip(&self.sockets).map(socket).collect::<Vec<_>>());
    }
}

/// What is done in the namespace.
fn script(directory: &Path) -> String {
    let ours = env!("CARGO_BIN_EXE_ackwright");
    let helper = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/multipath_kernel.py");
    let mut script = format!("{ROUTER}cd {}\n", directory.display());
    for (index, policies) in POLICIES.iter().enumerate() {
        for (family, (policy, fields)) in ["ipv4", "ipv6"].iter().zip(policies) {
            let name = format!("net.{family}.fib_multipath_hash");
            let _ = writeln!(script, "sysctl -qw {name}_policy={policy} {name}_fields={fields}");
        }
        let _ = write!(
            script,
            "{ours} ip --import-kernel save > saved.{index}\n\
             ip -batch questions.4 > answers.4.{index}\n\
             ip -6 -batch questions.6 > answers.6.{index}\n\
             {helper} frames pin0 pa1 pa2 pa3 < frames > frames.{index}\n\
             {helper} sockets pa1 pa2 pa3 < sockets > sockets.{index}\n"
        );
    }
    script
}

/// Where ours sends a packet of these bytes.
fn forwarded(ip: &Ip, packet: &[u8]) -> String {
    let flow = dissect::flow(packet).expect("an IP packet");
    let parsed = Packet::parse_ip(packet).expect("an IP packet");
    assert_eq!(dissect::packet_flow(&parsed), Some(flow), "{packet:02x?}");
    let key = RouteKey {
        iif: ip.devices.port("in0"),
        protocol: flow.outer.protocol,
        src: flow.outer.src,
        ..RouteKey::to(flow.outer.dst)
    };
    exit(ip, ip.fib.forward(Instant::ZERO, &key, || flow))
}

/// Where ours sends what a socket sends.
fn sent(ip: &Ip, asked: &Asked) -> String {
    let key = RouteKey {
        src: asked.src,
        protocol: if asked.protocol == "tcp" { 6 } else { 17 },
        src_port: asked.sport,
        dst_port: asked.dport,
        ..RouteKey::to(asked.dst)
    };
    exit(ip, ip.fib.forward(Instant::ZERO, &key, || HashInput::of_socket(&key)))
}

/// What the exit leads to.
fn exit(ip: &Ip, decision: Decision) -> String {
    match decision {
        Decision::Forward(hop) => format!("p{}", ip.devices.name(hop.port)),
        other => format!("{other:?}"),
    }
}

/// What `ip` says to each question, one answer a question.
fn answers(text: &str, v6: bool) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    // IPv4 answers have a second line.
    lines.chunks(if v6 { 1 } else { 2 }).map(|lines| lines.join("\n")).collect()
}

/// Differences between what the kernel says and what we say, with how many things were compared.
#[derive(Default)]
struct Comparison {
    compared: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, what: &str, kernel: &str, ours: &str) {
        self.compared += 1;
        if kernel != ours {
            self.differences.push(format!("{what}\n  kernel: {kernel}\n  ours:   {ours}"));
        }
    }
}

fn compare(trial: &Trial, directory: &Path, index: usize) -> Comparison {
    let mut found = Comparison::default();
    let mut ip = Ip::new();
    let saved = read(directory, &format!("saved.{index}"));
    ip.run_all(&saved).unwrap_or_else(|(line, error)| panic!("{line}: {error}\n{saved}"));
    for (v6, questions) in [false, true].into_iter().zip(&trial.questions) {
        let family = if v6 { "6" } else { "4" };
        let theirs = answers(&read(directory, &format!("answers.{family}.{index}")), v6);
        assert_eq!(theirs.len(), questions.len(), "an answer to each question");
        for (question, theirs) in questions.iter().zip(theirs) {
            let ours = ip.run(question).unwrap_or_else(|error| error.to_string());
            found.compare(&format!("ip {question}"), theirs.trim_end(), ours.trim_end());
        }
    }
    let exits = |name: &str| -> Vec<String> {
        let text = read(directory, &format!("{name}.{index}"));
        text.lines().map(|line| line.split_once(' ').expect("two words").1.to_owned()).collect()
    };
    let theirs = exits("frames");
    assert_eq!(theirs.len(), trial.frames.len(), "an exit for each packet");
    for (number, (packet, theirs)) in trial.frames.iter().zip(theirs).enumerate() {
        found.compare(&format!("packet {number}: {packet:02x?}"), &theirs, &forwarded(&ip, packet));
    }
    let theirs = exits("sockets");
    assert_eq!(theirs.len(), trial.sockets.len(), "an exit for each socket");
    for (asked, theirs) in trial.sockets.iter().zip(theirs) {
        let Asked { src, dst, protocol, sport, dport } = asked;
        let what = format!("socket {protocol} {src} {sport} to {dst} {dport}");
        found.compare(&what, &theirs, &sent(&ip, asked));
    }
    found
}

/// Policies 0 to 3, each family with its own: whatever the kernel is asked, forwards or sends itself
/// takes the next hop that ours chooses.
#[test]
fn every_flow_takes_the_next_hop_that_the_kernel_chooses() {
    let directory = scratch("multipath-kernel");
    let trial = Trial::new();
    trial.write(&directory);
    let what = "next hops chosen by the kernel";
    let Some(output) = in_namespace(what, NEEDS, &script(&directory)) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut report = String::new();
    for (index, policies) in POLICIES.iter().enumerate() {
        let Comparison { compared, differences } = compare(&trial, &directory, index);
        println!("{policies:?}: {compared} compared, {} differ", differences.len());
        if !differences.is_empty() {
            let few = &differences[..differences.len().min(5)];
            let _ = writeln!(
                report,
                "(policy, fields) of IPv4 and IPv6 {policies:?}: {} of {compared} differ:\n{}",
                differences.len(),
                few.join("\n")
            );
        }
    }
    assert!(report.is_empty(), "{report}");
}
