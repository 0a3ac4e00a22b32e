//! A loss model of one's own, in an experiment file beside those of the product.
//!
//! `fading 80ms 5ms` is a radio link in a tunnel: every 80 ms it hears nothing for 5 ms. Losses come in
//! bursts by time, not by packets, so that a fast flow loses more in a row than a slow one.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use ackwright::datapath::packet::Packet;
use ackwright::datapath::rng::Rng;
use ackwright::datapath::units::{Duration, Instant};
use ackwright::lab::Registry;
use ackwright::lab::plan::quantity;
use ackwright::lab::run::{Options, run};
use ackwright::sim::loss::LossModel;

#[derive(Clone)]
struct Fading {
    every: Duration,
    lasts: Duration,
    /// Where in the period the link's time begins: drawn with the first packet.
    phase: Option<Duration>,
}

/// `EVERY LASTS`.
fn fading(words: &[&str]) -> Result<Fading, String> {
    let [every, lasts] = words else { return Err("say how often, and for how long".into()) };
    let (every, lasts) = (quantity::time(every)?, quantity::time(lasts)?);
    if lasts >= every {
        return Err("it has to end before it begins again".into());
    }
    Ok(Fading { every, lasts, phase: None })
}

impl LossModel for Fading {
    fn strikes(&mut self, now: Instant, _packet: &Packet, rng: &mut Rng) -> bool {
        let every = self.every.as_nanos();
        let phase = *self.phase.get_or_insert_with(|| Duration::from_nanos(rng.below(every)));
        (now.as_nanos() + phase.as_nanos()) % every < self.lasts.as_nanos()
    }

    fn boxed_clone(&self) -> Box<dyn LossModel> {
        Box::new(self.clone())
    }
}

const EXPERIMENT: &str = r#"
schema = 1
name = "own-loss"
duration = "20s"

[nodes.server]
[nodes.client]

[links.radio]
ends = ["server", "client"]
rate = "20mbit"
rtt = "20ms"
loss = "${loss}"

[flows.download]
app = "bulk"
from = "server"
to = "client"

[parameters]
loss = "0%"

[sweep]
loss = ["0%", "1%", "1% burst 8", "fading 800ms 8ms"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::new();
    registry.loss_model("fading", fading)?;
    let experiment = registry.parse("own.toml", EXPERIMENT, &[])?;
    let stop = AtomicBool::new(false);
    for point in run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(()))? {
        let metrics = &point.runs[0].metrics;
        let of = |name| metrics.iter().find(|it| it.scope == "total" && it.name == name);
        let (goodput, retransmits) =
            of("goodput").zip(of("retransmits")).ok_or("both are there")?;
        let label = &point.labels[0].1;
        println!("{label}: {:.2} Mbit/s, {} retransmits", goodput.value, retransmits.value);
    }
    Ok(())
}
