//! One data stream: a thread that sends or receives as fast as it can, and what it counts.

use crate::wire::Params;
use datapath::tcp::info::TcpInfo;
use live::endpoint::TcpStream;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A stream, and the thread that works on it.
#[derive(Debug)]
pub struct Flow {
    /// The number that both ends know it by.
    pub id: u64,
    stream: Arc<TcpStream>,
    shared: Arc<SharedCounters>,
    sends: bool,
    thread: Option<JoinHandle<()>>,
}

/// Counters that the thread and its owner share.
#[derive(Debug, Default)]
struct SharedCounters {
    bytes: AtomicU64,
    stop: AtomicBool,
}

/// How a stream is worked on.
#[derive(Clone, Debug)]
pub struct StreamTask {
    /// This end sends.
    pub sends: bool,
    /// Bytes of each write or read.
    pub len: usize,
    /// What all streams together may still send or receive; `None` for no limit.
    pub left: Option<Arc<AtomicU64>>,
}

impl StreamTask {
    /// What a test wants of each end.
    pub fn of(params: &Params, sends: bool) -> Self {
        // What is left out does not count.
        let bytes = if params.omit > 0 { u64::MAX } else { params.bytes };
        let left = (params.bytes > 0).then(|| Arc::new(AtomicU64::new(bytes)));
        Self { sends, len: params.len, left }
    }
}

impl Flow {
    /// A stream on which nothing happens yet.
    pub fn new(id: u64, stream: TcpStream) -> Self {
        let (stream, shared) = (Arc::new(stream), Arc::default());
        Self { id, stream, shared, sends: false, thread: None }
    }

    /// Begins.
    pub fn start(&mut self, work: StreamTask) {
        self.sends = work.sends;
        let (stream, shared) = (Arc::clone(&self.stream), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new().name(format!("stream-{}", self.id));
        let run = move || {
            if work.sends {
                send(&stream, &shared, &work);
            } else {
                receive(&stream, &shared, &work);
            }
        };
        self.thread = thread.spawn(run).ok();
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What TCP says of it.
    pub fn info(&self) -> Option<TcpInfo> {
        self.stream.info()
    }

    /// Whether nothing more will be counted: all is sent, or the connection has ended.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Nothing more is written, and all that was is counted; what comes is still read.
    pub fn stop_sending(&mut self) {
        if !self.sends {
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        self.stream.wake();
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _has_panicked = thread.join();
        }
    }

    /// Ends it, and waits for its thread.
    pub fn end(&mut self) {
        self.stop_sending();
        let _is_gone = self.stream.shutdown(Shutdown::Both);
        self.join();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.end();
    }
}

fn send(stream: &TcpStream, shared: &SharedCounters, work: &StreamTask) {
    let block = vec![0; work.len];
    while !shared.stop.load(Ordering::Acquire) {
        let mut len = work.len;
        if let Some(left) = &work.left {
            let take = |left: u64| Some(left - left.min(work.len as u64));
            let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            len = before.unwrap_or_else(|same| same).min(work.len as u64) as usize;
            if len == 0 {
                return;
            }
        }
        let mut rest = &block[..len];
        while !rest.is_empty() {
            // A test may end in the middle of a block.
            let Ok(Some(written)) = stream.write_unless(rest, &shared.stop) else { return };
            shared.bytes.fetch_add(written as u64, Ordering::Relaxed);
            rest = &rest[written..];
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

fn receive(stream: &TcpStream, shared: &SharedCounters, work: &StreamTask) {
    let mut memory = vec![0; work.len];
    while let Ok(len @ 1..) = stream.read(&mut memory) {
        shared.bytes.fetch_add(len as u64, Ordering::Relaxed);
        if let Some(left) = &work.left {
            let less = |left: u64| Some(left.saturating_sub(len as u64));
            let _is_there = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}
