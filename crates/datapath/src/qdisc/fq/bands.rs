//! The lists of flows of `fq`: a flow with a first packet joins the new ones, later the old ones.
//!
//! There are three bands of priority, of which all packets here are of the second. But the kernel puts a flow into a list before it
//! sets the flow's band (`fq_enqueue`), so the first time it is among the new ones of the first band.

use std::collections::VecDeque;

/// How many bands there are (`FQ_BANDS`).
const BANDS: usize = 3;
/// What a band may send before the next one is served, in bytes.
const QUANTA: [i32; BANDS] = [9 << 16, 3 << 16, 1 << 16];

/// A list of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// New ones that have never been in a list.
    First,
    /// New ones.
    New,
    /// Those that have been new.
    Old,
}

/// The lists, and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Bands {
    lists: [VecDeque<u32>; 3],
    /// The band that is being served.
    serving: usize,
    /// What each may still send.
    credit: [i32; BANDS],
}

impl Bands {
    /// Puts a flow at the end of a list.
    pub fn push(&mut self, list: List, flow: u32) {
        self.lists[list as usize].push_back(flow);
    }

    /// Takes the first flow of a list out.
    pub fn pop(&mut self, list: List) {
        self.lists[list as usize].pop_front();
    }

    /// The flow whose turn it is, and its list: from the band that was served last on.
    pub fn next(&mut self) -> Option<(List, u32)> {
        let mut tried = 0;
        loop {
            if let Some(next) = self.first_of_band() {
                return Some(next);
            }
            loop {
                tried += 1;
                if tried > BANDS {
                    return None;
                }
                self.serving = (self.serving + 1) % BANDS;
                let quantum = QUANTA[self.serving];
                let credit = &mut self.credit[self.serving];
                *credit = (*credit + quantum).min(quantum);
                if *credit > 0 {
                    break;
                }
                tried = 0;
            }
        }
    }

    /// The first flow of the band that is being served, if it may send (`fq_pband_head_select`).
    fn first_of_band(&self) -> Option<(List, u32)> {
        let lists: &[List] = match self.serving {
            0 => &[List::First],
            1 => &[List::New, List::Old],
            _ => &[],
        };
        let first = |&list: &List| self.lists[list as usize].front().map(|flow| (list, *flow));
        lists.iter().find_map(first).filter(|_| self.credit[self.serving] > 0)
    }

    /// The band that is being served has sent so many bytes.
    pub fn spend(&mut self, bytes: u32) {
        self.credit[self.serving] -= bytes as i32;
    }

    /// All flows of the lists.
    pub fn iter(&self) -> impl Iterator<Item = &u32> {
        self.lists.iter().flatten()
    }
}
