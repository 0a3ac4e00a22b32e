//! `ackwright shell`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use lab::plan::{Error as PlanError, Experiment};

use super::{Failure, Outcome};

/// Arguments of `ackwright shell`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright shell experiments/first.toml client
  ackwright shell experiments/first.toml client -- ping -c 3 10.0.0.1
  ackwright shell experiments/first.toml client --set links.dsl.rtt=80ms -- ping -c 3 10.0.0.1

Each host is a network namespace of this machine's kernel, connected by the links, queues and routers of the
experiment; its flows do not run. Needs root or unprivileged user namespaces.")]
pub struct Args {
    /// Experiment file
    file: PathBuf,
    /// Host of the experiment
    node: String,
    /// Replace a parameter or a key of the file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Command to run there [default: $SHELL]
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs a shell inside an experiment.
pub fn run(args: &Args) -> Outcome {
    let experiment = Experiment::load(&args.file, &args.settings)?;
    let seed = experiment.base.seed;
    let (plan, _) = experiment.plan(&experiment.points[0], 0, seed).map_err(PlanError::from)?;
    let mut command = args.command.clone();
    if command.is_empty() {
        command.push(std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into()));
        let hosts = plan.nodes.iter().zip(lab::live::addresses(&plan).map_err(Failure::Other)?);
        for (node, address) in hosts {
            stderr_line!("{address}\t{}", node.name);
        }
    }
    // Ctrl-C is for what runs in there.
    let stop = AtomicBool::new(false);
    let code = lab::live::shell(&plan, &args.node, &command, &stop).map_err(Failure::Usage)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help's examples set what the file has, and ask the other host.
    #[test]
    fn the_examples_are_of_that_experiment() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/first.toml");
        let settings = ["links.dsl.rtt=80ms".to_owned()];
        let experiment = Experiment::load(file.as_ref(), &settings).expect("what there is");
        let plan = &experiment.base;
        let addresses = lab::live::addresses(plan).expect("hosts of IPv4");
        let server = plan.nodes.iter().position(|node| node.name == "server").expect("a host");
        assert_eq!(addresses[server].to_string(), "10.0.0.1");
    }
}
