//! `ackwright check`.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::plan::{Error as PlanError, Experiment};
use serde_json::json;

use super::{Outcome, print, print_json};

/// Arguments of `ackwright check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright check experiments/lost-retransmit.toml
  ackwright check my.toml --set 'burst=\"2mb\"'")]
pub struct Args {
    /// Experiment file (TOML, schema 1; see docs/experiments.md)
    file: PathBuf,
    /// Replace a parameter or a key of the file before checking
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks the file; a faulty one is an error with exit code 2.
pub fn run(args: &Args) -> Outcome {
    let experiment = Experiment::load(&args.file, &args.settings)?;
    experiment.check_names().map_err(PlanError::from)?;
    print_notes(&experiment);
    let plan = &experiment.base;
    let runs = experiment.points.len() as u64 * u64::from(plan.repetitions);
    if args.json {
        print_json(&json!({
            "schema": 1, "name": plan.name, "valid": true, "points": experiment.points.len(),
            "repetitions": plan.repetitions, "runs": runs,
        }))?;
    } else {
        print(&format!(
            "{}: \"{}\" is valid: {} nodes, {} links, {} flows; {} points x {} repetitions",
            args.file.display(),
            plan.name,
            plan.nodes.len(),
            plan.links.len(),
            plan.flows.len(),
            experiment.points.len(),
            plan.repetitions
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what is right in a file, but may not be what was meant.
pub fn print_notes(experiment: &Experiment) {
    for note in experiment.notes() {
        stderr_line!("note: {note}");
    }
}
