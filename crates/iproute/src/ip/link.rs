//! `ip link` and `ip address`: just enough to give a configuration its interfaces.

use super::names::{self, LOOPBACK, invalid};
use super::{Ip, IpResult, Options, verb};
use crate::words::{Result, Word, Words};
use core::net::{IpAddr, Ipv4Addr};
use datapath::fib::{FibError, Prefix, Protocol, Route, RouteType, Scope, TableId};

impl Ip {
    /// `ip link add [dev|name] NAME …`, `ip link set [dev] NAME up|down|carrier on|off`, `ip link show`.
    pub(super) fn link(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        match verb(words, "link", &["add", "set", "show"])? {
            "show" => return Ok(self.link_show(options)),
            "add" => {
                if !words.accept("dev") {
                    words.accept("name");
                }
                let name = words.next().ok_or_else(|| words.ended("a name is missing"))?;
                check_name(name)?;
                if self.devices.port(name.text).is_some() {
                    return Err(FibError::Exists.into());
                }
                self.devices.add(name.text);
            }
            _ => self.link_set(words)?,
        }
        Ok(String::new())
    }

    fn link_set(&mut self, words: &mut Words<'_>) -> IpResult<()> {
        words.accept("dev");
        let name = words.next().ok_or_else(|| words.ended("a device is missing"))?;
        let port = self.devices.read(name)?;
        let mut link = self.fib.link(port);
        while let Some(word) = words.next() {
            match word.text {
                "up" => link.up = true,
                "down" => link.up = false,
                "carrier" => {
                    let value = words.value(word)?;
                    link.carrier = match value.text {
                        "on" => true,
                        "off" => false,
                        _ => return Err(invalid(value, "must be \"on\" or \"off\"", None).into()),
                    };
                }
                _ => return Err(word.unknown("link set", &["up", "down", "carrier"]).into()),
            }
        }
        let was = self.fib.link(port);
        if was != link {
            self.fib.set_link(self.now, port, link);
        }
        Ok(())
    }

    /// `ip address add ADDR/LEN dev NAME`: the address becomes local, its prefix on-link.
    pub(super) fn address(&mut self, words: &mut Words<'_>) -> IpResult<String> {
        verb(words, "address", &["add"])?;
        let word = words.next().ok_or_else(|| words.ended("an address is missing"))?;
        let (addr, len) = names::loose_prefix(word, false)?;
        let dev = words.next().ok_or_else(|| words.ended("\"dev\" is missing"))?;
        if dev.text != "dev" {
            return Err(dev.unknown("address", &["dev"]).into());
        }
        let name = words.value(dev)?;
        let port = self.devices.read(name)?;
        let net = Prefix::containing(addr, len).ok_or(FibError::InvalidPrefix)?;
        self.refuse_same_address(addr, len, port)?;
        for route in routes_of_address(addr, net, port) {
            match self.fib.append(route) {
                // Another address has brought the same route along.
                Ok(()) | Err(FibError::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.devices.add_address(port, addr, len);
        Ok(String::new())
    }

    /// IPv4 knows an address of an interface by its length as well (`__inet_insert_ifa`), IPv6 does not
    /// (`ipv6_add_addr`).
    fn refuse_same_address(&self, addr: IpAddr, len: u8, port: u16) -> IpResult<()> {
        let same = |(there, its): &(IpAddr, u8)| *there == addr && (addr.is_ipv6() || *its == len);
        if self.devices.addresses(port).iter().any(same) {
            return Err(FibError::Exists.into());
        }
        Ok(())
    }
}

/// The address itself, what is on the link with it, and its broadcast (`fib_add_ifaddr`,
/// `addrconf_prefix_route`).
fn routes_of_address(addr: IpAddr, net: Prefix, port: u16) -> Vec<Route> {
    let local = Route::local(addr, port);
    let mut routes = vec![if addr.is_ipv4() {
        local
    } else {
        Route { scope: Scope::UNIVERSE, prefsrc: None, ..local }
    }];
    if !net.is_host() && port != LOOPBACK {
        let prefsrc = Some(addr).filter(IpAddr::is_ipv4);
        let metric = if addr.is_ipv4() { 0 } else { 256 };
        let route = Route::on_link(net, port);
        routes.push(Route { prefsrc, metric, protocol: Protocol::KERNEL, ..route });
    }
    if let (IpAddr::V4(v4), true) = (addr, net.len() < 31) {
        let last = Ipv4Addr::from_bits(v4.to_bits() | u32::MAX >> net.len());
        routes.push(Route {
            kind: RouteType::Broadcast,
            table: TableId::LOCAL,
            protocol: Protocol::KERNEL,
            prefsrc: Some(addr),
            ..Route::on_link(Prefix::host(last.into()), port)
        });
    }
    routes
}

/// Names that the kernel gives to an interface (`dev_valid_name`), but for `#`, which begins a
/// comment where lines are kept.
fn check_name(name: Word<'_>) -> Result<()> {
    let text = name.text;
    if text.len() > LONGEST_NAME || text.contains(['/', ':', '#']) || [".", ".."].contains(&text) {
        return Err(invalid(name, "\"dev\" not a valid ifname", None));
    }
    Ok(())
}

/// `IFNAMSIZ` without the zero at the end, bytes.
const LONGEST_NAME: usize = 15;
