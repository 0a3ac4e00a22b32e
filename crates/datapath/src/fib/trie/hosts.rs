//! The host index: full-length prefixes by exact address.

use super::bits::Bits;
use super::{ACCELERATE_FROM, NONE};

/// Full-length prefixes by address: linear probing, at most half full, back-shift deletion.
#[derive(Clone, Debug)]
pub(super) struct HostIndex<K> {
    /// (address, node); empty slots have node `NONE`. No slots at all while not enabled.
    slots: Vec<(K, u32)>,
    used: usize,
}

impl<K: Bits> HostIndex<K> {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), used: 0 }
    }

    pub fn is_enabled(&self) -> bool {
        !self.slots.is_empty()
    }

    pub fn enable(&mut self) {
        self.slots = vec![(K::ZERO, NONE); ACCELERATE_FROM * 2];
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<(K, u32)>()
    }

    fn home(&self, key: K) -> usize {
        (key.digest() >> (64 - self.slots.len().ilog2())) as usize
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let mut slot = self.home(key);
        loop {
            let (there, node) = self.slots[slot];
            if node == NONE {
                return None;
            }
            if there == key {
                return Some(node);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    pub fn insert(&mut self, key: K, node: u32) {
        if !self.is_enabled() {
            return;
        }
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.place(key, node);
    }

    fn place(&mut self, key: K, node: u32) {
        let mut slot = self.home(key);
        while self.slots[slot].1 != NONE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (key, node);
        self.used += 1;
    }

    fn grow(&mut self) {
        let doubled = vec![(K::ZERO, NONE); self.slots.len() * 2];
        let old = core::mem::replace(&mut self.slots, doubled);
        self.used = 0;
        for (key, node) in old {
            if node != NONE {
                self.place(key, node);
            }
        }
    }

    pub fn remove(&mut self, key: K) {
        if !self.is_enabled() {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut hole = self.home(key);
        while self.slots[hole].1 != NONE && self.slots[hole].0 != key {
            hole = (hole + 1) & mask;
        }
        if self.slots[hole].1 == NONE {
            return;
        }
        self.used -= 1;
        let mut probe = hole;
        loop {
            self.slots[hole].1 = NONE;
            loop {
                probe = (probe + 1) & mask;
                let (there, node) = self.slots[probe];
                if node == NONE {
                    return;
                }
                let wants = self.home(there);
                // Movable only if its home does not lie between the hole and where it is.
                if (probe.wrapping_sub(wants) & mask) >= (probe.wrapping_sub(hole) & mask) {
                    self.slots[hole] = self.slots[probe];
                    hole = probe;
                    break;
                }
            }
        }
    }
}
