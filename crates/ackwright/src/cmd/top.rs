//! `ackwright top`.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use console::Term;
use live::control;
use serde_json::Value;
use service::view::{Sample, lines};

use super::ctl::only_socket;
use super::running::time;
use super::{Failure, Outcome, print, print_json};
use crate::interrupt;
use crate::screen::Screen;

/// Arguments of `ackwright top`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright top
  ackwright top --ctl /run/ackwright/shape-eth0-eth1.sock --interval 500ms
  ackwright top --json | jq .qdiscs

Shows packets and rates of each device, and backlog, drops and marks of each queue; for CAKE also delays and
flows of each tin. q or Ctrl-C ends it. If standard output is not a terminal, it prints once.")]
pub struct Args {
    /// Control socket of the running program; not needed if only one is running
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: String,
    /// Print all figures once, as JSON
    #[arg(long)]
    json: bool,
}

/// Shows until `q` or Ctrl-C, or once.
pub fn run(args: &Args) -> Outcome {
    let interval = Duration::from_nanos(time("--interval", &args.interval)?.as_nanos());
    if interval < Duration::from_millis(50) {
        return Err(Failure::Usage("--interval: must be at least 50ms".into()));
    }
    let path = match &args.ctl {
        Some(path) => path.clone(),
        None => only_socket()?,
    };
    let first = sample(&path)?;
    if args.json {
        print_json(&first.json())?;
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = Term::stdout();
    if !terminal.is_term() {
        thread::sleep(interval);
        print(&lines(Some(&first), &sample(&path)?, 80, usize::MAX).join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch(&path, terminal, first, interval)
}

fn watch(path: &Path, terminal: Term, first: Sample, interval: Duration) -> Outcome {
    let stopped = interrupt::flag();
    let screen = Screen::open(terminal)?;
    let (mut before, mut now) = (None, first);
    loop {
        let (height, width) = screen.size();
        let text = lines(before.as_ref(), &now, width.into(), usize::from(height) - 1).join("\n");
        screen.show(&text)?;
        if screen.wait_for_exit(interval, &stopped) {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(now);
        now = match sample(path) {
            Err(Failure::Other(_)) if UnixStream::connect(path).is_err() => {
                return Err(Failure::Other(format!("{}: it has ended", path.display())));
            }
            sampled => sampled?,
        };
    }
}

/// What the running program tells now.
fn sample(path: &Path) -> Result<Sample, Failure> {
    let ask = |command: &str| -> Result<Value, Failure> {
        let (right, text) = control::request(path, command)
            .map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
        let value = right.then(|| serde_json::from_str(&text).ok()).flatten();
        value.ok_or_else(|| Failure::Other(format!("{}: {command}: {text}", path.display())))
    };
    Ok(Sample { shown: ask("show -j")?, qdiscs: ask("tc -s -j qdisc show")? })
}
