//! Fragmentation: IPv4's anywhere on the way (RFC 791, `ip_do_fragment`), IPv6's at the source
//! (RFC 8200 section 4.5, `ip6_fragment`).

use super::link::Link;
use super::network::{Ipv4, Network, protocol};
use super::transport::Transport;
use super::{Body, Extra, Flaws, GsoType, Memory, Meta, Packet};

/// IPv4 options that every fragment carries have this bit (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
/// IPv4 option: end of list.
const END_OF_OPTIONS: u8 = 0;
/// IPv4 option: no operation.
const NO_OPERATION: u8 = 1;
/// Bytes of an IPv6 fragment header.
const FRAGMENT_HEADER: usize = 8;

impl Packet {
    /// Cuts an IPv4 packet, or a fragment, into fragments of at most `mtu` bytes.
    ///
    /// The transport checksum in the first fragment covers the whole body. `None` if the packet is not IPv4, must not be
    /// fragmented, or `mtu` has no room for eight bytes behind the header. A super-packet is cut
    /// into segments first.
    pub fn fragment(&self, mtu: u32) -> Option<Fragments> {
        let Network::Ipv4(ip) = self.network else { return None };
        if ip.dont_fragment {
            return None;
        }
        let (mut headers, network_at) = self.emitted();
        let ip_len = usize::from(headers[network_at] & 0x0f) * 4;
        let pulled = headers.split_off(network_at + ip_len);
        self.cut_up(mtu, headers, network_at, pulled, None)
    }

    /// Cuts an IPv6 packet at its source into fragments of at most `mtu` bytes, with `id` in their
    /// fragment headers. Hop-by-hop options and what leads up to a routing header stand in each.
    ///
    /// `None` if the packet is not IPv6, is a
    /// fragment already, or `mtu` has no room for eight bytes behind the headers.
    pub fn fragment_ipv6(&self, mtu: u32, id: u32) -> Option<Fragments> {
        let Network::Ipv6(_) = self.network else { return None };
        let (mut headers, network_at) = self.emitted();
        let next_at = unfragmentable(&headers[network_at..])? + network_at;
        let header_at = match next_at - network_at {
            NEXT_HEADER_AT => network_at + 40,
            _ => next_at + 8 * (usize::from(headers[next_at + 1]) + 1),
        };
        let pulled = headers.split_off(header_at);
        let next = core::mem::replace(&mut headers[next_at], protocol::FRAGMENT);
        let [i0, i1, i2, i3] = id.to_be_bytes();
        headers.extend([next, 0, 0, 0, i0, i1, i2, i3]);
        self.cut_up(mtu, headers, network_at, pulled, Some(header_at))
    }

    /// The headers as they go out, and where the network header begins in them.
    fn emitted(&self) -> (Vec<u8>, usize) {
        assert!(self.segments() == 1, "a super-packet is segmented before it is fragmented");
        let mut headers = Vec::new();
        self.emit_own_headers(&mut headers);
        let network_at = match &self.extra {
            Some(extra) if !extra.raw.is_empty() => usize::from(extra.network_offset),
            Some(extra) => self.link.len() as usize + 4 * extra.vlan.len(),
            None => self.link.len() as usize,
        };
        (headers, network_at)
    }

    fn cut_up(
        &self,
        mtu: u32,
        headers: Vec<u8>,
        network_at: usize,
        pulled: Vec<u8>,
        fragment_header: Option<usize>,
    ) -> Option<Fragments> {
        let headers_len = (headers.len() - network_at) as u32;
        let room = mtu.checked_sub(headers_len)?;
        let step = room & !7;
        if step == 0 {
            return None;
        }
        let len = pulled.len() as u32 + self.body.len;
        // Without a fragment header there is room for more.
        let spared = fragment_header.map_or(0, |_| FRAGMENT_HEADER as u32);
        let whole = len <= room + spared;
        Some(Fragments {
            network: self.network,
            link: self.link,
            meta: self.meta,
            memory: self.memory,
            gso_type: self.gso_type,
            body: self.body.clone(),
            vlan: self.extra.as_ref().map_or_else(Vec::new, |extra| extra.vlan.clone()),
            flaws: self.flaws(),
            headers,
            network_at,
            fragment_header,
            pulled,
            at: 0,
            len,
            room,
            count: if whole { 0 } else { count(len, step, room) },
            whole: whole.then(|| self.clone()),
        })
    }
}

/// Offset of the next-header field in an IPv6 header.
const NEXT_HEADER_AT: usize = 6;

/// Where the next-header field lies that is to say that a fragment header follows
/// (`ip6_find_1stfragopt`); `None` if one does already, or the headers are not whole.
fn unfragmentable(header: &[u8]) -> Option<usize> {
    let (mut field, mut at, mut end) = (NEXT_HEADER_AT, 40, NEXT_HEADER_AT);
    loop {
        match header[field] {
            protocol::FRAGMENT => return None,
            kind @ (protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS) => {
                let len = 8 * (usize::from(*header.get(at + 1)?) + 1);
                if kind != protocol::DESTINATION_OPTIONS {
                    end = at;
                }
                field = at;
                at += len;
                header.get(field)?;
            }
            _ => return Some(end),
        }
    }
}

/// How many fragments `len` bytes make: all but the last of `step` bytes, the last of up to `max`.
fn count(len: u32, step: u32, max: u32) -> u32 {
    len.saturating_sub(max).div_ceil(step) + 1
}

/// The fragments of a packet, in order: see [`Packet::fragment`].
#[derive(Clone, Debug)]
pub struct Fragments {
    network: Network,
    link: Link,
    meta: Meta,
    memory: Memory,
    gso_type: GsoType,
    body: Body,
    vlan: Vec<(u16, u16)>,
    /// What was wrong with the packet; its first fragment tells.
    flaws: Flaws,
    /// Link and network headers that stand in each fragment.
    headers: Vec<u8>,
    network_at: usize,
    /// Where the IPv6 fragment header lies in those.
    fragment_header: Option<usize>,
    /// What lies between the network header and the body: to a fragment it is payload.
    pulled: Vec<u8>,
    /// Payload cut so far.
    at: u32,
    /// Payload of the whole packet.
    len: u32,
    /// Payload that a fragment may carry.
    room: u32,
    /// Fragments still to come.
    count: u32,
    /// The packet itself, if it is small enough.
    whole: Option<Packet>,
}

impl Iterator for Fragments {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        if let Some(whole) = self.whole.take() {
            return Some(whole);
        }
        self.count = self.count.checked_sub(1)?;
        let left = self.len - self.at;
        let len = if left <= self.room { left } else { self.room & !7 };
        let more = len < left;
        let pulled = self.pulled.len() as u32;
        let from = self.at.min(pulled);
        let to = (self.at + len).min(pulled);
        let body_from = self.at.saturating_sub(pulled);
        let truesize = self.meta.truesize / (self.count + 1);
        self.meta.truesize -= truesize;
        let mut fragment = Packet {
            link: self.link,
            network: self.network_at(more),
            transport: Transport::None,
            body: self.body.window(body_from, len - (to - from)),
            meta: Meta { truesize, hash: 0, ..self.meta },
            memory: self.memory,
            gso_type: self.gso_type,
            extra: self.extra(from as usize, to as usize, more),
        };
        self.at += len;
        self.flaws = Flaws::NONE;
        fragment.refresh_raw();
        Some(fragment.finish())
    }
}

impl Fragments {
    /// The hot network header of the next fragment.
    fn network_at(&self, more: bool) -> Network {
        match self.network {
            Network::Ipv4(ip) => Network::Ipv4(Ipv4 {
                fragment_offset: ip.fragment_offset + (self.at / 8) as u16,
                more_fragments: ip.more_fragments || more,
                ..ip
            }),
            other => other,
        }
    }

    /// The raw headers of the next fragment, if it needs any: it has IPv4 options, an IPv6 fragment
    /// header, or a piece of the transport header.
    fn extra(&self, from: usize, to: usize, more: bool) -> Option<Box<Extra>> {
        let is_ipv4 = matches!(self.network, Network::Ipv4(_));
        let is_canonical = is_ipv4 && self.headers.len() - self.network_at == 20;
        if from == to && is_canonical && self.vlan.is_empty() && self.flaws == Flaws::NONE {
            return None;
        }
        let mut extra = Extra { vlan: self.vlan.clone(), flaws: self.flaws, ..Extra::default() };
        if from != to || !is_canonical {
            extra.raw.clone_from(&self.headers);
            if self.at != 0 && is_ipv4 {
                blank_options(&mut extra.raw[self.network_at + 20..]);
            }
            if let Some(at) = self.fragment_header {
                let field = self.at as u16 | u16::from(more);
                extra.raw[at + 2..at + 4].copy_from_slice(&field.to_be_bytes());
            }
            extra.raw.extend_from_slice(&self.pulled[from..to]);
            extra.network_offset = self.network_at as u16;
            extra.transport_offset = extra.raw.len() as u16;
        }
        Some(Box::new(extra))
    }
}

/// Overwrites options that only the first fragment carries with no-operations
/// (`ip_options_fragment`).
fn blank_options(mut options: &mut [u8]) {
    loop {
        match *options {
            [] | [END_OF_OPTIONS, ..] => return,
            [NO_OPERATION, ref mut rest @ ..] => options = rest,
            [kind, len, ..] if len >= 2 && usize::from(len) <= options.len() => {
                let (option, rest) = options.split_at_mut(usize::from(len));
                if kind & COPIED == 0 {
                    option.fill(NO_OPERATION);
                }
                options = rest;
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests;
