//! pie (RFC 8033): when it may drop or mark at all, which of the two, and what it counts.

use datapath::packet::{Ecn, Packet};
use datapath::qdisc::pie::{Pie, PieStats};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant};

use super::call::Call;
use crate::case::BrokenLaw;

/// What is known of a pie since it was made.
#[derive(Clone, Debug)]
pub struct Early {
    /// From when on it may drop.
    from: Instant,
    counted: PieStats,
}

/// The kernel's first update of the probability, which is none until then (`pie_init`). A burst of 150 ms passes in
/// any case (RFC 8033, section 4.4).
const FIRST_UPDATE: Duration = Duration::from_millis(500);

impl Early {
    /// A new one, which lets a burst pass.
    pub fn new(pie: &Pie, now: Instant) -> Self {
        Self { from: now + FIRST_UPDATE, counted: *pie.own_stats() }
    }

    /// A packet came (`pie_qdisc_enqueue`).
    pub fn entered(&mut self, call: &Call<'_>, pie: &Pie, came: &Packet) -> Result<(), BrokenLaw> {
        let config = pie.config();
        let counted = core::mem::replace(&mut self.counted, *pie.own_stats());
        let is_full = call.before.packets >= config.limit;
        let is_dropped = !call.dropped.is_empty();
        let early = call.dropped.iter().any(|(reason, _)| *reason == Reason::QdiscCongested);
        let marked = self.counted.ecn_mark - counted.ecn_mark;
        let can_be_marked = config.ecn && Ecn::from_bits(came.network.tos()) != Ecn::NotEct;
        let rules = [
            (
                is_full != is_dropped && !early,
                "a packet is dropped if and only if there is no room",
            ),
            (is_full && early, "what finds no room is dropped for that"),
            (
                self.counted.dropped - counted.dropped != u32::from(is_dropped)
                    || self.counted.overlimit - counted.overlimit != u32::from(is_full)
                    || self.counted.packets_in - counted.packets_in != u32::from(!is_dropped),
                "each packet is counted as what it is",
            ),
            ((early || marked > 0) && call.now < self.from, "a burst passes at first"),
            (
                (early || marked > 0) && call.before.bytes < 2 * config.params.mtu,
                "two packets may always wait (section 4.1)",
            ),
            (marked > 0 && (is_dropped || !can_be_marked), "only ECN-capable packets are marked"),
        ];
        match rules.into_iter().find(|(is_broken, _)| *is_broken) {
            None => Ok(()),
            Some((_, rule)) => {
                let number = came.body.number();
                let what = format!(
                    "{rule}: packet {number}, {:?} before it, {marked} marked, dropped {is_dropped}; {:?}",
                    call.before, self.counted
                );
                Err(("early", what))
            }
        }
    }
}
