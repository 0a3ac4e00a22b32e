//! The loop: a world that is as far as the clock, and devices at its border.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use datapath::packet::{LinkHeader, Packet};
use datapath::units::{Duration, Instant};
use sim::border::HandedOut;
use sim::world::World;

use super::build::{self, DeviceRole, LinkTarget, LiveNetwork};
use super::flows::{self, RunningFlowEnd};
use super::{bodies, counters};
use crate::plan::{Plan, Stack};
use crate::results::Metric;
use crate::run::Error;
use crate::run::build::BuiltWorld;
use crate::stems;
use crate::store::Store;

/// Turns the world of one run by this machine's clock.
pub struct Driver {
    made: LiveNetwork,
    /// The time of the clock at which the world began.
    zero: Instant,
    running: Vec<RunningFlowEnd>,
    over: Arc<AtomicBool>,
    handed_out: Vec<HandedOut>,
    /// What devices had, with the number of each, and the world has not got yet.
    arrived: Vec<(usize, Packet)>,
    /// A device has not taken all that it was given.
    retries: bool,
    /// Applications read bytes.
    bytes: bool,
}

/// Time zero is so much later than the threads of receivers begin, so that they are there.
const HEAD_START: Duration = Duration::from_millis(300);
/// A device that takes no more is asked again after this.
const RETRY: Duration = Duration::from_micros(100);

impl Driver {
    /// Makes what the plan needs on this machine, and begins: time zero is soon.
    ///
    /// # Errors
    /// With the node and what the kernel says.
    pub fn start(plan: &Plan, built: &mut BuiltWorld) -> Result<Self, String> {
        flows::check(plan)?;
        let made = build::make(plan, built)?;
        made.devices.wake_on_time();
        let over = Arc::new(AtomicBool::new(false));
        let zero = made.devices.now() + HEAD_START;
        let mut driver = Self {
            made,
            zero,
            running: Vec::new(),
            over,
            handed_out: Vec::new(),
            arrived: Vec::new(),
            retries: false,
            bytes: plan.bytes,
        };
        for outside in &built.outside {
            let namespaces = &driver.made.namespaces;
            let running = flows::begin(plan, outside, namespaces, zero, &driver.over)?;
            driver.running.push(running);
        }
        Ok(driver)
    }

    /// The namespace of a node.
    pub(super) fn namespace(&self, node: usize) -> Option<&live::netns::Namespace> {
        self.made.namespaces.get(&node)
    }

    /// Goes on until the clock shows `at`.
    ///
    /// # Errors
    /// A device is gone.
    pub fn run_until(&mut self, world: &mut World, at: Instant) -> Result<(), String> {
        self.run_loop_until(world, at).map_err(|error| format!("the live loop: {error}"))?;
        for running in &self.running {
            *running.report.lock().unwrap_or_else(PoisonError::into_inner) = running.report_now();
        }
        Ok(())
    }

    fn run_loop_until(&mut self, world: &mut World, at: Instant) -> std::io::Result<()> {
        loop {
            let due = world.next_at().filter(|due| *due <= at);
            let mut wanted = self.zero + (due.unwrap_or(at) - Instant::ZERO);
            if self.retries {
                wanted = wanted.min(self.made.devices.now() + RETRY);
            }
            let mut now = self.made.devices.wait(wanted, due.is_some())?;
            if self.world_time(now) < at {
                self.gather()?;
                // Only now is it as late as when the last of them came: a time from before would shorten its
                // way.
                now = self.made.devices.now();
            }
            let here = self.world_time(now);
            world.run_until(here.min(at));
            self.send_to_devices(world)?;
            if here >= at {
                // What has come meanwhile is taken in once the world is as far as the clock.
                return Ok(());
            }
            self.inject_arrivals(world);
            self.send_to_devices(world)?;
        }
    }

    /// The world's time when the clock shows this.
    fn world_time(&self, now: Instant) -> Instant {
        Instant::ZERO + now.saturating_since(self.zero)
    }

    /// What has arrived at hosts goes to their devices.
    fn send_to_devices(&mut self, world: &mut World) -> std::io::Result<()> {
        world.take_handed_out(&mut self.handed_out);
        for HandedOut { link, mut packet, .. } in self.handed_out.drain(..) {
            let Some(&LinkTarget { device, ethernet }) = self.made.targets.get(&link) else {
                continue;
            };
            if !ethernet {
                packet.set_link(LinkHeader::None);
            }
            bodies::write_label(&mut packet);
            self.made.devices.send(device, &packet)?;
        }
        self.retries = self.made.devices.flush()?;
        Ok(())
    }

    /// Takes what devices have.
    fn gather(&mut self) -> std::io::Result<()> {
        let arrived = &mut self.arrived;
        self.made.devices.receive(|device, packet| arrived.push((device, packet)))
    }

    /// What has been gathered goes into the world.
    fn inject_arrivals(&mut self, world: &mut World) {
        for (device, mut packet) in self.arrived.drain(..) {
            match self.made.roles[device] {
                DeviceRole::In(link) => {
                    if !self.bytes {
                        bodies::read_label(&mut packet);
                    }
                    world.hand_in(link, packet);
                }
                DeviceRole::From(node, port) => world.send_by(node, port, packet),
                DeviceRole::Nothing => {}
            }
        }
    }

    /// Ends what runs outside; how late the loop was, and what became of the packets.
    ///
    /// # Errors
    /// What ran outside has failed, or a file cannot be written.
    pub fn finish(
        mut self,
        plan: &Plan,
        name: &str,
        store: Option<&Store>,
        files: &mut Vec<String>,
        metrics: &mut Vec<Metric>,
    ) -> Result<(), Error> {
        self.over.store(true, Ordering::Relaxed);
        for running in &mut self.running {
            let flow = &plan.flows[running.flow];
            running.end().map_err(|why| Error::World(format!("{}: {why}", flow.name)))?;
            let Some(output) = running.output() else { continue };
            let side = if running.sends { "" } else { "-server" };
            let file = format!("programs/{name}-{}{side}.txt", stems::file_stem(&flow.name));
            if let Some(store) = store {
                store.write(&file, output.as_bytes())?;
                files.push(file);
            }
        }
        for (index, namespace) in &self.made.namespaces {
            if plan.nodes[*index].stack == Stack::Kernel {
                let added = counters::add(metrics, namespace);
                added.map_err(|error| Error::World(format!("the kernel's counters: {error}")))?;
            }
        }
        metrics.extend(self.metrics());
        Ok(())
    }

    fn metrics(&mut self) -> Vec<Metric> {
        let devices = &mut self.made.devices;
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let late = &devices.lateness;
        let figures = [
            ("late p50", "us", micros(late.percentile(50))),
            ("late p99", "us", micros(late.percentile(99))),
            ("late max", "us", micros(late.max)),
            ("late wakes", "", late.wakes as f64),
            ("late over 1 ms", "", late.over_1ms as f64),
            ("packets to devices", "packets", devices.carried[0] as f64),
            ("packets from devices", "packets", devices.carried[1] as f64),
            ("packets refused", "packets", devices.refused as f64),
            ("packets lost", "packets", devices.rejected() as f64),
        ];
        let metric = |(name, unit, value): (&str, &'static str, f64)| Metric {
            scope: "live".into(),
            name: name.into(),
            unit,
            value,
        };
        figures.map(metric).into()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
