//! Impairments of a link: by rules, and by chance.

use crate::loss::{Guest, GuestLoss};
use crate::rules::{RuleVerdict, Rules};
use datapath::packet::Packet;
use datapath::qdisc::netem::{Chance, Correlated, Loss};
use datapath::rng::{Ratio, Rng};
use datapath::units::{Duration, Instant};

/// Chances of impairments, each drawn for each packet in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chances {
    /// A packet is lost.
    pub loss: Ratio,
    /// It is lost by a model of netem's, as losses come in bursts (`gemodel`, `state`).
    pub model: Loss,
    /// It is lost by a model of a library user.
    pub guest: Option<GuestLoss>,
    /// A packet is damaged: it travels on and is dropped where it arrives.
    pub corruption: Ratio,
    /// A packet comes twice.
    pub duplication: Ratio,
    /// A packet comes later, by `reorder_by`, and others overtake it.
    pub reordering: Ratio,
    /// How much later.
    pub reorder_by: Duration,
    /// Every packet comes later by a uniform part of this.
    pub jitter: Duration,
    /// How much that of the packet before goes into it (netem's correlation of the delay).
    pub jitter_correlation: Chance,
    /// Whether jitter may change the order of packets.
    pub jitter_reorders: bool,
}

/// All impairments of one direction of a wire.
#[derive(Debug)]
pub(crate) struct Impairments {
    pub rules: Rules,
    pub chances: Chances,
    rng: Rng,
    guest: Option<Guest>,
    /// The state of correlated jitter.
    jitter: Correlated,
    /// The latest arrival so far of a packet that kept the order.
    latest: Instant,
}

/// What happens to a packet that would arrive at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Lost,
    Arrives { at: Instant, damaged: bool, copy_at: Option<Instant> },
}

impl Chances {
    /// True if there are no random impairments.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Impairments {
    /// Each link has its own random stream: adding one does not change what another draws.
    pub fn new(rules: Rules, chances: Chances, seed: u64, link: u32) -> Self {
        let rng = Rng::stream(seed, u64::from(link));
        let jitter = Correlated::new(chances.jitter_correlation);
        let guest = chances.guest.map(|words| Guest(words.value().boxed_clone()));
        Self { rules, chances, rng, guest, jitter, latest: Instant::ZERO }
    }

    /// Ends all impairments. Packets on the link stay there, and later ones do not overtake them.
    pub fn end(&mut self) {
        self.rules = Rules::default();
        self.chances = Chances::default();
        self.guest = None;
    }

    /// Decides about a packet whose last bit leaves at `left` and that takes `delay` from there.
    pub fn decide(&mut self, left: Instant, delay: Duration, packet: &mut Packet) -> Delivery {
        let mut at = left + delay;
        let mut copy_at = None;
        match self.rules.judge(left, packet) {
            RuleVerdict::Pass => {}
            RuleVerdict::Drop => return Delivery::Lost,
            RuleVerdict::Delay(span) => at += span,
            RuleVerdict::Duplicate(span) => copy_at = Some(at + span),
        }
        let Chances { loss, corruption, duplication, reordering, .. } = self.chances;
        if self.rng.chance(loss) || self.chances.model.strikes(&mut self.rng) {
            return Delivery::Lost;
        }
        if let Some(Guest(model)) = &mut self.guest
            && model.strikes(left, packet, &mut self.rng)
        {
            return Delivery::Lost;
        }
        let damaged = self.rng.chance(corruption);
        let twice = self.rng.chance(duplication);
        let reordered = self.rng.chance(reordering);
        at = if reordered { at + self.chances.reorder_by } else { self.jittered(at) };
        if twice {
            copy_at.get_or_insert(at);
        }
        Delivery::Arrives { at, damaged, copy_at }
    }

    fn jittered(&mut self, at: Instant) -> Instant {
        let Chances { jitter, jitter_correlation, jitter_reorders, .. } = self.chances;
        if jitter == Duration::ZERO {
            // Behind packets that were late when there was jitter.
            return at.max(self.latest);
        }
        let parts = jitter.as_nanos() + 1;
        let nanos = if jitter_correlation == 0 {
            self.rng.below(parts)
        } else {
            let drawn = u128::from(self.jitter.draw(&mut self.rng));
            ((drawn * u128::from(parts)) >> 32) as u64
        };
        let at = at + Duration::from_nanos(nanos);
        if jitter_reorders {
            return at;
        }
        self.latest = self.latest.max(at);
        self.latest
    }
}
