//! The connection that a script talks about, and how its numbers map to those on the wire.
//!
//! A script counts from its own initial sequence numbers: SYNs carry what the script says, all
//! other segments count from them. The host chooses its own; the first SYN or SYN-ACK tells which.

use crate::ast::OptionSpec;
use crate::wire::{Offsets, WireEnds};
use core::net::SocketAddr;
use datapath::socket::Fd;
use std::collections::BTreeMap;

/// How far a connection has got, as far as the script's side can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `socket()`.
    New,
    /// `listen()`.
    Listening,
    /// A SYN came in.
    SynIn,
    /// The SYN-ACK went out.
    SynAckOut,
    /// The SYN-ACK was acknowledged.
    Accepted,
    /// `connect()`.
    Connecting,
    /// The SYN went out.
    SynOut,
    /// The SYN-ACK came in.
    Connected,
}

/// A connection of the script.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    pub phase: Phase,
    /// Its transport: TCP unless `socket()` said otherwise.
    pub protocol: Protocol,
    /// The script's descriptor.
    pub script_fd: Option<i64>,
    /// The descriptor at the host.
    pub fd: Option<Fd>,
    /// The two ends on the wire, as far as they are known.
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// Initial sequence numbers: the script's, and those on the wire.
    pub script_local_isn: u32,
    pub live_local_isn: u32,
    pub live_remote_isn: u32,
    /// TS values of the script and what was on the wire.
    timestamps: BTreeMap<u32, u32>,
    /// The first TS values seen: script, wire.
    first_timestamp: Option<(u32, u32)>,
    /// The flow label of the script and that on the wire.
    flow_label: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

impl Conn {
    pub fn new(phase: Phase, protocol: Protocol) -> Self {
        Self {
            phase,
            protocol,
            script_fd: None,
            fd: None,
            local: None,
            remote: None,
            script_local_isn: 0,
            live_local_isn: 0,
            live_remote_isn: 0,
            timestamps: BTreeMap::new(),
            first_timestamp: None,
            flow_label: None,
        }
    }

    pub fn ends(&self) -> Option<WireEnds> {
        Some(WireEnds { local: self.local?, remote: self.remote? })
    }

    /// What to add to the script's numbers.
    pub fn offsets(&self, syn: bool) -> Offsets {
        if syn {
            let local = self.live_local_isn.wrapping_sub(self.script_local_isn);
            Offsets { remote: 0, local }
        } else {
            Offsets { remote: self.live_remote_isn, local: self.live_local_isn }
        }
    }

    /// Learns from an outbound packet which TS value stands for the script's, and moves the TS
    /// value of `actual` to the script's clock.
    pub fn learn_timestamps(&mut self, spec: &[OptionSpec], actual: &mut [OptionSpec]) {
        let said = spec.iter().find_map(|option| match option {
            OptionSpec::Timestamps(value, _) => Some(*value),
            _ => None,
        });
        let sent = actual.iter_mut().find_map(|option| match option {
            OptionSpec::Timestamps(value, _) => Some(value),
            _ => None,
        });
        if let (Some(said), Some(sent)) = (said, sent) {
            self.timestamps.insert(said, *sent);
            let (first_said, first_sent) = *self.first_timestamp.get_or_insert((said, *sent));
            *sent = first_said.wrapping_add(sent.wrapping_sub(first_sent));
        }
    }

    /// The TS value on the wire that the script means by `echo`.
    pub fn echoed(&self, echo: u32, scaled: bool) -> Option<u32> {
        if let Some(sent) = self.timestamps.get(&echo) {
            return Some(*sent);
        }
        let (said, sent) = self.first_timestamp.filter(|_| scaled)?;
        Some(echo.wrapping_sub(said).wrapping_add(sent))
    }

    /// Compares a flow label: the same one in the script means the same one on the wire, another
    /// one another. Gives what is wrong.
    pub fn check_flow_label(&mut self, said: u32, sent: u32) -> Option<&'static str> {
        if said == 0 {
            return None;
        }
        if sent == 0 {
            return Some("no flow label");
        }
        let Some((known_said, known_sent)) = self.flow_label else {
            self.flow_label = Some((said, sent));
            return None;
        };
        if said == known_said {
            return (sent != known_sent).then_some("another flow label than before");
        }
        if sent == known_sent {
            return Some("the same flow label as before");
        }
        self.flow_label = Some((said, sent));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_map_both_ways() {
        let mut conn = Conn::new(Phase::New, Protocol::Tcp);
        let mut sent = [OptionSpec::Timestamps(5_000, 1)];
        conn.learn_timestamps(&[OptionSpec::Timestamps(100, 1)], &mut sent);
        assert_eq!(sent, [OptionSpec::Timestamps(100, 1)]);
        let mut later = [OptionSpec::Timestamps(5_040, 1)];
        conn.learn_timestamps(&[OptionSpec::Timestamps(139, 1)], &mut later);
        assert_eq!(later, [OptionSpec::Timestamps(140, 1)]);
        assert_eq!((conn.echoed(139, false), conn.echoed(120, false)), (Some(5_040), None));
        assert_eq!(conn.echoed(120, true), Some(5_020));
    }

    #[test]
    fn flow_labels_are_compared_with_those_before() {
        let mut conn = Conn::new(Phase::New, Protocol::Tcp);
        assert_eq!(conn.check_flow_label(0, 0), None);
        assert!(conn.check_flow_label(1, 0).is_some());
        assert_eq!(conn.check_flow_label(1, 77), None);
        assert!(conn.check_flow_label(1, 78).is_some());
        assert!(conn.check_flow_label(2, 77).is_some());
        assert_eq!(conn.check_flow_label(2, 78), None);
    }
}
