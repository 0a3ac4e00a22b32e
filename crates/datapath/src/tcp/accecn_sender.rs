//! Accurate ECN, sending side: how many of our packets arrived with CE (RFC 9768 sections 3.2.2.5.2
//! and 3.2.3.1, appendix A).
//!
//! The ACE field has the number of CE marks modulo 8. When an ACK covers eight segments or more,
//! it may have cycled; then bytes of CE, if options tell them, decide, and where they do not, ACKs
//! are taken to have been lost and every segment to be marked, unless ACKs usually cover so many.

use super::Connection;
use super::accecn::{CE_PACKETS_INIT, ECT_BYTES_INIT, ace, fail, seen};
use super::accecn_receiver::counter;
use super::ack_event::AckFlags;
use crate::packet::option_kind as kind;
use crate::packet::{AccEcnOption, Ecn, Tcp};

/// The ACE field has so many values.
const ACE_VALUES: u32 = 8;
/// From so many segments on, bytes tell the number of cycles.
const MANY: u32 = 2 * ACE_VALUES;
/// Average segments of an ACK from which on a long ACK is nothing unusual.
const STRETCHED: u16 = 4;
/// Unit of the average, and its weight: a new value counts 1/64.
const EWMA: u32 = 64;

/// What an ACK delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delivered {
    packets: u32,
    bytes: u32,
    /// Bytes with CE by the peer's options, if they are known for certain.
    ce_bytes: Option<u32>,
    /// CE marks by the ACE field, modulo 8.
    ace: u32,
    mss: u32,
    /// ACKs usually cover many segments.
    stretched: bool,
}

impl Connection {
    /// Digests the feedback of an ACK that delivered so much: how many packets had CE
    /// (`tcp_accecn_process`).
    pub(super) fn accurate_feedback(&mut self, tcp: &Tcp, flags: AckFlags, packets: u32) -> u32 {
        let bytes = flags.delivered_bytes;
        if !flags.forward_progress() && !self.ecn.acc.timestamp_advanced {
            // An ACK with newer feedback may have come before.
            return 0;
        }
        if packets > 0 {
            self.average_acked(packets);
        }
        let ce_bytes = self.read_option(&tcp.options.acc_ecn(), bytes);
        let counted = self.rate.delivered_ce.wrapping_add(CE_PACKETS_INIT);
        let delivered = Delivered {
            packets,
            bytes,
            ce_bytes,
            ace: u32::from(ace(tcp.flags)).wrapping_sub(counted) % ACE_VALUES,
            mss: self.snd.mss,
            stretched: self.ecn.acc.acked_ewma > STRETCHED * EWMA as u16,
        };
        delivered.marked()
    }

    /// What an ACK covers counts in the average (`pkts_acked_ewma`).
    pub(super) fn average_acked(&mut self, packets: u32) {
        let ewma = &mut self.ecn.acc.acked_ewma;
        let new = match u32::from(*ewma) {
            0 => packets.saturating_mul(EWMA),
            old => (old * (EWMA - 1) + packets.saturating_mul(EWMA)) / EWMA,
        };
        *ewma = new.min(u16::MAX.into()) as u16;
    }

    /// Takes the counters of an option; `bytes` were delivered by its ACK. Bytes with CE, if the
    /// codepoint of all of them is known for certain (`tcp_accecn_process_option`).
    pub(super) fn read_option(&mut self, option: &AccEcnOption, bytes: u32) -> Option<u32> {
        if self.ecn.acc.fail & fail::OPT_RECV != 0 {
            return None;
        }
        if !option.is_present() {
            if let Some(codepoint) = self.ecn.acc.estimate {
                let guessed = &mut self.ecn.acc.delivered[counter(codepoint)];
                *guessed = guessed.wrapping_add(bytes);
                return Some(if codepoint == Ecn::Ce { bytes } else { 0 });
            }
            return None;
        }
        if self.ecn.acc.opt_seen < seen::COUNTERS {
            self.first_option(option);
        }
        let order = match option.kind() {
            kind::ACC_ECN_0 => [Ecn::Ect0, Ecn::Ce, Ecn::Ect1],
            _ => [Ecn::Ect1, Ecn::Ce, Ecn::Ect0],
        };
        let before = self.ecn.acc.estimate;
        let ce_before = self.ecn.acc.delivered[counter(Ecn::Ce)];
        let mut moved = false;
        let mut ambiguous = false;
        for (codepoint, &told) in order.into_iter().zip(option.counters()) {
            let delta = self.counter_moves(codepoint, told);
            if delta < 0 {
                // More was guessed than came.
                ambiguous = true;
            } else if delta > 0 && before != Some(codepoint) {
                ambiguous |= moved;
                moved = true;
                self.ecn.acc.estimate = Some(codepoint);
            }
        }
        if ambiguous {
            self.ecn.acc.estimate = None;
        }
        let ce = self.ecn.acc.delivered[counter(Ecn::Ce)].wrapping_sub(ce_before);
        (before.is_some() && !ambiguous).then_some(ce)
    }

    /// One counter of an option: moves ours to it, by less than half of its range.
    fn counter_moves(&mut self, codepoint: Ecn, told: u32) -> i32 {
        let init = if codepoint == Ecn::Ce { 0 } else { ECT_BYTES_INIT };
        let known = &mut self.ecn.acc.delivered[counter(codepoint)];
        let delta = (told.wrapping_sub(init).wrapping_sub(*known) << 8) as i32 >> 8;
        *known = known.wrapping_add_signed(delta);
        delta
    }
}

impl Delivered {
    /// How many of the packets had CE (RFC 9768 appendix A.2).
    fn marked(self) -> u32 {
        let Self { packets, bytes, ce_bytes, ace, mss, stretched } = self;
        if packets < ACE_VALUES {
            return ace;
        }
        let most = packets - (packets.wrapping_sub(ace)) % ACE_VALUES;
        match ce_bytes {
            Some(0) => ace,
            Some(ce) if packets >= MANY => {
                let share = u64::from(ce) * u64::from(packets);
                let estimate = share.div_ceil(u64::from(bytes.max(1))) as u32;
                most.min(ace + estimate / ACE_VALUES * ACE_VALUES)
            }
            // Clearly fewer than a cycle would make, and no more than in the field.
            Some(ce) if ce <= ace * mss && ce < (most * mss) >> 1 => ace,
            None if stretched => ace,
            _ => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 988;

    fn marked(packets: u32, ace: u32, ce: Option<u32>, stretched: bool) -> u32 {
        let ce_bytes = ce.map(|segments| segments * MSS);
        Delivered { packets, bytes: packets * MSS, ce_bytes, ace, mss: MSS, stretched }.marked()
    }

    #[test]
    fn up_to_seven_segments_the_field_is_exact() {
        for packets in 0..8 {
            for ace in 0..8 {
                assert_eq!(marked(packets, ace, None, false), ace);
            }
        }
    }

    #[test]
    fn without_options_a_long_ack_is_taken_for_several_lost_acks() {
        // Packets, ACE, marks: what a 7.3 kernel counts.
        for (packets, ace, count) in
            [(8, 0, 8), (9, 0, 8), (16, 0, 16), (30, 0, 24), (16, 1, 9), (16, 7, 15)]
        {
            assert_eq!(marked(packets, ace, None, false), count, "{packets} {ace}");
            assert_eq!(marked(packets, ace, None, true), ace, "ACKs are always so long");
        }
    }

    #[test]
    fn bytes_of_ce_tell_the_cycles() {
        for packets in [10, 30] {
            for ce in 0..=packets.min(24) {
                assert_eq!(marked(packets, ce % 8, Some(ce), false), ce, "{ce} of {packets}");
            }
        }
        // Bytes and field disagree: what a 7.3 kernel counts.
        for (packets, ce, ace, count) in [
            (10, 3, 0, 8),
            (30, 3, 0, 0),
            (10, 0, 3, 3),
            (30, 0, 3, 3),
            (10, 9, 0, 8),
            (30, 9, 0, 8),
            (10, 1, 0, 8),
            (10, 4, 2, 10),
            (30, 4, 2, 2),
        ] {
            assert_eq!(marked(packets, ace, Some(ce), false), count, "{packets} {ce} {ace}");
        }
    }
}
