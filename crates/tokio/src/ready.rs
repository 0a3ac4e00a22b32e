//! Readiness, in tokio's words.

use crate::turn::StableWaker;
use live::endpoint::Readiness;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};
use tokio::io::{Interest, Ready};

/// What is ready of what was asked for, as mio reads the kernel's events.
pub fn of_interest(ready: Readiness, interest: Interest) -> Ready {
    let reading = [(ready.readable, Ready::READABLE), (ready.read_closed, Ready::READ_CLOSED)];
    let writing = [(ready.writable, Ready::WRITABLE), (ready.write_closed, Ready::WRITE_CLOSED)];
    let mut told = Ready::EMPTY;
    for (is_asked, bits) in [(interest.is_readable(), reading), (interest.is_writable(), writing)] {
        for (_, bit) in bits.into_iter().filter(|(is_so, _)| is_asked && *is_so) {
            told |= bit;
        }
    }
    if ready.error && interest.is_error() {
        told |= Ready::ERROR;
    }
    told
}

/// Whether one waits for reading, for writing. An error alone is told to both.
pub fn directions(interest: Interest) -> [bool; 2] {
    let neither = !interest.is_readable() && !interest.is_writable();
    [interest.is_readable() || neither, interest.is_writable() || neither]
}

/// Waits as a task of its own: there may be many that wait for one socket, and many may be given up before anything
/// comes. The socket forgets them by `cancel_wait`.
pub async fn wait<T>(
    cancel_wait: impl Fn(&Waker),
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let waits = Waits { cancel_wait, turn: StableWaker::new() };
    poll_fn(|cx| waits.turn.poll(cx, &mut poll)).await
}

struct Waits<F: Fn(&Waker)> {
    cancel_wait: F,
    turn: StableWaker,
}

impl<F: Fn(&Waker)> Drop for Waits<F> {
    fn drop(&mut self) {
        (self.cancel_wait)(self.turn.waker());
    }
}

/// What can be done without waiting.
///
/// # Errors
/// `WouldBlock`: nothing can.
pub fn now<T>(
    cancel_wait: impl Fn(&Waker),
    poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let nobody = Waker::noop();
    match poll(&mut Context::from_waker(nobody)) {
        Poll::Ready(done) => done,
        Poll::Pending => {
            cancel_wait(nobody);
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}
