//! What a file's `[[plot]]`s ask for and no run has anything of.

use crate::plan::plots::{PlotData, PlotPlan};
use crate::report;
use crate::results::PointResult;

use super::over_time;

/// Why each plot of which nothing is drawn is not.
pub fn undrawn(plots: &[PlotPlan], points: &[PointResult]) -> Vec<String> {
    plots.iter().filter_map(|plot| of(plot, points)).collect()
}

fn of(plot: &PlotPlan, points: &[PointResult]) -> Option<String> {
    let runs = || points.iter().filter_map(|point| point.runs.first());
    let there: Vec<&str> = match &plot.what {
        PlotData::Metric(metric) => {
            let (_, near) = report::unmeasured(points, std::slice::from_ref(metric)).pop()?;
            let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            return Some(format!("no metric is called \"{metric}\"{hint}"));
        }
        PlotData::Time(word) => {
            runs().flat_map(|run| over_time::things(word, &run.series)).collect()
        }
        PlotData::Cdf(word) => {
            let all = runs().flat_map(|run| &run.distributions);
            all.filter(|one| one.what == *word).map(|one| one.scope.as_str()).collect()
        }
    };
    if there.iter().any(|scope| plot.shows(scope)) {
        return None;
    }
    let name = &plot.name;
    Some(match there.first() {
        None => format!("plot \"{name}\" is empty: none of it was measured"),
        Some(one) => format!(
            "plot \"{name}\" is empty: its \"scopes\" match nothing that was measured; \"{one}\" \
             was, for example"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plots::Style;
    use crate::results::{Column, RunResult, Series};

    #[test]
    fn an_empty_plot_is_reported() {
        let series = Series {
            name: "flow-load".into(),
            time_ns: [1].into(),
            columns: vec![Column { name: "cwnd_segments".into(), values: vec![Some(10)].into() }],
        };
        let run = RunResult { series: vec![series], ..RunResult::default() };
        let points = [PointResult { labels: Vec::new(), runs: vec![run] }];
        let told = |what: PlotData, scopes: &[&str]| {
            let plot = PlotPlan {
                name: "p".into(),
                what,
                title: None,
                scopes: scopes.iter().map(ToString::to_string).collect(),
                style: Style::Auto,
                bins: None,
                size: [0.0; 2],
                formats: Vec::new(),
                against: None,
            };
            undrawn(&[plot], &points).concat()
        };
        assert_eq!(told(PlotData::Time("cwnd"), &["lo*"]), "");
        let fits_none = "plot \"p\" is empty: its \"scopes\" match nothing that was measured; \"load\" was, \
             for example";
        assert_eq!(told(PlotData::Time("cwnd"), &["other"]), fits_none);
        let nothing = "plot \"p\" is empty: none of it was measured";
        assert_eq!(told(PlotData::Time("utilisation"), &[]), nothing);
        assert_eq!(told(PlotData::Cdf("slowdown"), &[]), nothing);
        let metric = told(PlotData::Metric("total godput".into()), &[]);
        assert_eq!(metric, "no metric is called \"total godput\"");
    }
}
