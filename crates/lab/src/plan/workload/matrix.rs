//! Who sends to whom.

use std::sync::Arc;

use datapath::rng::Rng;

use super::sizes::unit;
use crate::draw::circle;

/// A traffic matrix over hosts, which are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Matrix {
    /// Each to any other one.
    AllToAll,
    /// Each sends to one that is drawn, and each receives from one (a random permutation).
    Permutation,
    /// Host i to host i + n.
    Stride(usize),
    /// So many at a time to one that asks: an answer in equal parts.
    Incast(usize),
    /// This share of flows, in millionths, stays in the rack.
    RackLocal(u64),
    /// Sums of weights along each row; a row's sum is how much its host sends.
    Weights(Vec<Vec<f64>>),
}

/// A [`Matrix`] with what was drawn for a run.
#[derive(Clone, Debug)]
pub struct Chooser {
    matrix: Arc<Matrix>,
    /// The rack of each host.
    racks: Arc<[u32]>,
    /// Where each sends to, if always to the same.
    partners: Arc<[usize]>,
}

impl Matrix {
    /// The share of the flows that host `from` sends.
    pub fn source_share(&self, from: usize, hosts: usize) -> f64 {
        let Self::Weights(rows) = self else { return 1.0 / hosts as f64 };
        let sum = |row: &Vec<f64>| row.last().copied().unwrap_or(0.0);
        sum(&rows[from]) / rows.iter().map(sum).sum::<f64>()
    }

    /// The share of flows whose ends lie in different racks; about, where it is drawn.
    pub fn crossing(&self, racks: &[u32]) -> f64 {
        let count = racks.len() as f64;
        let mut of_rack = std::collections::BTreeMap::new();
        for rack in racks {
            *of_rack.entry(*rack).or_insert(0.0) += 1.0;
        }
        match self {
            Self::AllToAll | Self::Permutation | Self::Incast(_) => {
                let inside: f64 = of_rack.values().map(|size| size * (size - 1.0)).sum();
                1.0 - inside / (count * (count - 1.0))
            }
            Self::Stride(step) => {
                let crosses = |at: &usize| racks[*at] != racks[(at + step) % racks.len()];
                (0..racks.len()).filter(crosses).count() as f64 / count
            }
            Self::RackLocal(millionths) => 1.0 - *millionths as f64 / 1e6,
            Self::Weights(rows) => {
                let mut all = 0.0;
                let mut crossing = 0.0;
                for (from, row) in rows.iter().enumerate() {
                    let mut before = 0.0;
                    for (to, sum) in row.iter().enumerate() {
                        all += sum - before;
                        crossing += if racks[from] == racks[to] { 0.0 } else { sum - before };
                        before = *sum;
                    }
                }
                crossing / all
            }
        }
    }
}

impl Chooser {
    /// For one run: `rng` draws what stays the same in it.
    pub fn new(matrix: &Matrix, racks: &[u32], rng: &mut Rng) -> Self {
        let count = racks.len();
        let partners = match matrix {
            Matrix::Permutation => circle(count, rng),
            Matrix::Stride(step) => (0..count).map(|at| (at + step) % count).collect(),
            _ => Vec::new(),
        };
        Self { matrix: Arc::new(matrix.clone()), racks: racks.into(), partners: partners.into() }
    }

    /// To whom host `from` sends its next flow.
    pub fn to(&self, from: usize, rng: &mut Rng) -> usize {
        match &*self.matrix {
            Matrix::Permutation | Matrix::Stride(_) => self.partners[from],
            Matrix::AllToAll | Matrix::Incast(_) => random_other(from, self.racks.len(), rng),
            Matrix::RackLocal(millionths) => {
                let local = rng.below(1_000_000) < *millionths;
                loop {
                    let to = random_other(from, self.racks.len(), rng);
                    if (self.racks[to] == self.racks[from]) == local {
                        return to;
                    }
                }
            }
            Matrix::Weights(rows) => {
                let row = &rows[from];
                let wanted = unit(rng) * row.last().copied().unwrap_or(0.0);
                row.partition_point(|sum| *sum < wanted).min(row.len() - 1)
            }
        }
    }

    /// `count` different hosts, none of them `but`.
    pub fn several(&self, but: usize, count: usize, rng: &mut Rng) -> Vec<usize> {
        let mut others: Vec<usize> = (0..self.racks.len()).filter(|host| *host != but).collect();
        for place in 0..count {
            let rest = (others.len() - place) as u64;
            others.swap(place, place + rng.below(rest) as usize);
        }
        others.truncate(count);
        others
    }
}

fn random_other(from: usize, count: usize, rng: &mut Rng) -> usize {
    let to = rng.below(count as u64 - 1) as usize;
    to + usize::from(to >= from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACKS: [u32; 8] = [0, 0, 0, 0, 1, 1, 1, 1];

    /// How often each of eight hosts sends to each, in a thousand flows of each.
    fn counts(matrix: &Matrix) -> Vec<Vec<u32>> {
        let mut rng = Rng::stream(5, 6);
        let chooser = Chooser::new(matrix, &RACKS, &mut rng);
        let mut counts = vec![vec![0; 8]; 8];
        for _ in 0..1000 {
            for (from, row) in counts.iter_mut().enumerate() {
                row[chooser.to(from, &mut rng)] += 1;
            }
        }
        counts
    }

    #[test]
    fn no_host_sends_to_itself_and_shares_are_met() {
        let step = |sums: [f64; 8]| sums.to_vec();
        let weights = Matrix::Weights(
            (0..8)
                .map(|from| {
                    step([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, if from == 7 { 1.0 } else { 4.0 }])
                })
                .collect(),
        );
        for matrix in [
            Matrix::AllToAll,
            Matrix::Permutation,
            Matrix::Stride(3),
            Matrix::RackLocal(250_000),
            weights,
        ] {
            let counts = counts(&matrix);
            let mut crossing = 0;
            for (from, row) in counts.iter().enumerate() {
                if !matches!(matrix, Matrix::Weights(_)) {
                    assert_eq!(row[from], 0, "{matrix:?}");
                }
                crossing +=
                    (0..8).filter(|to| RACKS[*to] != RACKS[from]).map(|to| row[to]).sum::<u32>();
            }
            if !matches!(matrix, Matrix::Permutation | Matrix::Weights(_)) {
                let share = f64::from(crossing) / 8000.0;
                assert!((share - matrix.crossing(&RACKS)).abs() < 0.02, "{matrix:?}: {share}");
            }
        }
    }

    #[test]
    fn a_permutation_reaches_everybody_once() {
        let mut heard = circle(100, &mut Rng::stream(1, 1));
        assert!(heard.iter().enumerate().all(|(from, to)| from != *to));
        heard.sort_unstable();
        assert_eq!(heard, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn several_are_different_ones() {
        let chooser = Chooser::new(&Matrix::Incast(5), &RACKS, &mut Rng::stream(1, 1));
        let mut rng = Rng::stream(9, 9);
        for _ in 0..100 {
            let mut hosts = chooser.several(3, 5, &mut rng);
            hosts.sort_unstable();
            hosts.dedup();
            assert!(hosts.len() == 5 && !hosts.contains(&3), "{hosts:?}");
        }
    }
}
