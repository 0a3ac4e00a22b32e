//! A network interface of a host: its queue, its credit and its settings (`struct net_device`).

use crate::packet::{Link, MacAddr, Packet};
use crate::qdisc::{Backlog, Cx, Enqueue};
use crate::reason::Reason;
use core::net::IpAddr;
use std::collections::VecDeque;

/// What a port is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Largest network-layer packet in bytes (`dev->mtu`).
    pub mtu: u32,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its own link-layer address.
    pub mac: MacAddr,
    /// The link-layer address of the far end: every link of the simulated world has one.
    pub peer_mac: MacAddr,
    /// Whether frames carry an Ethernet header.
    pub ethernet: bool,
    /// Longest queue in packets (`txqueuelen`).
    pub queue_limit: u32,
    /// What the device and the stack cut and merge.
    pub offloads: Offloads,
}

/// Segmentation offloads, as `ethtool -k` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offloads {
    /// `generic-segmentation-offload`: the stack builds super-packets, cut right above the device.
    pub gso: bool,
    /// `tcp-segmentation-offload`: the device takes super-packets whole.
    pub tso: bool,
    /// `generic-receive-offload`: arriving segments are merged.
    pub gro: bool,
}

/// Counters of one interface (`ip -s link`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets handed to the device.
    pub tx_packets: u64,
    /// Bytes handed to the device.
    pub tx_bytes: u64,
    /// Packets that the queue dropped.
    pub tx_dropped: u64,
}

/// One interface of a host.
#[derive(Debug)]
pub struct HostPort {
    /// What the driver set.
    pub config: PortConfig,
    /// Counters.
    pub stats: PortStats,
    queue: VecDeque<Packet>,
    queue_bytes: u32,
    credits: u32,
    up: bool,
    /// In the host's list of ports with something to send.
    pub(super) listed: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            addresses: Vec::new(),
            mac: MacAddr::default(),
            peer_mac: MacAddr::default(),
            ethernet: true,
            queue_limit: 1000,
            offloads: Offloads::default(),
        }
    }
}

impl HostPort {
    pub(super) fn new(config: PortConfig) -> Self {
        Self {
            config,
            stats: PortStats::default(),
            queue: VecDeque::new(),
            queue_bytes: 0,
            credits: 0,
            up: true,
            listed: false,
        }
    }

    /// The link-layer header of a frame that leaves here.
    pub(super) fn link_header(&self) -> Link {
        if self.config.ethernet {
            Link::Ethernet { dst: self.config.peer_mac, src: self.config.mac }
        } else {
            Link::None
        }
    }

    /// Queues a packet that is to leave here (`__dev_queue_xmit`).
    pub(super) fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        let reason = if !self.up {
            Reason::LinkDown
        } else if self.queue.len() >= self.config.queue_limit as usize {
            Reason::QdiscOverlimit
        } else {
            self.queue_bytes += packet.wire_len();
            self.queue.push_back(packet);
            return Enqueue::Queued;
        };
        self.stats.tx_dropped += 1;
        cx.drop(reason, packet);
        Enqueue::Dropped
    }

    /// The next packet for the wire, if the port has credit for it.
    pub(super) fn dequeue(&mut self) -> Option<Packet> {
        if self.credits == 0 {
            return None;
        }
        let packet = self.queue.pop_front()?;
        self.credits -= 1;
        self.queue_bytes -= packet.wire_len();
        self.stats.tx_packets += u64::from(packet.segments());
        self.stats.tx_bytes += u64::from(packet.wire_len());
        Some(packet)
    }

    /// True if there is something to send and room to send it.
    pub(super) fn can_send(&self) -> bool {
        self.credits > 0 && !self.queue.is_empty()
    }

    pub(super) fn grant(&mut self) {
        self.credits += 1;
    }

    /// Takes the interface up or down; what waits in a queue that goes down is dropped
    /// (`dev_deactivate`).
    pub(super) fn set_up(&mut self, up: bool, cx: &mut Cx<'_>) {
        self.up = up;
        if !up {
            self.queue_bytes = 0;
            self.stats.tx_dropped += self.queue.len() as u64;
            for packet in self.queue.drain(..) {
                cx.drop(Reason::LinkDown, packet);
            }
        }
    }

    /// Whether the interface is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// What waits to be sent.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u32, bytes: self.queue_bytes }
    }

    /// The first address of the same family as `other`.
    pub fn address_like(&self, other: IpAddr) -> Option<IpAddr> {
        self.config.addresses.iter().map(|(ip, _)| *ip).find(|ip| ip.is_ipv4() == other.is_ipv4())
    }
}
