//! Control messages: what the script sends with `sendmsg`, and what `recvmsg` is to give.

use super::values::int;
use crate::ast::{Cmsg, Expr, ExprKind};
use crate::fault::Fault;
use datapath::socket::{Control, ExtendedError, number};
use datapath::units::Instant;

/// The clock that time stamps are compared on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub start: Instant,
    pub tolerance_usecs: i64,
}

fn cmsg(expr: &Expr) -> Result<&Cmsg, Fault> {
    match &expr.kind {
        ExprKind::Cmsg(control) => Ok(control),
        _ => Err(Fault::new(expr.pos, "expected `{cmsg_level=…, cmsg_type=…, cmsg_data=…}`", "")),
    }
}

/// A control message that the script sends.
pub(super) fn sent(expr: &Expr) -> Result<Control, Fault> {
    let control = cmsg(expr)?;
    let (level, kind) = (int(&control.level)? as i32, int(&control.kind)? as i32);
    let value = int(&control.data)? as i32;
    Ok(match (level, kind) {
        (number::SOL_SOCKET, number::SO_TIMESTAMPING) => Control::TimestampingFlags(value),
        (number::SOL_IP, number::IP_TOS) if (0..=255).contains(&value) => {
            Control::IpTos(value as u8)
        }
        (number::SOL_IP, number::IP_TTL) => Control::IpTtl(value),
        (number::SOL_IPV6, number::IPV6_TCLASS) => Control::Ipv6TrafficClass(value),
        (number::SOL_IPV6, number::IPV6_HOPLIMIT) => Control::Ipv6HopLimit(value),
        (number::SOL_UDP, number::UDP_SEGMENT) => Control::UdpSegment(value as u16),
        _ => Control::Other { level, kind, value },
    })
}

/// Field, expected and actual value of the first difference.
type FirstDifference = Option<(String, String, String)>;

/// Compares what the script expects with what came, in order.
pub(super) fn differs(
    expected: &[Expr],
    actual: &[Control],
    clock: Clock,
) -> Result<FirstDifference, Fault> {
    for (index, expr) in expected.iter().enumerate() {
        let control = cmsg(expr)?;
        let field = |part: &str| format!("msg_control[{index}].{part}");
        let Some(actual) = actual.get(index) else {
            let have = format!("{} messages", actual.len());
            return Ok(Some((
                "msg_control".to_owned(),
                format!("{} messages", expected.len()),
                have,
            )));
        };
        let (level, kind) = level_and_type(actual);
        let wanted = (int(&control.level)? as i32, int(&control.kind)? as i32);
        if wanted.0 != level {
            return Ok(Some((field("cmsg_level"), wanted.0.to_string(), level.to_string())));
        }
        if wanted.1 != kind {
            return Ok(Some((field("cmsg_type"), wanted.1.to_string(), kind.to_string())));
        }
        if let Some((part, expected, actual)) = data_differs(&control.data, actual, clock)? {
            return Ok(Some((field(&part), expected, actual)));
        }
    }
    if actual.len() > expected.len() {
        let count = |len: usize| format!("{len} messages");
        return Ok(Some(("msg_control".to_owned(), count(expected.len()), count(actual.len()))));
    }
    Ok(None)
}

const fn level_and_type(control: &Control) -> (i32, i32) {
    match control {
        Control::TcpInq(_) => (number::SOL_TCP, number::TCP_CM_INQ),
        Control::Timestamping(_) => (number::SOL_SOCKET, number::SCM_TIMESTAMPING),
        Control::TimestampingFlags(_) => (number::SOL_SOCKET, number::SO_TIMESTAMPING),
        Control::ExtendedError(ExtendedError { ipv6: false, .. }) => {
            (number::SOL_IP, number::IP_RECVERR)
        }
        Control::ExtendedError(_) => (number::SOL_IPV6, number::IPV6_RECVERR),
        Control::IpTos(_) => (number::SOL_IP, number::IP_TOS),
        Control::IpTtl(_) => (number::SOL_IP, number::IP_TTL),
        Control::Ipv6TrafficClass(_) => (number::SOL_IPV6, number::IPV6_TCLASS),
        Control::Ipv6HopLimit(_) => (number::SOL_IPV6, number::IPV6_HOPLIMIT),
        Control::IpPktInfo { .. } => (number::SOL_IP, number::IP_PKTINFO),
        Control::Ipv6PktInfo { .. } => (number::SOL_IPV6, number::IPV6_PKTINFO),
        Control::IpOrigDstAddr(_) => (number::SOL_IP, number::IP_ORIGDSTADDR),
        Control::Ipv6OrigDstAddr(_) => (number::SOL_IPV6, number::IPV6_ORIGDSTADDR),
        Control::UdpSegment(_) => (number::SOL_UDP, number::UDP_SEGMENT),
        Control::UdpGro(_) => (number::SOL_UDP, number::UDP_GRO),
        Control::Other { level, kind, .. } => (*level, *kind),
    }
}

fn data_differs(expected: &Expr, actual: &Control, clock: Clock) -> Result<FirstDifference, Fault> {
    let part = || "cmsg_data".to_owned();
    match (&expected.kind, actual) {
        (ExprKind::ScmTimestamping(0, 0), Control::Timestamping(_)) => Ok(None),
        (ExprKind::ScmTimestamping(sec, nsec), Control::Timestamping(at)) => {
            let wanted = sec * 1_000_000 + nsec / 1_000;
            let came = at.saturating_since(clock.start).as_micros() as i64;
            let off = (wanted - came).abs() > clock.tolerance_usecs;
            let shown = crate::show::seconds;
            Ok(off.then(|| (part(), shown(wanted), shown(came))))
        }
        (ExprKind::ExtendedError(fields), Control::ExtendedError(error)) => {
            let actual = [
                i64::from(error.errno),
                error.origin.into(),
                error.kind.into(),
                error.code.into(),
                error.info.into(),
                error.data.into(),
            ];
            let names = ["ee_errno", "ee_origin", "ee_type", "ee_code", "ee_info", "ee_data"];
            for ((name, expected), actual) in names.into_iter().zip(&fields.fields).zip(actual) {
                let expected = int(expected)?;
                if expected != actual {
                    return Ok(Some((name.to_owned(), expected.to_string(), actual.to_string())));
                }
            }
            Ok(None)
        }
        (
            _,
            Control::TcpInq(value)
            | Control::TimestampingFlags(value)
            | Control::IpTtl(value)
            | Control::Ipv6TrafficClass(value)
            | Control::Ipv6HopLimit(value)
            | Control::UdpGro(value)
            | Control::Other { value, .. },
        ) => {
            let expected = int(expected)? as i32;
            Ok((expected != *value).then(|| (part(), expected.to_string(), value.to_string())))
        }
        (_, Control::IpTos(value)) => {
            let expected = int(expected)?;
            let same = expected == i64::from(*value);
            Ok((!same).then(|| (part(), expected.to_string(), value.to_string())))
        }
        _ => Err(Fault::new(expected.pos, "data of another kind than that of the message", "")),
    }
}
