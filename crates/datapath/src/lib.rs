//! Linux's network fast path as pure state machines: data in, data out.
//!
//! A host connects, and its driver takes out what it says, until it has nothing more to say:
//!
//! ```
//! use datapath::host::{Host, PortConfig};
//! use datapath::node::Poll;
//! use datapath::packet::{LinkHeader, Packet, TcpFlags};
//! use datapath::units::{Duration, Instant};
//!
//! let mut host = Host::new();
//! let port = host.add_port(PortConfig {
//!     addresses: vec![("10.0.0.1".parse()?, 24)],
//!     link: LinkHeader::None,
//!     ..PortConfig::default()
//! });
//!
//! // Time is what the driver says it is. The device has room for one packet.
//! let now = Instant::ZERO;
//! host.grant(now, port, 1);
//! let config = host.tcp_defaults();
//! host.tcp_connect(now, "10.0.0.1:4000".parse()?, "10.0.0.2:80".parse()?, &config)
//!     .expect("there is a route");
//!
//! let (mut place, mut sent) = (Packet::default(), Vec::new());
//! let come_back = loop {
//!     match host.poll(now, &mut place) {
//!         Poll::Send { port, .. } => {
//!             sent.push(place.take());
//!             // It has left its device at once: there is room for the next one.
//!             host.credit(now, port);
//!         }
//!         Poll::Drop(reason) => println!("dropped: {}", reason.name()),
//!         Poll::Ready(_) | Poll::Event(_) => {}
//!         Poll::Idle(at) => break at,
//!     }
//! };
//! assert!(sent[0].tcp().is_some_and(|tcp| tcp.flags.contains(TcpFlags::SYN)));
//! // Then, if nobody has answered, the SYN is sent again: a second later, and never early.
//! assert!(come_back >= now + Duration::from_secs(1));
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
//!
//! # The law
//!
//! The datapath is a pure function of (state, packet, time). A driver (the simulator, a live loop,
//! a script) turns a [`host::Host`] by these calls, and nothing else is between them:
//!
//! | call | what it says |
//! |---|---|
//! | [`receive(now, port, &mut packet)`](host::Host::receive) | a packet has arrived; [`Rx`](node::Rx) tells whether it goes on from where it lies, waits in a queue, or was taken in |
//! | a socket call, a change of settings | of the functions of [`host::Host`], or by [`socket::Sockets`] |
//! | [`grant(now, port, packets)`](host::Host::grant) | a device begins with so much room |
//! | [`set_xmit_more(port, on)`](host::Host::set_xmit_more) | the device takes all segments of a super-packet at once, beyond its room |
//! | [`credit(now, port)`](host::Host::credit) | a packet has left its device: there is room for one more |
//! | [`credit_at(now, port, at)`](host::Host::credit_at) | the same beforehand, for a driver that knows when; false if it has to come back to say it |
//! | [`poll(now, &mut place)`](host::Host::poll) | say the next thing: [`Poll`](node::Poll) |
//! | [`idle_until(now)`](host::Host::idle_until) | the time that `poll` would say now, if it has nothing else to say: shorter, and without a place |
//! | [`wake_at()`](host::Host::wake_at) | the time that `Idle` named last, for a driver that has not kept it |
//!
//! 1. After an input, the driver polls until [`Poll::Idle`](node::Poll::Idle) before time goes on.
//!    Inputs of one moment may come together. After [`Rx::Forward`](node::Rx::Forward),
//!    [`Rx::Queued`](node::Rx::Queued) and a `credit_at` that is true there is nothing to hear.
//! 2. `Idle` names a time: without any input, the driver comes back no later than that.
//! 3. A packet that went in comes out exactly once: it goes on (`Forward`, `Send`), it is dropped with
//!    a reason (`Drop`), or a socket consumes it.
//! 4. A node never sends on a port without room in its device. Room comes back once for each packet
//!    that was sent, in their order: at the end of serialisation (simulation) or when the TX ring has
//!    room (live). Only so are a queue, TCP Small Queues and a full ring the same thing in both worlds.
//!    What follows a `Send` with `more` needs no room: the device takes the rest of the chain at once.
//! 5. Time never runs backwards, and the datapath never reads a clock.
//!
//! Two drivers say more. A program with a packet socket hands in what it has made itself ([`send_by`](host::Host::send_by)).
//! A replay of what a kernel with one CPU has recorded plays that machine's interrupts and softirqs
//! ([`on_one_machine`](host::Host::on_one_machine)). To prefetch ([`prefetch`](host::Host::prefetch)) changes nothing.
//!
//! Who breaks this is told by a panic, in release builds too. `examples/one_host_by_hand.rs` turns a
//! host by hand, `two_hosts_by_hand.rs` two that talk to each other.
//!
//! # The map
//!
//! | module | what it holds |
//! |---|---|
//! | [`units`], [`rng`] | time, rate, size; seeded random streams |
//! | [`profile`] | what differs between kernels |
//! | [`metrics`] | what routes tell TCP |
//! | [`mod@prefetch`] | memory that will be needed soon comes to the caches |
//! | [`reason`] | why packets are dropped, by the kernel's names |
//! | [`packet`] | headers, parsing and emission, checksums, super-packets |
//! | [`tcp`] | the connection |
//! | [`host`] | ports, routes and sockets as one node |
//! | [`socket`] | system calls over a host |
//! | [`node`] | the border: what crosses it between a host and its driver |
//! | [`trace`] | the event stream |
//! | [`qdisc`] | queueing disciplines |
//! | [`fib`] | routes and multipath |
//! | [`neighbour`] | ARP and neighbour discovery |

pub mod fib;
mod grow;
pub mod host;
pub mod metrics;
pub mod neighbour;
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
