//! IPv4 fragmentation (RFC 791, `ip_do_fragment`).

use super::link::Link;
use super::network::{Ipv4, Network};
use super::transport::Transport;
use super::{Body, Extra, Meta, Packet};

/// IPv4 options that every fragment carries have this bit (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
/// IPv4 option: end of list.
const END_OF_OPTIONS: u8 = 0;
/// IPv4 option: no operation.
const NO_OPERATION: u8 = 1;

impl Packet {
    /// Cuts an IPv4 packet, or a fragment, into fragments of at most `mtu` bytes.
    ///
    /// `body` is what lies at [`Packet::body`], or nothing in simulation: the transport checksum
    /// in the first fragment covers all of it. `None` if the packet is not IPv4, must not be
    /// fragmented, or `mtu` has no room for eight bytes behind the header. A super-packet is cut
    /// into segments first.
    pub fn fragment(&self, mtu: u32, body: &[u8]) -> Option<Fragments> {
        assert!(self.segments() == 1, "a super-packet is segmented before it is fragmented");
        let Network::Ipv4(ip) = self.network else { return None };
        if ip.dont_fragment {
            return None;
        }
        let mut headers = Vec::new();
        self.emit(body, &mut headers);
        headers.truncate(self.header_len() as usize);
        let network_at = match &self.extra {
            Some(extra) if !extra.raw.is_empty() => usize::from(extra.network_offset),
            Some(extra) => self.link.len() as usize + 4 * extra.vlan.len(),
            None => self.link.len() as usize,
        };
        let ip_len = usize::from(headers[network_at] & 0x0f) * 4;
        let pulled = headers.split_off(network_at + ip_len);
        let step = mtu.checked_sub(ip_len as u32)? & !7;
        if step == 0 {
            return None;
        }
        let len = pulled.len() as u32 + self.body.len;
        let whole = len <= mtu - ip_len as u32;
        Some(Fragments {
            ip,
            link: self.link,
            meta: self.meta,
            body: self.body,
            vlan: self.extra.as_ref().map_or_else(Vec::new, |extra| extra.vlan.clone()),
            headers,
            network_at,
            pulled,
            at: 0,
            len,
            mtu_payload: mtu - ip_len as u32,
            count: if whole { 0 } else { count(len, step, mtu - ip_len as u32) },
            whole: whole.then(|| self.clone()),
        })
    }
}

/// How many fragments `len` bytes make: all but the last of `step` bytes, the last of up to `max`.
fn count(len: u32, step: u32, max: u32) -> u32 {
    (len - max).div_ceil(step) + 1
}

/// The fragments of a packet, in order: see [`Packet::fragment`].
#[derive(Clone, Debug)]
pub struct Fragments {
    ip: Ipv4,
    link: Link,
    meta: Meta,
    body: Body,
    vlan: Vec<(u16, u16)>,
    /// Link and network header of the whole packet.
    headers: Vec<u8>,
    network_at: usize,
    /// What lies between the network header and the body: to a fragment it is payload.
    pulled: Vec<u8>,
    /// Payload cut so far.
    at: u32,
    /// Payload of the whole packet.
    len: u32,
    /// Payload that a fragment may carry.
    mtu_payload: u32,
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
        let len = if left <= self.mtu_payload { left } else { self.mtu_payload & !7 };
        let pulled = self.pulled.len() as u32;
        let from = self.at.min(pulled);
        let to = (self.at + len).min(pulled);
        let body_from = self.at.saturating_sub(pulled);
        let ip = Ipv4 {
            fragment_offset: self.ip.fragment_offset + (self.at / 8) as u16,
            more_fragments: self.ip.more_fragments || len < left,
            ..self.ip
        };
        let truesize = self.meta.truesize / (self.count + 1);
        self.meta.truesize -= truesize;
        let mut fragment = Packet {
            link: self.link,
            network: Network::Ipv4(ip),
            transport: Transport::None,
            body: Body {
                offset: self.body.offset + body_from,
                len: len - (to - from),
                ..self.body
            },
            meta: Meta { truesize, ..self.meta },
            extra: self.extra(from as usize, to as usize),
        };
        self.at += len;
        fragment.refresh_raw();
        Some(fragment.finish())
    }
}

impl Fragments {
    /// The raw headers of the next fragment, if it needs any: it has IPv4 options, or a piece of
    /// the transport header.
    fn extra(&self, from: usize, to: usize) -> Option<Box<Extra>> {
        let has_options = self.headers.len() - self.network_at > 20;
        if from == to && !has_options && self.vlan.is_empty() {
            return None;
        }
        let mut extra = Extra { vlan: self.vlan.clone(), ..Extra::default() };
        if from != to || has_options {
            extra.raw.clone_from(&self.headers);
            if self.at != 0 {
                blank_options(&mut extra.raw[self.network_at + 20..]);
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
