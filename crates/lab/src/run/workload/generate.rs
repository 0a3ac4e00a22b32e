//! The flows of a workload in one run, drawn before it begins.

use datapath::rng::Rng;
use datapath::units::{Duration, Instant};

use crate::plan::limits::{DRAWN_FLOWS_MAX, HOST_FLOWS_MAX};
use crate::plan::workload::matrix::{Chooser, Matrix};
use crate::plan::workload::sizes::{Sizes, unit};
use crate::plan::workload::{Arrivals, WorkloadPlan};

/// A planned flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it begins.
    pub at: Instant,
    /// Who receives, as an index of the workload's hosts.
    pub to: usize,
    /// Bytes.
    pub bytes: u64,
    /// Of an incast: which request of which client it answers a part of.
    pub request: Option<RequestId>,
}

/// A request in an incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// Who asks, as an index of the workload's hosts.
    pub client: u32,
    /// Which of the requests that it has going at a time.
    pub place: u32,
    /// How many it made there before.
    pub number: u32,
}

/// Random streams of workloads, apart from those of links, applications and draws.
const STREAMS: u64 = 1 << 49;

/// The random stream of one host of a workload.
pub fn stream(seed: u64, workload: usize, host: usize) -> Rng {
    Rng::stream(seed, STREAMS + ((workload as u64 + 1) << 24) + host as u64)
}

/// The requests that a client makes one after the other. Client and servers draw the same ones, so that
/// nothing has to be transmitted.
#[derive(Clone, Debug)]
pub struct Requests {
    client: usize,
    servers: usize,
    hosts: usize,
    chooser: Chooser,
    sizes: Sizes,
    rng: Rng,
}

impl Requests {
    /// Those of `client` at one of the places for its requests. None but in an incast.
    pub fn new(
        plan: &WorkloadPlan,
        chooser: &Chooser,
        (seed, workload): (u64, usize),
        client: usize,
        place: usize,
    ) -> Option<Self> {
        let Matrix::Incast(servers) = plan.matrix else { return None };
        let stream =
            STREAMS + ((place as u64 + 1) << 36) + ((workload as u64 + 1) << 24) + client as u64;
        Some(Self {
            client,
            servers,
            hosts: plan.hosts.len(),
            chooser: chooser.clone(),
            sizes: plan.sizes.clone(),
            rng: Rng::stream(seed, stream),
        })
    }

    /// The servers of the next request, and the bytes from each.
    pub fn draw(&mut self) -> (Vec<usize>, u64) {
        let bytes = self.sizes.draw(&mut self.rng);
        let servers = if self.servers + 1 == self.hosts {
            (0..self.hosts).filter(|host| *host != self.client).collect()
        } else {
            self.chooser.several(self.client, self.servers, &mut self.rng)
        };
        (servers, bytes.div_ceil(self.servers as u64))
    }
}

/// What is drawn once for a run.
pub fn chooser(plan: &WorkloadPlan, seed: u64, workload: usize) -> Chooser {
    Chooser::new(&plan.matrix, &plan.racks, &mut Rng::stream(seed, STREAMS + workload as u64))
}

/// The flows that each host sends, in order of time; none of a closed workload.
///
/// # Errors
/// A host would send more than it has ports for, or all of them more than is possible.
pub fn jobs(
    plan: &WorkloadPlan,
    chooser: &Chooser,
    seed: u64,
    workload: usize,
) -> Result<Vec<Vec<Job>>, String> {
    let mut of_host: Vec<Vec<Job>> = vec![Vec::new(); plan.hosts.len()];
    if let Arrivals::Trace(flows) = &plan.arrivals {
        for flow in flows {
            let at = Instant::ZERO + plan.start + flow.at;
            of_host[flow.from].push(Job { at, to: flow.to, bytes: flow.bytes, request: None });
        }
    }
    let mut left = DRAWN_FLOWS_MAX;
    for host in 0..plan.hosts.len() {
        let mut rng = stream(seed, workload, host);
        let times = times(plan, host, left, &mut rng)?;
        left -= times.len() * plan.flows_of_event();
        for (number, at) in (0..).zip(times) {
            let bytes = plan.sizes.draw(&mut rng);
            let Matrix::Incast(senders) = plan.matrix else {
                let to = chooser.to(host, &mut rng);
                of_host[host].push(Job { at, to, bytes, request: None });
                continue;
            };
            // This host asks: the answer comes in equal parts from several at once.
            let part = bytes.div_ceil(senders as u64);
            let request = Some(RequestId { client: host as u32, place: 0, number });
            for from in chooser.several(host, senders, &mut rng) {
                of_host[from].push(Job { at, to: host, bytes: part, request });
            }
        }
    }
    for jobs in &mut of_host {
        jobs.sort_by_key(|job| job.at);
        if let Some(first_too_many) = jobs.get(HOST_FLOWS_MAX) {
            return Err(too_many(plan, &of_one_host(), first_too_many.at));
        }
    }
    Ok(of_host)
}

/// More flows than are possible, by a time.
fn too_many(plan: &WorkloadPlan, most: &str, at: Instant) -> String {
    let help = match plan.arrivals {
        Arrivals::OnOff(..) => "a longer \"on\" or a shorter \"off\", less \"load\"",
        _ => "less \"load\"",
    };
    format!(
        "the workload \"{}\" makes more than {most} by {} s; use {help}, larger flows or a shorter time",
        plan.name,
        at.as_nanos() as f64 / 1e9
    )
}

/// What of one host is possible.
fn of_one_host() -> String {
    format!("{HOST_FLOWS_MAX} flows of one host")
}

/// When something begins at a host, of a workload that may have `left` flows more.
///
/// # Errors
/// It would have more of them, or the host would send more than it has ports for.
fn times(
    plan: &WorkloadPlan,
    host: usize,
    left: usize,
    rng: &mut Rng,
) -> Result<Vec<Instant>, String> {
    let mut times = Vec::new();
    let Some(rate) = plan.event_rate(host).filter(|rate| *rate > 0.0) else { return Ok(times) };
    let on_off = match plan.arrivals {
        Arrivals::OnOff(_, on, off) => Some((on, off)),
        _ => None,
    };
    let possible = left / plan.flows_of_event();
    // Of an incast others send what this host asks for.
    let own = if let Matrix::Incast(_) = plan.matrix { usize::MAX } else { HOST_FLOWS_MAX };
    let mean = 1e9 / rate;
    let (mut at, end) = (Instant::ZERO + plan.start, Instant::ZERO + plan.stop);
    // When this time of sending ends; it begins with one.
    let mut busy_until = on_off.map(|(on, _)| at + exponential(on.as_nanos() as f64, rng));
    loop {
        at += exponential(mean, rng);
        while let (Some(until), Some((on, off))) = (busy_until, on_off)
            && at >= until
            && at < end
        {
            // Arrivals have no memory: what is left goes on after the rest.
            let rest = exponential(off.as_nanos() as f64, rng);
            at += rest;
            busy_until = Some(until + rest + exponential(on.as_nanos() as f64, rng));
        }
        if at >= end {
            return Ok(times);
        }
        if times.len() == own {
            return Err(too_many(plan, &of_one_host(), at));
        }
        if times.len() == possible {
            return Err(too_many(plan, &format!("{DRAWN_FLOWS_MAX} flows"), at));
        }
        times.push(at);
    }
}

/// An exponentially distributed time with a mean in ns.
fn exponential(mean: f64, rng: &mut Rng) -> Duration {
    Duration::from_nanos((-mean * libm::log(unit(rng))).min(1e18) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Experiment;

    fn plan(words: &str) -> WorkloadPlan {
        let text = format!(
            "schema = 1\nname = \"w\"\nduration = \"2s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 2\n\
             spines = 2\nhosts = 4\nrate = \"1gbit\"\n[workload.w]\n{words}\n"
        );
        let experiment = Experiment::parse("w.toml", &text, &[]);
        experiment.unwrap_or_else(|faults| panic!("{faults}")).base.workloads.remove(0)
    }

    fn all(plan: &WorkloadPlan) -> Vec<Vec<Job>> {
        jobs(plan, &chooser(plan, 1, 0), 1, 0).unwrap()
    }

    /// The bytes of all flows are the load, whatever rule makes them.
    #[test]
    fn the_load_is_what_is_said() {
        for words in [
            "size = \"fixed 10kb\"\nload = 0.4",
            "size = \"exponential 20kb\"\nload = 0.4\nmatrix = \"permutation\"",
            "size = \"fixed 100kb\"\nload = 0.4\nmatrix = \"incast 5\"",
            "size = \"fixed 10kb\"\nload = 0.4\narrivals = \"on-off\"\non = \"1ms\"\noff = \"3ms\"",
            "size = \"facebook-web\"\nload = 0.4\nmatrix = \"stride 3\"",
        ] {
            let plan = plan(words);
            let bytes: u64 = all(&plan).iter().flatten().map(|job| job.bytes).sum();
            let load = bytes as f64 * 8.0 / (8.0 * 1e9 * 2.0);
            assert!((load - 0.4).abs() < 0.03, "{words}: {load}");
        }
        // Four of seven partners lie in the other rack; two spines carry 2 Gbit/s out of each.
        let plan = plan("size = \"fixed 10kb\"\nload = 0.4\nof = \"bisection\"");
        let across = |from: usize, job: &&Job| plan.racks[from] != plan.racks[job.to];
        let jobs = all(&plan);
        let crossing = jobs.iter().enumerate().flat_map(|(from, jobs)| {
            jobs.iter().filter(move |job| across(from, job)).map(|job| job.bytes)
        });
        let load = crossing.sum::<u64>() as f64 * 8.0 / (4.0 * 1e9 * 2.0);
        assert!((load - 0.4).abs() < 0.02, "{load}");
    }

    /// What a check cannot foresee ends before it fills the memory.
    #[test]
    fn drawing_ends_where_a_host_has_too_many_flows() {
        let mut plan = plan("size = \"fixed 10kb\"\nload = 0.4");
        let (on, off) = (Duration::from_millis(1), Duration::from_secs(10_000));
        for arrivals in [Arrivals::OnOff(1e9, on, off), Arrivals::Poisson(1e12)] {
            plan.arrivals = arrivals;
            let error = jobs(&plan, &chooser(&plan, 1, 0), 1, 0).unwrap_err();
            let told = "the workload \"w\" makes more than 60000 flows of one host by 0";
            assert!(error.starts_with(told) && error.contains("less \"load\""), "{error}");
        }
        plan.matrix = Matrix::Incast(7);
        plan.clients = vec![0];
        let error = jobs(&plan, &chooser(&plan, 1, 0), 1, 0).unwrap_err();
        assert!(error.contains("makes more than 2200000 flows by 0"), "{error}");
    }

    /// In an incast with clients the load is that of their links, and no other host asks.
    #[test]
    fn the_load_of_an_incast_is_that_of_its_clients() {
        let plan = plan(
            "size = \"fixed 100kb\"\nload = 0.4\nmatrix = \"incast 5\"\nclients = [\"host-1-2\", \"host-2-*\"]",
        );
        assert_eq!(plan.clients, [1, 4, 5, 6, 7]);
        let jobs = all(&plan);
        let bytes: u64 = jobs.iter().flatten().map(|job| job.bytes).sum();
        let load = bytes as f64 * 8.0 / (5.0 * 1e9 * 2.0);
        assert!((load - 0.4).abs() < 0.03, "{load}");
        assert!(jobs.iter().flatten().all(|job| plan.clients.contains(&job.to)));
    }

    /// Of Poisson arrivals the gaps have the mean that the rate says, and as large a deviation.
    #[test]
    fn arrivals_are_poisson() {
        let plan = plan("size = \"fixed 4kb\"\nload = 0.5");
        let jobs = &all(&plan)[3];
        let gaps: Vec<f64> =
            jobs.windows(2).map(|two| (two[1].at - two[0].at).as_nanos() as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 65_536.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt());
    }

    #[test]
    fn an_incast_request_is_answered_by_several_servers_at_once() {
        let plan = plan("size = \"fixed 100kb\"\nload = 0.2\nmatrix = \"incast 7\"");
        let jobs = all(&plan);
        let first = jobs[0].iter().chain(&jobs[1]).map(|job| (job.at, job.to)).min().unwrap();
        let parts: Vec<u64> = jobs
            .iter()
            .flatten()
            .filter(|job| (job.at, job.to) == first)
            .map(|job| job.bytes)
            .collect();
        assert_eq!(parts, [102_400_u64.div_ceil(7); 7]);
    }
}
