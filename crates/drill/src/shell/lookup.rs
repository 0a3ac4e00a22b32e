//! Virtual files: `/proc`, `/sys`, `/tmp`.

use super::{File, Shell};
use crate::kernel::Kernel;
use core::net::{IpAddr, SocketAddr};
use std::fmt::Write as _;

impl Shell {
    /// What is in a virtual file; `None` if there is none of that name.
    pub(super) fn read(&self, path: &str, kernel: &mut Kernel) -> Option<String> {
        match path {
            "/dev/null" => return Some(String::new()),
            "/proc/net/tcp" => return Some(proc_net_tcp(kernel, false)),
            "/proc/net/tcp6" => return Some(proc_net_tcp(kernel, true)),
            _ => {}
        }
        if path.starts_with("/proc/sys/") || path.starts_with("/sys/") {
            return kernel.get(path).map(|value| format!("{value}\n"));
        }
        match self.files.get(path)? {
            File::Text(text) => Some(text.clone()),
            File::Bytes(len) => {
                let len = usize::try_from(*len).unwrap_or(usize::MAX).min(super::MAX_TEXT);
                Some("\0".repeat(len))
            }
        }
    }
}

fn proc_net_tcp(kernel: &Kernel, ipv6: bool) -> String {
    let mut out =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n".to_owned();
    for (index, (local, remote, state)) in kernel.proc_net_tcp(ipv6).into_iter().enumerate() {
        let (local, remote) = (end(local), end(remote));
        writeln!(
            out,
            "{index:4}: {local} {remote} {state:02X} 00000000:00000000 00:00000000 00000000"
        )
        .expect("a string takes anything");
    }
    out
}

/// An address as `/proc/net/tcp` prints it: words of 32 bits in the order of a little-endian
/// machine.
fn end(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut out = String::new();
    for word in octets.chunks(4) {
        for byte in word.iter().rev() {
            write!(out, "{byte:02X}").expect("a string takes anything");
        }
    }
    format!("{out}:{:04X}", address.port())
}
