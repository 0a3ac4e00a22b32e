//! Why a packet was dropped: the kernel's `enum skb_drop_reason`, by name; and what its sender is told.

/// A drop reason. [`Reason::name`] gives the kernel's spelling where the kernel has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The qdisc was full or refused the packet (`QDISC_DROP`).
    QdiscDrop,
    /// The qdisc's limit was exceeded (`QDISC_OVERLIMIT`).
    QdiscOverlimit,
    /// An AQM decided to drop (`QDISC_CONGESTED`).
    QdiscCongested,
    /// It waited longer in dualpi2's L-queue than the step allows, and cannot be marked (`DUALPI2_STEP_DROP`).
    DualPi2StepDrop,
    /// CAKE's BLUE dropped an unresponsive flow's packet (`CAKE_FLOOD`).
    CakeFlood,
    /// A policer dropped it (`TC_INGRESS` action verdict).
    Police,
    /// The ACK filter removed a redundant ACK (no kernel reason: `ack_drops` counts it).
    AckFilter,
    /// Random or ruled loss on a link (the emulated wire's doing).
    LinkLoss,
    /// The frame was damaged on the link, or the checksum of its IPv4 header is wrong (`IP_CSUM`).
    Checksum,
    /// The checksum of its TCP segment is wrong (`TCP_CSUM`).
    TcpChecksum,
    /// The checksum of its datagram is wrong (`UDP_CSUM`).
    UdpChecksum,
    /// The checksum of its ICMP message is wrong (`ICMP_CSUM`).
    IcmpChecksum,
    /// It is shorter than a header says, or than the header itself (`PKT_TOO_SMALL`).
    PacketTooSmall,
    /// Nobody here takes its protocol (`IP_NOPROTO`).
    NoProtocol,
    /// The rest of the packet that this is a piece of did not come in time
    /// (`FRAG_REASM_TIMEOUT`).
    FragmentTimeout,
    /// Too much else has come from its source since (`FRAG_TOO_FAR`).
    FragmentTooFar,
    /// The piece was there already (`DUP_FRAG`).
    DuplicateFragment,
    /// It overlaps other pieces, contradicts them, or there is no memory for it (no kernel reason:
    /// `ReasmFails` counts it).
    Reassembly,
    /// No route to the destination (`IP_OUTNOROUTES`).
    NoRoute,
    /// A blackhole, unreachable or prohibit route (`IP_INNOROUTES`).
    RouteDenied,
    /// TTL or hop limit reached zero (`IP_TTL_EXPIRED` in spirit: `IP_INHDR`).
    TtlExpired,
    /// Larger than the MTU and must not be fragmented (`PKT_TOO_BIG`).
    PacketTooBig,
    /// No socket for it (`NO_SOCKET`).
    NoSocket,
    /// The socket's receive buffer is full (`SOCKET_RCVBUFF`).
    SocketReceiveBuffer,
    /// Not for this host (`OTHERHOST`).
    OtherHost,
    /// Nothing on a wire may come from its source: loopback, a group, the host's own address
    /// (`IP_INVALID_SOURCE`).
    InvalidSource,
    /// Nothing on a wire may be for its destination (`IP_INVALID_DEST`).
    InvalidDestination,
    /// IPv6 addresses between which nothing is routed (`IP_INADDRERRORS`).
    AddressErrors,
    /// Malformed headers (`IP_INHDR`).
    Malformed,
    /// The interface or link is down (`DEV_READY`).
    LinkDown,
    /// The memory that the ports of a switch share has no room for it.
    NoBuffer,
    /// The queue it waited in was emptied or replaced (`QUEUE_PURGE`).
    QueuePurge,
    /// More waits for the neighbour's address than `unres_qlen_bytes` (`NEIGH_QUEUEFULL`).
    NeighbourQueueFull,
    /// The neighbour does not answer (`NEIGH_FAILED`).
    NeighbourFailed,
    /// There are more neighbours than `gc_thresh3` (`NEIGH_CREATEFAIL`).
    NeighbourTableFull,
}

impl Reason {
    /// The kernel's name (`SKB_DROP_REASON_…` without the prefix) or ours in the same style.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QdiscDrop => "QDISC_DROP",
            Self::QdiscOverlimit => "QDISC_OVERLIMIT",
            Self::QdiscCongested => "QDISC_CONGESTED",
            Self::DualPi2StepDrop => "DUALPI2_STEP_DROP",
            Self::CakeFlood => "CAKE_FLOOD",
            Self::Police => "TC_INGRESS",
            Self::AckFilter => "ACK_FILTER",
            Self::LinkLoss => "LINK_LOSS",
            Self::Checksum => "IP_CSUM",
            Self::TcpChecksum => "TCP_CSUM",
            Self::UdpChecksum => "UDP_CSUM",
            Self::IcmpChecksum => "ICMP_CSUM",
            Self::PacketTooSmall => "PKT_TOO_SMALL",
            Self::NoProtocol => "IP_NOPROTO",
            Self::FragmentTimeout => "FRAG_REASM_TIMEOUT",
            Self::FragmentTooFar => "FRAG_TOO_FAR",
            Self::DuplicateFragment => "DUP_FRAG",
            Self::Reassembly => "FRAG_REASM",
            Self::NoRoute => "IP_OUTNOROUTES",
            Self::RouteDenied => "IP_INNOROUTES",
            Self::TtlExpired => "IP_INHDR_TTL",
            Self::PacketTooBig => "PKT_TOO_BIG",
            Self::NoSocket => "NO_SOCKET",
            Self::SocketReceiveBuffer => "SOCKET_RCVBUFF",
            Self::OtherHost => "OTHERHOST",
            Self::InvalidSource => "IP_INVALID_SOURCE",
            Self::InvalidDestination => "IP_INVALID_DEST",
            Self::AddressErrors => "IP_INADDRERRORS",
            Self::Malformed => "IP_INHDR",
            Self::LinkDown => "DEV_READY",
            Self::NoBuffer => "NO_BUFFER",
            Self::QueuePurge => "QUEUE_PURGE",
            Self::NeighbourQueueFull => "NEIGH_QUEUEFULL",
            Self::NeighbourFailed => "NEIGH_FAILED",
            Self::NeighbourTableFull => "NEIGH_CREATEFAIL",
        }
    }
}

/// The verdict of an enqueue (`NET_XMIT_SUCCESS`, `NET_XMIT_CN`, `NET_XMIT_DROP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// The packet is in the queue, or was dropped early without its sender being told
    /// (`NET_XMIT_SUCCESS | __NET_XMIT_BYPASS`).
    Queued,
    /// This or another packet was dropped for congestion, but the packet's flow should only slow
    /// down (`NET_XMIT_CN`).
    Congested,
    /// The packet was dropped.
    Dropped,
}
