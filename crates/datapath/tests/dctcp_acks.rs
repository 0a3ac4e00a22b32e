//! The ACKs of a DCTCP receiver, packet by packet, as in the two exchanges that the changes of July
//! 2018 describe, and the codepoints of everything that DCTCP and RFC 3168 senders put on the wire.

use core::net::{IpAddr, SocketAddr};
use datapath::fib::{Features, Prefix, Route};
use datapath::host::{Host, PortConfig, SocketId};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Ecn, Ipv4, Ipv6, LinkHeader, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use datapath::profile::{DctcpAck, Profile};
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant};
use std::fmt::Write as _;

/// A host under test and a peer that sends what it is told to.
struct Bench {
    host: Host,
    local: SocketAddr,
    remote: SocketAddr,
    /// Their initial sequence number is 0; ours is what the host chose.
    iss: u32,
    socket: Option<SocketId>,
    now: Instant,
}

/// Time zero would pass for no time at all in the send queue.
const START: Instant = Instant::from_nanos(1_000_000);
const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

fn config(algorithm: Algorithm) -> TcpConfig {
    let mut config = TcpConfig { congestion_control: algorithm, ..TcpConfig::default() };
    config.sysctl.tcp_timestamps = 0;
    // Room for what nobody reads, as packetdrill's defaults have it.
    config.sysctl.tcp_rmem = [4_096, 540_000, 15_728_640];
    // A first window of all the room shrinks with the first short segments, and then two segments
    // are no reason to acknowledge at once: the exchanges of 2018 had less.
    config.profile.initial_window_64k = true;
    config
}

impl Bench {
    fn new(addresses: [&str; 2]) -> Self {
        let [local, remote]: [IpAddr; 2] = addresses.map(|text| text.parse().expect("an address"));
        let mut host = Host::new();
        let prefix = if local.is_ipv4() { 24 } else { 64 };
        let addresses = vec![(local, prefix)];
        host.add_port(PortConfig { addresses, ..PortConfig::default() });
        let (local, remote) = (SocketAddr::new(local, 80), SocketAddr::new(remote, 4_000));
        Self { host, local, remote, iss: 0, socket: None, now: START }
    }

    /// Listens, and answers an ECN-setup SYN with this codepoint.
    fn listening(addresses: [&str; 2], config: &TcpConfig) -> Self {
        let mut bench = Self::new(addresses);
        bench.host.tcp_listen(bench.now, bench.local, config);
        assert!(bench.sent().is_empty());
        bench
    }

    /// An established connection of a DCTCP listener.
    fn dctcp(addresses: [&str; 2], config: &TcpConfig) -> Self {
        let mut bench = Self::listening(addresses, config);
        bench.at(100_000);
        assert_eq!(bench.get("[ect0] SEW 0:0(0)"), ["[ect0] SE. 0:0(0) ack 1"]);
        bench.at(110_000);
        assert_eq!(bench.get("[ect0] . 1:1(0) ack 1"), [""; 0]);
        bench.at(200_000);
        bench
    }

    /// Goes to this time in µs, and through all timers before it; nothing may be sent on the way.
    fn at(&mut self, micros: u64) {
        let sent = self.pass(micros);
        assert!(sent.is_empty(), "before {micros} µs: {sent:?}");
    }

    /// Goes to this time; gives what was sent on the way, with its times in µs.
    fn pass(&mut self, micros: u64) -> Vec<(u64, String)> {
        let end = Instant::ZERO + Duration::from_micros(micros);
        let mut sent = Vec::new();
        while let Some(at) = self.host.wake_at().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            let time = self.now.as_micros();
            sent.extend(self.sent().into_iter().map(|text| (time, text)));
        }
        self.now = end;
        sent
    }

    /// The peer's segment arrives: what is sent at once.
    fn get(&mut self, text: &str) -> Vec<String> {
        let mut packet = self.packet(text);
        assert_eq!(self.host.receive(self.now, Port(0), &mut packet), Rx::Taken);
        self.sent()
    }

    fn write(&mut self, bytes: u64) -> Vec<String> {
        let socket = self.socket();
        assert_eq!(self.host.tcp_write(self.now, socket, bytes), Ok(bytes));
        self.sent()
    }

    fn read(&mut self) -> Vec<String> {
        let socket = self.socket();
        self.host.tcp_read(self.now, socket, u64::MAX).expect("a connection");
        self.sent()
    }

    /// The only connection.
    fn socket(&mut self) -> SocketId {
        let mut ids = self.host.tcp_connection_ids();
        *self.socket.get_or_insert_with(|| ids.next().expect("a connection"))
    }

    fn sent(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        self.host.grant(self.now, Port(0), 1);
        let mut packet = Packet::default();
        loop {
            match self.host.poll(self.now, &mut packet) {
                Poll::Idle(_) => return out,
                Poll::Send { port, .. } => {
                    out.push(self.describe(&packet));
                    self.host.credit(self.now, port);
                }
                Poll::Drop(_) | Poll::Ready(_) | Poll::Event(_) => {}
            }
        }
    }

    /// `[CODEPOINT] FLAGS SEQ:END(LENGTH) ack ACK`, with packetdrill's letters and relative numbers.
    fn describe(&mut self, packet: &Packet) -> String {
        let tcp = packet.tcp().expect("TCP");
        if tcp.flags.contains(TcpFlags::SYN) {
            self.iss = tcp.seq.0;
        }
        let seq = tcp.seq.0.wrapping_sub(self.iss);
        let codepoint = match packet.network.ecn() {
            Ecn::NotEct => "noecn",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        };
        let mut text = format!("[{codepoint}] ");
        text.extend(LETTERS.iter().filter(|(flag, _)| tcp.flags.contains(*flag)).map(|(_, c)| c));
        let len = packet.body.len;
        let _ = write!(text, " {seq}:{}({len})", seq + len);
        if tcp.flags.contains(TcpFlags::ACK) {
            let _ = write!(text, " ack {}", tcp.ack.0);
        }
        text
    }

    /// The packet that such a text means, from the peer.
    fn packet(&self, text: &str) -> Packet {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ecn = match words[0] {
            "[noecn]" => Ecn::NotEct,
            "[ect0]" => Ecn::Ect0,
            "[ce]" => Ecn::Ce,
            other => panic!("no codepoint: {other}"),
        };
        let flag = |letter| LETTERS.iter().find(|(_, c)| *c == letter).expect("a flag").0;
        let flags = words[1].chars().map(flag).fold(TcpFlags(0), |all, flag| all | flag);
        let (seq, rest) = words[2].split_once(':').expect("seq:end(len)");
        let len = rest.split(['(', ')']).nth(1).expect("a length").parse().expect("a number");
        let ack = words
            .get(4)
            .map_or(Seq(0), |ack| Seq(self.iss) + ack.parse::<u32>().expect("a number"));
        let options = if flags.contains(TcpFlags::SYN) {
            TcpOptions {
                mss: 1_000,
                sack_permitted: true,
                window_scale_plus_one: 8,
                ..TcpOptions::default()
            }
        } else {
            TcpOptions::default()
        };
        let tcp = Tcp {
            src_port: self.remote.port(),
            dst_port: self.local.port(),
            seq: Seq(seq.parse().expect("a number")),
            ack,
            flags,
            window: if flags.contains(TcpFlags::SYN) { 32_792 } else { 257 },
            urgent: 0,
            options,
        };
        let network = self.network(ecn);
        let meta = Meta { len: network.len() + 20 + tcp.options.len() + len, ..Meta::default() };
        Packet {
            link: LinkHeader::None,
            network,
            transport: Transport::Tcp(tcp),
            body: Body::of_len(len),
            meta: Meta { owner: Meta::NO_OWNER, ..meta },
            ..Packet::default()
        }
    }

    fn network(&self, ecn: Ecn) -> Network {
        match (self.remote.ip(), self.local.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Network::Ipv4(Ipv4 { tos: ecn as u8, ..Ipv4::new(src, dst, 6) })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => Network::Ipv6(Ipv6 {
                src,
                dst,
                traffic_class: ecn as u8,
                hop_limit: 64,
                next_header: 6,
                flow_label: datapath::packet::FlowLabel::default(),
            }),
            _ => unreachable!("one family"),
        }
    }
}

/// packetdrill's letters, in its order.
const LETTERS: [(TcpFlags, char); 7] = [
    (TcpFlags::FIN, 'F'),
    (TcpFlags::SYN, 'S'),
    (TcpFlags::RST, 'R'),
    (TcpFlags::PSH, 'P'),
    (TcpFlags::ECE, 'E'),
    (TcpFlags::CWR, 'W'),
    (TcpFlags::ACK, '.'),
];

/// a0496ef2c2: the exchange of its text. Both sides of the flip are acknowledged at once.
#[test]
fn a_flip_to_ce_acknowledges_old_and_new_data_at_once() {
    for addresses in [V4, V6] {
        let mut bench = Bench::dctcp(addresses, &config(Algorithm::Dctcp));
        assert_eq!(bench.get("[ect0] . 1:1001(1000) ack 1"), ["[ect0] . 1:1(0) ack 1001"]);
        assert_eq!(bench.write(1), ["[ect0] P. 1:2(1) ack 1001"]);
        assert_eq!(bench.get("[ect0] . 1001:2001(1000) ack 2"), [""; 0], "interactive: delayed");
        bench.at(205_000);
        assert_eq!(
            bench.get("[ce] . 2001:3001(1000) ack 2"),
            ["[ect0] . 2:2(0) ack 2001", "[ect0] E. 2:2(0) ack 3001"]
        );
        bench.at(700_000);
    }
}

/// 27cde44a25 and d2ccd7bc8a: the special ACK and the immediate one end neither the wait for the
/// delayed ACK of later data nor interactive mode, and grant no quick ACKs.
#[test]
fn a_flip_leaves_timer_and_interactive_mode_alone() {
    let mut bench = Bench::dctcp(V4, &config(Algorithm::Dctcp));
    assert_eq!(bench.get("[ect0] . 1:1001(1000) ack 1"), ["[ect0] . 1:1(0) ack 1001"]);
    assert_eq!(bench.write(1), ["[ect0] P. 1:2(1) ack 1001"]);
    assert_eq!(bench.get("[ect0] . 1001:2001(1000) ack 2"), [""; 0]);
    bench.at(205_000);
    assert_eq!(bench.get("[ce] . 2001:3001(1000) ack 2").len(), 2);
    bench.at(210_000);
    assert_eq!(bench.get("[ce] . 3001:4001(1000) ack 2"), [""; 0], "no quick ACK: still delayed");
    let delayed = bench.pass(300_000);
    assert_eq!(
        delayed,
        [(251_000, "[ect0] E. 2:2(0) ack 4001".to_owned())],
        "after 40 ms and a tick"
    );
}

/// Back from CE, with an ACK held back: the old mark for the old data, none for the new.
#[test]
fn a_flip_back_reports_the_old_mark_first() {
    let mut bench = Bench::dctcp(V4, &config(Algorithm::Dctcp));
    assert_eq!(bench.get("[ect0] . 1:1001(1000) ack 1"), ["[ect0] . 1:1(0) ack 1001"]);
    assert_eq!(bench.write(1), ["[ect0] P. 1:2(1) ack 1001"]);
    assert_eq!(bench.get("[ce] . 1001:2001(1000) ack 2"), ["[ect0] E. 2:2(0) ack 2001"]);
    assert_eq!(bench.get("[ce] . 2001:3001(1000) ack 2"), [""; 0]);
    assert_eq!(
        bench.get("[ect0] . 3001:4001(1000) ack 2"),
        ["[ect0] E. 2:2(0) ack 3001", "[ect0] . 2:2(0) ack 4001"]
    );
}

/// The exchange of b0c05d0e99, up to where its rule and today's part: a CE comes while no ACK is
/// held back, since the ACK rode on data.
fn until_ce(bench: &mut Bench) {
    assert_eq!(bench.get("[ect0] . 1:1001(1000) ack 1"), ["[ect0] . 1:1(0) ack 1001"]);
    assert_eq!(bench.write(1), ["[ect0] P. 1:2(1) ack 1001"]);
    assert_eq!(bench.get("[ect0] . 1001:2001(1000) ack 2"), [""; 0]);
    assert_eq!(bench.write(1), ["[ect0] P. 2:3(1) ack 2001"]);
    assert_eq!(bench.get("[ect0] . 2001:3001(1000) ack 3"), [""; 0]);
    assert_eq!(bench.get("[ect0] . 3001:4001(1000) ack 3"), ["[ect0] . 3:3(0) ack 4001"]);
    bench.at(210_000);
}

/// b0c05d0e99 under its own rule: the latest data is acknowledged, late but at all.
#[test]
fn the_rule_of_july_2018_delays_the_ack_of_the_new_data() {
    for addresses in [V4, V6] {
        let mut config = config(Algorithm::Dctcp);
        config.profile = Profile::linux_6_1().with_dctcp_ack(DctcpAck::DelayNew);
        let mut bench = Bench::dctcp(addresses, &config);
        until_ce(&mut bench);
        assert_eq!(bench.get("[ce] P. 4001:4501(500) ack 3"), [""; 0]);
        bench.at(211_000);
        assert_eq!(bench.read(), [""; 0]);
        assert_eq!(bench.write(1), ["[ect0] PE. 3:4(1) ack 4501"]);
        bench.at(221_000);
        assert_eq!(bench.get("[ect0] W. 4501:5501(1000) ack 4"), [""; 0]);
        let delayed = bench.pass(300_000);
        assert_eq!(delayed, [(262_000, "[ect0] . 4:4(0) ack 5501".to_owned())]);
        bench.at(572_000);
        assert_eq!(bench.get("[ect0] . 5501:6501(1000) ack 4"), ["[ect0] . 4:4(0) ack 6501"]);
    }
}

/// Its successor: the same segments under today's rule.
#[test]
fn the_same_exchange_is_acknowledged_at_once_today() {
    for addresses in [V4, V6] {
        let mut bench = Bench::dctcp(addresses, &config(Algorithm::Dctcp));
        until_ce(&mut bench);
        assert_eq!(bench.get("[ce] P. 4001:4501(500) ack 3"), ["[ect0] E. 3:3(0) ack 4501"]);
        bench.at(211_000);
        assert_eq!(bench.read(), [""; 0]);
        assert_eq!(bench.write(1), ["[ect0] PE. 3:4(1) ack 4501"]);
        bench.at(221_000);
        assert_eq!(
            bench.get("[ect0] W. 4501:5501(1000) ack 4"),
            ["[ect0] . 4:4(0) ack 5501"],
            "one ACK, and none for 4501, which was acknowledged with data"
        );
        bench.at(572_000);
        assert_eq!(bench.get("[ect0] . 5501:6501(1000) ack 4"), [""; 0], "still interactive");
        let delayed = bench.pass(700_000);
        assert_eq!(delayed, [(613_000, "[ect0] . 4:4(0) ack 6501".to_owned())]);
    }
}

/// Out-of-order data counts when it arrives.
#[test]
fn a_flip_by_out_of_order_data_is_reported() {
    let mut bench = Bench::dctcp(V4, &config(Algorithm::Dctcp));
    assert_eq!(bench.get("[ect0] . 1:1001(1000) ack 1"), ["[ect0] . 1:1(0) ack 1001"]);
    assert_eq!(bench.get("[ce] . 2001:3001(1000) ack 1"), ["[ect0] E. 1:1(0) ack 1001"]);
    assert_eq!(bench.get("[ect0] . 1001:2001(1000) ack 1"), ["[ect0] . 1:1(0) ack 3001"]);
}

/// RFC 3168 section 6.1.3 beside it: ECE on every ACK until CWR, and pure ACKs without ECT.
#[test]
fn the_rfc_3168_receiver_echoes_until_cwr() {
    let mut bench = Bench::listening(V4, &config(Algorithm::Cubic));
    bench.at(100_000);
    assert_eq!(bench.get("[noecn] SEW 0:0(0)"), ["[noecn] SE. 0:0(0) ack 1"]);
    bench.get("[noecn] . 1:1(0) ack 1");
    assert_eq!(bench.get("[ce] . 1:1001(1000) ack 1"), ["[noecn] E. 1:1(0) ack 1001"]);
    assert_eq!(bench.get("[ect0] . 1001:2001(1000) ack 1"), ["[noecn] E. 1:1(0) ack 2001"]);
    assert_eq!(bench.get("[ect0] W. 2001:3001(1000) ack 1"), ["[noecn] . 1:1(0) ack 3001"]);
    assert_eq!(bench.write(1_000), ["[ect0] P. 1:1001(1000) ack 3001"]);
    assert_eq!(
        bench.get("[ect0] E. 3001:3001(0) ack 1001"),
        [""; 0],
        "an echo with nothing in flight"
    );
    assert_eq!(bench.get("[ce] W. 3001:4001(1000) ack 1001"), ["[noecn] E. 1001:1001(0) ack 4001"]);
}

/// Who agrees to which SYN: `tcp_ecn`, the route's feature, the congestion control.
#[test]
fn ecn_is_agreed_to_as_configured() {
    let cubic = Algorithm::Cubic;
    for (syn, algorithm, tcp_ecn, route, answer) in [
        ("[noecn] SEW", cubic, 0, false, "[noecn] S."),
        ("[noecn] SEW", cubic, 1, false, "[noecn] SE."),
        ("[noecn] SEW", cubic, 2, false, "[noecn] SE."),
        ("[noecn] SEW", cubic, 0, true, "[noecn] SE."),
        ("[noecn] S", cubic, 1, true, "[noecn] S."),
        ("[ect0] SEW", cubic, 2, false, "[noecn] S."),
        ("[ect0] SEW", cubic, 1, true, "[noecn] S."),
        ("[ect0] SEW", Algorithm::Dctcp, 0, false, "[ect0] SE."),
        ("[noecn] SEW", Algorithm::Dctcp, 0, false, "[ect0] SE."),
        ("[noecn] S", Algorithm::Dctcp, 2, false, "[ect0] S."),
    ] {
        let mut config = config(algorithm);
        config.sysctl.tcp_ecn = tcp_ecn;
        let mut bench = Bench::listening(V4, &config);
        with_ecn_route(&mut bench, route);
        let expected = format!("{answer} 0:0(0) ack 1");
        assert_eq!(
            bench.get(&format!("{syn} 0:0(0)")),
            [expected],
            "{syn} {algorithm:?} {tcp_ecn}"
        );
    }
}

/// Who asks, and what a lost SYN is sent again as (`tcp_ecn_fallback`).
#[test]
fn ecn_is_asked_for_as_configured() {
    let (cubic, dctcp) = (Algorithm::Cubic, Algorithm::Dctcp);
    for (algorithm, tcp_ecn, route, fallback, first, second) in [
        (cubic, 0, false, 1, "[noecn] S", "[noecn] S"),
        (cubic, 2, false, 1, "[noecn] S", "[noecn] S"),
        (cubic, 1, false, 1, "[noecn] SEW", "[noecn] S"),
        (cubic, 1, false, 0, "[noecn] SEW", "[noecn] SEW"),
        (cubic, 2, true, 1, "[noecn] SEW", "[noecn] S"),
        (dctcp, 0, false, 1, "[ect0] SEW", "[ect0] S"),
        (dctcp, 2, false, 0, "[ect0] SEW", "[ect0] SEW"),
    ] {
        let mut config = config(algorithm);
        config.sysctl.tcp_ecn = tcp_ecn;
        config.sysctl.tcp_ecn_fallback = fallback;
        let mut bench = Bench::new(V4);
        with_ecn_route(&mut bench, route);
        bench
            .host
            .tcp_connect(bench.now, bench.local, bench.remote, &config)
            .expect("a port is free");
        assert_eq!(bench.sent(), [format!("{first} 0:0(0)")], "{algorithm:?} {tcp_ecn}");
        let again: Vec<String> = bench.pass(1_500_000).into_iter().map(|(_, text)| text).collect();
        assert_eq!(again, [format!("{second} 0:0(0)")], "{algorithm:?} {tcp_ecn}");
    }
}

/// RFC 8257 section 3.6 against RFC 3168 sections 6.1.4 and 6.1.5: ECT on pure ACKs,
/// retransmissions and FIN; and everything without it after falling back.
#[test]
fn every_packet_kind_has_its_codepoint() {
    struct Case {
        algorithm: Algorithm,
        tcp_ecn: u32,
        syn_ack: &'static str,
        name: &'static str,
        ack: &'static str,
        data: &'static str,
        again: &'static str,
        fin: &'static str,
    }
    let (noecn, ect0) = ("[noecn]", "[ect0]");
    for case in [
        Case {
            algorithm: Algorithm::Dctcp,
            tcp_ecn: 2,
            syn_ack: "SE.",
            name: "dctcp",
            ack: ect0,
            data: ect0,
            again: ect0,
            fin: ect0,
        },
        Case {
            algorithm: Algorithm::Dctcp,
            tcp_ecn: 2,
            syn_ack: "S.",
            name: "dctcp-reno",
            ack: noecn,
            data: noecn,
            again: noecn,
            fin: noecn,
        },
        Case {
            algorithm: Algorithm::Cubic,
            tcp_ecn: 1,
            syn_ack: "SE.",
            name: "cubic",
            ack: noecn,
            data: ect0,
            again: noecn,
            fin: noecn,
        },
    ] {
        let Case { algorithm, tcp_ecn, syn_ack, name, ack, data, again, fin } = case;
        let mut config = config(algorithm);
        config.sysctl.tcp_ecn = tcp_ecn;
        let mut bench = Bench::new(V4);
        bench
            .host
            .tcp_connect(bench.now, bench.local, bench.remote, &config)
            .expect("a port is free");
        bench.sent();
        bench.at(10_000);
        let acked = bench.get(&format!("[noecn] {syn_ack} 0:0(0) ack 1"));
        assert_eq!(acked, [format!("{ack} . 1:1(0) ack 1")], "{name}");
        let socket = bench.socket();
        let tcp = bench.host.tcp_connection(socket).expect("connected");
        assert_eq!(tcp.cc_name(), name);
        assert_eq!(bench.write(500), [format!("{data} P. 1:501(500) ack 1")], "{name}");
        let resent = bench.pass(400_000);
        assert!(!resent.is_empty(), "a probe, then a timeout");
        for (_, text) in &resent {
            assert!(text.starts_with(again), "{name}: {text}");
        }
        bench.host.tcp_shutdown(bench.now, socket).expect("a connection");
        let text = bench.sent().concat();
        assert!(text.starts_with(fin) || text.is_empty(), "{name}: {text}");
    }
}

/// The cut, its CWR, and a window that is not cut again before it is acknowledged whole.
#[test]
fn an_echo_reduces_once_a_window_and_is_answered_by_cwr() {
    let mut bench = Bench::dctcp(V4, &config(Algorithm::Dctcp));
    let cwnd = |bench: &mut Bench| {
        let socket = bench.socket();
        let info = bench.host.tcp_info(bench.now, socket).expect("connected");
        (info.snd_cwnd, info.snd_ssthresh)
    };
    assert_eq!(bench.write(20_000).len(), 10, "segments of the first window");
    assert_eq!(cwnd(&mut bench).0, 10);
    bench.at(210_000);
    let first = bench.get("[ect0] E. 1:1(0) ack 1001");
    assert_eq!(cwnd(&mut bench).1, 5, "alpha is 1: half");
    let flagged = |sent: &[String]| sent.iter().filter(|text| text.contains('W')).count();
    let mut cwr = flagged(&first);
    for acked in 2..=10 {
        cwr += flagged(&bench.get(&format!("[ect0] E. 1:1(0) ack {acked}001")));
        assert_eq!(cwnd(&mut bench).1, 5, "the same window");
    }
    assert_eq!(cwr, 1, "one CWR for one reduction");
    assert_eq!(cwnd(&mut bench).0, 5);
}

fn with_ecn_route(bench: &mut Bench, on: bool) {
    if on {
        let features = Features::ECN;
        let route = Route { features, ..Route::on_link(Prefix::host(bench.remote.ip()), 0) };
        bench.host.fib_mut().add(route).expect("a new route");
    }
}
