//! Which descriptors of a process are open, and what they refer to, derived only from what calls returned.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use datapath::socket::{Errno, Fd};

use super::step::Descriptor;

/// An open descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Which opening it is: no two have the same number.
    opening: u64,
    /// What it stands for.
    pub kind: Kind,
    /// `O_NONBLOCK`.
    nonblocking: bool,
    /// What is known of the datagrams of a UDP socket.
    datagrams: Datagrams,
}

/// How a UDP socket gathers and cuts what it is given (`udp_sendmsg`, `udp_send_skb`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Datagrams {
    /// `UDP_CORK`.
    pub cork: bool,
    /// `UDP_SEGMENT`.
    pub gso_size: u16,
    /// `UDP_GRO` was set once: what comes may be several datagrams.
    pub gro: bool,
    /// `SO_PEEK_OFF` was set once: a peek may begin within a datagram.
    pub peeks_within: bool,
    /// What may have been gathered and not sent, besides nothing at all: bytes, and into which pieces they will
    /// be cut, which is settled by the first call (`ip_setup_cork`).
    gathered: BTreeSet<(u64, u16)>,
    /// A call has failed since the last datagram, or none has gathered anything: that may have thrown away what
    /// was there (`udp_flush_pending_frames`).
    may_be_empty: bool,
}

impl Datagrams {
    /// A call brings bytes: what may be there with them.
    fn with(&self, bytes: u64, gso_size: u16) -> BTreeSet<(u64, u16)> {
        let first = (self.may_be_empty || self.gathered.is_empty()).then_some((bytes, gso_size));
        let more = self.gathered.iter().map(|(there, size)| (there + bytes, *size));
        more.chain(first).collect()
    }

    /// They wait for more.
    pub fn gather(&mut self, bytes: u64, gso_size: u16) {
        self.gathered = self.with(bytes, gso_size);
        self.may_be_empty = false;
    }

    /// They are sent with what was there: lengths of the datagrams that this may make.
    pub fn send(&mut self, bytes: u64, gso_size: u16) -> BTreeSet<u64> {
        let all = self.with(bytes, gso_size);
        self.gathered.clear();
        cut(&all)
    }

    /// What was there is sent alone: `UDP_CORK` ends.
    pub fn push(&mut self) -> BTreeSet<u64> {
        cut(&core::mem::take(&mut self.gathered))
    }

    /// A call has failed.
    pub fn fails(&mut self) {
        self.may_be_empty = true;
    }
}

/// Lengths of the datagrams that so many bytes are cut into: all alike but the last.
fn cut(all: &BTreeSet<(u64, u16)>) -> BTreeSet<u64> {
    let pieces = |&(bytes, size): &(u64, u16)| match u64::from(size) {
        size @ 1.. if bytes > size => {
            vec![size, if bytes % size == 0 { size } else { bytes % size }]
        }
        _ => vec![bytes],
    };
    all.iter().flat_map(pieces).collect()
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Standard input, output or error.
    Standard,
    /// A TCP socket.
    Stream(Stream),
    /// A UDP socket.
    Datagram,
    /// An end of a pipe.
    Pipe,
    /// An epoll.
    Epoll,
    /// A file.
    Disk,
}

/// What is known of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stream {
    /// `listen` has succeeded.
    pub listens: bool,
    /// The two ends of its connection, as far as calls have returned them: its own, the peer's.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Where `connect` was asked to go.
    pub aim: Option<SocketAddr>,
    /// A call has told of an error of the connection, or reading has been shut down: what is read
    /// need not be all that was written.
    pub partial: bool,
    /// `SO_RCVLOWAT` or the like has been set: readable means another thing.
    pub tuned: bool,
    /// The backlog that `listen` was given last, and the largest.
    pub backlog: (u32, u32),
}

impl Kind {
    /// It is a socket.
    const fn is_socket(self) -> bool {
        matches!(self, Self::Stream(_) | Self::Datagram)
    }
}

/// The descriptors of one process.
#[derive(Clone, Debug)]
pub struct Model {
    files: BTreeMap<Fd, File>,
    opened: u64,
    /// Whom each epoll watches, and for what.
    interests: BTreeMap<(Fd, Fd), u32>,
}

impl Model {
    /// 0, 1 and 2 are open.
    pub fn new() -> Self {
        let standard = |fd| {
            let datagrams = Datagrams::default();
            (fd, File { opening: 0, kind: Kind::Standard, nonblocking: false, datagrams })
        };
        Self { files: (0..3).map(standard).collect(), opened: 0, interests: BTreeMap::new() }
    }

    /// The number that is meant; one that is not open if there is none of the kind.
    pub fn choose(&self, which: Descriptor) -> Fd {
        let nth = |index: u32, is: fn(Kind) -> bool| {
            let open = || self.files.iter().filter(|(_, file)| is(file.kind)).map(|(fd, _)| *fd);
            let count = open().count().max(1);
            open().nth(index as usize % count).unwrap_or(NOT_OPEN)
        };
        match which {
            Descriptor::Number(fd) => fd,
            Descriptor::Any(index) => nth(index, |kind| kind != Kind::Standard),
            Descriptor::Stream(index) => {
                nth(index, |kind| matches!(kind, Kind::Stream(stream) if !stream.listens))
            }
            Descriptor::Listener(index) => {
                nth(index, |kind| matches!(kind, Kind::Stream(stream) if stream.listens))
            }
            Descriptor::Datagram(index) => nth(index, |kind| kind == Kind::Datagram),
            Descriptor::Pipe(index) => nth(index, |kind| kind == Kind::Pipe),
            Descriptor::Epoll(index) => nth(index, |kind| kind == Kind::Epoll),
            Descriptor::File(index) => nth(index, |kind| kind == Kind::Disk),
        }
    }

    /// What it stands for.
    pub fn kind(&self, fd: Fd) -> Option<Kind> {
        self.files.get(&fd).map(|file| file.kind)
    }

    /// Which opening it is.
    pub fn opening(&self, fd: Fd) -> Option<u64> {
        self.files.get(&fd).map(|file| file.opening)
    }

    /// `O_NONBLOCK`.
    pub fn is_nonblocking(&self, fd: Fd) -> bool {
        self.files.get(&fd).is_some_and(|file| file.nonblocking)
    }

    /// `O_NONBLOCK` is set or cleared.
    pub fn set_nonblocking(&mut self, fd: Fd, on: bool) {
        if let Some(file) = self.files.get_mut(&fd) {
            file.nonblocking = on;
        }
    }

    /// What is known of the datagrams of a UDP socket, to note something about them.
    pub fn datagrams_mut(&mut self, fd: Fd) -> Option<&mut Datagrams> {
        let file = self.files.get_mut(&fd).filter(|file| file.kind == Kind::Datagram)?;
        Some(&mut file.datagrams)
    }

    /// The TCP socket, to note something about it.
    pub fn stream_mut(&mut self, fd: Fd) -> Option<&mut Stream> {
        match &mut self.files.get_mut(&fd)?.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// A call has opened it: it must be the lowest number that was free.
    pub fn open(&mut self, fd: i64, kind: Kind, nonblocking: bool) -> Result<(), String> {
        let lowest = (0..=i32::MAX).find(|fd| !self.files.contains_key(fd)).expect("one is free");
        if fd != i64::from(lowest) {
            return Err(format!("the new descriptor is {fd}, but {lowest} was free"));
        }
        self.opened += 1;
        let datagrams = Datagrams::default();
        let file = File { opening: self.opened, kind, nonblocking, datagrams };
        self.files.insert(lowest, file);
        Ok(())
    }

    /// It is closed.
    pub fn close(&mut self, fd: Fd) {
        self.files.remove(&fd);
        self.interests.retain(|(epoll, watched), _| *epoll != fd && *watched != fd);
    }

    /// An epoll watches a descriptor from now on, or no longer.
    pub fn watch(&mut self, epoll: Fd, watched: Fd, events: Option<u32>) {
        match events {
            Some(events) => drop(self.interests.insert((epoll, watched), events)),
            None => drop(self.interests.remove(&(epoll, watched))),
        }
    }

    /// Whom an epoll watches, and for what.
    pub fn interests(&self, epoll: Fd) -> Vec<(Fd, u32)> {
        let of_it = self.interests.iter().filter(|((it, _), _)| *it == epoll);
        of_it.map(|((_, watched), events)| (*watched, *events)).collect()
    }

    /// All that are open but the standard ones.
    pub fn open_ones(&self) -> Vec<Fd> {
        let ours = self.files.iter().filter(|(_, file)| file.kind != Kind::Standard);
        ours.map(|(fd, _)| *fd).collect()
    }

    /// The TCP sockets that listen.
    pub fn listeners(&self) -> Vec<Fd> {
        let listens = |file: &File| matches!(file.kind, Kind::Stream(stream) if stream.listens);
        self.files.iter().filter(|(_, file)| listens(file)).map(|(fd, _)| *fd).collect()
    }

    /// The backlogs of those that listen, the latest and the largest.
    pub fn backlogs(&self) -> impl Iterator<Item = (Fd, (u32, u32))> {
        self.files.iter().filter_map(|(fd, file)| match file.kind {
            Kind::Stream(stream) if stream.listens => Some((*fd, stream.backlog)),
            _ => None,
        })
    }

    /// Whether a call on this descriptor may end so, as far as the descriptor alone decides.
    pub fn check(&self, fd: Fd, socket_call: bool, told: Result<i64, Errno>) -> Result<(), String> {
        let Some(kind) = self.kind(fd) else {
            return expected(told, Errno::EBADF, format!("{fd} is not open"));
        };
        if socket_call && !kind.is_socket() {
            return expected(told, Errno::ENOTSOCK, format!("{fd} is no socket but {kind:?}"));
        }
        match told {
            Err(Errno::EBADF | Errno::ENOTSOCK) if kind.is_socket() => {
                Err(format!("{fd} is an open socket"))
            }
            _ => Ok(()),
        }
    }
}

fn expected(told: Result<i64, Errno>, errno: Errno, why: String) -> Result<(), String> {
    if told == Err(errno) { Ok(()) } else { Err(why) }
}

/// A number that no case reaches.
const NOT_OPEN: Fd = 1_000;
