//! How often those who wait for a socket have been woken.

use crate::node::SocketReady;
use core::ops::Add;

/// How often the waiters of a socket have been woken, by what for (`sk_data_ready`,
/// `sk_write_space`). Edge-triggered readiness is a change of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WakeCounts {
    /// For data, connections, ends.
    pub read: u32,
    /// For space.
    pub write: u32,
    /// For errors and changes of state.
    pub state: u32,
}

impl WakeCounts {
    pub(in crate::host) fn count(&mut self, ready: u8) {
        self.read += u32::from(ready & SocketReady::READABLE != 0);
        self.write += u32::from(ready & SocketReady::WRITABLE != 0);
        let state = SocketReady::ERROR | SocketReady::HANGUP | SocketReady::STATE;
        self.state += u32::from(ready & state != 0);
    }

    /// All of them.
    pub const fn total(self) -> u32 {
        self.read.wrapping_add(self.write).wrapping_add(self.state)
    }
}

impl Add for WakeCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            read: self.read.wrapping_add(other.read),
            write: self.write.wrapping_add(other.write),
            state: self.state.wrapping_add(other.state),
        }
    }
}
