//! Kinds of TCP options (IANA TCP parameters).

/// End of option list.
pub const EOL: u8 = 0;
/// No operation.
pub const NOP: u8 = 1;
/// Maximum segment size (RFC 9293).
pub const MSS: u8 = 2;
/// Window scale (RFC 7323).
pub const WINDOW_SCALE: u8 = 3;
/// SACK permitted (RFC 2018).
pub const SACK_PERMITTED: u8 = 4;
/// SACK (RFC 2018).
pub const SACK: u8 = 5;
/// Timestamps (RFC 7323).
pub const TIMESTAMPS: u8 = 8;
/// MD5 signature (RFC 2385).
pub const MD5: u8 = 19;
/// TCP-AO (RFC 5925).
pub const AO: u8 = 29;
/// Multipath TCP (RFC 8684).
pub const MPTCP: u8 = 30;
/// Fast Open cookie (RFC 7413).
pub const FAST_OPEN: u8 = 34;
/// Accurate ECN, order 0 (RFC 9768).
pub const ACC_ECN_0: u8 = 172;
/// Accurate ECN, order 1 (RFC 9768).
pub const ACC_ECN_1: u8 = 174;
/// Shared experimental option (RFC 6994), with a 16-bit identifier.
pub const EXPERIMENTAL: u8 = 254;
