//! `ip -s link`: interfaces with what has passed them.

use super::json::{Object, list};
use super::link::operstate;
use super::neigh::show_mac;
use super::{Devices, address};
use core::fmt::Write as _;
use datapath::packet::MacAddr;

/// An interface and what it has counted (`struct rtnl_link_stats64`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// The kernel's number, or the port's.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// There is a carrier.
    pub carrier: bool,
    /// Kind of the qdisc at the root.
    pub qdisc: String,
    /// Its hardware address, if it is Ethernet.
    pub mac: Option<MacAddr>,
    /// Received: bytes, packets, of no use, lost for want of room.
    pub rx: [u64; 4],
    /// Sent: bytes, packets, refused by the device, dropped by the queue.
    pub tx: [u64; 4],
}

/// `ip -s link show`, or `ip link show` without `statistics`.
pub fn show(links: &[LinkStatistics], statistics: bool, json: bool) -> String {
    if json {
        let items: Vec<String> =
            links.iter().map(|link| object_of(link, statistics).finish()).collect();
        return list(&items) + "\n";
    }
    links.iter().map(|link| head(link) + &counters(link, statistics)).collect()
}

/// `ip address show`, with `-s` if `statistics`: these interfaces with the addresses that `devices` has under
/// their names, of one family only if `family` says which (is it IPv6?).
pub fn show_addresses(
    links: &[LinkStatistics],
    devices: &Devices,
    family: Option<bool>,
    statistics: bool,
    json: bool,
) -> String {
    let ports = links.iter().filter_map(|link| Some((link, devices.port(&link.name)?)));
    let ports = ports.filter(|&(_, port)| address::is_shown(devices, port, family));
    if json {
        let item = |(link, port)| {
            let info = address::info(devices, port, family);
            object_of(link, statistics).raw("addr_info", &info).finish()
        };
        return list(&ports.map(item).collect::<Vec<_>>()) + "\n";
    }
    let lines = |(link, port)| {
        head(link) + &address::lines(devices, port, family) + &counters(link, statistics)
    };
    ports.map(lines).collect()
}

/// `ip -br link show`: an interface a line.
pub fn brief(links: &[LinkStatistics]) -> String {
    let line = |link: &LinkStatistics| {
        let mac = link.mac.map_or(String::new(), show_mac);
        format!("{}{mac} <{}> \n", brief_head(link), flags(link).join(","))
    };
    links.iter().map(line).collect()
}

/// `ip -br address show`: the same with the addresses of each.
pub fn brief_addresses(
    links: &[LinkStatistics],
    devices: &Devices,
    family: Option<bool>,
) -> String {
    let ports = links.iter().filter_map(|link| Some((link, devices.port(&link.name)?)));
    let ports = ports.filter(|&(_, port)| address::is_shown(devices, port, family));
    let line =
        |(link, port)| format!("{}{}\n", brief_head(link), address::brief(devices, port, family));
    ports.map(line).collect()
}

fn brief_head(link: &LinkStatistics) -> String {
    format!("{:<16} {:<14} ", link.name, operstate(link.up, link.carrier))
}

fn head(link: &LinkStatistics) -> String {
    let LinkStatistics { index, name, mtu, qdisc, .. } = link;
    let flags = flags(link).join(",");
    let state = operstate(link.up, link.carrier);
    let below = match link.mac {
        Some(mac) => format!("ether {} brd ff:ff:ff:ff:ff:ff", show_mac(mac)),
        None => "none".to_owned(),
    };
    format!("{index}: {name}: <{flags}> mtu {mtu} qdisc {qdisc} state {state}\n    link/{below}\n")
}

/// What has passed, or nothing if it is not asked for.
fn counters(link: &LinkStatistics, statistics: bool) -> String {
    let mut out = String::new();
    if statistics {
        for (label, [bytes, packets, errors, dropped]) in [("RX", link.rx), ("TX", link.tx)] {
            let _ = writeln!(out, "    {label}:  bytes packets errors dropped");
            let _ = writeln!(out, "    {bytes:>10} {packets:>7} {errors:>6} {dropped:>7}");
        }
    }
    out
}

fn flags(link: &LinkStatistics) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if link.up && !link.carrier {
        flags.push("NO-CARRIER");
    }
    if link.mac.is_some() {
        flags.extend(["BROADCAST", "MULTICAST"]);
    } else {
        flags.extend(["POINTOPOINT", "NOARP"]);
    }
    if link.up {
        flags.push("UP");
    }
    if link.up && link.carrier {
        flags.push("LOWER_UP");
    }
    flags
}

fn object_of(link: &LinkStatistics, statistics: bool) -> Object {
    let mut object = Object::default()
        .number("ifindex", link.index)
        .text("ifname", &link.name)
        .words("flags", &flags(link))
        .number("mtu", link.mtu)
        .text("qdisc", &link.qdisc)
        .text("operstate", operstate(link.up, link.carrier))
        .text("link_type", if link.mac.is_some() { "ether" } else { "none" });
    if let Some(mac) = link.mac {
        object = object.text("address", &show_mac(mac));
    }
    if statistics {
        let side = |[bytes, packets, errors, dropped]: [u64; 4]| {
            let counters = Object::default().number("bytes", bytes).number("packets", packets);
            counters.number("errors", errors).number("dropped", dropped).finish()
        };
        let both = Object::default().raw("rx", &side(link.rx)).raw("tx", &side(link.tx)).finish();
        object = object.raw("stats64", &both);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_with_its_counters() {
        let link = LinkStatistics {
            index: 1,
            name: "a".into(),
            mtu: 1_500,
            up: true,
            carrier: true,
            qdisc: "cake".into(),
            mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
            rx: [1_000, 10, 0, 1],
            tx: [2_000, 20, 2, 3],
        };
        let text = show(std::slice::from_ref(&link), true, false);
        assert!(text.starts_with(
            "1: a: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc cake state UP\n    link/ether 02:00:"
        ));
        assert!(text.contains("2000      20      2       3"));
        let mut devices = Devices::new();
        let port = devices.add("a");
        devices.add_address(port, "10.0.0.1".parse().expect("an address"), 24);
        let addresses =
            |family| show_addresses(std::slice::from_ref(&link), &devices, family, false, false);
        assert!(
            addresses(None)
                .contains("brd ff:ff:ff:ff:ff:ff\n    inet 10.0.0.1/24 scope global a\n"),
        );
        assert_eq!(addresses(Some(true)), "");
        // As ip(8) of iproute2 6.1 prints them, blanks at the end included.
        let all = std::slice::from_ref(&link);
        let told = "a                UP             02:00:00:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n";
        assert_eq!(brief(all), told);
        let told = "a                UP             10.0.0.1/24 \n";
        assert_eq!(brief_addresses(all, &devices, None), told);
        assert_eq!(brief_addresses(all, &devices, Some(true)), "");
        let json = show(&[link], true, true);
        assert!(
            json.contains(r#""stats64":{"rx":{"bytes":1000,"packets":10,"errors":0,"dropped":1}"#)
        );
    }
}
