//! The flow labels that datagrams over IPv6 get by themselves (`ip6_make_flowlabel`): of those between the same ends the
//! same, so that routers which heed labels keep them on one path.

use super::UdpSocket;
use crate::host::Host;
use crate::packet::{FlowLabel, Network};
use crate::rng::drawn;
use crate::tcp::config::Sysctl;
use core::net::{IpAddr, SocketAddr};

impl Host {
    /// The label of what goes from `src` to `dst` without having been given one. `asked` is what the socket says
    /// (`IPV6_AUTOFLOWLABEL`), if it says something; `hash` that of a socket that was connected, 0 of any other.
    pub(in crate::host) fn auto_label(
        &self,
        src: SocketAddr,
        dst: SocketAddr,
        protocol: u8,
        asked: Option<bool>,
        hash: u32,
    ) -> FlowLabel {
        let hash = if hash == 0 { hash_of(src, dst, protocol) } else { hash };
        match &self.tcp {
            Some(stack) => stack.defaults.sysctl.flow_label(hash, asked),
            // A host that has never heard of TCP has the sysctls that all have.
            None => Sysctl::default().flow_label(hash, asked),
        }
    }
}

impl Host {
    /// Labels an answer to `asked`: as that, if `reflects` has a bit of `flowlabel_reflect` and it had a label; else by
    /// itself.
    pub(in crate::host) fn label_answer(
        &self,
        answer: &mut Network,
        ports: [u16; 2],
        asked: FlowLabel,
        reflects: u32,
    ) {
        let Network::Ipv6(ip) = answer else { return };
        if asked != FlowLabel::NONE && reflects != 0 {
            ip.flow_label = asked;
            return;
        }
        let src = SocketAddr::new(ip.src.into(), ports[0]);
        let dst = SocketAddr::new(ip.dst.into(), ports[1]);
        ip.flow_label = self.auto_label(src, dst, ip.next_header, None, 0);
    }

    /// Bits of `net.ipv6.flowlabel_reflect`.
    pub(in crate::host) fn flow_labels_reflected(&self) -> u32 {
        self.tcp.as_ref().map_or(0, |stack| stack.defaults.sysctl.flowlabel_reflect)
    }
}

impl UdpSocket {
    /// It is connected: a new hash stands for all that it sends from now on (`sk_set_txhash`), also to others.
    pub(in crate::host) fn draw_hash(&mut self, peer: SocketAddr) {
        self.hash = drawn(u64::from(self.hash) << 32 | u64::from(hash_of(self.local, peer, 0)));
    }
}

/// Of ends and protocol, as `skb_get_hash_flowi6` has it in the place of a socket's own.
fn hash_of(src: SocketAddr, dst: SocketAddr, protocol: u8) -> u32 {
    let ports = u64::from(src.port()) << 16 | u64::from(dst.port());
    [src, dst].iter().fold(drawn(ports << 8 | u64::from(protocol)), |hash, end| {
        let IpAddr::V6(addr) = end.ip() else { return hash };
        let bits = addr.to_bits();
        [(bits >> 64) as u64, bits as u64]
            .iter()
            .fold(hash, |hash, half| drawn(half ^ u64::from(hash)))
    })
}
