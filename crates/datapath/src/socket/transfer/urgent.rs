//! Urgent data (`tcp_recv_urg`).

use crate::host::{Host, SocketId};
use crate::socket::answer::{Data, Received, Return, SyscallResult};
use crate::socket::argument::Iov;
use crate::socket::errno::Errno;
use crate::socket::number;
use crate::tcp::state::State;
use crate::tcp::{Connection, UrgentRead};
use crate::units::Instant;

/// The reader stands at an urgent byte.
pub(super) fn stops_at_urgent(host: &Host, id: SocketId) -> bool {
    host.tcp_connection(id).is_some_and(Connection::at_urgent_mark)
}

/// `MSG_OOB`: the urgent byte (`tcp_recv_urg`).
pub(super) fn receive_urgent(
    now: Instant,
    host: &mut Host,
    id: SocketId,
    iov: &Iov,
    flags: i32,
) -> SyscallResult {
    let peek = flags & number::MSG_PEEK != 0;
    let (read, closed, byte) = host
        .with_tcp(now, id, |tcp, _| {
            let closed = tcp.state() == State::Close || tcp.is_shut().0;
            (tcp.read_urgent(peek), closed, tcp.urgent_byte())
        })
        .map_err(|_| Errno::ENOTCONN)?;
    let mut message = Received { flags: number::MSG_OOB, ..Received::default() };
    match read {
        UrgentRead::Byte if iov.is_empty() => {
            message.flags |= number::MSG_TRUNC;
            Ok(Return { value: 0, data: Data::Message(message) })
        }
        UrgentRead::Byte => {
            if iov.fetches() {
                message.bytes.push(byte);
            }
            Ok(Return { value: 1, data: Data::Message(message) })
        }
        UrgentRead::None => Err(Errno::EINVAL),
        UrgentRead::Awaited if closed => {
            Ok(Return { value: 0, data: Data::Message(Received::default()) })
        }
        UrgentRead::Awaited => Err(Errno::EAGAIN),
    }
}
