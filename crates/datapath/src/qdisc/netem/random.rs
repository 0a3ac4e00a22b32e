//! netem's random numbers: correlated draws, delay tables and loss models.

use crate::rng::Rng;
use std::sync::Arc;

/// A probability as netem keeps it: parts of 2³² - 1, where the largest value means always.
pub type Chance = u32;

/// Correlated random numbers (`struct crndstate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Correlated {
    /// How much of the previous value goes into the next, in parts of 2³² - 1.
    pub rho: u32,
    /// The latest value; before the first draw none.
    last: Option<u32>,
}

impl Correlated {
    /// A stream with correlation `rho`.
    pub fn new(rho: u32) -> Self {
        Self { rho, last: None }
    }

    /// The next 32 bits (`get_crandom`). The first one is correlated with a random initial value (`init_crandom`).
    pub fn draw(&mut self, rng: &mut Rng) -> u32 {
        if self.rho == 0 {
            return rng.next_u32();
        }
        let last = self.last.unwrap_or_else(|| rng.next_u32());
        let weight = u128::from(self.rho) + 1;
        let mixed = u128::from(rng.next_u32()) * ((1 << 32) - weight) + u128::from(last) * weight;
        let next = (mixed >> 32) as u32;
        self.last = Some(next);
        next
    }

    /// True with probability `chance`.
    pub fn hits(&mut self, chance: Chance, rng: &mut Rng) -> bool {
        chance != 0 && chance >= self.draw(rng)
    }
}

/// A delay distribution: the inverse of a cumulative distribution with mean 0, sampled at even
/// steps, in units of the jitter divided by [`TABLE_SCALE`] (`struct disttable`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayTable(Arc<[i16]>);

/// What a table entry of one jitter counts (`NETEM_DIST_SCALE`).
pub const TABLE_SCALE: i64 = 8192;

impl DelayTable {
    /// A table of `entries`, of which there must be at least one.
    pub fn new(entries: impl Into<Arc<[i16]>>) -> Self {
        let entries = entries.into();
        assert!(!entries.is_empty(), "a distribution has at least one entry");
        Self(entries)
    }

    fn pick(&self, random: u32) -> i64 {
        i64::from(self.0[random as usize % self.0.len()])
    }
}

/// `mean` spread by `jitter` ns (`tabledist`): uniformly within ± jitter, or by `table`.
pub fn spread(mean: i64, jitter: i64, table: Option<&DelayTable>, random: u32) -> i64 {
    let Some(table) = table else {
        return i64::from(random) % (2 * jitter) + mean - jitter;
    };
    let entry = table.pick(random);
    let fine = jitter % TABLE_SCALE * entry;
    let half = if fine >= 0 { TABLE_SCALE / 2 } else { -TABLE_SCALE / 2 };
    (fine + half) / TABLE_SCALE + jitter / TABLE_SCALE * entry + mean
}

/// How packets get lost (`enum clgstate` and the random default).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Loss {
    /// None is.
    #[default]
    None,
    /// Each with this probability, correlated with the one before.
    Random(Chance, Correlated),
    /// The four-state Markov chain.
    State(FourState),
    /// Gilbert-Elliott.
    Gemodel(Gemodel),
}

/// `loss state P13 P31 P32 P23 P14`: gaps with isolated losses and bursts with isolated
/// receptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourState {
    /// From a gap into a burst.
    pub p13: Chance,
    /// From a loss in a burst into a gap.
    pub p31: Chance,
    /// From a loss in a burst to a reception in it.
    pub p32: Chance,
    /// From a reception in a burst to a loss in it.
    pub p23: Chance,
    /// An isolated loss within a gap.
    pub p14: Chance,
    state: LossState,
}

/// `loss gemodel P R 1-H 1-K`: a good state that loses with probability 1-k, a bad one that
/// loses with probability 1-h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemodel {
    /// From good to bad.
    pub p: Chance,
    /// From bad to good.
    pub r: Chance,
    /// The chance that a packet survives the bad state.
    pub h: Chance,
    /// The chance that a packet is lost in the good state (1-k).
    pub k1: Chance,
    bad: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossState {
    /// State 1.
    ReceivedInGap,
    /// State 2.
    ReceivedInBurst,
    /// State 3.
    LostInBurst,
    /// State 4.
    LostInGap,
}

impl Loss {
    /// True if the next packet is lost (`loss_event`).
    pub fn strikes(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::None => false,
            Self::Random(chance, correlated) => correlated.hits(*chance, rng),
            Self::State(chain) => chain.step(rng),
            Self::Gemodel(model) => model.step(rng),
        }
    }
}

impl FourState {
    /// A chain that begins in a gap.
    pub fn new(p13: Chance, p31: Chance, p32: Chance, p23: Chance, p14: Chance) -> Self {
        Self { p13, p31, p32, p23, p14, state: LossState::ReceivedInGap }
    }

    /// One packet (`loss_4state`): true if it is lost. What leaves a burst or an isolated loss
    /// is received.
    fn step(&mut self, rng: &mut Rng) -> bool {
        use LossState::{LostInBurst, LostInGap, ReceivedInBurst, ReceivedInGap};
        let random = u64::from(rng.next_u32());
        let below = |chance: u64| random < chance;
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(u64::from);
        self.state = match self.state {
            ReceivedInGap if below(p14) => LostInGap,
            ReceivedInGap if below(p14 + p13) => LostInBurst,
            ReceivedInGap | LostInGap => ReceivedInGap,
            ReceivedInBurst if below(p23) => LostInBurst,
            ReceivedInBurst => ReceivedInBurst,
            LostInBurst if below(p32) => ReceivedInBurst,
            LostInBurst if below(p32 + p31) => ReceivedInGap,
            LostInBurst => LostInBurst,
        };
        matches!(self.state, LostInBurst | LostInGap)
    }
}

impl Gemodel {
    /// A model that begins in the good state.
    pub fn new(p: Chance, r: Chance, h: Chance, k1: Chance) -> Self {
        Self { p, r, h, k1, bad: false }
    }

    /// One packet (`loss_gilb_ell`): the state may change, but the packet still counts by the
    /// state it found.
    fn step(&mut self, rng: &mut Rng) -> bool {
        let (leave, fate) = (rng.next_u32(), rng.next_u32());
        if self.bad {
            self.bad = leave >= self.r;
            fate > self.h
        } else {
            self.bad = leave < self.p;
            fate < self.k1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn percent(hundredths: u64) -> Chance {
        (hundredths * u32::MAX as u64 / 10_000) as u32
    }

    fn lost_of(mut loss: Loss, packets: u32) -> u32 {
        let mut rng = Rng::stream(5, 1);
        (0..packets).filter(|_| loss.strikes(&mut rng)).count() as u32
    }

    #[test]
    fn loss_models_reach_their_long_run_rates() {
        let independent = Correlated::default();
        for (name, loss, expected) in [
            ("1 %", Loss::Random(percent(100), independent), 1_000),
            ("always", Loss::Random(u32::MAX, independent), 100_000),
            ("never", Loss::Random(0, independent), 0),
            // Stationary share of the bad state p / (p + r) = 1/6, half of it lost.
            (
                "gemodel 5 25 50 0",
                Loss::Gemodel(Gemodel::new(percent(500), percent(2500), percent(5000), 0)),
                8_333,
            ),
            // p13 / (p13 + p31): 2 of 12.
            (
                "state 2 10",
                Loss::State(FourState::new(percent(200), percent(1000), 0, u32::MAX, 0)),
                16_667,
            ),
            // Isolated losses only; each is followed by a reception: p / (1 + p).
            (
                "state 0 100 0 100 5",
                Loss::State(FourState::new(0, u32::MAX, 0, u32::MAX, percent(500))),
                4_762,
            ),
        ] {
            let lost = lost_of(loss, 100_000);
            assert!(lost.abs_diff(expected) <= expected / 8, "{name}: {lost}, not {expected}");
        }
    }

    #[test]
    fn correlation_makes_neighbours_alike() {
        let mut rng = Rng::stream(3, 3);
        let mut correlated = Correlated::new(percent(9000));
        let drawn: Vec<u32> = (0..2000).map(|_| correlated.draw(&mut rng)).collect();
        let step = drawn.windows(2).map(|pair| u64::from(pair[0].abs_diff(pair[1]))).sum::<u64>();
        assert!(step / 1999 < u64::from(u32::MAX) / 10, "mean step {}", step / 1999);
    }

    /// Of many models with correlation, the first draw is as likely to be small as to be large.
    #[test]
    fn the_first_correlated_draw_is_unbiased() {
        let first = |seed| Correlated::new(percent(9900)).draw(&mut Rng::stream(seed, 1));
        let small = (0..2_000).filter(|&seed| first(seed) < u32::MAX / 2).count();
        assert!((900..1_100).contains(&small), "{small} of 2,000");
    }

    #[test]
    fn spread_is_uniform_without_a_table_and_scaled_with_one() {
        assert_eq!(spread(1000, 10, None, 0), 990);
        assert_eq!(spread(1000, 10, None, 19), 1009);
        assert_eq!(spread(1000, 10, None, 20), 990);
        let table = DelayTable::new([-8192, 0, 4096, 8192]);
        for (random, delay) in [(0, 900_000), (1, 1_000_000), (2, 1_050_000), (7, 1_100_000)] {
            assert_eq!(spread(1_000_000, 100_000, Some(&table), random), delay);
        }
    }
}
