//! Random regular graphs: simple, connected, every node with as many neighbours.
//!
//! A regular ring of chords is mixed by exchanging the ends of two links, which keeps every degree
//! (the Markov chain of Cooper, Dyer and Greenhill, "Sampling regular graphs and a peer-to-peer
//! network", 2007), until each link has been exchanged often and the graph is in one piece.

use std::collections::BTreeSet;

use datapath::rng::Rng;

use crate::draw;

/// Exchanges tried for each link in a round.
const EXCHANGES_PER_LINK: usize = 10;

/// The links of a random graph of `nodes` nodes with `degree` neighbours each, sorted. There must
/// be one: `degree` below `nodes`, above 1 unless there are two nodes, and their product even.
pub fn regular(nodes: usize, degree: usize, rng: &mut Rng) -> Vec<[usize; 2]> {
    if degree == 2 {
        return circle(nodes, rng);
    }
    let mut links = ring(nodes, degree);
    let mut known: BTreeSet<[usize; 2]> = links.iter().copied().collect();
    if links.len() < 2 {
        return links;
    }
    loop {
        for _ in 0..EXCHANGES_PER_LINK * links.len() {
            exchange(&mut links, &mut known, rng);
        }
        if is_connected(nodes, &links) {
            return known.into_iter().collect();
        }
    }
}

/// One circle through all nodes: most graphs of degree 2 are in pieces.
fn circle(nodes: usize, rng: &mut Rng) -> Vec<[usize; 2]> {
    let next = draw::circle(nodes, rng);
    let links: BTreeSet<[usize; 2]> = next.iter().enumerate().map(|(a, b)| sorted(a, *b)).collect();
    links.into_iter().collect()
}

/// Each node is joined to the nearest ones around it, and to the one opposite if `degree` is odd.
fn ring(nodes: usize, degree: usize) -> Vec<[usize; 2]> {
    let near =
        (1..=degree / 2).flat_map(|step| (0..nodes).map(move |a| sorted(a, (a + step) % nodes)));
    let opposite = (0..nodes / 2 * (degree % 2)).map(|a| [a, a + nodes / 2]);
    let links: BTreeSet<[usize; 2]> = near.chain(opposite).collect();
    links.into_iter().collect()
}

/// Of two links a–b and c–d makes a–c and b–d or a–d and b–c, if these are new and no loops.
fn exchange(links: &mut [[usize; 2]], known: &mut BTreeSet<[usize; 2]>, rng: &mut Rng) {
    let [one, other] = [0, 1].map(|_| rng.below(links.len() as u64) as usize);
    let ([a, b], [mut c, mut d]) = (links[one], links[other]);
    if rng.below(2) == 1 {
        (c, d) = (d, c);
    }
    let made = [sorted(a, c), sorted(b, d)];
    if one == other || a == c || b == d || made.iter().any(|link| known.contains(link)) {
        return;
    }
    known.remove(&links[one]);
    known.remove(&links[other]);
    known.extend(made);
    [links[one], links[other]] = made;
}

fn sorted(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

fn is_connected(nodes: usize, links: &[[usize; 2]]) -> bool {
    unreached(nodes, links.iter().copied()).is_none()
}

/// The first node that no way over these links joins to node 0; `None` if there is none.
pub fn unreached(nodes: usize, links: impl Iterator<Item = [usize; 2]>) -> Option<usize> {
    let mut adjacent = vec![Vec::new(); nodes];
    for [a, b] in links {
        adjacent[a].push(b);
        adjacent[b].push(a);
    }
    let mut seen = vec![false; nodes];
    let mut list = vec![0];
    while let Some(node) = list.pop() {
        if seen.get_mut(node).is_some_and(|seen| !std::mem::replace(seen, true)) {
            list.extend(&adjacent[node]);
        }
    }
    seen.iter().position(|seen| !seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_node_has_its_degree_and_all_are_in_one_piece(
            nodes in 3_usize..60, degree in 2_usize..8, seed in 0_u64..1000
        ) {
            proptest::prop_assume!(degree < nodes && nodes * degree % 2 == 0);
            let links = regular(nodes, degree, &mut Rng::stream(seed, 0));
            let mut degrees = vec![0; nodes];
            let distinct: BTreeSet<_> = links.iter().copied().collect();
            proptest::prop_assert_eq!(distinct.len(), links.len());
            for [a, b] in links.iter().copied() {
                proptest::prop_assert!(a < b);
                degrees[a] += 1;
                degrees[b] += 1;
            }
            proptest::prop_assert!(degrees.iter().all(|it| *it == degree), "{:?}", degrees);
            proptest::prop_assert!(is_connected(nodes, &links));
        }
    }

    #[test]
    fn another_seed_is_another_graph_and_the_same_the_same() {
        let graph = |seed| regular(40, 4, &mut Rng::stream(seed, 0));
        assert_eq!(graph(1), graph(1));
        assert_ne!(graph(1), graph(2));
    }
}
