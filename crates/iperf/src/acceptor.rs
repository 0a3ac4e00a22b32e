//! Who comes to a server's port: a connection is a client's once it has shown a cookie.

use crate::Error;
use crate::client::TestObserver;
use crate::wire::{COOKIE, State, is_cookie};
use live::endpoint::{TcpListener, TcpStream};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long a client may take to say who it is, and what it wants.
pub const GREETING: Duration = Duration::from_secs(5);
/// How long a look for new connections may last while others have still to say something.
const LOOK: Duration = Duration::from_millis(5);
/// So many connections may be silent at a time; the first of them goes for one more.
const NEWCOMERS: usize = 256;

/// A server's port, and those that have come there and have not shown a cookie yet.
#[derive(Debug)]
pub struct Acceptor<'a> {
    listener: &'a TcpListener,
    newcomers: Vec<PendingClient>,
}

#[derive(Debug)]
struct PendingClient {
    stream: TcpStream,
    since: Instant,
    /// What it has shown of its cookie.
    shown: Vec<u8>,
}

/// What is known of a newcomer.
enum ClientState {
    /// Nothing yet.
    Waits,
    /// It is a client.
    Client([u8; COOKIE]),
    /// It is none, and why.
    Stranger(&'static str),
}

impl<'a> Acceptor<'a> {
    /// Of this port.
    pub fn new(listener: &'a TcpListener) -> Self {
        Self { listener, newcomers: Vec::new() }
    }

    /// The next connection that shows a cookie, if one does within `longest`. Who says something else, or
    /// nothing for too long, is closed, and keeps nobody waiting.
    ///
    /// # Errors
    /// The stack's device is gone.
    pub fn next_client(
        &mut self,
        longest: Duration,
        watch: &mut impl TestObserver,
    ) -> Result<Option<(TcpStream, [u8; COOKIE])>, Error> {
        let over = Instant::now() + longest;
        loop {
            let left = over.saturating_duration_since(Instant::now());
            let look = if self.newcomers.is_empty() { left } else { left.min(LOOK) };
            if let Some(stream) = self.listener.accept_for(look)? {
                if self.newcomers.len() == NEWCOMERS {
                    let first = self.newcomers.remove(0);
                    watch
                        .connection_refused(first.stream.peer_addr(), "too many newer connections");
                }
                let (since, shown) = (Instant::now(), Vec::with_capacity(COOKIE));
                self.newcomers.push(PendingClient { stream, since, shown });
            }
            if let Some(client) = self.poll(watch) {
                return Ok(Some(client));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn poll(&mut self, watch: &mut impl TestObserver) -> Option<(TcpStream, [u8; COOKIE])> {
        let mut index = 0;
        while let Some(newcomer) = self.newcomers.get_mut(index) {
            match newcomer.look() {
                ClientState::Waits => index += 1,
                ClientState::Client(cookie) => {
                    return Some((self.newcomers.remove(index).stream, cookie));
                }
                ClientState::Stranger(why) => {
                    watch.connection_refused(self.newcomers.remove(index).stream.peer_addr(), why);
                }
            }
        }
        None
    }

    /// Clients that connect during a test are denied (`ACCESS_DENIED`).
    pub fn refuse_waiting(&mut self) {
        self.newcomers.drain(..).for_each(|newcomer| deny(&newcomer.stream));
        if let Ok(Some(stream)) = self.listener.accept_for(Duration::ZERO) {
            deny(&stream);
        }
    }
}

impl PendingClient {
    fn look(&mut self) -> ClientState {
        let mut memory = [0; COOKIE];
        let missing = &mut memory[self.shown.len()..];
        match self.stream.read_for(missing, Duration::ZERO) {
            Ok(None) if self.since.elapsed() >= GREETING => {
                ClientState::Stranger("it sent no cookie in time")
            }
            Ok(None) => ClientState::Waits,
            Ok(Some(0)) | Err(_) => ClientState::Stranger("it closed before sending its cookie"),
            Ok(Some(len)) => {
                self.shown.extend(&missing[..len]);
                match <[u8; COOKIE]>::try_from(&self.shown[..]) {
                    Ok(cookie) if is_cookie(&cookie) => ClientState::Client(cookie),
                    Ok(_) => ClientState::Stranger("it does not speak iperf3's protocol"),
                    Err(_) => ClientState::Waits,
                }
            }
        }
    }
}

/// Tells a client that there is another one.
pub fn deny(stream: &TcpStream) {
    let _is_gone = { stream }.write_all(&[State::AccessDenied as i8 as u8]);
}
