//! The table of a sweep for papers and spreadsheets: what the terminal shows, as LaTeX and as CSV.

use crate::report;
use crate::results::{MetricSummary, PointResult};
use crate::store::table::{Table, Values};
use std::fmt::Write as _;

/// A row for each point: its labels, and mean and half of the 95 % confidence interval of each metric that the terminal
/// shows of a sweep. A mean is over `n` runs; a metric that a point does not have is empty.
pub fn csv(axes: &[&str], points: &[PointResult], wanted: &[String]) -> Table {
    let names = if wanted.is_empty() { report::headlines(points) } else { wanted.to_vec() };
    let summaries: Vec<Vec<MetricSummary>> = points.iter().map(PointResult::summaries).collect();
    let mut table = Table::default();
    for (place, axis) in axes.iter().enumerate() {
        let labels = points.iter().map(|point| point.labels[place].1.clone());
        table.push(axis, Values::Text(labels.collect()));
    }
    for name in names {
        let of_points: Vec<Option<&MetricSummary>> =
            summaries.iter().map(|all| all.iter().find(|one| one.full_name() == name)).collect();
        let Some(unit) = of_points.iter().flatten().map(|one| one.unit).next() else { continue };
        let head = if unit.is_empty() { name } else { format!("{name} [{unit}]") };
        let of = |value: fn(&MetricSummary) -> Option<f64>| {
            Values::Decimal(of_points.iter().map(|one| one.and_then(value)).collect())
        };
        table.push(&head, of(|one| Some(one.summary.mean)));
        table.push(&format!("{head} ci95"), of(|one| one.summary.ci95));
        let runs = of_points.iter().map(|one| Some(one.map_or(0, |one| one.summary.n as i64)));
        table.push(&format!("{head} n"), Values::Whole(runs.collect()));
    }
    table
}

/// What the terminal shows, as a `tabular` of LaTeX with the rules of its package booktabs.
pub fn latex(title: &str, axes: &[&str], points: &[PointResult], wanted: &[String]) -> String {
    let table = report::results(axes, points, wanted);
    let columns: String = table.numeric.iter().map(|it| if *it { 'r' } else { 'l' }).collect();
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell_of_latex(cell)).collect();
        format!("  {} \\\\\n", cells.join(" & "))
    };
    let mut out = String::new();
    let runs = report::runs_of(points);
    let _ = writeln!(
        out,
        "% {title}: {runs}, mean ± 95 % confidence interval. \\usepackage{{booktabs}}"
    );
    let _ = writeln!(out, "\\begin{{tabular}}{{{columns}}}\n  \\toprule");
    out += &line(&table.head);
    out += "  \\midrule\n";
    for row in &table.rows {
        out += &line(row);
    }
    out += "  \\bottomrule\n\\end{tabular}\n";
    out
}

/// `47.81 ± 0.012` is mathematics; what has a meaning of its own in LaTeX loses it.
fn cell_of_latex(text: &str) -> String {
    if let Some((mean, spread)) = text.split_once(" ± ")
        && mean.parse::<f64>().is_ok()
    {
        let (spread, behind) = spread.split_once(' ').unwrap_or((spread, ""));
        let behind = if behind.is_empty() { String::new() } else { format!(" {behind}") };
        return format!("${mean} \\pm {spread}${behind}");
    }
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '±' => out += "$\\pm$",
            'µ' => out += "$\\mu$",
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Metric, RunResult};

    fn point(labels: [&str; 2], goodputs: &[f64]) -> PointResult {
        let run = |value: &f64| {
            let metric = |scope: &str, name: &str, unit, value| Metric {
                scope: scope.into(),
                name: name.into(),
                unit,
                value,
            };
            let metrics = vec![
                metric("total", "goodput", "Mbit/s", *value),
                metric("router.wan", "queue delay 99 %", "ms", value / 10.0),
                metric("total", "fairness", "", 0.5),
            ];
            RunResult { metrics, ..RunResult::default() }
        };
        let labels = ["cc", "queue"].map(String::from).into_iter().zip(labels.map(String::from));
        PointResult { labels: labels.collect(), runs: goodputs.iter().map(run).collect() }
    }

    fn points() -> [PointResult; 2] {
        [point(["cubic", "fq_codel"], &[47.0, 48.0]), point(["bbr", "50% red & co"], &[40.0])]
    }

    const WANTED: [&str; 3] = ["total goodput", "router.wan queue delay 99 %", "total fairness"];

    #[test]
    fn a_row_a_point() {
        let wanted = WANTED.map(String::from);
        let table = csv(&["cc", "queue"], &points(), &wanted);
        let text = String::from_utf8(table.csv().expect("CSV")).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        let heads = "cc,queue,total goodput [Mbit/s],total goodput [Mbit/s] ci95,total goodput [Mbit/s] n,\
                     router.wan queue delay 99 % [ms],";
        assert!(lines[0].starts_with(heads), "{}", lines[0]);
        assert!(lines[0].ends_with("total fairness,total fairness ci95,total fairness n"));
        assert!(lines[1].starts_with("cubic,fq_codel,47.5,6.35"), "{}", lines[1]);
        // Of one run there is no interval.
        assert_eq!(lines[2], "bbr,50% red & co,40,,1,4,,1,0.5,,1");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn latex_takes_it() {
        let wanted = WANTED.map(String::from);
        let text = latex("Four queues", &["cc", "queue"], &points(), &wanted);
        let expected = "\
% Four queues: 1 to 2 runs per row, mean ± 95 % confidence interval. \\usepackage{booktabs}
\\begin{tabular}{llrrr}
  \\toprule
  cc & queue & goodput [Mbit/s] & router.wan queue delay 99 \\% [ms] & fairness \\\\
  \\midrule
  cubic & fq\\_codel & $47.50 \\pm 6.4$ & $4.750 \\pm 0.64$ & $0.500 \\pm 0$ \\\\
  bbr & 50\\% red \\& co & 40 & 4 & 0.500 \\\\
  \\bottomrule
\\end{tabular}
";
        assert_eq!(text, expected);
    }

    #[test]
    fn nothing_keeps_a_meaning_of_its_own() {
        for (text, latex) in [
            ("a_b", "a\\_b"),
            ("x^2~{y}", "x\\textasciicircum{}2\\textasciitilde{}\\{y\\}"),
            ("47.81 ± 0.012 (1 of 2)", "$47.81 \\pm 0.012$ (1 of 2)"),
            ("± 3", "$\\pm$ 3"),
            ("\\", "\\textbackslash{}"),
        ] {
            assert_eq!(cell_of_latex(text), latex);
        }
    }
}
