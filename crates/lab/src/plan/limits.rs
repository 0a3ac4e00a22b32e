//! How large an experiment may be. What a file asks for is reckoned before memory is taken for it,
//! and what exceeds them is reported with its place and what to do.

use datapath::units::Duration;

use super::app::{App, FlowPlan};
use super::doc::Origin;
use super::measure::Measure;
use super::network::{LinkPlan, NodePlan, Role};
use super::read::Faults;
use super::routes::{RouteTable, ShortestPaths};

/// Bytes of an experiment file.
pub const FILE_MAX: u64 = 16 << 20;
/// Characters of the name of a node, link, flow or group, so that the names of files made of several
/// of them fit into the 255 bytes that file systems allow.
pub const NAME_MAX: usize = 60;
/// Nodes: as many as links, so that each may have one.
pub const NODES_MAX: usize = 65_535;
/// Links: a node numbers its ports with 16 bits.
pub const LINKS_MAX: usize = 65_535;
/// As many flows as there are server ports below those of clients.
pub const FLOWS_MAX: usize = 35_000;
/// Flows of a workload.
pub const WORKLOAD_FLOWS_MAX: usize = 2_000_000;
/// Flows that one host begins: each has a port of its own.
pub const HOST_FLOWS_MAX: usize = 60_000;
/// Flows of a workload that are drawn: how many there will be is known about only, so that a tenth more may come.
pub(crate) const DRAWN_FLOWS_MAX: usize = WORKLOAD_FLOWS_MAX + WORKLOAD_FLOWS_MAX / 10;
/// Flows that a host begins in a second, or requests that it makes: times are whole nanoseconds.
pub(crate) const HOST_RATE_MAX: f64 = 1e8;
/// Hosts that flows name beyond the two ends of each: the servers of queries, anycast.
pub const FURTHER_HOSTS_MAX: usize = 200_000;
/// Texts that nodes or links have (lines of `ip`, rules, events), counted for each of them.
pub const TEXTS_MAX: usize = 1_000_000;
/// Steps of a schedule, and lines of a trace.
pub const SCHEDULE_MAX: usize = 1_000_000;
/// Routes of all nodes that need more than one.
pub const ROUTES_MAX: usize = 4_000_000;
/// Points of a sweep.
pub const POINTS_MAX: u64 = 20_000;
/// Points times repetitions.
pub const RUNS_MAX: u64 = 100_000;
/// The last seed: Parquet, and tables in Python, have no whole numbers beyond it.
const SEED_MAX: u64 = i64::MAX as u64;
/// Bytes of the settings of all points of a sweep.
pub const SETTINGS_MAX: u64 = 256 << 20;
/// Bytes that parameters add where they are put in.
pub const EXPANSION_MAX: usize = 32 << 20;
/// Bytes of the samples of one run.
pub const SAMPLES_MAX: u64 = 2 << 30;
/// Probes and attempts of one run whose times are kept.
pub const PROBES_MAX: u64 = 20_000_000;
/// Metrics of the steps of one run.
pub const STEPS_MAX: u64 = 1_000_000;
/// The longest time that can be written: 31 years, so that sums of times fit into 64 bits.
pub const TIME_MAX: Duration = Duration::from_secs(1_000_000_000);

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

/// How many runs that makes.
///
/// # Errors
/// When there are too many of them.
pub fn runs(points: u64, repetitions: u32) -> Result<u64, String> {
    let runs = points.saturating_mul(u64::from(repetitions));
    if runs <= RUNS_MAX {
        return Ok(runs);
    }
    Err(format!(
        "{points} points with {repetitions} repetitions are {runs} runs; at most {RUNS_MAX} are possible"
    ))
}

/// Whether results can say the seeds of so many repetitions, from `first` on.
///
/// # Errors
/// When the last seed is above 2^63 - 1.
pub fn seeds(first: u64, repetitions: u32) -> Result<(), String> {
    let last = u128::from(first) + u128::from(repetitions.saturating_sub(1));
    if last <= SEED_MAX.into() {
        return Ok(());
    }
    let runs =
        if repetitions > 1 { format!(" with {repetitions} repetitions") } else { String::new() };
    Err(format!("{first}{runs} is too large; the last seed may be {SEED_MAX} (2^63 - 1)"))
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

    #[test]
    fn seeds_are_what_results_can_say() {
        for (first, repetitions) in [(0, 1), (SEED_MAX, 1), (SEED_MAX - 2, 3), (1, u32::MAX)] {
            assert_eq!(seeds(first, repetitions), Ok(()), "{first} {repetitions}");
        }
        for (first, repetitions) in [(SEED_MAX + 1, 1), (SEED_MAX - 2, 4), (u64::MAX, u32::MAX)] {
            let problem = seeds(first, repetitions).unwrap_err();
            assert!(problem.contains("9223372036854775807"), "{problem}");
        }
    }
}
