//! From a node's words to the configuration of its connections.

use core::net::IpAddr;
use datapath::host::Host;
use datapath::tcp::config::{SysctlError, TcpConfig};

use crate::plan::{FlowPlan, NodePlan};

/// The configuration of `flow`'s connections at `node`, where they send from the address `own` with `tos`.
pub fn tcp(node: &NodePlan, flow: &FlowPlan, own: IpAddr, tos: u8) -> Result<TcpConfig, String> {
    let mut profile = node.profile.clone();
    if let Some(detector) = node.lost_retransmit {
        profile.lost_retransmit = detector;
    }
    profile.sack_fast_path |= node.sack_fast_path;
    profile.forward_retransmits |= node.forward_retransmits;
    if let Some(rule) = node.dctcp_ack {
        profile = profile.with_dctcp_ack(rule);
    }
    let mut config = TcpConfig::for_profile(profile);
    config.initial_ssthresh = node.initial_ssthresh;
    config.dctcp = node.dctcp;
    config.dctcp_syn_ect = node.dctcp_syn_ect;
    for setting in node.sysctls.iter().filter(|it| !Host::IP_SYSCTLS.contains(&&*it.name)) {
        config.sysctl.set(&setting.name, &setting.value).map_err(|error| match error {
            SysctlError::Unknown => format!("sysctl {} is not modelled", setting.name),
            SysctlError::Value(problem) => problem,
        })?;
    }
    if let Some(algorithm) = flow.congestion_control.or(node.congestion_control) {
        config.congestion_control = algorithm;
    }
    match own {
        IpAddr::V4(_) => config.set_tos(tos),
        // A traffic class sets no priority.
        IpAddr::V6(_) => config.tos = tos,
    }
    Ok(config)
}
