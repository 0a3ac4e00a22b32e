//! A proxy that ends TCP on both sides: our stack on one, the kernel's on the other.
//!
//! Each connection has two threads, one for each direction. A reader that waits for a slow writer reads no
//! more, so its window closes: that is all the backpressure there is to do. The end of one direction is
//! passed on as such (half-close); a failure of either side resets the other. An end that vanished without a word,
//! such as one whose reset a full device queue dropped, is noticed by keepalive probes (RFC 9293, section 3.8.4).

use crate::endpoint::{self, Stack};
use crate::sys;
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Which side is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurSide {
    /// Clients come to our stack, and the kernel connects to the server.
    Listens,
    /// Clients come to the kernel, and our stack connects to the server.
    Connects,
}

/// A proxy that runs.
#[derive(Clone, Debug)]
pub struct Proxy {
    stack: Stack,
    to: SocketAddr,
    statistics: Arc<Statistics>,
    stop: Arc<AtomicBool>,
}

/// What it has done so far.
#[derive(Debug, Default)]
pub struct Statistics {
    accepted: AtomicU64,
    /// No connection to the server could be made.
    unreachable: AtomicU64,
    /// Too many at a time.
    refused: AtomicU64,
    /// Ended by a failure of either side.
    failed: AtomicU64,
    open: AtomicU64,
    /// Bytes from client to server, and back.
    forth: AtomicU64,
    back: AtomicU64,
    /// Segments that our side has retransmitted, of connections that are over.
    retransmits: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// So many connections at a time.
const MOST: u64 = 2_000;
const PIECE: usize = 64 << 10;
const LOOK: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(20);

impl Proxy {
    /// Begins to pass connections on from `listen` to `to`. Threads of its own do it.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(
        stack: &Stack,
        ours: OurSide,
        listen: SocketAddr,
        to: SocketAddr,
    ) -> io::Result<Self> {
        let proxy =
            Self { stack: stack.clone(), to, statistics: Arc::default(), stop: Arc::default() };
        let theirs = proxy.clone();
        match ours {
            OurSide::Listens => {
                let listener = endpoint::TcpListener::bind(stack, listen)?;
                spawn("proxy-accept", move || theirs.accept_ours(&listener))?;
            }
            OurSide::Connects => {
                let listener = TcpListener::bind(listen)?;
                spawn("proxy-accept", move || theirs.accept_kernels(&listener))?;
            }
        }
        Ok(proxy)
    }

    /// Takes no new connections; those that are there go on.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// How many connections are open.
    pub fn open(&self) -> u64 {
        self.statistics.open.load(Ordering::Relaxed)
    }

    /// What it has done so far.
    pub fn json(&self) -> Value {
        let Statistics { accepted, unreachable, refused, failed, open, forth, back, .. } =
            &*self.statistics;
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let counters = self.stack.counters();
        let dropped: serde_json::Map<String, Value> = counters
            .dropped
            .iter()
            .map(|(why, count)| (why.name().to_owned(), json!(count)))
            .collect();
        let last =
            self.statistics.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        json!({
            "accepted": number(accepted), "open": number(open), "failed": number(failed),
            "unreachable": number(unreachable), "refused": number(refused),
            "bytes_forth": number(forth), "bytes_back": number(back),
            "retransmits": number(&self.statistics.retransmits),
            "packets_received": counters.received, "packets_sent": counters.sent,
            "packets_refused": counters.refused, "packets_dropped": dropped,
            "last_error": last,
        })
    }

    fn accept_ours(&self, listener: &endpoint::TcpListener) {
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept_for(LOOK) {
                Ok(None) => {}
                Ok(Some(client)) => {
                    self.admit(move |proxy| {
                        let server = TcpStream::connect_timeout(&proxy.to, CONNECT);
                        match proxy.reached(server) {
                            Some(server) => proxy.join(&client, &server, OurSide::Listens),
                            // The server refused or is unreachable: reset the client's connection,
                            // as the server would.
                            None => client.reset(),
                        }
                    });
                }
                Err(error) => return self.note(&error),
            }
        }
    }

    fn accept_kernels(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let Ok(client) = client else {
                std::thread::sleep(LOOK);
                continue;
            };
            self.admit(move |proxy| {
                let server = endpoint::TcpStream::connect_for(&proxy.stack, proxy.to, CONNECT);
                match proxy.reached(server) {
                    Some(server) => proxy.join(&server, &client, OurSide::Connects),
                    None => reset(&client),
                }
            });
        }
    }

    /// A thread for a new connection, unless there are too many.
    fn admit(&self, run: impl FnOnce(&Self) + Send + 'static) {
        let statistics = &self.statistics;
        statistics.accepted.fetch_add(1, Ordering::Relaxed);
        if statistics.open.fetch_add(1, Ordering::Relaxed) >= MOST {
            statistics.open.fetch_sub(1, Ordering::Relaxed);
            statistics.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let proxy = self.clone();
        let spawned = spawn("proxy-connection", move || {
            run(&proxy);
            proxy.statistics.open.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = spawned {
            statistics.open.fetch_sub(1, Ordering::Relaxed);
            self.note(&error);
        }
    }

    fn reached<T>(&self, server: io::Result<T>) -> Option<T> {
        server
            .map_err(|error| {
                self.statistics.unreachable.fetch_add(1, Ordering::Relaxed);
                self.note(&io::Error::new(error.kind(), format!("{}: {error}", self.to)));
            })
            .ok()
    }

    /// Passes on what comes from either side until both are through.
    fn join(&self, ours: &endpoint::TcpStream, kernels: &TcpStream, side: OurSide) {
        let _is_gone = (ours.set_nodelay(true), kernels.set_nodelay(true));
        let _is_gone = (ours.set_keepalive(true), sys::keep_alive(kernels));
        let (up, down) = match side {
            OurSide::Listens => (&self.statistics.forth, &self.statistics.back),
            OurSide::Connects => (&self.statistics.back, &self.statistics.forth),
        };
        let failed = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let done = from_kernel(kernels, ours, down);
                if done.is_err() {
                    reset_both(ours, kernels);
                }
                done
            });
            let done = to_kernel(ours, kernels, up);
            if done.is_err() {
                reset_both(ours, kernels);
            }
            let other = other.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            done.and(other)
        });
        let retransmits = ours.info().map_or(0, |info| info.total_retrans);
        self.statistics.retransmits.fetch_add(retransmits.into(), Ordering::Relaxed);
        if let Err(error) = failed {
            self.statistics.failed.fetch_add(1, Ordering::Relaxed);
            self.note(&error);
        }
    }

    fn note(&self, error: &io::Error) {
        let mut last = self.statistics.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.to_string());
    }
}

fn to_kernel(ours: &endpoint::TcpStream, kernels: &TcpStream, count: &AtomicU64) -> io::Result<()> {
    let mut memory = vec![0; PIECE];
    let mut writer = kernels;
    loop {
        let len = ours.read(&mut memory)?;
        if len == 0 {
            return kernels.shutdown(Shutdown::Write);
        }
        writer.write_all(&memory[..len])?;
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

fn from_kernel(
    kernels: &TcpStream,
    ours: &endpoint::TcpStream,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut memory = vec![0; PIECE];
    let mut reader = kernels;
    let mut writer = ours;
    loop {
        let len = reader.read(&mut memory)?;
        if len == 0 {
            return ours.shutdown(Shutdown::Write);
        }
        writer.write_all(&memory[..len])?;
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// Resets both connections, as this is not an orderly end, and wakes the thread of the other
/// direction.
fn reset_both(ours: &endpoint::TcpStream, kernels: &TcpStream) {
    ours.reset();
    reset(kernels);
}

fn reset(kernels: &TcpStream) {
    if sys::disconnect(kernels).is_err() {
        // Kernels before 6.7 do not while a thread waits there: an ordinary end is better than none.
        let _is_gone = kernels.shutdown(Shutdown::Both);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run).map(drop)
}

/// Bytes of a thread's stack: nothing here is deep.
const STACK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Cidr, Settings};
    use std::process::Command;
    use std::time::Instant;

    /// Takes root; says so where there is none.
    #[test]
    fn a_client_whose_reset_was_lost_is_given_up() {
        let (ours, kernels) = ([10, 213, 91, 2].into(), [10, 213, 91, 1].into());
        let settings = Settings {
            device: "akpx91".into(),
            address: ours,
            kernel: Some(Cidr { address: kernels, prefix_len: 24 }),
            sysctls: ["time", "intvl", "probes"]
                .map(|name| (format!("tcp_keepalive_{name}"), "1".to_owned()))
                .into(),
            ..Settings::default()
        };
        let stack = match Stack::open(&settings) {
            Ok(stack) => stack,
            Err(fault) => return eprintln!("SKIPPED: no TUN device: {fault}"),
        };
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("an address");
        let listen = SocketAddr::new(ours, 80);
        let proxy = Proxy::start(&stack, OurSide::Listens, listen, to).expect("a proxy");
        let mut client = TcpStream::connect(listen).expect("a connection");
        let (mut served, _) = server.accept().expect("what the proxy passes on");
        client.write_all(b"x").expect("it is taken");
        served.read_exact(&mut [0]).expect("it is passed on");
        // From now on nothing of the client reaches us, its reset neither.
        let route = ["route", "add", "blackhole", "10.213.91.2/32"];
        assert!(Command::new("ip").args(route).status().expect("ip runs").success());
        sys::disconnect(&client).expect("a reset");
        let end = Instant::now() + Duration::from_secs(30);
        while proxy.open() > 0 && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        let route = ["route", "del", "blackhole", "10.213.91.2/32"];
        assert!(Command::new("ip").args(route).status().expect("ip runs").success());
        assert_eq!(proxy.open(), 0, "{}", proxy.json());
        assert!(served.read(&mut [0]).is_err(), "the server learns it as a reset");
        proxy.stop();
    }
}
