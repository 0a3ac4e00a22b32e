//! The running kernel's routes, rules, next hops, links and addresses, asked over rtnetlink.

use std::fs;

use crate::cmd::ip::Note;
use iproute::ip::Ip;
use iproute::ip::import;

/// Settings that decide between next hops, where the kernel has them: what lies in `/proc/sys/net`.
const SYSCTLS: [(&str, &str); 6] = [
    ("ipv4", "fib_multipath_hash_policy"),
    ("ipv4", "fib_multipath_hash_fields"),
    ("ipv6", "fib_multipath_hash_policy"),
    ("ipv6", "fib_multipath_hash_fields"),
    ("ipv4", "fib_multipath_hash_seed"),
    ("ipv4", "fib_multipath_use_neigh"),
];

/// Reads everything; with it go notes about what could not be taken over.
pub fn import() -> Result<(Ip, Vec<Note>), String> {
    let messages = live::rtnetlink::dump_all()
        .map_err(|error| format!("cannot ask the kernel over rtnetlink: {error}"))?;
    let (mut ip, skipped) = import::import(&messages)
        .map_err(|error| format!("the kernel sent what was not understood: {error}"))?;
    let mut notes: Vec<Note> =
        skipped.into_iter().map(|what| note(format!("not taken over: {what}"))).collect();
    for (family, name) in SYSCTLS {
        let Ok(value) = fs::read_to_string(format!("/proc/sys/net/{family}/{name}")) else {
            continue;
        };
        let value = value.trim();
        if name == "fib_multipath_hash_seed" && value == "0" {
            let text = "the kernel's hash seed is random (fib_multipath_hash_seed = 0): where \
                        several next hops are left, it may choose another one";
            notes.push(Note { text: text.into(), always: false });
            continue;
        }
        if let Err(error) = ip.run(&format!("sysctl net.{family}.{name}={value}")) {
            notes.push(note(format!("net.{family}.{name} = {value}: {error}")));
        }
    }
    read_linkdown(&mut ip);
    Ok((ip, notes))
}

fn note(text: String) -> Note {
    Note { text, always: true }
}

/// `ignore_routes_with_linkdown` of each interface.
fn read_linkdown(ip: &mut Ip) {
    let names: Vec<String> =
        ip.devices.ports().map(|port| ip.devices.name(port).to_owned()).collect();
    for family in ["ipv4", "ipv6"] {
        let on = |name: &str| {
            let path = format!("/proc/sys/net/{family}/conf/{name}/ignore_routes_with_linkdown");
            fs::read_to_string(path).is_ok_and(|value| value.trim() == "1")
        };
        for name in names.iter().filter(|name| on("all") || on(name)) {
            let words = format!("sysctl net.{family}.conf.{name}.ignore_routes_with_linkdown=1");
            ip.run(&words).expect("a device that was just listed");
        }
    }
}
