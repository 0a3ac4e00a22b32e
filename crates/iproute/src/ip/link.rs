//! `ip link` and `ip address`: just enough to give a configuration its interfaces.

use super::names::{self, LOOPBACK, invalid};
use super::{Ip, Options, Outcome, verb};
use crate::words::{Result, Word, Words};
use datapath::fib::{FibError, Prefix, Protocol, Route, RouteType, Scope, TableId};

impl Ip {
    /// `ip link add [dev|name] NAME …`, `ip link set [dev] NAME up|down|carrier on|off`, `ip link show`.
    pub(super) fn link(&mut self, words: &mut Words<'_>, options: Options) -> Outcome<String> {
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

    fn link_set(&mut self, words: &mut Words<'_>) -> Outcome<()> {
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

    /// `ip address add ADDR/LEN dev NAME`: the address becomes local, its prefix on-link
    /// (`fib_add_ifaddr`, `addrconf_prefix_route`).
    pub(super) fn address(&mut self, words: &mut Words<'_>) -> Outcome<String> {
        verb(words, "address", &["add"])?;
        let word = words.next().ok_or_else(|| words.ended("an address is missing"))?;
        let (addr, len) = names::loose_prefix(word, false)?;
        let dev = words.next().ok_or_else(|| words.ended("\"dev\" is missing"))?;
        if dev.text != "dev" {
            return Err(dev.unknown("address", &["dev"]).into());
        }
        let name = words.value(dev)?;
        let port = self.devices.read(name)?;
        let local = Route::local(addr, port);
        let local = if addr.is_ipv4() {
            local
        } else {
            Route { scope: Scope::UNIVERSE, prefsrc: None, ..local }
        };
        self.fib.add(local)?;
        let net = Prefix::containing(addr, len).ok_or(FibError::InvalidPrefix)?;
        if !net.is_host() && port != LOOPBACK {
            let route = Route::on_link(net, port);
            let prefsrc = Some(addr).filter(core::net::IpAddr::is_ipv4);
            let metric = if addr.is_ipv4() { 0 } else { 256 };
            self.fib.append(Route { prefsrc, metric, protocol: Protocol::KERNEL, ..route })?;
        }
        if let (core::net::IpAddr::V4(v4), true) = (addr, len < 31) {
            let last = core::net::Ipv4Addr::from_bits(v4.to_bits() | u32::MAX >> len);
            let broadcast = Route {
                kind: RouteType::Broadcast,
                table: TableId::LOCAL,
                protocol: Protocol::KERNEL,
                prefsrc: Some(addr),
                ..Route::on_link(Prefix::host(last.into()), port)
            };
            self.fib.append(broadcast)?;
        }
        self.devices.add_address(port, addr, len);
        Ok(String::new())
    }
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
