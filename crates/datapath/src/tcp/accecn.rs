//! Accurate ECN (RFC 9768): its state, and its part of the handshake.
//!
//! | file | what it holds |
//! |---|---|
//! | [`super::accecn`] | negotiation, the codepoints of SYN and SYN-ACK told back, what is broken |
//! | [`super::accecn_receiver`] | counters of what arrives, and the feedback that tells them |
//! | [`super::accecn_sender`] | what the peer's feedback says of our packets |
//!
//! AE, CWR and ECE are three bits of one number: in the handshake they tell the codepoint that
//! the SYN or SYN-ACK arrived with (RFC 9768 tables 2 and 3), later they are the ACE field, the
//! number of CE marks modulo 8. The option counts bytes by codepoint.

use super::Connection;
use super::segment::Segment;
use crate::packet::option_kind as kind;
use crate::packet::options::MAX_OPTION_SPACE;
use crate::packet::{AccEcnOption, Ecn, TcpFlags, TcpOptions};

/// Bits of `tcpi_accecn_fail_mode`: what is known to be broken.
pub mod fail {
    /// Our SYN-ACK had to be sent again and again; the peer may not know of AccECN.
    pub const ACE_SEND: u8 = 1;
    /// The peer's handshake says that the field was mangled or is not understood.
    pub const ACE_RECV: u8 = 2;
    /// ACKs with our option seem to get lost.
    pub const OPT_SEND: u8 = 4;
    /// The peer's options are mangled: they are not read.
    pub const OPT_RECV: u8 = 8;
}

/// Values of `tcpi_accecn_opt_seen`: the peer's options.
pub mod seen {
    /// None has come.
    pub const NOTHING: u8 = 0;
    /// One without counters.
    pub const EMPTY: u8 = 1;
    /// One with counters.
    pub const COUNTERS: u8 = 2;
    /// The first one had a counter that was zeroed.
    pub const ZEROED: u8 = 3;
}

/// Where the packet counter of CE begins (RFC 9768 section 3.2.1); the ACE field is ahead of
/// what has been counted by so much.
pub(super) const CE_PACKETS_INIT: u32 = 5;
/// Where the byte counters of ECT(0) and ECT(1) begin; that of CE begins at 0.
pub(super) const ECT_BYTES_INIT: u32 = 1;

/// The three flags as a number (`tcp_accecn_ace`).
pub(super) fn ace(flags: TcpFlags) -> u8 {
    ((flags.0 & ACE_FLAGS.0) / TcpFlags::ECE.0) as u8
}

/// The number as flags.
pub(super) fn ace_flags(ace: u32) -> TcpFlags {
    TcpFlags((ace as u16 & 7) * TcpFlags::ECE.0)
}

/// AE, CWR and ECE.
pub(super) const ACE_FLAGS: TcpFlags = TcpFlags(TcpFlags::AE.0 | TcpFlags::CWR.0 | TcpFlags::ECE.0);

/// How the handshake tells the codepoint that a SYN or SYN-ACK arrived with (RFC 9768 tables 2 and
/// 3).
pub(super) fn reflect(ecn: Ecn) -> TcpFlags {
    ace_flags(match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// The codepoint that a SYN-ACK or its ACK reports; `None` for undefined values.
fn reported_ecn(flags: TcpFlags) -> Option<Ecn> {
    let codepoints = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    codepoints.into_iter().find(|&ecn| reflect(ecn) == TcpFlags(flags.0 & ACE_FLAGS.0))
}

/// What of Accurate ECN a connection has to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccEcn {
    /// What is broken, [`fail`] bits (`accecn_fail_mode`).
    pub fail: u8,
    /// What came of the peer's options, [`seen`] (`saw_accecn_opt`).
    pub opt_seen: u8,
    /// Codepoint that the peer's latest SYN or SYN-ACK arrived with (`syn_ect_rcv`).
    pub syn_received: Ecn,
    /// SYN-ACKs sent.
    pub syn_acks: u8,
    /// Timeouts before the next SYN-ACK.
    pub syn_ack_timeouts: u8,
    /// The next ACK answers a SYN or SYN-ACK that came with this codepoint.
    pub reflect: Option<Ecn>,
    /// Codepoint of the latest packet (`prev_ecnfield`).
    pub previous: Ecn,
    /// Segments that have to carry the option (`accecn_opt_demand`).
    pub opt_demand: u8,
    /// Counters of the option that have changed since it was sent last, as their number
    /// (`accecn_minlen`).
    pub opt_fields: u8,
    /// The latest ACK with the option also had a DSACK (`accecn_opt_sent_w_dsack`).
    pub opt_with_dsack: bool,
    /// When the option was last sent, µs (`accecn_opt_tstamp`).
    pub opt_sent_us: Option<u64>,
    /// Bytes of ours that arrived as ECT(1), ECT(0) and CE, by the peer's options
    /// (`delivered_ecn_bytes`).
    pub delivered: [u32; 3],
    /// The codepoint that ACKs without option are taken for (`est_ecnfield`).
    pub estimate: Option<Ecn>,
    /// Segments of an ACK, average in 1/64 (`pkts_acked_ewma`).
    pub acked_ewma: u16,
    /// The segment's timestamp is newer than all before.
    pub timestamp_advanced: bool,
}

/// Values of `net.ipv4.tcp_ecn`: what is agreed to on incoming connections, what is asked for on
/// outgoing ones.
pub(super) mod sysctl {
    /// No ECN; no ECN.
    pub const OFF: u32 = 0;
    /// RFC 3168; RFC 3168.
    pub const REQUEST: u32 = 1;
    /// AccECN; AccECN. From here on incoming connections may have AccECN.
    pub const ACCURATE: u32 = 3;
    /// AccECN; RFC 3168.
    pub const ACCURATE_REQUEST: u32 = 4;
}

/// Values of `net.ipv4.tcp_ecn_option`.
pub(super) mod option_sysctl {
    /// The option is never sent.
    pub const NEVER: u32 = 0;
    /// Where the rules demand it.
    pub const MINIMUM: u32 = 1;
    /// Sent even if ACKs with it seem to get lost; 2 stops then.
    pub const PERSIST: u32 = 3;
}

impl Connection {
    /// Accurate ECN was agreed.
    #[inline]
    pub(super) fn is_accurate(&self) -> bool {
        self.ecn.accurate
    }

    /// On incoming connections Accurate ECN is agreed to: by `tcp_ecn`, or because the congestion control
    /// cannot do without.
    pub(super) fn agrees_to_accurate(&self) -> bool {
        self.config.sysctl.tcp_ecn >= sysctl::ACCURATE || self.cc_needs_accecn()
    }

    /// Enters AccECN mode (RFC 9768 section 3.1).
    pub(super) fn enter_accurate(&mut self, syn: Ecn, demand: u8) {
        self.ecn.ok = true;
        self.ecn.accurate = true;
        self.ecn.acc = AccEcn { syn_received: syn, opt_demand: demand, ..AccEcn::default() };
    }

    /// Flags of a SYN-ACK that is sent now, for the first time or again (RFC 9768 section
    /// 3.2.3.2.2): after a timeout of one without the option, not even the flags go.
    pub(super) fn accurate_syn_ack(&mut self, flags: TcpFlags) -> TcpFlags {
        let plain = flags.without(ACE_FLAGS);
        let told = reflect(self.ecn.acc.syn_received);
        self.ecn.acc.syn_acks = self.ecn.acc.syn_acks.saturating_add(1);
        if self.ecn.acc.syn_ack_timeouts > 0 { plain } else { plain | told }
    }

    /// A SYN-ACK was sent again for want of an answer.
    pub(super) fn accurate_syn_ack_timeout(&mut self) {
        self.ecn.acc.syn_ack_timeouts = self.ecn.acc.syn_ack_timeouts.saturating_add(1);
    }

    /// The peer's SYN came again: its codepoint is the one to tell; one without ECN shows that the
    /// peer may not use it (RFC 9768 section 3.1.5).
    pub(super) fn accurate_syn_again(&mut self, seg: &Segment<'_>) {
        if !self.is_accurate() {
            return;
        }
        self.ecn.acc.syn_received = seg.ecn;
        if ace(seg.tcp.flags) == 0 {
            self.ecn.acc.fail |= fail::ACE_RECV;
        }
    }

    /// The ACK of our SYN-ACK: the codepoint that this arrived with, compared with the one it left
    /// with (RFC 9768 table 4 and section 3.2.2.3, `tcp_accecn_third_ack`).
    pub(super) fn accurate_third_ack(&mut self, seg: &Segment<'_>) {
        if self.ecn.acc.syn_acks > 2 {
            self.ecn.acc.fail |= fail::ACE_SEND;
        }
        if seg.tcp.flags.contains(TcpFlags::SYN) {
            // Both opened at once: this is a SYN-ACK.
            return;
        }
        let sent = self.syn_ecn();
        if ace(seg.tcp.flags) == 0 {
            self.ecn.acc.fail |= fail::ACE_RECV | fail::OPT_RECV;
            return;
        }
        let Some(arrived) = reported_ecn(seg.tcp.flags) else { return };
        if self.config.sysctl.tcp_ecn_fallback != 0 && is_mangled(sent, arrived) {
            self.ecn.acc.fail |= fail::ACE_RECV;
        } else if arrived == Ecn::Ce {
            self.rate.delivered_ce += 1;
        }
    }

    /// The handshake of a passive open ends.
    pub(super) fn ecn_third_ack(&mut self, seg: &Segment<'_>, fast_open: bool) {
        if core::mem::take(&mut self.ecn.by_cookie)
            && self.agrees_to_accurate()
            && ace(seg.tcp.flags) != 0
        {
            // The cookie records ECN; of which kind is known only from Accurate ECN's ACK.
            self.enter_accurate(Ecn::NotEct, 1);
            self.accurate_third_ack(seg);
        } else if self.is_accurate() {
            if !fast_open {
                self.first_option(&seg.tcp.options.acc_ecn());
            }
            self.accurate_third_ack(seg);
        }
    }

    /// The first SYN-ACK carries the option, to try the path (RFC 9768 section 3.2.3.2.1).
    pub(super) fn add_syn_ack_option(&self, options: &mut TcpOptions) {
        let sent_before = self.ecn.acc.syn_acks > 1;
        if sent_before || self.config.sysctl.tcp_ecn_option == option_sysctl::NEVER {
            return;
        }
        let others = options.len() + self.rare_option_len();
        let room = (MAX_OPTION_SPACE as u32).saturating_sub(others);
        let fits = |fields: &u32| AccEcnOption::padded_len(*fields, 0) <= room;
        if let Some(fields) = (0..=3).rev().find(fits) {
            options.set_acc_ecn(AccEcnOption::new(kind::ACC_ECN_1, &[1, 0, 1][..fields as usize]));
        }
    }

    /// Looks at the first option of the peer: its ECT counters cannot be zero (RFC 9768 section
    /// 3.2.3.2.4). False: it is.
    pub(super) fn first_option(&mut self, option: &AccEcnOption) -> bool {
        if !option.is_present() {
            return true;
        }
        let counters = option.counters();
        // Those of ECT are the first and the last.
        let zeroed = counters.first() == Some(&0) || counters.get(2) == Some(&0);
        self.ecn.acc.opt_seen = match (counters.is_empty(), zeroed) {
            (true, _) => seen::EMPTY,
            (false, false) => seen::COUNTERS,
            (false, true) => seen::ZEROED,
        };
        !zeroed
    }

    /// The SYN-ACK says that the peer has AccECN.
    pub(super) fn accurate_syn_answered(&mut self, seg: &Segment<'_>, asked: bool) {
        // The ACK of the handshake and the first data segment carry the option.
        self.enter_accurate(seg.ecn, 2);
        // The SYN is a segment as well (`tcp_accecn_process`).
        self.average_acked(1);
        if seg.ecn == Ecn::Ce {
            // Only a SYN that asks for AccECN has its codepoint remembered.
            let sent = if asked { self.syn_ecn() } else { Ecn::NotEct };
            self.marked_syn_ack(sent, reported_ecn(seg.tcp.flags));
        }
        let option = seg.tcp.options.acc_ecn();
        if !self.first_option(&option) {
            self.ecn.acc.fail |= fail::OPT_RECV;
        }
        self.read_option(&option, 0);
    }

    /// A SYN-ACK with CE is counted. Only then is looked at what it says of our SYN: whether a path
    /// that marks also mangles.
    fn marked_syn_ack(&mut self, sent: Ecn, arrived: Option<Ecn>) {
        let mangled = arrived.is_some_and(|arrived| is_mangled(sent, arrived));
        if mangled && self.config.sysctl.tcp_ecn_fallback != 0 {
            self.ecn.acc.fail |= fail::ACE_RECV;
        } else {
            self.ecn.received_ce = 1;
        }
    }

    /// Codepoint of every segment of a connection with AccECN, unless the path or the peer is
    /// broken: ECT(1) if the congestion control is one of L4S (RFC 9331 section 4.1).
    pub(super) fn accurate_codepoint(&self) -> Ecn {
        if self.ecn.acc.fail & (fail::ACE_SEND | fail::ACE_RECV) != 0 {
            Ecn::NotEct
        } else if self.cc_needs_accecn() {
            Ecn::Ect1
        } else {
            Ecn::Ect0
        }
    }
}

/// The path has changed the codepoint in a way that it may not (RFC 3168 section 18).
fn is_mangled(sent: Ecn, arrived: Ecn) -> bool {
    match sent {
        Ecn::NotEct => arrived != Ecn::NotEct,
        Ecn::Ect0 | Ecn::Ect1 => arrived == Ecn::NotEct,
        Ecn::Ce => arrived != Ecn::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_encoded_as_in_tables_2_and_3() {
        for (ecn, told) in
            [(Ecn::NotEct, 0b010), (Ecn::Ect1, 0b011), (Ecn::Ect0, 0b100), (Ecn::Ce, 0b110)]
        {
            assert_eq!(ace(reflect(ecn)), told, "{ecn:?}");
        }
    }

    #[test]
    fn the_three_flags_are_one_number() {
        for number in 0..8 {
            assert_eq!(u32::from(ace(ace_flags(number))), number);
        }
        assert_eq!(ace_flags(4), TcpFlags::AE);
        assert_eq!(ace_flags(2), TcpFlags::CWR);
        assert_eq!(ace_flags(1), TcpFlags::ECE);
        assert_eq!(ace(TcpFlags::SYN | TcpFlags::ACK), 0);
    }

    #[test]
    fn mangling_is_as_in_rfc_3168_section_18() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let wrong = [(NotEct, Ect0), (NotEct, Ect1), (NotEct, Ce), (Ect0, NotEct), (Ect1, NotEct)];
        for sent in [NotEct, Ect0, Ect1] {
            for arrived in [NotEct, Ect0, Ect1, Ce] {
                assert_eq!(is_mangled(sent, arrived), wrong.contains(&(sent, arrived)));
            }
        }
    }
}
