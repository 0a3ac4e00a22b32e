//! Trees of queueing disciplines under load, changed while packets wait.

mod average;
mod bands;
mod bench;
mod call;
mod classes;
mod early;
mod filters;
mod law;
mod laws;
mod ledger;
mod levels;
mod pace;
mod police;
mod rounds;
mod shares;
mod slots;
mod standing;
mod tins;
mod tokens;
mod traffic;
pub mod words;

pub use traffic::{Arrival, Flow, Shape};

use serde::{Deserialize, Serialize};

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;
use crate::limits::DAY_NS;
use crate::shrink::{with_plainer, without_parts};
use bench::Bench;

/// One tree and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Seeds the random draws of the qdiscs.
    pub seed: u64,
    /// `txqueuelen` of the device.
    pub tx_queue_len: u32,
    /// A policer that packets pass before the queue, in tc's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<String>,
    /// Whose packets arrive.
    pub flows: Vec<Flow>,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// A tc command. One that is refused changes nothing.
    Tc(String),
    /// Packets arrive.
    Enqueue(Arrival),
    /// The device takes what it can get, at most so many packets, whatever the time.
    Dequeue(u32),
    /// A look at the next packet, as a parent looks; then it is taken.
    Peek,
    /// ns pass without anybody asking.
    Wait(u64),
    /// A device with room follows the watchdog, at most so many times.
    Follow(u32),
    /// Packets of one flow after the other arrive while the device takes some: rounds of an arrival, a
    /// wait and so many takings.
    Busy {
        /// What arrives; the flow is the next one in each round.
        arrival: Arrival,
        /// How many rounds.
        rounds: u16,
        /// ns from the arrival to the taking.
        wait: u64,
        /// Packets that are taken, at most.
        take: u8,
    },
}

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        let seed = draw.bits();
        let tx_queue_len = *draw.weighted(&[(3, 1_000), (1, 5), (1, 1)]);
        let flows = (0..draw.range(1..=8)).map(|_| Flow::draw(draw)).collect();
        let police = draw.maybe(10, words::police);
        let tree = words::build(draw);
        let changes = *draw.weighted(&[(2, 0), (3, 3), (1, 10)]);
        let count = draw.log_range(8..=600);
        let load = draw.many(count, |draw| {
            if draw.percent(changes) {
                Step::Tc(words::any_command(&tree, draw))
            } else {
                any_step(draw)
            }
        });
        let steps = tree.into_iter().map(Step::Tc).chain(load).collect();
        Self { seed, tx_queue_len, police, flows, steps }
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Qdisc;
    const LIMITS: &'static [(&'static str, u64)] = &[("Wait", DAY_NS), ("wait", DAY_NS)];

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        case::run_steps(Bench::new(self), &self.steps)
    }

    fn simpler(&self) -> Vec<Self> {
        let fewer = without_parts(&self.steps).into_iter();
        let fewer = fewer.map(|steps| Self { steps, ..self.clone() });
        let free = self.police.as_ref().map(|_| Self { police: None, ..self.clone() });
        fewer.chain(free).chain(self.simpler_steps()).chain(self.simpler_flows()).collect()
    }
}

impl Case {
    fn simpler_steps(&self) -> impl Iterator<Item = Self> + '_ {
        let plainer = with_plainer(&self.steps, simpler_step).into_iter();
        plainer.map(|steps| Self { steps, ..self.clone() })
    }

    fn simpler_flows(&self) -> impl Iterator<Item = Self> + '_ {
        let with = |flows| Self { flows, ..self.clone() };
        let fewer = without_parts(&self.flows).into_iter().filter(|flows| !flows.is_empty());
        let plainer = with_plainer(&self.flows, |flow| {
            let plain = flow.plain();
            if plain == *flow { Vec::new() } else { vec![plain] }
        });
        let all: Vec<Vec<Flow>> = fewer.chain(plainer).collect();
        all.into_iter().map(with)
    }
}

fn any_step(draw: &mut Draw) -> Step {
    match draw.range(0..=20) {
        0..=9 => Step::Enqueue(Arrival::draw(draw)),
        10..=12 => Step::Dequeue(draw.log_range(1..=20) as u32),
        13 => Step::Peek,
        14..=16 => Step::Wait(draw.log_range(1..=2_000_000_000)),
        17..=19 => Step::Follow(draw.log_range(1..=60) as u32),
        _ => Step::Busy {
            arrival: Arrival { times: 1, ..Arrival::draw(draw) },
            rounds: draw.log_range(2..=200) as u16,
            wait: draw.log_range(1..=20_000_000),
            take: *draw.weighted(&[(6, 1), (2, 2), (1, 0)]),
        },
    }
}

fn simpler_step(step: &Step) -> Vec<Step> {
    match step {
        Step::Tc(text) => shorter_texts(text).into_iter().map(Step::Tc).collect(),
        Step::Enqueue(arrival) => arrival.simpler().into_iter().map(Step::Enqueue).collect(),
        Step::Busy { rounds, .. } if *rounds == 0 => Vec::new(),
        Step::Busy { arrival, rounds, wait, take } => {
            let (arrival, rounds, wait, take) = (*arrival, *rounds, *wait, *take);
            let with = |rounds, wait| Step::Busy { arrival, rounds, wait, take };
            let fewer = [with(rounds / 2, wait), with(rounds - 1, wait)];
            let sooner = (wait > 0).then(|| with(rounds, wait / 2));
            let simpler = arrival.simpler().into_iter();
            let simpler = simpler.map(|arrival| Step::Busy { arrival, rounds, wait, take });
            fewer.into_iter().chain(sooner).chain(simpler).collect()
        }
        Step::Dequeue(count) if *count > 1 => vec![Step::Dequeue(count / 2)],
        Step::Follow(count) if *count > 1 => vec![Step::Follow(count / 2)],
        Step::Wait(nanos) if *nanos > 1 => {
            let round = 10u64.pow(nanos.ilog10());
            let rounded = (round < *nanos).then_some(Step::Wait(round));
            rounded.into_iter().chain([Step::Wait(nanos / 2)]).collect()
        }
        _ => Vec::new(),
    }
}

/// The command without two words, or one.
fn shorter_texts(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let without = |from: usize, count: usize| {
        let rest = words[..from].iter().chain(&words[from + count..]);
        rest.copied().collect::<Vec<_>>().join(" ")
    };
    let mut shorter = Vec::new();
    for count in [2, 1] {
        shorter.extend((4..words.len().saturating_sub(count - 1)).map(|from| without(from, count)));
    }
    shorter
}
