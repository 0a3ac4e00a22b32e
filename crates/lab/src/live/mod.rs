//! An experiment by this machine's clock, with real packets: `ackwright run --live`.
//!
//! The links, queues and routers of the plan are those of a simulation; the world that they make is turned
//! by the clock. Each host has a network namespace. What arrives at a host goes over a device that is in
//! it: to the host's kernel over a TUN device, whose other end is the link; to a stack of ours over a pair of
//! virtual Ethernet devices, one end of which is the link's and the other the stack's. So every packet is
//! bytes on a device, made by one side and read by the other, at the time that the clock shows.

mod bodies;
mod build;
mod driver;
mod flows;
mod shell;

pub use driver::Driver;
pub use shell::{addresses, shell};

/// Makes sure that namespaces can be made. To be called while the process has one thread.
///
/// # Errors
/// With what to do about it.
pub fn acquire() -> Result<(), String> {
    live::netns::acquire().map_err(|fault| fault.to_string())
}
