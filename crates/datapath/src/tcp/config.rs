//! What a socket or a sysctl sets about TCP.

/// Settings of one TCP socket.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TcpConfig {}
