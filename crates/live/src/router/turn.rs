//! The loop of a router: what arrives is handed in, room that devices have got back is given as credit, then
//! the host is polled until it is idle, and called again no later than it asks.

use super::{End, Phase, Router};
use crate::control::TOKENS;
use crate::device::{Blocked, RING};
use crate::open::{Fault, is_gone};
use crate::sys::{self, Epoll};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::Packet;
use datapath::units::{Duration, Instant};
use std::io;
use std::os::fd::AsFd as _;

const TIMER: u64 = 0;
const STOP: u64 = 1;
const KERNEL: u64 = 2;
/// Tokens of devices come behind those of the control socket and its clients.
const DEVICES: u64 = 1 << 16;
/// So many batches are taken in from a device before anything else is done.
const BATCHES: usize = 16;
/// A device that was busy is tried again after this.
const RETRY: Duration = Duration::from_micros(100);

impl Router {
    /// Runs until the end has come and queues have drained.
    ///
    /// # Errors
    /// The kernel refuses to tell of devices or routes.
    pub fn run(&mut self) -> Result<(), Fault> {
        let ended = self.turn_until_over();
        self.phase = Phase::Over;
        let now = sys::now();
        for index in 0..self.ends.len() {
            let port = self.ends[index].port;
            self.left += self.ends[index].device.ring_len() as u64;
            self.host.set_port_up(now, port, false);
            self.host.change_qdisc(now, port, |root, cx| {
                use datapath::qdisc::Qdisc as _;
                root.purge(cx);
            });
            self.host.change_neighbours(now, |table| table.flush(port.0));
        }
        self.poll(now);
        ended
    }

    fn turn_until_over(&mut self) -> Result<(), Fault> {
        sys::wake_on_time();
        self.register().map_err(kernel)?;
        let mut wanted = self.turn(sys::now())?;
        while self.phase != Phase::Over {
            self.wait(wanted)?;
            let now = sys::now();
            if wanted <= now {
                self.lateness.add(wanted, now);
            }
            if self.phase == Phase::Running {
                self.take_in(now)?;
            }
            wanted = self.turn(now)?;
            self.look_whether_over(now);
        }
        Ok(())
    }

    fn register(&self) -> io::Result<()> {
        for (token, end) in (DEVICES..).zip(&self.ends) {
            if let Some(fd) = end.device.fd() {
                self.epoll.add(fd, token, Epoll::READ)?;
            }
        }
        self.epoll.add(self.timer.fd(), TIMER, Epoll::READ)?;
        self.epoll.add(self.stop.as_fd(), STOP, Epoll::READ)?;
        self.epoll.add(self.monitor.fd(), KERNEL, Epoll::READ)?;
        self.control.as_ref().map_or(Ok(()), |control| control.register(&self.epoll))
    }

    /// Hands in what has arrived at all devices.
    fn take_in(&mut self, now: Instant) -> Result<(), Fault> {
        for index in 0..self.ends.len() {
            for _ in 0..BATCHES {
                if self.take_in_batch(now, index)? < RING {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Hands in a batch of what has arrived at a device; how many packets it had.
    fn take_in_batch(&mut self, now: Instant, index: usize) -> Result<usize, Fault> {
        let End { device, port, .. } = &mut self.ends[index];
        let port = *port;
        let mut packets = std::mem::take(&mut self.packets);
        let received = device.receive(now, &mut self.pools, &mut packets);
        let count = packets.len();
        for mut packet in packets.drain(..) {
            if let Rx::Forward(to) = self.host.receive(now, port, &mut packet) {
                self.send(to, &packet);
            }
        }
        self.packets = packets;
        self.check(now, index, received)?;
        Ok(count)
    }

    /// Polls and sends until there is nothing more to do at `now`; gives the time to come back.
    fn turn(&mut self, now: Instant) -> Result<Instant, Fault> {
        loop {
            let idle = self.poll(now);
            let mut moved = false;
            for index in 0..self.ends.len() {
                moved |= self.flush(now, index)?;
            }
            if !moved {
                return Ok(idle);
            }
        }
    }

    /// Hears all that the host has to say.
    pub(super) fn poll(&mut self, now: Instant) -> Instant {
        let mut place = Packet::default();
        loop {
            match self.host.poll(now, &mut place) {
                Poll::Send { port, .. } => self.send(port, &place),
                Poll::Drop(reason) => {
                    let packets = u64::from(place.segments());
                    match self.phase {
                        Phase::Over => self.left += packets,
                        _ => *self.dropped.entry(reason).or_default() += packets,
                    }
                }
                Poll::Ready(_) | Poll::Event(_) => {}
                Poll::Idle(next) => return next,
            }
        }
    }

    fn send(&mut self, port: Port, packet: &Packet) {
        let index = self.end_of[usize::from(port.0)];
        let index = index.expect("a port without a device never has room");
        self.ends[index].device.push(packet);
    }

    /// Sends what is in a device's ring, and gives its room back; true if there was any.
    fn flush(&mut self, now: Instant, index: usize) -> Result<bool, Fault> {
        let end = &mut self.ends[index];
        if end.device.ring_len() == 0 || (end.retry_at > now && end.retry_at < Instant::FAR_FUTURE)
        {
            return Ok(false);
        }
        end.retry_at = Instant::FAR_FUTURE;
        let flushed = match end.device.flush() {
            Ok(flushed) => flushed,
            Err(error) => {
                self.check(now, index, Err(error))?;
                // Down: what it would send is lost, as in any device.
                self.ends[index].device.discard()
            }
        };
        let end = &mut self.ends[index];
        let port = end.port;
        end.refused += u64::from(flushed.refused);
        if flushed.blocked == Some(Blocked::Busy) {
            end.retry_at = now + RETRY;
        }
        for _ in 0..flushed.sent + flushed.refused {
            self.host.credit(now, port);
        }
        self.await_room(index, flushed.blocked == Some(Blocked::Full))?;
        Ok(flushed.sent + flushed.refused > 0)
    }

    /// Has the loop told, or no longer told, when a device has room.
    fn await_room(&mut self, index: usize, awaits: bool) -> Result<(), Fault> {
        let end = &mut self.ends[index];
        if end.awaits_room == awaits {
            return Ok(());
        }
        end.awaits_room = awaits;
        let read = if self.phase == Phase::Running { Epoll::READ } else { 0 };
        let write = if awaits { Epoll::WRITE } else { 0 };
        let token = DEVICES + index as u64;
        let changed = end.device.fd().map(|fd| self.epoll.change(fd, token, read | write));
        changed.unwrap_or(Ok(())).map_err(kernel)
    }

    /// Nothing more is taken in.
    pub(super) fn stop_reading(&mut self) -> Result<(), Fault> {
        for (token, end) in (DEVICES..).zip(&self.ends) {
            let write = if end.awaits_room { Epoll::WRITE } else { 0 };
            if let Some(fd) = end.device.fd() {
                self.epoll.change(fd, token, write).map_err(kernel)?;
            }
        }
        Ok(())
    }

    /// Waits until something has happened, or until `wanted`.
    fn wait(&mut self, wanted: Instant) -> Result<(), Fault> {
        let retries = self.ends.iter().map(|end| end.retry_at).min();
        let comes = self.ends.iter().filter_map(|end| end.device.comes_at()).min();
        let comes = comes.filter(|_| self.phase == Phase::Running);
        let over = match self.phase {
            Phase::Draining(until) => until,
            _ => Instant::FAR_FUTURE,
        };
        let until = [retries, comes, Some(over)].into_iter().flatten().fold(wanted, Instant::min);
        let soon = until <= sys::now() + self.settings.busy_poll;
        if !soon {
            self.timer.set(until).map_err(kernel)?;
        }
        let events: Vec<(u64, u32)> = self.epoll.wait(soon).map_err(kernel)?.collect();
        for (token, _) in events {
            match token {
                TIMER => self.timer.clear(),
                STOP => self.begin_to_end()?,
                KERNEL => self.hear_kernel()?,
                token if (TOKENS..DEVICES).contains(&token) => self.serve(token)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn look_whether_over(&mut self, now: Instant) {
        let empty = self.ends.iter().all(|end| {
            let waits = self.host.port(end.port).backlog().packets;
            (waits == 0 || !self.host.port(end.port).is_up()) && end.device.ring_len() == 0
        });
        match self.phase {
            Phase::Running if empty && self.ends.iter().all(|end| end.device.has_ended()) => {
                self.phase = Phase::Over;
            }
            Phase::Draining(until) if empty || now >= until => self.phase = Phase::Over,
            _ => {}
        }
    }

    /// A device that is down may come up again; one that is gone takes its routes with it, and the others
    /// go on.
    fn check(&mut self, now: Instant, index: usize, done: io::Result<()>) -> Result<(), Fault> {
        let Err(error) = done else { return Ok(()) };
        let end = &mut self.ends[index];
        let down =
            matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV));
        if !down {
            return Err(Fault::Other(format!("{}: {error}", end.device.name())));
        }
        if is_gone(&end.device) && !end.gone {
            end.gone = true;
            let (name, port) = (end.device.name().to_owned(), end.port);
            eprintln!("note: {name} has gone away; start again when it is back");
            let link = self.host.fib().link(port.0);
            let link = datapath::fib::LinkState { up: false, ..link };
            self.set_link(now, port, link);
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn kernel(error: io::Error) -> Fault {
    Fault::Other(format!("the kernel refuses to wait for devices: {error}"))
}
