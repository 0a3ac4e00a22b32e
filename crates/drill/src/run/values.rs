//! Names and numbers of arguments.

use crate::ast::{Action, Expr, ExprKind, Script};
use crate::fault::{Fault, Pos};
use datapath::socket::{Errno, number};

/// The number that an argument stands for.
pub(super) fn int(expr: &Expr) -> Result<i64, Fault> {
    match &expr.kind {
        ExprKind::Int(number) => Ok(*number),
        ExprKind::Word(name) => symbol(expr.pos, name),
        ExprKind::Or(terms) => terms.iter().try_fold(0, |bits, term| Ok(bits | int(term)?)),
        ExprKind::InAddr(address) => Ok(i64::from(u32::from_ne_bytes(address.octets()))),
        _ => Err(Fault::new(expr.pos, "this is not a number", "a number, or names joined by `|`")),
    }
}

/// The number in `[…]`.
pub(super) fn bracketed(expr: &Expr) -> Result<i64, Fault> {
    match &expr.kind {
        ExprKind::List(list) if list.len() == 1 => int(&list[0]),
        ExprKind::List(list) if list.is_empty() => Ok(0),
        _ => Err(Fault::new(expr.pos, "expected `[number]`", "put the number in brackets")),
    }
}

/// A number that fits in an `int`.
pub(super) fn i32_of(expr: &Expr) -> Result<i32, Fault> {
    let value = int(expr)?;
    i32::try_from(value)
        .or_else(|_| u32::try_from(value).map(|it| it as i32))
        .map_err(|_| Fault::new(expr.pos, format!("{value} does not fit in an int"), "32 bits"))
}

/// A length in bytes. `size_t`: a negative one is absurdly large, and the call says so.
pub(super) fn len_of(expr: &Expr) -> Result<u64, Fault> {
    Ok(int(expr)? as u64)
}

fn symbol(pos: Pos, name: &str) -> Result<i64, Fault> {
    if let Some(number) = number::by_name(name) {
        return Ok(number);
    }
    if let Some(errno) = Errno::by_name(name) {
        return Ok(errno.number().into());
    }
    if let Some((_, number)) = MORE.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    let mut known = number::NAMES.to_vec();
    known.extend(MORE.iter().map(|(name, _)| *name));
    known.extend(Errno::ALL.iter().map(|(_, name, _)| *name));
    Err(Fault::unknown(pos, "name", name, &known))
}

/// Names of the language that are no part of the socket API.
const MORE: [(&str, i64); 18] = [
    ("NULL", 0),
    ("SCM_TIMESTAMPING_OPT_STATS", 54),
    ("TCP_NLA_PAD", 0),
    ("TCP_NLA_BUSY", 1),
    ("TCP_NLA_RWND_LIMITED", 2),
    ("TCP_NLA_SNDBUF_LIMITED", 3),
    ("TCP_NLA_DATA_SEGS_OUT", 4),
    ("TCP_NLA_TOTAL_RETRANS", 5),
    ("TCP_NLA_PACING_RATE", 6),
    ("TCP_NLA_DELIVERY_RATE", 7),
    ("TCP_NLA_SND_CWND", 8),
    ("TCP_NLA_REORDERING", 9),
    ("TCP_NLA_MIN_RTT", 10),
    ("TCP_NLA_RECUR_RETRANS", 11),
    ("TCP_NLA_DELIVERY_RATE_APP_LMT", 12),
    ("TCP_NLA_SNDQ_SIZE", 13),
    ("TCP_NLA_CA_STATE", 14),
    ("TCP_NLA_SND_SSTHRESH", 15),
];

/// The first thing in a script that has no meaning without a kernel.
pub(super) fn needs_a_kernel(script: &Script) -> Option<Fault> {
    let calls = || {
        script.events.iter().filter_map(|event| match &event.action {
            Action::Call(call) => Some(call),
            _ => None,
        })
    };
    let first = |words: &[(&str, &'static str)]| {
        calls().find_map(|call| call.args.iter().find_map(|arg| expr_needs(arg, words)))
    };
    let by_name = calls().find_map(|call| {
        let (_, why) = CALLS.iter().find(|(name, _)| call.name.starts_with(name))?;
        Some(Fault::no_meaning(call.pos, *why))
    });
    by_name.or_else(|| first(&WORDS))
}

fn expr_needs(expr: &Expr, words: &[(&str, &'static str)]) -> Option<Fault> {
    match &expr.kind {
        ExprKind::Word(name) => words
            .iter()
            .find(|(word, _)| *word == name.as_str())
            .map(|(_, why)| Fault::no_meaning(expr.pos, *why)),
        ExprKind::Or(list) | ExprKind::List(list) | ExprKind::Braces(list) => {
            list.iter().find_map(|it| expr_needs(it, words))
        }
        ExprKind::Mpls(_) | ExprKind::Gre(_) => {
            Some(Fault::no_meaning(expr.pos, "tunnels by socket options are not modelled"))
        }
        ExprKind::MsgHdr(message) => message.control.iter().find_map(|it| expr_needs(it, words)),
        ExprKind::EpollEvent(event) => expr_needs(&event.events, words),
        ExprKind::PollFd(poll) => {
            poll.revents.as_ref().and_then(|revents| expr_needs(revents, words))
        }
        ExprKind::Cmsg(control) => {
            expr_needs(&control.kind, words).or_else(|| expr_needs(&control.data, words))
        }
        ExprKind::ExtendedError(error) => error.fields.iter().find_map(|it| expr_needs(it, words)),
        _ => None,
    }
}

const ZEROCOPY: &str = "zero-copy depends on pages of memory, and payload here is only a length";
const STATS: &str = "statistics in time-stamp messages are not modelled";

const WORDS: [(&str, &str); 7] = [
    ("SOCK_RAW", "sockets other than those of TCP and UDP are not modelled"),
    ("IPPROTO_ICMP", "sockets other than those of TCP and UDP are not modelled"),
    ("IPPROTO_ICMPV6", "sockets other than those of TCP and UDP are not modelled"),
    ("TCP_ZEROCOPY_RECEIVE", ZEROCOPY),
    ("IPPROTO_MPTCP", "Multipath TCP is not modelled"),
    ("SCM_TIMESTAMPING_OPT_STATS", STATS),
    ("SOF_TIMESTAMPING_OPT_STATS", STATS),
];

const CALLS: [(&str, &str); 3] = [
    ("psp_", "PSP needs keys that only a device has"),
    ("cap_set", "capabilities belong to processes of a kernel"),
    ("sctp_", "SCTP is not modelled"),
];
