//! Tunnel devices: `ip tunnel add`, `ip link add … type gre`, and what they do to packets.
//!
//! A packet that is routed into a tunnel leaves the host at once, with headers around it; one that
//! arrives from the far end of a tunnel comes in on the tunnel's own interface.

use crate::ast::{GreSpec, IpInfo, Outer, TosSpec};
use crate::encap::{unwrapped, wrapped};
use core::net::IpAddr;
use datapath::node::Port;
use datapath::packet::{Network, Packet};

/// What a tunnel puts around packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// IPv4 or IPv6 in IP: `ipip`, `sit`, `ip6ip6`, `ipip6`.
    Plain,
    /// GRE: `gre`, `ip6gre`.
    Gre,
}

/// A tunnel device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its name.
    pub name: String,
    /// Its interface at the host.
    pub port: Port,
    /// What it puts around packets.
    pub mode: Mode,
    /// This end.
    pub local: IpAddr,
    /// The far end.
    pub remote: IpAddr,
    /// The GRE key.
    pub key: Option<u32>,
    /// The next GRE sequence number, if packets have one.
    pub sequence: Option<u32>,
    /// TTL of outer headers; 0: that of the packet.
    pub ttl: u8,
    /// TOS of outer headers, without ECN; `None`: that of the packet.
    pub tos: Option<u8>,
}

impl Tunnel {
    /// Reads the words behind `ip tunnel add` or `ip link add`. `local` is the host's own address.
    ///
    /// # Errors
    /// What is wrong, or not modelled.
    pub fn read(words: &[&str], port: Port, local: IpAddr) -> Result<Self, String> {
        let mut words = words.iter().copied().peekable();
        let (mut name, mut mode) = (None, None);
        let (mut own, mut remote, mut key, mut sequence) = (None, None, None, false);
        let (mut ttl, mut tos) = (0, Some(0));
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            let wrong = |value: &str| format!("`{word} {value}`");
            match word {
                "name" => name = Some(value()?.to_owned()),
                "mode" | "type" => {
                    mode = Some(match value()? {
                        "ipip" | "sit" | "ip6ip6" | "ipip6" | "ip6tnl" | "any" | "ipv6/ipv6"
                        | "ip/ipv6" | "ip/ip" | "ipv6/ip" => mode.unwrap_or(Mode::Plain),
                        "gre" | "ip6gre" => Mode::Gre,
                        other => return Err(format!("a tunnel of type `{other}`")),
                    });
                }
                "local" | "remote" => {
                    let text = value()?;
                    let address = match text {
                        "any" => None,
                        text => Some(text.parse::<IpAddr>().map_err(|_| wrong(text))?),
                    };
                    *(if word == "local" { &mut own } else { &mut remote }) = address;
                }
                "key" | "okey" | "ikey" => {
                    let text = value()?;
                    let number = text.parse::<u32>().ok();
                    let dotted = text.parse::<core::net::Ipv4Addr>().ok().map(u32::from);
                    key = Some(number.or(dotted).ok_or_else(|| wrong(text))?);
                }
                "seq" | "oseq" => sequence = true,
                "ttl" | "hoplimit" => {
                    let text = value()?;
                    ttl = match text {
                        "inherit" => 0,
                        text => text.parse().map_err(|_| wrong(text))?,
                    };
                }
                "tos" | "dsfield" | "tclass" => {
                    let text = value()?;
                    tos = match text {
                        "inherit" => None,
                        text => {
                            let hex = text.strip_prefix("0x").unwrap_or(text);
                            Some(u8::from_str_radix(hex, 16).map_err(|_| wrong(text))? & !3)
                        }
                    };
                }
                "dev" | "encaplimit" | "flowlabel" => {
                    value()?;
                }
                "pmtudisc" | "nopmtudisc" | "noencap" => {}
                word if name.is_none() => name = Some(word.to_owned()),
                word => return Err(format!("`{word}` of a tunnel")),
            }
        }
        let name = name.ok_or("a tunnel without a name")?;
        let remote = remote.ok_or("a tunnel without `remote`")?;
        let local = own.unwrap_or(local);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err("a tunnel between IPv4 and IPv6".to_owned());
        }
        let mode = mode.ok_or("a tunnel without `mode`")?;
        let sequence = sequence.then_some(0);
        Ok(Self { name, port, mode, local, remote, key, sequence, ttl, tos })
    }

    /// Bytes that it puts around a packet.
    pub fn overhead(&self) -> u32 {
        let gre = match self.mode {
            Mode::Plain => 0,
            Mode::Gre => {
                4 + 4 * u32::from(self.key.is_some()) + 4 * u32::from(self.sequence.is_some())
            }
        };
        gre + if self.local.is_ipv4() { 20 } else { 40 }
    }

    /// A packet of the host with the tunnel's headers around it.
    pub fn wrap(&mut self, inner: &Packet) -> Packet {
        let inner_tos = inner.network.tos();
        // RFC 6040 in the way that predates it, as Linux does: CE does not show outside.
        let ecn = if inner_tos & 3 == 3 { 2 } else { inner_tos & 3 };
        let dscp = self.tos.unwrap_or(inner_tos & !3);
        let ttl = if self.ttl == 0 { ttl_of(&inner.network) } else { self.ttl };
        let info = IpInfo { tos: TosSpec::Tos(dscp | ecn), ttl, flow_label: 0 };
        let mut layers = vec![match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => Outer::Ipv4(info, local, remote),
            (IpAddr::V6(local), IpAddr::V6(remote)) => Outer::Ipv6(info, local, remote),
            _ => unreachable!("both ends are of one family"),
        }];
        if self.mode == Mode::Gre {
            let flags = if self.key.is_some() { 0x2000 } else { 0 }
                | if self.sequence.is_some() { 0x1000 } else { 0 };
            layers.push(Outer::Gre(GreSpec {
                flags,
                sum: 0,
                offset: 0,
                key: self.key.unwrap_or(0),
                sequence: self.sequence.unwrap_or(0),
            }));
            self.sequence = self.sequence.map(|number| number.wrapping_add(1));
        }
        wrapped(inner, &layers)
    }

    /// The packet within one that came from the far end; `None` if it did not. One whose outer
    /// header says CE and whose own says that it cannot is dropped (RFC 6040 section 4.2): nothing.
    pub fn unwrap(&self, packet: &Packet) -> Option<Option<Packet>> {
        if packet.network.src() != Some(self.remote) || packet.network.dst() != Some(self.local) {
            return None;
        }
        let (layers, mut inner) = unwrapped(packet);
        let key = match layers.as_slice() {
            [_] if self.mode == Mode::Plain => None,
            [_, Outer::Gre(gre)] if self.mode == Mode::Gre => {
                (gre.flags & 0x2000 != 0).then_some(gre.key)
            }
            _ => return None,
        };
        if key != self.key {
            return None;
        }
        if packet.network.tos() & 3 == 3 && !inner.mark_ce() {
            return Some(None);
        }
        Some(Some(inner))
    }
}

const fn ttl_of(network: &Network) -> u8 {
    match network {
        Network::Ipv4(ip) => ip.ttl,
        Network::Ipv6(ip) => ip.hop_limit,
        Network::Other(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tunnel, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Tunnel::read(&words, Port(1), IpAddr::from([192, 168, 0, 1]))
    }

    #[test]
    fn the_words_of_ip() {
        let tunnel = read("gre1 mode gre remote 192.0.2.1 local 192.168.0.1 key 5 ttl 9 tos 0x10")
            .expect("a tunnel");
        assert_eq!((tunnel.mode, tunnel.key, tunnel.ttl), (Mode::Gre, Some(5), 9));
        assert_eq!((tunnel.tos, tunnel.overhead()), (Some(0x10), 28));
        let tunnel = read("name sit1 type sit remote 192.0.2.1").expect("a tunnel");
        assert_eq!((tunnel.name.as_str(), tunnel.mode), ("sit1", Mode::Plain));
        assert_eq!((tunnel.overhead(), tunnel.tos), (20, Some(0)));
        for text in [
            "x mode vti remote 192.0.2.1",
            "x mode gre",
            "x remote 192.0.2.1",
            "x mode gre remote 192.0.2.1 csum",
            "x mode gre remote ::1",
            "x mode gre remote 192.0.2.1 key",
            "mode gre remote 192.0.2.1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
