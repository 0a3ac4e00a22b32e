//! `ackwright tc`.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::plan::tc_session::{Problem, Session};

use super::{Failure, Outcome, print, print_json, read_text};

/// Arguments of `ackwright tc`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright tc \'qdisc replace dev eth0 root cake bandwidth 20mbit nat ack-filter\'
  ackwright tc --json \'qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 3kb limit 90kb\' \\
      \'qdisc add dev eth0 parent 1:1 codel\'
  ackwright tc --file setup.tc

The commands are applied in order to qdiscs without traffic. An error is reported with its position and the
valid words, exit code 2; otherwise `tc -s qdisc show` is printed for each device.")]
pub struct Args {
    /// Commands: `qdisc add|change|replace|delete dev DEV …` and `filter add dev DEV …`; a leading
    /// `tc` is accepted
    commands: Vec<String>,
    /// Read commands from a file, one per line; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print `tc -s -j qdisc show`
    #[arg(long)]
    json: bool,
}

/// Carries commands out and shows what they made.
pub fn run(args: &Args) -> Outcome {
    let mut session = Session::default();
    let wrong = |place: String, problem: &Problem| Failure::Usage(format!("{place}:{problem}"));
    if let Some(path) = &args.file {
        let name = path.display();
        let text = read_text(path)?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            if !line.trim().is_empty() {
                session
                    .command(line)
                    .map_err(|problem| wrong(format!("{name}:{}", number + 1), &problem))?;
            }
        }
    }
    for (index, command) in args.commands.iter().enumerate() {
        session
            .command(command)
            .map_err(|problem| wrong(format!("command {}", index + 1), &problem))?;
    }
    if args.commands.is_empty() && args.file.is_none() {
        return Err(Failure::Usage("no command given; see ackwright tc --help".into()));
    }
    if args.json {
        print_json(&session.json())?;
    } else {
        print(&session.text())?;
    }
    Ok(ExitCode::SUCCESS)
}
