//! The end of a case: everything is closed.

use core::task::Poll;

use datapath::socket::number::{F_SETFL, O_NONBLOCK, SO_LINGER, SOL_SOCKET};
use datapath::socket::{Fd, OptionValue, Syscall};

use super::{CallContext, Process};
use crate::case::Violation;

impl Process {
    /// Threads end, and all descriptors but listeners are closed, without lingering.
    pub fn close_all_but_listeners(
        &mut self,
        judge: &mut CallContext<'_>,
    ) -> Result<(), Violation> {
        self.waiting.clear();
        let listeners = self.model.listeners();
        let others: Vec<Fd> =
            self.model.open_ones().into_iter().filter(|fd| !listeners.contains(fd)).collect();
        others.into_iter().try_for_each(|fd| self.close_at_once(judge, fd))?;
        self.dismiss_all(judge)
    }

    /// Who has connected is accepted and closed.
    pub fn dismiss_all(&mut self, judge: &mut CallContext<'_>) -> Result<(), Violation> {
        for listener in self.model.listeners() {
            let plain = Syscall::Fcntl { fd: listener, command: F_SETFL, argument: O_NONBLOCK };
            drop(self.quietly(judge, plain));
            while let Poll::Ready(Ok(accepted)) =
                self.quietly(judge, Syscall::Accept { fd: listener, flags: 0 })
            {
                self.close_at_once(judge, accepted.value as Fd)?;
            }
        }
        Ok(())
    }

    /// The process ends.
    pub fn close_all(&mut self, judge: &mut CallContext<'_>) -> Result<(), Violation> {
        self.model.open_ones().into_iter().try_for_each(|fd| self.close_at_once(judge, fd))
    }

    fn close_at_once(&mut self, judge: &mut CallContext<'_>, fd: Fd) -> Result<(), Violation> {
        let value = OptionValue::Linger { on: false, seconds: 0 };
        let (level, name) = (SOL_SOCKET, SO_LINGER);
        drop(self.quietly(judge, Syscall::SetOption { fd, level, name, value, len: 8 }));
        let closed = self.quietly(judge, Syscall::Close { fd });
        if !matches!(closed, Poll::Ready(Ok(_))) {
            let what = format!("close of {fd} at the end gave {closed:?}");
            return Err(Violation::new("descriptors", "the end", what));
        }
        self.model.close(fd);
        Ok(())
    }
}
