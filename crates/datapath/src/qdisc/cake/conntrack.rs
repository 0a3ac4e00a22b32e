//! Connection tracking, as far as `nat` needs it.

use crate::packet::FlowTuple;
use core::fmt::Debug;

/// Finds the addresses and ports of a flow before translation (`cake_update_flowkeys`).
///
/// With `nat`, hosts behind a translating router are distinguished by their inner addresses. The
/// owner of the translation table implements this trait.
pub trait Conntrack: Debug + Send + Sync {
    /// The flow of a packet of `flow` as the other side of the translation sees it, in the
    /// direction of the packet; `None` if the connection is not tracked.
    fn original(&self, flow: &FlowTuple) -> Option<FlowTuple>;
}
