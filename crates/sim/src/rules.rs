//! Deterministic impairments on a link: rules that pick packets by number, by byte or by time.
//!
//! The syntax is that of the recorded transfers: `DIR MATCH ACTION` with DIR `f` or `r`; MATCH
//! `data K` (the K-th packet with payload, retransmissions count too), `every N K` (the K-th and
//! each N-th after it), `off X TX` (the TX-th packet that covers relative byte X, 0 being the
//! first data byte), `ack K` and `ackevery N K` (the same for packets with neither payload nor
//! SYN: a lone FIN counts), `syn K`, `time A B` (A <= t < B, in ns); ACTION `drop`, `delay NS`, `dup NS`, `ce`,
//! `hold` (until B, released in order).
//!
//! Every rule counts every packet; the first rule that matches decides.

use core::fmt;
use core::str::FromStr;
use datapath::packet::seq::Seq;
use datapath::packet::{Memory, Packet, TcpFlags, Transport};
use datapath::units::{Duration, Instant};

/// The direction of a packet, as seen from the host that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `f`: from the client.
    Forward,
    /// `r`: towards the client.
    Reverse,
}

/// Which packets a rule matches. Numbers begin with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The `k`-th packet with payload.
    Data {
        /// Its number.
        k: u64,
    },
    /// Packets with payload: the `k`-th and each `n`-th after it.
    Every {
        /// The distance.
        n: u64,
        /// The first.
        k: u64,
    },
    /// The `tx`-th packet that covers relative byte `x`.
    Offset {
        /// The byte, counted from the first data byte of the flow.
        x: u32,
        /// Which of its transmissions.
        tx: u64,
    },
    /// The `k`-th segment without payload.
    Ack {
        /// Its number.
        k: u64,
    },
    /// Segments without payload: the `k`-th and each `n`-th after it.
    AckEvery {
        /// The distance.
        n: u64,
        /// The first.
        k: u64,
    },
    /// The `k`-th packet with SYN.
    Syn {
        /// Its number.
        k: u64,
    },
    /// Whatever comes from `from` on and before `to`.
    Time {
        /// The beginning.
        from: Instant,
        /// The end.
        to: Instant,
    },
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is lost.
    Drop,
    /// It comes that much later; others overtake it.
    Delay(Duration),
    /// It passes, and a copy follows that much later.
    Duplicate(Duration),
    /// It is marked as having experienced congestion, if it is ECN-capable.
    Mark,
    /// It waits until the end of the rule's time.
    Hold,
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Packets of which direction.
    pub direction: Direction,
    /// Which of them.
    pub matches: Match,
    /// What happens to them.
    pub action: Action,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The rule.
    pub rule: String,
    /// What is wrong with it.
    pub what: String,
}

/// The decision of the rules about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// It goes on.
    Pass,
    /// It is lost.
    Drop,
    /// It is delayed by so much.
    Delay(Duration),
    /// It goes on, and so does a copy, so much later.
    Duplicate(Duration),
}

/// The rules of one direction and what they have counted.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Counted>,
    /// There is a box: rules for this direction or the other.
    boxed: bool,
    data: u64,
    acks: u64,
    syns: u64,
    /// The initial sequence number of each flow, by its ports.
    flows: Vec<((u16, u16), Seq)>,
}

#[derive(Clone, Debug)]
struct Counted {
    rule: Rule,
    /// Transmissions of the byte of an `off` rule.
    covered: u64,
    hits: u64,
}

/// The fields that rules use.
#[derive(Clone, Copy, Debug)]
struct RuleInput {
    at: Instant,
    data: bool,
    ack: bool,
    syn: bool,
    /// Relative number of the first payload byte, and how many there are.
    bytes: Option<(u32, u32)>,
}

/// Longer packets are written to pages (`packet_alloc_skb`).
const PAGE: u32 = 4_096;
/// The headroom before a packet (`LL_RESERVED_SPACE`).
const HEADROOM: u32 = 16;

impl Rules {
    /// The rules for `direction` among `rules`, in order.
    pub fn new(rules: &[Rule], direction: Direction) -> Self {
        let mine = rules.iter().filter(|rule| rule.direction == direction);
        let list = mine.map(|rule| Counted { rule: *rule, covered: 0, hits: 0 }).collect();
        Self { list, boxed: !rules.is_empty(), ..Self::default() }
    }

    /// True if there are no rules for either direction, and so no box that packets pass.
    pub fn is_empty(&self) -> bool {
        !self.boxed
    }

    /// How often each rule has decided, in order.
    pub fn hits(&self) -> impl Iterator<Item = (Rule, u64)> {
        self.list.iter().map(|counted| (counted.rule, counted.hits))
    }

    /// Decides about a packet that passes at `at`.
    pub fn judge(&mut self, at: Instant, packet: &mut Packet) -> RuleVerdict {
        // The box reads the packet and writes a new one: the sender's memory does not travel on.
        let in_a_page = HEADROOM + packet.len() < PAGE;
        packet.memory = if in_a_page { Memory::Linear } else { Memory::Written };
        if self.list.is_empty() {
            return RuleVerdict::Pass;
        }
        let input = self.count_packet(at, packet);
        let (data, acks, syns) = (self.data, self.acks, self.syns);
        let mut decided = None;
        for counted in &mut self.list {
            if counted.matches(&input, data, acks, syns) && decided.is_none() {
                counted.hits += 1;
                decided = Some(counted.rule);
            }
        }
        decided.map_or(RuleVerdict::Pass, |rule| apply(rule, at, packet))
    }

    fn count_packet(&mut self, at: Instant, packet: &Packet) -> RuleInput {
        let len = packet.body.len;
        let mut input = RuleInput { at, data: len > 0, ack: false, syn: false, bytes: None };
        if let Transport::Tcp(tcp) = &packet.transport {
            let ports = (tcp.src_port, tcp.dst_port);
            input.syn = tcp.flags.contains(TcpFlags::SYN);
            input.ack = len == 0 && !input.syn;
            if input.syn {
                self.flows.retain(|(known, _)| *known != ports);
                self.flows.push((ports, tcp.seq));
            }
            if let Some((_, isn)) = self.flows.iter().find(|(known, _)| *known == ports) {
                input.bytes = Some((tcp.seq.bytes_since(*isn).wrapping_sub(1), len));
            }
        }
        self.data += u64::from(input.data);
        self.acks += u64::from(input.ack);
        self.syns += u64::from(input.syn);
        input
    }
}

impl Counted {
    fn matches(&mut self, input: &RuleInput, data: u64, acks: u64, syns: u64) -> bool {
        let each = |count: u64, n: u64, k: u64| count >= k && (count - k).is_multiple_of(n);
        match self.rule.matches {
            Match::Data { k } => input.data && data == k,
            Match::Every { n, k } => input.data && each(data, n, k),
            Match::Offset { x, tx } => {
                let covers = input.bytes.is_some_and(|(first, len)| x.wrapping_sub(first) < len);
                self.covered += u64::from(covers);
                covers && self.covered == tx
            }
            Match::Ack { k } => input.ack && acks == k,
            Match::AckEvery { n, k } => input.ack && each(acks, n, k),
            Match::Syn { k } => input.syn && syns == k,
            Match::Time { from, to } => input.at >= from && input.at < to,
        }
    }
}

fn apply(rule: Rule, at: Instant, packet: &mut Packet) -> RuleVerdict {
    match (rule.action, rule.matches) {
        (Action::Drop, _) => RuleVerdict::Drop,
        (Action::Delay(span), _) => RuleVerdict::Delay(span),
        // A copy leaves after all else of its moment: the box empties its input first.
        (Action::Duplicate(span), _) => RuleVerdict::Duplicate(span.max(Duration::from_nanos(1))),
        (Action::Hold, Match::Time { to, .. }) => RuleVerdict::Delay(to - at),
        (Action::Hold, _) => RuleVerdict::Pass,
        (Action::Mark, _) => {
            packet.mark_ce();
            RuleVerdict::Pass
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        read(text).map_err(|what| RuleError { rule: text.to_owned(), what })
    }
}

fn read(text: &str) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let direction = match words.next() {
        Some("f") => Direction::Forward,
        Some("r") => Direction::Reverse,
        _ => return Err("a rule begins with f or r".to_owned()),
    };
    let kind = words.next().unwrap_or_default();
    let matches = read_match(kind, &mut words)?;
    let action = match words.next() {
        Some("drop") => Action::Drop,
        Some("ce") => Action::Mark,
        Some("hold") if matches!(matches, Match::Time { .. }) => Action::Hold,
        Some("hold") => return Err("only a time can be held".to_owned()),
        Some("delay") => Action::Delay(Duration::from_nanos(number(&mut words, u64::MAX)?)),
        Some("dup") => Action::Duplicate(Duration::from_nanos(number(&mut words, u64::MAX)?)),
        _ => return Err("expected drop, delay NS, dup NS, ce or hold".to_owned()),
    };
    match words.next() {
        None => Ok(Rule { direction, matches, action }),
        Some(word) => Err(format!("\"{word}\" follows the action")),
    }
}

/// Which packets, by the words that follow `kind`.
fn read_match<'a>(kind: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<Match, String> {
    Ok(match kind {
        "data" => Match::Data { k: count(words)? },
        "every" => Match::Every { n: count(words)?, k: number(words, u64::MAX)? },
        "off" => Match::Offset { x: number(words, u32::MAX.into())? as u32, tx: count(words)? },
        "ack" => Match::Ack { k: count(words)? },
        "ackevery" => Match::AckEvery { n: count(words)?, k: number(words, u64::MAX)? },
        "syn" => Match::Syn { k: count(words)? },
        "time" => {
            let (from, to) = (number(words, u64::MAX)?, number(words, u64::MAX)?);
            if to <= from {
                return Err(format!("a time from {from} to {to} ends before it begins"));
            }
            Match::Time { from: Instant::from_nanos(from), to: Instant::from_nanos(to) }
        }
        _ => return Err("expected data, every, off, ack, ackevery, syn or time".to_owned()),
    })
}

/// A whole number of at most `most`.
fn number<'a>(words: &mut impl Iterator<Item = &'a str>, most: u64) -> Result<u64, String> {
    let word = words.next().ok_or("a number is missing")?;
    let number = word.parse::<u64>().ok().filter(|number| *number <= most);
    number.ok_or_else(|| format!("\"{word}\" is not a whole number from 0 to {most}"))
}

/// A number that begins with 1, or a distance.
fn count<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<u64, String> {
    match number(words, u64::MAX)? {
        0 => Err("\"0\" is not valid here: counting starts at 1".to_owned()),
        number => Ok(number),
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule \"{}\": {}", self.rule, self.what)
    }
}

impl std::error::Error for RuleError {}
