//! `ackwright bench`.

use std::process::{Command, ExitCode};
use std::sync::LazyLock;
use std::time::Instant;

use lab::bench::{CASES, Case, Usage};
use lab::report::Table;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};

use super::{Failure, Outcome, print, print_json};
use crate::progress::Bar;
use crate::table;

/// Arguments of `ackwright bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright bench             every case
  ackwright bench a b --json
  ackwright bench c-10000 --rounds 1
  ackwright bench a --print-toml > a.toml && ackwright run a.toml

A hop is one MTU-sized packet sent on one link. Each run of a case is a process of its own. Because a
machine's speed varies, cases alternate over three rounds, a short case repeating for a second in each,
and the median run is reported. A case fails if its goodput is below 90 % of its bottleneck;
fat trees (ft-N) need 30 % of what their hosts can send, as hash collisions leave links idle.")]
pub struct Args {
    /// Names of cases; all of them if none is given
    cases: Vec<String>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Threads per case; results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print one case as an experiment file, for `ackwright run`
    #[arg(long, conflicts_with_all = ["json", "here"])]
    print_toml: bool,
    /// Run one case in this process and print its JSON
    #[arg(long, hide = true)]
    here: bool,
}

/// Runs the cases one after the other, round by round.
pub fn run(args: &Args) -> Outcome {
    let cases = chosen(&args.cases)?;
    if let (true, [case]) = (args.here, cases.as_slice()) {
        let outcome = case.run(args.threads, usage).map_err(Failure::Other)?;
        print(&outcome.to_json().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.print_toml {
        let [case] = cases.as_slice() else {
            return Err(Failure::Usage("--print-toml needs exactly one case".to_string()));
        };
        print(case.toml().map_err(Failure::Usage)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut outcomes = vec![Ok(Vec::new()); cases.len()];
    let bar = Bar::new(u64::from(args.rounds) * cases.len() as u64);
    for _ in 0..args.rounds {
        for (case, outcome) in cases.iter().zip(&mut outcomes) {
            if let Ok(runs) = outcome
                && let Err(problem) = run_at_least_a_second(case, args.threads, runs)
            {
                *outcome = Err(problem);
            }
            bar.step();
        }
    }
    bar.finish();
    let mut results = Vec::new();
    let mut failed = false;
    for (case, outcome) in cases.iter().zip(outcomes) {
        match outcome {
            Ok(runs) => results.push(middle(runs)),
            Err(problem) => {
                failed = true;
                stderr_line!("{}: {problem}", case.name);
            }
        }
    }
    if args.json {
        print_json(&json!({ "cases": results }))?;
    } else {
        print(&table::render(&as_table(&results)))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Case>, Failure> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let help = lab::plan::suggest(name, CASES.iter().map(|case| case.name));
            Failure::Usage(format!("no case is called \"{name}\"; {}", help.unwrap_or_default()))
        })
    };
    names.iter().map(find).collect()
}

/// Runs a case once, or, if it is short, until it has taken a second.
fn run_at_least_a_second(case: &Case, threads: u32, runs: &mut Vec<Value>) -> Result<(), String> {
    let mut spent = 0.0;
    while spent < TURN_SECONDS {
        let run = in_own_process(case, threads)?;
        // However fast a machine is, a turn ends.
        spent += run["cpu_seconds"].as_f64().unwrap_or(0.0).max(TURN_SECONDS / 20.0);
        runs.push(run);
    }
    Ok(())
}

/// So much processor time a case takes in its turn, at least.
const TURN_SECONDS: f64 = 1.0;

/// The run of middle speed; of an even number, the slower one of two.
fn middle(mut runs: Vec<Value>) -> Value {
    let speed = |run: &Value| run["hops_per_cpu_second"].as_f64().unwrap_or(0.0);
    runs.sort_by(|one, other| speed(one).total_cmp(&speed(other)));
    runs.swap_remove((runs.len() - 1) / 2)
}

/// Runs a case in a process of its own, so that its peak memory is its own.
fn in_own_process(case: &Case, threads: u32) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["bench", "--here", case.name, "--threads", &threads.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// What this process has used so far.
fn usage() -> Usage {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask about itself");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Usage {
        cpu_seconds: seconds(usage.user_time()) + seconds(usage.system_time()),
        wall_seconds: EPOCH.elapsed().as_secs_f64(),
        peak_rss_bytes: usage.max_rss() as u64 * RSS_UNIT,
    }
}

/// When it was first called.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The kernel's unit of the resident set.
const RSS_UNIT: u64 = if cfg!(target_os = "macos") { 1 } else { 1024 };

fn as_table(results: &[Value]) -> Table {
    let head = ["case", "flows", "M hops", "CPU s", "M hops/CPU s", "goodput [Mbit/s]", "MB"];
    let millions = |value: &Value| format!("{:.2}", value.as_f64().unwrap_or(0.0) / 1e6);
    let rows = results
        .iter()
        .map(|one| {
            vec![
                one["name"].as_str().unwrap_or("").to_string(),
                one["flows"].to_string(),
                millions(&one["hops"]),
                format!("{:.2}", one["cpu_seconds"].as_f64().unwrap_or(0.0)),
                millions(&one["hops_per_cpu_second"]),
                format!("{:.1}", one["goodput_mbps"].as_f64().unwrap_or(0.0)),
                format!("{:.0}", one["peak_rss_bytes"].as_f64().unwrap_or(0.0) / 1e6),
            ]
        })
        .collect();
    let numeric = (0..head.len()).map(|column| column > 0).collect();
    Table { head: head.map(String::from).to_vec(), rows, numeric }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_is_shown() {
        let runs = |speeds: &[f64]| {
            speeds.iter().map(|speed| json!({ "hops_per_cpu_second": speed })).collect()
        };
        let shown = |speeds: &[f64]| middle(runs(speeds))["hops_per_cpu_second"].as_f64();
        assert_eq!(shown(&[4.0]), Some(4.0));
        assert_eq!(shown(&[5.0, 3.0, 4.0]), Some(4.0));
        assert_eq!(shown(&[5.0, 3.0, 4.0, 6.0]), Some(4.0));
    }
}
