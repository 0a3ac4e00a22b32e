//! `ackwright view`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use view::{Fault, Source};

use super::{Failure, Outcome, print, refuse_overwriting};
use crate::interrupt;

/// Arguments of `ackwright view`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright run experiments/first.toml --runs 1 --out out/first --view
  ackwright view out/first
  ackwright view out/first --export first.html       # one file, opens in any browser
  ackwright view capture.pcapng                      # any capture: time/sequence graphs
  ackwright view /run/ackwright/shape-eth0-eth1.sock # a running `ackwright shape`

The page is served on the loopback address only, and only to requests with the token of the printed address;
it loads nothing from other machines. To view results on a remote machine, connect with
`ssh -L PORT:127.0.0.1:PORT` and run `ackwright view --port PORT --no-open` there.")]
pub struct Args {
    /// Results (a directory written by `run --out`), a capture (pcap, pcapng), or the control
    /// socket of a running `shape`
    what: PathBuf,
    /// Port to listen on [default: any free port]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the address, but open no browser
    #[arg(long)]
    no_open: bool,
    /// Write a single HTML page that needs no server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open"])]
    export: Option<PathBuf>,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Usage(fault.to_string())
    }
}

/// Shows.
pub fn run(args: &Args) -> Outcome {
    if args.what.extension().is_some_and(|ending| ending == "toml") && args.what.is_file() {
        let file = args.what.display();
        return Err(Failure::Usage(format!(
            "{file} is an experiment file; to view its results: ackwright run {file} --out DIR --view, then ackwright view DIR"
        )));
    }
    let source = Source::open(&args.what)?;
    if let Some(file) = &args.export {
        return export(&source, &args.what, file);
    }
    let server = view::serve(source, args.port).map_err(|error| {
        Failure::Usage(format!("--port {}: {error}; try another port", args.port))
    })?;
    let url = server.url();
    print(&format!("{url}\nPress Ctrl-C to stop."))?;
    if !args.no_open {
        open(&url);
    }
    let stop = interrupt::flag();
    server.run(&stop).map_err(|error| Failure::Other(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn export(source: &Source, what: &Path, file: &Path) -> Outcome {
    refuse_overwriting(file, &[what])?;
    let page = view::export(source)?;
    lab::store::replace(file, page.as_bytes())?;
    if file.as_os_str() != lab::store::STANDARD_OUTPUT {
        let size = page.len() as f64 / 1e6;
        print(&format!("{} ({size:.1} MB) opens in any browser", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a browser, if there is one; the address is printed anyway.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let shows = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if shows {
        let quiet =
            Command::new(program).arg(url).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if quiet.is_err() {
            stderr_line!("note: cannot start a browser ({program}); open the address yourself");
        }
    }
}
