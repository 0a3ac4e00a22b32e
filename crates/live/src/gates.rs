//! Many devices at once, through which a world that is turned by the clock lets packets out and in.
//!
//! [`drive`](crate::drive) has two devices and a bridge; here are as many as there are ends of links, and
//! the thread that owns the world asks what has arrived and how late it is.

use crate::account::Lateness;
use crate::device::{Device, Pools, RING, RejectedFrames};
use crate::sys::{self, Epoll, Timer};
use datapath::packet::Packet;
use datapath::units::{Duration, Instant};
use std::io;

/// The devices at the border of a world, and the events that are polled.
#[derive(Debug)]
pub struct BorderDevices {
    devices: Vec<Device>,
    pools: Pools,
    epoll: Epoll,
    timer: Timer,
    packets: Vec<Packet>,
    readable: Vec<bool>,
    /// How much later than wanted the loop came back.
    pub lateness: Lateness,
    /// Packets that a device did not take.
    pub refused: u64,
    /// Packets given to devices, and taken from them.
    pub carried: [u64; 2],
}

const TIMER: u64 = u64::MAX;
/// So many batches are taken from a device before anything else is done.
const BATCHES: usize = 4;
/// What is due sooner than this is looked for, not waited for.
const SHORT: Duration = Duration::from_micros(20);

impl BorderDevices {
    /// None yet.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(mtu: u32) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.add(timer.fd(), TIMER, Epoll::READ)?;
        Ok(Self {
            devices: Vec::new(),
            pools: Pools::new(mtu),
            epoll,
            timer,
            packets: Vec::with_capacity(RING),
            readable: Vec::new(),
            lateness: Lateness::default(),
            refused: 0,
            carried: [0; 2],
        })
    }

    /// Where arriving frames lie, to open devices with.
    pub fn pools(&mut self) -> &mut Pools {
        &mut self.pools
    }

    /// One device more; its number.
    ///
    /// # Errors
    /// The kernel does not wait for it.
    pub fn add(&mut self, device: Device) -> io::Result<usize> {
        let index = self.devices.len();
        if let Some(fd) = device.fd() {
            self.epoll.add(fd, index as u64, Epoll::READ)?;
        }
        self.devices.push(device);
        self.readable.push(false);
        Ok(index)
    }

    /// By the clock that never jumps.
    pub fn now(&self) -> Instant {
        sys::now()
    }

    /// Has waits of this thread end on time.
    pub fn wake_on_time(&self) {
        sys::wake_on_time();
    }

    /// Waits until something has come, or until `wanted`; gives the time then. If that is when something
    /// was to be done, how late it is counts.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, wanted: Instant, counts: bool) -> io::Result<Instant> {
        let soon = wanted <= sys::now() + SHORT;
        if !soon {
            self.timer.set(wanted)?;
        }
        for (token, _) in self.epoll.wait(soon)? {
            match self.readable.get_mut(token as usize) {
                Some(readable) => *readable = true,
                None => self.timer.clear(),
            }
        }
        let now = sys::now();
        if counts && wanted <= now {
            self.lateness.add(wanted, now);
        }
        Ok(now)
    }

    /// Hands over what has come, each packet with the number of its device.
    ///
    /// # Errors
    /// A device is gone.
    pub fn receive(&mut self, mut take: impl FnMut(usize, Packet)) -> io::Result<()> {
        let now = sys::now();
        for (index, device) in self.devices.iter_mut().enumerate() {
            if !std::mem::take(&mut self.readable[index]) {
                continue;
            }
            for _ in 0..BATCHES {
                device.receive(now, &mut self.pools, &mut self.packets)?;
                let count = self.packets.len();
                self.carried[1] += count as u64;
                self.packets.drain(..).for_each(|packet| take(index, packet));
                if count < RING {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives a packet to a device, which sends it at [`flush`](Self::flush) at the latest.
    ///
    /// # Errors
    /// A device is gone.
    pub fn send(&mut self, index: usize, packet: &Packet) -> io::Result<()> {
        if self.devices[index].ring_len() == RING {
            self.flush_one(index)?;
        }
        if self.devices[index].ring_len() == RING {
            self.refused += 1;
            return Ok(());
        }
        self.carried[0] += 1;
        self.devices[index].push(packet);
        Ok(())
    }

    /// Sends what devices have been given; true if some have to be asked again soon.
    ///
    /// # Errors
    /// A device is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        let mut waits = false;
        for index in 0..self.devices.len() {
            if self.devices[index].ring_len() > 0 {
                self.flush_one(index)?;
                waits |= self.devices[index].ring_len() > 0;
            }
        }
        Ok(waits)
    }

    fn flush_one(&mut self, index: usize) -> io::Result<()> {
        self.refused += u64::from(self.devices[index].flush()?.refused);
        Ok(())
    }

    /// Packets that came and could not be taken in: unreadable, without a buffer, or because the loop was
    /// late.
    pub fn rejected(&mut self) -> u64 {
        let lost = self.devices.iter_mut().map(Device::rejected);
        lost.map(|RejectedFrames { unreadable, no_buffer, missed, .. }| {
            unreadable + no_buffer + missed
        })
        .sum()
    }
}
