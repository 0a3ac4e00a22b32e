//! What several of these tests begin with.

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::tcp::config::TcpConfig;
use datapath::units::Instant;
use sim::link::NodeId;
use sim::topology::Topology;
use sim::world::World;

/// The world of `net`, in which `from` sends so many bytes to `to` from time zero on.
pub fn transfer(net: &Topology, [from, to]: [NodeId; 2], tcp: TcpConfig, bytes: u64) -> World {
    let local = SocketAddr::new(net.address(from).expect("wired"), 0);
    let remote = SocketAddr::new(net.address(to).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    world.add_app(to, Box::new(TcpSink::new(remote, tcp.clone())), Instant::ZERO, None);
    let sender = TcpSend::bulk(local, remote, tcp).limit(bytes);
    world.add_app(from, Box::new(sender), Instant::ZERO, None);
    world
}
