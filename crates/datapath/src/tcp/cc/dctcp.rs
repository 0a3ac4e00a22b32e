//! The sender's half of DCTCP (RFC 8257 section 3.3, 3.4) as Linux computes it; the receiver's
//! half is `tcp/ecn_dctcp.rs`.

use super::{Ack, AckEventFlags, CaState, CcInfo, CongestionControl, CwndEvent, Reno, Window};
use crate::packet::seq::Seq;

/// `DCTCP_MAX_ALPHA`: alpha 1.0 in fixed point.
pub const MAX_ALPHA: u32 = 1 << ALPHA_BITS;
/// Binary places of alpha.
const ALPHA_BITS: u32 = 10;

/// Parameters of the kernel module (`/sys/module/tcp_dctcp/parameters`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// `dctcp_shift_g`: the gain g is 1/2^shift_g; 0 to 10.
    pub shift_g: u8,
    /// `dctcp_alpha_on_init`: alpha of a new connection, 0 to 1024.
    pub alpha_on_init: u32,
}

/// DCTCP's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dctcp {
    params: Params,
    /// Estimated share of marked packets, 1024 = all (`dctcp_alpha`).
    alpha: u32,
    /// `delivered` when the window of observation began.
    old_delivered: u32,
    /// `delivered_ce` then.
    old_delivered_ce: u32,
    /// The window of observation ends when this is acknowledged (`next_seq`).
    next_seq: Seq,
    /// The window before the latest reduction, segments (`loss_cwnd`).
    loss_cwnd: u32,
}

/// `struct tcp_dctcp_info`: what `TCP_CC_INFO` and inet_diag report about DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DctcpInfo {
    /// DCTCP is active; false after the fallback to Reno, with all other fields zero.
    pub enabled: bool,
    /// The latest data segment came with CE (the receiver's state).
    pub ce_state: bool,
    /// Estimated share of marked packets, 1024 = all.
    pub alpha: u32,
    /// Bytes delivered with CE in this window of observation.
    pub ab_ecn: u32,
    /// Bytes delivered in this window of observation.
    pub ab_tot: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { shift_g: 4, alpha_on_init: MAX_ALPHA }
    }
}

impl DctcpInfo {
    /// Bytes that `getsockopt(TCP_CC_INFO)` returns: the size of this structure, not of the union
    /// that it is a member of.
    pub const LEN: usize = 16;

    /// The structure as it lies in memory on a little-endian machine.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let Self { enabled, ce_state, alpha, ab_ecn, ab_tot } = self;
        let mut bytes = [0; Self::LEN];
        bytes[0..2].copy_from_slice(&u16::from(enabled).to_le_bytes());
        bytes[2..4].copy_from_slice(&u16::from(ce_state).to_le_bytes());
        bytes[4..8].copy_from_slice(&alpha.to_le_bytes());
        bytes[8..12].copy_from_slice(&ab_ecn.to_le_bytes());
        bytes[12..16].copy_from_slice(&ab_tot.to_le_bytes());
        bytes
    }
}

impl Dctcp {
    /// A fresh module.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            alpha: params.alpha_on_init.min(MAX_ALPHA),
            old_delivered: 0,
            old_delivered_ce: 0,
            next_seq: Seq(0),
            loss_cwnd: 0,
        }
    }

    /// A new window of observation (`dctcp_reset`).
    fn restart_window(&mut self, ack: &Ack) {
        self.next_seq = ack.snd_nxt;
        self.old_delivered = ack.delivered;
        self.old_delivered_ce = ack.delivered_ce;
    }

    /// RFC 8257 section 3.5, as Linux since April 2019: halve, and remember what to undo.
    fn react_to_loss(&mut self, window: &mut Window) {
        self.loss_cwnd = window.snd_cwnd;
        window.snd_ssthresh = (window.snd_cwnd >> 1).max(2);
    }

    /// Everything that was in flight at the last update of alpha is acknowledged.
    #[inline]
    pub(super) fn ends_window(&self, snd_una: Seq) -> bool {
        !snd_una.before(self.next_seq)
    }

    /// alpha after a window in which `marked` of `delivered` packets came with CE.
    fn next_alpha(&self, delivered: u32, marked: u32) -> u32 {
        let shift = u32::from(self.params.shift_g);
        // A value that the shift would not decrease is dropped at once, otherwise alpha would never reach zero.
        let decay = match self.alpha >> shift {
            0 => self.alpha,
            decay => decay,
        };
        let alpha = self.alpha - decay;
        if marked == 0 {
            return alpha;
        }
        let gain = (u64::from(marked) << (ALPHA_BITS - shift)) / u64::from(delivered.max(1));
        (u64::from(alpha) + gain).min(u64::from(MAX_ALPHA)) as u32
    }
}

impl CongestionControl for Dctcp {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        *self = Self::new(self.params);
        self.restart_window(ack);
    }

    /// The window less alpha/2 of it; never below two segments.
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cwnd = window.snd_cwnd;
        self.loss_cwnd = cwnd;
        let cut = (u64::from(cwnd) * u64::from(self.alpha)) >> (ALPHA_BITS + 1);
        (cwnd - cut as u32).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        Reno.cong_avoid(window, ack, acked);
    }

    /// Once a window, alpha moves towards the share of marked packets (`dctcp_update_alpha`).
    fn in_ack_event(&mut self, window: &mut Window, ack: &Ack, _: AckEventFlags) {
        if !self.ends_window(ack.snd_una) {
            return;
        }
        let delivered = ack.delivered.wrapping_sub(self.old_delivered);
        let marked = ack.delivered_ce.wrapping_sub(self.old_delivered_ce);
        self.alpha = self.next_alpha(delivered, marked);
        if delivered > 0 {
            let share = (u64::from(marked) << 8) / u64::from(delivered);
            window.marked_round = Some(share.min(u16::MAX.into()) as u16);
        }
        self.restart_window(ack);
    }

    /// A fast retransmission is a loss, whatever the marks say.
    fn set_state(&mut self, window: &mut Window, _ack: &Ack, new: CaState) {
        if new == CaState::Recovery && window.ca_state != CaState::Recovery {
            self.react_to_loss(window);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, _ack: &Ack, event: CwndEvent) {
        if event == CwndEvent::Loss {
            self.react_to_loss(window);
        }
    }

    /// The threshold depends on alpha, so that twice of it says nothing about the window before.
    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(self.loss_cwnd)
    }

    fn needs_ecn(&self) -> bool {
        true
    }

    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        Some(CcInfo::Dctcp(DctcpInfo {
            enabled: true,
            ce_state: ack.ce_state,
            alpha: self.alpha,
            ab_ecn: ack.mss.wrapping_mul(ack.delivered_ce.wrapping_sub(self.old_delivered_ce)),
            ab_tot: ack.mss.wrapping_mul(ack.delivered.wrapping_sub(self.old_delivered)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;
    use proptest::prelude::*;

    fn dctcp(shift_g: u8, alpha: u32) -> Dctcp {
        Dctcp { alpha, ..Dctcp::new(Params { shift_g, alpha_on_init: MAX_ALPHA }) }
    }

    /// One window of observation with `delivered` packets, `marked` of them with CE.
    fn observed(module: Dctcp, delivered: u32, marked: u32) -> u32 {
        let mut module = module;
        let ack = Ack { delivered, delivered_ce: marked, ..ack_at(0) };
        module.in_ack_event(&mut Window::new(10), &ack, AckEventFlags::default());
        module.alpha
    }

    /// e3118e8359: alpha := (1 - g) * alpha + g * F.
    #[test]
    fn alpha_follows_the_share_of_marked_packets() {
        for (alpha, delivered, marked, expected) in [
            (1024, 100, 100, 1024),
            (1024, 100, 0, 960),
            (512, 100, 50, 480 + 32),
            (0, 100, 1, 0),
            (0, 64, 1, 1),
            (0, 2, 1, 32),
            (160, 3, 1, 150 + 21),
        ] {
            assert_eq!(
                observed(dctcp(4, alpha), delivered, marked),
                expected,
                "{marked}/{delivered}"
            );
        }
    }

    /// A window of observation is one window of data, not one ACK.
    #[test]
    fn alpha_moves_once_a_window() {
        let mut module = dctcp(4, 1024);
        let mut window = Window::new(10);
        module.init(&mut window, &Ack { snd_nxt: Seq(1_000), ..ack_at(0) });
        for una in [200, 400, 999] {
            let ack = Ack { snd_una: Seq(una), snd_nxt: Seq(2_000), delivered: 5, ..ack_at(0) };
            module.in_ack_event(&mut window, &ack, AckEventFlags::default());
            assert_eq!(module.alpha, 1024, "at {una}");
        }
        let ack = Ack { snd_una: Seq(1_000), snd_nxt: Seq(2_000), delivered: 10, ..ack_at(0) };
        module.in_ack_event(&mut window, &ack, AckEventFlags::default());
        assert_eq!((module.alpha, module.next_seq, module.old_delivered), (960, Seq(2_000), 10));
    }

    /// c80dbe0461: 15 >> 4 is zero, and alpha must not stay at 15 for ever.
    #[test]
    fn alpha_drops_to_zero_below_one_over_g() {
        for (shift_g, alpha, expected) in
            [(4, 16, 15), (4, 15, 0), (4, 1, 0), (4, 0, 0), (10, 1023, 0)]
        {
            assert_eq!(
                observed(dctcp(shift_g, alpha), 10, 0),
                expected,
                "g 1/2^{shift_g}, {alpha}"
            );
        }
        let mut module = dctcp(4, 1024);
        let windows = (1..=100).find(|_| {
            module.alpha = observed(module, 10, 0);
            module.alpha == 0
        });
        assert_eq!(windows, Some(75), "windows without a mark from 1 to 0");
    }

    /// f9c2ff22bb: with shift_g = 1 the marked count is shifted by 9 places before the division.
    #[test]
    fn large_windows_with_a_large_gain_do_not_overflow() {
        for delivered in [1 << 23, 1 << 24, u32::MAX] {
            assert_eq!(observed(dctcp(1, 0), delivered, delivered), 512, "{delivered}");
            assert_eq!(observed(dctcp(0, 0), delivered, delivered / 2 + 1), 512, "{delivered}");
        }
    }

    /// f9c2ff22bb: nothing delivered and nothing marked divides nothing.
    #[test]
    fn an_empty_window_only_decays() {
        assert_eq!(observed(dctcp(4, 1024), 0, 0), 960);
    }

    /// 4780566784 and its revert 343dfaa198: half of the ACKs marked must not shrink a window of
    #[test]
    fn a_window_that_delivers_nothing_is_no_round_trip_of_load_balancing() {
        let mut module = dctcp(4, 1024);
        let mut window = Window::new(10);
        for (delivered, round) in [(4, Some(0)), (4, None), (6, Some(0))] {
            let ack = Ack { delivered, ..ack_at(0) };
            module.in_ack_event(&mut window, &ack, AckEventFlags::default());
            assert_eq!(window.marked_round.take(), round, "{delivered}");
        }
    }

    /// 80 to the minimum within 11 ACKs; the machine asks for the threshold once a window.
    #[test]
    fn acks_with_echo_leave_the_window_alone() {
        let mut module = dctcp(4, 1024);
        let mut window = Window { snd_ssthresh: 40, ..Window::new(80) };
        let before = window;
        for count in 1..=40 {
            let ack = Ack {
                delivered: count * 2,
                delivered_ce: count,
                snd_nxt: Seq(90_000),
                ..ack_at(0)
            };
            let flags = AckEventFlags { slow_path: true, ece: count % 2 == 0 };
            module.in_ack_event(&mut window, &ack, flags);
        }
        window.marked_round = None;
        assert_eq!(window, before);
    }

    #[test]
    fn the_threshold_is_the_window_less_half_of_alpha() {
        for (cwnd, alpha, expected) in [
            (80, 1024, 40),
            (80, 512, 60),
            (80, 0, 80),
            (80, 15, 80),
            (3, 1024, 2),
            (2, 1024, 2),
            (1, 0, 2),
        ] {
            let mut module = dctcp(4, alpha);
            assert_eq!(
                module.ssthresh(&Window::new(cwnd), &ack_at(0)),
                expected,
                "{cwnd}, {alpha}"
            );
        }
    }

    /// ce6dd23329: twice the threshold is not the window before a DCTCP reduction; with a small
    /// alpha it is nearly double, and again at every undo.
    #[test]
    fn undo_restores_the_window_and_never_doubles_it() {
        let mut module = dctcp(4, 16);
        let mut window = Window::new(100);
        for _ in 0..40 {
            window.snd_ssthresh = module.ssthresh(&window, &ack_at(0));
            window.snd_cwnd = window.snd_ssthresh;
            window.snd_cwnd = module.undo_cwnd(&window, &ack_at(0));
        }
        assert_eq!(window.snd_cwnd, 100);
    }

    /// A loss halves (April 2019), and undo knows the window before it.
    #[test]
    fn a_loss_halves_once_and_can_be_undone() {
        let mut module = dctcp(4, 0);
        let mut window = Window { ca_state: CaState::Open, ..Window::new(50) };
        module.set_state(&mut window, &ack_at(0), CaState::Recovery);
        assert_eq!((window.snd_ssthresh, module.undo_cwnd(&window, &ack_at(0))), (25, 50));
        window.ca_state = CaState::Recovery;
        window.snd_cwnd = 26;
        module.set_state(&mut window, &ack_at(0), CaState::Recovery);
        assert_eq!(window.snd_ssthresh, 25, "the same episode");
        module.cwnd_event(&mut window, &ack_at(0), CwndEvent::Loss);
        assert_eq!(window.snd_ssthresh, 13, "a timeout");
    }

    /// dcf1158b27 and 64f40ff5bb: exactly the structure, in its layout.
    #[test]
    fn the_information_has_its_own_size_and_layout() {
        let module = Dctcp { old_delivered: 10, old_delivered_ce: 3, ..dctcp(4, 107) };
        let ack = Ack { delivered: 14, delivered_ce: 4, mss: 1448, ce_state: true, ..ack_at(0) };
        let Some(info) = module.get_info(&ack) else { panic!("DCTCP has information") };
        let mut expected = vec![1, 0, 1, 0, 107, 0, 0, 0];
        expected.extend(1448_u32.to_le_bytes());
        expected.extend((4 * 1448_u32).to_le_bytes());
        assert_eq!(info.to_bytes(), expected);
        // The kernel's sums are of 32 bits, and a segment of one byte counts as a whole one.
        let ack = Ack { delivered: 10 + 3_000_000, delivered_ce: 3, mss: 1448, ..ack_at(0) };
        let Some(CcInfo::Dctcp(info)) = module.get_info(&ack) else { panic!("DCTCP's own") };
        assert_eq!(info.ab_tot, 49_032_704, "4,344,000,000 less 2^32");
    }

    proptest! {
        /// Against the formula in exact arithmetic: off by less than two units by rounding, and by
        /// alpha itself where what is left of it is dropped.
        #[test]
        fn alpha_is_the_moving_average(
            shift_g in 0_u8..=10,
            alpha in 0..=MAX_ALPHA,
            (delivered, marked) in (1..1_000_000_u32).prop_flat_map(|all| (Just(all), 0..=all)),
        ) {
            let got = observed(dctcp(shift_g, alpha), delivered, marked);
            prop_assert!(got <= MAX_ALPHA);
            // Everything times delivered / g.
            let whole = i128::from(delivered) << shift_g;
            let kept = ((1_i128 << shift_g) - 1) * i128::from(alpha) * i128::from(delivered);
            let exact = kept + i128::from(marked) * i128::from(MAX_ALPHA);
            let dropped = if alpha >> shift_g == 0 { alpha } else { 0 };
            let slack = (i128::from(dropped) + 2) * whole;
            prop_assert!((i128::from(got) * whole - exact).abs() <= slack, "{got}");
        }
    }
}
