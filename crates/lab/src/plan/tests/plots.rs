//! `[[plot]]`.

use super::*;
use crate::plan::plots::{Format, PlotData, Style};

const FILE: &str = r#"schema = 1
name = "p"
nodes = { a = {}, b = {} }
[links.wire]
ends = ["a", "b"]
rate = "10mbit"
[flows]
load = { app = "bulk", from = "a", to = "b" }
[sweep]
"links.wire.rate" = ["1mbit", "2mbit"]
[[plot]]
WORDS
"#;

fn read(words: &str) -> Result<Plan, String> {
    let text = FILE.replace("WORDS", words);
    let experiment =
        Experiment::parse("p.toml", &text, &[]).map_err(|faults| faults.to_string())?;
    Ok(experiment.base)
}

#[test]
fn plots_are_chosen_in_the_file() {
    let words = "what = \"cwnd\"\nscopes = [\"lo*\"]\nstyle = \"lines\"\nbins = 50\nsize = [400, 300]\n\
                 format = [\"pdf\", \"svg\"]\n[[plot]]\nwhat = \"latency cdf\"\nname = \"mine\"\ntitle = \"\"\n[[plot]]\n\
                 what = \"total goodput\"\nagainst = \"links.wire.rate\"";
    let plan = read(words).unwrap_or_else(|why| panic!("{why}"));
    let [cwnd, cdf, goodput] = plan.plots.as_slice() else { panic!("three plots") };
    assert_eq!((cwnd.name.as_str(), &cwnd.what), ("cwnd", &PlotData::Time("cwnd")));
    assert_eq!((cwnd.style, cwnd.bins, cwnd.size), (Style::Lines, Some(50), [400.0, 300.0]));
    assert_eq!(cwnd.title, None);
    assert_eq!(cwnd.formats, [Format::Pdf, Format::Svg]);
    assert!(cwnd.shows("load") && !cwnd.shows("other"));
    assert_eq!((cdf.name.as_str(), &cdf.what), ("mine", &PlotData::Cdf("latency")));
    assert_eq!(cdf.title.as_deref(), Some(""));
    assert_eq!(goodput.what, PlotData::Metric("total goodput".into()));
    assert_eq!(goodput.against.as_deref(), Some("links.wire.rate"));
}

#[test]
fn wrong_plots_are_reported_with_their_position() {
    for (words, what) in [
        ("name = \"x\"", "\"what\" is missing"),
        ("what = \"cwdn\"", ":12:8: \"cwdn\" cannot be plotted; did you mean \"cwnd\"?"),
        ("what = \"cwnd\"\nformat = \"gif\"", ":13:10: \"gif\" is not a valid format"),
        ("what = \"cwnd\"\nsize = [1, 2]", ":13:8: a size is"),
        ("what = \"cwnd\"\nname = \"../x\"", ":13:8: the name may contain"),
        ("what = \"total goodput\"\nagainst = \"rate\"", ":13:11: no axis is called \"rate\""),
        ("what = \"cwnd\"\n[[plot]]\nwhat = \"cwnd\"", "another plot is called \"cwnd\""),
        ("what = \"cwnd\"\ntitle = \"a\\nb\"", ":13:9: a title must be one line"),
        ("what = \"cwnd\"\ntitle = 7", ":13:9: "),
        ("what = \"cwnd\"\nformat = []", ":13:10: no format given"),
        (
            "what = \"cwnd\"\nagainst = \"links.wire.rate\"",
            ":13:11: \"against\" applies only to plots of a metric",
        ),
        ("what = \"latency cdf\"\nbins = 20", ":13:8: \"bins\" applies only to plots over time"),
        (
            "what = \"latency cdf\"\nstyle = \"bands\"",
            ":13:9: \"style\" applies only to plots over time",
        ),
        (
            "what = \"total rto\"\nscopes = [\"load\"]",
            ":13:10: \"scopes\" applies only to plots over time and of",
        ),
        (
            "what = \"total rto\"\nname = \"1mbit-cwnd\"\n[[plot]]\nwhat = \"cwnd\"",
            ":14:1: another plot also writes plots/1mbit-cwnd; give one of them another \"name\"",
        ),
        (
            "what = \"total rto\"\nname = \"x\"\n[[plot]]\nwhat = \"total goodput\"\nname = \"X-map\"",
            ":14:1: another plot also writes plots/X-map",
        ),
        ("what = \"cwnd\"\nbin = 7", "unknown key \"bin\"; did you mean \"bins\"?"),
    ] {
        let told = read(words).unwrap_err();
        assert!(told.contains(what), "{words}: {told}");
    }
}
