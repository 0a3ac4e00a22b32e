//! `ackwright reproduce`.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::published::{self, Publication};
use lab::reproduce::{self, Comparison};
use lab::store::{STANDARD_OUTPUT, Store};
use serde_json::json;

use super::run::{Runs, Workers, run_all, unfinished};
use super::{Failure, Outcome, print, print_json, results};
use crate::table;

/// Arguments of `ackwright reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright reproduce                        list what can be reproduced
  ackwright reproduce lost-retransmit        the whole sweep
  ackwright reproduce all --quick --json     only the headline of each

Exit code 0 once everything ran, whatever the verdict; with --strict 1 if an expectation that was
written down beforehand is not met, or a figure is further from a real kernel's than allowed.")]
pub struct Args {
    /// Names of publications, or \"all\"; without any they are listed
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run only the headline point of each sweep, or shorter runs of all points
    #[arg(long)]
    quick: bool,
    /// Number of repetitions [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Exit with 1 if a verdict is \"not reproduced\" or a figure does not agree with the kernel's
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    workers: Workers,
    /// Where results and plots go
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
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
            print(&format!("{}: {}\n    {}", one.name, one.title, one.source))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut comparisons = Vec::new();
    for publication in chosen(&args.names, &known)? {
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

fn chosen<'a>(names: &[String], known: &'a [Publication]) -> Result<Vec<&'a Publication>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(known.iter().collect());
    }
    let find = |name: &String| {
        known.iter().find(|one| one.name == *name).ok_or_else(|| {
            let help = lab::plan::suggest(name, known.iter().map(|one| one.name.as_str()));
            Failure::Usage(format!(
                "nothing published is called \"{name}\"; {}",
                help.unwrap_or_default()
            ))
        })
    };
    names.iter().map(find).collect()
}

fn reproduce_one(publication: &Publication, args: &Args) -> Result<Comparison, Failure> {
    let name = &publication.name;
    let mut experiment = published::experiment(name)
        .map_err(|faults| Failure::Other(faults.to_string()))?
        .ok_or_else(|| Failure::Other(format!("the experiment of {name} is missing")))?;
    let only_headline = publication.only_headline();
    let shortened = args.quick && !publication.quick.is_empty();
    let headline_only = args.quick && !shortened;
    let publication = if headline_only { &only_headline } else { publication };
    if headline_only {
        experiment.points.retain(|point| publication.is_headline(point));
    }
    if shortened {
        let set = experiment.set_everywhere(&publication.quick);
        set.map_err(|faults| Failure::Other(faults.to_string()))?;
    }
    if args.out.as_os_str() == STANDARD_OUTPUT {
        Store::create(&args.out)?;
    }
    let output = results(&args.out.join(name))?;
    let options = Runs { repetitions: args.runs, workers: args.workers, ..Runs::default() };
    let mut points = run_all(&experiment, &options, Some(&output)).map_err(unfinished)?;
    output.finish(&experiment, experiment.base.seed, &points, 0)?;
    let swept = points.len();
    points.extend(published::further_points(name));
    let comparison = publication.compare(&points);
    let pictures = reproduce::draw(&comparison, publication, &points, &output)?;
    if !args.json {
        tell(publication, &comparison)?;
        let further = points.split_off(swept);
        if points.len() + further.len() > comparison.points() {
            print("\nThe whole sweep, mean ± 95 % confidence:")?;
            let wanted = &experiment.base.measure.table;
            let axes = experiment.axis_names();
            print(&table::render(&lab::report::results(&axes, &points, wanted)))?;
        }
        print("\nPlots:")?;
        for picture in pictures {
            print(&format!("  {}", picture.display()))?;
        }
        print(&format!("  and more in {}", output.store().root().join("plots").display()))?;
    }
    Ok(comparison)
}

/// Prints the table and the expectations.
fn tell(publication: &Publication, comparison: &Comparison) -> Result<(), Failure> {
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
        print(&format!("agreement with a real kernel: {agree} of {judged} figures (! are not)"))?;
    }
    print(&format!("verdict: {}", comparison.verdict()))
}
