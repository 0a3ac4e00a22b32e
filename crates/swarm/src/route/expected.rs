//! What a command is expected to do.

use datapath::fib::NextHop;

use super::steps::Hop;

/// The expected result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is carried out.
    Done,
    /// `EEXIST`.
    Exists,
    /// `ENOENT` or `ESRCH`.
    Missing,
    /// `EINVAL`.
    Invalid,
}

/// Whether `wanted` names the next hop that is there.
pub(super) fn same_hop(wanted: &Hop, there: &NextHop) -> bool {
    u16::from(wanted.port) == there.hop.port
        && wanted.gateway.is_none_or(|gateway| Some(gateway) == there.hop.gateway)
}
