//! Linux's network fast path as pure state machines: data in, data out.
//!
//! # The law
//!
//! The datapath is a pure function of (state, packet, time). A driver (the simulator, a live
//! loop, a script) turns it by four verbs, and nothing else ever changes its state:
//!
//! 1. hand in an input: a packet (`receive`), credit for a port (`credit`), or a socket call;
//! 2. `poll` until it returns `None`: every output, in order;
//! 3. ask `wake_at`, and come back no later than that, with the time as an argument;
//! 4. a packet that went in comes out exactly once: as `Send`, as `Drop(reason)`, or consumed by
//!    a socket.
//!
//! Time never runs backwards, and the datapath never reads a clock.
//!
//! # The map
//!
//! | module | what it holds |
//! |---|---|
//! | [`units`], [`rng`] | time, rate, size; seeded random streams |
//! | [`profile`] | what differs between kernels |
//! | [`metrics`] | what routes tell TCP |
//! | [`reason`] | why packets are dropped, by the kernel's names |
//! | [`packet`] | headers, parsing and emission, checksums, super-packets |
//! | [`tcp`] | the connection |
//! | [`host`] | ports, routes and sockets as one node |
//! | [`socket`] | system calls over a host |
//! | [`node`] | the seam: what a driver may do |
//! | [`trace`] | the event stream |
//! | [`qdisc`] | queueing disciplines |
//! | [`fib`] | routes and multipath |

pub mod fib;
pub mod host;
pub mod metrics;
pub mod node;
pub mod packet;
pub mod prefetch;
pub mod profile;
pub mod qdisc;
pub mod reason;
pub mod rng;
pub mod socket;
pub mod tcp;
pub mod trace;
pub mod units;
