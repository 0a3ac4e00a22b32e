//! `ackwright ctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use live::commands::CommandError;
use live::control;

use super::running::{FOLDER, pointed};
use super::{Failure, Outcome, print};

/// Arguments of `ackwright ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright ctl tc -s qdisc show
  ackwright ctl tc -s -j qdisc show dev eth1
  ackwright ctl tc qdisc change dev eth1 root cake bandwidth 20mbit
  ackwright ctl ip -j neigh show
  ackwright ctl ip route add 10.8.0.0/16 via 10.2.0.2
  ackwright ctl show
  ackwright ctl reload
  ackwright ctl stop")]
pub struct Args {
    /// Control socket of the running program; not needed if only one is running
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// `tc …`; for a router also `ip …`, `sysctl …` and `reload` (reads its file again); `show` (packets received, and their fate), `show -j`, or `stop`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Asks the running program.
pub fn run(args: &Args) -> Outcome {
    let path = match &args.ctl {
        Some(path) => path.clone(),
        None => only_socket()?,
    };
    let command = args.command.join(" ");
    let (right, text) = control::request(&path, &command)
        .map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
    if right {
        if !text.is_empty() {
            print(&text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (column, message) = text.split_once('\n').unwrap_or(("0", &text));
    let wrong = CommandError { column: column.parse().unwrap_or(0), message: message.to_owned() };
    Err(pointed("ctl", &command, &wrong))
}

/// The socket in the usual place, if there is one and no more. What killed processes have left there does not count.
pub(super) fn only_socket() -> Result<PathBuf, Failure> {
    let files = fs::read_dir(Path::new(FOLDER)).into_iter().flatten().flatten();
    let mut sockets: Vec<PathBuf> = files.map(|file| file.path()).collect();
    sockets.retain(|path| {
        path.extension().is_some_and(|it| it == "sock") && control::is_running(path)
    });
    sockets.sort();
    match &sockets[..] {
        [only] => Ok(only.clone()),
        [] => Err(Failure::Usage(format!(
            "no control socket in {FOLDER}: nothing is running, or name its socket with --ctl"
        ))),
        several => {
            let names: Vec<String> = several.iter().map(|it| it.display().to_string()).collect();
            Err(Failure::Usage(format!(
                "several programs are running; choose one with --ctl: {}",
                names.join(", ")
            )))
        }
    }
}
