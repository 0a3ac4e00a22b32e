//! A record of received data, and the memory that it is charged as (`struct sk_buff` of the receive
//! queues).

use crate::packet::seq::Seq;
use crate::packet::{Memory, PAGE_SIZE};

/// One received segment, or several that share a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Received {
    pub seq: Seq,
    pub end_seq: Seq,
    /// Memory that it is charged as.
    pub truesize: u32,
    /// Bytes of its head (`skb_end_offset`).
    head: u32,
    /// Free bytes behind the payload, if that lies in the head (`skb_tailroom`).
    room: u32,
    /// Fragments of pages; 0 = all bytes lie in the head.
    frags: u8,
    /// Bytes lie in its head, which no other record can take over (`skb_headlen`, `skb_head_is_locked`).
    in_head: bool,
    /// Somebody else has a share in it, a packet socket for one: nothing may be appended
    /// (`skb_cloned`).
    pub(super) shared: bool,
    pub fin: bool,
}

/// `MAX_SKB_FRAGS`.
const MAX_FRAGS: u8 = 17;
/// `struct sk_buff`, cache-aligned.
const SK_BUFF_LEN: u32 = 256;
/// `struct skb_shared_info`, cache-aligned.
const SHARED_INFO_LEN: u32 = 320;
/// Smallest buffer.
const MIN_BUFFER: u32 = 512;
/// Room for headers that a stack leaves in front of the payload (`MAX_TCP_HEADER`).
const STACK_HEADERS: u32 = 256;
/// Ethernet, IP and TCP headers, and what a device leaves in front of them.
const DEVICE_HEADERS: u32 = 82;
/// What linearising asks for beyond what it needs.
const SPARE: u32 = 128;

/// The buffer that `bytes` come from, without `struct skb_shared_info` at its end.
fn head_for(bytes: u32) -> u32 {
    (bytes + SHARED_INFO_LEN).next_power_of_two().max(MIN_BUFFER) - SHARED_INFO_LEN
}

/// `SKB_TRUESIZE`.
fn truesize(head: u32) -> u32 {
    head + SHARED_INFO_LEN + SK_BUFF_LEN
}

/// The head of a record of a send queue, which is charged as `overhead` bytes without data
/// (`Profile::skb_overhead`): since 6.3 it comes from the cache of small heads, too.
fn stack_head(overhead: u32) -> u32 {
    overhead - SHARED_INFO_LEN - SK_BUFF_LEN
}

/// What `tun_alloc_skb` leaves free in front of a packet (`NET_SKB_PAD`).
const TUN_PAD: u32 = 64;
/// What the bytes of a stream are written into: eight pages side by side (`SKB_FRAG_PAGE_ORDER`).
const SENDERS_PAGES: u32 = 8 * PAGE_SIZE;

/// Memory of the whole pages that `bytes` are put into (`alloc_skb_with_frags`).
pub(in crate::tcp) fn pages_for(bytes: u32) -> u32 {
    bytes.next_multiple_of(PAGE_SIZE)
}

/// How many fragments such pages are: eight pages, four or two lie side by side where as many are needed. Kernels
/// of large heads, before 6.6, took them one by one.
fn frags_for(bytes: u32, overhead: u32) -> u8 {
    let pages = bytes.div_ceil(PAGE_SIZE);
    let frags =
        if has_small_heads(overhead) { pages / 8 + (pages % 8).count_ones() } else { pages };
    frags as u8
}

/// What a record is charged without data where its head comes from a slab of 1,024 bytes.
const LARGE_HEAD_OVERHEAD: u32 = 1_280;

/// There is a cache of small heads (since 6.3), as what a record is charged without data tells.
fn has_small_heads(overhead: u32) -> bool {
    overhead < LARGE_HEAD_OVERHEAD
}

/// The buffer of a packet of `bytes` that a packet socket or a device has made.
fn device_head(bytes: u32, overhead: u32) -> u32 {
    if has_small_heads(overhead) && bytes <= SMALL_HEAD { SMALL_HEAD } else { head_for(bytes) }
}

/// The buffer that `bytes` written to a tun device come into, without `struct skb_shared_info`:
/// small ones come from a cache of their own (`skb_small_head_cache`).
fn tun_head_for(bytes: u32) -> u32 {
    if bytes <= SMALL_HEAD { SMALL_HEAD } else { head_for(bytes) }
}

/// `SKB_SMALL_HEAD_HEADROOM`.
const SMALL_HEAD: u32 = 320;

/// Bytes of a packet that come into one buffer of a page (`SKB_MAX_HEAD`); what is beyond them comes into pages of its own.
const TUN_LINEAR: u32 = PAGE_SIZE - SHARED_INFO_LEN - TUN_PAD;

/// A packet of so many bytes is put into one buffer (`tun_alloc_skb`: less than a page).
fn tun_is_linear(packet: u32) -> bool {
    TUN_PAD + packet < PAGE_SIZE
}

/// Memory that a segment is charged as when it arrives; `headers`: bytes of its IP and TCP
/// headers, `overhead`: what a record of a send queue is charged as without data.
pub(in crate::tcp) fn truesize_of(memory: Memory, headers: u32, len: u32, overhead: u32) -> u32 {
    match memory {
        Memory::Tun if tun_is_linear(headers + len) => {
            truesize(tun_head_for(TUN_PAD + headers + len))
        }
        Memory::Tun => {
            truesize(head_for(TUN_PAD + TUN_LINEAR)) + pages_for(headers + len - TUN_LINEAR)
        }
        Memory::Linear => truesize(device_head(DEVICE_HEADERS + len, overhead)),
        Memory::Written => truesize(device_head(DEVICE_HEADERS, overhead)) + pages_for(len),
        Memory::Cut => truesize(device_head(STACK_HEADERS + len, overhead)),
        Memory::Linearised | Memory::Paged | Memory::Piece | Memory::TwoPieces => overhead + len,
    }
}

/// Memory that the segments of a super-packet take which software cuts: in `linear` buffers, or with shares of its pages;
/// `overhead`: what it is charged as without data (`skb_segment`).
pub fn truesize_of_segments(linear: bool, len: u32, gso_size: u32, overhead: u32) -> u32 {
    let memory = if linear { Memory::Cut } else { Memory::Paged };
    let of = |len| truesize_of(memory, 0, len, overhead);
    let last = len % gso_size;
    len / gso_size * of(gso_size) + if last > 0 { of(last) } else { 0 }
}

impl Received {
    /// What a segment of `len` payload bytes becomes; `headers`: bytes of IP and TCP headers, `overhead`: see
    /// [`truesize_of`].
    pub fn new(
        seq: Seq,
        end_seq: Seq,
        len: u32,
        memory: Memory,
        headers: u32,
        fin: bool,
        overhead: u32,
    ) -> Self {
        let charged = || truesize_of(memory, headers, len, overhead);
        if memory == Memory::Tun && !tun_is_linear(headers + len) {
            // Bytes in a head that is full, and more in pages: none can be passed on, nor taken in.
            let frags = MAX_FRAGS + 1;
            let head = head_for(TUN_PAD + TUN_LINEAR);
            let (in_head, shared) = (true, true);
            let truesize = charged();
            return Self { seq, end_seq, truesize, head, room: 0, frags, in_head, shared, fin };
        }
        let made = |head, headers| (head, headers, truesize(head));
        let (head, taken, truesize) = match memory {
            Memory::Tun => made(tun_head_for(TUN_PAD + headers + len), TUN_PAD + headers),
            Memory::Linear => made(device_head(DEVICE_HEADERS + len, overhead), DEVICE_HEADERS),
            Memory::Written => (device_head(DEVICE_HEADERS, overhead), DEVICE_HEADERS, charged()),
            Memory::Cut => made(device_head(STACK_HEADERS + len, overhead), STACK_HEADERS),
            Memory::Linearised => (linearised_head(len, overhead), STACK_HEADERS, charged()),
            Memory::Paged | Memory::Piece | Memory::TwoPieces => {
                (stack_head(overhead), STACK_HEADERS, charged())
            }
        };
        debug_assert_eq!(truesize, charged(), "as `truesize_of` says");
        let frags = match memory {
            Memory::Paged | Memory::Piece => 1,
            Memory::TwoPieces => 1 + u8::from(has_small_heads(overhead)),
            Memory::Written => frags_for(len, overhead),
            _ => 0,
        };
        let in_head = frags == 0;
        Self {
            seq,
            end_seq,
            truesize,
            head,
            room: if in_head { head - taken - len } else { 0 },
            frags,
            in_head,
            shared: memory == Memory::Tun,
            fin,
        }
    }

    /// Its payload lies where the sender has written it, `at` bytes from the beginning of the stream: what crosses
    /// from one piece of memory to the next is a fragment more (`sk_page_frag_refill`).
    pub fn in_pages_of_sender(mut self, at: u32) -> Self {
        self.frags += ((at % SENDERS_PAGES + self.len()).saturating_sub(1) / SENDERS_PAGES) as u8;
        self
    }

    /// A record that several were copied into: all its `len` bytes in a head made for `asked` ones, which come
    /// from the cache of small heads where there is one; `overhead`: see [`truesize_of`].
    pub fn collapsed(seq: Seq, len: u32, asked: u32, overhead: u32) -> Self {
        let head = device_head(asked, overhead);
        let (truesize, room) = (truesize(head), head - len);
        let end_seq = seq + len;
        let (frags, in_head, shared, fin) = (0, true, false, false);
        Self { seq, end_seq, truesize, head, room, frags, in_head, shared, fin }
    }

    /// Payload bytes.
    pub fn len(&self) -> u32 {
        self.end_seq.bytes_since(self.seq) - u32::from(self.fin)
    }

    /// Appends `next`, if it follows at once and can share the record; returns the memory that it
    /// is charged as from now on (`tcp_try_coalesce`, `skb_try_coalesce`).
    pub(super) fn coalesce(&mut self, next: &Self) -> Option<u32> {
        if next.seq != self.end_seq || self.shared {
            return None;
        }
        let len = next.len();
        let charged = if len <= self.room {
            // Copied into the head.
            self.room -= len;
            0
        } else if !next.in_head && self.frags + next.frags <= MAX_FRAGS {
            self.room = 0;
            self.frags += next.frags;
            next.truesize - truesize(next.head)
        } else {
            return None;
        };
        self.end_seq = next.end_seq;
        self.truesize += charged;
        self.fin |= next.fin;
        Some(charged)
    }

    /// A record that may stay for a while is charged what its head really is, and pages that fit
    /// into the head are given back (`skb_condense`).
    pub(super) fn condense(&mut self) {
        if self.frags > 0 {
            let room = self.head.saturating_sub(STACK_HEADERS);
            if self.len() > room {
                return;
            }
            self.room = room - self.len();
            (self.frags, self.in_head) = (0, true);
        }
        self.truesize = truesize(self.head);
    }
}

/// The head that a record of a send queue gets when its pages are copied into it
/// (`__pskb_pull_tail`, `pskb_expand_head`).
fn linearised_head(len: u32, overhead: u32) -> u32 {
    let head = stack_head(overhead);
    match (STACK_HEADERS + len).checked_sub(head) {
        None | Some(0) => head,
        Some(missing) => head_for(head + missing + SPARE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Super-packets that a box has read and written, before 6.3 and since.
    #[test]
    fn written_bytes_lie_in_whole_pages() {
        for (segments, charged, frags, frags_of_old) in
            [(3, 8_192, 1, 2), (6, 12_288, 2, 3), (12, 20_480, 2, 5), (44, 65_536, 2, 16)]
        {
            let len = segments * 1_448;
            let new = |overhead| {
                Received::new(Seq(0), Seq(len), len, Memory::Written, 52, false, overhead)
            };
            let record = new(896);
            assert_eq!((record.truesize, record.frags), (896 + charged, frags), "{segments}");
            let record = new(1_280);
            assert_eq!((record.truesize, record.frags), (768 + charged, frags_of_old));
        }
        let mut record = Received::new(Seq(0), Seq(4_344), 4_344, Memory::Written, 52, false, 896);
        let next = Received::new(Seq(4_344), Seq(8_688), 4_344, Memory::Written, 52, false, 896);
        assert_eq!(record.coalesce(&next), Some(8_192), "its head is given back");
    }

    #[test]
    fn a_small_segment_that_was_cut_has_a_small_head() {
        let charged = |len, overhead| truesize_of(Memory::Cut, 52, len, overhead);
        assert_eq!([40, 64, 65, 1_448].map(|len| charged(len, 896)), [896, 896, 1_280, 2_304]);
        assert_eq!(charged(40, 1_280), 1_280, "before there was a cache of them");
        assert_eq!(truesize_of_segments(true, 2 * 1_448 + 40, 1_448, 896), 2 * 2_304 + 896);
    }

    #[test]
    fn shares_of_two_pieces_are_two_fragments() {
        let frags = |memory, overhead| {
            Received::new(Seq(0), Seq(1_448), 1_448, memory, 52, false, overhead).frags
        };
        assert_eq!([Memory::Piece, Memory::TwoPieces].map(|memory| frags(memory, 896)), [1, 2]);
        assert_eq!(frags(Memory::TwoPieces, 1_280), 1);
    }

    #[test]
    fn heads_come_from_slabs_as_observed() {
        // Frames sent by a program: 176 bytes are charged 768, 177 are charged 1,280, and so on.
        for (frame, charged) in
            [(176, 768), (177, 1_280), (688, 1_280), (689, 2_304), (1_712, 2_304), (1_713, 4_352)]
        {
            assert_eq!(truesize_of(Memory::Linear, 52, frame - 66, 1_280), charged, "{frame}");
        }
    }

    /// Of 23 segments of a stream one crosses from the sender's first 32 KB to the next: a record of 17 fragments takes
    /// 16 segments with it, and 17 without.
    #[test]
    fn what_crosses_a_border_of_the_senders_memory_is_two_fragments() {
        let segment = |index: u32| {
            let at = index * 1_448;
            Received::new(Seq(at), Seq(at + 1_448), 1_448, Memory::Paged, 52, false, 896)
                .in_pages_of_sender(at)
        };
        let frags: Vec<u8> = (0..30).map(|index| segment(index).frags).collect();
        assert_eq!(frags.iter().position(|&frags| frags == 2), Some(22));
        assert_eq!(frags.iter().filter(|&&frags| frags != 1).count(), 1);
        let joins = |from: u32| {
            let mut record = segment(from);
            (from + 1..30).take_while(|&index| record.coalesce(&segment(index)).is_some()).count()
        };
        assert_eq!([0, 10].map(joins), [16, 15]);
        let super_packet =
            Received::new(Seq(0), Seq(65_160), 65_160, Memory::Paged, 52, false, 896);
        assert_eq!([0, 376].map(|at| super_packet.in_pages_of_sender(at).frags), [2, 2]);
        assert_eq!(super_packet.in_pages_of_sender(32_000).frags, 3);
    }

    /// A record of several small packets that a box has written keeps its own bytes: no other takes it in, though
    /// pages have joined it.
    #[test]
    fn what_has_bytes_in_its_head_joins_nothing() {
        let new =
            |seq, len, memory| Received::new(Seq(seq), Seq(seq + len), len, memory, 52, false, 896);
        let mut mixed = new(1_448, 2_896, Memory::Linear);
        assert_eq!(mixed.coalesce(&new(4_344, 7_240, Memory::Written)), Some(8_192));
        let mut before = new(0, 1_448, Memory::Linear);
        assert_eq!(before.coalesce(&mixed), None);
        assert!(
            new(0, 1_448, Memory::Linear).coalesce(&new(1_448, 7_240, Memory::Written)).is_some()
        );
    }
}
