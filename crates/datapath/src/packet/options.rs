//! TCP options: the raw list, each kind the kernel knows, and Linux's own layout.

use super::Packet;
use super::option_kind as kind;
use super::transport::{AccEcnOption, SackBlock, SackList, TcpOptions, Timestamps};
use crate::packet::seq::Seq;

/// The identifier of the experimental Fast Open option (`TCPOPT_FASTOPEN_MAGIC`).
pub const FAST_OPEN_MAGIC: u16 = 0xf989;

/// The most bytes of options that a TCP header can hold (`MAX_TCP_OPTION_SPACE`).
pub const MAX_OPTION_SPACE: usize = 40;

/// One option as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Its kind.
    pub kind: u8,
    /// What follows the length byte.
    pub data: &'a [u8],
}

/// Walks over the options of a TCP header. NOPs are skipped; the walk ends at the end-of-list
/// option and, as `tcp_parse_options`, at the first option whose length makes no sense.
#[derive(Clone, Debug)]
pub struct RawOptions<'a> {
    rest: &'a [u8],
    broken: bool,
}

/// An option understood. What does not have the form its kind demands is `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes.
    Mss(u16),
    /// Window scale shift as sent (a receiver limits it to 14).
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(SackList),
    /// Timestamps.
    Timestamps(Timestamps),
    /// Fast Open: a cookie, or an empty cookie request.
    FastOpen {
        /// 0 or 4 to 16 bytes.
        cookie: &'a [u8],
        /// Sent as experimental option 254 rather than 34.
        experimental: bool,
    },
    /// MD5 signature: the digest.
    Md5(&'a [u8; 16]),
    /// TCP-AO.
    Ao {
        /// Which key signed this segment.
        key_id: u8,
        /// Which key the sender would like to receive.
        next_key_id: u8,
        /// The message authentication code.
        mac: &'a [u8],
    },
    /// Accurate ECN byte counters.
    AccEcn(AccEcnCounters),
    /// Multipath TCP, subtype and all.
    Mptcp(&'a [u8]),
    /// Anything else.
    Unknown(RawOption<'a>),
}

/// The byte counters of an Accurate ECN option (RFC 9768 section 3.2.3), each modulo 2²⁴; a
/// shorter option carries only the first ones of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccEcnCounters {
    /// Bytes received as ECT(0).
    pub ee0b: Option<u32>,
    /// Bytes received as CE.
    pub eceb: Option<u32>,
    /// Bytes received as ECT(1).
    pub ee1b: Option<u32>,
}

impl<'a> RawOptions<'a> {
    /// The options in `bytes`, which is what lies between the fixed TCP header and the payload.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, broken: false }
    }

    /// True once the walk has ended at an option that was cut short or had a length below two.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = RawOption<'a>;

    fn next(&mut self) -> Option<RawOption<'a>> {
        loop {
            match *self.rest {
                [] | [kind::EOL, ..] => return None,
                [kind::NOP, ref rest @ ..] => self.rest = rest,
                [kind, len, ..] if len >= 2 && usize::from(len) <= self.rest.len() => {
                    let (option, rest) = self.rest.split_at(usize::from(len));
                    self.rest = rest;
                    return Some(RawOption { kind, data: &option[2..] });
                }
                _ => {
                    self.broken = true;
                    self.rest = &[];
                }
            }
        }
    }
}

impl<'a> RawOption<'a> {
    /// What the option means.
    pub fn decode(self) -> TcpOption<'a> {
        self.known().unwrap_or(TcpOption::Unknown(self))
    }

    /// The meaning, if the option has the form that its kind demands.
    fn known(self) -> Option<TcpOption<'a>> {
        Some(match (self.kind, self.data) {
            (kind::MSS, &[high, low]) => TcpOption::Mss(u16::from_be_bytes([high, low])),
            (kind::WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
            (kind::SACK_PERMITTED, []) => TcpOption::SackPermitted,
            (kind::SACK, data) => TcpOption::Sack(sack_list(data)?),
            (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps(Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            }),
            (kind::FAST_OPEN, cookie) => fast_open(cookie, false)?,
            (kind::EXPERIMENTAL, [high, low, cookie @ ..])
                if u16::from_be_bytes([*high, *low]) == FAST_OPEN_MAGIC =>
            {
                fast_open(cookie, true)?
            }
            (kind::MD5, digest) => TcpOption::Md5(digest.try_into().ok()?),
            (kind::AO, [key_id, next_key_id, mac @ ..]) => {
                TcpOption::Ao { key_id: *key_id, next_key_id: *next_key_id, mac }
            }
            (kind::ACC_ECN_0, data) => {
                let [ee0b, eceb, ee1b] = counters(data);
                TcpOption::AccEcn(AccEcnCounters { ee0b, eceb, ee1b })
            }
            (kind::ACC_ECN_1, data) => {
                let [ee1b, eceb, ee0b] = counters(data);
                TcpOption::AccEcn(AccEcnCounters { ee0b, eceb, ee1b })
            }
            (kind::MPTCP, data) if !data.is_empty() => TcpOption::Mptcp(data),
            _ => return None,
        })
    }
}

/// One to four SACK blocks.
fn sack_list(data: &[u8]) -> Option<SackList> {
    let (blocks, rest) = data.as_chunks::<8>();
    if blocks.is_empty() || blocks.len() > 4 || !rest.is_empty() {
        return None;
    }
    let mut list = SackList::EMPTY;
    for &[a, b, c, d, e, f, g, h] in blocks {
        list.push(SackBlock {
            start: Seq(u32::from_be_bytes([a, b, c, d])),
            end: Seq(u32::from_be_bytes([e, f, g, h])),
        });
    }
    Some(list)
}

/// A Fast Open cookie has an even length of 4 to 16 bytes, or is an empty request
/// (`tcp_parse_fastopen_option`).
fn fast_open(cookie: &[u8], experimental: bool) -> Option<TcpOption<'_>> {
    let fits = matches!(cookie.len(), 0 | 4..=16) && cookie.len().is_multiple_of(2);
    fits.then_some(TcpOption::FastOpen { cookie, experimental })
}

/// None to three 24-bit counters. What follows the last whole one is padding of a future version
/// (RFC 9768 section 3.2.3).
fn counters(data: &[u8]) -> [Option<u32>; 3] {
    let mut counters = [None; 3];
    for (counter, &[high, middle, low]) in counters.iter_mut().zip(data.as_chunks::<3>().0) {
        *counter = Some(u32::from_be_bytes([0, high, middle, low]));
    }
    counters
}

/// NOP NOP kind length: the word that opens an aligned option in Linux's layout.
const ALIGNED_TIMESTAMPS: [u8; 4] = [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10];

impl TcpOptions {
    /// Reads the options of a header. The flag tells whether [`TcpOptions::write`] would give the
    /// same bytes again; if not, something in them is not kept here.
    pub fn parse(bytes: &[u8]) -> (Self, bool) {
        // `tcp_parse_aligned_timestamp`: what nearly every segment of a connection carries.
        if let [a, b, c, d, value @ .., e, f, g, h] = bytes
            && [*a, *b, *c, *d] == ALIGNED_TIMESTAMPS
            && let &[v, w, x, y] = value
        {
            let timestamps = Timestamps {
                value: u32::from_be_bytes([v, w, x, y]),
                echo: u32::from_be_bytes([*e, *f, *g, *h]),
            };
            return (Self { timestamps: Some(timestamps), ..Self::default() }, true);
        }
        if bytes.is_empty() {
            return (Self::default(), true);
        }
        let options = Self::from_list(RawOptions::new(bytes));
        let len = options.len() as usize;
        let mut again = [0; MAX_OPTION_SPACE];
        let canonical = len == bytes.len() && len <= MAX_OPTION_SPACE && {
            options.write(&mut again[..len]);
            again[..len] == *bytes
        };
        (options, canonical)
    }

    /// The options we hold out of a list; of an option that comes twice, the last counts.
    fn from_list(list: RawOptions<'_>) -> Self {
        let mut options = Self::default();
        let mut acc_ecn = AccEcnOption::NONE;
        for option in list {
            match option.decode() {
                TcpOption::Mss(mss) => options.mss = mss,
                TcpOption::WindowScale(shift) => {
                    options.window_scale_plus_one = shift.saturating_add(1);
                }
                TcpOption::SackPermitted => options.sack_permitted = true,
                TcpOption::Sack(sack) => options.sack = sack,
                TcpOption::Timestamps(timestamps) => options.timestamps = Some(timestamps),
                TcpOption::AccEcn(_) => {
                    let mut values = [0; 3];
                    let mut fields = 0;
                    for counter in counters(option.data).into_iter().flatten() {
                        values[fields] = counter;
                        fields += 1;
                    }
                    acc_ecn = AccEcnOption::new(option.kind, &values[..fields]);
                }
                TcpOption::FastOpen { .. }
                | TcpOption::Md5(_)
                | TcpOption::Ao { .. }
                | TcpOption::Mptcp(_)
                | TcpOption::Unknown(_) => {}
            }
        }
        if options.sack.len() == 4 && acc_ecn.counters().len() > 1 {
            // More than a header holds.
            acc_ecn = AccEcnOption::NONE;
        }
        options.set_acc_ecn(acc_ecn);
        options
    }

    /// Writes the options in Linux's layout (`tcp_options_write`) into `out`, which has exactly
    /// [`TcpOptions::len`] bytes: MSS; timestamps after SACK-permitted or two NOPs; Accurate ECN,
    /// padded; SACK-permitted alone after two NOPs; window scale after one NOP; SACK blocks after
    /// two, or fewer if Accurate ECN lies in their place.
    pub fn write(&self, out: &mut [u8]) {
        let Self { mss, window_scale_plus_one: _, sack_permitted, timestamps, sack } = *self;
        let acc_ecn = self.acc_ecn();
        let mut at = Writer { out, at: 0 };
        if mss != 0 {
            let [high, low] = mss.to_be_bytes();
            at.put(&[kind::MSS, 4, high, low]);
        }
        if let Some(Timestamps { value, echo }) = timestamps {
            let [first, second] =
                if sack_permitted { [kind::SACK_PERMITTED, 2] } else { [kind::NOP; 2] };
            at.put(&[first, second, kind::TIMESTAMPS, 10]);
            at.put(&value.to_be_bytes());
            at.put(&echo.to_be_bytes());
        }
        let mut sack_nops = 2;
        if acc_ecn.is_present() {
            let (wire, len) = acc_ecn.wire();
            at.put(&wire[..len]);
            if sack.is_empty() {
                at.put(&[kind::NOP; 3][..len.next_multiple_of(4) - len]);
            } else {
                sack_nops = (len + 2).next_multiple_of(4) - len - 2;
            }
        }
        if timestamps.is_none() && sack_permitted {
            at.put(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale() {
            at.put(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
        }
        if !sack.is_empty() {
            at.put(&[kind::NOP; 3][..sack_nops]);
            at.put(&[kind::SACK, 2 + 8 * sack.len() as u8]);
            for block in sack.as_slice() {
                at.put(&block.start.0.to_be_bytes());
                at.put(&block.end.0.to_be_bytes());
            }
        }
        assert_eq!(at.at, at.out.len(), "TcpOptions::len and TcpOptions::write disagree");
    }
}

impl Packet {
    /// The options of a TCP packet as they lie on the wire; canonical ones are written into
    /// `scratch`. `None` if this is not TCP.
    pub fn tcp_option_bytes<'a>(
        &'a self,
        scratch: &'a mut [u8; MAX_OPTION_SPACE],
    ) -> Option<&'a [u8]> {
        let tcp = self.tcp()?;
        match &self.extra {
            Some(extra) if !extra.raw.is_empty() => {
                extra.raw.get(usize::from(extra.transport_offset) + 20..)
            }
            _ => {
                let options = &mut scratch[..tcp.options.len() as usize];
                tcp.options.write(options);
                Some(options)
            }
        }
    }

    /// Replaces the options by `options`, whole words of at most 40 bytes. The headers are raw from
    /// then on, unless our own form can hold the options.
    pub fn set_tcp_options(&mut self, options: &[u8]) {
        assert!(options.len().is_multiple_of(4) && options.len() <= MAX_OPTION_SPACE);
        let (known, canonical) = TcpOptions::parse(options);
        let super::transport::Transport::Tcp(tcp) = &mut self.transport else { return };
        tcp.options = known;
        if !canonical || self.extra.as_ref().is_some_and(|extra| !extra.raw.is_empty()) {
            self.make_raw();
            let Some(extra) = &mut self.extra else { return };
            let at = usize::from(extra.transport_offset);
            extra.raw.truncate(at + 20);
            extra.raw.extend_from_slice(options);
            let data_offset = &mut extra.raw[at + 12];
            *data_offset = (((20 + options.len()) / 4) << 4) as u8 | *data_offset & 0x0f;
            extra.recompute = true;
        }
        self.meta.len = self.full_len();
    }

    /// Adds an option that [`TcpOptions`] cannot hold (Fast Open, Accurate ECN, MD5, …) behind the
    /// others, NOPs before it up to a multiple of four. The headers are raw from then on. False,
    /// and nothing done, if this is not TCP or there is no room.
    pub fn push_tcp_option(&mut self, kind: u8, data: &[u8]) -> bool {
        let mut scratch = [0; MAX_OPTION_SPACE];
        let Some(options) = self.tcp_option_bytes(&mut scratch) else { return false };
        let padded = (2 + data.len()).next_multiple_of(4);
        let options_len = options.len() + padded;
        if options_len > MAX_OPTION_SPACE {
            return false;
        }
        self.make_raw();
        let Some(extra) = &mut self.extra else { return false };
        extra.raw.resize(extra.raw.len() + padded - 2 - data.len(), kind::NOP);
        extra.raw.extend_from_slice(&[kind, 2 + data.len() as u8]);
        extra.raw.extend_from_slice(data);
        let data_offset = &mut extra.raw[usize::from(extra.transport_offset) + 12];
        *data_offset = (((20 + options_len) / 4) << 4) as u8 | *data_offset & 0x0f;
        extra.recompute = true;
        self.meta.len += padded as u32;
        true
    }

    /// Writes the canonical headers out into `Extra::raw`, if that is empty.
    fn make_raw(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| !extra.raw.is_empty()) {
            return;
        }
        let mut raw = Vec::new();
        self.emit_headers(&mut raw);
        let extra = self.extra.get_or_insert_default();
        let network_at = self.link.len() + 4 * extra.vlan.len() as u32;
        extra.network_offset = network_at as u16;
        extra.transport_offset = (network_at + self.network.len()) as u16;
        extra.raw = raw;
        extra.recompute = true;
    }
}

/// A cursor over the option bytes.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

#[cfg(test)]
mod tests;
