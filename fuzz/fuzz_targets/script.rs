//! Any text is read as a packetdrill script, and run if it is one: nothing panics, nothing hangs.

#![no_main]

use drill::run::{ScriptFolder, run};
use drill::settings::IpVersion;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        if let Ok((script, settings)) = drill::suite::read(&text, version, &[]) {
            run(&script, &settings, &ScriptFolder::default());
        }
    }
});
