//! A class of htb: its two token buckets, and what it may do with them (`struct htb_class`).

use super::ring::Ring;
use super::{MAX_DEPTH, MAX_PRIO};
use crate::qdisc::Handle;
use crate::qdisc::filter::Filter;
use crate::qdisc::rate::RateConfig;
use crate::units::{Duration, NANOS_PER_SEC};

/// The index of a class in the list of them.
pub(super) type Index = u32;

/// Buckets are credited, and indebted, by one minute at most (`mbuffer`).
const MBUFFER: i64 = 60 * NANOS_PER_SEC as i64;

/// What a class is configured with (`struct tc_htb_opt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// What it always gets.
    pub rate: RateConfig,
    /// What it gets at most, with what it borrows.
    pub ceil: RateConfig,
    /// Depth of the bucket of `rate`, as time (`TCA_HTB_PARMS`: `buffer`).
    pub buffer: Duration,
    /// Depth of the bucket of `ceil`, as time.
    pub cbuffer: Duration,
    /// Lower ones borrow first; from 8 on as 7.
    pub prio: u32,
    /// Bytes in turn among those that borrow at the same priority; 0: a part of the rate.
    pub quantum: u32,
}

/// What is known of a class (`htb_dump_class`, `htb_dump_class_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassState {
    /// `rate` and so on; `prio` and `quantum` as they are in use.
    pub config: ClassConfig,
    /// Which class it belongs to, or [`Handle::ROOT`].
    pub parent: Handle,
    /// 0 of a leaf, 7 of an outermost class with classes of its own.
    pub level: u8,
    /// What it has counted.
    pub stats: ClassStats,
    /// Time of transmission in the bucket of `rate` when it was last used, in ns.
    pub tokens: i64,
    /// In the bucket of `ceil`.
    pub ctokens: i64,
}

/// The counters of a class (`struct tc_htb_xstats` and others).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that its queue refused.
    pub drops: u32,
    /// Times it has run into its `ceil`.
    pub overlimits: u32,
    /// Packets that it has let leaves below it, or itself, send.
    pub lends: u32,
    /// Packets for which it has borrowed.
    pub borrows: u32,
}

/// Whether a class may send (`enum htb_cmode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// It is above its `ceil`.
    CannotSend,
    /// It is above its `rate`.
    MayBorrow,
    /// It has tokens.
    #[default]
    CanSend,
}

/// A class.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub minor: u16,
    pub parent: Option<Index>,
    pub children: u32,
    pub level: u8,
    pub mode: Mode,
    /// A bit for each priority at which it, or a leaf below it, has packets to send.
    pub active: u8,
    pub prio: u8,
    pub quantum: i32,
    /// The queue of a leaf.
    pub leaf: usize,
    /// What a leaf may still send in its turn, for each level at which it sends.
    pub deficit: [i32; MAX_DEPTH],
    /// Those that borrow from an inner class.
    pub feeds: Option<Box<[Ring; MAX_PRIO]>>,
    /// Tokens are time of transmission in ns.
    pub tokens: i64,
    pub ctokens: i64,
    buffer: i64,
    cbuffer: i64,
    /// When tokens were last counted (`t_c`).
    pub counted_at: i64,
    rate: RateConfig,
    ceil: RateConfig,
    pub stats: ClassStats,
    pub filters: Vec<Filter>,
}

impl Class {
    /// A leaf with full buckets, whose queue is `leaf`.
    pub fn new(
        minor: u16,
        parent: Option<Index>,
        config: &ClassConfig,
        leaf: usize,
        now: i64,
    ) -> Self {
        Self {
            minor,
            parent,
            children: 0,
            level: 0,
            mode: Mode::CanSend,
            active: 0,
            prio: 0,
            quantum: 0,
            leaf,
            deficit: [0; MAX_DEPTH],
            feeds: None,
            tokens: nanos(config.buffer),
            ctokens: nanos(config.cbuffer),
            buffer: nanos(config.buffer),
            cbuffer: nanos(config.cbuffer),
            counted_at: now,
            rate: config.rate,
            ceil: config.ceil,
            stats: ClassStats::default(),
            filters: Vec::new(),
        }
    }

    /// Takes other rates and bursts. The tokens stay.
    pub fn set(&mut self, config: &ClassConfig) {
        (self.rate, self.ceil) = (config.rate, config.ceil);
        (self.buffer, self.cbuffer) = (nanos(config.buffer), nanos(config.cbuffer));
    }

    /// The configuration in use.
    pub fn config(&self) -> ClassConfig {
        ClassConfig {
            rate: self.rate,
            ceil: self.ceil,
            buffer: Duration::from_nanos(self.buffer as u64),
            cbuffer: Duration::from_nanos(self.cbuffer as u64),
            prio: self.prio.into(),
            quantum: self.quantum as u32,
        }
    }

    /// Becomes a leaf again, with full buckets (`htb_parent_to_leaf`).
    pub fn turn_into_leaf(&mut self, leaf: usize, now: i64) {
        (self.level, self.leaf, self.feeds) = (0, leaf, None);
        self.deficit = [0; MAX_DEPTH];
        (self.tokens, self.ctokens) = (self.buffer, self.cbuffer);
        (self.counted_at, self.mode) = (now, Mode::CanSend);
    }

    /// Becomes a class with others below it, at `level`.
    pub fn turn_into_inner(&mut self, level: u8) {
        (self.level, self.mode) = (level, Mode::CanSend);
        self.feeds = Some(Box::default());
    }

    /// What a class of no quantum of its own gets, and whether that is less or more than what makes sense
    /// (`htb_change_class`).
    pub fn choose_quantum(&mut self, said: u32, rate2quantum: u32) -> Option<QuantumSize> {
        if said > 0 {
            self.quantum = said as i32;
            return None;
        }
        let part = self.rate.rate().bytes_per_sec() / u64::from(rate2quantum);
        let (quantum, odd) = match part {
            0..1000 => (1000, Some(QuantumSize::Small)),
            1000..=200_000 => (part as i32, None),
            _ => (200_000, Some(QuantumSize::Big)),
        };
        self.quantum = quantum;
        odd
    }

    /// Time since the tokens were counted, as far as it counts.
    pub fn elapsed(&self, now: i64) -> i64 {
        (now - self.counted_at).min(MBUFFER)
    }

    /// Takes a packet's time out of the bucket of `rate` (`htb_accnt_tokens`).
    pub fn charge(&mut self, len: u32, elapsed: i64) {
        self.tokens = after(self.tokens, elapsed, self.buffer, self.rate, len);
    }

    /// Takes it out of the bucket of `ceil` (`htb_accnt_ctokens`).
    pub fn charge_ceil(&mut self, len: u32, elapsed: i64) {
        self.ctokens = after(self.ctokens, elapsed, self.cbuffer, self.ceil, len);
    }

    /// What it may do after `elapsed` ns more, and how long that lasts if nothing is sent
    /// (`htb_class_mode`, without `htb_hysteresis`).
    pub fn mode_after(&self, elapsed: i64) -> (Mode, i64) {
        let (tokens, ctokens) = (self.tokens + elapsed, self.ctokens + elapsed);
        if ctokens < 0 {
            (Mode::CannotSend, -ctokens)
        } else if tokens < 0 {
            (Mode::MayBorrow, -tokens)
        } else {
            (Mode::CanSend, elapsed)
        }
    }
}

/// What is odd about a quantum that follows from the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantumSize {
    /// Below 1000 bytes, of which there are 1000 then.
    Small,
    /// Above 200000 bytes.
    Big,
}

fn after(tokens: i64, elapsed: i64, depth: i64, rate: RateConfig, len: u32) -> i64 {
    let left = (elapsed + tokens).min(depth) - rate.time_of(len).as_nanos() as i64;
    if left <= -MBUFFER { 1 - MBUFFER } else { left }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
