//! Runs every script below a folder and prints what `ackwright drill` would.
//!
//! `cargo run -p ackwright-drill --example suite -- conformance/tcp [--json] [ipv4|ipv6]`

use drill::report;
use drill::settings::IpVersion;
use drill::suite::{Plan, find, run_all};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let (mut paths, mut plan, mut json) = (Vec::new(), Plan::default(), false);
    for arg in std::env::args().skip(1) {
        match IpVersion::by_name(&arg) {
            Some(version) => plan.versions.push(version),
            None if arg == "--json" => json = true,
            None => paths.push(PathBuf::from(arg)),
        }
    }
    let reports = run_all(&find(&paths)?, &plan, |_| ())?;
    if json {
        println!("{}", report::json(&reports));
    } else {
        println!("{}", report::text(&reports));
    }
    Ok(())
}
