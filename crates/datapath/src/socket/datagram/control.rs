//! Control messages of datagrams: what goes with one that is sent (`ip_cmsg_send`, `ip6_datagram_send_ctl`,
//! `udp_cmsg_send`), and what is told of one that is read (`ip_cmsg_recv_offset`, `ip6_datagram_recv_ctl`).

use super::DatagramSocket;
use crate::host::{Datagram, Host, IpcmCookie};
use crate::packet::tos_to_priority;
use crate::socket::argument::Control;
use crate::socket::errno::Errno;
#[allow(clippy::wildcard_imports, reason = "many names, each of them plain")]
use crate::socket::number::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a read tells of each datagram, over IPv4 and over IPv6: each is asked for apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestedControls {
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`.
    pub pktinfo: [bool; 2],
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    pub ttl: [bool; 2],
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    pub tos: [bool; 2],
    /// `IP_RECVORIGDSTADDR`, `IPV6_RECVORIGDSTADDR`.
    pub origdstaddr: [bool; 2],
}

impl RequestedControls {
    /// The switch of that option.
    pub fn switch(&mut self, level: i32, name: i32) -> Option<&mut bool> {
        Some(match (level, name) {
            (SOL_IP, IP_PKTINFO) => &mut self.pktinfo[0],
            (SOL_IPV6, IPV6_RECVPKTINFO) => &mut self.pktinfo[1],
            (SOL_IP, IP_RECVTTL) => &mut self.ttl[0],
            (SOL_IPV6, IPV6_RECVHOPLIMIT) => &mut self.ttl[1],
            (SOL_IP, IP_RECVTOS) => &mut self.tos[0],
            (SOL_IPV6, IPV6_RECVTCLASS) => &mut self.tos[1],
            (SOL_IP, IP_RECVORIGDSTADDR) => &mut self.origdstaddr[0],
            (SOL_IPV6, IPV6_RECVORIGDSTADDR) => &mut self.origdstaddr[1],
            _ => return None,
        })
    }
}

/// What control messages ask of a datagram to `remote`. Those of the other family are not looked at, but that an IPv6
/// socket may name the IPv4 address that it sends from as a mapped one.
pub(super) fn sent(
    host: &Host,
    control: &[Control],
    remote: IpAddr,
    cookie: &mut IpcmCookie,
) -> Result<(), Errno> {
    for message in control {
        match (*message, remote) {
            (Control::TimestampingFlags(_) | Control::TcpInq(_), _) => {}
            (Control::Other { level: SOL_SOCKET, kind, value }, _) => match kind {
                SO_MARK => cookie.mark = Some(value as u32),
                SO_PRIORITY => cookie.priority = Some(value as u32),
                SCM_RIGHTS | SCM_CREDENTIALS => {}
                _ => return Err(Errno::EINVAL),
            },
            (Control::UdpSegment(size), _) => cookie.gso_size = size,
            (Control::Other { level: SOL_UDP, .. } | Control::UdpGro(_), _) => {
                return Err(Errno::EINVAL);
            }
            (message, IpAddr::V4(_)) => sent_ipv4(host, message, cookie)?,
            (message, IpAddr::V6(_)) => sent_ipv6(host, message, cookie)?,
        }
    }
    Ok(())
}

fn sent_ipv4(host: &Host, message: Control, cookie: &mut IpcmCookie) -> Result<(), Errno> {
    match message {
        Control::IpTtl(ttl) => cookie.ttl = Some(byte_from(ttl, 1)?),
        Control::IpTos(tos) => {
            cookie.tos = Some(tos);
            cookie.priority = Some(tos_to_priority(tos));
        }
        Control::IpPktInfo { interface, spec_dst, .. } => {
            there(host, interface)?;
            cookie.source = named(IpAddr::V4(spec_dst));
            // The route to the destination is asked for with this source.
            if cookie.source.is_some_and(|ip| !host.is_local_address(ip)) {
                return Err(Errno::ENETUNREACH);
            }
        }
        Control::Ipv6PktInfo { interface, addr } => {
            if let Some(mapped) = addr.to_ipv4_mapped() {
                there(host, interface)?;
                cookie.source = named(IpAddr::V4(mapped));
            }
        }
        Control::Other { level: SOL_IP, .. }
        | Control::IpOrigDstAddr(_)
        | Control::ExtendedError(_) => return Err(Errno::EINVAL),
        _ => {}
    }
    Ok(())
}

fn sent_ipv6(host: &Host, message: Control, cookie: &mut IpcmCookie) -> Result<(), Errno> {
    match message {
        Control::Ipv6HopLimit(-1) => cookie.ttl = None,
        Control::Ipv6HopLimit(hops) => cookie.ttl = Some(byte_from(hops, 0)?),
        // As the kernel does: it is not the default, as it is of the option, but all bits.
        Control::Ipv6TrafficClass(-1) => cookie.tos = Some(u8::MAX),
        Control::Ipv6TrafficClass(class) => cookie.tos = Some(byte_from(class, 0)?),
        Control::Ipv6PktInfo { interface, addr } => {
            there(host, interface)?;
            cookie.source = named(IpAddr::V6(addr));
            if cookie.source.is_some_and(|ip| !host.is_local_address(ip)) {
                return Err(Errno::EINVAL);
            }
        }
        Control::Other { level: SOL_IPV6, kind: IPV6_DONTFRAG, value } => {
            cookie.dont_fragment = value != 0;
        }
        Control::Other { level: SOL_IPV6, .. } | Control::Ipv6OrigDstAddr(_) => {
            return Err(Errno::EINVAL);
        }
        _ => {}
    }
    Ok(())
}

fn byte_from(value: i32, least: u8) -> Result<u8, Errno> {
    u8::try_from(value).ok().filter(|value| *value >= least).ok_or(Errno::EINVAL)
}

/// An address, unless it is that of all.
fn named(ip: IpAddr) -> Option<IpAddr> {
    Some(ip).filter(|ip| !ip.is_unspecified())
}

/// The interface exists, or none is meant. Which one it is decides nothing here: routes do.
fn there(host: &Host, interface: u32) -> Result<(), Errno> {
    if interface == 0 || host.has_interface(interface) { Ok(()) } else { Err(Errno::ENODEV) }
}

impl DatagramSocket {
    /// What is told of a datagram that is read. An IPv6 socket tells both families' of what came over IPv4, as far as
    /// there is an IPv4 form.
    pub(super) fn control_messages(&self, host: &Host, datagram: &Datagram) -> Vec<Control> {
        let requested = &self.settings.requested;
        let interface = || host.interface_towards(datagram.from.ip());
        let mut control = Vec::new();
        if datagram.gso_size != 0 && self.settings.gro() {
            control.push(Control::UdpGro(datagram.gso_size.into()));
        }
        if self.ipv6 && requested.pktinfo[1] {
            let addr = mapped(datagram.to);
            control.push(Control::Ipv6PktInfo { addr, interface: interface() });
        }
        let port = self.host_socket(host).map_or(0, |socket| socket.local.port());
        match datagram.to {
            IpAddr::V4(addr) => {
                if requested.pktinfo[0] {
                    let (spec_dst, interface) = (addr, interface());
                    control.push(Control::IpPktInfo { interface, spec_dst, addr });
                }
                if requested.ttl[0] {
                    control.push(Control::IpTtl(datagram.ttl.into()));
                }
                if requested.tos[0] {
                    control.push(Control::IpTos(datagram.tos));
                }
                if requested.origdstaddr[0] {
                    control.push(Control::IpOrigDstAddr(SocketAddr::new(addr.into(), port)));
                }
            }
            IpAddr::V6(addr) => {
                if requested.ttl[1] {
                    control.push(Control::Ipv6HopLimit(datagram.ttl.into()));
                }
                if requested.tos[1] {
                    control.push(Control::Ipv6TrafficClass(datagram.tos.into()));
                }
                if requested.origdstaddr[1] {
                    control.push(Control::Ipv6OrigDstAddr(SocketAddr::new(addr.into(), port)));
                }
            }
        }
        control
    }
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::to_ipv6_mapped(&ip),
        IpAddr::V6(ip) => ip,
    }
}
