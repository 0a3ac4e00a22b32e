//! The loop: two devices and the bridge between them, turned by the law of the datapath.
//!
//! What arrives is handed in, room that devices have got back is given as credit, then the bridge is
//! polled until it is idle, and called again no later than it asks. Nothing else decides anything here.

use crate::account::Account;
use crate::capture::Capture;
use crate::commands::Names;
use crate::control::{Control, TOKENS};
use crate::device::{Device, Pools, RING};
use crate::end::{self, BATCHES, Phase, PolledDevice, kernel};
use crate::open::{Fault, facts_of, is_gone};
use crate::sys::{self, Epoll, Timer};
use crate::watch::Watch;
use datapath::host::{Bridge, PortConfig};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::Packet;
use datapath::qdisc::AnyQdisc;
use datapath::units::{Duration, Instant, Rate};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// How a run is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long queues may drain once the end has come.
    pub drain: Duration,
    /// If a queue wants to be asked again sooner than this, the loop looks and does not sleep.
    pub busy_poll: Duration,
}

/// Two devices with a bridge between them.
#[derive(Debug)]
pub struct Driver {
    ends: [PolledDevice; 2],
    bridge: Bridge,
    names: Names,
    settings: Settings,
    pools: Pools,
    epoll: Epoll,
    timer: Timer,
    /// Readable once the end has come; never waited for.
    stop: UnixStream,
    control: Option<Control>,
    capture: Option<Capture>,
    watch: Option<Box<dyn Watch>>,
    account: Account,
    phase: Phase,
    packets: Vec<Packet>,
    /// When to check whether an interface that is down has been deleted: no event announces that.
    look_at: Instant,
}

/// An interface that is down is looked at so often.
const LOOK: Duration = Duration::from_millis(100);
const TIMER: u64 = 2;
const STOP: u64 = 3;
const PORTS: [Port; 2] = [Port(0), Port(1)];

impl Driver {
    /// Joins two devices. The bridge is that of `configure`, by which queues get their qdiscs.
    ///
    /// # Errors
    /// What `configure` refuses, or the kernel has no descriptors left.
    pub fn new(
        devices: [Device; 2],
        pools: Pools,
        names: Names,
        stop: UnixStream,
        settings: Settings,
    ) -> io::Result<Self> {
        let port = |device: &Device| PortConfig { mtu: device.mtu(), ..PortConfig::default() };
        let bridge = Bridge::new([port(&devices[0]), port(&devices[1])]);
        let [one, other] = devices;
        let now = sys::now();
        Ok(Self {
            ends: [PolledDevice::new(one, 0), PolledDevice::new(other, 1)],
            bridge,
            names,
            settings,
            pools,
            epoll: Epoll::new()?,
            timer: Timer::new()?,
            stop,
            control: None,
            capture: None,
            watch: None,
            account: Account { began: now, now, ..Account::default() },
            phase: Phase::Running,
            packets: Vec::with_capacity(2 * RING),
            look_at: Instant::FAR_FUTURE,
        })
    }

    /// The bridge with its names, before the run, to set its queues up.
    pub fn set_up<T>(&mut self, set: impl FnOnce(&Names, &mut Bridge, Instant) -> T) -> T {
        let now = sys::now();
        let done = set(&self.names, &mut self.bridge, now);
        self.poll(now);
        self.set_joining();
        done
    }

    /// How long a joined packet may be: no longer than what leaves in 1 ms at the shaped rate, or than an MTU.
    fn set_joining(&mut self) {
        for port in PORTS {
            let device = &mut self.ends[usize::from(port.0)].device;
            let longest = match shaped_rate(self.bridge.port(port).qdisc().qdisc()) {
                ShapedRate::Unlimited => u32::MAX - 1,
                ShapedRate::To(rate) => (rate.bytes_per_sec() / 1_000).min(1 << 30) as u32,
                ShapedRate::Unknown => 0,
            };
            device.join_up_to(longest.max(device.mtu()));
        }
    }

    /// The names of both ports.
    pub fn names(&self) -> [String; 2] {
        self.names.names.clone()
    }

    /// Commands may come by this socket.
    pub fn listen(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// What is sent is written to this file.
    ///
    /// # Errors
    /// The file cannot be made, or one of both devices is reading or writing it.
    pub fn capture(&mut self, file: &Path) -> io::Result<()> {
        let is_ours = |file| self.ends.iter().any(|end| end.device.has_open(&file));
        if std::fs::metadata(file).is_ok_and(is_ours) {
            let why = "one of the devices has this file open; the capture needs another one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let ethernet = self.ends[0].device.is_ethernet();
        self.capture = Some(Capture::create(file, self.port_names(), ethernet)?);
        Ok(())
    }

    /// From now on `watch` is notified of the fate of packets.
    pub fn watch(&mut self, watch: Box<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// What was taken in, and what became of it, until now.
    pub fn account(&mut self) -> &Account {
        for port in 0..2 {
            // What comes by one device is of the direction that leaves by the other.
            self.account.directions[1 - port].lost = self.ends[port].device.rejected();
        }
        self.account.now = sys::now();
        &self.account
    }

    /// Runs until the end has come and queues have drained. All that was taken in is accounted for
    /// then.
    ///
    /// # Errors
    /// A device has gone away.
    pub fn run(&mut self) -> Result<(), Fault> {
        let ended = self.run_until_finished();
        // Where a fault has ended it, the bridge has something to say of that time.
        self.poll(self.bridge.now());
        self.phase = Phase::Over;
        let now = sys::now();
        for port in PORTS {
            self.bridge.take_down(now, port);
            let left = self.ends[usize::from(port.0)].device.ring_len() as u64;
            let direction = &mut self.account.directions[usize::from(port.0)];
            direction.left += left;
            direction.sent.packets -= left;
        }
        self.poll(now);
        let written = self.capture.take().map_or(Ok(()), Capture::finish);
        let traced = self.watch.take().map_or(Ok(()), |watch| watch.finish(sys::now()));
        ended?;
        written.map_err(|error| Fault::Other(format!("the capture cannot be written: {error}")))?;
        traced.map_err(|error| Fault::Other(format!("the trace cannot be written: {error}")))
    }

    fn run_until_finished(&mut self) -> Result<(), Fault> {
        sys::wake_on_time();
        self.register().map_err(kernel)?;
        let now = sys::now();
        for port in PORTS {
            self.bridge.grant(now, port, RING as u32);
        }
        let mut wanted = self.pump(now)?;
        while self.phase != Phase::Over {
            self.wait(wanted)?;
            let now = sys::now();
            if wanted <= now {
                self.account.lateness.add(wanted, now);
            }
            self.check_down_devices(now)?;
            if self.phase == Phase::Running {
                self.receive_all(now)?;
            }
            wanted = self.pump(now)?;
            self.update_phase(now);
        }
        Ok(())
    }

    fn register(&self) -> io::Result<()> {
        for (token, end) in (0..).zip(&self.ends) {
            end.register(&self.epoll)?;
            if let Some(fd) = end.device.watch() {
                self.epoll.add(fd, token, 0)?;
            }
        }
        self.epoll.add(self.timer.fd(), TIMER, Epoll::READ)?;
        self.epoll.add(self.stop.as_fd(), STOP, Epoll::READ)?;
        self.control.as_ref().map_or(Ok(()), |control| control.register(&self.epoll))
    }

    /// Hands in what has arrived: all of it, or a queue that owes packets after a delay would seem empty
    /// before they are in it.
    fn receive_all(&mut self, now: Instant) -> Result<(), Fault> {
        for port in PORTS {
            for _ in 0..BATCHES {
                if self.receive_batch(now, port)? < RING {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Hands in a batch of what has arrived by `port`; how many packets it had.
    fn receive_batch(&mut self, now: Instant, port: Port) -> Result<usize, Fault> {
        let device = &mut self.ends[usize::from(port.0)].device;
        let mut packets = std::mem::take(&mut self.packets);
        let received = device.receive(now, &mut self.pools, &mut packets);
        let count = packets.len();
        for mut packet in packets.drain(..) {
            let leaves = Port(1 - port.0);
            self.account.directions[usize::from(leaves.0)].taken.add(&packet);
            if let Some(watch) = &mut self.watch {
                packet.meta.enqueued_at = now;
                watch.on_arrival(now, leaves, &packet);
            }
            if let Rx::Forward(to) = self.bridge.receive(now, port, &mut packet) {
                self.send(now, to, &packet);
            }
        }
        self.packets = packets;
        self.check(port, received)?;
        Ok(count)
    }

    /// Polls and sends until there is nothing more to do at `now`; gives the time to come back.
    fn pump(&mut self, now: Instant) -> Result<Instant, Fault> {
        loop {
            let idle = self.poll(now);
            let mut moved = false;
            for port in PORTS {
                moved |= self.flush(now, port)?;
            }
            if !moved {
                self.report_queues(now);
                return Ok(idle);
            }
        }
    }

    /// Tells who watches how queues stand.
    fn report_queues(&mut self, now: Instant) {
        let Some(watch) = &mut self.watch else { return };
        for port in PORTS {
            let one = self.bridge.port(port);
            watch.on_backlog(now, port, one.backlog(), one.qdisc());
        }
    }

    /// Hears all that the bridge has to say.
    fn poll(&mut self, now: Instant) -> Instant {
        let mut place = Packet::default();
        loop {
            match self.bridge.poll(now, &mut place) {
                Poll::Send { port, .. } => {
                    self.send(now, port, &place);
                }
                Poll::Drop(reason) => {
                    let port = self.bridge.dropped_at();
                    if let Some(watch) = &mut self.watch {
                        watch.on_drop(now, port, reason, &place);
                    }
                    let direction = &mut self.account.directions[usize::from(port.0)];
                    let packets = u64::from(place.segments());
                    match self.phase {
                        Phase::Over => direction.left += packets,
                        _ => *direction.dropped.entry(reason).or_default() += packets,
                    }
                }
                Poll::Idle(next) => return next,
                said @ (Poll::Ready(_) | Poll::Event(_)) => unreachable!("no bridge says {said:?}"),
            }
        }
    }

    fn send(&mut self, now: Instant, port: Port, packet: &Packet) {
        let index = usize::from(port.0);
        if let Some(watch) = &mut self.watch {
            watch.on_departure(now, port, packet);
        }
        self.ends[index].device.push(packet);
        self.account.directions[index].sent.add(packet);
        if let Some(capture) = &mut self.capture {
            // A full disk is reported at the end, when the file is flushed.
            let _ = capture.sent(index, packet, sys::now());
        }
    }

    /// Sends what is in a device's ring, and gives its room back; true if there was any.
    fn flush(&mut self, now: Instant, port: Port) -> Result<bool, Fault> {
        let index = usize::from(port.0);
        if !self.ends[index].is_to_flush(now) {
            return Ok(false);
        }
        let flushed = match self.ends[index].flush(now) {
            Ok(flushed) => flushed,
            Err(error) => {
                self.check(port, Err(error))?;
                // Down: what it would send is lost, as in any device.
                self.ends[index].device.discard()
            }
        };
        for _ in 0..flushed.sent + flushed.refused {
            self.bridge.credit(now, port);
        }
        let direction = &mut self.account.directions[index];
        direction.refused += u64::from(flushed.refused);
        direction.sent.packets -= u64::from(flushed.refused);
        self.ends[index].watch_writable(&flushed, self.phase, &self.epoll)?;
        Ok(flushed.sent + flushed.refused > 0)
    }

    /// Waits until something has happened, or until `wanted`.
    fn wait(&mut self, wanted: Instant) -> Result<(), Fault> {
        let around = (&mut self.epoll, &mut self.timer);
        let busy_poll = self.settings.busy_poll;
        let wanted = wanted.min(self.look_at);
        let events = end::wait(self.ends.iter(), wanted, self.phase, busy_poll, around)?;
        for (token, told) in events {
            match token {
                0 | 1 if told & Epoll::ERROR != 0 => {
                    let port = Port(token as u16);
                    self.check(port, self.ends[token as usize].device.error())?;
                }
                TIMER => self.timer.clear(),
                STOP => self.start_draining()?,
                token if token >= TOKENS => self.serve(token)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Answers a client of the control socket.
    fn serve(&mut self, token: u64) -> Result<(), Fault> {
        let control = self.control.as_mut();
        let command = control.and_then(|control| control.request(token, &self.epoll));
        let Some(command) = command else { return Ok(()) };
        let (right, text) = match &*command {
            "stop" => {
                self.start_draining()?;
                (true, String::new())
            }
            "show" => (true, self.shown(false)),
            "show -j" => (true, self.shown(true)),
            command => {
                let now = sys::now();
                let done = self.names.handle(&mut self.bridge, now, command);
                self.poll(now);
                self.set_joining();
                match done {
                    Ok(text) => (true, text),
                    Err(wrong) => (false, format!("{}\n{}", wrong.column, wrong.message)),
                }
            }
        };
        if let Some(control) = &mut self.control {
            control.reply(token, right, &text, &self.epoll);
        }
        Ok(())
    }

    fn shown(&mut self, json: bool) -> String {
        let names = self.names.names.clone();
        let account = self.account();
        let names = [names[0].as_str(), names[1].as_str()];
        if json { format!("{}\n", account.json(names)) } else { account.text(names) }
    }

    /// From now on nothing is taken in. A second time ends at once.
    fn start_draining(&mut self) -> Result<(), Fault> {
        let _nothing = self.stop.read(&mut [0; 64]);
        if self.phase != Phase::Running {
            self.phase = Phase::Over;
            return Ok(());
        }
        self.phase = Phase::Draining(sys::now() + self.settings.drain);
        for end in &self.ends {
            end.stop_reading(&self.epoll)?;
        }
        Ok(())
    }

    fn update_phase(&mut self, now: Instant) {
        let empty = PORTS.iter().all(|port| {
            let waits = self.bridge.port(*port).backlog().packets;
            waits == 0 && self.ends[usize::from(port.0)].device.ring_len() == 0
        });
        let ended = self.ends.iter().all(|end| end.device.has_ended());
        self.phase = end::next_phase(self.phase, empty, ended, now);
    }

    /// The kernel says once that an interface goes down, and nothing more if it is deleted then.
    fn check_down_devices(&mut self, now: Instant) -> Result<(), Fault> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = Instant::FAR_FUTURE;
        for PolledDevice { device, .. } in &self.ends {
            match facts_of(device) {
                _ if matches!(device, Device::File(_)) => {}
                Some(facts) if facts.up => {}
                Some(_) => self.look_at = now + LOOK,
                None => return Err(interface_gone(device)),
            }
        }
        Ok(())
    }

    /// A device that is down may come up again; one that is gone is the end.
    fn check(&mut self, port: Port, done: io::Result<()>) -> Result<(), Fault> {
        let Err(error) = done else { return Ok(()) };
        let device = &self.ends[usize::from(port.0)].device;
        let down = end::is_down(&error);
        if !down {
            return Err(Fault::Other(format!("{}: {error}", device.name())));
        }
        if end::is_cut_off(&error) || is_gone(device) {
            return Err(interface_gone(device));
        }
        self.look_at = sys::now() + LOOK;
        Ok(())
    }

    fn port_names(&self) -> [&str; 2] {
        [self.ends[0].device.name(), self.ends[1].device.name()]
    }
}

fn interface_gone(device: &Device) -> Fault {
    Fault::Other(format!("{}: the interface has gone away", device.name()))
}

/// The rate that a queue shapes to.
enum ShapedRate {
    /// To nothing.
    Unlimited,
    To(Rate),
    /// Parts of it to something, or packet by packet.
    Unknown,
}

fn shaped_rate(qdisc: &AnyQdisc) -> ShapedRate {
    match qdisc {
        AnyQdisc::Cake(cake) => match cake.config().bandwidth {
            rate if rate.bytes_per_sec() == 0 => ShapedRate::Unlimited,
            rate => ShapedRate::To(rate),
        },
        AnyQdisc::Tbf(tbf) => ShapedRate::To(tbf.config().rate.rate()),
        AnyQdisc::Fifo(_)
        | AnyQdisc::PfifoFast(_)
        | AnyQdisc::Red(_)
        | AnyQdisc::Codel(_)
        | AnyQdisc::FqCodel(_)
        | AnyQdisc::DualPi2(_)
        | AnyQdisc::Pie(_) => ShapedRate::Unlimited,
        AnyQdisc::Fq(_)
        | AnyQdisc::Prio(_)
        | AnyQdisc::Htb(_)
        | AnyQdisc::Netem(_)
        | AnyQdisc::Guest(_) => ShapedRate::Unknown,
    }
}
