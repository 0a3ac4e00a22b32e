//! The backlog of a machine (`softnet_data`): what a virtual device has taken in a softirq belongs to its sender until
//! the far end's turn comes in the same softirq. TCP Small Queues count it for so long.

use super::room::Charge;
use super::{Host, Socket, SocketId, TcpSocket};
use crate::node::Port;
use crate::packet::{Meta, Packet};
use crate::tcp::{Connection, truesize_of_segments};
use crate::units::Instant;

/// Packets that lie in it, of one host.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// What the host does now it does in a softirq; in a system call each packet is received before it goes on.
    in_softirq: bool,
    charges: Vec<Charge>,
    /// Memory that the segments of the packet sent last take beyond its own.
    cut_extra: u32,
}

impl Host {
    /// The host is a name space of a machine whose softirqs its driver plays: `in_softirq` until said otherwise.
    #[cold]
    pub fn enter_softirq(&mut self, in_softirq: bool) {
        self.backlog.get_or_insert_default().in_softirq = in_softirq;
    }

    /// Whether what leaves now stays in a backlog.
    #[inline]
    pub(super) fn is_in_softirq(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.in_softirq)
    }

    /// A packet is about to be cut: its segments are charged for what they take (`tcp_gso_segment`).
    #[cold]
    pub(super) fn charge_segments(&mut self, linear: bool, packet: &mut Packet) {
        let Meta { truesize, gso_size, .. } = packet.meta;
        let len = packet.body.len;
        let all = truesize_of_segments(linear, len, gso_size.into(), truesize.saturating_sub(len));
        packet.meta.truesize = all.max(truesize);
        self.backlog.get_or_insert_default().cut_extra = packet.meta.truesize - truesize;
    }

    #[inline]
    pub(super) fn take_cut_extra(&mut self) -> u32 {
        self.backlog.as_mut().map_or(0, |backlog| core::mem::take(&mut backlog.cut_extra))
    }

    /// A packet that its owner has yet to get back lies in the backlog.
    #[cold]
    pub(super) fn keep_in_backlog(&mut self, charge: Charge) {
        self.backlog.get_or_insert_default().charges.push(charge);
    }

    /// As [`credit`](Self::credit), but the packet's owner gets its memory back only by
    /// [`backlog_received`](Self::backlog_received), if this is a softirq. True if it has to be called.
    #[cold]
    pub fn credit_backlog(&mut self, now: Instant, port: Port) -> bool {
        if self.is_in_softirq() {
            let left = self.make_room(now, port);
            if left.has_owner() {
                self.keep_in_backlog(left);
            }
        } else {
            self.credit(now, port);
        }
        self.has_backlog()
    }

    /// Whether packets lie in the backlog.
    pub fn has_backlog(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| !backlog.charges.is_empty())
    }

    /// What lay in the backlog has been received: its owners have their memory back (`tcp_wfree`), and the one that
    /// waited for it last goes on first (`tcp_tsq_workfn`), except for the socket that a program holds; to be polled.
    #[cold]
    pub fn backlog_received(&mut self, now: Instant, held: Option<SocketId>) {
        let Some(backlog) = &mut self.backlog else { return };
        let charges = core::mem::take(&mut backlog.charges);
        self.begin(now);
        let mut throttled = Vec::new();
        for charge in charges {
            match self.sockets.get_mut(charge.owner) {
                Some(Socket::Tcp(TcpSocket::Connection(socket))) => {
                    if socket.connection.transmit_done(charge.truesize)
                        && !throttled.contains(&charge.owner)
                    {
                        throttled.push(charge.owner);
                    }
                }
                _ => self.give_back(now, charge),
            }
        }
        for owner in throttled.into_iter().rev() {
            if held.is_none_or(|held| held.index() != owner as usize) {
                self.with_connection(now, owner, Connection::resume_output);
            } else if let Some(TcpSocket::Connection(socket)) = self.tcp_socket_mut(owner) {
                socket.connection.put_off_output();
            }
        }
    }

    /// A program lets go of a socket, which goes on if it has been stopped (`tcp_release_cb`); to be polled.
    #[cold]
    pub fn let_go_on(&mut self, now: Instant, socket: SocketId) {
        self.begin(now);
        let _is_gone = self.with_tcp(now, socket, |tcp, cx| {
            if tcp.waits_for_memory() {
                tcp.resume_output(cx);
            }
        });
    }
}
