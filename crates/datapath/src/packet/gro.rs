//! Generic receive offload: segments merged into super-packets (`dev_gro_receive`).

use super::network::Network;
use super::transport::{TcpFlags, Transport};
use super::{Extra, Flaws, Frames, GsoType, Joined, Packet};

/// A super-packet stays below this many bytes, network header included
/// (`GRO_LEGACY_MAX_SIZE`, the default of `gro_max_size`).
pub const GRO_MAX_SIZE: u32 = 65536;

/// The most datagrams in a merged UDP packet (`UDP_GRO_CNT_MAX`).
const UDP_GRO_MAX_SEGMENTS: u32 = 64;

/// Flags that end a super-packet (`tcp_gro_receive`).
const ENDING: TcpFlags = TcpFlags(
    TcpFlags::FIN.0 | TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::PSH.0 | TcpFlags::URG.0,
);

/// Appends the payload of `next` to `held`, if the kernel would merge the two
/// (`inet_gro_receive`, `ipv6_gro_receive`, `tcp_gro_receive`, `udp_gro_receive_segment`): true
/// if done, and `next` is then part of `held`.
///
/// `held` is what GRO holds for this flow, a segment or a super-packet already. False means that
/// `held` is to be flushed, and `next` held in its stead unless [`gro_ends`] says that it ends a
/// super-packet itself. `max_size` is `gro_max_size`, usually [`GRO_MAX_SIZE`].
///
/// A body is one window: payloads that do not lie side by side are copied into a frame of `pool`,
/// which is counted in `joined`; without a free frame there, they do not merge.
pub fn gro_merge(
    held: &mut Packet,
    next: &Packet,
    max_size: u32,
    pool: &mut Frames,
    joined: &mut Joined,
) -> bool {
    let size = segment_size(held);
    let fits = same_headers(held, next)
        && !gro_ends(held)
        && len_fits(size, next)
        && held.len() - held.link.len() + next.body.len < max_size;
    if !fits {
        return false;
    }
    let Some(gso_type) = merged_ids(held, next) else { return false };
    match (&held.transport, &next.transport) {
        (Transport::Tcp(ours), Transport::Tcp(theirs)) => {
            let end = ours.seq + held.body.len;
            let differing = TcpFlags(ours.flags.0 ^ theirs.flags.0);
            // AE, CWR and ECE may be a counter: a change ends the super-packet.
            let may_differ = TcpFlags::FIN | TcpFlags::PSH;
            if theirs.seq != end
                || differing.without(may_differ) != TcpFlags(0)
                || (ours.src_port, ours.dst_port) != (theirs.src_port, theirs.dst_port)
                || (ours.ack, ours.window, ours.urgent)
                    != (theirs.ack, theirs.window, theirs.urgent)
                || ours.options != theirs.options
            {
                return false;
            }
        }
        (Transport::Udp(ours), Transport::Udp(theirs)) => {
            if ours != theirs || held.segments() >= UDP_GRO_MAX_SEGMENTS {
                return false;
            }
        }
        _ => return false,
    }
    let segments = held.segments() + next.segments();
    if !held.body.append(&next.body, pool, joined) {
        return false;
    }
    if let (Transport::Tcp(ours), Some(theirs)) = (&mut held.transport, next.tcp()) {
        ours.flags |= TcpFlags(theirs.flags.0 & (TcpFlags::FIN | TcpFlags::PSH).0);
    }
    held.meta.gso_size = size as u16;
    held.meta.gso_segs = segments as u16;
    held.gso_type = gso_type;
    if held.tcp().is_some_and(|tcp| tcp.flags.contains(TcpFlags::CWR)) {
        held.gso_type = gso_type | GsoType::ACC_ECN;
    }
    held.meta.truesize += next.meta.truesize;
    held.refresh_raw();
    held.meta.len += next.body.len;
    true
}

/// Whether a packet, merged or not, can take nothing more: it is flushed at once.
pub fn gro_ends(packet: &Packet) -> bool {
    let size = segment_size(packet);
    let flags = packet.tcp().map_or(TcpFlags(0), |tcp| tcp.flags);
    size == 0 || !packet.body.len.is_multiple_of(size) || flags.intersects(ENDING)
}

/// The payload of each segment but the last.
fn segment_size(packet: &Packet) -> u32 {
    match packet.meta.gso_size {
        0 => packet.body.len,
        size => u32::from(size),
    }
}

/// A segment may be smaller than those before, and then is the last one. A super-packet merges
/// only with others of the same segment size.
fn len_fits(size: u32, next: &Packet) -> bool {
    let fits_field = u16::try_from(size).is_ok();
    let fits = match next.meta.gso_size {
        0 => next.body.len <= size,
        theirs => u32::from(theirs) == size,
    };
    next.body.len != 0 && fits_field && fits
}

/// Everything before the transport header is the same, but for the IPv4 id; and so are raw
/// options.
fn same_headers(held: &Packet, next: &Packet) -> bool {
    let same_network = match (&held.network, &next.network) {
        (Network::Ipv4(ours), Network::Ipv4(theirs)) => {
            let mut theirs = *theirs;
            theirs.id = ours.id;
            *ours == theirs
        }
        (Network::Ipv6(ours), Network::Ipv6(theirs)) => ours == theirs,
        _ => false,
    };
    let padding = |packet: &Packet| packet.extra.as_ref().is_some_and(|extra| extra.trailer != 0);
    let flawless = [held, next].iter().all(|one| one.flaws() == Flaws::NONE && !padding(one));
    let same_extra = match (&held.extra, &next.extra) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.vlan == theirs.vlan && same_options(ours, theirs),
        (Some(extra), None) | (None, Some(extra)) => extra.vlan.is_empty() && extra.raw.is_empty(),
    };
    held.link == next.link && same_network && flawless && same_extra
}

/// Raw headers merge only if what makes them raw are the options of TCP, and those are equal.
fn same_options(ours: &Extra, theirs: &Extra) -> bool {
    if ours.raw.is_empty() && theirs.raw.is_empty() {
        return true;
    }
    let canonical_ip = |extra: &Extra| {
        let version =
            extra.raw.get(usize::from(extra.network_offset)).map_or(0, |first| first >> 4);
        let len = extra.transport_offset - extra.network_offset;
        (version, len) == (4, 20) || (version, len) == (6, 40)
    };
    let options_at = usize::from(ours.transport_offset) + 20;
    canonical_ip(ours)
        && ours.raw.len() == theirs.raw.len()
        && ours.transport_offset == theirs.transport_offset
        && ours.raw.get(options_at..) == theirs.raw.get(options_at..)
}

/// IPv4 ids must count up; where fragments are forbidden they may also all be the same, but not
/// first the one and then the other. `None` if they do neither.
fn merged_ids(held: &Packet, next: &Packet) -> Option<GsoType> {
    let (Network::Ipv4(ours), Network::Ipv4(theirs)) = (&held.network, &next.network) else {
        return Some(held.gso_type);
    };
    if ours.is_fragment() {
        return None;
    }
    let fixed = held.gso_type.contains(GsoType::FIXED_ID);
    let first_merge = held.segments() == 1;
    let counts_up = theirs.id == ours.id.wrapping_add(held.segments() as u16);
    if counts_up && !fixed {
        Some(held.gso_type)
    } else if ours.dont_fragment && theirs.id == ours.id && (fixed || first_merge) {
        Some(held.gso_type | GsoType::FIXED_ID)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
