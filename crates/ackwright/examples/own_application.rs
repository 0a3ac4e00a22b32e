//! An application of one's own, in an experiment file beside those of the product.
//!
//! `video 25 4mbit` sends pictures: so many a second, of drawn sizes that make that rate in the mean, each
//! as a clump of datagrams. What receives them is the product's own.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use ackwright::apps::{App, AppCx, AppReport, UdpSink};
use ackwright::datapath::host::SocketId;
use ackwright::datapath::packet::Body;
use ackwright::datapath::units::{Duration, Instant};
use ackwright::lab::plan::quantity;
use ackwright::lab::run::{Options, run};
use ackwright::lab::{Application, FlowPlace, Registry};

#[derive(Clone)]
struct Video {
    interval: Duration,
    /// Bytes of a picture in the mean.
    picture: u64,
}

/// `PICTURES-A-SECOND RATE`.
fn video(words: &[&str]) -> Result<Video, String> {
    let [pictures, rate] = words else { return Err("say how many a second, and the rate".into()) };
    let pictures: u64 = pictures.parse().map_err(|_| format!("\"{pictures}\" is no number"))?;
    if !(1..=1000).contains(&pictures) {
        return Err("1 to 1000 pictures a second are possible".into());
    }
    let picture = quantity::rate(rate)?.bits_per_sec() / 8 / pictures;
    Ok(Video { interval: Duration::from_nanos(1_000_000_000 / pictures), picture })
}

impl Application for Video {
    fn ends(&self, place: &FlowPlace) -> (Box<dyn App>, Box<dyn App>) {
        let (video, place) = (self.clone(), place.clone());
        let (sink, report) = (UdpSink::new(place.remote), AppReport::default());
        (Box::new(Sender { video, place, socket: None, report }), Box::new(sink))
    }

    fn is_tcp(&self) -> bool {
        false
    }
}

struct Sender {
    video: Video,
    place: FlowPlace,
    socket: Option<SocketId>,
    report: AppReport,
}

impl App for Sender {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.socket = cx.host.udp_bind(cx.now, self.place.local).ok();
        self.report.started = Some(cx.now);
        self.timer(cx);
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        let Some(socket) = self.socket else { return };
        // From half of the mean to one and a half.
        let mut left = self.video.picture / 2 + cx.rng.below(self.video.picture + 1);
        while left > 0 {
            let size = left.min(1200);
            let body = Body::of_len(size as u32);
            if cx.udp_send(socket, self.place.remote, body).is_ok() {
                self.report.sent += 1;
                self.report.sent_bytes += size;
            }
            left -= size;
        }
        cx.wake_at(cx.now + self.video.interval);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        cx.wake_at(Instant::FAR_FUTURE);
    }

    fn report(&self) -> AppReport {
        self.report.clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::new();
    registry.application("video", video)?;
    let text = include_str!("own_application.toml");
    let experiment = registry.parse("own_application.toml", text, &[])?;
    let stop = AtomicBool::new(false);
    for point in run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(()))? {
        let metrics = &point.runs[0].metrics;
        let of = |name| metrics.iter().find(|it| it.scope == "film" && it.name == name);
        let (goodput, lost) = of("goodput").zip(of("lost")).ok_or("both are measured")?;
        let (label, goodput, lost) = (&point.labels[0].1, goodput.value, lost.value);
        println!("{label}: {goodput:.2} Mbit/s, {lost} datagrams lost");
    }
    Ok(())
}
