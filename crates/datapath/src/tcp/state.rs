//! Connection states (RFC 9293 section 3.3.2), with the kernel's numbers.

/// State of a connection (`TCP_ESTABLISHED`, …).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Data flows.
    Established = 1,
    /// SYN sent.
    SynSent = 2,
    /// SYN received, SYN-ACK sent.
    SynRecv = 3,
    /// FIN sent, not acknowledged.
    FinWait1 = 4,
    /// FIN acknowledged, the peer still sends.
    FinWait2 = 5,
    /// Both ends closed; old segments may still arrive.
    TimeWait = 6,
    /// Nothing.
    Close = 7,
    /// The peer has closed, we have not.
    CloseWait = 8,
    /// The peer has closed, our FIN is not acknowledged yet.
    LastAck = 9,
    /// Waiting for connections.
    Listen = 10,
    /// Both sent FIN, ours is not acknowledged yet.
    Closing = 11,
}

impl State {
    /// The application may still send.
    pub const fn can_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// Handshake done and not closed.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynRecv | Self::Close | Self::Listen)
    }

    /// Data may still be sent or retransmitted from the queue (`tcp_tsq_write`).
    pub const fn may_transmit(self) -> bool {
        matches!(
            self,
            Self::Established | Self::FinWait1 | Self::Closing | Self::CloseWait | Self::LastAck
        )
    }

    /// The name that `ss` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTAB",
            Self::SynSent => "SYN-SENT",
            Self::SynRecv => "SYN-RECV",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Close => "UNCONN",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }
}
