//! Reads that sleep until the socket is woken, whatever comes before that.

use crate::host::Host;
use crate::socket::answer::SyscallResult;
use crate::socket::call::{Fd, Progress};
use crate::socket::errno::Errno;
use crate::socket::stream::{take_error, wait};
use crate::socket::{Sockets, number};
use crate::tcp::{Connection, TcpRead};
use crate::units::Instant;
use core::task::Poll;

impl Sockets {
    /// A read of no bytes: whether there are any. If not, it waits; then whatever wakes it ends it, and so does
    /// its time, for nothing is left to read.
    pub(super) fn receive_nothing(
        &mut self,
        now: Instant,
        host: &mut Host,
        fd: Fd,
        flags: i32,
        progress: &mut Progress,
    ) -> Poll<SyscallResult> {
        let stream = self.stream(fd)?;
        let id = stream.connection().ok_or(Errno::ENOTCONN)?;
        let peeks = flags & number::MSG_PEEK != 0;
        if !progress.asleep {
            if host.tcp_connection(id).is_some_and(Connection::would_block) {
                let dont_wait = stream.nonblocking || flags & number::MSG_DONTWAIT != 0;
                let timeout = stream.options.receive_timeout;
                self.sleep(host, fd, progress)?;
                return wait(now, dont_wait, timeout, Errno::EAGAIN, progress);
            }
            let unread = host.tcp_connection(id).map_or(0, Connection::unread_bytes);
            let failed = if peeks {
                unread == 0
            } else {
                host.with_tcp(now, id, |tcp, cx| tcp.read(0, cx)) == Ok(TcpRead::Reset)
            };
            if failed && let Some(error) = take_error(host, id) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(self.received(host, fd, id, 0, Vec::new())))
    }

    /// A read that waits for fewer bytes than `SO_RCVLOWAT` hears of them only when the mark is reached: it sleeps
    /// until the socket is woken (`tcp_data_ready`).
    pub(super) fn sleep_if_few_suffice(
        &self,
        host: &Host,
        fd: Fd,
        target: u64,
        progress: &mut Progress,
    ) -> Result<(), Errno> {
        progress.asleep = false;
        if target < u64::from(self.stream(fd)?.options.rcvlowat) {
            self.sleep(host, fd, progress)?;
        }
        Ok(())
    }

    /// The call sleeps from here on until the socket is woken.
    pub(super) fn sleep(&self, host: &Host, fd: Fd, progress: &mut Progress) -> Result<(), Errno> {
        progress.wakes = self.wakes_but_for_data(host, fd)?;
        progress.asleep = true;
        Ok(())
    }

    /// Nothing has woken a read that sleeps, and its time is not over. Data wakes it once there is enough.
    pub(super) fn sleeps_on(
        &self,
        now: Instant,
        host: &Host,
        fd: Fd,
        progress: &Progress,
    ) -> Result<bool, Errno> {
        let id = self.stream(fd)?.connection();
        let tcp = id.and_then(|id| host.tcp_connection(id));
        Ok(!super::over(now, progress)
            && tcp.is_some_and(|tcp| tcp.is_open_for_reading() && !tcp.is_readable())
            && self.wakes_but_for_data(host, fd)? == progress.wakes)
    }

    /// How often the socket has been woken for other reasons than data.
    fn wakes_but_for_data(&self, host: &Host, fd: Fd) -> Result<u32, Errno> {
        let wakes = self.stream(fd)?.wakes(host);
        Ok(wakes.total().wrapping_sub(wakes.read))
    }
}
