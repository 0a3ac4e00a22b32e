//! `ip address`: addresses of interfaces, and the routes that they bring along.

mod remove;

use super::link::read_shown;
use super::names::{self, Devices, LOOPBACK};
use super::{Ip, IpResult, Options, json, verb};
use crate::words::Words;
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::source::Own;
use datapath::fib::{FibError, Prefix, Protocol, Route, RouteType, Scope, TableId};
use datapath::packet::broadcast;

impl Ip {
    /// `ip address add|del ADDR[/LEN] dev NAME`, `ip address show [[dev] NAME]`.
    pub(super) fn address(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        match verb(words, "address", &["add", "show", "del"])? {
            "show" => self.address_show(words, options),
            "del" => self.address_del(words, options.family()),
            _ => self.address_add(words, options.family()),
        }
    }

    /// `ADDR[/LEN] dev NAME`; was a length said?
    fn read_address(&self, words: &mut Words<'_>, family: Option<bool>) -> IpResult<(Own, bool)> {
        let word = words.next().ok_or_else(|| words.unexpected_end("an address is missing"))?;
        let (addr, len) = names::loose_prefix(word, family)?;
        let dev = words.next().ok_or_else(|| words.unexpected_end("\"dev\" is missing"))?;
        if dev.text != "dev" {
            return Err(dev.unknown("address", &["dev"]).into());
        }
        let port = self.devices.read(words.value(dev)?)?;
        Ok((Own { port, addr, len }, word.text.contains('/')))
    }

    /// The address becomes local, its prefix on-link.
    fn address_add(&mut self, words: &mut Words<'_>, family: Option<bool>) -> IpResult<String> {
        let (Own { port, addr, len }, _) = self.read_address(words, family)?;
        let net = Prefix::containing(addr, len).ok_or(FibError::InvalidPrefix)?;
        self.refuse_same_address(addr, len, port)?;
        let primary = self.devices.primary(port, addr, len);
        for route in routes_of_address(addr, net, port, primary) {
            match self.fib.append(route) {
                // Another address has brought the same route along.
                Ok(()) | Err(FibError::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.devices.add_address(port, addr, len);
        self.fib.add_addresses(core::iter::once(Own { port, addr, len }), self.devices.own());
        Ok(String::new())
    }

    fn address_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let family = options.family();
        let ports: Vec<u16> = match read_shown(words, "address", &self.devices)? {
            Some(port) => vec![port],
            None => core::iter::once(LOOPBACK)
                .filter(|_| !self.devices.addresses(LOOPBACK).is_empty())
                .chain(self.devices.ports())
                .filter(|&port| is_shown(&self.devices, port, family))
                .collect(),
        };
        if options.json {
            let item = |&port: &u16| {
                let info = info(&self.devices, port, family);
                self.link_object(port).raw("addr_info", &info).finish()
            };
            return Ok(json::list(&ports.iter().map(item).collect::<Vec<_>>()));
        }
        if options.brief {
            let line = |&port: &u16| {
                format!("{}{}\n", self.brief_head(port), brief(&self.devices, port, family))
            };
            return Ok(ports.iter().map(line).collect());
        }
        let lines = |&port: &u16| self.link_line(port) + &lines(&self.devices, port, family);
        Ok(ports.iter().map(lines).collect())
    }

    /// IPv4 knows an address of an interface by its length as well (`__inet_insert_ifa`), IPv6 does not
    /// (`ipv6_add_addr`).
    fn refuse_same_address(&self, addr: IpAddr, len: u8, port: u16) -> IpResult<()> {
        let same = |(there, its): &(IpAddr, u8)| *there == addr && (addr.is_ipv6() || *its == len);
        // Few have an address twice, and many interfaces have many.
        if self.devices.owners(addr).any(|owner| owner == port)
            && self.devices.addresses(port).iter().any(same)
        {
            return Err(FibError::Exists.into());
        }
        Ok(())
    }
}

/// The address itself, what is on the link with it, and its broadcast (`fib_add_ifaddr`,
/// `addrconf_prefix_route`). An IPv4 address behind another one of its network has the source of that one, and
/// brings nothing else along.
fn routes_of_address(addr: IpAddr, net: Prefix, port: u16, primary: Option<IpAddr>) -> Vec<Route> {
    let local = Route::local(addr, port);
    if primary.is_some() {
        return vec![Route { prefsrc: primary, ..local }];
    }
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
    if let IpAddr::V4(v4) = addr
        && let Some(last) = broadcast(v4, net.len())
    {
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

/// With `-4` and `-6` (`family`: is it IPv6?) an interface without such an address is left out.
pub(super) fn is_shown(devices: &Devices, port: u16, family: Option<bool>) -> bool {
    family.is_none() || shown(devices, port, family).next().is_some()
}

/// What stands below an interface: a line for each address, as `ip address show` has it.
pub(super) fn lines(devices: &Devices, port: u16, family: Option<bool>) -> String {
    let mut out = String::new();
    for AddressLine { addr, len, scope, secondary } in shown(devices, port, family) {
        let secondary = if secondary { " secondary" } else { "" };
        let label = if addr.is_ipv4() { devices.name(port) } else { "" };
        let _ = writeln!(out, "    {} {addr}/{len} scope {scope}{secondary} {label}", word(addr));
        out += "       valid_lft forever preferred_lft forever\n";
    }
    out
}

/// The same in one line: `10.0.0.1/24 fd00::1/64 `.
pub(super) fn brief(devices: &Devices, port: u16, family: Option<bool>) -> String {
    let one = |line: AddressLine| format!("{}/{} ", line.addr, line.len);
    shown(devices, port, family).map(one).collect()
}

/// The same as JSON, a list.
pub(super) fn info(devices: &Devices, port: u16, family: Option<bool>) -> String {
    let item = |AddressLine { addr, len, scope, secondary }| {
        let object = json::Object::default()
            .text("family", word(addr))
            .text("local", &addr.to_string())
            .number("prefixlen", len)
            .text("scope", scope);
        let object = if secondary { object.raw("secondary", "true") } else { object };
        let object = if addr.is_ipv4() { object.text("label", devices.name(port)) } else { object };
        let forever = u32::MAX;
        object.number("valid_life_time", forever).number("preferred_life_time", forever).finish()
    };
    json::list(&shown(devices, port, family).map(item).collect::<Vec<_>>())
}

/// An address as it is listed.
struct AddressLine {
    addr: IpAddr,
    len: u8,
    scope: &'static str,
    secondary: bool,
}

/// Those of IPv4 first, as `ip` asks for them.
fn shown(devices: &Devices, port: u16, family: Option<bool>) -> impl Iterator<Item = AddressLine> {
    let all = devices.addresses(port);
    let of = move |v6: bool| {
        let wanted = family.is_none_or(|family| family == v6);
        let its = all.iter().filter(move |(addr, _)| addr.is_ipv6() == v6);
        its.filter(move |_| wanted).map(move |&(addr, len)| AddressLine {
            addr,
            len,
            scope: scope(addr),
            secondary: devices.primary(port, addr, len).is_some(),
        })
    };
    of(false).chain(of(true))
}

/// `ip` itself gives addresses of loopback, and the kernel link-local ones of IPv6, another scope than global.
fn scope(addr: IpAddr) -> &'static str {
    match addr {
        _ if addr.is_loopback() => "host",
        IpAddr::V6(addr) if addr.is_unicast_link_local() => "link",
        _ => "global",
    }
}

fn word(addr: IpAddr) -> &'static str {
    if addr.is_ipv4() { "inet" } else { "inet6" }
}
