//! Connection tracking, as far as `nat` needs it.

use crate::packet::FlowTuple;
use core::fmt::Debug;

/// Tells what a flow was called before addresses were translated (`cake_update_flowkeys`).
///
/// With `nat`, hosts behind a translating router are told apart by their inner addresses. Whoever
/// owns the translation table plugs it in.
pub trait Conntrack: Debug + Send + Sync {
    /// The flow of a packet of `flow` as the other side of the translation sees it, in the
    /// direction of the packet; `None` if the connection is not tracked.
    fn original(&self, flow: &FlowTuple) -> Option<FlowTuple>;
}
