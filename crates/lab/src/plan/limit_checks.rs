//! Whether an experiment stays within its limits. What exceeds them is reported with its place and what to do.

use datapath::units::Duration;

use super::app::{App, FlowPlan};
use super::doc::Origin;
use super::limits::{PROBES_MAX, ROUTES_MAX, SAMPLES_MAX, STEPS_MAX};
use super::measure::Measure;
use super::network::{LinkPlan, NodePlan, Role};
use super::read::Faults;
use super::routes::{RouteTable, ShortestPaths};

/// `count` of something at `at`, beside `before` others: false, and a fault, if that is too many.
pub fn within_limit(
    what: &str,
    before: usize,
    count: Option<usize>,
    most: usize,
    at: &Origin,
    faults: &Faults<'_>,
) -> bool {
    let sum = count.and_then(|count| count.checked_add(before));
    if sum.is_some_and(|sum| sum <= most) {
        return true;
    }
    let asked = sum.map_or("more than can be counted".into(), |sum| sum.to_string());
    let message = format!("an experiment has at most {most} {what}, not {asked}");
    faults.add(at, message, Some("ask for fewer (\"count\", or what \"*\" fits)".into()));
    false
}

/// The routes of nodes with several links, one to each host and to each end of a link. With
/// `shortest` paths it is one to each switch that has hosts.
pub fn check_routes(
    nodes: &[NodePlan],
    links: &[LinkPlan],
    written: &RouteTable,
    shortest: bool,
    places: &[&Origin],
    faults: &Faults<'_>,
) -> Option<()> {
    let tables = ShortestPaths::tables(nodes, links, written);
    let hosts = nodes.iter().filter(|node| node.role == Role::Host).count();
    let each = if shortest {
        ShortestPaths::class_count(nodes, links)
    } else {
        (hosts + 2 * links.len()).max(nodes.len())
    };
    if tables.len().saturating_mul(each) <= ROUTES_MAX {
        return Some(());
    }
    let message = format!(
        "{} nodes with several links, or with routes of their own, would need {each} routes each; \
         {ROUTES_MAX} routes in all are possible",
        tables.len()
    );
    let help = "use fewer such nodes, or fewer links: a host with one link needs one route";
    let place = places.get(*tables.first()?).copied()?;
    faults.add(place, message, Some(help.into()));
    None
}

/// The samples of flows, ports and links, and the times of probes: they grow with the length of a run.
pub fn check_length(
    duration: Duration,
    flows: &[FlowPlan],
    places: &[&Origin],
    measure: &Measure,
    at: &Origin,
    faults: &Faults<'_>,
) {
    check_samples(duration, flows, measure, at, faults);
    let mut probes: u64 = 0;
    for (flow, place) in flows.iter().zip(places) {
        let (App::Ping { interval, .. }
        | App::Probe { interval, .. }
        | App::Connect { interval, .. }) = flow.app
        else {
            continue;
        };
        let stop = flow.stop.map_or(duration, |stop| stop.min(duration));
        let span = stop.as_nanos().saturating_sub(flow.start.as_nanos());
        let mut count = span / interval.as_nanos().max(1);
        if let App::Connect { count: Some(attempts), .. } = flow.app {
            count = count.min(attempts);
        }
        probes = probes.saturating_add(count);
        if probes > PROBES_MAX {
            let message = format!("this makes {probes} probes; at most {PROBES_MAX} are kept");
            let help = "use a longer \"interval\", or a shorter \"duration\"";
            faults.add(place, message, Some(help.into()));
            return;
        }
    }
}

fn check_samples(
    duration: Duration,
    flows: &[FlowPlan],
    measure: &Measure,
    at: &Origin,
    faults: &Faults<'_>,
) {
    let streams = flows.iter().filter(|flow| flow.app.is_stream()).count() as u64;
    let others = flows.len() as u64 - streams;
    let (queues, links) = (measure.queues.len() as u64, measure.utilisation.len() as u64);
    // Those of links have times of their own.
    let columns = 1 + 6 * streams + others + 5 * queues + 2 * links + links.min(1);
    let each = columns * size_of::<Option<i64>>() as u64;
    let samples = duration.as_nanos() / measure.sample.as_nanos().max(1);
    if samples.saturating_mul(each) > SAMPLES_MAX {
        let most = (SAMPLES_MAX / each).max(1);
        let least = Duration::from_nanos(duration.as_nanos().div_ceil(most));
        let message = format!(
            "{samples} samples of {} flows, {queues} queues and {links} links take more than {} MB",
            flows.len(),
            SAMPLES_MAX >> 20
        );
        let help = format!("set \"sample\" in [measure] to {} or more", rounded_up(least));
        faults.add(at, message, Some(help));
    }
    let Some(steps) = measure.steps.filter(|steps| steps.as_nanos() > 0) else { return };
    let metrics = (duration.as_nanos() / steps.as_nanos()).saturating_mul(flows.len() as u64);
    if metrics > STEPS_MAX {
        let message =
            format!("\"steps\" makes {metrics} metrics; at most {STEPS_MAX} are possible");
        faults.add(at, message, Some("use longer \"steps\" in [measure]".into()));
    }
}

/// A time in the shortest words that are no less.
fn rounded_up(time: Duration) -> String {
    let nanos = time.as_nanos();
    match nanos {
        0..=1_000_000 => format!("{}us", nanos.div_ceil(1_000)),
        1_000_001..=10_000_000_000 => format!("{}ms", nanos.div_ceil(1_000_000)),
        _ => format!("{}s", nanos.div_ceil(1_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up_to_a_word() {
        let word = |nanos| rounded_up(Duration::from_nanos(nanos));
        assert_eq!(word(1), "1us");
        assert_eq!(word(58_333_334), "59ms");
        assert_eq!(word(10_000_000_001), "11s");
    }
}
