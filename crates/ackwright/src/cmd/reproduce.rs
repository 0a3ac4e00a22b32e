//! `ackwright reproduce`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::plan::Experiment;
use lab::published::{self, Publication, SHIPPED};
use lab::reproduce::{self, Comparison};
use lab::results::PointResult;
use lab::run::LiveOverrides;
use lab::store::{STANDARD_OUTPUT, Store};
use serde_json::json;

use super::run::{Runs, StackChoice, Workers, keep_finished, resume, run_all, unfinished};
use super::{Failure, Outcome, check_results, print, print_json, results};
use crate::table;

/// Arguments of `ackwright reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright reproduce                        list what can be reproduced
  ackwright reproduce lost-retransmit        the whole sweep
  ackwright reproduce all --quick --json     only the headline of each
  ackwright reproduce fct-load --resume out  resume an interrupted sweep
  ackwright reproduce incast-rto --print-toml > my.toml   its experiment file, to change it
  ackwright reproduce cake-ack-filter --live --runs 10   compared with real packets, as root

Exit code 0 once everything ran, whatever the verdict; with --strict 1 if an expectation that was
stated beforehand is not met, or a figure deviates from a real kernel's by more than allowed.")]
pub struct Args {
    /// Publications to reproduce, or "all" [default: list them]
    names: Vec<String>,
    /// Print the experiment file of each name in place of running it
    #[arg(long, requires = "names", conflicts_with_all = ["json", "quick", "live", "strict", "runs", "out", "resume"])]
    print_toml: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run only the headline point of each sweep, or shorter runs of all points
    #[arg(long)]
    quick: bool,
    /// Also run the headline with real packets, in network namespaces, on our stack and on the
    /// kernel's: needs root or unprivileged user namespaces
    #[arg(long, conflicts_with = "quick")]
    pub live: bool,
    /// Number of live runs of each point
    #[arg(long, value_name = "N", default_value_t = 1, requires = "live", conflicts_with_all = ["quick", "resume"])]
    live_runs: u32,
    /// Stacks of the live runs [default: both]
    #[arg(long, value_enum, value_delimiter = ',', requires = "live", conflicts_with_all = ["quick", "resume"])]
    live_stack: Vec<StackChoice>,
    /// Number of repetitions [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Exit with 1 if a verdict is "not reproduced" or a figure does not agree with the kernel's
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    workers: Workers,
    /// Directory for results and plots
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Resume from the results in DIR, the --out of an earlier command: finished runs are kept, the
    /// others are run; the results are the same as those of an uninterrupted run
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "live"])]
    resume: Option<PathBuf>,
}

impl Args {
    /// Where the results of all publications lie.
    fn directory(&self) -> &Path {
        self.resume.as_deref().unwrap_or(&self.out)
    }
}

/// Rebuilds publications and compares.
pub fn run(args: &Args) -> Outcome {
    let known = published::publications().map_err(|faults| Failure::Other(faults.to_string()))?;
    if args.names.is_empty() && args.json {
        let list: Vec<_> = known
            .iter()
            .map(|one| json!({ "name": one.name, "title": one.title, "source": one.source }))
            .collect();
        print_json(&json!({ "schema": 1, "published": list }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.names.is_empty() {
        for one in &known {
            print(&table::wrapped(&format!("{}: {}", one.name, one.title)))?;
            print(&table::indented(&one.source))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&args.names, &known)?;
    if args.print_toml {
        for shipped in SHIPPED.iter().filter(|it| chosen.iter().any(|one| one.name == it.name)) {
            print(shipped.experiment)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for publication in &chosen {
        // What is in the way of the last one is not to be found out when all others have run.
        let directory = args.directory().join(&publication.name);
        if directory.symlink_metadata().is_ok() {
            check_results(&directory)?;
        }
    }
    let mut comparisons = Vec::new();
    for publication in chosen {
        comparisons.push(reproduce_one(publication, args)?);
    }
    if args.json {
        let list: Vec<_> = comparisons.iter().map(Comparison::to_json).collect();
        match list.as_slice() {
            [one] => print_json(one)?,
            _ => print_json(&list.into())?,
        }
    }
    let good = |one: &Comparison| {
        let (agree, judged) = one.agreement();
        one.reproduced() && agree == judged
    };
    let failed = args.strict && !comparisons.iter().all(good);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Each of those that are named, once.
fn chosen<'a>(names: &[String], known: &'a [Publication]) -> Result<Vec<&'a Publication>, Failure> {
    let find = |name: &String| {
        known.iter().find(|one| one.name == *name).ok_or_else(|| {
            let help = lab::plan::suggest(name, known.iter().map(|one| one.name.as_str()));
            Failure::Usage(format!(
                "no publication is called \"{name}\"; {}",
                help.unwrap_or_default()
            ))
        })
    };
    let mut chosen: Vec<&Publication> = Vec::new();
    for name in names.iter().filter(|name| *name != "all") {
        let one = find(name)?;
        if !chosen.iter().any(|other| other.name == one.name) {
            chosen.push(one);
        }
    }
    if names.iter().any(|name| name == "all") {
        return Ok(known.iter().collect());
    }
    Ok(chosen)
}

fn reproduce_one(publication: &Publication, args: &Args) -> Result<Comparison, Failure> {
    let name = &publication.name;
    let mut experiment = published::experiment(name)
        .map_err(|faults| Failure::Other(faults.to_string()))?
        .ok_or_else(|| Failure::Other(format!("the experiment of {name} is missing")))?;
    let mut only_headline = publication.only_headline();
    if args.live {
        only_headline = only_headline.at_live_scale();
    }
    let shortened = args.quick && !publication.quick.is_empty();
    let headline_only = (args.quick && !shortened) || args.live;
    let publication = if headline_only { &only_headline } else { publication };
    if headline_only {
        experiment.points.retain(|point| publication.is_headline(point));
    }
    if args.live {
        let set = experiment.set_everywhere(&publication.live);
        set.map_err(|faults| Failure::Other(faults.to_string()))?;
    }
    if shortened {
        let set = experiment.set_everywhere(&publication.quick);
        set.map_err(|faults| Failure::Other(faults.to_string()))?;
    }
    if args.directory().as_os_str() == STANDARD_OUTPUT {
        Store::create(args.directory())?;
    }
    let base = &experiment.base;
    let output = match &args.resume {
        None => results(&args.out.join(name))?,
        Some(directory) => {
            let repetitions = args.runs.unwrap_or(base.repetitions);
            resume(&directory.join(name), &experiment, base.seed, repetitions)?
        }
    };
    let options = Runs { repetitions: args.runs, workers: args.workers, ..Runs::default() };
    let mut points = match run_all(&experiment, &options, Some(&output)) {
        Ok(points) => points,
        Err(mut part) => {
            let finished = keep_finished(&mut part, &experiment, base.seed, Some(&output));
            if finished.is_some() && !args.json {
                print_results(&experiment, &part.points)?;
            }
            return Err(unfinished(part, true));
        }
    };
    output.finish(&experiment, experiment.base.seed, &points, 0)?;
    let swept = points.len();
    points.extend(published::further_points(name));
    let mut comparison = publication.compare(&points);
    if args.live {
        for stack in stacks(args) {
            add_live(&mut comparison, publication, &experiment, stack, args)?;
        }
    }
    let pictures = reproduce::draw(&comparison, publication, &points, &output)?;
    if !args.json {
        print_report(publication, &comparison)?;
        let further = points.split_off(swept);
        if points.len() + further.len() > comparison.points() {
            print("\nThe whole sweep, mean ± 95 % confidence:")?;
            print_results(&experiment, &points)?;
        }
        print("\nPlots:")?;
        for picture in pictures {
            print(&format!("  {}", picture.display()))?;
        }
        print(&format!("  and more in {}", output.store().root().join("plots").display()))?;
    }
    Ok(comparison)
}

/// Prints the table of the experiment itself.
fn print_results(experiment: &Experiment, points: &[PointResult]) -> Result<(), Failure> {
    let wanted = &experiment.base.measure.table;
    let rows = lab::report::results(&experiment.axis_names(), points, wanted);
    print(&table::render(&rows))
}

/// The stacks of live runs, in the order of the columns.
fn stacks(args: &Args) -> Vec<StackChoice> {
    match args.live_stack.as_slice() {
        [] => vec![StackChoice::Ours, StackChoice::Kernel],
        chosen => chosen.to_vec(),
    }
}

/// Runs the points live, and adds what comes out as a column. Where a kernel lacks what the experiment
/// asks for, it is said and there is no column.
fn add_live(
    comparison: &mut Comparison,
    publication: &Publication,
    experiment: &Experiment,
    stack: StackChoice,
    args: &Args,
) -> Result<(), Failure> {
    let (what, folder) = match stack {
        StackChoice::Ours => ("live", "live"),
        StackChoice::Kernel => ("live, kernel", "live-kernel"),
    };
    let output = results(&args.out.join(&publication.name).join(folder))?;
    let live = Some(LiveOverrides { stack: Some(stack.into()) });
    let options = Runs { repetitions: Some(args.live_runs), live, ..Runs::default() };
    let points = match run_all(experiment, &options, Some(&output)) {
        Ok(points) => points,
        Err(part)
            if stack == StackChoice::Kernel && matches!(part.error, lab::run::Error::World(_)) =>
        {
            stderr_line!("note: no column \"{what}\": {}", part.error);
            return Ok(());
        }
        Err(part) => return Err(unfinished(part, true)),
    };
    output.finish(experiment, experiment.base.seed, &points, 0)?;
    comparison.add_live(what, &publication.compare(&points), &points);
    Ok(())
}

/// Prints the table and the expectations.
fn print_report(publication: &Publication, comparison: &Comparison) -> Result<(), Failure> {
    print(&format!("{}\n{}", publication.title, publication.source))?;
    let headline: Vec<String> =
        publication.headline.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
    if !headline.is_empty() {
        print(&format!("headline: {}", headline.join(", ")))?;
    }
    for (place, figures) in comparison.tables() {
        if !place.is_empty() {
            print(&format!("\n{place}:"))?;
        }
        print(&table::render(&figures))?;
    }
    for (sentence, met) in &comparison.expectations {
        print(&format!("{} {sentence}", if *met { "met:    " } else { "NOT MET:" }))?;
    }
    let (agree, judged) = comparison.agreement();
    if judged > 0 {
        print(&format!(
            "agreement with a real kernel: {agree} of {judged} figures (! marks the others)"
        ))?;
    }
    if !comparison.live.is_empty() {
        let (near, judged) = comparison.nearness();
        print(&format!(
            "live: {near} of {judged} figures are within 10 % of the simulated ones (latencies: \
             3 ms; ! marks the others)"
        ))?;
        for one in &comparison.lateness {
            print(one)?;
        }
    }
    print(&format!("verdict: {}", comparison.verdict()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_one_publication() {
        let known = published::publications().expect("ours are well-formed");
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let chosen = chosen(&words, &known).map_err(|_| "refused")?;
            Ok(chosen.iter().map(|one| one.name.clone()).collect::<Vec<_>>())
        };
        let both = vec!["rrul".to_owned(), "policer".to_owned()];
        assert_eq!(names(&["rrul", "policer", "rrul"]), Ok(both));
        assert_eq!(names(&["policer", "all"]).map(|all| all.len()), Ok(known.len()));
        for unknown in [&["all", "nothing"][..], &["rrul", "nothing"]] {
            assert_eq!(names(unknown), Err("refused"));
        }
    }
}
