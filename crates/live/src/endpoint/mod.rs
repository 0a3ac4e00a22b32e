//! A TCP stack of our own on a TUN device, between real programs.
//!
//! A [`Stack`] is a [`Host`](datapath::host::Host) with one port, whose wire ends in this machine's
//! kernel. One thread waits for the device and for the host's timers; whoever makes a socket call turns
//! the host itself, as a system call does in a kernel. Both hold the lock of the stack meanwhile, so time
//! goes on only where the host is idle, as the law of the datapath wants.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | which device, which addresses, what can be wrong with them |
//! | `stack` | the host, the device and the lock around them |
//! | `wait` | which threads and wakers wait for which socket |
//! | `stream`, `listener`, `datagram` | sockets: each call in a form that never waits, one that waits, and one for `async` |
//! | `ready` | what a socket is ready for |

mod datagram;
mod errors;
mod listener;
mod ready;
mod settings;
mod stack;
mod stream;
mod wait;

pub use datagram::UdpSocket;
pub use listener::TcpListener;
pub use ready::Readiness;
pub use settings::{Cidr, Settings};
pub use stack::{Counters, Stack};
pub use stream::TcpStream;
pub use wait::block_on;
