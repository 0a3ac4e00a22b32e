//! What a reader is given of a datagram, and of an error with what it is about (`udp_recvmsg`, `ip_recv_error`).

use super::DatagramSocket;
use crate::host::{Datagram, Host};
use crate::packet::Body;
use crate::socket::answer::{Data, Received, Return, SyscallResult};
use crate::socket::argument::{Control, ExtendedError, Iov};
use crate::socket::errno::Errno;
use crate::socket::number::{MSG_ERRQUEUE, MSG_TRUNC, SO_EE_ORIGIN_LOCAL};

/// What a reader gets to see of a payload.
fn fetched(body: &Body, skipped: u32, iov: &Iov) -> Vec<u8> {
    if !iov.fetches() {
        return Vec::new();
    }
    let mut bytes = body.bytes().to_vec();
    bytes.resize(body.len as usize, 0);
    bytes.drain(..skipped as usize);
    bytes.truncate(iov.len() as usize);
    bytes
}

impl DatagramSocket {
    /// What a read gives of a datagram, a peek perhaps without what comes before its offset (`udp_recvmsg`).
    pub(super) fn received(
        &self,
        datagram: &Datagram,
        skipped: u32,
        control: Vec<Control>,
        iov: &Iov,
        flags: i32,
    ) -> Return {
        let room = iov.len();
        let len = u64::from(datagram.body.len);
        let left = len - u64::from(skipped);
        // Less than the whole is cut, though it be all that is left.
        let cut = room <= left && room < len;
        let message = Received {
            from: Some(self.shown(datagram.from)),
            flags: if cut { MSG_TRUNC } else { 0 },
            control,
            bytes: fetched(&datagram.body, skipped, iov),
        };
        let value = if flags & MSG_TRUNC != 0 { len } else { left.min(room) };
        Return { value: value as i64, data: Data::Message(message) }
    }

    /// `MSG_ERRQUEUE`: an ICMP error and what it quotes (`ip_recv_error`).
    pub(super) fn receive_error(&self, host: &mut Host, iov: &Iov) -> SyscallResult {
        let id = self.id.ok_or(Errno::EAGAIN)?;
        let told = host.udp_take_icmp(id).unwrap_or_default().ok_or(Errno::EAGAIN)?;
        let errno = Errno::from(told.error);
        let local = ExtendedError {
            errno: errno.number(),
            origin: SO_EE_ORIGIN_LOCAL as u8,
            ..ExtendedError::default()
        };
        let error = told.icmp.map_or(local, |icmp| ExtendedError::of_icmp(icmp, errno));
        // By the family of the socket, whatever it has spoken.
        let error = ExtendedError { info: told.info, ipv6: self.ipv6, ..error };
        let quoted = u64::from(told.payload.len);
        let cut = quoted > iov.len();
        let message = Received {
            from: Some(self.shown(told.remote)),
            flags: MSG_ERRQUEUE | if cut { MSG_TRUNC } else { 0 },
            control: vec![Control::ExtendedError(error)],
            bytes: fetched(&told.payload, 0, iov),
        };
        Ok(Return { value: quoted.min(iov.len()) as i64, data: Data::Message(message) })
    }
}
