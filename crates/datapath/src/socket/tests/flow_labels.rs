//! Flow labels that are given back, and what they decide.

use super::*;
use crate::packet::{FlowLabel, Network};

/// A packet as the peer sends it, with this flow label.
fn labelled(mut packet: Packet, label: u32) -> Packet {
    if let Network::Ipv6(ip) = &mut packet.network {
        ip.flow_label = FlowLabel::new(label);
    }
    packet
}

fn label_of(packet: &Packet) -> u32 {
    match packet.network {
        Network::Ipv6(ip) => ip.flow_label.get(),
        _ => panic!("IPv6"),
    }
}

impl Pair {
    /// Hands packets of the client to the server with this label; gives those that the server answers with.
    fn answers(&mut self, packets: Vec<Packet>, label: u32) -> Vec<Packet> {
        self.cut = [true, true];
        for packet in packets {
            let mut packet = labelled(packet, label);
            assert_eq!(self.hosts[SERVER].receive(self.now, Port(0), &mut packet), Rx::Taken);
            self.settle();
        }
        self.sent(SERVER)
    }
}

/// `net.ipv6.flowlabel_reflect`, as Linux 6.18 was seen to do it. Of connections it counts what the sysctl was when the
/// listener was made.
#[test]
fn a_connection_has_the_label_of_its_peer() {
    for (reflect, later, reflects) in [("0", "1", false), ("1", "0", true), ("6", "7", false)] {
        let mut pair = Pair::new();
        let v6 =
            Syscall::Socket { domain: number::AF_INET6, kind: number::SOCK_STREAM, protocol: 0 };
        pair.sysctl(SERVER, "net.ipv6.flowlabel_reflect", reflect);
        assert_eq!(pair.value(SERVER, v6.clone()), Ok(3));
        pair.sysctl(SERVER, "net.ipv6.flowlabel_reflect", later);
        assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: address("[::]:80") }), Ok(0));
        assert_eq!(pair.value(SERVER, Syscall::Listen { fd: 3, backlog: 1 }), Ok(0));
        pair.cut = [true, true];
        assert_eq!(pair.value(CLIENT, v6), Ok(3));
        let connect = Syscall::Connect { fd: 3, address: address("[fd00::1]:80") };
        let (mut call, _) = pair.begin(CLIENT, connect);
        let syn = pair.sent(CLIENT);
        let syn_ack = pair.answers(syn, 0x11111).pop().expect("a SYN-ACK");
        let own = label_of(&syn_ack);
        assert_eq!(own == 0x11111, reflects, "{reflect}");
        let mut arriving = syn_ack;
        assert_eq!(pair.hosts[CLIENT].receive(pair.now, Port(0), &mut arriving), Rx::Taken);
        pair.settle();
        assert_eq!(pair.again(CLIENT, &mut call), Poll::Ready(Ok(Return::value(0))));
        let ack = pair.sent(CLIENT);
        assert_eq!(pair.answers(ack, 0x22222).len(), 0);
        let expected = if reflects { 0x22222 } else { own };
        assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
        assert_eq!(pair.value(CLIENT, Syscall::write(3, 100)), Ok(100));
        let data = pair.sent(CLIENT);
        pair.answers(data, 0x33333);
        assert_eq!(pair.value(SERVER, Syscall::write(4, 10)), Ok(10));
        let sent = pair.sent(SERVER);
        assert_eq!(sent.iter().map(label_of).collect::<Vec<_>>(), [expected], "{reflect}");
    }
}

/// Resets for no socket and echo replies: by themselves they are labelled by addresses and ports, whatever has come.
#[test]
fn resets_and_echo_replies_have_the_label_of_what_they_answer() {
    for (reflect, [reset, echo]) in
        [("0", [false, false]), ("2", [true, false]), ("4", [false, true]), ("1", [false, false])]
    {
        let mut pair = Pair::new();
        pair.sysctl(SERVER, "net.ipv6.flowlabel_reflect", reflect);
        pair.cut = [true, true];
        let v6 =
            Syscall::Socket { domain: number::AF_INET6, kind: number::SOCK_STREAM, protocol: 0 };
        assert_eq!(pair.value(CLIENT, v6), Ok(3));
        let _ = pair.begin(CLIENT, Syscall::Connect { fd: 3, address: address("[fd00::1]:9") });
        let syn = pair.sent(CLIENT);
        let remote = "fd00::1".parse().expect("an address");
        let ping = pair.hosts[CLIENT].ping_open(pair.now);
        pair.hosts[CLIENT].ping_send(pair.now, ping, remote, 1, 8, 0).expect("a route");
        pair.settle();
        let request = pair.sent(CLIENT);
        for (asked, reflects) in [(syn, reset), (request, echo)] {
            let mut labels = [0x12345, 0x54321, 0].map(|label| {
                let answers = pair.answers(asked.clone(), label);
                answers.iter().map(label_of).collect::<Vec<_>>()
            });
            let own = labels[2].clone();
            assert!(own.len() == 1 && own[0] != 0);
            if !reflects {
                assert_eq!(labels, [own.clone(), own.clone(), own], "{reflect}");
                continue;
            }
            labels[2].clear();
            assert_eq!(labels, [vec![0x12345], vec![0x54321], vec![]], "{reflect}");
        }
    }
}
