//! One neighbour: its state and what waits for it (`struct neighbour`).

use super::Action;
use super::sysctl::Family;
use crate::packet::{MacAddr, Packet};
use crate::reason::Reason;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// `NUD_…` (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Just made.
    None,
    /// Asked, and not answered yet.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Known, but not confirmed lately.
    Stale,
    /// Stale and used: a confirmation may come by itself.
    Delay,
    /// Asked whether it is still there.
    Probe,
    /// It does not answer.
    Failed,
    /// Set by hand; never asked.
    Permanent,
}

/// A neighbour.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) state: State,
    pub(super) mac: Option<MacAddr>,
    /// It has said that it is a router (`NTF_ROUTER`).
    pub(super) router: bool,
    pub(super) confirmed: Option<Instant>,
    pub(super) updated: Instant,
    pub(super) used: Instant,
    /// Questions since it was asked first; those to one address and those to all together.
    pub(super) probes: u32,
    pub(super) reachable_time: Duration,
    /// When it wants to be called.
    pub(super) due: Instant,
    /// Packets that wait for an answer.
    pub(super) held: VecDeque<Packet>,
    /// The memory that they take.
    pub(super) held_bytes: u32,
}

/// How far what was heard may change what was known (`NEIGH_UPDATE_F_…`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// `OVERRIDE`: another address takes the place of one that is known.
    pub overrides: bool,
    /// `WEAK_OVERRIDE`: another address makes a known one doubtful.
    pub weak: bool,
    /// `OVERRIDE_ISROUTER` and what it says.
    pub router: Option<bool>,
}

impl State {
    /// `NUD_VALID`: there is an address to send to.
    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Permanent | Self::Reachable | Self::Probe | Self::Stale | Self::Delay)
    }

    /// `NUD_CONNECTED`: nothing has to be asked.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Permanent | Self::Reachable)
    }

    /// What `ip neigh` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Incomplete => "INCOMPLETE",
            Self::Reachable => "REACHABLE",
            Self::Stale => "STALE",
            Self::Delay => "DELAY",
            Self::Probe => "PROBE",
            Self::Failed => "FAILED",
            Self::Permanent => "PERMANENT",
        }
    }
}

impl Entry {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::None,
            mac: None,
            router: false,
            confirmed: None,
            updated: now,
            used: now,
            probes: 0,
            reachable_time: Duration::ZERO,
            due: Instant::FAR_FUTURE,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Its hardware address, if it was ever told.
    pub fn mac(&self) -> Option<MacAddr> {
        self.mac
    }

    /// Whether it has said that it is a router.
    pub fn is_router(&self) -> bool {
        self.router
    }

    /// How many packets wait for its answer.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// When it was last used, confirmed (if ever), and changed.
    pub fn times(&self) -> (Instant, Option<Instant>, Instant) {
        (self.used, self.confirmed, self.updated)
    }

    /// Questions that were asked.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Keeps a packet; the oldest go if all take more memory than `unres_qlen_bytes`.
    pub(super) fn hold(&mut self, packet: Packet, family: &Family, actions: &mut VecDeque<Action>) {
        let size = memory_of(&packet);
        while self.held_bytes + size > family.unres_qlen_bytes
            && let Some(oldest) = self.held.pop_front()
        {
            self.held_bytes -= memory_of(&oldest);
            actions.push_back(Action::Drop(Reason::NeighbourQueueFull, oldest));
        }
        self.held_bytes += size;
        self.held.push_back(packet);
    }
}

/// What a packet counts as: `skb->truesize`, which is never less than its bytes.
fn memory_of(packet: &Packet) -> u32 {
    packet.meta.truesize.max(packet.len())
}
