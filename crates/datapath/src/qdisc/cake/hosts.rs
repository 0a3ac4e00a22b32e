//! Host tables: how many bulk flows each source and each destination has.

use super::hash::{QUEUES, SetSlot};
use super::table;

/// The hosts of one side (sources or destinations) of one tin, 8-way set-associative: of each
/// host (`struct cake_host`, one side of it) its hash and its bulk flows.
#[derive(Clone, Debug)]
pub struct Hosts {
    tags: Box<[u32; QUEUES]>,
    bulk_flows: Box<[u16; QUEUES]>,
}

impl Hosts {
    /// An empty table of as many hosts as there are queues.
    pub fn new() -> Self {
        Self {
            tags: table(core::iter::repeat_n(0, QUEUES)),
            bulk_flows: table(core::iter::repeat_n(0, QUEUES)),
        }
    }

    /// The slot of the host with this hash: its own, else one without bulk flows, else its home
    /// slot, shared with the host that has it.
    pub fn slot(&mut self, hash: u32) -> u16 {
        let home = SetSlot::home(hash);
        let slot = home
            .find(&self.tags, |tag| tag == hash)
            .or_else(|| home.find(&self.bulk_flows, |flows| flows == 0))
            .unwrap_or_else(|| home.index());
        self.tags[slot] = hash;
        slot as u16
    }

    /// A flow of this host has become bulk.
    #[inline]
    pub fn add_bulk(&mut self, slot: u16) {
        self.bulk_flows[usize::from(slot)] += 1;
    }

    /// A flow of this host is no longer bulk. A change of the isolation mode can leave flows that
    /// were never counted.
    #[inline]
    pub fn remove_bulk(&mut self, slot: u16) {
        let bulk_flows = &mut self.bulk_flows[usize::from(slot)];
        *bulk_flows = bulk_flows.saturating_sub(1);
    }

    /// Bulk flows of all hosts, by slot.
    pub fn all_bulk_flows(&self) -> &[u16; QUEUES] {
        &self.bulk_flows
    }

    /// Bulk flows of this host.
    #[inline]
    pub fn bulk_flows(&self, slot: u16) -> u16 {
        self.bulk_flows[usize::from(slot)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keep_their_slot_while_they_have_bulk_flows() {
        let mut hosts = Hosts::new();
        let first = hosts.slot(0x10);
        hosts.add_bulk(first);
        let second = hosts.slot(0x10 + 1024);
        assert_ne!(first, second, "the home slot is taken");
        assert_eq!(hosts.slot(0x10), first);
        hosts.remove_bulk(first);
        hosts.remove_bulk(first);
        assert_eq!(hosts.bulk_flows(first), 0);
    }
}
