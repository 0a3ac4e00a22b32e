//! What few connections need, kept out of the way of the others: in a box, made at first use.

use super::Connection;
use super::error_queue::{ErrorQueueEntry, Stamps};
use super::fastopen::FastOpen;
use super::mtu_probe::MtuProbe;
use super::urgent::Urgent;
use super::zerocopy::ZeroCopy;
use crate::packet::{Packet, TcpFlags};
use std::collections::VecDeque;

/// Everything unusual about a connection.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// SYNs have crossed: the window scale that ours offered.
    pub crossing_scale: Option<u8>,
    /// Fast Open.
    pub fast_open: FastOpen,
    /// Urgent data, both ways.
    pub urgent: Urgent,
    /// Path MTU probing.
    pub probe: MtuProbe,
    /// Time stamps for the sender's application.
    pub stamps: Stamps,
    /// Writes whose memory is shared.
    pub zerocopy: ZeroCopy,
    /// What waits for the application (`sk_error_queue`).
    pub error_queue: VecDeque<ErrorQueueEntry>,
    /// Headers of the SYN (`TCP_SAVE_SYN`).
    pub saved_syn: Vec<u8>,
    /// A writer waits for the handshake: its data will carry the ACK (`sk_write_pending`).
    pub write_pending: bool,
    /// Flags of the SYN-ACK of a passive Fast Open.
    pub syn_ack_flags: TcpFlags,
    /// SACK blocks of the ACK before, for the fast path of 2.6.22.
    pub sack_fast_path: super::recovery::SackFastPath,
    /// The route that the connection was opened over.
    pub route: super::RouteMetrics,
}

impl Connection {
    /// A writer waits for the connection to be established, or does so no longer.
    pub fn set_write_pending(&mut self, pending: bool) {
        if pending || self.rare.is_some() {
            self.rare().write_pending = pending;
        }
    }

    /// Keeps the headers of the SYN (`tcp_reqsk_record_syn`).
    pub(super) fn save_syn(&mut self, syn: &Packet) {
        if self.config.socket.save_syn == 0 {
            return;
        }
        let mut headers = Vec::new();
        syn.emit_headers(&mut headers);
        let link = if self.config.socket.save_syn == 1 { syn.link.len() as usize } else { 0 };
        self.rare().saved_syn = headers.split_off(link);
    }

    /// `TCP_SAVED_SYN`: the headers of the SYN, given once.
    pub fn take_saved_syn(&mut self) -> Vec<u8> {
        self.rare.as_mut().map(|rare| core::mem::take(&mut rare.saved_syn)).unwrap_or_default()
    }
}
