//! What applications wrote, read and were told, connection by connection.

use core::net::SocketAddr;
use datapath::tcp::SocketError;
use datapath::units::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One end of a connection, as its application saw it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The node it runs on.
    pub node: u32,
    /// Its flow.
    pub flow: usize,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// It was connected from here.
    pub active: bool,
    /// When it was opened or accepted.
    pub since: Instant,
    /// Bytes that the connection took.
    pub written: u64,
    /// Bytes that it gave.
    pub read: u64,
    /// The first byte that it gave which was not the one written in its place, by its offset.
    pub wrong: Option<u64>,
    /// It said that the peer has closed.
    pub eof: bool,
    /// It said that it has failed.
    pub failed: bool,
    /// When it said so.
    pub failed_at: Instant,
    /// The error that it reported.
    pub error: Option<SocketError>,
    /// The application has closed or reset it.
    pub closed: bool,
    /// It was reset by the application, or given up before it was established.
    pub aborted: bool,
}

/// The byte that is written at an offset of a stream.
pub fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What all applications of a world saw, on whatever thread.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    /// The entries, in the order of calls, which threads may change between nodes.
    pub fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
