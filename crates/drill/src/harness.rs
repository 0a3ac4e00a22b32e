//! The host under test at work: its settings, the calls that wait in it, and the time that passes.
//!
//! Two drivers turn it: the runner of scripts ([`crate::run`]), and the shared object that Google's
//! packetdrill loads. Time passes only where a driver lets it; at every instant the host is turned
//! until it has nothing more to say, and then every call that waits is handed in again.

use crate::ast::Command;
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use crate::settings::Settings;
use crate::shell::{Shell, Status};
use core::task::Poll;
use datapath::packet::Packet;
use datapath::socket::{Call, Errno, Return, Syscall};
use datapath::units::Instant;
use std::path::PathBuf;

/// Where the clock stands at the start of a script: a quarter of a millisecond into a jiffy, as
/// packetdrill arranges it, so that timers and events do not fall together.
pub const START: Instant = Instant::from_nanos(1_000_000_250_000);

/// Times that a host may want to be called again at one and the same instant.
const MAX_AT_ONCE: u32 = 100_000;

/// A host, the shell of its back-ticks, and the calls of its application.
#[derive(Debug)]
pub struct Harness {
    /// The host.
    pub kernel: Kernel,
    shell: Shell,
    waiting: Vec<(CallId, Call)>,
    finished: Vec<(CallId, FinishedCall)>,
    next_id: u64,
    at_once: u32,
}

/// A call that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// A call that has returned.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedCall {
    /// When.
    pub at: Instant,
    /// With what.
    pub outcome: Result<Return, Errno>,
}

impl Harness {
    /// A fresh host at `now`. Scripts of back-ticks are looked for in `folder`, and read only if
    /// they lie below `root`.
    pub fn new(settings: &Settings, now: Instant, folder: PathBuf, root: PathBuf) -> Self {
        Self {
            kernel: Kernel::new(settings, now),
            shell: Shell::new(folder, root),
            waiting: Vec::new(),
            finished: Vec::new(),
            next_id: 0,
            at_once: 0,
        }
    }

    /// The virtual time.
    pub const fn now(&self) -> Instant {
        self.kernel.now
    }

    /// Begins a system call; [`Self::finished`] tells when it has returned, which may be at once.
    pub fn start(&mut self, syscall: Syscall) -> CallId {
        let id = CallId(self.next_id);
        self.next_id += 1;
        self.waiting.push((id, Call::from(syscall)));
        self.try_call(self.waiting.len() - 1);
        id
    }

    /// Takes what a call has returned, once it has.
    pub fn finished(&mut self, id: CallId) -> Option<FinishedCall> {
        let index = self.finished.iter().position(|(known, _)| *known == id)?;
        Some(self.finished.swap_remove(index).1)
    }

    /// Whether a call still waits.
    pub fn waits(&self, id: CallId) -> bool {
        self.waiting.iter().any(|(known, _)| *known == id)
    }

    /// Whether any call still waits.
    pub const fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a call has returned and its result has not been taken yet.
    pub const fn any_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Gives up a call that waits.
    pub fn cancel(&mut self, id: CallId) {
        self.waiting.retain(|(known, _)| *known != id);
    }

    /// Hands a packet to the host.
    pub fn receive(&mut self, packet: Packet) {
        self.kernel.receive(packet);
        self.retry_calls();
    }

    /// Runs what stands in back-ticks, and puts the files that it makes where `open` finds them.
    ///
    /// # Errors
    /// What is wrong with the command, or has no meaning here.
    pub fn command(&mut self, command: &Command) -> Result<Status, Fault> {
        let status = self.shell.run(command, &mut self.kernel)?;
        self.keep_files();
        Ok(status)
    }

    /// Runs a shell script below the folder of the run.
    ///
    /// # Errors
    /// It lies elsewhere; what is wrong with it, or has no meaning here.
    pub fn run_script(&mut self, path: &str, pos: Pos) -> Result<Status, Fault> {
        let status = self.shell.run_file(path, pos, &mut self.kernel)?;
        self.keep_files();
        Ok(status)
    }

    /// What commands have done: files that can be opened, and calls that need not wait any more.
    fn keep_files(&mut self) {
        for (path, len) in self.shell.take_new_files() {
            match len {
                Some(len) => self.kernel.sockets.write_file(&path, len),
                None => {
                    self.kernel.sockets.remove_file(&path);
                }
            }
        }
        self.retry_calls();
    }

    /// What commands have printed so far.
    pub fn printed(&self) -> &str {
        &self.shell.printed
    }

    /// When something will happen by itself; not before now.
    pub fn next_event(&self) -> Option<Instant> {
        let deadlines = self.waiting.iter().filter_map(|(_, call)| call.deadline());
        deadlines.chain(self.kernel.wake_at()).min().map(|at| at.max(self.now()))
    }

    /// Moves the clock to the next thing that happens, if that is not after `until`, else to
    /// `until` itself; true if something happened.
    pub fn step(&mut self, until: Instant) -> bool {
        let next = self.next_event().filter(|at| *at <= until);
        let to = next.unwrap_or_else(|| until.max(self.now()));
        self.at_once = if to > self.now() { 0 } else { self.at_once + u32::from(next.is_some()) };
        assert!(
            self.at_once < MAX_AT_ONCE,
            "the host wants to be called again and again at one instant"
        );
        self.kernel.advance(to);
        self.retry_calls();
        next.is_some()
    }

    /// Lets time pass up to `until`, or until `stop` holds; true if it holds.
    pub fn pass(&mut self, until: Instant, stop: impl Fn(&Self) -> bool) -> bool {
        loop {
            if stop(self) {
                return true;
            }
            if !self.step(until) {
                return stop(self);
            }
        }
    }

    fn retry_calls(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            if !self.try_call(index) {
                index += 1;
            }
        }
    }

    /// Hands one call in again; true if it is gone.
    fn try_call(&mut self, index: usize) -> bool {
        let (id, call) = &mut self.waiting[index];
        let Poll::Ready(outcome) = self.kernel.call(call) else { return false };
        self.finished.push((*id, FinishedCall { at: self.kernel.now, outcome }));
        self.waiting.remove(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::IpVersion;
    use datapath::socket::{PollFd, number};
    use datapath::units::Duration;

    fn harness() -> Harness {
        let settings = Settings::for_version(IpVersion::Ipv4);
        Harness::new(&settings, START, PathBuf::new(), PathBuf::new())
    }

    fn value(harness: &mut Harness, syscall: Syscall) -> i64 {
        let id = harness.start(syscall);
        harness.finished(id).expect("returns at once").outcome.expect("no error").value
    }

    /// A call that waits returns when its time is up, and no sooner.
    #[test]
    fn calls_return_at_their_own_time() {
        let mut harness = harness();
        let socket = Syscall::Socket {
            domain: number::AF_INET,
            kind: number::SOCK_STREAM,
            protocol: number::IPPROTO_TCP,
        };
        let fd = value(&mut harness, socket) as i32;
        value(&mut harness, Syscall::Listen { fd, backlog: 1 });
        let fds = vec![PollFd { fd, events: number::POLLIN }];
        let poll = harness.start(Syscall::Poll { fds, timeout_ms: 30 });
        assert!(harness.waits(poll) && harness.any_waits());
        let end = START + Duration::from_millis(30);
        assert!(!harness.pass(END_OF_TEST, |it| it.now() > end && it.waits(poll)));
        let done = harness.finished(poll).expect("its timeout is over");
        assert_eq!((done.at, done.outcome.map(|it| it.value)), (end, Ok(0)));
        assert_eq!((harness.now(), harness.finished(poll)), (END_OF_TEST, None));
    }

    const END_OF_TEST: Instant = Instant::from_nanos(1_001_000_000_000);

    /// What a command does to the host is there at once; its files can be opened.
    #[test]
    fn commands_reach_the_host() {
        let mut harness = harness();
        let command = Command {
            pos: Pos { line: 1, column: 1 },
            text: "sysctl -q net.ipv4.tcp_ecn=1; dd if=/dev/zero of=/tmp/x bs=1 count=5".to_owned(),
        };
        assert_eq!(harness.command(&command), Ok(Status::SUCCESS));
        assert_eq!(harness.kernel.get("net.ipv4.tcp_ecn").as_deref(), Some("1"));
        let open = Syscall::Open { path: "/tmp/x".to_owned(), flags: number::O_RDONLY };
        assert!(value(&mut harness, open) >= 3);
    }
}
