//! The datapath between real devices: the same sans-IO code as in the simulated world, driven by the
//! clock and by what arrives.
//!
//! | module | what it holds |
//! |---|---|
//! | [`device`] | packet sockets, AF_XDP, TUN/TAP, capture files |
//! | [`drive`] | the loop that turns a bridge by the law of the datapath |
//! | `end` | a device in a loop, and what is waited for there |
//! | [`endpoint`] | a TCP stack of ours on a TUN device, and its sockets |
//! | [`open`] | devices by their names, and what can be wrong with them |
//! | [`own`] | between this machine and an interface of its own |
//! | [`rtnetlink`] | what the kernel tells of routes |
//! | [`router`] | a host of ours that routes between several devices |
//! | [`proxy`] | TCP that ends in our stack on one side, in the kernel's on the other |
//! | [`fail`] | what becomes of traffic when we are gone |
//! | [`netns`] | network namespaces without names, and what is in them |
//! | [`gates`] | many devices at once, for a world that is turned by the clock |
//! | [`kernel`] | senders and receivers on the sockets of a namespace's kernel |
//! | [`program`] | real programs in a namespace |
//! | [`commands`] | `tc` at run time |
//! | [`control`] | the socket by which commands come |
//! | [`account`] | what was taken in, and what became of it |
//! | `sys` | system calls, and all `unsafe` |
//!
//! `drive` is one thread, one loop, no locks; `endpoint` has one lock for each stack. docs/live.md has limits and figures.

/// A line on standard error, as of `eprintln!`, but without a panic if its reader has gone.
#[cfg(target_os = "linux")]
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _is_gone = writeln!(std::io::stderr(), $($words)*);
    }};
}
#[cfg(target_os = "linux")]
pub(crate) use tell;

#[cfg(target_os = "linux")]
pub mod account;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
pub mod commands;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod device;
#[cfg(target_os = "linux")]
pub mod drive;
#[cfg(target_os = "linux")]
mod end;
#[cfg(target_os = "linux")]
pub mod endpoint;
#[cfg(target_os = "linux")]
pub mod fail;
#[cfg(target_os = "linux")]
pub mod gates;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod open;
#[cfg(target_os = "linux")]
pub mod own;
#[cfg(target_os = "linux")]
pub mod program;
#[cfg(target_os = "linux")]
pub mod proxy;
#[cfg(target_os = "linux")]
pub mod rights;
#[cfg(target_os = "linux")]
pub mod router;
#[cfg(target_os = "linux")]
pub mod rtnetlink;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
pub mod watch;
