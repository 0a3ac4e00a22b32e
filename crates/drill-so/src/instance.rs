//! A host under packetdrill: its descriptors, its clock, the threads that wait in it.
//!
//! packetdrill has a thread that goes through the script and one for calls that wait. The first one
//! lets time pass; a call of the other waits here until time has made it return.

use crate::flags::Flags;
use datapath::packet::{Memory, Packet};
use datapath::socket::{Errno, Fd, Return, Syscall};
use datapath::units::{Duration, Instant};
use drill::ast::Command;
use drill::fault::Pos;
use drill::harness::{FinishedCall, Harness, START};
use drill::wire;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// The instances at work, each by its number. Functions that are not told which mean the youngest.
static AT_WORK: Mutex<BTreeMap<usize, Arc<Instance>>> = Mutex::new(BTreeMap::new());

/// The number of the next instance: no two have the same, so that one that is over is known as such.
static NEXT: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    /// When the call that this thread waited in has returned: what the clock is next asked for.
    static RETURNED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A look at the clock takes this long: packetdrill spins until the time of an event, and looks several times for each.
/// Those of a script may lie two microseconds apart.
const LOOK: Duration = Duration::from_nanos(100);
/// A packet that is handed over, and a call, takes this long, as it takes a while with a kernel: what a script has a
/// millisecond later is never less than that.
const ACT: Duration = Duration::from_micros(1);
/// Between two ticks of `times(2)` lies a jiffy.
const TICK: u64 = 1_000_000;
/// So often packetdrill asks for ticks before a script begins, a quarter of a millisecond after the last one: at
/// [`START`], as under `ackwright drill`, so that timers meet the same jiffies.
const TICKS_BEFORE: u64 = 11;
/// Silence of a host that has nothing more to do ends after this.
const SILENCE: Duration = Duration::from_secs(2);
/// No host is waited for longer than this.
const FOREVER: Duration = Duration::from_secs(3 * 3_600);
/// packetdrill waits this long for a call that still waits when the next one is due.
const PATIENCE: Duration = Duration::from_secs(1);

/// Other threads are given this long, in real time, to deal with what a call has returned.
const MEANWHILE: std::time::Duration = std::time::Duration::from_secs(1);

/// A host under packetdrill.
#[derive(Debug)]
pub struct Instance {
    inner: Mutex<Inner>,
    /// Time has passed, a packet has come, or a call was made.
    moved: Condvar,
    /// The thread that goes through the script.
    owner: ThreadId,
}

#[derive(Debug)]
struct Inner {
    harness: Harness,
    /// Descriptors of the process, each of which keeps a number for one of the host.
    fds: BTreeMap<RawFd, Fd>,
    /// Segment size of inbound super-packets.
    mss: u32,
    /// Threads that were given the result of a call and have something to do with it.
    busy: Vec<ReturnedCall>,
    /// It is over: nothing is waited for any more.
    over: bool,
}

/// A thread whose call has returned. packetdrill asks it for the time, looks at the result, and
/// lets it sleep again.
#[derive(Debug)]
struct ReturnedCall {
    /// Where the kernel tells of the thread.
    stat: PathBuf,
    /// It has asked for the time.
    asked: bool,
}

/// The result of a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellResult {
    /// It ended with this status.
    Status(i32),
    /// It was not run, because.
    Refused(String),
}

impl Instance {
    /// A fresh host, which [`Self::current`] gives from here on; its number.
    pub fn start(flags: &Flags) -> usize {
        let folder = std::env::current_dir().unwrap_or_default();
        let begin = (START.as_nanos() / TICK - TICKS_BEFORE) * TICK;
        let begin = Instant::from_nanos(begin);
        let harness = Harness::new(&flags.settings, begin, folder, flags.root.clone());
        let inner = Inner {
            harness,
            fds: BTreeMap::new(),
            mss: flags.settings.mss,
            busy: Vec::new(),
            over: false,
        };
        let instance = Arc::new(Self {
            inner: Mutex::new(inner),
            moved: Condvar::new(),
            owner: std::thread::current().id(),
        });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        at_work().insert(number, instance);
        number
    }

    /// The instance of that number, unless it is over.
    pub fn numbered(number: usize) -> Option<Arc<Self>> {
        at_work().get(&number).cloned()
    }

    /// The instance at work.
    pub fn current() -> Option<Arc<Self>> {
        at_work().last_key_value().map(|(_, instance)| Arc::clone(instance))
    }

    /// The instance of that number is over, and so are the calls that wait in it; false if there is none.
    pub fn end(number: usize) -> bool {
        let Some(instance) = at_work().remove(&number) else { return false };
        let mut inner = instance.lock();
        inner.over = true;
        for fd in core::mem::take(&mut inner.fds).into_keys() {
            close_number(fd);
        }
        instance.moved.notify_all();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Time.

    /// The clock, which a look at it moves a little.
    pub fn read_clock(&self) -> Instant {
        if let Some(at) = RETURNED_AT.take() {
            let own = own_stat();
            for busy in &mut self.lock().busy {
                busy.asked |= Some(&busy.stat) == own.as_ref();
            }
            return at;
        }
        self.pass(LOOK)
    }

    /// Lets time pass to the next tick.
    pub fn tick(&self) {
        let now = self.lock().harness.now().as_nanos();
        self.pass(Duration::from_nanos((now / TICK + 1) * TICK - now));
    }

    /// Lets time pass, and then the other threads do what they have to do before they sleep again,
    /// as they would have done meanwhile.
    pub fn sleep(&self, span: Duration) {
        self.pass(span);
        let patience = std::time::Instant::now() + MEANWHILE;
        while std::thread::current().id() == self.owner
            && self.lock().is_busy()
            && std::time::Instant::now() < patience
        {
            std::thread::yield_now();
        }
    }

    /// Lets time pass; gives the time after it.
    fn pass(&self, span: Duration) -> Instant {
        let mut inner = self.lock();
        let until = inner.harness.now() + span;
        inner.harness.pass(until, |_| false);
        self.moved.notify_all();
        inner.harness.now()
    }

    /// Lets time pass until no call waits any more, as long as packetdrill has patience.
    pub fn await_calls(&self) {
        let mut inner = self.lock();
        let until = inner.harness.now() + PATIENCE;
        if inner.harness.any_waits() {
            inner.harness.pass(until, |harness| !harness.any_waits());
            self.moved.notify_all();
        }
    }

    // Packets.

    /// A packet for the host.
    pub fn packet_in(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut packet = Packet::parse_ip(bytes).map_err(|_| Errno::EINVAL)?;
        // packetdrill writes it to a tun device, and its memory is charged as such.
        packet.memory = Memory::Tun;
        let mut packet = packet.finish();
        // Bodies are lengths.
        packet.body.offset = 0;
        let mut inner = self.lock();
        if packet.tcp().is_some() {
            let options = packet.finished_header_len().saturating_sub(packet.network.len() + 20);
            wire::cut_by(&mut packet, options, inner.mss);
        }
        inner.harness.receive(packet);
        inner.advance(ACT);
        self.moved.notify_all();
        Ok(())
    }

    /// The next packet of the host and when it was sent. Waits for it; `None` if none will come.
    pub fn packet_out(&self) -> Option<(Instant, Vec<u8>)> {
        let mut inner = self.lock();
        let limit = inner.harness.now() + FOREVER;
        let came = loop {
            if !inner.harness.kernel.sent.is_empty() {
                break true;
            }
            if inner.harness.next_event().is_none_or(|at| at > limit) {
                let until = inner.harness.now() + SILENCE;
                inner.harness.pass(until, |_| false);
                break false;
            }
            inner.harness.step(limit);
        };
        self.moved.notify_all();
        if !came {
            return None;
        }
        let (at, packet) = inner.harness.kernel.sent.pop_front()?;
        inner.harness.kernel.sniffed(at);
        let mut bytes = Vec::new();
        packet.emit(&vec![0; packet.body.len as usize], &mut bytes);
        Some((at, bytes))
    }

    // Calls.

    /// Makes a system call. One that has to wait lets time pass if the script's own thread makes
    /// it, else waits until time has passed.
    pub fn call(&self, syscall: Syscall) -> Result<Return, Errno> {
        let name = syscall.name();
        let mut inner = self.lock();
        let id = inner.harness.start(syscall);
        self.moved.notify_all();
        if let Some(FinishedCall { outcome, .. }) = inner.harness.finished(id) {
            inner.advance(ACT);
            return outcome;
        }
        if std::thread::current().id() == self.owner {
            let limit = inner.harness.now() + FOREVER;
            inner.harness.pass(limit, |harness| !harness.waits(id));
            self.moved.notify_all();
            if let Some(FinishedCall { outcome, .. }) = inner.harness.finished(id) {
                return outcome;
            }
            inner.harness.cancel(id);
            eprintln!("ackwright: {name}() waits, and nothing will wake it");
            return Err(Errno::EINTR);
        }
        loop {
            if let Some(FinishedCall { at, outcome }) = inner.harness.finished(id) {
                RETURNED_AT.set(Some(at));
                inner.busy.extend(own_stat().map(|stat| ReturnedCall { stat, asked: false }));
                return outcome;
            }
            if inner.over {
                return Err(Errno::EBADF);
            }
            inner = self.moved.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes a system call that opens a descriptor; gives the process's number for it.
    pub fn open(&self, syscall: Syscall) -> Result<(RawFd, Return), Errno> {
        // First, as the kernel does: what has no number cannot be given out, and is not made.
        let place = ReservedFd::new()?;
        let done = self.call(syscall)?;
        Ok((self.keep_number(place, done.value as Fd), done))
    }

    /// The place is that of a descriptor of the host; the process's number for it, which the process may
    /// close.
    pub fn keep_number(&self, ReservedFd(place): ReservedFd, fd: Fd) -> RawFd {
        self.lock().fds.insert(place.as_raw_fd(), fd);
        place.into_raw_fd()
    }

    /// Closes a descriptor; its number is free again.
    pub fn close(&self, fd: RawFd) -> Result<Return, Errno> {
        let done = self.call(Syscall::Close { fd: self.fd(fd) });
        if self.lock().fds.remove(&fd).is_some() {
            close_number(fd);
        }
        done
    }

    /// The host's descriptor; one that is not open if the process's is none of ours.
    pub fn fd(&self, fd: RawFd) -> Fd {
        self.lock().fds.get(&fd).copied().unwrap_or(if fd < 0 { fd } else { NOT_OPEN })
    }

    /// Whether a descriptor of the process is one of ours.
    pub fn has(&self, fd: RawFd) -> bool {
        self.lock().fds.contains_key(&fd)
    }

    // Commands.

    /// Interprets the text of back-ticks.
    pub fn command(&self, text: &str) -> ShellResult {
        let command = Command { pos: Pos { line: 1, column: 0 }, text: text.to_owned() };
        let mut inner = self.lock();
        let done = inner.harness.command(&command);
        self.moved.notify_all();
        match done {
            Ok(status) => ShellResult::Status(status.0),
            Err(fault) if fault.no_meaning => {
                ShellResult::Refused(format!("skipped: {}", fault.what))
            }
            Err(fault) => ShellResult::Refused(fault.to_string()),
        }
    }
}

impl Inner {
    /// Lets time pass.
    fn advance(&mut self, span: Duration) {
        let until = self.harness.now() + span;
        self.harness.pass(until, |_| false);
    }

    /// Whether a call that has returned is still being dealt with.
    fn is_busy(&mut self) -> bool {
        self.busy.retain(|busy| !(busy.asked && sleeps(&busy.stat)));
        !self.busy.is_empty() || self.harness.any_finished()
    }
}

/// Where the kernel tells of this thread.
fn own_stat() -> Option<PathBuf> {
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(thread).join("stat"))
}

/// Whether a thread sleeps, or is gone.
fn sleeps(stat: &PathBuf) -> bool {
    std::fs::read_to_string(stat).map_or(true, |stat| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
    })
}

fn at_work() -> MutexGuard<'static, BTreeMap<usize, Arc<Instance>>> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor of the process, reserved so that no other file gets it.
#[derive(Debug)]
pub struct ReservedFd(OwnedFd);

impl ReservedFd {
    /// Takes one.
    pub fn new() -> Result<Self, Errno> {
        File::open("/dev/null").map(|file| Self(file.into())).map_err(|_| Errno::EMFILE)
    }
}

/// Gives a number back that [`ReservedFd`] took, unless the process has closed it and it means something else now.
#[expect(unsafe_code, reason = "a number of which only the map of descriptors knows")]
fn close_number(fd: RawFd) {
    const NULL: libc::dev_t = libc::makedev(1, 3);
    // SAFETY: a structure of numbers, which may be zero.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a place for it, and any number; then one that an instance has opened and has just forgotten.
    unsafe {
        if libc::fstat(fd, &raw mut stat) == 0 && stat.st_rdev == NULL {
            libc::close(fd);
        }
    }
}

/// A descriptor that no host opens.
const NOT_OPEN: Fd = Fd::MAX;
