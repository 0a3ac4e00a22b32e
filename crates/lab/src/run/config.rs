//! From a node's words to the configuration of its connections.

use datapath::tcp::config::{SysctlError, TcpConfig};

use crate::plan::{FlowPlan, NodePlan};

/// The configuration of `flow`'s connections at `node`, where they send with `tos`.
pub fn tcp(node: &NodePlan, flow: &FlowPlan, tos: u8) -> Result<TcpConfig, String> {
    let mut profile = node.profile.clone();
    if let Some(detector) = node.lost_retransmit {
        profile.lost_retransmit = detector;
    }
    let mut config = TcpConfig::for_profile(profile);
    for setting in &node.sysctls {
        config.sysctl.set(&setting.name, &setting.value).map_err(|error| match error {
            SysctlError::Unknown => format!("no sysctl {} is modelled", setting.name),
            SysctlError::Value(problem) => problem,
        })?;
    }
    if let Some(algorithm) = flow.congestion_control.or(node.congestion_control) {
        config.congestion_control = algorithm;
    }
    config.tos = tos;
    Ok(config)
}
