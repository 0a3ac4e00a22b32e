//! From a node's words to the configuration of its connections.

use datapath::tcp::config::TcpConfig;

use crate::plan::{FlowPlan, NodePlan};

/// The configuration of `flow`'s connections at `node`.
pub fn tcp(_node: &NodePlan, _flow: &FlowPlan) -> Result<TcpConfig, String> {
    Ok(TcpConfig::default())
}
