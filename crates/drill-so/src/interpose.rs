//! Functions of the C library that packetdrill calls itself, whatever `--so_filename` says.
//!
//! They matter only if the library is preloaded (`LD_PRELOAD`); then they answer for the instance
//! at work, and hand everything else on to the C library.
//!
//! | function | why |
//! |---|---|
//! | `getsockopt` | code blocks look at `TCP_INFO` and its like with it |
//! | `system` | back-ticks: interpreted, never run on the machine |
//! | `times` | packetdrill spins through 100 ms of real time to find the edge of a jiffy |
//! | `pthread_cond_timedwait` | packetdrill waits in real time for a call that still waits |

#![allow(unsafe_code)]

use crate::calls;
use crate::instance::{Instance, Ran};
use libc::{
    c_char, c_int, c_void, clock_t, pthread_cond_t, pthread_mutex_t, socklen_t, timespec, tms,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};

/// The function of that name which would have been called if ours were not there.
///
/// # Safety
/// `F` is a pointer to a function of the type that the C library declares for `name`.
unsafe fn next<F: Copy>(name: &CStr) -> F {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a pointer to a function");
    // SAFETY: a C string, and the handle that stands for "behind this library".
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has {}", name.to_string_lossy());
    // SAFETY: the caller says that `F` is its type.
    unsafe { core::mem::transmute_copy(&found) }
}

/// `getsockopt(2)`: of our descriptors by the host, of all others by the kernel.
///
/// # Safety
/// As for `getsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if let Some(instance) = Instance::current().filter(|it| it.has(fd)) {
        // SAFETY: by the contract of this function.
        return unsafe { calls::get_option(&instance, fd, level, name, to, len) };
    }
    type Function = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    // SAFETY: its type, and the caller's arguments.
    unsafe { next::<Function>(c"getsockopt")(fd, level, name, to, len) }
}

/// `system(3)`: the back-ticks of a script are interpreted; what packetdrill itself wants to run
/// is run.
///
/// # Safety
/// As for `system(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    if let Some(instance) = Instance::current()
        && !command.is_null()
    {
        // SAFETY: by the contract of this function.
        let text = unsafe { CStr::from_ptr(command) }.to_string_lossy();
        if !is_packetdrills_own(&text) {
            return match instance.command(&text) {
                Ran::Status(status) => (status & 0xff) << 8,
                Ran::Refused(why) => {
                    eprintln!("ackwright: {why}");
                    COMMAND_NOT_FOUND << 8
                }
            };
        }
    }
    // SAFETY: its type, and the caller's argument.
    unsafe { next::<unsafe extern "C" fn(*const c_char) -> c_int>(c"system")(command) }
}

/// The status with which a shell says that it could not run something.
const COMMAND_NOT_FOUND: c_int = 127;

/// packetdrill hands the code blocks of a script to Python in a file of its own making.
fn is_packetdrills_own(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let last = words.next_back().unwrap_or_default();
    let Some(letters) = last.strip_prefix("/tmp/code_") else { return false };
    letters.len() == 6
        && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && words.next().is_some_and(|first| first == "cat" || first.contains("python"))
        && words.next().is_none()
}

/// `times(2)`: a clock that ticks whenever it is looked at.
///
/// # Safety
/// As for `times(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn times(buffer: *mut tms) -> clock_t {
    static TICKS: AtomicI64 = AtomicI64::new(1);
    if Instance::current().is_some() {
        return TICKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: its type, and the caller's argument.
    unsafe { next::<unsafe extern "C" fn(*mut tms) -> clock_t>(c"times")(buffer) }
}

/// `pthread_cond_timedwait(3)`: packetdrill waits for a call that still waits; so virtual time
/// passes first.
///
/// # Safety
/// As for `pthread_cond_timedwait(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    if let Some(instance) = Instance::current() {
        instance.await_calls();
    }
    type Function =
        unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;
    // SAFETY: its type, and the caller's arguments.
    unsafe { next::<Function>(c"pthread_cond_timedwait")(condition, mutex, until) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packetdrills_own_commands_are_run() {
        for text in
            ["python3 /tmp/code_aB3xYz", "cat /tmp/code_aB3xYz", "/usr/bin/python /tmp/code_000000"]
        {
            assert!(is_packetdrills_own(text), "{text}");
        }
        for text in [
            "",
            "rm -rf /tmp/code_aB3xYz",
            "python3 /tmp/code_aB3xYz; true",
            "python3 -c x /tmp/code_aB3xYz",
            "python3 /tmp/code_../../x",
            "../common/defaults.sh",
        ] {
            assert!(!is_packetdrills_own(text), "{text}");
        }
    }
}
