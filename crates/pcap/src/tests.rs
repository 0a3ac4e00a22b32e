mod format;

use super::*;
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, FlowLabel, Icmp, Ipv4, Ipv6, LinkHeader, MacAddr, Meta, Network, SackBlock, SackList,
    Tcp, TcpFlags, TcpOptions, Timestamps, Transport, Udp, icmp, option_kind, protocol,
};
use datapath::units::Instant;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::{Command, Stdio};

fn read(bytes: &[u8]) -> Result<(Vec<Interface>, Vec<Record>), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok((reader.interfaces().to_vec(), records))
}

fn interface(name: &str, link_type: LinkType) -> Interface {
    Interface { name: Some(name.to_owned()), link_type, snap_len: 0 }
}

fn header(network: Network) -> Packet {
    Packet {
        link: LinkHeader::Ethernet {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
        },
        network,
        transport: Transport::None,
        body: Body::default(),
        meta: Meta::default(),
        ..Packet::default()
    }
}

fn ipv4(protocol: u8) -> Packet {
    header(Network::Ipv4(Ipv4 {
        tos: 2,
        id: 1,
        ..Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol)
    }))
}

fn ipv6(protocol: u8) -> Packet {
    header(Network::Ipv6(Ipv6 {
        src: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        dst: [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
        traffic_class: 0,
        hop_limit: 64,
        next_header: protocol,
        flow_label: FlowLabel::new(0xabcde),
    }))
}

fn with(packet: Packet, transport: Transport, len: u32) -> Packet {
    Packet { transport, body: Body::of_len(len), ..packet }.finish()
}

fn tcp(flags: TcpFlags, options: TcpOptions) -> Transport {
    Transport::Tcp(Tcp {
        src_port: 40000,
        dst_port: 5201,
        seq: Seq(1),
        ack: Seq(1),
        flags,
        window: 512,
        urgent: 0,
        options,
    })
}

/// One simulated packet of each kind.
fn menagerie() -> Vec<Packet> {
    let timestamps = Some(Timestamps { value: 3, echo: 4 });
    let syn = TcpOptions {
        mss: 1460,
        window_scale_plus_one: 8,
        sack_permitted: true,
        timestamps,
        ..TcpOptions::default()
    };
    let mut sack = SackList::EMPTY;
    for start in [3000, 6000, 9000] {
        sack.push(SackBlock { start: Seq(start), end: Seq(start + 1000) });
    }
    let data = TcpOptions { timestamps, ..TcpOptions::default() };
    let (ack, psh) = (TcpFlags::ACK, TcpFlags::PSH);
    let udp = Transport::Udp(Udp { src_port: 53, dst_port: 4000 });
    let echo = |kind| Transport::Icmp(Icmp { kind, code: 0, rest: 0x0001_0002 });

    let full = with(ipv4(protocol::TCP), tcp(ack | psh, data), 1448);
    let mut fast_open = with(ipv4(protocol::TCP), tcp(TcpFlags::SYN, syn), 0);
    assert!(fast_open.push_tcp_option(option_kind::FAST_OPEN, &[1, 2, 3, 4, 5, 6, 7, 8]));
    let mut big = with(ipv6(protocol::TCP), tcp(ack | psh, data), 3000);
    big.meta.gso_size = 1428;
    big.meta.gso_segs = 3;
    let mut tagged = full.clone();
    tagged.extra = Some(Box::default());
    tagged.extra.as_mut().expect("was just put there").vlan.push((0x8100, 42));
    let mut datagram = with(ipv4(protocol::UDP), udp, 3000);
    if let Network::Ipv4(ip) = &mut datagram.network {
        ip.dont_fragment = false;
    }
    let exceeded = Icmp { kind: icmp::kind::TIME_EXCEEDED, code: 0, rest: 0 };
    let too_big = Icmp { kind: icmp::kind_v6::PACKET_TOO_BIG, code: 0, rest: 1280 };
    let mut marked = full.clone();
    assert!(marked.mark_ce() && marked.dec_ttl());

    let mut packets = vec![
        with(ipv4(protocol::TCP), tcp(TcpFlags::SYN, syn), 0),
        with(ipv6(protocol::TCP), tcp(TcpFlags::SYN | ack, syn), 0),
        full.clone(),
        with(ipv6(protocol::TCP), tcp(ack, data), 1428),
        with(ipv4(protocol::TCP), tcp(ack, TcpOptions { sack, ..data }), 0),
        with(ipv4(protocol::TCP), tcp(ack, TcpOptions { mss: 536, ..TcpOptions::default() }), 1),
        with(ipv6(protocol::UDP), udp, 101),
        with(ipv4(protocol::ICMP), echo(icmp::kind::ECHO_REQUEST), 56),
        with(ipv6(protocol::ICMPV6), echo(icmp::kind_v6::ECHO_REPLY), 56),
        Packet::icmp_error(ipv4(protocol::ICMP).network, exceeded, &full, 548),
        Packet::icmp_error(ipv6(protocol::ICMPV6).network, too_big, &big, 1232),
        fast_open,
        tagged.finish(),
        marked,
    ];
    packets.extend(big.segment());
    packets.extend(datagram.fragment(1500).expect("may be fragmented"));
    packets
}

fn capture(packets: &[Packet], snap: Snap) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("writes");
    let ethernet = writer.add_interface(&interface("a to b", LinkType::ETHERNET)).expect("writes");
    let raw = writer.add_interface(&interface("tun", LinkType::RAW)).expect("writes");
    for (index, packet) in packets.iter().enumerate() {
        let at = Instant::from_nanos(1_000_000_001 * index as u64);
        let comment = (index % 3 == 0).then_some("dropped: QDISC_DROP");
        writer.write_packet(ethernet, at, packet, snap, comment).expect("writes");
        writer.write_packet(raw, at, packet, snap, None).expect("writes");
    }
    writer.finish().expect("writes")
}

#[test]
fn simulated_packets_come_back() {
    let packets = menagerie();
    for snap in [Snap::Headers, Snap::Bytes(100), Snap::Bytes(u32::MAX)] {
        let (interfaces, records) = read(&capture(&packets, snap)).expect("reads");
        assert_eq!(records.len(), 2 * packets.len());
        for (index, record) in records.iter().enumerate() {
            let packet = &packets[index / 2];
            assert_eq!(record.nanos, Some(1_000_000_001 * (index as u64 / 2)));
            let parsed = record.packet(&interfaces[record.interface]);
            let parsed = parsed.expect("a known link type").expect("parses");
            assert_eq!(parsed.len(), record.original_len);
            assert_eq!(parsed.network, packet.network);
            if record.interface == 0 && packet.link != LinkHeader::None {
                assert_eq!(record.original_len, packet.len());
                assert_eq!(record.comments.len(), usize::from(index / 2 % 3 == 0));
            }
        }
    }
}

/// A disk that fills up.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_whole_packets() {
    let mut disk = Full(Vec::new(), 1000);
    let mut writer = Writer::new(&mut disk).expect("fits");
    let tap = writer.add_interface(&interface("a", LinkType::ETHERNET)).expect("fits");
    let error = (0..100)
        .find_map(|nanos| writer.write_frame(tap, nanos, &[0; 60], 60, None).err())
        .expect("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("at byte "), "{error}");
    let (_, records) = read(&disk.0).expect("is whole");
    assert_eq!(records.len(), 9);
}

/// Wireshark finds nothing wrong with what we write.
#[test]
fn tshark_reads_our_files() {
    let fields = [
        "frame.number",
        "frame.time_epoch",
        "frame.len",
        "frame.comment",
        "frame.interface_name",
        "_ws.malformed",
        "_ws.expert.message",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
        "tcp.len",
    ];
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]);
    for checked in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"]
    {
        command.args(["-o", checked]);
    }
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let spawned =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut tshark) = spawned else {
        eprintln!("NOT TESTED: there is no tshark here, so nobody but us has read our captures");
        return;
    };
    let packets = menagerie();
    let file = capture(&packets, Snap::Bytes(u32::MAX));
    tshark.stdin.take().expect("is piped").write_all(&file).expect("tshark reads");
    let output = tshark.wait_with_output().expect("tshark ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut wrong = String::new();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    for row in &rows {
        // A checksum status of 0 is bad. Of a packet that an ICMP error quotes in part, tshark
        // sums up what is there, which cannot be right.
        let quotes = !(row[10].is_empty() && row[11].is_empty());
        let sums = [row[7], if quotes { "" } else { row[8] }, row[9], row[10], row[11]];
        let bad = sums.contains(&"0");
        let named = row[4] == "a to b" || row[4] == "tun";
        if !row[5].is_empty() || bad || !named || row[6].to_lowercase().contains("malformed") {
            writeln!(wrong, "{row:?}").expect("a string takes all");
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(wrong.is_empty(), "{wrong}{stderr}");
    assert_eq!(rows.len(), 2 * packets.len(), "{stderr}");
    // Every TCP checksum was looked at, and good.
    let tcp: Vec<_> = rows.iter().filter(|row| !row[12].is_empty()).map(|row| row[8]).collect();
    assert!(tcp.len() > 20 && tcp.iter().all(|status| *status == "1"), "{tcp:?}");
    assert!(rows[2][1].ends_with("1.000000001"), "{:?}", rows[2]);
    assert_eq!(rows[0][3], "dropped: QDISC_DROP");
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec(
            (any::<u64>(), prop::collection::vec(any::<u8>(), 0..80), 0u32..2000, any::<bool>(),
             prop::option::of("[ -~äß]{0,40}")),
            0..20,
        ),
    ) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let interfaces = [interface("a", LinkType::ETHERNET), interface("b", LinkType::RAW)];
        let taps = [0, 1].map(|index| writer.add_interface(&interfaces[index]).unwrap());
        let mut expected = Vec::new();
        for (nanos, bytes, more, second, comment) in frames {
            let original_len = bytes.len() as u32 + more;
            let tap = taps[usize::from(second)];
            writer.write_frame(tap, nanos, &bytes, original_len, comment.as_deref()).unwrap();
            let comments = comment.into_iter().collect();
            let interface = usize::from(second);
            expected.push(Record { interface, nanos: Some(nanos), bytes, original_len, comments });
        }
        let (seen, records) = read(&writer.finish().unwrap()).unwrap();
        prop_assert_eq!(&seen[..], &interfaces[..]);
        prop_assert_eq!(records, expected);
    }

    /// A damaged file gives records and then an error or the end; it never panics, and it never
    /// gives more than a frame's bytes for a frame.
    #[test]
    fn damage_is_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        old in any::<bool>(),
    ) {
        let mut file = if old {
            let file = format::Bytes::new(false).u32(&[0xa1b2_c3d4]).u16(&[2, 4]).u32(&[0, 0, 96, 1]);
            file.u32(&[1000, 5, 3, 60]).raw(&[7, 8, 9]).u32(&[1001, 9, 4, 4, 0]).out
        } else {
            capture(&menagerie(), Snap::Headers)
        };
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate(cut.index(file.len() + 1));
        if let Ok(reader) = Reader::new(&file[..]) {
            for record in reader.take_while(Result::is_ok).flatten() {
                prop_assert!(record.bytes.len() as u32 <= record.original_len);
            }
        }
    }
}
