//! Echo requests of both hosts, and what comes back.

use core::net::IpAddr;
use std::collections::BTreeSet;

use datapath::host::{Host, SocketId};
use datapath::units::Instant;

/// The ping socket of one host.
#[derive(Debug, Default)]
pub struct Pings {
    socket: Option<SocketId>,
    sent: u16,
    /// Sequence numbers and lengths of the requests.
    asked: BTreeSet<(u16, u32)>,
}

impl Pings {
    /// Sends a request; the socket is opened for the first.
    pub fn send(&mut self, now: Instant, host: &mut Host, remote: IpAddr, len: u32) -> bool {
        let socket = *self.socket.get_or_insert_with(|| host.ping_open(now));
        self.sent = self.sent.wrapping_add(1);
        let sent = host.ping_send(now, socket, remote, self.sent, len, 0);
        if sent.is_ok() {
            self.asked.insert((self.sent, len));
        }
        sent.is_ok()
    }

    /// Each answer is one to a request, with its bytes.
    pub fn read(&mut self, host: &mut Host) -> Result<u64, String> {
        let mut count = 0;
        let Some(socket) = self.socket else { return Ok(0) };
        while let Some(answer) = host.datagram_read(socket).expect("is open") {
            count += 1;
            let told = (answer.sequence.expect("of an echo reply"), answer.body.len);
            if !self.asked.contains(&told) {
                return Err(format!("an unsolicited answer {told:?}"));
            }
        }
        Ok(count)
    }

    /// The socket is closed.
    pub fn close(&mut self, host: &mut Host) {
        if let Some(socket) = self.socket.take() {
            host.datagram_close(socket).expect("is open");
        }
    }
}
