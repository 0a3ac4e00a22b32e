//! What becomes of traffic when the program is gone, however it goes.
//!
//! *Closed* is nothing to do: without it nothing passes. *Open* lets the kernel pass on everything:
//! filters on both interfaces send what arrives out by the other (`mirred`), and stay. While the
//! program lives, a BPF program that goes with it drops frames before they come to those filters, after
//! the packet sockets have had them.

use crate::open::Fault;
use crate::sys::{self, AttachedPrograms};
use std::process::Command;

/// Where our filters are among others at an interface.
const PREFERENCE: &str = "49999";

/// Held as long as the program is to be what passes packets.
#[derive(Debug)]
pub struct FailOpen {
    _curtains: [AttachedPrograms; 2],
}

/// Fail open: prepares the kernel to pass packets between two interfaces when this process has ended.
///
/// # Errors
/// Devices that are no interfaces, or a kernel or rights that do not allow it.
pub fn open(names: [&str; 2]) -> Result<FailOpen, Fault> {
    let draw = |name: &str| {
        let index = sys::facts(name).map(|facts| facts.index);
        index.and_then(sys::draw_curtain).map_err(|error| {
            Fault::Usage(format!(
                "--fail open: {name}: {error}; it needs two interfaces, CAP_BPF, CAP_NET_ADMIN and \
                 Linux 6.6"
            ))
        })
    };
    // First the curtains: at no time do packets go both ways.
    let curtains = [draw(names[0])?, draw(names[1])?];
    for (from, to) in [(names[0], names[1]), (names[1], names[0])] {
        // Either may be there already.
        let _ = tc(&format!("qdisc add dev {from} clsact"));
        let _ = tc(&format!("filter del dev {from} ingress pref {PREFERENCE}"));
        let all = "protocol all u32 match u32 0 0 action mirred egress redirect dev";
        tc(&format!("filter add dev {from} ingress pref {PREFERENCE} {all} {to}"))
            .map_err(|error| Fault::Usage(format!("--fail open: {from}: {error}")))?;
    }
    Ok(FailOpen { _curtains: curtains })
}

/// Fail closed: takes away what an earlier run has left that was to fail open; true if there was such.
pub fn close(names: [&str; 2]) -> bool {
    let remove = |name: &str| {
        let there = tc(&format!("filter show dev {name} ingress pref {PREFERENCE}"));
        let there = there.is_ok_and(|text| text.contains("mirred"));
        there && tc(&format!("filter del dev {name} ingress pref {PREFERENCE}")).is_ok()
    };
    // Not `any`: both are looked at.
    names.map(remove).contains(&true)
}

/// Runs tc(8); what it prints.
fn tc(words: &str) -> Result<String, String> {
    let done = Command::new("tc").args(words.split_whitespace()).output();
    let done = done.map_err(|error| format!("tc cannot be run: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("tc {words}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}
