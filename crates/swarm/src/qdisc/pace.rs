//! CAKE's shaper as plain arithmetic: when its clock may let which packet pass.
//!
//! Everything is counted in bytes times 10⁹, so that a rate in bytes per second adds up per ns without
//! rounding. The kernel truncates each packet's time to whole ns, and its multiplier to 32 bits; what that
//! may give away is deducted from each packet's cost.

use datapath::qdisc::AnyQdisc;
use datapath::qdisc::Sched;
use datapath::units::Instant;

/// The rate limit that the root of a tree promises.
#[derive(Clone, Copy, Debug)]
pub enum RateBound {
    /// Nothing that is known here.
    Unknown,
    /// A clock that each packet puts forward by its own time (`cake_advance_shaper`).
    Clock {
        /// Bytes per second.
        rate: u64,
        /// The next packet may leave then: ns, times the rate.
        next: u128,
    },
}

/// CAKE shapes to no less, in bytes per second (`MIN_RATE`).
const LEAST: u64 = 64;
/// 10⁹.
const NANOS: u128 = 1_000_000_000;

impl RateBound {
    /// What `root` promises from now on, given all words that it was configured with.
    pub fn of(root: &Sched, words: &str) -> Self {
        let says = |word| words.split(' ').any(|other| other == word);
        match root.qdisc() {
            AnyQdisc::Cake(cake) if !CHANGES_SIZES.into_iter().any(says) => {
                let rate = cake.config().bandwidth.bytes_per_sec();
                if rate == 0 {
                    Self::Unknown
                } else {
                    Self::Clock { rate: rate.max(LEAST), next: 0 }
                }
            }
            _ => Self::Unknown,
        }
    }

    /// A packet comes to the queue; `empty` if none waits there.
    pub fn arrive(&mut self, now: Instant, empty: bool) {
        if let Self::Clock { rate, next } = self
            && empty
        {
            *next = (*next).max(u128::from(now.as_nanos()) * u128::from(*rate));
        }
    }

    /// A packet leaves: whether it may, and if not by how many ns it is early.
    pub fn leave(&mut self, bytes: u32, now: Instant) -> Result<(), String> {
        let rounding = |rate: u64| u128::from(rate) + u128::from(bytes) * 2;
        let cost = |rate| (u128::from(bytes) * NANOS).saturating_sub(rounding(rate));
        match self {
            Self::Unknown => Ok(()),
            Self::Clock { rate, next } => {
                let time = u128::from(now.as_nanos()) * u128::from(*rate);
                let early = next.saturating_sub(time).div_ceil(u128::from(*rate));
                *next += cost(*rate);
                if early == 0 {
                    return Ok(());
                }
                Err(format!("{bytes} bytes left {early} ns before the shaper's clock"))
            }
        }
    }
}

/// Words of CAKE after which a packet's length on the link is not its length, or drops are charged.
const CHANGES_SIZES: [&str; 13] = [
    "overhead",
    "mpu",
    "conservative",
    "ethernet",
    "ether-vlan",
    "docsis",
    "pppoe-ptm",
    "atm",
    "noatm",
    "ptm",
    "ingress",
    "autorate-ingress",
    "raw",
];
