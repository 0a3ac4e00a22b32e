//! Sequence numbers and windows.

/// Whether `a` lies behind `b` (RFC 9293 section 3.4).
pub const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// `TCP_MAX_WSCALE`.
pub(super) const MAX_SCALE: u8 = 14;
/// The peer's numbers do not jump further.
pub(super) const FAR: u32 = 1 << 24;
