//! The stack as a shared object for Google's packetdrill: a second verdict on scripts.
//!
//! `packetdrill --so_filename=libackwright_so.so SCRIPT` asks this library for the system calls,
//! the packets and the time of the host under test, in place of the kernel's. Behind it is the same
//! [`drill::harness`] that `ackwright drill` turns, so that two runners judge one stack. Time is
//! virtual: it passes where packetdrill sleeps or looks at the clock.
//!
//! Preloaded (`LD_PRELOAD`) as well, the library also answers what packetdrill asks of the machine
//! behind the interface's back: `getsockopt` of code blocks, and the shell commands of a script,
//! which are interpreted ([`drill::shell`]) and never run.
//!
//! | file | what it holds |
//! |---|---|
//! | [`interface`] | the table of functions that packetdrill has filled in |
//! | `instance` | a host, its descriptors, its clock; threads that wait in it |
//! | `flags` | `--so_flags` |
//! | `encode`, `decode` | C structures and their bytes |
//! | `border` | memory of the caller: every pointer is looked at here |
//! | `calls`, `transfers` | the functions of the table |
//! | `interpose` | the functions that stand in for those of the C library |
//!
//! Linux only: packetdrill asks with its numbers.

#![cfg(target_os = "linux")]

mod border;
mod calls;
mod decode;
mod encode;
mod flags;
mod instance;
pub mod interface;
mod interpose;
mod transfers;
mod user;

pub use calls::packetdrill_interface_init;
