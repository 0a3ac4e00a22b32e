//! The longest-prefix-match index: a path-compressed binary trie.
//!
//! Nodes lie in one vector and know their parent, so that a look-up whose best prefix turns out
//! not to fit (TOS, dead next hops) goes on to the next shorter one without starting again
//! (`fib_table_lookup` "backtracking"). Three accelerators lie over the trie, all maintained
//! incrementally and all absent while the table is small:
//!
//! * the *jump table*: for each value of the first `k` address bits, the deepest node of length
//!   at most `k` that covers them, so that a walk begins near its end;
//! * the *host index*: full-length prefixes by exact address (open addressing);
//! * the *spans* (IPv4, [`super::spans`]): the values of prefixes of up to 24 bits, for look-ups
//!   that want the longest prefix's value and nothing else.

use super::spans::{BOTTOM, DEEP, NETS, Nets, Spans, TOP};
use core::fmt::Debug;

/// No node, no value.
pub const NONE: u32 = u32::MAX;

/// An address as a string of bits, most significant first.
pub trait Bits: Copy + Eq + Ord + Debug {
    /// How many bits there are: 32 or 128.
    const WIDTH: u8;
    /// Longest jump table, in address bits.
    const MAX_JUMP: u8;
    /// All bits zero.
    const ZERO: Self;
    /// Bit `index`, 0 being the most significant; `index < WIDTH`.
    fn bit(self, index: u8) -> usize;
    /// The first `len` bits, the rest zero.
    fn masked(self, len: u8) -> Self;
    /// How many leading bits `self` and `other` have in common.
    fn common(self, other: Self) -> u8;
    /// The first `len` bits as a number, `1 <= len <= MAX_JUMP`.
    fn top(self, len: u8) -> usize;
    /// A well-mixed 64-bit digest for the host index.
    fn digest(self) -> u64;
    /// The 32 bits of an IPv4 address; `None` for an IPv6 one.
    fn as_v4(self) -> Option<u32>;
    /// The address whose first `len` bits are `top`, the rest zero.
    fn from_top(top: usize, len: u8) -> Self;
}

impl Bits for u32 {
    const WIDTH: u8 = 32;
    const MAX_JUMP: u8 = 20;
    const ZERO: Self = 0;

    fn bit(self, index: u8) -> usize {
        (self >> (31 - index) & 1) as usize
    }

    fn masked(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u32::MAX << (32 - len)) }
    }

    fn common(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn top(self, len: u8) -> usize {
        (self >> (32 - len)) as usize
    }

    fn digest(self) -> u64 {
        u64::from(self).wrapping_mul(SPREAD)
    }

    #[inline]
    fn as_v4(self) -> Option<u32> {
        Some(self)
    }

    fn from_top(top: usize, len: u8) -> Self {
        (top as u32) << (32 - len)
    }
}

impl Bits for u128 {
    const WIDTH: u8 = 128;
    const MAX_JUMP: u8 = 20;
    const ZERO: Self = 0;

    fn bit(self, index: u8) -> usize {
        (self >> (127 - index) & 1) as usize
    }

    fn masked(self, len: u8) -> Self {
        if len == 0 { 0 } else { self & (u128::MAX << (128 - len)) }
    }

    fn common(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn top(self, len: u8) -> usize {
        (self >> (128 - len)) as usize
    }

    fn digest(self) -> u64 {
        let high = ((self >> 64) as u64).wrapping_mul(SPREAD).rotate_left(29);
        (self as u64 ^ high).wrapping_mul(SPREAD)
    }

    #[inline]
    fn as_v4(self) -> Option<u32> {
        None
    }

    fn from_top(top: usize, len: u8) -> Self {
        (top as u128) << (128 - len)
    }
}

/// An odd constant that spreads small numbers over 64 bits (2⁶⁴ divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Below this many nodes there is no jump table and no host index.
const ACCELERATE_FROM: usize = 256;

/// From this many nodes on there are spans; they take four megabytes at least.
const SPANS_FROM: usize = 1 << 15;

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
    free: Vec<u32>,
    prefixes: usize,
    jump_bits: u8,
    jump: Vec<u32>,
    hosts: HostIndex<K>,
    spans: Option<Box<Spans>>,
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
        Self {
            nodes: vec![root],
            free: Vec::new(),
            prefixes: 0,
            jump_bits: 0,
            jump: Vec::new(),
            hosts: HostIndex::new(),
            spans: None,
        }
    }

    /// How many prefixes have a value.
    pub fn len(&self) -> usize {
        self.prefixes
    }

    /// True without any prefix.
    pub fn is_empty(&self) -> bool {
        self.prefixes == 0
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K>>()
            + (self.free.capacity() + self.jump.capacity()) * size_of::<u32>()
            + self.hosts.slots.capacity() * size_of::<(K, u32)>()
            + self.spans.as_ref().map_or(0, |spans| spans.memory())
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
        let value = self.spans.as_ref()?.get(key.as_v4()?);
        (value != DEEP).then_some(value)
    }

    /// The longest prefix that covers `key`, to be asked for its value or a shorter one.
    #[inline]
    pub fn longest(&self, key: K) -> Match<'_, K> {
        if let Some(at) = self.hosts.get(key) {
            return Match { trie: self, at };
        }
        let mut at = if self.jump_bits == 0 { 0 } else { self.jump[key.top(self.jump_bits)] };
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
        if self.jump_bits == 0 || len < self.jump_bits {
            0
        } else {
            self.jump[key.top(self.jump_bits)]
        }
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
        let at = if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            at
        } else {
            assert!(self.nodes.len() < NONE as usize, "the trie is full");
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };
        if node.len == K::WIDTH {
            self.hosts.insert(node.key, at);
        }
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
            if node.len == K::WIDTH {
                self.hosts.remove(node.key);
            }
            self.free.push(at);
            at = node.parent;
        }
    }

    /// Jump slots that led to `from` and lie within the longer of the two nodes lead to `to`.
    fn jump_over(&mut self, to: u32, from: u32) {
        if self.jump_bits == 0 {
            return;
        }
        let (a, b) = (self.nodes[to as usize], self.nodes[from as usize]);
        let narrow = if a.len > b.len { a } else { b };
        if narrow.len > self.jump_bits {
            return;
        }
        for slot in Self::slots(narrow.key, narrow.len, self.jump_bits) {
            if self.jump[slot] == from {
                self.jump[slot] = to;
            }
        }
    }

    /// The jump slots below a prefix.
    fn slots(key: K, len: u8, bits: u8) -> core::ops::Range<usize> {
        let first = key.top(bits);
        first..first + (1 << (bits - len))
    }

    /// Grows the accelerators with the table.
    fn accelerate(&mut self) {
        let count = self.nodes.len() - self.free.len();
        if count < ACCELERATE_FROM {
            return;
        }
        let wanted = (count.ilog2() as u8).min(K::MAX_JUMP);
        if wanted > self.jump_bits {
            self.build_jump(wanted);
        }
        if !self.hosts.is_enabled() {
            self.build_hosts();
        }
        if count >= SPANS_FROM && self.spans.is_none() && K::WIDTH == 32 {
            self.spans = Some(Box::new(Spans::new(NONE)));
            self.refresh(K::ZERO, 0);
        }
    }

    /// Tells the spans what lies below a prefix that has changed.
    fn refresh(&mut self, key: K, len: u8) {
        let Some(mut spans) = self.spans.take() else { return };
        let first = key.masked(len).top(TOP);
        for slot in first..first + (1 << TOP.saturating_sub(len)) {
            spans.set(slot, &self.nets(slot));
        }
        self.spans = Some(spans);
    }

    /// The networks of one slot: the value of what covers it, and those of what lies in it.
    fn nets(&self, slot: usize) -> Nets {
        let key = K::from_top(slot, TOP);
        let mut at = if self.jump_bits == 0 { 0 } else { self.jump[key.top(self.jump_bits)] };
        while self.nodes[at as usize].len > TOP {
            at = self.nodes[at as usize].parent;
        }
        while let Some(next) = self.child_around(at, key) {
            at = next;
        }
        let node = &self.nodes[at as usize];
        let covering = if node.value == NONE { self.valued_above(at) } else { at };
        let value = if covering == NONE { NONE } else { self.nodes[covering as usize].value };
        let mut nets = [value; NETS];
        for child in node.child.into_iter().filter(|&child| child != NONE) {
            if self.nodes[child as usize].key.masked(TOP) == key {
                self.fill_nets(child, &mut nets);
            }
        }
        nets
    }

    /// The child of `at` that covers the whole slot beginning at `key`.
    fn child_around(&self, at: u32, key: K) -> Option<u32> {
        let node = &self.nodes[at as usize];
        if node.len >= TOP {
            return None;
        }
        let next = node.child[key.bit(node.len)];
        let child = self.nodes.get(next as usize)?;
        (child.len <= TOP && child.key == key.masked(child.len)).then_some(next)
    }

    /// Writes the values of the node `at` and all below it, longer ones over shorter ones.
    fn fill_nets(&self, at: u32, nets: &mut Nets) {
        let node = &self.nodes[at as usize];
        let first = node.key.top(BOTTOM) % NETS;
        if node.len > BOTTOM {
            nets[first] = DEEP;
            return;
        }
        if node.value != NONE {
            nets[first..first + (1 << (BOTTOM - node.len))].fill(node.value);
        }
        for child in node.child.into_iter().filter(|&child| child != NONE) {
            self.fill_nets(child, nets);
        }
    }

    fn build_jump(&mut self, bits: u8) {
        self.jump_bits = bits;
        self.jump.clear();
        self.jump.resize(1 << bits, 0);
        let mut stack = vec![0u32];
        while let Some(at) = stack.pop() {
            let node = self.nodes[at as usize];
            if node.len > bits {
                continue;
            }
            self.jump[Self::slots(node.key, node.len, bits)].fill(at);
            stack.extend(node.child.into_iter().filter(|&child| child != NONE));
        }
    }

    fn build_hosts(&mut self) {
        self.hosts.enable();
        let mut stack = vec![0u32];
        while let Some(at) = stack.pop() {
            let node = self.nodes[at as usize];
            if node.len == K::WIDTH {
                self.hosts.insert(node.key, at);
            }
            stack.extend(node.child.into_iter().filter(|&child| child != NONE));
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

/// Full-length prefixes by address: linear probing, at most half full, back-shift deletion.
#[derive(Clone, Debug)]
struct HostIndex<K> {
    /// (address, node); empty slots have node `NONE`. No slots at all while not enabled.
    slots: Vec<(K, u32)>,
    used: usize,
}

impl<K: Bits> HostIndex<K> {
    const fn new() -> Self {
        Self { slots: Vec::new(), used: 0 }
    }

    fn is_enabled(&self) -> bool {
        !self.slots.is_empty()
    }

    fn enable(&mut self) {
        self.slots = vec![(K::ZERO, NONE); ACCELERATE_FROM * 2];
    }

    fn home(&self, key: K) -> usize {
        (key.digest() >> (64 - self.slots.len().ilog2())) as usize
    }

    #[inline]
    fn get(&self, key: K) -> Option<u32> {
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

    fn insert(&mut self, key: K, node: u32) {
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

    fn remove(&mut self, key: K) {
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

#[cfg(test)]
mod tests;
