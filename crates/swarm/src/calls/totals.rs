//! Bytes of connections and datagrams: what was written, and what was read.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

/// What goes from one end to another: the sender's address, the receiver's.
pub type Direction = (SocketAddr, SocketAddr);

/// Totals of one direction, for all connections between these ends together.
#[derive(Clone, Copy, Debug, Default)]
struct DirectionTotals {
    written: u64,
    /// Bytes that were read in line.
    read: u64,
    /// Urgent bytes that `MSG_OOB` took.
    taken: u64,
    /// Of these, those that may have been read in line as well.
    read_again: u64,
    /// Connections that were begun from here, or from there.
    begun: u32,
    /// Connections that `accept` gave.
    accepted: u32,
    /// Urgent bytes were sent, which a reader may miss.
    urgent: bool,
    /// A descriptor was closed during a write: how much of that was sent is not reported.
    cut_off: bool,
}

/// So many of the first bytes may be missing behind a SYN cookie: the numbers of its segment sizes are
/// 0 to 3, and the sequence number is added to them (`__cookie_v4_check`).
const COOKIE_SLACK: u64 = 3;

/// The totals of both hosts.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    directions: BTreeMap<Direction, DirectionTotals>,
    /// Datagrams that were sent, by the sender's port and their length.
    datagrams: BTreeSet<(u16, u64)>,
}

impl Totals {
    /// A connection was begun.
    pub fn begins(&mut self, way: Direction) {
        self.directions.entry(way).or_default().begun += 1;
        self.directions.entry((way.1, way.0)).or_default().begun += 1;
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, way: Direction) {
        self.directions.entry(way).or_default().accepted += 1;
        self.directions.entry((way.1, way.0)).or_default().accepted += 1;
    }

    /// Bytes were written.
    pub fn wrote(&mut self, way: Direction, bytes: u64) {
        let written = &mut self.directions.entry(way).or_default().written;
        *written = written.saturating_add(bytes);
    }

    /// A write was left that may have sent up to so many bytes.
    pub fn cut_off(&mut self, way: Direction, bytes: u64) {
        self.wrote(way, bytes);
        self.directions.entry(way).or_default().cut_off = true;
    }

    /// Bytes were read in line; `under_way` are in writes that have not returned yet.
    pub fn read(&mut self, way: Direction, bytes: u64, under_way: u64) -> Result<(), String> {
        self.directions.entry(way).or_default().read += bytes;
        self.check(way, under_way)
    }

    /// `MSG_OOB` took urgent bytes.
    pub fn took(&mut self, way: Direction, bytes: u64, under_way: u64) -> Result<(), String> {
        self.directions.entry(way).or_default().taken += bytes;
        self.check(way, under_way)
    }

    /// A reader goes on in line with `SO_OOBINLINE`. What `MSG_OOB` took lies in line still, and only
    /// without that option does a reader pass over it (`tcp_recvmsg_locked`).
    pub fn reads_urgent_in_line(&mut self, way: Direction) {
        let account = self.directions.entry(way).or_default();
        account.read_again = account.taken;
    }

    fn check(&self, way: Direction, under_way: u64) -> Result<(), String> {
        let account = self.directions.get(&way).copied().unwrap_or_default();
        // An old segment may open a connection a second time, and its data with it: with Fast Open
        // or SYN cookies nobody remembers the first.
        let again = account.accepted > account.begun;
        let once = account.read + account.taken - account.read_again;
        if again || once <= account.written.saturating_add(under_way) {
            return Ok(());
        }
        Err(format!("{account:?} from {} to {}, {under_way} under way", way.0, way.1))
    }

    /// The end of a stream was read: all must have been. `by_cookie`: the reader's host has taken
    /// SYN cookies back.
    pub fn ended(&mut self, way: Direction, under_way: u64, by_cookie: bool) -> Result<(), String> {
        let account = self.directions.entry(way).or_default();
        let unclear = account.urgent || account.cut_off || under_way > 0;
        if account.begun != 1 || account.accepted > 1 || unclear {
            return Ok(());
        }
        let slack = if by_cookie { COOKIE_SLACK } else { 0 };
        if account.read <= account.written && account.read + slack >= account.written {
            return Ok(());
        }
        Err(format!("the end is read, but {account:?} from {} to {}", way.0, way.1))
    }

    /// Urgent bytes were sent.
    pub fn urgent(&mut self, way: Direction) {
        self.directions.entry(way).or_default().urgent = true;
    }

    /// A datagram was sent from this port.
    pub fn sent(&mut self, port: u16, bytes: u64) {
        self.datagrams.insert((port, bytes));
    }

    /// A datagram from this port was received: whole.
    pub fn received(&self, port: u16, bytes: u64) -> Result<(), String> {
        if self.datagrams.contains(&(port, bytes)) {
            return Ok(());
        }
        Err(format!("no datagram of {bytes} bytes was sent from port {port}"))
    }
}
