//! Senders and receivers on the sockets of a namespace's kernel: what `ackwright run --live` runs where a
//! node's stack is the kernel's. Each is a thread that stays in its namespace.

use crate::netns::Namespace;
use crate::sys::{self, netns};
use datapath::units::{Duration, Instant};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, socket};
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one of them does.
#[derive(Clone, Debug)]
pub enum Job {
    /// Writes to a connection: so many bytes, or until it is stopped.
    Send {
        /// Where to.
        to: SocketAddr,
        /// Congestion control, which is read back; the namespace's own if `None`.
        congestion_control: Option<String>,
        /// How much; all there is time for if `None`.
        bytes: Option<u64>,
    },
    /// Accepts connections and reads them.
    Sink {
        /// Where it listens.
        at: SocketAddr,
    },
    /// Datagrams of one size at one interval.
    Datagrams {
        /// Where to.
        to: SocketAddr,
        /// Payload in bytes.
        size: usize,
        /// From one to the next.
        interval: Duration,
        /// Answers are waited for and timed.
        probes: bool,
    },
    /// Reads datagrams, and sends them back if it is to.
    DatagramSink {
        /// Where.
        at: SocketAddr,
        /// Sends them back.
        echo: bool,
    },
    /// ICMP echo requests.
    Ping {
        /// Whom.
        to: std::net::IpAddr,
        /// Payload in bytes.
        size: usize,
        /// From one to the next.
        interval: Duration,
    },
}

/// What one of them has done by now.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Payload bytes written.
    pub sent_bytes: u64,
    /// Payload bytes read.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams or connections that came.
    pub received: u64,
    /// When it began.
    pub started: Option<Instant>,
    /// When the last bytes came.
    pub last_received: Option<Instant>,
    /// When its work was done.
    pub finished: Option<Instant>,
    /// When each round trip ended, and how long it took.
    pub round_trips: Vec<(Instant, Duration)>,
    /// The congestion control that the kernel said it has.
    pub congestion_control: Option<String>,
    /// Why it could not go on.
    pub failed: Option<String>,
}

/// One that runs.
#[derive(Debug)]
pub struct Running {
    report: Arc<Mutex<Report>>,
}

/// When it runs, by the monotonic clock.
#[derive(Clone, Debug)]
pub struct RunSpan {
    /// Time zero of what it tells.
    pub zero: Instant,
    /// It begins then.
    pub start: Instant,
    /// It ends then.
    pub stop: Instant,
    /// DSCP and ECN byte of what it sends.
    pub tos: u8,
    /// Set when all is over.
    pub over: Arc<AtomicBool>,
}

/// Nobody waits for longer than this without a look at whether all is over.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// What one `write` is given.
const CHUNK: usize = 64 * 1024;

struct Worker {
    report: Arc<Mutex<Report>>,
    span: RunSpan,
}

/// Has `job` done in a namespace.
///
/// # Errors
/// No thread can be started.
pub fn run(namespace: &Namespace, job: Job, span: RunSpan) -> io::Result<Running> {
    let report = Arc::new(Mutex::new(Report::default()));
    let worker = Worker { report: Arc::clone(&report), span };
    namespace.spawn(move || {
        if let Err(error) = worker.work(&job) {
            worker.note().failed = Some(format!("{job:?}: {error}"));
        }
    })?;
    Ok(Running { report })
}

impl Running {
    /// What it has done by now.
    pub fn report(&self) -> Report {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Worker {
    fn note(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self) -> Instant {
        Instant::ZERO + sys::now().saturating_since(self.span.zero)
    }

    fn is_over(&self) -> bool {
        self.span.over.load(Ordering::Relaxed) || sys::now() >= self.span.stop
    }

    fn sleep_until(&self, at: Instant) {
        while !self.span.over.load(Ordering::Relaxed) {
            let left = at.saturating_since(sys::now());
            if left == Duration::ZERO {
                return;
            }
            std::thread::sleep(std::time::Duration::from_nanos(left.as_nanos()).min(LOOK));
        }
    }

    fn receive(&self, bytes: usize) {
        let at = self.time();
        let mut note = self.note();
        note.received_bytes += bytes as u64;
        note.last_received = Some(at);
    }

    fn work(&self, job: &Job) -> io::Result<()> {
        sys::wake_on_time();
        // Servers are started before clients connect to them.
        if !matches!(job, Job::Sink { .. } | Job::DatagramSink { .. }) {
            self.sleep_until(self.span.start);
        }
        self.note().started = Some(self.time());
        match job {
            Job::Send { to, congestion_control, bytes } => {
                self.send(*to, congestion_control.as_deref(), *bytes)
            }
            Job::Sink { at } => self.sink(*at),
            Job::Datagrams { to, size, interval, probes } => {
                self.datagrams(*to, *size, *interval, *probes)
            }
            Job::DatagramSink { at, echo } => self.datagram_sink(*at, *echo),
            Job::Ping { to, size, interval } => self.ping(*to, *size, *interval),
        }
    }

    fn send(&self, to: SocketAddr, name: Option<&str>, bytes: Option<u64>) -> io::Result<()> {
        let mut stream = connect(to, name, self.span.tos)?;
        let has = netns::congestion_control(stream.as_fd())?;
        if let Some(name) = name.filter(|name| *name != has) {
            return Err(io::Error::other(format!(
                "{name} is not available: the kernel chose {has}"
            )));
        }
        self.note().congestion_control = Some(has);
        stream.set_write_timeout(Some(LOOK))?;
        let chunk = vec![0; CHUNK];
        let mut left = bytes.unwrap_or(u64::MAX);
        while left > 0 && !self.is_over() {
            match stream.write(&chunk[..CHUNK.min(left as usize)]) {
                Ok(written) => {
                    left -= written as u64;
                    self.note().sent_bytes += written as u64;
                }
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut rest = [0; 512];
        loop {
            match stream.read(&mut rest) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if waits(&error) && !self.span.over.load(Ordering::Relaxed) => {}
                Err(_) => return Ok(()),
            }
        }
        self.note().finished = Some(self.time());
        Ok(())
    }

    fn sink(&self, at: SocketAddr) -> io::Result<()> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let mut streams: Vec<TcpStream> = Vec::new();
        let mut memory = vec![0; 4 * CHUNK];
        while !self.span.over.load(Ordering::Relaxed) {
            while let Ok((stream, _)) = listener.accept() {
                netns::set_tos(stream.as_fd(), self.span.tos)?;
                stream.set_read_timeout(Some(std::time::Duration::from_millis(5)))?;
                stream.set_nonblocking(false)?;
                self.note().received += 1;
                streams.push(stream);
            }
            if streams.is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            streams.retain_mut(|stream| match stream.read(&mut memory) {
                Ok(0) => {
                    self.note().finished = Some(self.time());
                    false
                }
                Ok(read) => {
                    self.receive(read);
                    true
                }
                Err(error) => waits(&error),
            });
        }
        Ok(())
    }

    fn datagrams(
        &self,
        to: SocketAddr,
        size: usize,
        interval: Duration,
        probes: bool,
    ) -> io::Result<()> {
        let socket = UdpSocket::bind(any(to))?;
        socket.connect(to)?;
        netns::set_tos(socket.as_fd(), self.span.tos)?;
        let write = |number: u32, datagram: &mut Vec<u8>| {
            datagram.resize(size, 0);
            let head = size.min(4);
            datagram[..head].copy_from_slice(&number.to_be_bytes()[..head]);
        };
        let read = |datagram: &[u8]| datagram.first_chunk().map(|it| u32::from_be_bytes(*it));
        self.send_probes(&socket, interval, probes, write, read)
    }

    fn ping(&self, to: std::net::IpAddr, size: usize, interval: Duration) -> io::Result<()> {
        let socket = netns::echo_socket(to)?;
        socket.connect(SocketAddr::new(to, 0))?;
        netns::set_tos(socket.as_fd(), self.span.tos)?;
        let kind = if to.is_ipv4() { 8 } else { 128 };
        // The kernel fills in identifier and checksum of a socket of this kind.
        let write = move |number: u32, request: &mut Vec<u8>| {
            request.resize(8 + size, 0);
            request[..8].fill(0);
            request[0] = kind;
            request[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        };
        let read = |answer: &[u8]| {
            answer.get(6..8).map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        };
        self.send_probes(&socket, interval, true, write, read)
    }

    /// Sends a datagram at every interval, and times answers meanwhile.
    fn send_probes(
        &self,
        socket: &UdpSocket,
        interval: Duration,
        probes: bool,
        write: impl Fn(u32, &mut Vec<u8>),
        read: impl Fn(&[u8]) -> Option<u32>,
    ) -> io::Result<()> {
        let mut waiting: Vec<(u32, Instant)> = Vec::new();
        let (mut datagram, mut answer) = (Vec::new(), vec![0; 65_536]);
        let (mut next, mut number) = (self.span.start.max(sys::now()), 0_u32);
        while !self.is_over() {
            let now = sys::now();
            if now >= next {
                write(number, &mut datagram);
                let sent_at = self.time();
                if socket.send(&datagram).is_ok() {
                    waiting.push((number & 0xffff, sent_at));
                    let mut note = self.note();
                    note.sent += 1;
                    note.sent_bytes += datagram.len() as u64;
                }
                number = number.wrapping_add(1);
                next += interval;
                continue;
            }
            let left = std::time::Duration::from_nanos((next - now).as_nanos()).min(LOOK);
            if !probes {
                std::thread::sleep(left);
                continue;
            }
            socket.set_read_timeout(Some(left.max(std::time::Duration::from_micros(1))))?;
            let Ok(len) = socket.recv(&mut answer) else { continue };
            let at = self.time();
            let Some(number) = read(&answer[..len]).map(|number| number & 0xffff) else { continue };
            if let Some(place) = waiting.iter().position(|(sent, _)| *sent == number) {
                let (_, sent_at) = waiting.remove(place);
                let mut note = self.note();
                note.received += 1;
                note.round_trips.push((at, at.saturating_since(sent_at)));
                drop(note);
                self.receive(len);
            }
        }
        self.note().finished = Some(self.time());
        Ok(())
    }

    fn datagram_sink(&self, at: SocketAddr, echo: bool) -> io::Result<()> {
        let socket = UdpSocket::bind(at)?;
        netns::set_tos(socket.as_fd(), self.span.tos)?;
        socket.set_read_timeout(Some(LOOK))?;
        let mut memory = vec![0; 65_536];
        while !self.span.over.load(Ordering::Relaxed) {
            let Ok((len, from)) = socket.recv_from(&mut memory) else { continue };
            self.note().received += 1;
            self.receive(len);
            if echo && socket.send_to(&memory[..len], from).is_ok() {
                self.note().sent += 1;
            }
        }
        Ok(())
    }
}

/// A connection whose congestion control is `name` from its first packet on. A socket that changes it later keeps what the one
/// before has set up: BBR, where that is the machine's default, has any other paced.
fn connect(to: SocketAddr, name: Option<&str>, tos: u8) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(name) = name {
        setsockopt(&socket, TcpCongestion, &OsString::from(name))?;
    }
    netns::set_tos(socket.as_fd(), tos)?;
    nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(TcpStream::from(socket))
}

fn waits(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn any(like: SocketAddr) -> SocketAddr {
    let address: std::net::IpAddr = match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_with_its_congestion_control() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("its address");
        let stream = connect(at, Some("reno"), 0).expect("a connection");
        assert_eq!(netns::congestion_control(stream.as_fd()).expect("its name"), "reno");
        listener.accept().expect("the same");
        let error = connect(at, Some("no-such-module"), 0).expect_err("no such module");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        listener.set_nonblocking(true).expect("a mode");
        let none = listener.accept().expect_err("it is refused before a packet is sent");
        assert!(waits(&none));
    }
}
