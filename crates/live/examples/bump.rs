//! A bump in the wire in as few lines as it takes: two devices, a queue each way, and the account as JSON at the
//! end, which comes with a line on standard input or its end.
//!
//! ```sh
//! cargo run --release -p ackwright-live --example bump -- xdp:eth0 xdp:eth1 'cake bandwidth 1gbit' pfifo
//! ```

use datapath::node::Port;
use datapath::units::Duration;
use iproute::tc::Device as TcDevice;
use live::commands::Names;
use live::device::Pools;
use live::drive::{Driver, Settings};
use live::open::{self, Fault};
use std::io::Write as _;
use std::os::unix::net::UnixStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [one, other, forth, back] = arguments.as_slice() else {
        return Err("usage: bump DEVICE DEVICE QDISC QDISC".into());
    };
    let ends = [one.clone(), other.clone()];
    let mtu = open::largest_mtu(&ends);
    let mut pools = Pools::new(mtu);
    let (first, _first_lock) = open::open(one, mtu, &mut pools)?.into_parts();
    let (second, _second_lock) = open::open(other, mtu, &mut pools)?.into_parts();
    open::check_pair(&first, &second)?;
    let names = [one, other].map(|name| open::port_name(name).to_owned());
    let device = TcDevice { psched_mtu: mtu + 14, ..TcDevice::default() };
    let shown = names.clone();
    let (stop, mut stopper) = UnixStream::pair()?;
    stop.set_nonblocking(true)?;
    std::thread::spawn(move || {
        // The end of input, or a line.
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = stopper.write_all(b".");
    });
    let settings = Settings { drain: Duration::from_secs(1), busy_poll: Duration::ZERO };
    let names = Names { names, device, seed: 1 };
    let mut driver = Driver::new([first, second], pools, names, stop, settings)?;
    driver.set_up(|names, bridge, now| {
        names
            .set_root(bridge, now, Port(1), forth)
            .and_then(|()| names.set_root(bridge, now, Port(0), back))
            .map_err(|wrong| Fault::Usage(wrong.message))
    })?;
    eprintln!("shaping between {one} and {other}");
    let ended = driver.run();
    println!("{}", driver.account().json([&shown[0], &shown[1]]));
    Ok(ended?)
}
