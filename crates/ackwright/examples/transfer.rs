//! Ten megabytes of TCP over a 20 Mbit/s bottleneck, in virtual time.

use ackwright::apps::{TcpSend, TcpSink};
use ackwright::datapath::tcp::config::TcpConfig;
use ackwright::datapath::units::{Duration, Instant, Rate};
use ackwright::sim::link::LinkConfig;
use ackwright::sim::topology::{Topology, TopologyError};
use core::net::SocketAddr;

fn main() -> Result<(), TopologyError> {
    let mut net = Topology::new();
    let (client, router, server) = (net.host("client"), net.router("router"), net.host("server"));
    let access = LinkConfig::new(Rate::from_mbit(1000), Duration::from_micros(100));
    let bottleneck = LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(10));
    net.wire(client, router, access);
    net.wire(router, server, bottleneck);
    let from = SocketAddr::new(net.address(client)?, 0);
    let to = SocketAddr::new(net.address(server)?, 5001);

    let mut world = net.build(1)?;
    let tcp = TcpConfig::default();
    let start = Instant::ZERO;
    let sink = world.add_app(server, Box::new(TcpSink::new(to, tcp.clone())), start, None);
    let sender = TcpSend::bulk(from, to, tcp).limit(10_000_000);
    let sender = world.add_app(client, Box::new(sender), start, None);
    world.run_until(start + Duration::from_secs(30));

    let received = world.report(sink).received_bytes;
    let finished = world.report(sender).finished;
    println!(
        "{received} bytes received, finished at {finished:?}, {} drops",
        world.stats().node_drops
    );
    Ok(())
}
