//! Bytes for applications that know lengths only: what they write is filled with a pattern, and what they
//! read is held against it.
//!
//! A driver that has [`Streams`] for a host lends them to [`AppCx`](crate::AppCx), whose calls then send
//! and receive bytes. The byte at an offset depends on the two ports and the offset alone, so that what
//! comes at the wrong place, or to the wrong connection, is noticed where it is read.

use core::net::SocketAddr;
use core::ops::AddAssign;
use datapath::host::{Host, SocketId, TcpRead};
use datapath::packet::Body;
use datapath::rng::mix;
use datapath::tcp::Connection;
use datapath::units::Instant;
use std::collections::BTreeMap;

/// What the connections of one host carry.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    open: BTreeMap<SocketId, usize>,
    all: Vec<Stream>,
    datagrams: u64,
    /// The label of the first datagram that was not as it was sent.
    wrong_datagram: Option<u32>,
    ahead: Ahead,
    memory: Vec<u8>,
}

/// Bytes of a stream that were offered to a connection and are kept: it seldom takes all of them at once, and those
/// that it leaves come next.
#[derive(Clone, Debug, Default)]
struct Ahead {
    key: u64,
    /// The offset of the first.
    from: u64,
    bytes: Vec<u8>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Bytes that the connection has taken.
    pub written: u64,
    /// Bytes that it has given.
    pub read: u64,
    /// The first byte that it gave which was not the one written in its place, by its offset.
    pub wrong: Option<u64>,
    /// It has said that the other end will write no more.
    pub eof: bool,
}

/// How much was held against what was written, and found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Compared {
    /// Ends of connections from which something was read.
    pub streams: u64,
    /// Those that were read to the end, and have given as many bytes as were written at the other end.
    pub whole: u64,
    /// Bytes read from connections.
    pub bytes: u64,
    /// Datagrams.
    pub datagrams: u64,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.streams += other.streams;
        self.whole += other.whole;
        self.bytes += other.bytes;
        self.datagrams += other.datagrams;
    }
}

/// Bytes at the beginning of a datagram that hold its label. What is shorter stays a length with a label.
pub(crate) const LABEL: usize = 4;
/// What a write may take beyond the free memory of its connection: the rest of one record, and one that
/// is begun with the last byte.
const BEYOND: u64 = 1 << 17;

impl Streams {
    /// All ends of connections so far that something was written to or read from, in the order in which
    /// they began.
    pub fn all(&self) -> &[Stream] {
        &self.all
    }

    /// Holds what was read at all hosts of a world against what was written at the others. What is
    /// still on its way is not missed.
    ///
    /// # Errors
    /// What is not as it was written, in words.
    pub fn compare<'a>(
        hosts: impl IntoIterator<Item = &'a Self> + Clone,
    ) -> Result<Compared, String> {
        let mut writers: BTreeMap<(SocketAddr, SocketAddr), Vec<u64>> = BTreeMap::new();
        for stream in hosts.clone().into_iter().flat_map(Self::all) {
            writers.entry((stream.local, stream.remote)).or_default().push(stream.written);
        }
        let mut all = Compared::default();
        for host in hosts {
            if let Some(label) = host.wrong_datagram {
                return Err(format!("datagram {label} was not read as it was sent"));
            }
            all.datagrams += host.datagrams;
            for stream in &host.all {
                // What is written past our calls is nothing that is known here.
                let Some(written) = writers.get(&(stream.remote, stream.local)) else { continue };
                // Where one pair of ports had several connections, who wrote to whom is not known.
                let written = if let [only] = written[..] { Some(only) } else { None };
                all += stream.compare(written)?;
            }
        }
        Ok(all)
    }

    /// Writes as many of the next `len` bytes as the connection takes.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        host: &mut Host,
        socket: SocketId,
        len: u64,
    ) -> u64 {
        let Some(tcp) = host.tcp_connection(socket) else { return 0 };
        let room = u64::from(tcp.sndbuf().saturating_sub(tcp.wmem_queued())) + BEYOND;
        let place = self.stream_of(host, socket);
        let Some(stream) = place.and_then(|place| self.all.get_mut(place)) else { return 0 };
        let key = key(stream.local, stream.remote);
        let offered = self.ahead.bytes(key, stream.written, len.min(room) as usize);
        let taken = host.tcp_send(now, socket, offered).unwrap_or(0);
        stream.written += taken;
        taken
    }

    /// Reads up to `max` bytes.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        host: &mut Host,
        socket: SocketId,
        max: u64,
    ) -> TcpRead {
        let place = self.stream_of(host, socket);
        let unread = host.tcp_connection(socket).map_or(0, Connection::unread_bytes);
        // Memory without room would read nothing, whatever there is to be told.
        self.memory.resize(max.min(u64::from(unread).max(1)) as usize, 0);
        let read = host.tcp_receive(now, socket, &mut self.memory).unwrap_or(TcpRead::Reset);
        let Some(stream) = place.and_then(|place| self.all.get_mut(place)) else { return read };
        match read {
            TcpRead::Data(len) => stream.verify(&self.memory[..len as usize]),
            TcpRead::WouldBlock => {}
            TcpRead::Eof | TcpRead::Reset => {
                stream.eof |= matches!(read, TcpRead::Eof);
                self.open.remove(&socket);
            }
        }
        read
    }

    /// The place of a connection's stream, which begins when it is first asked for.
    fn stream_of(&mut self, host: &Host, socket: SocketId) -> Option<usize> {
        if let Some(place) = self.open.get(&socket) {
            return Some(*place);
        }
        let tcp = host.tcp_connection(socket)?;
        let (local, remote) = (tcp.local(), tcp.remote());
        self.open.insert(socket, self.all.len());
        self.all.push(Stream { local, remote, written: 0, read: 0, wrong: None, eof: false });
        Some(self.all.len() - 1)
    }

    /// The bytes of a datagram of which its label and its length are known, which are enough for the label.
    pub(crate) fn datagram(&mut self, body: &Body) -> &[u8] {
        self.memory.resize(body.len as usize, 0);
        write_datagram(body.offset, &mut self.memory);
        &self.memory
    }

    /// Holds a datagram that has come against what was sent under its label.
    pub(crate) fn check_datagram(&mut self, body: &Body) {
        if body.frame.is_none() {
            // Sent past our calls.
            return;
        }
        let label = label(body);
        self.datagrams += 1;
        self.memory.resize(body.len as usize, 0);
        write_datagram(label, &mut self.memory);
        if body.bytes() != self.memory {
            self.wrong_datagram.get_or_insert(label);
        }
    }
}

impl Ahead {
    /// The `len` bytes of a stream from `offset` on. Those that are known are not made again.
    fn bytes(&mut self, key: u64, offset: u64, len: usize) -> &[u8] {
        let known = self.from..=self.from + self.bytes.len() as u64;
        if self.key != key || !known.contains(&offset) {
            *self = Self { key, from: offset, bytes: std::mem::take(&mut self.bytes) };
            self.bytes.clear();
        }
        let mut begin = (offset - self.from) as usize;
        if begin > self.bytes.len() / 2 {
            // What was taken goes when it is the larger part: then no byte is moved more than once on average.
            self.bytes.drain(..begin);
            (self.from, begin) = (offset, 0);
        }
        let there = self.bytes.len();
        if there < begin + len {
            self.bytes.resize(begin + len, 0);
            fill(key, self.from + there as u64, &mut self.bytes[there..]);
        }
        &self.bytes[begin..begin + len]
    }
}

impl Stream {
    /// Holds `bytes`, which come next, against what was written in their place.
    fn verify(&mut self, bytes: &[u8]) {
        let key = key(self.remote, self.local);
        let mut expected = [0; 4_096];
        for piece in bytes.chunks(expected.len()) {
            let expected = &mut expected[..piece.len()];
            fill(key, self.read, expected);
            if piece != expected {
                let differs = piece.iter().zip(&*expected).position(|(byte, other)| byte != other);
                let at = self.read + differs.unwrap_or(0) as u64;
                self.wrong.get_or_insert(at);
            }
            self.read += piece.len() as u64;
        }
    }

    /// Holds it against the number of bytes that were written at its other end, if that is known.
    fn compare(&self, written: Option<u64>) -> Result<Compared, String> {
        let Self { local, remote, read, .. } = self;
        if let Some(offset) = self.wrong {
            return Err(format!(
                "byte {offset} that {local} read is not the one that {remote} wrote"
            ));
        }
        if let Some(written) = written
            && (*read > written || (self.eof && *read < written))
        {
            return Err(format!("{local} has read {read} bytes, {remote} has written {written}"));
        }
        let whole = u64::from(self.eof && written == Some(*read) && *read > 0);
        Ok(Compared { streams: u64::from(*read > 0), whole, bytes: *read, datagrams: 0 })
    }
}

/// The label of a datagram: its first four bytes, or what stands in their place where there are none.
pub(crate) fn label(body: &Body) -> u32 {
    if body.frame.is_none() {
        return body.offset;
    }
    body.bytes().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A datagram: its label, then the pattern of that.
fn write_datagram(label: u32, out: &mut [u8]) {
    let (head, rest) = out.split_at_mut(LABEL.min(out.len()));
    head.iter_mut().zip(label.to_be_bytes()).for_each(|(byte, it)| *byte = it);
    fill(u64::from(label) << 32, 0, rest);
}

/// What tells the two streams of a connection from those of others.
fn key(writer: SocketAddr, reader: SocketAddr) -> u64 {
    (u64::from(writer.port()) << 16 | u64::from(reader.port())) << 32
}

/// The bytes of a stream from `offset` on.
fn fill(key: u64, offset: u64, out: &mut [u8]) {
    let skipped = (offset % 8) as usize;
    let (first, rest) = out.split_at_mut(out.len().min((8 - skipped) % 8));
    let beginning = word(key, offset / 8).to_le_bytes();
    first.iter_mut().zip(beginning.iter().skip(skipped)).for_each(|(byte, it)| *byte = *it);
    for (piece, number) in rest.chunks_mut(8).zip(offset.div_ceil(8)..) {
        piece.copy_from_slice(&word(key, number).to_le_bytes()[..piece.len()]);
    }
}

/// Eight bytes of a stream.
fn word(key: u64, number: u64) -> u64 {
    let mixed = mix((key ^ number).wrapping_add(1));
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(local: u16, remote: u16) -> Stream {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let (local, remote) = (at(local), at(remote));
        Stream { local, remote, written: 0, read: 0, wrong: None, eof: false }
    }

    fn streams(all: &[Stream]) -> Streams {
        Streams { all: all.to_vec(), ..Streams::default() }
    }

    #[test]
    fn pieces_of_any_length_are_those_of_the_whole() {
        let mut whole = [0; 300];
        fill(key(stream(1, 2).local, stream(1, 2).remote), 0, &mut whole);
        let mut written = 0;
        for len in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100] {
            let mut piece = vec![0; len];
            fill(key(stream(1, 2).local, stream(1, 2).remote), written as u64, &mut piece);
            assert_eq!(piece, whole[written..written + len], "{len} from {written} on");
            written += len;
        }
    }

    #[test]
    fn what_was_offered_and_not_taken_is_not_made_again() {
        let mut whole = vec![0; 100_000];
        fill(7, 0, &mut whole);
        let mut ahead = Ahead::default();
        let mut offset = 0;
        for (len, taken) in
            [(100, 1), (9_000, 9_000), (5_000, 3), (5_000, 0), (60_000, 20_000), (8, 8)]
        {
            assert_eq!(ahead.bytes(7, offset, len), &whole[offset as usize..][..len]);
            // A mark that only making it anew would remove.
            let last = (offset - ahead.from) as usize + len - 1;
            ahead.bytes[last] ^= 1;
            let again = ahead.bytes(7, offset, len);
            assert_eq!(again.last().map(|byte| byte ^ 1), Some(whole[offset as usize + len - 1]));
            ahead.bytes[last] ^= 1;
            offset += taken;
        }
        let mut other = vec![0; 50];
        fill(8, 5, &mut other);
        assert_eq!(ahead.bytes(8, 5, 50), other, "of another stream");
        assert_eq!(ahead.bytes(8, 4, 51)[1..], other, "from further before");
    }

    #[test]
    fn a_byte_at_the_wrong_place_is_noticed() {
        let mut bytes = vec![0; 10_000];
        fill(key(stream(1, 2).local, stream(1, 2).remote), 0, &mut bytes);
        let mut reader = stream(2, 1);
        reader.verify(&bytes[..5_000]);
        assert_eq!((reader.read, reader.wrong), (5_000, None));
        reader.verify(&bytes[5_001..]);
        assert_eq!((reader.read, reader.wrong), (9_999, Some(5_000)));
        let why = reader.compare(None).expect_err("it differs");
        assert_eq!(why, "byte 5000 that 10.0.0.1:2 read is not the one that 10.0.0.1:1 wrote");
    }

    #[test]
    fn bytes_of_another_connection_are_noticed() {
        let mut bytes = [0; 64];
        fill(key(stream(3, 2).local, stream(3, 2).remote), 0, &mut bytes);
        let mut reader = stream(2, 1);
        reader.verify(&bytes);
        assert_eq!(reader.wrong, Some(0));
    }

    #[test]
    fn what_is_missing_at_the_end_is_noticed() {
        let writer = Stream { written: 100, ..stream(1, 2) };
        let reader = Stream { read: 90, ..stream(2, 1) };
        let nobody = Streams::compare(&[streams(&[reader])]);
        assert_eq!(nobody, Ok(Compared::default()), "what was written by nobody is not compared");
        let both = [streams(&[writer]), streams(&[reader])];
        let on_its_way = Streams::compare(&both).expect("ten bytes are on their way");
        assert_eq!(on_its_way, Compared { streams: 1, bytes: 90, ..Compared::default() });
        let ended = [streams(&[writer]), streams(&[Stream { eof: true, ..reader }])];
        let why = Streams::compare(&ended).expect_err("ten bytes are missing");
        assert_eq!(why, "10.0.0.1:2 has read 90 bytes, 10.0.0.1:1 has written 100");
        let whole = Stream { read: 100, eof: true, ..reader };
        let compared = Streams::compare(&[streams(&[writer]), streams(&[whole])]);
        let one = Compared { streams: 1, whole: 1, bytes: 100, datagrams: 0 };
        assert_eq!(compared, Ok(one));
    }

    #[test]
    fn a_datagram_knows_its_label_and_its_bytes() {
        let mut host = Streams::default();
        for len in [4, 5, 1_400] {
            let sent = Body { offset: 77_000, ..Body::of_len(len) };
            let mut bytes = host.datagram(&sent).to_vec();
            let body = |bytes: &[u8]| Body::of_frame(bytes.to_vec().into());
            assert_eq!(label(&body(&bytes)), 77_000);
            host.check_datagram(&body(&bytes));
            let mut changed = Streams::default();
            bytes[len as usize - 1] ^= 1;
            changed.check_datagram(&body(&bytes));
            // A label alone that has changed is another one.
            assert_eq!(changed.wrong_datagram.is_some(), len > 4, "{len}");
        }
        assert_eq!((host.datagrams, host.wrong_datagram), (3, None));
    }
}
