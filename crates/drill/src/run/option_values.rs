//! Values of socket options: written, and compared.

use super::values::{bracketed, int};
use crate::ast::{Expr, ExprKind};
use crate::fault::Fault;
use datapath::socket::{OptionValue, number};

/// The value that `setsockopt` is given.
pub(super) fn option_value(level: i32, name: i32, expr: &Expr) -> Result<OptionValue, Fault> {
    let text_option = matches!(
        (level, name),
        (number::SOL_TCP, number::TCP_CONGESTION | number::TCP_ULP)
            | (number::SOL_SOCKET, number::SO_BINDTODEVICE)
    );
    match &expr.kind {
        ExprKind::List(list) if list.len() <= 1 => Ok(OptionValue::Number(bracketed(expr)?)),
        ExprKind::List(_) => Err(Fault::new(expr.pos, "an option of several numbers", "one")),
        ExprKind::Linger(on, seconds) => {
            Ok(OptionValue::Linger { on: *on != 0, seconds: *seconds as u32 })
        }
        ExprKind::Str(bytes) if text_option => {
            Ok(OptionValue::Text(String::from_utf8_lossy(bytes).into_owned()))
        }
        ExprKind::Str(bytes) => Ok(OptionValue::Bytes(bytes.clone())),
        ExprKind::In6Addr(address) => Ok(OptionValue::Bytes(address.octets().to_vec())),
        ExprKind::Ellipsis => Ok(OptionValue::Fault),
        _ if int(expr)? == 0 => Ok(OptionValue::Fault),
        _ => Err(Fault::new(expr.pos, "a plain number", "put it in brackets: `[1]`")),
    }
}

/// Expected and actual value of an option, if they differ.
pub(super) fn option_differs(
    expected: &Expr,
    len: i64,
    actual: &OptionValue,
) -> Result<Option<(String, String)>, Fault> {
    let pair = match (&expected.kind, actual) {
        (ExprKind::List(_), OptionValue::Number(actual)) => {
            let expected = bracketed(expected)?;
            // Four bytes are compared.
            (expected as i32 != *actual as i32).then(|| (expected.to_string(), actual.to_string()))
        }
        (ExprKind::Str(bytes), OptionValue::Text(text)) => {
            let expected = String::from_utf8_lossy(bytes).into_owned();
            let shown: String = text.chars().take(usize::try_from(len).unwrap_or(0)).collect();
            (expected.trim_end_matches('\0') != shown).then_some((expected, shown))
        }
        (ExprKind::Str(bytes), OptionValue::Bytes(actual)) => {
            (bytes != actual).then(|| (format!("{bytes:02x?}"), format!("{actual:02x?}")))
        }
        (ExprKind::Linger(on, seconds), OptionValue::Linger { on: actual_on, seconds: actual }) => {
            let same = (*on != 0) == *actual_on && *seconds as u32 == *actual;
            (!same).then(|| {
                (format!("{{{on}, {seconds}}}"), format!("{{{}, {actual}}}", u8::from(*actual_on)))
            })
        }
        (ExprKind::Ellipsis, _) => None,
        (_, actual) => {
            let what = "this option is not compared with such a value";
            return Err(Fault::new(expected.pos, what, format!("it is {actual:?}")));
        }
    };
    Ok(pair)
}
