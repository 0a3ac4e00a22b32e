//! ICMP and ICMPv6 errors that quote packets of the host, or pretend to.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::segment::{Acks, SegmentContext, in_ip, octets};
use crate::oracle::frame::{pseudo_sum, sum};
use crate::oracle::tcp::ObservedFlow;

/// An ICMP message that quotes a segment of the host.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Icmp {
    /// Which flow, counted from the newest.
    pub flow: u16,
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The lower half of the second word: the MTU of "fragmentation needed".
    pub word: u32,
    /// What the quoted sequence number is relative to.
    pub of: Acks,
    /// The quoted sequence number less that.
    pub seq: i64,
    /// Bytes of the TCP header that are quoted.
    pub quoted: u8,
    /// The quoted ports are off by so much.
    pub port: u16,
    /// The checksum is wrong.
    pub damaged: bool,
}

impl Icmp {
    /// The bytes of the whole packet.
    pub fn bytes(&self, flow: &ObservedFlow, ends: &SegmentContext<'_>) -> Vec<u8> {
        let back = SegmentContext { peer: ends.host, host: ends.peer, ..*ends };
        let mut quoted = self.quoted_header(flow);
        quoted.truncate(usize::from(self.quoted));
        let quoted = in_ip(&quoted, 6, 0, 1, &back);
        let mut message = vec![self.kind, self.code, 0, 0];
        message.extend_from_slice(&self.word.to_be_bytes());
        message.extend_from_slice(&quoted);
        let (protocol, begin) = match ends.host {
            IpAddr::V4(_) => (1, 0),
            IpAddr::V6(_) => {
                let addresses = [octets(ends.peer), octets(ends.host)].concat();
                (58, pseudo_sum(58, message.len(), &addresses))
            }
        };
        let checksum = !sum(&message, begin) ^ u16::from(self.damaged);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        in_ip(&message, protocol, 0, 7, ends)
    }

    /// The sequence number that is quoted.
    pub fn number(&self, flow: &ObservedFlow) -> u32 {
        let base = flow.present().map_or(0, |out| match self.of {
            Acks::All => out.end,
            Acks::Old => out.acked,
        });
        base.wrapping_add(self.seq as u32)
    }

    fn quoted_header(&self, flow: &ObservedFlow) -> Vec<u8> {
        let mut header = Vec::with_capacity(20);
        header.extend_from_slice(&flow.ports.0.wrapping_add(self.port).to_be_bytes());
        header.extend_from_slice(&flow.ports.1.to_be_bytes());
        header.extend_from_slice(&self.number(flow).to_be_bytes());
        header.extend_from_slice(&flow.host_ack.unwrap_or(0).to_be_bytes());
        header.extend_from_slice(&[0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        header
    }
}
