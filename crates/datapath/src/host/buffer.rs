//! Packet memory that all ports of a switch share, with dynamic thresholds (A. Choudhury, E. Hahne,
//! "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM ToN 6(2), 1998).
//!
//! A queue may grow as long as it is shorter than alpha times the memory that is still free. One
//! busy port gets alpha/(1 + alpha) of the memory, n of them n·alpha/(1 + n·alpha) together; the rest
//! is kept for those that come later.

use super::Host;
use crate::qdisc::Qdisc as _;

/// Packet memory of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// All of it, bytes.
    pub bytes: u32,
    /// How much of what is free one queue may take: numerator and denominator.
    pub alpha: (u32, u32),
    /// Packets that found no room.
    pub drops: u64,
}

impl SharedBuffer {
    /// `bytes` of memory; a queue may take `alpha.0 / alpha.1` of what is free.
    ///
    /// # Panics
    /// If alpha is not a positive number.
    pub fn new(bytes: u32, alpha: (u32, u32)) -> Self {
        assert!(alpha.0 > 0 && alpha.1 > 0, "alpha is a positive number");
        Self { bytes, alpha, drops: 0 }
    }

    /// Whether a packet of `len` bytes may join a queue of `queued` bytes while `used` bytes wait in
    /// all queues.
    pub fn admits(&self, len: u32, queued: u32, used: u64) -> bool {
        let Some(free) = u64::from(self.bytes).checked_sub(used) else { return false };
        let threshold = u128::from(free) * u128::from(self.alpha.0) / u128::from(self.alpha.1);
        u64::from(len) <= free && u128::from(queued) < threshold
    }
}

impl Host {
    /// Makes all ports share this packet memory, or gives each back what its own queue allows.
    pub fn set_shared_buffer(&mut self, buffer: Option<SharedBuffer>) {
        self.buffer = buffer.map(Box::new);
    }

    /// The memory that the ports share.
    pub fn shared_buffer(&self) -> Option<&SharedBuffer> {
        self.buffer.as_deref()
    }

    /// Takes a packet of `len` bytes at port `index` into the shared memory, if there is room; if not, it counts as
    /// refused.
    pub(super) fn admit_to_buffer(&mut self, index: u16, len: u32) -> bool {
        let Some(buffer) = &mut self.buffer else { return true };
        let queued = |port: &super::HostPort| port.qdisc().backlog().bytes;
        let used = self.ports.iter().map(|port| u64::from(queued(port))).sum();
        let admitted = buffer.admits(len, queued(&self.ports[usize::from(index)]), used);
        buffer.drops += u64::from(!admitted);
        self.ports[usize::from(index)].refused += u64::from(!admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills `ports` queues in turn with packets of 1000 bytes until none is admitted.
    fn filled(buffer: &SharedBuffer, ports: usize) -> Vec<u32> {
        let mut queues = vec![0_u32; ports];
        loop {
            let before = queues.clone();
            for port in 0..ports {
                let used = queues.iter().map(|queue| u64::from(*queue)).sum();
                if buffer.admits(1_000, queues[port], used) {
                    queues[port] += 1_000;
                }
            }
            if queues == before {
                return queues;
            }
        }
    }

    /// The paper's equation 2: n busy queues hold alpha/(1 + n alpha) of the memory each.
    #[test]
    fn busy_queues_share_as_in_the_paper() {
        for (alpha, ports) in [((1, 1), 1), ((1, 1), 3), ((1, 4), 1), ((1, 4), 8), ((8, 1), 2)] {
            let buffer = SharedBuffer::new(4_000_000, alpha);
            let (num, den) = (u64::from(alpha.0), u64::from(alpha.1));
            let each = 4_000_000 * num / (den + ports as u64 * num);
            for queue in filled(&buffer, ports) {
                let off = u64::from(queue).abs_diff(each);
                assert!(off <= 1_000 * ports as u64, "{alpha:?} {ports}: {queue} for {each}");
            }
        }
    }

    /// Memory is never given out twice, and a queue above its threshold only shrinks.
    #[test]
    fn the_memory_is_all_there_is() {
        let buffer = SharedBuffer::new(10_000, (100, 1));
        assert!(buffer.admits(1_000, 0, 9_000));
        assert!(!buffer.admits(1_001, 0, 9_000));
        assert!(!buffer.admits(1, 0, 10_001), "the memory shrank below what is in use");
        let buffer = SharedBuffer::new(10_000, (1, 2));
        assert!(!buffer.admits(1_000, 4_000, 4_000));
        assert!(buffer.admits(1_000, 0, 4_000), "another queue still may");
    }
}
