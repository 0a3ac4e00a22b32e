//! `ss -tio` of all hosts at chosen times of a run.

use datapath::units::Duration;
use iproute::ss::SocketView;
use sim::link::NodeId;

use super::build::BuiltWorld;
use crate::plan::{Plan, Role};
use crate::results::SocketDump;

/// When the sockets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SsAt {
    /// At this time, before anything else that happens then.
    Time(Duration),
    /// When the run has ended.
    End,
}

impl core::str::FromStr for SsAt {
    type Err = String;

    /// `end`, or a time as in experiment files.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "end" {
            return Ok(Self::End);
        }
        let time = crate::plan::quantity::time(text)?;
        Ok(Self::Time(time))
    }
}

/// Looks at every host that has connections.
pub fn list_sockets(plan: &Plan, built: &BuiltWorld) -> Vec<SocketDump> {
    let at = built.world.now();
    let mut dumps = Vec::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        if node.role == Role::Router {
            continue;
        }
        let host = built.world.host(NodeId(index as u32));
        let sockets: Vec<SocketView> =
            host.tcp_connections().map(|tcp| SocketView::of(tcp, at)).collect();
        if !sockets.is_empty() {
            dumps.push(SocketDump { at, node: node.name.clone(), sockets });
        }
    }
    dumps
}
