//! The running kernel's routes, rules, next hops, links and addresses, asked over rtnetlink.

use crate::import_note::Note;
use iproute::ip::Ip;
use iproute::ip::import;

/// Reads everything; with it go notes about what could not be taken over.
pub fn import() -> Result<(Ip, Vec<Note>), String> {
    let messages = live::rtnetlink::dump_all()
        .map_err(|error| format!("cannot ask the kernel over rtnetlink: {error}"))?;
    let (mut ip, skipped) = import::import(&messages)
        .map_err(|error| format!("cannot parse the kernel's rtnetlink answer: {error}"))?;
    let mut notes: Vec<Note> =
        skipped.into_iter().map(|what| note(format!("not imported: {what}"))).collect();
    for (name, value) in live::rtnetlink::hash_settings() {
        if live::rtnetlink::is_random_seed(&name, &value) {
            let text = "the kernel's hash seed is random (fib_multipath_hash_seed = 0): among \
                several next hops it may choose a different one";
            notes.push(Note { text: text.into(), always: false });
            continue;
        }
        if let Err(error) = ip.run(&format!("sysctl {name}={value}")) {
            notes.push(note(format!("{name} = {value}: {error}")));
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
    for name in names {
        let on = live::rtnetlink::ignores_linkdown(&name);
        for (family, _) in ["ipv4", "ipv6"].into_iter().zip(on).filter(|(_, on)| *on) {
            let words = format!("sysctl net.{family}.conf.{name}.ignore_routes_with_linkdown=1");
            ip.run(&words).expect("a device that was just listed");
        }
    }
}
