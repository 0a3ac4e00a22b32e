//! The longest-prefix-match index: a path-compressed binary trie.
//!
//! Nodes lie in one vector and know their parent, so that a look-up whose best prefix turns out
//! not to fit (TOS, dead next hops) goes on to the next shorter one without starting again
//! (`fib_table_lookup` "backtracking"). Three accelerators lie over the trie, all maintained
//! incrementally (`trie/accelerate.rs`) and all absent while the table is small:
//!
//! * the *jump table*: for each value of the first `k` address bits, the deepest node of length
//!   at most `k` that covers them, so that a walk begins near its end;
//! * the *host index* (`trie/hosts.rs`): full-length prefixes by exact address (open addressing);
//! * the *spans* (IPv4, `super::spans`): the values of prefixes of up to 24 bits, for look-ups
//!   that want the longest prefix's value and nothing else.

mod accelerate;
mod bits;
mod hosts;

pub use bits::Bits;

use super::spans::{BOTTOM, DEEP, Spans};
use crate::grow::reserve_one;
use hosts::HostIndex;

/// No node, no value.
pub const NONE: u32 = u32::MAX;

/// Below this many nodes there is no jump table and no host index.
const ACCELERATE_FROM: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Node<K> {
    key: K,
    value: u32,
    parent: u32,
    child: [u32; 2],
    len: u8,
}

/// A map from prefixes to `u32` values with longest-prefix match.
#[derive(Clone, Debug)]
pub struct Trie<K> {
    nodes: Vec<Node<K>>,
    prefixes: u32,
    /// Nodes of no more bits than the spans tell apart.
    short: u32,
    /// What a large table needs, or one from which prefixes were taken.
    large: Option<Box<Large<K>>>,
}

/// Free nodes, and the accelerators.
#[derive(Clone, Debug)]
struct Large<K> {
    free: Vec<u32>,
    jump_bits: u8,
    jump: Vec<u32>,
    hosts: HostIndex<K>,
    spans: Option<Box<Spans>>,
}

impl<K: Bits> Large<K> {
    fn new() -> Self {
        Self {
            free: Vec::new(),
            jump_bits: 0,
            jump: Vec::new(),
            hosts: HostIndex::new(),
            spans: None,
        }
    }

    /// The deepest node that the jump table knows around `key`.
    #[inline]
    fn start(&self, key: K) -> u32 {
        if self.jump_bits == 0 { 0 } else { self.jump[key.top(self.jump_bits)] }
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
            + (self.free.capacity() + self.jump.capacity()) * size_of::<u32>()
            + self.hosts.memory()
            + self.spans.as_ref().map_or(0, |spans| spans.memory())
    }
}

impl<K: Bits> Default for Trie<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Bits> Trie<K> {
    /// An empty trie.
    pub fn new() -> Self {
        let root = Node { key: K::ZERO, value: NONE, parent: NONE, child: [NONE, NONE], len: 0 };
        Self { nodes: vec![root], prefixes: 0, short: 0, large: None }
    }

    fn large(&mut self) -> &mut Large<K> {
        self.large.get_or_insert_with(|| Box::new(Large::new()))
    }

    /// How many prefixes have a value.
    pub fn len(&self) -> usize {
        self.prefixes as usize
    }

    /// True without any prefix.
    pub fn is_empty(&self) -> bool {
        self.prefixes == 0
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K>>()
            + self.large.as_ref().map_or(0, |large| large.memory())
    }

    /// The value of exactly this prefix.
    pub fn get(&self, key: K, len: u8) -> Option<u32> {
        let at = self.find(key.masked(len), len)?;
        Some(self.nodes[at as usize].value).filter(|&value| value != NONE)
    }

    /// Sets the value of a prefix and returns the one before.
    pub fn insert(&mut self, key: K, len: u8, value: u32) -> Option<u32> {
        assert!(value < DEEP && len <= K::WIDTH, "not a prefix and value: /{len} {value}");
        let at = self.obtain(key.masked(len), len);
        let node = &mut self.nodes[at as usize];
        let before = core::mem::replace(&mut node.value, value);
        if before == NONE {
            self.prefixes += 1;
            self.accelerate();
        }
        self.refresh(key, len);
        Some(before).filter(|&before| before != NONE)
    }

    /// Forgets a prefix and returns its value.
    pub fn remove(&mut self, key: K, len: u8) -> Option<u32> {
        let at = self.find(key.masked(len), len)?;
        let value = core::mem::replace(&mut self.nodes[at as usize].value, NONE);
        if value == NONE {
            return None;
        }
        self.prefixes -= 1;
        self.prune(at);
        self.refresh(key, len);
        Some(value)
    }

    /// The value of the longest prefix that covers `key`, [`NONE`] if none does; `None` where only
    /// [`Trie::longest`] knows.
    #[inline]
    pub fn quick(&self, key: K) -> Option<u32> {
        let value = self.large.as_ref()?.spans.as_ref()?.get(key.as_v4()?);
        (value != DEEP).then_some(value)
    }

    /// The longest prefix that covers `key`, to be asked for its value or a shorter one.
    #[inline]
    pub fn longest(&self, key: K) -> Match<'_, K> {
        let mut at = 0;
        if let Some(large) = &self.large {
            if let Some(at) = large.hosts.get(key) {
                return Match { trie: self, at };
            }
            at = large.start(key);
        }
        let mut node = &self.nodes[at as usize];
        let mut best = NONE;
        let start = at;
        loop {
            if node.value != NONE {
                best = at;
            }
            if node.len == K::WIDTH {
                break;
            }
            let next = node.child[key.bit(node.len)];
            if next == NONE {
                break;
            }
            let child = &self.nodes[next as usize];
            if child.key.common(key) < child.len {
                break;
            }
            (at, node) = (next, child);
        }
        if best != NONE {
            return Match { trie: self, at: best };
        }
        Match { trie: self, at: self.valued_above(start) }
    }

    /// Every prefix with its value, in order of address and then of length.
    pub fn prefixes(&self) -> Iter<'_, K> {
        Iter { trie: self, stack: vec![0] }
    }

    /// The nearest proper ancestor of `at` that has a value.
    fn valued_above(&self, at: u32) -> u32 {
        let mut up = self.nodes[at as usize].parent;
        while up != NONE && self.nodes[up as usize].value == NONE {
            up = self.nodes[up as usize].parent;
        }
        up
    }

    /// The deepest node at or above `key/len` that the jump table knows.
    fn start(&self, key: K, len: u8) -> u32 {
        self.large.as_ref().filter(|large| len >= large.jump_bits).map_or(0, |it| it.start(key))
    }

    /// The node of exactly this (masked) prefix.
    fn find(&self, key: K, len: u8) -> Option<u32> {
        let mut at = self.start(key, len);
        loop {
            let node = &self.nodes[at as usize];
            if node.len >= len || node.key != key.masked(node.len) {
                return (node.len == len && node.key == key).then_some(at);
            }
            at = node.child[key.bit(node.len)];
            if at == NONE {
                return None;
            }
        }
    }

    /// The node of exactly this (masked) prefix, made if need be.
    fn obtain(&mut self, key: K, len: u8) -> u32 {
        let mut at = self.start(key, len);
        loop {
            let node = self.nodes[at as usize];
            if node.len == len {
                return at;
            }
            let side = key.bit(node.len);
            let next = node.child[side];
            if next == NONE {
                return self.attach(at, side, key, len);
            }
            let child = self.nodes[next as usize];
            let common = child.key.common(key).min(child.len).min(len);
            if common == child.len {
                at = next;
            } else {
                let middle = self.interpose(at, side, key.masked(common), common);
                if common == len {
                    return middle;
                }
                return self.attach(middle, key.bit(common), key, len);
            }
        }
    }

    /// Makes a node under `parent` where there was none.
    fn attach(&mut self, parent: u32, side: usize, key: K, len: u8) -> u32 {
        let at = self.make(Node { key, value: NONE, parent, child: [NONE, NONE], len });
        self.nodes[parent as usize].child[side] = at;
        self.jump_over(at, parent);
        at
    }

    /// Makes a node between `parent` and its child.
    fn interpose(&mut self, parent: u32, side: usize, key: K, len: u8) -> u32 {
        let below = self.nodes[parent as usize].child[side];
        let mut child = [NONE, NONE];
        child[self.nodes[below as usize].key.bit(len)] = below;
        let at = self.make(Node { key, value: NONE, parent, child, len });
        self.nodes[parent as usize].child[side] = at;
        self.nodes[below as usize].parent = at;
        self.jump_over(at, parent);
        at
    }

    fn make(&mut self, node: Node<K>) -> u32 {
        let at = if let Some(at) = self.large.as_mut().and_then(|large| large.free.pop()) {
            self.nodes[at as usize] = node;
            at
        } else {
            assert!(self.nodes.len() < NONE as usize, "the trie is full");
            // One by one at first: the tables of hosts have about four.
            reserve_one(&mut self.nodes, 1);
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };
        if node.len == K::WIDTH
            && let Some(large) = &mut self.large
        {
            large.hosts.insert(node.key, at);
        }
        self.short += u32::from(node.len <= BOTTOM);
        at
    }

    /// Removes nodes that neither hold a value nor branch, from `at` upwards.
    fn prune(&mut self, mut at: u32) {
        while at != 0 {
            let node = self.nodes[at as usize];
            if node.value != NONE || node.child.iter().all(|&child| child != NONE) {
                return;
            }
            let orphan = if node.child[0] == NONE { node.child[1] } else { node.child[0] };
            let side = node.key.bit(self.nodes[node.parent as usize].len);
            self.nodes[node.parent as usize].child[side] = orphan;
            if orphan != NONE {
                self.nodes[orphan as usize].parent = node.parent;
            }
            self.jump_over(node.parent, at);
            let large = self.large();
            if node.len == K::WIDTH {
                large.hosts.remove(node.key);
            }
            large.free.push(at);
            self.short -= u32::from(node.len <= BOTTOM);
            at = node.parent;
        }
    }
}

/// A prefix that covers the address asked for, or none.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a, K> {
    trie: &'a Trie<K>,
    at: u32,
}

impl<K: Bits> Match<'_, K> {
    /// The value of this prefix; `None` when no prefix is left.
    #[inline]
    pub fn value(&self) -> Option<u32> {
        (self.at != NONE).then(|| self.trie.nodes[self.at as usize].value)
    }

    /// Length of this prefix in bits.
    pub fn prefix_len(&self) -> Option<u8> {
        (self.at != NONE).then(|| self.trie.nodes[self.at as usize].len)
    }

    /// The next shorter prefix that covers the address.
    pub fn shorter(self) -> Self {
        Self { trie: self.trie, at: self.trie.valued_above(self.at) }
    }
}

/// See [`Trie::prefixes`].
#[derive(Clone, Debug)]
pub struct Iter<'a, K> {
    trie: &'a Trie<K>,
    stack: Vec<u32>,
}

impl<K: Bits> Iterator for Iter<'_, K> {
    type Item = (K, u8, u32);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(at) = self.stack.pop() {
            let node = &self.trie.nodes[at as usize];
            self.stack.extend(node.child.iter().rev().filter(|&&child| child != NONE));
            if node.value != NONE {
                return Some((node.key, node.len, node.value));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
