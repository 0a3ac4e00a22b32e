//! A host on a device, with the lock around both and the thread that waits for the device.

use super::settings::Settings;
use super::wait::{WaitFor, Waiters};
use crate::device::{Blocked, Device, Pools, RING, Tun};
use crate::end;
use crate::open::{Fault, is_gone};
use crate::sys::{self, Epoll, Timer};
use datapath::fib::{Prefix, Route};
use datapath::host::{Host, Offloads, PortConfig};
use datapath::node::{Poll, Port, Rx, SocketId};
use datapath::packet::{LinkHeader, Packet};
use datapath::reason::Reason;
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::SysctlError;
use datapath::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;

/// A TCP stack of ours. Clones are the same stack; it ends with the last of them and of its sockets.
#[derive(Clone, Debug)]
pub struct Stack {
    pub(super) shared: Arc<Shared>,
    /// Held by stacks and sockets, not by the thread: the thread ends when the last of them is
    /// dropped.
    _thread: Arc<LoopThread>,
}

/// What has gone over a stack's device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received, those of a super-packet one by one.
    pub received: u64,
    /// Packets sent, likewise.
    pub sent: u64,
    /// Refused by the device, or it was down.
    pub refused: u64,
    /// Dropped by the host, and why.
    pub dropped: BTreeMap<Reason, u64>,
}

/// What the thread and the callers share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
}

/// What the lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub host: Host,
    waiters: Waiters,
    device: Device,
    pools: Pools,
    timer: Timer,
    /// When the timer will wake the thread.
    armed: Instant,
    /// When to try a busy device again.
    retry_at: Instant,
    packets: Vec<Packet>,
    place: Packet,
    counters: Counters,
    /// Who is to be woken once the lock is free.
    wake: Vec<Waker>,
    /// Why nothing works any more.
    broken: Option<String>,
}

#[derive(Debug)]
struct LoopThread {
    stop: UnixStream,
    handle: Mutex<Option<JoinHandle<()>>>,
}

const PORT: Port = Port(0);
const DEVICE: u64 = 0;
const TIMER: u64 = 1;
const STOP: u64 = 2;
/// So many batches are taken in before others get the lock.
const BATCHES: usize = 4;
const RETRY: Duration = Duration::from_micros(100);

impl Stack {
    /// Makes the device and the stack behind it.
    ///
    /// # Errors
    /// With the name and what to do about it: no rights, no TUN, a device or an address that is taken.
    pub fn open(settings: &Settings) -> Result<Self, Fault> {
        settings.check()?;
        let Settings { device, mtu, .. } = settings;
        let tun = Tun::open(device, false, *mtu).map_err(|error| refused(device, &error))?;
        if !settings.offloads {
            tun.refuse_offloads().map_err(|error| refused(device, &error))?;
        }
        settings.set_up_kernel().map_err(|error| refused(device, &error))?;
        let host = host(settings)?;
        Self::start(Device::Tun(tun), Pools::new(*mtu), host)
            .map_err(|error| Fault::Other(format!("{device}: cannot poll it: {error}")))
    }

    fn start(device: Device, pools: Pools, host: Host) -> io::Result<Self> {
        let fd = device.fd().expect("a device that one can wait for").try_clone_to_owned()?;
        let timer = Timer::new()?;
        let timer_fd = timer.fd().try_clone_to_owned()?;
        let (stop, stopped) = UnixStream::pair()?;
        let mut state = State {
            host,
            waiters: Waiters::default(),
            device,
            pools,
            timer,
            armed: Instant::FAR_FUTURE,
            retry_at: Instant::FAR_FUTURE,
            packets: Vec::with_capacity(RING),
            place: Packet::default(),
            counters: Counters::default(),
            wake: Vec::new(),
            broken: None,
        };
        let now = sys::now();
        state.host.grant(now, PORT, RING as u32);
        state.pump(now);
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let epoll = Epoll::new()?;
        epoll.add(fd.as_fd(), DEVICE, Epoll::READ)?;
        epoll.add(timer_fd.as_fd(), TIMER, Epoll::READ)?;
        epoll.add(stopped.as_fd(), STOP, Epoll::READ)?;
        let theirs = Arc::clone(&shared);
        let held = (fd, timer_fd, stopped);
        let run = move || wait_for_device(&theirs, epoll, &held);
        let handle = std::thread::Builder::new().name("ackwright-stack".to_owned()).spawn(run)?;
        let thread = Arc::new(LoopThread { stop, handle: Mutex::new(Some(handle)) });
        Ok(Self { shared, _thread: thread })
    }

    /// Whether anything will ever come or go any more.
    ///
    /// # Errors
    /// The device has gone away, and why that is known.
    pub fn check(&self) -> io::Result<()> {
        self.shared.lock().check()
    }

    /// What has gone over the device so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters.clone()
    }

    /// Lends the host out, to look at. Other calls of the stack wait meanwhile, and one from within `look` for ever.
    pub fn with_host<T>(&self, look: impl FnOnce(&Host) -> T) -> T {
        let state = self.shared.lock();
        // Reading changes nothing, so the stack goes on even if the reader panics.
        let seen = catch_unwind(AssertUnwindSafe(|| look(&state.host)));
        drop(state);
        seen.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Congestion control of sockets that are made from now on.
    pub fn set_congestion_control(&self, algorithm: Algorithm) {
        self.shared.call(|state, _| {
            let mut defaults = state.host.tcp_defaults();
            defaults.congestion_control = algorithm;
            state.host.set_tcp_defaults(defaults);
        });
    }

    /// Waits until all connections are closed, TIME-WAIT not counted, for so long at most: so that what
    /// was written still arrives after a program has done its work. True if none is left.
    pub fn drain(&self, longest: std::time::Duration) -> bool {
        use datapath::tcp::state::State as Tcp;
        let over = std::time::Instant::now() + longest;
        let is_open = |state| !matches!(state, Tcp::Close | Tcp::TimeWait | Tcp::Listen);
        while self.with_host(|host| host.tcp_sockets().any(|(.., state)| is_open(state))) {
            if std::time::Instant::now() >= over {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        true
    }
}

/// The host of `settings`, with a route to everywhere over its only port.
fn host(settings: &Settings) -> Result<Host, Fault> {
    let mut host = Host::new();
    host.set_secret(sys::random().map_err(|error| {
        Fault::Other(format!("cannot get random numbers from the kernel: {error}"))
    })?);
    let port = host.add_port(PortConfig {
        mtu: settings.mtu,
        addresses: vec![(settings.address, settings.prefix_len())],
        link: LinkHeader::None,
        offloads: Offloads { gso: true, tso: settings.offloads, gro: false },
        ..PortConfig::default()
    });
    let everywhere = match settings.address {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let everywhere = Prefix::containing(everywhere, 0).expect("a prefix");
    let default = Route { prefsrc: Some(settings.address), ..Route::on_link(everywhere, port.0) };
    // A prefix of length 0 of its own is a route to everywhere already.
    let _is_there = host.fib_mut().append(default);
    for (name, value) in &settings.sysctls {
        host.set_tcp_sysctl(name, value).map_err(|error| sysctl_refused(name, value, &error))?;
    }
    let mut defaults = host.tcp_defaults();
    defaults.congestion_control = settings.congestion_control;
    host.set_tcp_defaults(defaults);
    Ok(host)
}

fn sysctl_refused(name: &str, value: &str, error: &SysctlError) -> Fault {
    Fault::Usage(match error {
        SysctlError::Unknown => format!("{name}: no such TCP sysctl"),
        SysctlError::Value(why) => format!("{name}={value}: {why}"),
    })
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        let _told = self.stop.shutdown(std::net::Shutdown::Both);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last of a stack may go with a task that its own thread has woken: that ends by itself.
        if let Some(handle) = handle
            && handle.thread().id() != std::thread::current().id()
        {
            let _has_panicked = handle.join();
        }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.fail("a mistake in ackwright: the stack has panicked".to_owned());
            state
        })
    }

    /// `waker` waits for `socket` no more.
    pub(super) fn cancel_wait(&self, socket: SocketId, waker: &Waker) {
        let gone = self.lock().waiters.cancel(socket, waker);
        drop(gone);
    }

    /// Makes a socket call, and does all that follows from it. Of a stack that has [failed](State::fail) nothing
    /// follows, so `act` leaves its host alone ([`State::check`]).
    pub(super) fn call<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let now = sys::now();
        let result = act(&mut state, now);
        if state.broken.is_none() {
            state.pump(now);
        }
        let wake = std::mem::take(&mut state.wake);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    /// `waker` waits for a socket; at once if nothing will ever come.
    pub fn wait(&mut self, socket: SocketId, what: WaitFor, waker: &Waker) {
        if self.broken.is_some() {
            return waker.wake_by_ref();
        }
        self.waiters.wait(socket, what, waker);
    }

    /// Wakes all that wait for `socket`, to check it again.
    pub fn wake_all_of(&mut self, socket: SocketId) {
        self.waiters.all_of(socket, &mut self.wake);
    }

    /// An error if the device is gone.
    pub fn check(&self) -> io::Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(io::Error::new(io::ErrorKind::NetworkDown, why.clone())),
        }
    }

    /// Polls and sends until there is nothing more to do at `now`, and has the timer wake the thread when
    /// there is.
    fn pump(&mut self, now: Instant) {
        let wanted = loop {
            let idle = self.poll(now);
            if !self.flush(now) {
                break idle.min(self.retry_at);
            }
        };
        // A timer that is early costs less than one that is set at every call.
        if wanted < self.armed {
            self.armed = wanted;
            if let Err(error) = self.timer.set(wanted) {
                self.fail(format!("the timer: {error}"));
            }
        }
    }

    fn poll(&mut self, now: Instant) -> Instant {
        loop {
            match self.host.poll(now, &mut self.place) {
                Poll::Send { .. } => {
                    self.counters.sent += u64::from(self.place.segments());
                    self.device.push(&self.place);
                    // Its payload is the device's now, and what it lay in is free again.
                    drop(self.place.take());
                }
                Poll::Drop(reason) => {
                    let packets = u64::from(self.place.segments());
                    *self.counters.dropped.entry(reason).or_default() += packets;
                    drop(self.place.take());
                }
                Poll::Ready(ready) => self.waiters.ready(ready, &mut self.wake),
                Poll::Event(_) => {}
                Poll::Idle(next) => return next,
            }
        }
    }

    /// Sends what is in the device's ring, and gives its room back; true if there was any.
    fn flush(&mut self, now: Instant) -> bool {
        if self.device.ring_len() == 0
            || (self.retry_at > now && self.retry_at < Instant::FAR_FUTURE)
        {
            return false;
        }
        self.retry_at = Instant::FAR_FUTURE;
        // Down or gone: what it would send is lost, as in any device. The thread finds out which.
        let flushed = self.device.flush().unwrap_or_else(|_| self.device.discard());
        let gone = flushed.sent + flushed.refused;
        for _ in 0..gone {
            self.host.credit(now, PORT);
        }
        self.counters.refused += u64::from(flushed.refused);
        if matches!(flushed.blocked, Some(Blocked::Busy | Blocked::Full)) {
            self.retry_at = now + RETRY;
        }
        gone > 0
    }

    /// Takes a batch of what has arrived; false if that was all.
    fn receive_batch(&mut self, now: Instant) -> bool {
        let mut packets = std::mem::take(&mut self.packets);
        let received = self.device.receive(now, &mut self.pools, &mut packets);
        let more = packets.len() == RING;
        for mut packet in packets.drain(..) {
            self.counters.received += u64::from(packet.segments());
            let rx = self.host.receive(now, PORT, &mut packet);
            assert_eq!(rx, Rx::Taken, "a host passes nothing on");
        }
        self.packets = packets;
        if let Err(error) = received
            && (end::is_cut_off(&error) || is_gone(&self.device))
        {
            self.fail(format!("{} has gone away", self.device.name()));
            return false;
        }
        more
    }

    /// Nothing works any more.
    #[cold]
    fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
        self.waiters.everybody(&mut self.wake);
    }
}

/// The thread of a stack: takes in what arrives and comes back when the host wants it. Descriptors that it
/// waits for are `held` as long as it does.
fn wait_for_device(shared: &Shared, epoll: Epoll, _held: &(OwnedFd, OwnedFd, UnixStream)) {
    let mut epoll = epoll;
    sys::wake_on_time();
    loop {
        let (mut readable, mut timed) = (false, false);
        let Ok(events) = epoll.wait(false) else { return };
        for (token, _) in events {
            match token {
                STOP => return,
                TIMER => timed = true,
                _ => readable = true,
            }
        }
        let mut state = shared.lock();
        if timed {
            state.timer.clear();
            state.armed = Instant::FAR_FUTURE;
        }
        for _ in 0..if readable { BATCHES } else { 1 } {
            let now = sys::now();
            let more = readable && state.receive_batch(now);
            state.pump(now);
            if !more {
                break;
            }
        }
        let broken = state.broken.is_some();
        let wake = std::mem::take(&mut state.wake);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        if broken {
            return;
        }
    }
}

fn refused(name: &str, error: &io::Error) -> Fault {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; this needs root, or CAP_NET_ADMIN",
        Some(libc::EBUSY) => "; it is in use: choose another name, or end the other program",
        Some(libc::ENOENT) => "; this kernel has no /dev/net/tun (modprobe tun)",
        Some(libc::EINVAL) => "; is there an interface of this name and another type?",
        Some(libc::ENODEV) => "; names of interfaces have 1 to 15 characters",
        _ => "",
    };
    Fault::Usage(format!("{name}: cannot make the TUN device: {error}{hint}"))
}
