//! A file that is sent comes out as it went in, whatever the wire does; and a run with bytes is the
//! run without.

mod two_hosts;

use core::num::NonZeroU32;
use datapath::host::Offloads;
use datapath::host::TcpRead;
use datapath::tcp::{Payload, WriteFlags};
use datapath::units::{Duration, Instant};
use proptest::prelude::*;
use two_hosts::{Impairments, Net, Setting};

/// How a file is sent and read.
#[derive(Clone, Copy, Debug, Default)]
struct TransferOptions {
    file_len: usize,
    /// The longest write and the longest read.
    write: usize,
    read: usize,
    /// Bytes of buffers; 0 = as the kernel chooses.
    send_buffer: u32,
    receive_buffer: u32,
    /// Now and then only a length is written: zeroes.
    lengths: bool,
    /// Now and then the last byte of a write is urgent, which the reader takes in line.
    urgent: bool,
    /// Now and then the reader rests, so that the window closes.
    rests: bool,
    /// Now and then the reader looks at what it is going to read.
    peeks: bool,
    /// Nothing but lengths: the same calls.
    without_bytes: bool,
    /// In the middle of all the receiver's window shrinks (`SO_RCVBUF`).
    shrinks: bool,
}

/// What came of it.
#[derive(Debug, PartialEq)]
struct Transfer {
    sent: Vec<u8>,
    received: Vec<u8>,
    digest: u64,
    packets: u64,
    at: Instant,
}

const LONG: Duration = Duration::from_secs(2_000);

fn transfer(setting: Setting, manners: TransferOptions) -> Transfer {
    let mut net = Net::new(setting);
    let mut config = net.hosts[0].tcp_defaults();
    config.send_buffer = NonZeroU32::new(manners.send_buffer);
    config.receive_buffer = NonZeroU32::new(manners.receive_buffer);
    config.socket.oob_inline = true;
    let listener = net.hosts[1].tcp_listen(net.now, net.address(1, 80), &config);
    net.turn(1);
    let (local, remote) = (net.address(0, 4_000), net.address(1, 80));
    let client = net.hosts[0].tcp_connect(net.now, local, remote, &config).expect("a port");
    net.turn(0);
    let mut file: Vec<u8> = Vec::with_capacity(manners.file_len);
    let mut words = 88_172_645_463_325_252_u64;
    file.resize_with(manners.file_len, || {
        words = words.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (words >> 56) as u8
    });
    let mut choices = Choices(setting.seed ^ 0x5555);
    let (mut server, mut written, mut received) = (None, 0, Vec::new());
    let mut buffer = vec![0xee; manners.read];
    let (mut ended, mut rests_until) = (false, Instant::ZERO);
    let limit = net.now + LONG;
    while !ended {
        server = server.or_else(|| net.hosts[1].tcp_accept(listener).expect("a listener"));
        while written < file.len() {
            let end = (written + 1 + choices.below(manners.write as u64) as usize).min(file.len());
            let only_length = manners.lengths && choices.one_in(5);
            if only_length {
                file[written..end].fill(0);
            }
            let flags = WriteFlags {
                more: choices.one_in(10),
                out_of_band: manners.urgent && choices.one_in(10),
                ..WriteFlags::default()
            };
            let payload = if only_length || manners.without_bytes {
                Payload::Length((end - written) as u64)
            } else {
                Payload::Bytes(&file[written..end])
            };
            let write = net.hosts[0]
                .with_tcp(net.now, client, |tcp, cx| tcp.write_with(payload, flags, cx));
            let taken = write.unwrap_or(0) as usize;
            written += taken;
            net.turn(0);
            if taken < end - (written - taken) {
                break;
            }
        }
        if written == file.len() {
            net.hosts[0].tcp_shutdown(net.now, client).expect("it is open");
            net.turn(0);
            written += 1;
        }
        while let Some(server) = server.filter(|_| rests_until <= net.now) {
            let room = 1 + choices.below(manners.read as u64) as usize;
            let mut peeked = None;
            if manners.peeks && choices.one_in(4) {
                let mut memory = vec![0xee; room];
                let seen =
                    net.hosts[1].with_tcp(net.now, server, |tcp, _| tcp.peek_into(&mut memory));
                memory.truncate(seen.unwrap_or(0) as usize);
                peeked = Some(memory);
            }
            let read = net.hosts[1].tcp_receive(net.now, server, &mut buffer[..room]);
            let read = read.unwrap_or(TcpRead::Reset);
            net.turn(1);
            match read {
                TcpRead::Data(len) => {
                    let came = &buffer[..len as usize];
                    if let Some(peeked) = peeked {
                        assert!(came.starts_with(&peeked), "what was seen is what is read");
                    }
                    received.extend_from_slice(came);
                }
                TcpRead::Eof => {
                    ended = true;
                    break;
                }
                TcpRead::WouldBlock => break,
                TcpRead::Reset => panic!("reset after {} of {}", received.len(), file.len()),
            }
            if manners.rests && choices.one_in(20) {
                rests_until = net.now + Duration::from_millis(choices.below(3_000));
            }
            if manners.shrinks && choices.one_in(30) {
                let set = net.hosts[1].with_tcp(net.now, server, |tcp, _| tcp.set_rcvbuf(4_608));
                set.expect("the reader has not closed it");
                net.turn(1);
            }
        }
        if !net.step(limit.min(rests_until.max(net.now + Duration::from_millis(1)))) {
            net.now = net.now.max(rests_until.min(limit)).max(net.now + Duration::from_millis(1));
            assert!(net.now < limit, "{} of {} bytes came", received.len(), file.len());
        }
    }
    let server = server.expect("it was accepted");
    let at = net.now;
    for (host, socket) in [(0, client), (1, server)] {
        net.hosts[host].tcp_close(net.now, socket).expect("it is open");
        net.turn(host);
    }
    while net.step(limit + LONG) {}
    assert_eq!(net.devices.held(), 0, "frames are held by nobody");
    for host in &net.hosts {
        assert_eq!(host.tcp_connections().count(), 0, "a connection is left");
    }
    Transfer { sent: file, received, digest: net.digest, packets: net.packets, at }
}

struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        (self.0 >> 33) % limit.max(1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn trouble() -> impl Strategy<Value = Impairments> {
    let rate = || prop_oneof![3 => Just(0u32), 2 => 1u32..80];
    (rate(), rate(), rate(), rate(), rate()).prop_map(
        |(loss, duplication, corruption, reordering, marks)| Impairments {
            loss,
            duplication,
            corruption,
            reordering,
            marks,
        },
    )
}

fn setting() -> impl Strategy<Value = Setting> {
    let offloads = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(gso, tso, gro)| Offloads { gso, tso, gro });
    (any::<u64>(), trouble(), 576u32..2_000, offloads, any::<bool>()).prop_map(
        |(seed, trouble, mtu, offloads, v6)| Setting {
            seed,
            trouble,
            mtu: if v6 { mtu.max(1_280) } else { mtu },
            offloads,
            v6,
            as_bytes: true,
        },
    )
}

fn manners() -> impl Strategy<Value = TransferOptions> {
    let sizes = prop_oneof![Just(0u32), 4_608u32..100_000];
    let flags = any::<[bool; 6]>();
    let longest = || prop_oneof![1usize..100, 100usize..5_000, 5_000usize..100_000];
    (0usize..200_000, longest(), longest(), sizes.clone(), sizes, flags).prop_map(
        |(file_len, write, read, send_buffer, receive_buffer, flags)| {
            let [lengths, urgent, rests, peeks, shrinks, _] = flags;
            TransferOptions {
                // Byte by byte goes slowly.
                file_len: file_len.min(400 * write.min(read)),
                write,
                read,
                send_buffer,
                receive_buffer,
                lengths,
                urgent,
                rests,
                peeks,
                without_bytes: false,
                shrinks,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Over a wire with every kind of trouble, where all packets are bytes.
    #[test]
    fn a_file_arrives_as_it_was_sent(setting in setting(), manners in manners()) {
        let came = transfer(setting, manners);
        prop_assert_eq!(came.received.len(), came.sent.len());
        prop_assert!(came.received == came.sent);
    }

    /// Packets handed over: with bytes and without, the same packets leave at the same times.
    #[test]
    fn a_run_with_bytes_is_the_run_without(setting in setting(), manners in manners()) {
        let setting = Setting { as_bytes: false, ..setting };
        let with = transfer(setting, manners);
        prop_assert!(with.received == with.sent);
        let without = transfer(setting, TransferOptions { without_bytes: true, ..manners });
        prop_assert!(without.received.iter().all(|byte| *byte == 0));
        prop_assert_eq!((with.digest, with.packets, with.at), (without.digest, without.packets, without.at));
        prop_assert_eq!(with.received.len(), without.received.len());
    }
}
