//! What is done, as plain data.

use serde::{Deserialize, Serialize};

use crate::shrink::with_plainer;

/// One of the two hosts: 0 or 1.
pub type End = u8;

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// A system call.
    Call(End, Call),
    /// A sysctl is written: name, value. One that is refused changes nothing.
    Sysctl(End, String, String),
    /// Time passes, in µs.
    Wait(u64),
    /// An echo request: whether over IPv6, to whom, bytes.
    Ping(End, bool, AddressOf, u32),
    /// What `poll` says of a descriptor is held against what a read, a write or an `accept` then
    /// gives.
    Probe(End, Descriptor),
}

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Descriptor {
    /// This number, whatever it stands for.
    Number(i32),
    /// The open descriptor of that place among all, counted round.
    Any(u32),
    /// The same among the TCP sockets.
    Stream(u32),
    /// The same among the TCP sockets that `listen` succeeded with.
    Listener(u32),
    /// The same among the UDP sockets.
    Datagram(u32),
    /// The same among the ends of pipes.
    Pipe(u32),
    /// The same among the epolls.
    Epoll(u32),
    /// The same among the files.
    File(u32),
}

/// A `struct sockaddr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Address {
    /// A null pointer.
    Null,
    /// `AF_UNSPEC`.
    Unspecified,
    /// Another family, and a length.
    Other(i32, u32),
    /// IPv4, with a port.
    V4(AddressOf, u16),
    /// IPv6, with a port.
    V6(AddressOf, u16),
    /// IPv4 in IPv6, with a port.
    Mapped(AddressOf, u16),
}

/// Whose address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum AddressOf {
    /// That of host 0 or 1.
    Host(End),
    /// The loopback.
    Loopback,
    /// The unspecified address.
    Everywhere,
    /// A neighbour that does not exist, in the prefix of the hosts.
    Nobody,
    /// Somewhere without a route.
    Unreachable,
}

/// What a call is given to read or write: lengths, negative ones of bad memory.
pub type Memory = Vec<i64>;

/// A control message of `sendmsg`: level, type, and the number in it. Of `IP_PKTINFO` and `IPV6_PKTINFO` the lowest
/// two bits are the number of the interface, the next two say whose address is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control(pub i32, pub i32, pub i32);

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Value {
    /// An `int`, with the length that is given.
    Number(i64, u32),
    /// `struct linger`.
    Linger(bool, u32),
    /// `struct timeval`, in µs.
    Micros(u64),
    /// Text.
    Text(String),
    /// Bytes: so many.
    Bytes(u32),
    /// `struct tcp_md5sig`: whose, bits of the prefix, bytes of the key.
    Md5(Address, #[serde(with = "nothing")] Option<u8>, u32),
    /// A bad pointer.
    Fault,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Call {
    /// `socket`: domain, type, protocol.
    Socket(i32, i32, i32),
    /// `bind`.
    Bind(Descriptor, Address),
    /// `listen`: backlog.
    Listen(Descriptor, i32),
    /// `accept4`: flags.
    Accept(Descriptor, i32),
    /// `connect`.
    Connect(Descriptor, Address),
    /// `readv`.
    Read(Descriptor, Memory),
    /// `writev`.
    Write(Descriptor, Memory),
    /// `sendmsg`: where to, memory, flags.
    Send(Descriptor, Address, Memory, i32),
    /// The same with control messages.
    SendMessage(Descriptor, Address, Memory, Vec<Control>, i32),
    /// `recvmsg`: memory, flags.
    Receive(Descriptor, Memory, i32),
    /// `sendfile`: to, from, offset (negative: a huge one), count.
    Sendfile(Descriptor, Descriptor, #[serde(with = "nothing")] Option<i64>, i64),
    /// `splice`: from, to, length, flags.
    Splice(Descriptor, Descriptor, i64, i32),
    /// `pipe`.
    Pipe,
    /// `open`: path, flags.
    Open(String, i32),
    /// `poll`: whom, for what; timeout in ms.
    Poll(Vec<(Descriptor, i32)>, i32),
    /// `select`: read, write, except, timeout in µs.
    Select(
        Vec<Descriptor>,
        Vec<Descriptor>,
        Vec<Descriptor>,
        #[serde(with = "nothing")] Option<u64>,
    ),
    /// `epoll_create`: size.
    EpollCreate(i32),
    /// `epoll_create1`: flags.
    EpollCreate1(i32),
    /// `epoll_ctl`: epoll, operation, about whom, events (`None`: a null pointer).
    EpollCtl(Descriptor, i32, Descriptor, #[serde(with = "nothing")] Option<u32>),
    /// `epoll_wait`: epoll, most events, timeout in ms.
    EpollWait(Descriptor, i32, i32),
    /// `close`.
    Close(Descriptor),
    /// `shutdown`: how.
    Shutdown(Descriptor, i32),
    /// `fcntl`: command, argument.
    Fcntl(Descriptor, i32, i32),
    /// `ioctl`: request, argument.
    Ioctl(Descriptor, i32, i32),
    /// `getsockopt`: level, name, room.
    Get(Descriptor, i32, i32, u32),
    /// `setsockopt`: level, name, value.
    Set(Descriptor, i32, i32, Value),
    /// `getsockname`.
    LocalName(Descriptor),
    /// `getpeername`.
    PeerName(Descriptor),
}

/// What lies between the hosts, alike in both directions. Chances are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// kbit/s; 0: no limit.
    pub rate: u32,
    /// One way, µs.
    pub delay: u32,
    /// Up to so much more, packet by packet, µs: packets overtake each other.
    pub jitter: u32,
    /// Packets lost.
    pub loss: u16,
    /// Packets that arrive twice.
    pub duplication: u16,
    /// Packets that arrive damaged.
    pub corruption: u16,
    /// How many packets a device takes at once, besides the first.
    pub ring: u8,
    /// Super-packets are joined by the receiver (`gro`).
    pub gro: bool,
    /// Devices say beforehand when they will have room again.
    #[serde(default)]
    pub promises: bool,
}

impl Wire {
    /// Wires with one fault less.
    pub fn simpler(&self) -> Vec<Self> {
        let calmer = [
            Self { loss: 0, ..*self },
            Self { duplication: 0, ..*self },
            Self { corruption: 0, ..*self },
            Self { jitter: 0, ..*self },
            Self { rate: 0, ..*self },
            Self { gro: false, ..*self },
            Self { promises: false, ..*self },
            Self { ring: 0, ..*self },
        ];
        calmer.into_iter().filter(|wire| wire != self).collect()
    }
}

/// The same steps, one of them milder.
pub fn simpler(steps: &[Step]) -> Vec<Vec<Step>> {
    let milder = |step: &Step| match step {
        Step::Wait(micros) if *micros > 1_000 => Some(Step::Wait(micros / 4)),
        Step::Call(end, Call::Write(fd, memory)) if memory.len() > 1 => {
            Some(Step::Call(*end, Call::Write(*fd, memory[..1].to_vec())))
        }
        Step::Call(end, Call::Write(fd, memory))
            if memory.first().is_some_and(|len| *len > 1_000) =>
        {
            Some(Step::Call(*end, Call::Write(*fd, vec![memory[0] / 4])))
        }
        Step::Call(end, Call::SendMessage(fd, to, memory, control, flags)) => {
            let (memory, mut control) = (memory.clone(), control.clone());
            let call = match control.pop() {
                Some(_) => Call::SendMessage(*fd, *to, memory, control, *flags),
                None => Call::Send(*fd, *to, memory, *flags),
            };
            Some(Step::Call(*end, call))
        }
        _ => None,
    };
    with_plainer(steps, |step| milder(step).into_iter().collect())
}

/// What may be missing in a list, which in TOML has no way to say so: the word `nothing` stands for it.
mod nothing {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Maybe<T> {
        There(T),
        Not(Word),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Nothing,
    }

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<T: Serialize + Copy, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map_or(Maybe::Not(Word::Nothing), Maybe::There).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(match Maybe::deserialize(deserializer)? {
            Maybe::There(value) => Some(value),
            Maybe::Not(_) => None,
        })
    }
}
