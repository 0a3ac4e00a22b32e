//! How large an experiment may be. What a file asks for is reckoned before memory is taken for it.

use datapath::units::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
