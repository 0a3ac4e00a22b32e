//! Who waits for which socket; and how a thread waits that has nothing else to do.

use datapath::node::{SocketId, SocketReady};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Those who wait for sockets of one host, by the sockets' places.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    of: Vec<Waiting>,
}

/// Those who wait for one socket. Readers and writers are few: mostly one of each.
#[derive(Debug, Default)]
struct Waiting {
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

/// What one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// Something to read or to accept.
    Readable,
    /// Room to write, or the end of a handshake.
    Writable,
}

impl Waiters {
    /// `waker` waits for `socket`.
    pub fn wait(&mut self, socket: SocketId, what: WaitFor, waker: &Waker) {
        let index = socket.index();
        if self.of.len() <= index {
            self.of.resize_with(index + 1, Waiting::default);
        }
        let waiting = &mut self.of[index];
        let list = match what {
            WaitFor::Readable => &mut waiting.readers,
            WaitFor::Writable => &mut waiting.writers,
        };
        if !list.iter().any(|known| known.will_wake(waker)) {
            list.push(waker.clone());
        }
    }

    /// A socket has become ready: who is to be woken is appended to `wake`.
    pub fn ready(&mut self, ready: SocketReady, wake: &mut Vec<Waker>) {
        let Some(waiting) = self.of.get_mut(ready.socket.index()) else { return };
        let bits = ready.bits;
        let all = SocketReady::ERROR | SocketReady::HANGUP | SocketReady::STATE;
        if bits & (SocketReady::READABLE | all) != 0 {
            wake.append(&mut waiting.readers);
        }
        if bits & (SocketReady::WRITABLE | all) != 0 {
            wake.append(&mut waiting.writers);
        }
    }

    /// `waker` waits for `socket` no more. What it was known by is given back, to be dropped once the lock is free: a
    /// task may go with it, and all that it has.
    #[must_use]
    pub fn cancel(&mut self, socket: SocketId, waker: &Waker) -> Vec<Waker> {
        let Some(waiting) = self.of.get_mut(socket.index()) else { return Vec::new() };
        let mut gone: Vec<Waker> = Vec::new();
        for list in [&mut waiting.readers, &mut waiting.writers] {
            gone.extend(list.extract_if(.., |known| known.will_wake(waker)));
        }
        gone
    }

    /// All of one socket: it is closed.
    pub fn all_of(&mut self, socket: SocketId, wake: &mut Vec<Waker>) {
        if let Some(waiting) = self.of.get_mut(socket.index()) {
            wake.append(&mut waiting.readers);
            wake.append(&mut waiting.writers);
        }
    }

    /// All there are: nothing will become ready any more.
    pub fn everybody(&mut self, wake: &mut Vec<Waker>) {
        for waiting in &mut self.of {
            wake.append(&mut waiting.readers);
            wake.append(&mut waiting.writers);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Has this thread wait until `future` is ready.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    wait(|cx| future.as_mut().poll(cx))
}

/// Has this thread wait until `poll` is ready.
pub(super) fn wait<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    wait_until(None, poll).expect("it was ready, because nothing else ends the wait")
}

/// Has this thread wait until `poll` is ready, but no longer than for so long.
pub(super) fn wait_for<T>(
    longest: Duration,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    wait_until(Some(Instant::now() + longest), poll)
}

fn wait_until<T>(
    end: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    }
    WAKER.with(|waker| {
        let mut cx = Context::from_waker(waker);
        loop {
            if let Poll::Ready(done) = poll(&mut cx) {
                return Some(done);
            }
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    })
}
