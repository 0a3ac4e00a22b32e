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
  ackwright tc qdisc add dev eth0 root fq_codel target 10ms
  ackwright tc --file setup.tc

The commands are applied in order to qdiscs without traffic. An error is reported with its position and the
valid words, exit code 2; otherwise `tc -s qdisc show` is printed for each device, and `tc -s class show`
if it has classes of htb.")]
pub struct Args {
    /// Commands: `qdisc add|change|replace|delete dev DEV …`, `class add|change|replace|delete dev DEV …`
    /// and `filter add dev DEV …`; a leading `tc` is accepted. Several are quoted, one need not be
    commands: Vec<String>,
    /// Accepted as a habit: statistics and details are always printed
    #[arg(short, long = "stats", visible_alias = "statistics", hide = true)]
    statistics: bool,
    /// Accepted as a habit
    #[arg(short, long, hide = true)]
    details: bool,
    /// Read commands from a file, one per line; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print `tc -s -j qdisc show`
    #[arg(short, long)]
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
    for (index, command) in commands(&args.commands).iter().enumerate() {
        if is_show(command) {
            return Err(Failure::Usage(NOTHING_TO_SHOW.into()));
        }
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

/// Why `tc qdisc show` has nothing to show.
const NOTHING_TO_SHOW: &str = "this checks commands and has no queues of its own to show. \
    A running `shape` or `route`: ackwright ctl tc -s qdisc show; an experiment: ackwright run FILE --tc-stats; \
    after commands given here their qdiscs are shown without being asked for";

/// `qdisc show dev eth0`, `class list`, and `qdisc` alone.
fn is_show(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().skip_while(|word| *word == "tc").collect();
    let object = matches!(words.first(), Some(&("qdisc" | "class" | "filter")));
    object && matches!(words.get(1), None | Some(&("show" | "list" | "ls" | "sh")))
}

/// The commands. Words that were not quoted, as with `tc` itself, are one.
fn commands(given: &[String]) -> Vec<String> {
    if given.iter().any(|one| one.contains(char::is_whitespace)) {
        return given.to_vec();
    }
    if given.is_empty() { Vec::new() } else { vec![given.join(" ")] }
}
