//! Reassembly of fragments (`ip_frag_queue`, `ip6_frag_queue`, `inet_frag_find`).
//!
//! As in Linux since 4.20: a piece that overlaps others ends the whole packet (RFC 5722, for IPv4
//! too), an exact duplicate or one within what came in one run is left out, nothing is evicted:
//! beyond `high_thresh` no new packet is begun. A packet has as long as the sysctl says, counted
//! from its first fragment.

use crate::packet::{Ecn, Joined, Network, Packet, Piece};
use crate::reason::Reason;
use crate::tcp::config::Sysctl;
use crate::units::{Duration, Instant};
use core::cmp::Ordering;
use core::net::{IpAddr, Ipv4Addr};
use std::collections::{BTreeMap, BTreeSet};

/// Limits of one family (`net.ipv4.ipfrag_*`, `net.ipv6.ip6frag_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Memory of all waiting fragments, in bytes, above which no new packet is begun.
    pub high_thresh: u32,
    /// Means nothing since Linux 4.17; kept and read back.
    pub low_thresh: u32,
    /// How long a packet may be incomplete, in s.
    pub time_s: u32,
    /// How many fragments from the same source may come between two of one packet; 0 = any number.
    /// IPv4 only.
    pub max_dist: u32,
}

/// The key of a packet: addresses, identification, and in IPv4 the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    protocol: u8,
}

/// A packet that is not whole yet.
#[derive(Debug)]
struct Queue {
    /// In the order of their offsets.
    fragments: Vec<(u32, Packet)>,
    /// Runs of pieces that came one behind the other: where each begins and ends.
    runs: Vec<(u32, u32)>,
    /// Bytes that the packet has, as far as is known.
    len: u32,
    /// Bytes that are here.
    meat: u32,
    has_first: bool,
    has_last: bool,
    /// A set of codepoints, by bit.
    ecn_seen: u8,
    /// The largest fragment in bytes, and the largest that must not be fragmented.
    max_size: u32,
    max_df_size: u32,
    memory: u32,
    deadline: Instant,
    /// Fragments that the source had sent when the latest of this packet came.
    source_count: u32,
}

/// A source of IPv4 fragments: how many came, and how many packets of it are not whole.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    count: u32,
    queues: u32,
}

/// Packets that are not whole yet, of both families.
#[derive(Debug)]
pub(super) struct Reassembly {
    queues: BTreeMap<Key, Queue>,
    deadlines: BTreeSet<(Instant, Key)>,
    sources: BTreeMap<Ipv4Addr, Source>,
    /// IPv4's and IPv6's.
    limits: [Limits; 2],
    memory: [u32; 2],
    /// What was copied into whole packets.
    pub joined: Joined,
}

/// The result of a fragment.
#[derive(Debug, PartialEq)]
pub(super) enum FragmentResult {
    /// It waits for the rest.
    Kept,
    /// The packet is whole.
    Whole(Packet),
    /// It was left out.
    Dropped(Reason, Packet),
    /// Nothing of the packet is kept.
    Failed {
        /// Because of an overlap.
        overlap: bool,
        /// The fragments received so far.
        fragments: Vec<Packet>,
    },
}

/// The result of a fragment, and fragments discarded because of it.
#[derive(Debug, PartialEq)]
pub(super) struct FragmentOutcome {
    pub outcome: FragmentResult,
    /// Fragments of the same packet that were thrown away before, since too much else had come.
    pub too_far: Vec<Packet>,
}

/// A packet whose time is over.
pub(super) struct Expired {
    /// Its first fragment is among the others.
    pub has_first: bool,
    pub fragments: Vec<Packet>,
}

/// `struct ipq`, `struct frag_queue`: what a queue is charged, as observed.
const QUEUE_MEMORY: [u32; 2] = [200, 184];
/// Of more packets at once the books are not recomputed.
const MOST_CHECKED: usize = 256;
/// Bytes that an IPv4 packet has at most.
const MAX_PACKET: u32 = 65_535;

impl Default for Reassembly {
    fn default() -> Self {
        let v4 = Limits { high_thresh: 4 << 20, low_thresh: 3 << 20, time_s: 30, max_dist: 64 };
        Self {
            queues: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            sources: BTreeMap::new(),
            limits: [v4, Limits { time_s: 60, max_dist: 0, ..v4 }],
            memory: [0; 2],
            joined: Joined::default(),
        }
    }
}

impl Reassembly {
    /// The limits of IPv4, or of IPv6.
    pub fn limits(&self, ipv6: bool) -> &Limits {
        &self.limits[usize::from(ipv6)]
    }

    /// The limits of IPv4, or of IPv6, to change.
    pub fn limits_mut(&mut self, ipv6: bool) -> &mut Limits {
        &mut self.limits[usize::from(ipv6)]
    }

    /// When the next packet's time is over.
    pub fn wake_at(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Fragments that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &Packet> {
        self.queues.values().flat_map(|queue| queue.fragments.iter().map(|(_, packet)| packet))
    }

    /// Takes in a fragment.
    pub fn add(&mut self, now: Instant, packet: Packet, piece: &Piece) -> FragmentOutcome {
        let nothing = Vec::new();
        let Some(key) = key_of(&packet, piece) else {
            return FragmentOutcome {
                outcome: FragmentResult::Dropped(Reason::Malformed, packet),
                too_far: nothing,
            };
        };
        let family = usize::from(key.src.is_ipv6());
        let limits = self.limits[family];
        if !self.queues.contains_key(&key) {
            if limits.high_thresh == 0 || self.memory[family] > limits.high_thresh {
                let fragments = vec![packet];
                return FragmentOutcome {
                    outcome: FragmentResult::Failed { overlap: false, fragments },
                    too_far: nothing,
                };
            }
            self.begin(now, key, limits);
        }
        let too_far = self.restart_if_far(&key, limits.max_dist);
        let queue = self.queues.get_mut(&key).expect("was just made");
        let before = queue.memory;
        let verdict = queue.insert(packet, piece);
        self.memory[family] = self.memory[family] + queue.memory - before;
        queue.check();
        let outcome = match verdict {
            QueueVerdict::Kept if queue.is_complete() => self.finish(&key),
            QueueVerdict::Kept => FragmentResult::Kept,
            QueueVerdict::Duplicate(packet) => {
                FragmentResult::Dropped(Reason::DuplicateFragment, packet)
            }
            QueueVerdict::Contradiction { overlap, packet } => {
                let mut fragments = self.remove(&key).into_packets();
                fragments.push(packet);
                FragmentResult::Failed { overlap, fragments }
            }
        };
        self.check();
        FragmentOutcome { outcome, too_far }
    }

    /// The memory and the timers are those of what waits.
    fn check(&self) {
        if cfg!(debug_assertions) && self.queues.len() <= MOST_CHECKED {
            let mut memory = [0; 2];
            for (key, queue) in &self.queues {
                memory[usize::from(key.src.is_ipv6())] += queue.memory;
            }
            assert_eq!(self.memory, memory, "the memory of what is reassembled");
            let of_ipv4 = self.queues.keys().filter(|key| key.src.is_ipv4()).count();
            let counted: u32 = self.sources.values().map(|source| source.queues).sum();
            assert_eq!(counted as usize, of_ipv4, "packets of the sources");
            assert_eq!(self.deadlines.len(), self.queues.len(), "deadlines");
        }
    }

    /// The packets whose time is over at `now`, the earliest first.
    pub fn expire(&mut self, now: Instant) -> Option<Expired> {
        let &(at, key) = self.deadlines.first()?;
        if at > now {
            return None;
        }
        let queue = self.remove(&key);
        self.check();
        Some(Expired { has_first: queue.has_first, fragments: queue.into_packets() })
    }

    fn begin(&mut self, now: Instant, key: Key, limits: Limits) {
        let family = usize::from(key.src.is_ipv6());
        let deadline = now + Duration::from_secs(u64::from(Sysctl::seconds(limits.time_s)));
        let memory = QUEUE_MEMORY[family];
        self.memory[family] += memory;
        self.deadlines.insert((deadline, key));
        self.queues.insert(key, Queue::new(deadline, memory));
        if let IpAddr::V4(src) = key.src {
            self.sources.entry(src).or_default().queues += 1;
        }
    }

    /// Counts a fragment of an IPv4 source, and throws away what there is of its packet if more
    /// than `max_dist` have come from there since the one before (`ip_frag_too_far`).
    fn restart_if_far(&mut self, key: &Key, max_dist: u32) -> Vec<Packet> {
        let IpAddr::V4(src) = key.src else { return Vec::new() };
        if max_dist == 0 {
            return Vec::new();
        }
        let source = self.sources.entry(src).or_default();
        source.count = source.count.wrapping_add(1);
        let queue = self.queues.get_mut(key).expect("a queue has been begun");
        let distance = source.count.wrapping_sub(queue.source_count);
        queue.source_count = source.count;
        if queue.fragments.is_empty() || distance <= max_dist {
            return Vec::new();
        }
        let mut fresh = Queue::new(queue.deadline, QUEUE_MEMORY[0]);
        fresh.source_count = source.count;
        let old = core::mem::replace(queue, fresh);
        self.memory[0] -= old.memory - QUEUE_MEMORY[0];
        old.into_packets()
    }

    fn remove(&mut self, key: &Key) -> Queue {
        let queue = self.queues.remove(key).expect("only what is there is removed");
        self.deadlines.remove(&(queue.deadline, *key));
        self.memory[usize::from(key.src.is_ipv6())] -= queue.memory;
        if let IpAddr::V4(src) = key.src
            && let Some(source) = self.sources.get_mut(&src)
        {
            source.queues -= 1;
            if source.queues == 0 {
                self.sources.remove(&src);
            }
        }
        queue
    }

    /// All pieces are there (`ip_frag_reasm`).
    fn finish(&mut self, key: &Key) -> FragmentResult {
        let queue = self.remove(key);
        let first = &queue.fragments[0].1.network;
        let Some(ecn) = ecn_of(queue.ecn_seen, first.ecn()) else { return failed(queue) };
        if key.src.is_ipv4() && queue.len + first.len() > MAX_PACKET {
            return failed(queue);
        }
        let dont_fragment = queue.max_df_size == queue.max_size;
        let truesize = queue.memory - QUEUE_MEMORY[usize::from(key.src.is_ipv6())];
        let packets: Vec<Packet> =
            queue.fragments.iter().map(|(_, packet)| packet.clone()).collect();
        match Packet::join(&packets, ecn, dont_fragment, &mut self.joined) {
            Some(mut whole) => {
                whole.meta.truesize = truesize;
                FragmentResult::Whole(whole)
            }
            None => failed(queue),
        }
    }
}

fn failed(queue: Queue) -> FragmentResult {
    FragmentResult::Failed { overlap: false, fragments: queue.into_packets() }
}

/// The result of adding a fragment to the queue of its packet.
enum QueueVerdict {
    Kept,
    Duplicate(Packet),
    Contradiction { overlap: bool, packet: Packet },
}

impl Queue {
    fn new(deadline: Instant, memory: u32) -> Self {
        Self {
            fragments: Vec::new(),
            runs: Vec::new(),
            len: 0,
            meat: 0,
            has_first: false,
            has_last: false,
            ecn_seen: 0,
            max_size: 0,
            max_df_size: 0,
            memory,
            deadline,
            source_count: 0,
        }
    }

    /// The pieces lie apart, within the packet, and nothing lies behind the last one.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut end = 0;
        let mut ended = false;
        for (offset, packet) in &self.fragments {
            let piece = packet.piece().expect("a fragment");
            assert!(*offset >= end, "pieces overlap: {offset} before {end}");
            assert!(!ended, "a piece at {offset} lies behind the last, which ends at {end}");
            end = if piece.more { offset + (piece.len & !7) } else { piece.end() };
            ended = !piece.more;
        }
        assert_eq!((self.has_last, self.len), (ended, end), "the end of what is reassembled");
    }

    fn is_complete(&self) -> bool {
        self.has_first && self.has_last && self.meat == self.len
    }

    fn into_packets(self) -> Vec<Packet> {
        self.fragments.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Puts a fragment in its place.
    fn insert(&mut self, mut packet: Packet, piece: &Piece) -> QueueVerdict {
        let end = if piece.more { piece.offset + (piece.len & !7) } else { piece.end() };
        let contradicts = if piece.more {
            end > self.len && self.has_last
        } else {
            end < self.len || (self.has_last && end != self.len)
        };
        if contradicts || end == piece.offset {
            return QueueVerdict::Contradiction { overlap: false, packet };
        }
        match self.place(piece.offset, end) {
            RangeFit::Duplicate => return QueueVerdict::Duplicate(packet),
            RangeFit::Overlap => return QueueVerdict::Contradiction { overlap: true, packet },
            RangeFit::Free => {}
        }
        // Of a piece that is no multiple of eight bytes the rest is cut off.
        packet.trim_tail(piece.end() - end);
        self.len = self.len.max(end);
        self.has_last |= !piece.more;
        self.has_first |= piece.offset == 0;
        self.meat += end - piece.offset;
        self.ecn_seen |= 1 << (packet.network.ecn() as u8);
        let size = packet.meta.len - packet.link.len();
        self.max_size = self.max_size.max(size);
        if matches!(packet.network, Network::Ipv4(ip) if ip.dont_fragment) {
            self.max_df_size = self.max_df_size.max(size);
        }
        self.memory += truesize_of_piece(piece.len);
        let at = self.fragments.partition_point(|(offset, _)| *offset < piece.offset);
        self.fragments.insert(at, (piece.offset, packet));
        QueueVerdict::Kept
    }

    /// Finds a place among the runs (`inet_frag_queue_insert`): a piece behind all others may
    /// continue their last run, any other is a run of its own.
    fn place(&mut self, start: u32, end: u32) -> RangeFit {
        if let Some(last) = self.runs.last_mut()
            && last.1 < end
        {
            match start.cmp(&last.1) {
                Ordering::Less => return RangeFit::Overlap,
                Ordering::Equal => last.1 = end,
                Ordering::Greater => self.runs.push((start, end)),
            }
            return RangeFit::Free;
        }
        let at = self.runs.partition_point(|run| run.1 <= start);
        match self.runs.get(at) {
            Some(run) if run.0 <= start && end <= run.1 => RangeFit::Duplicate,
            Some(run) if run.0 < end => RangeFit::Overlap,
            _ => {
                self.runs.insert(at, (start, end));
                RangeFit::Free
            }
        }
    }
}

enum RangeFit {
    Free,
    Duplicate,
    Overlap,
}

fn key_of(packet: &Packet, piece: &Piece) -> Option<Key> {
    let (src, dst) = (packet.network.src()?, packet.network.dst()?);
    let protocol = if src.is_ipv4() { piece.protocol } else { 0 };
    Some(Key { src, dst, id: piece.id, protocol })
}

/// The codepoint of the whole by those of its pieces (RFC 3168 section 5.3, `ip_frag_ecn_table`);
/// `None` is a mixture that must not be.
fn ecn_of(seen: u8, first: Ecn) -> Option<Ecn> {
    let has = |ecn: Ecn| seen & 1 << (ecn as u8) != 0;
    if has(Ecn::NotEct) {
        return (seen == 1).then_some(Ecn::NotEct);
    }
    Some(if has(Ecn::Ce) { Ecn::Ce } else { first })
}
/// What a device's buffer with a fragment of so many bytes takes: rounded up to a power of two, and the packet's own
/// record.
fn truesize_of_piece(payload: u32) -> u32 {
    (payload + 64).next_power_of_two().max(512) + 768
}
