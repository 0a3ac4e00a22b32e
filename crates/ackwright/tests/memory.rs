//! How much memory a large experiment takes. Alone in its program: the largest child counts.

#![cfg(target_os = "linux")]

use nix::sys::resource::{UsageWho, getrusage};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Ten thousand hosts around a router: each needs one route, and not one to every other host.
const STAR: &str = r#"schema = 1
name = "star"
duration = "1s"
[nodes]
hub = { role = "router" }
host = { count = 10000 }
[links.spoke]
ends = ["host-*", "hub"]
rate = "10mbit"
delay = "1ms"
[flows.ping]
app = "ping"
from = "host-1"
to = "host-10000"
"#;

/// The same, generated.
const GENERATED: &str = r#"schema = 1
name = "star"
duration = "1s"
[topology]
kind = "star"
hosts = 10000
rate = "10mbit"
delay = "1ms"
[flows.ping]
app = "ping"
from = "host-1"
to = "host-10000"
"#;

#[test]
fn a_star_of_ten_thousand_hosts_is_checked_in_little_memory() {
    for text in [STAR, GENERATED] {
        check(text);
    }
}

fn check(text: &str) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("memory");
    fs::create_dir_all(&directory).expect("a directory for the test");
    let file = directory.join("star.toml");
    fs::write(&file, text).expect("a file for the test");
    let checked = Command::new(env!("CARGO_BIN_EXE_ackwright")).arg("check").arg(&file).output();
    let checked = checked.expect("it starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a process may ask").max_rss() / 1024;
    assert!(peak <= 200, "{peak} MB");
}
