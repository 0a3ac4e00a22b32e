//! What `ackwright run` prints when runs are over.

use lab::output::Output;
use lab::plan::Experiment;
use lab::results::{PointResult, summary_json};
use lab::trace::TraceOutputs;

use super::Args;
use crate::cmd::{Failure, print, print_json};
use crate::table;

/// Prints what came out; `missing` runs are not in it.
pub fn print_results(
    experiment: &Experiment,
    args: &Args,
    output: Option<&Output>,
    seed: u64,
    points: &[PointResult],
    missing: usize,
) -> Result<(), Failure> {
    let plan = &experiment.base;
    if args.json {
        return print_json(&summary_json(&plan.name, &plan.title, seed, points, missing));
    }
    let axes = experiment.axis_names();
    print(&table::wrapped(&format!("{}: {}", plan.title, lab::report::runs_of(points))))?;
    print(&table::render(&lab::report::results(&axes, points, &plan.measure.table)))?;
    print_summed_up(plan.measure.table.is_empty(), output.is_some(), points);
    if lab::report::repeats_itself(points) {
        stderr_line!(
            "note: the runs of {} came out the same, whatever their seed: nothing here is drawn (`spread`, [draw], \
             loss, a workload), so \"± 0\" says nothing about how it would spread",
            if points.len() > 1 { "each point" } else { "this experiment" }
        );
    }
    if missing == 0 {
        for (name, nearest) in lab::report::unmeasured(points, &plan.measure.table) {
            let hint =
                nearest.map_or(String::new(), |nearest| format!("; did you mean \"{nearest}\"?"));
            stderr_line!("note: `measure.table`: no metric is called \"{name}\"{hint}");
        }
        if output.is_some() {
            for why in lab::output::undrawn(&plan.plots, points) {
                stderr_line!("note: [[plot]]: {why}");
            }
        }
    }
    print_tc(args, points)?;
    print_sockets(points, &plan.name)?;
    let wanted = args.seeing.outputs();
    print_explained(points)?;
    if missing == 0 {
        print_files(&wanted)?;
    }
    if let Some(output) = output {
        print(&format!("results are in {}", output.store().root().display()))?;
    }
    Ok(())
}

/// Says where each of many flows is shown, if the table of a single point sums them up.
fn print_summed_up(all_metrics: bool, written: bool, points: &[PointResult]) {
    let ([point], true) = (points, all_metrics) else { return };
    let count = lab::report::summed_up(point);
    if count > 0 {
        let where_else = if written { "results.csv" } else { "--json, or results.csv of --out," };
        stderr_line!("note: {where_else} shows each of the {count} that stand in one row here");
    }
}

/// Prints what tc shows at the end of the first run of each point.
fn print_tc(args: &Args, points: &[PointResult]) -> Result<(), Failure> {
    for point in points {
        let Some(run) = point.runs.first() else { continue };
        if (args.tc_stats || args.tc_classes) && points.len() > 1 {
            print(&format!("\n{}:", point.title("")))?;
        }
        for port in &run.tc {
            if args.tc_stats {
                print(&port.text)?;
            }
            if args.tc_classes && !port.classes.is_empty() {
                print(&port.classes)?;
            }
        }
    }
    Ok(())
}

/// Prints what `ss` showed at the times asked for.
fn print_sockets(points: &[PointResult], name: &str) -> Result<(), Failure> {
    for point in points {
        for run in &point.runs {
            if !run.sockets.is_empty() {
                print(&format!("\n{} seed {}", point.title(name), run.seed))?;
            }
            for dump in &run.sockets {
                print(&dump.text())?;
            }
        }
    }
    Ok(())
}

/// Prints why flows were not faster.
fn print_explained(points: &[PointResult]) -> Result<(), Failure> {
    for run in points.iter().flat_map(|point| &point.runs) {
        for one in &run.explained {
            print(&format!("\n{}", one.why))?;
        }
    }
    Ok(())
}

/// Prints where files are that others open.
pub fn print_files(wanted: &TraceOutputs) -> Result<(), Failure> {
    if let Some(trace) = &wanted.perfetto {
        print(&format!("the trace is in {}; open it in ui.perfetto.dev", trace.display()))?;
    }
    if let Some(qlog) = &wanted.qlog {
        print(&format!("qlog files are in {}; open them in qvis", qlog.display()))?;
    }
    Ok(())
}
