//! A congestion control of one's own, in an experiment file beside those of the product.
//!
//! `gentle` is AIMD with other numbers than Reno's: two segments more a round trip, and a loss costs
//! an eighth. It first passes the laws that every module obeys; then the file names it.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use ackwright::datapath::tcp::cc::{Ack, CongestionControl, Window, laws};
use ackwright::lab::Registry;
use ackwright::lab::run::{Options, run};

/// Its state: nothing but what [`Window`] keeps for every module.
#[derive(Default)]
struct Gentle;

impl CongestionControl for Gentle {
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        (window.snd_cwnd - window.snd_cwnd / 8).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, _ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.additive_increase((window.snd_cwnd / 2).max(1), left);
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

const EXPERIMENT: &str = r#"
schema = 1
name = "own-congestion-control"
duration = "20s"
warmup = "2s"

[nodes.client]
[nodes.router]
role = "router"
[nodes.server]

[links.lan]
ends = ["server", "router"]
rate = "1gbit"
[links.wan]
ends = ["router", "client"]
rtt = "40ms"
rate = "20mbit"

[qdisc]
"router.wan" = "pfifo limit 30"

[flows.download]
app = "bulk"
from = "server"
to = "client"
congestion_control = "${congestion_control}"

[parameters]
congestion_control = "reno"

[sweep]
congestion_control = ["reno", "cubic", "gentle"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    laws::check(Gentle::default)?;

    let mut registry = Registry::new();
    registry.congestion_control("gentle", Gentle::default)?;
    let experiment = registry.parse("own.toml", EXPERIMENT, &[])?;

    let stop = AtomicBool::new(false);
    for point in run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(()))? {
        let result = &point.runs[0];
        let goodput = result.metrics.iter().find(|it| it.scope == "total" && it.name == "goodput");
        let goodput = goodput.ok_or("a goodput is measured")?;
        println!("{}: {:.2} {}", point.labels[0].1, goodput.value, goodput.unit);
    }
    Ok(())
}
