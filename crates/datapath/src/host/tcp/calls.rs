//! What applications do with TCP sockets (`tcp_v4_connect`, `tcp_sendmsg`, `tcp_close`, …).

use super::TcpSocket;
use crate::host::{Host, SocketError, SocketId};
use crate::tcp::config::TcpConfig;
use crate::tcp::{Connection, Ends, Gate, Payload, SocketError as NetworkError, TcpRead};
use crate::units::Instant;
use core::net::SocketAddr;

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
    ) -> Result<SocketId, SocketError> {
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
    ) -> Result<SocketId, SocketError> {
        let local = self.bind_local(now, local, remote)?;
        let mut ends = self.endpoints(now, Ends { local, remote }, config);
        self.take_over_time_wait(now, &mut ends);
        let id = self.reserve_socket(now, config);
        let config = config.clone().shared();
        let gate = Gate::default();
        let connection =
            self.with_cx(now, gate, |cx| Connection::connect(id, config, ends, fast_open, cx));
        self.install_connection(id, connection, None);
        Ok(self.sockets.id(id))
    }

    /// Writes up to `bytes`; gives how many were taken (0: wait for `WRITABLE`).
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_write(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: u64,
    ) -> Result<u64, SocketError> {
        let slot = self.sockets.slot(id)?;
        let taken = self.with_connection(now, slot, |tcp, cx| tcp.write(bytes, false, cx));
        taken.ok_or(SocketError::WrongKind)
    }

    /// Writes as much of `bytes` as there is room for; gives how many were taken (0: wait for
    /// `WRITABLE`). They are copied once, and kept until they are acknowledged.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
    ) -> Result<u64, SocketError> {
        let slot = self.sockets.slot(id)?;
        let taken = self.with_connection(now, slot, |tcp, cx| tcp.write_bytes(bytes, false, cx));
        taken.ok_or(SocketError::WrongKind)
    }

    /// Reads into `memory` as many bytes as it has room for; what was sent as a length is zeroes.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_receive(
        &mut self,
        now: Instant,
        id: SocketId,
        memory: &mut [u8],
    ) -> Result<TcpRead, SocketError> {
        let slot = self.sockets.slot(id)?;
        if self.connection_at(slot).is_some_and(Connection::would_block) {
            return Ok(TcpRead::WouldBlock);
        }
        let read = self.with_connection(now, slot, |tcp, cx| tcp.read_into(memory, cx));
        read.ok_or(SocketError::WrongKind)
    }

    /// Reads up to `max` bytes.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_read(
        &mut self,
        now: Instant,
        id: SocketId,
        max: u64,
    ) -> Result<TcpRead, SocketError> {
        let slot = self.sockets.slot(id)?;
        if self.connection_at(slot).is_some_and(Connection::would_block) {
            return Ok(TcpRead::WouldBlock);
        }
        if let Some(bytes) = self.read_in_place(now, slot, max) {
            return Ok(TcpRead::Data(bytes));
        }
        let read = self.with_connection(now, slot, |tcp, cx| tcp.read(max, cx));
        read.ok_or(SocketError::WrongKind)
    }

    /// Reads without lending the connection out, which would take as long as the read: most reads find bytes in order
    /// and change nothing else.
    #[inline]
    fn read_in_place(&mut self, now: Instant, slot: u32, max: u64) -> Option<u64> {
        if self.is_traced() {
            return None;
        }
        self.begin_syscall(now);
        let version = self.routes_version;
        let TcpSocket::Connection(socket) = self.tcp_socket_mut(slot)? else { return None };
        if socket.routes_seen != version {
            return None;
        }
        let bytes = socket.connection.read_bytes(now, max)?;
        if socket.connection.ack_after_read(bytes) {
            self.with_connection(now, slot, Connection::ack_read);
        }
        Some(u64::from(bytes))
    }

    /// `shutdown(SHUT_WR)`.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_shutdown(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.with_tcp(now, id, Connection::shutdown_write)
    }

    /// `close(2)`.
    ///
    /// # Errors
    /// It is not an open TCP socket.
    pub fn tcp_close(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.tcp_socket_mut(slot).ok_or(SocketError::WrongKind)? {
            TcpSocket::Connection(_) => self.with_tcp(now, id, Connection::close),
            TcpSocket::Listener(_) => {
                self.close_listener(now, slot);
                Ok(())
            }
        }
    }

    /// Resets the connection.
    ///
    /// # Errors
    /// It is not an open connection.
    pub fn tcp_abort(&mut self, now: Instant, id: SocketId) -> Result<(), SocketError> {
        self.with_tcp(now, id, Connection::abort)
    }

    /// `getsockopt(SO_ERROR)`.
    ///
    /// # Errors
    /// It is not an open TCP socket.
    pub fn tcp_take_any_error(
        &mut self,
        id: SocketId,
    ) -> Result<Option<NetworkError>, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.tcp_socket_mut(slot).ok_or(SocketError::WrongKind)? {
            TcpSocket::Connection(socket) => Ok(socket.connection.take_any_error()),
            TcpSocket::Listener(_) => Ok(None),
        }
    }

    /// The error that ended a connection, once.
    ///
    /// # Errors
    /// It is not an open TCP socket.
    pub fn tcp_take_error(&mut self, id: SocketId) -> Result<Option<NetworkError>, SocketError> {
        let slot = self.sockets.slot(id)?;
        match self.tcp_socket_mut(slot).ok_or(SocketError::WrongKind)? {
            TcpSocket::Connection(socket) => Ok(socket.connection.take_error()),
            TcpSocket::Listener(_) => Ok(None),
        }
    }
}
