//! What the applications of the host do.

use datapath::socket::{Address, Iov, Md5Signature, Message, OptionValue, Syscall, number};
use serde::{Deserialize, Serialize};

/// A call. Sockets are counted from the newest and never wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Call {
    /// A new socket.
    Socket,
    /// Binds to the port of the listener and listens, with so much room.
    Listen(u16, i32),
    /// Connects to the peer.
    Connect(u16),
    /// The same with so many bytes in the SYN (`MSG_FASTOPEN`).
    ConnectWith(u16, u32),
    /// Accepts a connection.
    Accept(u16),
    /// Sends so many bytes with these flags.
    Send(u16, u32, i32),
    /// Receives up to so many bytes with these flags.
    Receive(u16, u32, i32),
    /// Shuts down.
    Shutdown(u16, i32),
    /// Closes.
    Close(u16),
    /// Closes with a reset (`SO_LINGER` 0).
    Abort(u16),
    /// Sets an option: level, name, value.
    Set(u16, i32, i32, i64),
    /// Sets the congestion control.
    CongestionControl(u16, String),
    /// Sets the key of the peer.
    Key(u16),
    /// Asks for `TCP_INFO` and the like.
    Look(u16),
}

/// The key of all signatures.
pub const KEY: &[u8] = b"a key of both";

impl Call {
    /// Which socket, counted from the newest.
    pub const fn slot(&self) -> u16 {
        match self {
            Self::Socket => 0,
            Self::Listen(slot, _)
            | Self::Connect(slot)
            | Self::ConnectWith(slot, _)
            | Self::Accept(slot)
            | Self::Send(slot, ..)
            | Self::Receive(slot, ..)
            | Self::Shutdown(slot, _)
            | Self::Close(slot)
            | Self::Abort(slot)
            | Self::Set(slot, ..)
            | Self::CongestionControl(slot, _)
            | Self::Key(slot)
            | Self::Look(slot) => *slot,
        }
    }

    /// The system calls that it comes to. `here`: the listener's address; `there`: the peer's.
    pub fn syscalls(&self, fd: i32, here: Address, there: Address, ipv6: bool) -> Vec<Syscall> {
        let set = |level, name, value| Syscall::SetOption { fd, level, name, value, len: 128 };
        match *self {
            Self::Socket => {
                let domain = if ipv6 { number::AF_INET6 } else { number::AF_INET };
                let kind = number::SOCK_STREAM | number::SOCK_NONBLOCK;
                vec![Syscall::Socket { domain, kind, protocol: 0 }]
            }
            Self::Listen(_, backlog) => {
                vec![Syscall::Bind { fd, address: here }, Syscall::Listen { fd, backlog }]
            }
            Self::Connect(_) => vec![Syscall::Connect { fd, address: there }],
            Self::ConnectWith(_, bytes) => {
                let iov = Iov::from(u64::from(bytes));
                let message = Message { address: there, iov, control: Vec::new() };
                vec![Syscall::Send { fd, message, flags: number::MSG_FASTOPEN }]
            }
            Self::Accept(_) => vec![Syscall::Accept { fd, flags: number::SOCK_NONBLOCK }],
            Self::Send(_, bytes, flags) => {
                let iov = Iov::from(u64::from(bytes));
                vec![Syscall::Send { fd, message: Message { iov, ..Message::default() }, flags }]
            }
            Self::Receive(_, bytes, flags) => {
                vec![Syscall::Receive { fd, iov: u64::from(bytes).into(), flags }]
            }
            Self::Shutdown(_, how) => vec![Syscall::Shutdown { fd, how }],
            Self::Close(_) => vec![Syscall::Close { fd }],
            Self::Abort(_) => {
                let value = OptionValue::Linger { on: true, seconds: 0 };
                vec![set(number::SOL_SOCKET, number::SO_LINGER, value), Syscall::Close { fd }]
            }
            Self::Set(_, level, name, value) => {
                vec![set(level, name, OptionValue::Number(value))]
            }
            Self::CongestionControl(_, ref name) => {
                let value = OptionValue::Text(name.clone());
                vec![set(number::SOL_TCP, number::TCP_CONGESTION, value)]
            }
            Self::Key(_) => {
                let Address::Inet(address) = there else { return Vec::new() };
                let key = Md5Signature { address, prefix_len: None, key: KEY.to_vec() };
                vec![set(number::SOL_TCP, number::TCP_MD5SIG, OptionValue::Md5(key))]
            }
            Self::Look(_) => vec![
                Syscall::get(fd, number::SOL_TCP, number::TCP_INFO),
                Syscall::get(fd, number::SOL_SOCKET, number::SO_ERROR),
                Syscall::get(fd, number::SOL_SOCKET, number::SO_MEMINFO),
                Syscall::Ioctl { fd, request: number::SIOCOUTQ, argument: 0 },
                Syscall::Ioctl { fd, request: number::SIOCINQ, argument: 0 },
            ],
        }
    }
}
