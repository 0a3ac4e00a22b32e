//! Host tables: how many bulk flows each source and each destination has.

use super::hash::SetSlot;

/// The hosts of one side (sources or destinations) of one tin: 8-way set-associative.
#[derive(Clone, Debug)]
pub struct Hosts {
    hosts: Box<[Host]>,
}

/// One host (`struct cake_host`, one side of it).
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: u32,
    bulk_flows: u16,
}

impl Hosts {
    /// An empty table of `size` hosts.
    pub fn new(size: usize) -> Self {
        Self { hosts: vec![Host::default(); size].into_boxed_slice() }
    }

    /// The slot of the host with this hash: its own, else one without bulk flows, else its home
    /// slot, shared with whoever is there.
    pub fn slot(&mut self, hash: u32) -> u16 {
        let home = SetSlot::home(hash);
        let slot = home
            .ways()
            .find(|&slot| self.hosts[slot].tag == hash)
            .or_else(|| home.ways().find(|&slot| self.hosts[slot].bulk_flows == 0))
            .unwrap_or_else(|| home.index());
        self.hosts[slot].tag = hash;
        slot as u16
    }

    /// A flow of this host has become bulk.
    pub fn add_bulk(&mut self, slot: u16) {
        self.hosts[usize::from(slot)].bulk_flows += 1;
    }

    /// A flow of this host is no longer bulk. A change of the isolation mode can leave flows that
    /// were never counted.
    pub fn remove_bulk(&mut self, slot: u16) {
        let host = &mut self.hosts[usize::from(slot)];
        host.bulk_flows = host.bulk_flows.saturating_sub(1);
    }

    /// Bulk flows of this host.
    pub fn bulk_flows(&self, slot: u16) -> u16 {
        self.hosts[usize::from(slot)].bulk_flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keep_their_slot_while_they_have_bulk_flows() {
        let mut hosts = Hosts::new(1024);
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
