//! A stack of ours on a TUN device whose other end is the kernel's.

use ackwright_tokio::{Cidr, Settings, Stack};
use std::net::IpAddr;

/// Each test has a device and addresses of its own: ours, and the kernel's.
pub fn stack(number: u8) -> Option<(Stack, [IpAddr; 2])> {
    let (ours, theirs) = ([10, 213, number, 2].into(), [10, 213, number, 1].into());
    let settings = Settings {
        device: format!("aktk{number}"),
        address: ours,
        kernel: Some(Cidr { address: theirs, prefix_len: 24 }),
        ..Settings::default()
    };
    match Stack::open(&settings) {
        Ok(stack) => Some((stack, [ours, theirs])),
        Err(fault) => {
            eprintln!("SKIPPED: no TUN device: {fault}");
            None
        }
    }
}
