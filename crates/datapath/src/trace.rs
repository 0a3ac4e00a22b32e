//! The event stream: every decision worth asking about, as a typed event with the kernel's
//! tracepoint names. Tests, pcapng comments, `--explain` and plots read the same stream.

use crate::tcp::seq::Seq;

/// Something that happened inside a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The socket that it happened to, as numbered by its host.
    pub socket: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A segment went out again (`tcp:tcp_retransmit_skb`).
    Retransmit {
        /// First byte.
        seq: Seq,
        /// Just past the last byte.
        end_seq: Seq,
    },
}
