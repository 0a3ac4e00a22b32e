//! Keeping the accelerators of the trie true to it: jump table, host index, spans.

use super::super::spans::{BOTTOM, DEEP, NETS, Nets, Spans, TOP};
use super::bits::Bits;
use super::hosts::HostIndex;
use super::{ACCELERATE_FROM, NONE, Trie};

/// From this many nodes on that they tell apart there are spans; they take four megabytes at least.
const SPANS_FROM: u32 = 1 << 15;

impl<K: Bits> Trie<K> {
    /// Jump slots that led to `from` and lie within the longer of the two nodes lead to `to`.
    pub(super) fn jump_over(&mut self, to: u32, from: u32) {
        let Some(large) = self.large.as_mut().filter(|large| large.jump_bits > 0) else { return };
        let (a, b) = (self.nodes[to as usize], self.nodes[from as usize]);
        let narrow = if a.len > b.len { a } else { b };
        if narrow.len > large.jump_bits {
            return;
        }
        for slot in Self::slots(narrow.key, narrow.len, large.jump_bits) {
            if large.jump[slot] == from {
                large.jump[slot] = to;
            }
        }
    }

    /// The jump slots below a prefix.
    fn slots(key: K, len: u8, bits: u8) -> core::ops::Range<usize> {
        let first = key.top(bits);
        first..first + (1 << (bits - len))
    }

    /// Grows the accelerators with the table.
    pub(super) fn accelerate(&mut self) {
        if self.nodes.len() < ACCELERATE_FROM {
            return;
        }
        let count = self.nodes.len() - self.large().free.len();
        if count < ACCELERATE_FROM {
            return;
        }
        let wanted = (count.ilog2() as u8).min(K::MAX_JUMP);
        if wanted > self.large().jump_bits {
            self.build_jump(wanted);
        }
        if !self.large().hosts.is_enabled() {
            self.build_hosts();
        }
        if self.short >= SPANS_FROM && self.large().spans.is_none() && K::WIDTH == 32 {
            self.large().spans = Some(Box::new(Spans::new(NONE)));
            self.refresh(K::ZERO, 0);
        }
    }

    /// Tells the spans what lies below a prefix that has changed.
    pub(super) fn refresh(&mut self, key: K, len: u8) {
        let Some(mut spans) = self.large.as_mut().and_then(|large| large.spans.take()) else {
            return;
        };
        let first = key.masked(len).top(TOP);
        for slot in first..first + (1 << TOP.saturating_sub(len)) {
            spans.set(slot, &self.nets(slot));
        }
        self.large().spans = Some(spans);
    }

    /// The networks of one slot: the value of what covers it, and those of what lies in it.
    fn nets(&self, slot: usize) -> Nets {
        let key = K::from_top(slot, TOP);
        let mut at = self.large.as_ref().map_or(0, |large| large.start(key));
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
        let mut jump = vec![0; 1 << bits];
        let mut stack = vec![0u32];
        while let Some(at) = stack.pop() {
            let node = self.nodes[at as usize];
            if node.len > bits {
                continue;
            }
            jump[Self::slots(node.key, node.len, bits)].fill(at);
            stack.extend(node.child.into_iter().filter(|&child| child != NONE));
        }
        let large = self.large();
        (large.jump_bits, large.jump) = (bits, jump);
    }

    fn build_hosts(&mut self) {
        let mut hosts = HostIndex::new();
        hosts.enable();
        let mut stack = vec![0u32];
        while let Some(at) = stack.pop() {
            let node = self.nodes[at as usize];
            if node.len == K::WIDTH {
                hosts.insert(node.key, at);
            }
            stack.extend(node.child.into_iter().filter(|&child| child != NONE));
        }
        self.large().hosts = hosts;
    }
}
