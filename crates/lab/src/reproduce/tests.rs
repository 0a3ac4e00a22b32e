//! Publications are complete; what a comparison says.

use super::*;
use crate::published::{experiment, publications};

#[test]
fn every_publication_has_a_valid_experiment_with_its_cases() {
    let publications = publications().unwrap_or_else(|faults| panic!("{faults}"));
    assert!(!publications.is_empty());
    for publication in publications {
        let mut experiment = experiment(&publication.name)
            .unwrap_or_else(|faults| panic!("{faults}"))
            .unwrap_or_else(|| panic!("{} has no file", publication.name));
        let headline: Vec<&Point> =
            experiment.points.iter().filter(|point| publication.is_headline(point)).collect();
        let further = crate::published::further_points(&publication.name);
        for row in &publication.rows {
            let mut results: Vec<PointResult> = experiment
                .points
                .iter()
                .map(|point| PointResult { labels: point.labels.clone(), runs: vec![] })
                .collect();
            results.extend(further.iter().cloned());
            let found = publication.point(&row.case, &row.at, &results);
            assert!(found.is_some(), "{}: no point for {}", publication.name, row.case);
        }
        assert!(!headline.is_empty(), "{} has no headline", publication.name);
        // What `--live` sets is there to be set.
        let set = experiment.set_everywhere(&publication.live);
        set.unwrap_or_else(|faults| panic!("{}: {faults}", publication.name));
    }
}

#[test]
fn every_published_file_is_shipped() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/published");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let names = crate::published::SHIPPED.iter().map(|one| format!("{}.toml", one.name));
    let mut shipped: Vec<String> = names.collect();
    shipped.sort();
    assert_eq!(files, shipped);
}

fn point(case: &str, goodput: f64, rto: f64) -> PointResult {
    let metric =
        |name: &str, value| Metric { scope: "total".into(), name: name.into(), unit: "", value };
    let run = RunResult {
        metrics: vec![metric("goodput", goodput), metric("rto", rto)],
        ..RunResult::default()
    };
    let labels = [("burst", "1250000b"), ("congestion_control", "cubic"), ("detector", case)];
    PointResult {
        labels: labels.map(|(axis, label)| (axis.into(), label.into())).to_vec(),
        runs: vec![run],
    }
}

#[test]
fn the_verdict_follows_the_expectations() {
    let publications = publications().unwrap();
    let publication = publications.iter().find(|one| one.name == "lost-retransmit").unwrap();
    let points = |vanilla_rto: f64| {
        vec![
            point("linux-2.6.22", 300.0, vanilla_rto),
            point("highest-sack", 400.0, 0.0),
            point("skip-reported", 400.0, 0.0),
            point("both", 400.0, 0.0),
            point("rack", 400.0, 0.0),
        ]
    };
    let good = publication.compare(&points(20.0));
    assert!(good.reproduced(), "{:?}", good.expectations);
    let json = good.to_json();
    assert_eq!(json["rows"][0]["case"], "linux-2.6.22");
    assert_eq!(json["rows"][0]["metric"], "goodput mean");
    assert_eq!(json["rows"][0]["published"], 376.0);
    assert_eq!(json["rows"][0]["measured"], 300.0);
    assert_eq!(json["verdict"], "reproduced");
    assert!(!publication.compare(&points(2.0)).reproduced());
    assert!(!publication.compare(&[]).reproduced(), "nothing measured proves nothing");
}

#[test]
fn live_figures_stand_beside_the_simulated_ones() {
    let publication = crate::published::parse("x", FIGURES).unwrap_or_else(|f| panic!("{f}"));
    let mut done = publication.compare(&[point("a", 200.0, 1.0), point("b", 300.0, 5.0)]);
    let points = [point("a", 185.0, 1.0), point("b", 200.0, 5.0)];
    done.add_live("live", &publication.compare(&points), &points);
    let near: Vec<Option<bool>> = done.rows.iter().map(|one| one.is_near(0)).collect();
    assert_eq!(near[..2], [Some(true), Some(false)], "10 % of the simulated figure");
    assert_eq!(near[4], None, "the other burst was not run");
    let table = &done.tables()[0].1;
    assert_eq!(table.head.last().map(String::as_str), Some("live"));
    assert_eq!(table.rows[1].last().map(String::as_str), Some("200 !"));
    let json = done.to_json();
    assert_eq!(json["rows"][0]["live"]["live"]["measured"], 185.0);
    assert_eq!(json["live"]["judged"], done.nearness().1);
}

/// At another rate nothing is compared with what was published; a shorter run changes counts only.
#[test]
fn figures_of_another_scale_are_not_compared() {
    let shipped = publications().unwrap();
    let scaled = |name: &str| {
        shipped.iter().find(|one| one.name == name).map(Publication::at_live_scale).unwrap()
    };
    let policer = scaled("policer");
    assert!(policer.rows.iter().all(|row| row.kernel.is_none()) && policer.expect.is_empty());
    assert_eq!(policer.compare(&[]).verdict(), "not judged");
    let cake = scaled("cake-ack-filter");
    assert!(!cake.expect.is_empty());
    for row in &cake.rows {
        assert!(row.metric != "ack_drops" || row.kernel.is_none(), "{row:?}");
        assert!(row.metric != "up goodput mean" || row.kernel.is_some(), "{row:?}");
    }
}

const FIGURES: &str = r#"
    title = "T"
    source = "S"
    case_axis = "detector"
    baseline = "a"
    headline = { burst = "1250000b" }
    rows = [
      { case = "a", metric = "goodput mean", kernel = 210, within_share = 0.05 },
      { case = "b", metric = "goodput mean", kernel = 320, within_share = 0.01, kernel_sd = 10 },
      { case = "b", metric = "goodput gain", published = 50 },
      { case = "b", metric = "later added", from = "total rto", kernel = 2, within = 1.5 },
      { case = "b", at = { burst = "64kb" }, metric = "goodput mean" },
    ]
    expect = [
      { case = "b", metric = "later added", at_least = 3 },
      { case = "b", at = { burst = "64kb" }, metric = "goodput mean", at_least = 1 },
    ]
"#;

#[test]
fn gains_are_over_the_baseline_and_tolerances_are_the_widest() {
    let publication = crate::published::parse("x", FIGURES).unwrap_or_else(|f| panic!("{f}"));
    let done = publication.compare(&[point("a", 200.0, 1.0), point("b", 300.0, 5.0)]);
    let ours: Vec<Option<f64>> = done.rows.iter().map(|one| one.measured).collect();
    assert_eq!(ours[..4], [Some(200.0), Some(300.0), Some(50.0), Some(4.0)]);
    assert_eq!(ours[4], None, "the other burst was not run");
    let agrees: Vec<Option<bool>> = done.rows.iter().map(ComparedFigure::agrees).collect();
    assert_eq!(agrees, [Some(true), Some(true), None, Some(false), None]);
    assert_eq!(done.agreement(), (2, 3));
    assert_eq!(done.expectations.iter().map(|(_, met)| *met).collect::<Vec<_>>(), [true, false]);
    let headline = publication.only_headline();
    assert!(headline.compare(&[point("a", 200.0, 1.0), point("b", 300.0, 5.0)]).reproduced());
}
