//! What applications do with TCP sockets (`tcp_v4_connect`, `tcp_sendmsg`, `tcp_close`, …).

use super::TcpSocket;
use crate::host::{Host, SocketError};
use crate::tcp::config::TcpConfig;
use crate::tcp::{Connection, Gate, Payload, SocketError as NetworkError, TcpRead};
use crate::units::Instant;
use core::net::SocketAddr;
use std::sync::Arc;

impl Host {
    /// Begins to connect (`connect(2)`, not blocking): `WRITABLE` tells when it is established.
    /// Port 0 means any; an unspecified address means that of the route.
    ///
    /// # Errors
    /// All ports towards `remote` are in use (`EADDRNOTAVAIL`).
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
    ) -> Result<u32, SocketError> {
        self.tcp_connect_with(now, local, remote, config, None)
    }

    /// The same, with data to send: as much of it goes with the SYN as Fast Open allows.
    ///
    /// # Errors
    /// As above.
    pub fn tcp_connect_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &TcpConfig,
        fast_open: Option<Payload<'_>>,
    ) -> Result<u32, SocketError> {
        let local = self.bind_local(local, remote)?;
        let ends = self.endpoints(now, local, remote, config);
        let id = self.reserve_socket(now);
        let config = Arc::new(config.clone());
        let gate = Gate::default();
        let connection =
            self.with_cx(now, gate, |cx| Connection::connect(id, config, ends, fast_open, cx));
        self.install_connection(id, connection, None);
        Ok(id)
    }

    /// Writes up to `bytes`; gives how many were taken (0: wait for `WRITABLE`).
    pub fn tcp_write(&mut self, now: Instant, id: u32, bytes: u64) -> u64 {
        self.with_connection(now, id, |tcp, cx| tcp.write(bytes, false, cx)).unwrap_or(0)
    }

    /// Writes as much of `bytes` as there is room for; gives how many were taken (0: wait for
    /// `WRITABLE`). They are copied once, and kept until they are acknowledged.
    pub fn tcp_send(&mut self, now: Instant, id: u32, bytes: &[u8]) -> u64 {
        self.with_connection(now, id, |tcp, cx| tcp.write_bytes(bytes, false, cx)).unwrap_or(0)
    }

    /// Reads into `memory` as many bytes as it has room for; what was sent as a length is zeroes.
    pub fn tcp_receive(&mut self, now: Instant, id: u32, memory: &mut [u8]) -> TcpRead {
        if self.tcp_connection(id).is_some_and(Connection::would_block) {
            return TcpRead::WouldBlock;
        }
        self.with_connection(now, id, |tcp, cx| tcp.read_into(memory, cx)).unwrap_or(TcpRead::Reset)
    }

    /// Reads up to `max` bytes.
    pub fn tcp_read(&mut self, now: Instant, id: u32, max: u64) -> TcpRead {
        if self.tcp_connection(id).is_some_and(Connection::would_block) {
            return TcpRead::WouldBlock;
        }
        self.with_connection(now, id, |tcp, cx| tcp.read(max, cx)).unwrap_or(TcpRead::Reset)
    }

    /// `shutdown(SHUT_WR)`.
    pub fn tcp_shutdown(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::shutdown_write);
    }

    /// `close(2)`.
    pub fn tcp_close(&mut self, now: Instant, id: u32) {
        match self.tcp_socket_mut(id) {
            Some(TcpSocket::Connection(_)) => {
                self.with_connection(now, id, Connection::close);
            }
            Some(TcpSocket::Listener(_)) => self.close_listener(now, id),
            None => {}
        }
    }

    /// Resets the connection.
    pub fn tcp_abort(&mut self, now: Instant, id: u32) {
        self.with_connection(now, id, Connection::abort);
    }

    /// `getsockopt(SO_ERROR)`.
    pub fn tcp_take_any_error(&mut self, id: u32) -> Option<NetworkError> {
        match self.tcp_socket_mut(id)? {
            TcpSocket::Connection(socket) => socket.connection.take_any_error(),
            TcpSocket::Listener(_) => None,
        }
    }

    /// The error that ended a connection, once.
    pub fn tcp_take_error(&mut self, id: u32) -> Option<NetworkError> {
        match self.tcp_socket_mut(id)? {
            TcpSocket::Connection(socket) => socket.connection.take_error(),
            TcpSocket::Listener(_) => None,
        }
    }
}
