//! `ss -tio` of all hosts at chosen times of a run.

use datapath::units::{Duration, Instant};
use iproute::ss::SocketView;
use serde_json::{Value as Json, json};
use sim::link::NodeId;

use super::build::BuiltWorld;
use crate::plan::{Plan, Role};

/// When the sockets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SsAt {
    /// At this time, before anything else that happens then.
    Time(Duration),
    /// When the run has ended.
    End,
}

/// The TCP connections of one host at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketDump {
    /// When.
    pub at: Instant,
    /// The host's name.
    pub node: String,
    /// Its connections, in the order of their numbers.
    pub sockets: Vec<SocketView>,
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

impl SocketDump {
    /// As `ss -tino` prints it, below a line that says when and where.
    pub fn text(&self) -> String {
        let nanos = self.at.as_nanos();
        let mut out = format!(
            "# {} at {}.{:06} s\n",
            self.node,
            nanos / 1_000_000_000,
            nanos / 1_000 % 1_000_000
        );
        out.push_str(&iproute::ss::head());
        out.extend(self.sockets.iter().map(iproute::ss::text));
        out
    }

    /// As an object.
    pub fn to_json(&self) -> Json {
        json!({
            "time_ns": self.at.as_nanos(),
            "node": self.node,
            "sockets": self.sockets.iter().map(iproute::ss::json).collect::<Vec<_>>(),
        })
    }
}
