//! What a multipath hash depends on under each policy: exactly the hashed fields change it, and both directions have
//! the same hash.

use core::net::IpAddr;

use datapath::fib::hash::{Policy, hash};
use datapath::fib::{Fields, HashInput, Settings};

use crate::draw::Draw;

/// The parts of a header chain, in the order of the bits of `fib_multipath_hash_fields`.
const PARTS: [Part; 6] =
    [Part::Src, Part::Dst, Part::Protocol, Part::Label, Part::SrcPort, Part::DstPort];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Src,
    Dst,
    Protocol,
    Label,
    SrcPort,
    DstPort,
}

/// A part of the packet itself, or of the packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Outer,
    Inner,
    Quoted,
}

/// Changes one part at a time, under each policy.
pub fn check(settings: &Settings, flow: &HashInput, draw: &mut Draw) -> Result<(), String> {
    let fields = settings.hashed(flow.outer.dst.is_ipv6()).fields;
    for policy in [Policy::L3, Policy::L4, Policy::Inner, Policy::Custom] {
        let of = |flow: &HashInput| hash(policy, fields, settings.key, flow);
        let whole = of(flow);
        for place in [Layer::Outer, Layer::Inner, Layer::Quoted] {
            for (bit, part) in PARTS.into_iter().enumerate() {
                let Some(other) = changed(flow, place, part, draw) else { continue };
                let counts = counts(policy, fields.number(), flow, place, bit, part);
                if (of(&other) != whole) != counts {
                    return Err(format!(
                        "{policy:?} with fields {:#x}: {part:?} of {place:?} counts: {counts}; \
                         {flow:?} has the hash {whole:#x}, {other:?} {:#x}",
                        fields.number(),
                        of(&other)
                    ));
                }
            }
        }
        if of(&reversed(flow)) != whole && !is_one_sided(policy, fields.number()) {
            return Err(format!("{policy:?}: {flow:?} has another hash in the other direction"));
        }
    }
    Ok(())
}

/// Whether a part is hashed (`fib_multipath_hash`, `rt6_multipath_hash`).
fn counts(
    policy: Policy,
    fields: u32,
    flow: &HashInput,
    place: Layer,
    bit: usize,
    part: Part,
) -> bool {
    let chosen = match policy {
        Policy::Inner if flow.inner.is_some() => Layer::Inner,
        Policy::L3 if flow.quoted.is_some() => Layer::Quoted,
        // Policy 2 does not look into errors (`ip_multipath_hash_inner`).
        Policy::L3 | Policy::L4 | Policy::Inner => Layer::Outer,
        Policy::Custom => {
            let shift = match place {
                Layer::Outer => 0,
                Layer::Inner => 6,
                Layer::Quoted => return false,
            };
            return fields >> shift & 1 << bit != 0;
        }
    };
    let v6 = of(flow, chosen).is_some_and(|fields| fields.src.is_ipv6());
    let is_hashed = match part {
        Part::Src | Part::Dst => true,
        Part::Protocol => v6 || policy == Policy::L4,
        Part::Label => v6 && policy != Policy::L4,
        Part::SrcPort | Part::DstPort => policy == Policy::L4,
    };
    place == chosen && is_hashed
}

fn of(flow: &HashInput, place: Layer) -> Option<Fields> {
    match place {
        Layer::Outer => Some(flow.outer),
        Layer::Inner => flow.inner,
        Layer::Quoted => flow.quoted,
    }
}

/// The flow with another value in one part; `None` where there is no such part.
fn changed(flow: &HashInput, place: Layer, part: Part, draw: &mut Draw) -> Option<HashInput> {
    let mut fields = of(flow, place)?;
    let mut flow = *flow;
    let bit = draw.range(0..=15) as u16;
    match part {
        Part::Src => fields.src = flipped_address(fields.src, bit),
        Part::Dst => fields.dst = flipped_address(fields.dst, bit),
        Part::Protocol => {
            fields.protocol ^= 1 << (bit % 8);
            if place == Layer::Outer {
                flow.l3_protocol ^= 1 << (bit % 8);
            }
        }
        Part::Label if fields.src.is_ipv4() => return None,
        Part::Label => fields.flow_label ^= 1 << bit,
        Part::SrcPort => fields.src_port ^= 1 << bit,
        Part::DstPort => fields.dst_port ^= 1 << bit,
    }
    match place {
        Layer::Outer => flow.outer = fields,
        Layer::Inner => flow.inner = Some(fields),
        Layer::Quoted => flow.quoted = Some(fields),
    }
    Some(flow)
}

/// One bit differs.
fn flipped_address(address: IpAddr, bit: u16) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() ^ 1 << (bit + 8)).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() ^ 1 << (bit * 7)).into()),
    }
}

fn reversed(flow: &HashInput) -> HashInput {
    HashInput {
        outer: flow.outer.reversed(),
        inner: flow.inner.map(Fields::reversed),
        quoted: flow.quoted.map(Fields::reversed),
        ..*flow
    }
}

/// Policy 3 may choose the fields of one side only.
fn is_one_sided(policy: Policy, fields: u32) -> bool {
    let pair = |one: u32, other: u32| (fields >> one & 1) == (fields >> other & 1);
    policy == Policy::Custom && !(pair(0, 1) && pair(4, 5) && pair(6, 7) && pair(10, 11))
}
