//! A waker for a socket: of one future, or of one direction of a stream.
//!
//! Tasks come and go without the stack's notice. So the stack gets a waker that stays the same and wakes the
//! task that has polled last; abandoned tasks are not kept, and dropping a future removes it.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::task::coop;

/// A waker that stays the same while tasks change.
#[derive(Debug)]
pub struct StableWaker {
    place: Arc<WakerSlot>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct WakerSlot(Mutex<Option<Waker>>);

impl StableWaker {
    pub fn new() -> Self {
        let place = Arc::<WakerSlot>::default();
        Self { waker: Waker::from(Arc::clone(&place)), place }
    }

    /// Polls for the task of `cx`, unless that has had its share of work for now and others are to have theirs.
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let share = ready!(coop::poll_proceed(cx));
        self.place.set(cx.waker());
        let done = ready!(poll(&mut Context::from_waker(&self.waker)));
        share.made_progress();
        Poll::Ready(done)
    }

    /// What the stack is given.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl WakerSlot {
    fn set(&self, task: &Waker) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.as_ref().is_some_and(|known| known.will_wake(task)) {
            return;
        }
        let before = place.replace(task.clone());
        drop(place);
        // Not before: a task may go with its last waker, and all that it has.
        drop(before);
    }
}

impl Wake for WakerSlot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }
}
