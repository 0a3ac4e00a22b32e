//! A FIB that many threads read while one changes it, and no reader ever waits.
//!
//! Two equal copies (left-right: Ramalhete and Correia 2015): readers use the active one; a change
//! is made to the other, which then becomes the active one, and after the last reader has left the
//! first copy the same change is made there. A reader may meet the moment of the swap; then it
//! takes the other copy, which is free. It costs twice the memory, and no `unsafe`.
//!
//! What look-ups leave behind (turns of per-packet routes, use of buckets) belongs to the copy.

use datapath::fib::{Fib, FibError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// See the module.
#[derive(Debug)]
pub struct SharedFib {
    copies: [RwLock<Fib>; 2],
    /// Index of the copy that is read.
    active: AtomicUsize,
    /// Changes come one after the other.
    changing: Mutex<()>,
}

impl SharedFib {
    /// Two copies of what `make` makes; it must make the same each time.
    pub fn new(make: impl Fn() -> Fib) -> Self {
        Self {
            copies: [RwLock::new(make()), RwLock::new(make())],
            active: AtomicUsize::new(0),
            changing: Mutex::new(()),
        }
    }

    /// Lends out the routes as they are now. Changes that end meanwhile are not seen.
    pub fn read(&self) -> RwLockReadGuard<'_, Fib> {
        loop {
            let copy = &self.copies[self.active.load(Ordering::Acquire)];
            // Only a copy that is not the active one any more can be taken.
            if let Ok(fib) = copy.try_read() {
                return fib;
            }
            std::hint::spin_loop();
        }
    }

    /// Makes a change. When this returns, every new reader sees it.
    ///
    /// # Errors
    /// The change was refused; nothing has changed.
    pub fn change<R>(
        &self,
        change: impl Fn(&mut Fib) -> Result<R, FibError>,
    ) -> Result<R, FibError> {
        let _alone: MutexGuard<'_, ()> =
            self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let active = self.active.load(Ordering::Acquire);
        let result = change(&mut self.copy(1 - active))?;
        self.active.store(1 - active, Ordering::Release);
        assert!(change(&mut self.copy(active)).is_ok(), "equal copies take the same change");
        Ok(result)
    }

    /// Waits for the last reader of a copy that is not the active one, or was until now.
    fn copy(&self, index: usize) -> RwLockWriteGuard<'_, Fib> {
        self.copies[index].write().expect("nobody panics while changing routes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::fib::{Decision, Hop, Prefix, Route, RouteFilter, RouteKey};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    fn prefix() -> Prefix {
        "198.18.0.0/15".parse().expect("a prefix")
    }

    fn shared() -> SharedFib {
        SharedFib::new(|| {
            let mut fib = Fib::new();
            fib.add(Route::on_link(prefix(), 1)).expect("a new route");
            fib
        })
    }

    fn key() -> RouteKey {
        RouteKey::to("198.18.0.1".parse().expect("an address"))
    }

    #[test]
    fn changes_are_seen_and_refusals_change_nothing() {
        let shared = shared();
        shared.change(|fib| fib.replace(Route::on_link(prefix(), 2))).unwrap();
        let to = |port| Decision::Forward(Hop { port, gateway: None });
        assert_eq!(shared.read().lookup(&key()), to(2));
        let refused = shared.change(|fib| fib.add(Route::on_link(prefix(), 3)));
        assert_eq!(refused, Err(FibError::Exists));
        for _ in 0..2 {
            assert_eq!(shared.read().lookup(&key()), to(2));
            shared.change(|fib| fib.append(Route::on_link(prefix(), 7).metric(9))).unwrap();
            shared
                .change(|fib| {
                    fib.delete(&RouteFilter { metric: Some(9), ..RouteFilter::any(prefix()) })
                })
                .unwrap();
        }
    }

    /// While a change is being made, however long it takes, readers go on.
    #[test]
    fn readers_do_not_wait_for_a_change() {
        let shared = shared();
        let (begun, wait_begun) = mpsc::channel();
        let (read, wait_read) = mpsc::channel::<()>();
        let (begun, wait_read) = (Mutex::new(begun), Mutex::new(wait_read));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                shared.change(|fib| {
                    let _ = begun.lock().unwrap().send(());
                    // The second copy is changed without a reader to wait for.
                    let _ = wait_read.lock().unwrap().recv();
                    fib.replace(Route::on_link(prefix(), 2))
                })
            });
            wait_begun.recv().expect("the change begins");
            for _ in 0..1000 {
                assert!(matches!(shared.read().lookup(&key()), Decision::Forward(_)));
            }
            drop(read);
        });
        assert_eq!(shared.read().lookup(&key()), Decision::Forward(Hop { port: 2, gateway: None }));
    }

    /// Readers see the old route or the new one, and never none.
    #[test]
    fn no_reader_meets_a_half_made_change() {
        let shared = shared();
        let stop = AtomicBool::new(false);
        let begin = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = 0u64;
                        begin.wait();
                        while seen == 0 || !stop.load(Ordering::Relaxed) {
                            let fib = shared.read();
                            let first = fib.lookup(&key());
                            assert!(matches!(first, Decision::Forward(_)));
                            assert_eq!(fib.lookup(&key()), first, "a borrowed FIB stays as it is");
                            seen += 1;
                        }
                    })
                })
                .collect();
            begin.wait();
            for port in 0..2000 {
                shared.change(|fib| fib.replace(Route::on_link(prefix(), port % 7))).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().expect("no reader fails");
            }
        });
    }
}
