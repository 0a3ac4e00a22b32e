//! The names that scripts give to ICMP and ICMPv6 types and codes (RFC 792, RFC 1122, RFC 4443).

use crate::fault::{Fault, Pos};
use crate::parse::Family;

type Names = &'static [(&'static str, u8)];

/// The type of that name; `type_N` stands for any number.
pub fn kind(family: Family, name: &str) -> Option<u8> {
    numbered(name, "type_").or_else(|| find(kinds(family), name))
}

/// The code of that name in messages of type `kind`; `code_N` stands for any number.
pub fn code(family: Family, kind: u8, name: &str) -> Option<u8> {
    numbered(name, "code_").or_else(|| find(codes(family, kind), name))
}

/// The name of a type.
pub fn kind_name(family: Family, number: u8) -> String {
    name_of(kinds(family), number).unwrap_or_else(|| format!("type_{number}"))
}

/// The name of a code.
pub fn code_name(family: Family, kind: u8, number: u8) -> String {
    name_of(codes(family, kind), number).unwrap_or_else(|| format!("code_{number}"))
}

/// The fault of a type that is none.
pub fn unknown_kind(pos: Pos, family: Family, name: &str) -> Fault {
    let known: Vec<&str> = kinds(family).iter().map(|(name, _)| *name).collect();
    Fault::unknown(pos, "ICMP type", name, &known)
}

/// The fault of a code that is none.
pub fn unknown_code(pos: Pos, family: Family, kind: u8, name: &str) -> Fault {
    let known: Vec<&str> = codes(family, kind).iter().map(|(name, _)| *name).collect();
    Fault::unknown(pos, "ICMP code", name, &known)
}

fn numbered(name: &str, prefix: &str) -> Option<u8> {
    name.strip_prefix(prefix)?.parse().ok()
}

fn find(names: Names, name: &str) -> Option<u8> {
    names.iter().find(|(it, _)| *it == name).map(|(_, number)| *number)
}

fn name_of(names: Names, number: u8) -> Option<String> {
    names.iter().find(|(_, it)| *it == number).map(|(name, _)| (*name).to_owned())
}

const fn kinds(family: Family) -> Names {
    match family {
        Family::V4 => &[
            ("echo_reply", 0),
            ("unreachable", 3),
            ("source_quench", 4),
            ("redirect", 5),
            ("echo_request", 8),
            ("time_exceeded", 11),
            ("parameter_problem", 12),
            ("timestamp_request", 13),
            ("timestamp_reply", 14),
            ("information_request", 15),
            ("information_reply", 16),
            ("address_mask_request", 17),
            ("address_mask_reply", 18),
        ],
        Family::V6 => &[
            ("unreachable", 1),
            ("packet_too_big", 2),
            ("time_exceeded", 3),
            ("parameter_problem", 4),
            ("echo_request", 128),
            ("echo_reply", 129),
        ],
    }
}

const fn codes(family: Family, kind: u8) -> Names {
    match (family, kind) {
        (Family::V4, 3) => &[
            ("net_unreachable", 0),
            ("host_unreachable", 1),
            ("protocol_unreachable", 2),
            ("port_unreachable", 3),
            ("frag_needed", 4),
            ("source_route_failed", 5),
            ("net_unknown", 6),
            ("host_unknown", 7),
            ("source_host_isolated", 8),
            ("net_prohibited", 9),
            ("host_prohibited", 10),
            ("net_unreachable_for_tos", 11),
            ("host_unreachable_for_tos", 12),
            ("packet_filtered", 13),
            ("precedence_violation", 14),
            ("precedence_cutoff", 15),
        ],
        (Family::V6, 1) => &[
            ("no_route", 0),
            ("net_unreachable", 0),
            ("admin_prohibited", 1),
            ("not_neighbour", 2),
            ("address_unreachable", 3),
            ("port_unreachable", 4),
        ],
        (Family::V6, 3) => &[("exceeded_hop_limit", 0), ("exceeded_frag_time", 1)],
        (Family::V6, 4) => {
            &[("header_field", 0), ("unknown_next_header", 1), ("unknown_option", 2)]
        }
        _ => &[],
    }
}
