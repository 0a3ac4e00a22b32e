//! Memory that calls are given: buffers, vectors, `struct msghdr`.

use super::values::{int, len_of};
use crate::ast::{Expr, ExprKind, MsgHdr};
use crate::fault::{Fault, Pos};
use datapath::socket::{Buffer, Iov};

/// `..., n`: a buffer; `NULL, n`: a bad one.
pub(super) fn buffer(memory: &Expr, len: &Expr) -> Result<Iov, Fault> {
    let len = len_of(len)?;
    match &memory.kind {
        ExprKind::Ellipsis | ExprKind::Str(_) => Ok(Iov::One(Buffer::of(len))),
        _ if int(memory)? == 0 => Ok(Iov::One(Buffer::faulty(len))),
        _ => Err(Fault::new(memory.pos, "memory is `...` or NULL", "")),
    }
}

/// `[{..., 10}, {..., 20}], 2`.
pub(super) fn vector(list: &Expr, count: i64) -> Result<Iov, Fault> {
    match &list.kind {
        ExprKind::List(list_inner) => pieces(list_inner, count, list.pos),
        _ => Err(Fault::new(list.pos, "a list of `{..., length}` is missing", "")),
    }
}

/// The pieces of a vector, whose number is said a second time.
pub(super) fn pieces(list: &[Expr], count: i64, pos: Pos) -> Result<Iov, Fault> {
    if count != list.len() as i64 {
        let what = format!("{count} elements are announced, {} are given", list.len());
        return Err(Fault::new(pos, what, "make the numbers agree"));
    }
    list.iter()
        .map(|piece| match &piece.kind {
            ExprKind::Iovec(len) => Ok(Buffer::of(*len as u64)),
            _ => Err(Fault::new(piece.pos, "expected `{..., length}`", "")),
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Iov::Many)
}

/// `{msg_name(...)=..., msg_iov(1)=[…], …}`.
pub(super) fn message_header(expr: &Expr) -> Result<&MsgHdr, Fault> {
    match &expr.kind {
        ExprKind::MsgHdr(header) => Ok(header),
        _ => Err(Fault::new(expr.pos, "expected `{msg_name(...)=..., msg_iov(1)=[…], …}`", "")),
    }
}
