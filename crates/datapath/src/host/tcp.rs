//! The seam between a host and its TCP connections.

use super::Host;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::tcp::config::TcpConfig;
use crate::units::Instant;
use core::net::SocketAddr;

/// One TCP socket: listener or connection.
#[derive(Debug, Default)]
pub struct TcpSocket {}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpRead {
    /// That many bytes were there and are now taken.
    Data(u64),
    /// Nothing yet.
    WouldBlock,
    /// The peer has sent everything.
    Eof,
    /// The connection is gone.
    Reset,
}

impl Host {
    /// Listens at `local` (`listen(2)`).
    pub fn tcp_listen(&mut self, _local: SocketAddr, _config: &TcpConfig) -> u32 {
        u32::MAX
    }

    /// Begins to connect (`connect(2)`, not blocking).
    pub fn tcp_connect(
        &mut self,
        _now: Instant,
        _local: SocketAddr,
        _remote: SocketAddr,
        _config: &TcpConfig,
    ) -> u32 {
        u32::MAX
    }

    /// The next connection that a listener has (`accept(2)`).
    pub fn tcp_accept(&mut self, _now: Instant, _listener: u32) -> Option<u32> {
        None
    }

    /// Writes up to `bytes`; gives how many were taken (0: wait for `WRITABLE`).
    pub fn tcp_write(&mut self, _now: Instant, _id: u32, _bytes: u64) -> u64 {
        0
    }

    /// Reads up to `max` bytes.
    pub fn tcp_read(&mut self, _now: Instant, _id: u32, _max: u64) -> TcpRead {
        TcpRead::Reset
    }

    /// `shutdown(SHUT_WR)`.
    pub fn tcp_shutdown(&mut self, _now: Instant, _id: u32) {}

    /// `close(2)`.
    pub fn tcp_close(&mut self, _now: Instant, _id: u32) {}

    /// Resets the connection.
    pub fn tcp_abort(&mut self, _now: Instant, _id: u32) {}

    pub(super) fn deliver_tcp(&mut self, _now: Instant, packet: Packet) {
        self.drop_packet(Reason::NoSocket, packet);
    }

    pub(super) fn tcp_timer(&mut self, _now: Instant, _id: u32) {}

    pub(super) fn tcp_wfree(&mut self, _now: Instant, _id: u32, _truesize: u32) {}
}
