//! The loop of a router: what arrives is handed in, room that devices have got back is given as credit, then
//! the host is polled until it is idle, and called again no later than it asks.

use super::{DEVICES, PortDevice, Router};
use crate::control::TOKENS;
use crate::device::RING;
use crate::end::{self, BATCHES, Phase, kernel};
use crate::open::{Fault, is_gone};
use crate::sys::{self, Epoll};
use datapath::node::{Poll, Port, Rx};
use datapath::packet::Packet;
use datapath::units::Instant;
use std::io;
use std::os::fd::AsFd as _;

const TIMER: u64 = 0;
const STOP: u64 = 1;
const KERNEL: u64 = 2;
impl Router {
    /// Runs until the end has come and queues have drained.
    ///
    /// # Errors
    /// The kernel refuses to tell of devices or routes.
    pub fn run(&mut self) -> Result<(), Fault> {
        let ended = self.run_until_finished();
        // Where a fault has ended it, the host has something to say of that time.
        self.poll(self.host.now());
        self.phase = Phase::Over;
        let now = sys::now();
        for index in 0..self.ends.len() {
            let port = self.ends[index].port;
            self.left += self.ends[index].end.device.ring_len() as u64;
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

    fn run_until_finished(&mut self) -> Result<(), Fault> {
        sys::wake_on_time();
        self.register().map_err(kernel)?;
        let mut wanted = self.pump(sys::now())?;
        while self.phase != Phase::Over {
            self.wait(wanted)?;
            let now = sys::now();
            if wanted <= now {
                self.lateness.add(wanted, now);
            }
            if self.phase == Phase::Running {
                self.receive_all(now)?;
            }
            wanted = self.pump(now)?;
            self.update_phase(now);
        }
        Ok(())
    }

    fn register(&self) -> io::Result<()> {
        for attached in &self.ends {
            attached.end.register(&self.epoll)?;
        }
        self.epoll.add(self.timer.fd(), TIMER, Epoll::READ)?;
        self.epoll.add(self.stop.as_fd(), STOP, Epoll::READ)?;
        self.epoll.add(self.monitor.fd(), KERNEL, Epoll::READ)?;
        self.control.as_ref().map_or(Ok(()), |control| control.register(&self.epoll))
    }

    /// Hands in what has arrived at all devices.
    fn receive_all(&mut self, now: Instant) -> Result<(), Fault> {
        for index in 0..self.ends.len() {
            for _ in 0..BATCHES {
                if self.receive_batch(now, index)? < RING {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Hands in a batch of what has arrived at a device; how many packets it had.
    fn receive_batch(&mut self, now: Instant, index: usize) -> Result<usize, Fault> {
        let PortDevice { end, port, .. } = &mut self.ends[index];
        let port = *port;
        let mut packets = std::mem::take(&mut self.packets);
        let received = end.device.receive(now, &mut self.pools, &mut packets);
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
    fn pump(&mut self, now: Instant) -> Result<Instant, Fault> {
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
        self.ends[index].end.device.push(packet);
    }

    /// Sends what is in a device's ring, and gives its room back; true if there was any.
    fn flush(&mut self, now: Instant, index: usize) -> Result<bool, Fault> {
        if !self.ends[index].end.is_to_flush(now) {
            return Ok(false);
        }
        let flushed = match self.ends[index].end.flush(now) {
            Ok(flushed) => flushed,
            Err(error) => {
                self.check(now, index, Err(error))?;
                // Down: what it would send is lost, as in any device.
                self.ends[index].end.device.discard()
            }
        };
        let attached = &mut self.ends[index];
        attached.refused += u64::from(flushed.refused);
        for _ in 0..flushed.sent + flushed.refused {
            self.host.credit(now, attached.port);
        }
        attached.end.watch_writable(&flushed, self.phase, &self.epoll)?;
        Ok(flushed.sent + flushed.refused > 0)
    }

    /// Nothing more is taken in.
    pub(super) fn stop_reading(&mut self) -> Result<(), Fault> {
        for attached in &self.ends {
            attached.end.stop_reading(&self.epoll)?;
        }
        Ok(())
    }

    /// Waits until something has happened, or until `wanted`.
    fn wait(&mut self, wanted: Instant) -> Result<(), Fault> {
        let around = (&mut self.epoll, &mut self.timer);
        let busy_poll = self.settings.busy_poll;
        let ends = self.ends.iter().map(|attached| &attached.end);
        let events = end::wait(ends, wanted, self.phase, busy_poll, around)?;
        for (token, told) in events {
            match token {
                DEVICES.. if told & Epoll::ERROR != 0 => {
                    let index = (token - DEVICES) as usize;
                    self.check(sys::now(), index, self.ends[index].end.device.error())?;
                }
                TIMER => self.timer.clear(),
                STOP => self.start_draining()?,
                KERNEL => self.read_kernel_events()?,
                token if (TOKENS..DEVICES).contains(&token) => self.serve(token)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn update_phase(&mut self, now: Instant) {
        let empty = self.ends.iter().all(|it| {
            let port = self.host.port(it.port);
            let waits = port.backlog().packets;
            (waits == 0 || !port.is_up()) && it.end.device.ring_len() == 0
        });
        let ended = self.ends.iter().all(|it| it.end.device.has_ended());
        self.phase = end::next_phase(self.phase, empty, ended, now);
    }

    /// A device that is down may come up again; one that is gone may not.
    fn check(&mut self, now: Instant, index: usize, done: io::Result<()>) -> Result<(), Fault> {
        let Err(error) = done else { return Ok(()) };
        let attached = &self.ends[index];
        let device = &attached.end.device;
        if !end::is_down(&error) {
            return Err(Fault::Other(format!("{}: {error}", device.name())));
        }
        if (end::is_cut_off(&error) || is_gone(device)) && !attached.gone {
            self.lose(now, index)?;
        }
        Ok(())
    }

    /// A device has gone away, and takes its routes with it; the others go on.
    pub(super) fn lose(&mut self, now: Instant, index: usize) -> Result<(), Fault> {
        let attached = &mut self.ends[index];
        attached.gone = true;
        let (name, port) = (attached.end.device.name().to_owned(), attached.port);
        attached.end.leave(&self.epoll)?;
        crate::tell!("note: {name} has gone away; restart once it is back");
        let link = self.host.fib().link(port.0);
        self.set_link(now, port, datapath::fib::LinkState { up: false, ..link });
        if self.ends.iter().all(|attached| attached.gone) {
            return Err(Fault::Other("all devices have gone away".to_owned()));
        }
        Ok(())
    }
}
