//! Programs that end with us, and files that are nowhere.

use super::owned;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts a program that the kernel ends when the thread that has started it ends (`PR_SET_PDEATHSIG`).
///
/// # Errors
/// There is no such program, or it cannot be run.
pub fn spawn_to_end_with_us(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec the closure makes one system call, which takes numbers; it takes no
    // lock and no memory.
    unsafe {
        command.pre_exec(|| {
            let done = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    command.spawn()
}

/// `SIGTERM`.
pub fn terminate(child: &Child) {
    // SAFETY: the call takes numbers. The child has not been waited for, so its number is its own.
    let _is_gone = unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// A file in memory, which goes with its last descriptor (`memfd_create(2)`).
///
/// # Errors
/// The kernel has no memory or no descriptors left.
pub fn memory_file(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the kernel reads a text that ends in a zero byte and lives until after the call.
    Ok(owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?.into())
}
