//! In steady state a segment with bytes costs no allocation: written, sent, parsed from a frame,
//! merged or not, acknowledged and read.

mod two_hosts;

use allocation_counter::measure;
use core::num::NonZeroU32;
use datapath::host::{Offloads, SocketId, TcpRead};
use two_hosts::{Net, Setting};

/// Sends `rounds` times what the buffers take; gives how many bytes came.
fn exchange(
    net: &mut Net,
    client: SocketId,
    server: SocketId,
    chunk: &[u8],
    memory: &mut [u8],
    rounds: u32,
) -> u64 {
    let mut came = 0;
    for _ in 0..rounds {
        while net.hosts[0].tcp_send(net.now, client, chunk).is_ok_and(|taken| taken > 0) {
            net.turn(0);
        }
        net.turn(0);
        let limit = net.now + datapath::units::Duration::from_millis(50);
        while net.step(limit) {
            while let Ok(TcpRead::Data(len)) = net.hosts[1].tcp_receive(net.now, server, memory) {
                assert!(memory[..len as usize].iter().all(|byte| *byte == 0x5a));
                came += len;
                net.turn(1);
            }
            net.turn(1);
        }
    }
    came
}

#[test]
fn bytes_cost_no_allocation() {
    for (gro, write) in [(false, 50_000), (true, 50_000), (false, 700), (true, 3_000)] {
        let offloads = Offloads { gso: true, tso: false, gro };
        let mut net = Net::new(Setting { offloads, ..Setting::default() });
        let mut config = net.hosts[0].tcp_defaults();
        (config.send_buffer, config.receive_buffer) =
            (NonZeroU32::new(400_000), NonZeroU32::new(400_000));
        let listener = net.hosts[1].tcp_listen(net.now, net.address(1, 80), &config);
        net.turn(1);
        let ends = (net.address(0, 4_000), net.address(1, 80));
        let client = net.hosts[0].tcp_connect(net.now, ends.0, ends.1, &config).expect("a port");
        net.turn(0);
        while net.step(net.now + datapath::units::Duration::from_millis(20)) {}
        let server = net.hosts[1].tcp_accept(listener).expect("a listener").expect("a connection");
        let (chunk, mut memory) = (vec![0x5a; write], vec![0; 100_000]);
        exchange(&mut net, client, server, &chunk, &mut memory, 60);
        let (packets, mut came) = (net.packets, 0);
        let count = measure(|| {
            came = exchange(&mut net, client, server, &chunk, &mut memory, 40);
        });
        let packets = net.packets - packets;
        assert!(packets > 2_000, "{packets} packets");
        assert_eq!(count.count_total, 0, "in {packets} packets, GRO {gro}, writes of {write}");
        let joined: u64 = net.hosts.iter().map(|host| host.joined().bytes).sum();
        println!(
            "GRO {gro}, writes of {write}: {came} bytes read, {joined} joined since the beginning"
        );
    }
}
