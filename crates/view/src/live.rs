//! A running `shape`, asked over its control socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};

/// How often it is asked.
pub const EVERY: Duration = Duration::from_millis(500);

/// What it has taken in and what became of it, and what `tc` shows of its queues.
///
/// # Errors
/// Nobody listens there any more.
#[cfg(target_os = "linux")]
pub fn read_status(path: &Path) -> io::Result<Json> {
    let ask = |command: &str| -> io::Result<Json> {
        let (right, text) = live::control::request(path, command)?;
        if !right {
            return Err(io::Error::other(text));
        }
        serde_json::from_str(&text).map_err(io::Error::other)
    };
    Ok(json!({"account": ask("show -j")?, "tc": ask("tc -s -j qdisc show")?}))
}

/// Live instances run on Linux only.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn read_status(_path: &Path) -> io::Result<Json> {
    let _ = json!(null);
    Err(io::Error::other("`shape` runs on Linux only"))
}
