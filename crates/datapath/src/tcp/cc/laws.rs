//! The laws that every congestion control obeys, as a test kit for a library user's own.
//!
//! [`check`] runs simulated connections on a module: ACKs, marks, losses, timeouts, idle times and undone
//! reductions, in the order in which TCP makes these calls, with ordinary and with extreme numbers. The
//! modules of the product pass it.

use super::{
    Ack, AckEventFlags, AckSample, CongestionControl, CwndEvent, INFINITE_SSTHRESH, RateSample,
    Window,
};
use crate::packet::seq::Seq;
use crate::rng::{Ratio, Rng};
use crate::trace::CaState;
use core::fmt;
use core::num::NonZeroU32;

/// A law that a module broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The law, in words.
    pub law: &'static str,
    /// What the module did.
    pub what: String,
    /// The connection in which it did so: the same number is the same connection.
    pub seed: u64,
    /// How many steps of it had been taken.
    pub step: u32,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, what, seed, step } = self;
        write!(f, "law \"{law}\" is broken: {what} (connection {seed}, step {step})")
    }
}

impl core::error::Error for Broken {}

/// Runs some hundred simulated connections on modules that `make` returns.
///
/// In builds with overflow checks, an arithmetic overflow panics at its place.
///
/// ```
/// use datapath::tcp::cc::{Reno, laws};
/// laws::check(|| Reno)?;
/// # Ok::<(), laws::Broken>(())
/// ```
///
/// # Errors
/// The first law that a module breaks:
/// * the window is never 0 and never grows above its clamp;
/// * a threshold is at least 2;
/// * undoing a reduction never shrinks the window;
/// * a module does not change the fields that belong to TCP: the state, `prior_cwnd`, and, after `init`, the clamp;
/// * only a module with a `cong_control` sets the pacing rate;
/// * the same calls have the same effects, whichever connection they are of.
pub fn check<M: CongestionControl>(make: impl Fn() -> M) -> Result<(), Broken> {
    for seed in 0..CONNECTIONS {
        Play::new(seed, make(), make()).run()?;
    }
    Ok(())
}

/// Number of connections; every second one has extreme numbers.
const CONNECTIONS: u64 = 400;
/// Steps of each.
const STEPS: u32 = 250;
/// Largest window, segments: thrice what a scaled window of 1 GiB can hold at 1,448 bytes.
const LARGEST_WINDOW: u32 = 1 << 21;

/// One connection, run on two modules at once.
struct Play<M> {
    seed: u64,
    step: u32,
    rng: Rng,
    extreme: bool,
    ack: Ack,
    window: Window,
    module: M,
    twin: M,
}

impl<M: CongestionControl> Play<M> {
    fn new(seed: u64, module: M, twin: M) -> Self {
        let mut rng = Rng::stream(seed, 0);
        let extreme = seed % 2 == 1;
        let start = if extreme { rng.next_u32() } else { 5_000 };
        let ack = Ack {
            now_us: u64::from(start) * 1_000,
            now_ns: u64::from(start) * 1_000_000,
            jiffies: start,
            iss: Seq(start),
            snd_una: Seq(start),
            snd_nxt: Seq(start),
            lsndtime: start,
            wstamp_ns: u64::from(start) * 1_000_000,
            time_stamp: start,
            rcv_tsval: start,
            rcv_tsecr: start,
            packets_in_flight: 0,
            sacked_out: 0,
            srtt_us_8: None,
            min_rtt_us: u32::MAX,
            delivered: if extreme { u32::MAX - 1_000 } else { 1 },
            delivered_ce: 0,
            delivered_us: u64::from(start) * 1_000,
            lost: 0,
            max_pacing_rate: u64::MAX,
            is_paced: seed % 3 == 1,
            gso_max_size: 65_536,
            max_tcp_header: 320,
            mss: if extreme { MIN_MSS + rng.below(65_488) as u32 } else { 1_448 },
            ce_state: false,
            has_sack: true,
        };
        let cwnd = if extreme { 1 + rng.below(LARGEST_WINDOW.into()) as u32 } else { 10 };
        let mut window = Window::new(cwnd);
        if extreme && rng.chance(HALF) {
            window.snd_cwnd_clamp = window.snd_cwnd.max(1 + rng.below(1 << 16) as u32);
        }
        Self { seed, step: 0, rng, extreme, ack, window, module, twin }
    }

    fn run(&mut self) -> Result<(), Broken> {
        self.call("init", M::init)?;
        self.call("asked", |module, window, _| {
            (module.needs_ecn(), module.has_cong_control(), module.sndbuf_expand(), window.snd_cwnd)
        })?;
        for step in 0..STEPS {
            self.step = step;
            match self.rng.below(40) {
                0 => self.reduce(CaState::Recovery)?,
                1 => self.reduce(CaState::Cwr)?,
                2 => self.time_out()?,
                3 => self.rest()?,
                _ => self.acknowledge()?,
            }
        }
        Ok(())
    }

    /// Time passes, data is sent and acknowledged.
    fn acknowledge(&mut self) -> Result<(), Broken> {
        let rtt_us = self.draw_rtt();
        let acks_a_round = 1 + self.rng.below(20);
        self.pass(u64::from(rtt_us.unwrap_or(1_000)) / acks_a_round);
        let most = u64::from(self.window.snd_cwnd.min(if self.extreme { 65_536 } else { 64 }));
        let acked = self.rng.below(most + 1) as u32;
        let marked = if self.rng.chance(HALF) { 0 } else { self.rng.below(u64::from(acked) + 1) };
        let prior_delivered = self.ack.delivered;
        self.ack.snd_nxt += self.window.snd_cwnd.wrapping_mul(self.ack.mss).min(1 << 30);
        self.ack.snd_una += acked.wrapping_mul(self.ack.mss).min(1 << 30);
        if self.ack.snd_una.after(self.ack.snd_nxt) {
            self.ack.snd_una = self.ack.snd_nxt;
        }
        self.ack.delivered = self.ack.delivered.wrapping_add(acked);
        self.ack.delivered_ce = self.ack.delivered_ce.wrapping_add(marked as u32);
        self.ack.delivered_us = self.ack.now_us;
        let flight = self.rng.below(u64::from(self.window.snd_cwnd) + 1) as u32;
        self.ack.packets_in_flight = flight;
        self.window.is_cwnd_limited = self.rng.below(4) > 0;
        self.window.max_packets_out = flight;
        if let Some(rtt_us) = rtt_us {
            self.ack.min_rtt_us = self.ack.min_rtt_us.min(rtt_us);
            self.ack.srtt_us_8 = NonZeroU32::new(rtt_us.saturating_mul(8));
        }
        self.ack.rcv_tsval = self.ack.jiffies.wrapping_sub(rtt_us.unwrap_or(0) / 2_000);
        self.ack.rcv_tsecr = self.ack.jiffies.wrapping_sub(rtt_us.unwrap_or(0) / 1_000);
        self.ack.sacked_out = self.rng.below(3) as u32;
        let flags = AckEventFlags { slow_path: self.rng.chance(HALF), ece: marked > 0 };
        self.call("in_ack_event", |module, window, ack| module.in_ack_event(window, ack, flags))?;
        let sample = AckSample { pkts_acked: acked, rtt_us, in_flight: flight };
        self.call("pkts_acked", |module, window, ack| module.pkts_acked(window, ack, &sample))?;
        if self.module.has_cong_control() {
            let sample = self.rate_sample(acked, flight, prior_delivered, rtt_us);
            self.call("cong_control", |module, window, ack| {
                module.cong_control(window, ack, &sample);
            })?;
            self.call("min_tso_segs", |module, window, _| module.min_tso_segs(window))?;
        } else if self.window.in_cwnd_reduction() {
            self.window.snd_cwnd = self.window.snd_ssthresh.min(flight.max(1)).max(1);
        } else if acked > 0 {
            self.call("cong_avoid", |module, window, ack| module.cong_avoid(window, ack, acked))?;
        }
        if core::mem::take(&mut self.window.wants_reduction) {
            self.reduce(CaState::Cwr)?;
        }
        if self.window.ca_state != CaState::Open && self.rng.below(8) == 0 {
            self.recover()?;
        }
        self.call("get_info", |module, _, ack| module.get_info(ack)).map(drop)
    }

    fn rate_sample(
        &mut self,
        acked: u32,
        flight: u32,
        prior_delivered: u32,
        rtt_us: Option<u32>,
    ) -> RateSample {
        let interval_us = 1 + u64::from(rtt_us.unwrap_or(1_000)).min(INTERVAL_MAX_US);
        RateSample {
            prior_us: Some(self.ack.now_us.saturating_sub(interval_us)),
            prior_delivered,
            delivered: self.rng.chance(HALF).then_some(acked),
            interval_us,
            send_interval_us: interval_us,
            ack_interval_us: interval_us,
            rtt_us,
            losses: self.rng.below(3) as u32,
            acked_sacked: acked,
            prior_in_flight: flight,
            is_app_limited: self.rng.chance(HALF),
            ..RateSample::default()
        }
    }

    /// An episode of CWR or Recovery begins (`tcp_enter_cwr`, `tcp_enter_recovery`).
    fn reduce(&mut self, state: CaState) -> Result<(), Broken> {
        if self.window.ca_state >= CaState::Cwr {
            return Ok(());
        }
        self.window.prior_cwnd = self.window.snd_cwnd;
        self.window.snd_cwnd_cnt = 0;
        self.ask_ssthresh()?;
        self.enter(state)
    }

    /// A timeout (`tcp_enter_loss`).
    fn time_out(&mut self) -> Result<(), Broken> {
        if self.window.ca_state <= CaState::Disorder {
            self.window.prior_cwnd = self.window.snd_cwnd;
            self.ask_ssthresh()?;
            self.tell(CwndEvent::Loss)?;
        }
        self.ack.lost = self.ack.lost.wrapping_add(self.window.snd_cwnd);
        self.window.snd_cwnd = self.rng.below(3) as u32 + 1;
        self.window.snd_cwnd_cnt = 0;
        self.enter(CaState::Loss)
    }

    /// The episode ends, or it was spurious and is undone.
    fn recover(&mut self) -> Result<(), Broken> {
        if self.rng.below(3) == 0 {
            let before = self.window.snd_cwnd;
            let after = self.call("undo_cwnd", |module, window, ack| {
                let window: &Window = window;
                module.undo_cwnd(window, ack)
            })?;
            if after < before {
                return self.broken(UNDO, format!("{after} after {before}"));
            }
            self.window.snd_cwnd = after;
        } else if self.window.in_cwnd_reduction() {
            if self.window.snd_ssthresh < INFINITE_SSTHRESH && !self.module.has_cong_control() {
                self.window.snd_cwnd = self.window.snd_ssthresh;
            }
            self.tell(CwndEvent::CompleteCwr)?;
        }
        self.enter(CaState::Open)
    }

    /// Nothing is sent for a while, or for very long.
    fn rest(&mut self) -> Result<(), Broken> {
        let millis = self.rng.below(if self.extreme { 1 << 31 } else { 5_000 });
        self.pass(millis * 1_000);
        self.ack.packets_in_flight = 0;
        self.tell(CwndEvent::TxStart)?;
        if millis > 1_000 && !self.module.has_cong_control() {
            self.tell(CwndEvent::CwndRestart)?;
            self.window.snd_cwnd = self.window.snd_cwnd.min(10);
        }
        self.ack.lsndtime = self.ack.jiffies;
        Ok(())
    }

    fn ask_ssthresh(&mut self) -> Result<(), Broken> {
        let ssthresh = self.call("ssthresh", |module, window, ack| {
            let window: &Window = window;
            module.ssthresh(window, ack)
        })?;
        if ssthresh < 2 {
            return self.broken("a threshold is at least 2", format!("{ssthresh}"));
        }
        self.window.snd_ssthresh = ssthresh;
        Ok(())
    }

    fn enter(&mut self, state: CaState) -> Result<(), Broken> {
        self.call("set_state", |module, window, ack| module.set_state(window, ack, state))?;
        self.window.ca_state = state;
        Ok(())
    }

    fn tell(&mut self, event: CwndEvent) -> Result<(), Broken> {
        self.call("cwnd_event", |module, window, ack| module.cwnd_event(window, ack, event))
    }

    fn draw_rtt(&mut self) -> Option<u32> {
        match self.rng.below(10) {
            0 => None,
            _ if self.extreme => Some(self.rng.next_u32() >> (1 + self.rng.below(31))),
            _ => Some(20_000 + self.rng.below(30_000) as u32),
        }
    }

    fn pass(&mut self, micros: u64) {
        self.ack.now_us += micros;
        self.ack.now_ns = self.ack.now_us * 1_000;
        self.ack.jiffies = (self.ack.now_us / 1_000) as u32;
        self.ack.time_stamp = self.ack.jiffies;
        self.ack.wstamp_ns = self.ack.now_ns;
    }

    /// Calls both modules, and checks the laws and that both agree.
    fn call<R: PartialEq + fmt::Debug>(
        &mut self,
        name: &'static str,
        call: impl Fn(&mut M, &mut Window, &Ack) -> R,
    ) -> Result<R, Broken> {
        let before = self.window;
        let mut twin_window = before;
        let answer = call(&mut self.module, &mut self.window, &self.ack);
        let twins = call(&mut self.twin, &mut twin_window, &self.ack);
        if (&answer, self.window) != (&twins, twin_window) {
            let law = "the same calls have the same effects";
            return self.broken(law, format!("{name}: {answer:?} and {twins:?}"));
        }
        let after = self.window;
        if after.snd_cwnd == 0 {
            return self.broken("the window is never 0", name.into());
        }
        if after.snd_cwnd > before.snd_cwnd.max(before.snd_cwnd_clamp) {
            let what = format!("{name}: {} above {}", after.snd_cwnd, before.snd_cwnd_clamp);
            return self.broken("the window never grows above its clamp", what);
        }
        let first = name == "init";
        let of_tcp = |window: &Window| {
            (window.ca_state, window.prior_cwnd, if first { 0 } else { window.snd_cwnd_clamp })
        };
        if of_tcp(&after) != of_tcp(&before) {
            let law = "the state, prior_cwnd and the clamp are TCP's";
            return self.broken(law, name.into());
        }
        let paces = self.module.has_cong_control();
        if after.pacing_rate != before.pacing_rate && !paces {
            let law = "only a module with a cong_control sets the pacing rate";
            return self.broken(law, format!("{name}: {}", after.pacing_rate));
        }
        Ok(answer)
    }

    fn broken<R>(&self, law: &'static str, what: String) -> Result<R, Broken> {
        Err(Broken { law, what, seed: self.seed, step: self.step })
    }
}

/// Smallest segment, bytes (`TCP_MIN_SND_MSS`).
const MIN_MSS: u32 = 48;
/// A slower delivery rate than one segment in this time would be none.
const INTERVAL_MAX_US: u64 = 10_000_000;
const HALF: Ratio = Ratio::from_parts(1 << 31);
const UNDO: &str = "undoing a reduction never shrinks the window";

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, AnyCongestionControl};
    use super::*;
    use crate::tcp::TcpConfig;

    #[test]
    fn every_module_of_the_product_obeys() {
        for congestion_control in Algorithm::ALL {
            let config = TcpConfig { congestion_control, ..TcpConfig::default() };
            let checked = check(|| AnyCongestionControl::new(&config));
            assert_eq!(checked, Ok(()), "{}", congestion_control.name());
        }
    }

    /// A module that breaks one law.
    #[derive(Clone, Copy)]
    enum Lawless {
        Stops,
        HalvesToOne,
        Forgets,
        Meddles,
        Paces,
        Gambles(u32),
    }

    impl CongestionControl for Lawless {
        fn ssthresh(&mut self, window: &Window, _: &Ack) -> u32 {
            match self {
                Self::HalvesToOne => 1,
                Self::Gambles(luck) => window.snd_cwnd.saturating_add(*luck).max(2),
                _ => window.snd_cwnd.max(2),
            }
        }
        fn cong_avoid(&mut self, window: &mut Window, _: &Ack, _: u32) {
            match self {
                Self::Stops => window.snd_cwnd = 0,
                Self::Meddles => window.prior_cwnd = 7,
                Self::Paces => window.pacing_rate = 1_000_000,
                _ => {}
            }
        }
        fn undo_cwnd(&mut self, window: &Window, _: &Ack) -> u32 {
            match self {
                Self::Forgets => window.snd_cwnd - 1,
                _ => window.snd_cwnd,
            }
        }
    }

    #[test]
    fn each_broken_law_is_named() {
        let broken = |module: Lawless| check(|| module).unwrap_err().law;
        assert_eq!(broken(Lawless::Stops), "the window is never 0");
        assert_eq!(broken(Lawless::HalvesToOne), "a threshold is at least 2");
        assert_eq!(broken(Lawless::Forgets), UNDO);
        assert_eq!(broken(Lawless::Meddles), "the state, prior_cwnd and the clamp are TCP's");
        let pacing = "only a module with a cong_control sets the pacing rate";
        assert_eq!(broken(Lawless::Paces), pacing);
        let luck = core::cell::Cell::new(0);
        let gamblers = || {
            luck.set(luck.get() + 1);
            Lawless::Gambles(luck.get())
        };
        let same = "the same calls have the same effects";
        assert_eq!(check(gamblers).unwrap_err().law, same);
    }
}
