//! Functions of the C library that packetdrill calls itself, whatever `--so_filename` says.
//!
//! They matter only if the library is preloaded (`LD_PRELOAD`); then they answer for the instance
//! at work, and hand everything else on to the C library.
//!
//! | function | why |
//! |---|---|
//! | `getsockopt` | code blocks look at `TCP_INFO` and its like with it |
//! | `open`, `sendfile` | files that the script's commands have made are virtual |
//! | `system` | back-ticks: interpreted, never run on the machine |
//! | `times` | packetdrill spins through 100 ms of real time to find the edge of a jiffy |
//! | `pthread_cond_timedwait` | packetdrill waits in real time for a call that still waits |

#![allow(unsafe_code)]

use crate::instance::{Instance, ShellResult};
use crate::{border, calls};
use datapath::socket::{Data, Errno, Return, Syscall};
use libc::{
    c_char, c_int, c_void, clock_t, mode_t, off_t, pthread_cond_t, pthread_mutex_t, size_t,
    socklen_t, ssize_t, timespec, tms,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};

// Types of functions, as the C library declares them.

type GetOption = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
type Open = unsafe extern "C" fn(*const c_char, c_int, mode_t) -> c_int;
type Sendfile = unsafe extern "C" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
type System = unsafe extern "C" fn(*const c_char) -> c_int;
type Times = unsafe extern "C" fn(*mut tms) -> clock_t;
type TimedWait =
    unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;

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
        let get = || unsafe { calls::get_option(&instance, fd, level, name, to, len) };
        return border::guarded("getsockopt", get);
    }
    // SAFETY: its type, and the caller's arguments.
    unsafe { next::<GetOption>(c"getsockopt")(fd, level, name, to, len) }
}

/// `open(2)`: a file that the script has made, else one of the machine. A file mode is passed as a
/// named argument would be.
///
/// # Safety
/// As for `open(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if let Some(instance) = Instance::current()
        && !path.is_null()
    {
        // SAFETY: by the contract of this function.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
        if path.starts_with("/tmp/") {
            let made = border::guarded("open", || {
                instance.open(Syscall::Open { path, flags }).map_or(-1, |(fd, _)| fd)
            });
            if made >= 0 {
                return made;
            }
        }
    }
    // SAFETY: its type, and the caller's arguments.
    unsafe { next::<Open>(c"open")(path, flags, mode) }
}

/// `sendfile(2)`: to a socket of ours.
///
/// # Safety
/// As for `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(
    out_fd: c_int,
    in_fd: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    let Some(instance) = Instance::current().filter(|it| it.has(out_fd)) else {
        // SAFETY: its type, and the caller's arguments.
        return unsafe { next::<Sendfile>(c"sendfile")(out_fd, in_fd, offset, count) };
    };
    // SAFETY: by the contract of this function.
    let offset = unsafe { offset.as_mut() };
    let is_negative = offset.as_ref().is_some_and(|at| **at < 0) || isize::try_from(count).is_err();
    if is_negative {
        return border::fail(Errno::EINVAL);
    }
    border::guarded("sendfile", || {
        let done = instance.call(Syscall::Sendfile {
            out_fd: instance.fd(out_fd),
            in_fd: instance.fd(in_fd),
            offset: offset.as_ref().map(|at| **at as u64),
            count: count as u64,
        });
        if let (Some(offset), Ok(Return { data: Data::Offset(at), .. })) = (offset, &done) {
            *offset = *at as off_t;
        }
        done.map_or_else(border::fail, |done| done.value as ssize_t)
    })
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
            return border::guarded("system", || match instance.command(&text) {
                ShellResult::Status(status) => (status & 0xff) << 8,
                ShellResult::Refused(why) => {
                    eprintln!("ackwright: {why}");
                    COMMAND_NOT_FOUND << 8
                }
            });
        }
    }
    // SAFETY: its type, and the caller's argument.
    unsafe { next::<System>(c"system")(command) }
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

/// `times(2)`: a clock that ticks whenever it is looked at, each time a jiffy later.
///
/// # Safety
/// As for `times(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn times(buffer: *mut tms) -> clock_t {
    static TICKS: AtomicI64 = AtomicI64::new(1);
    if let Some(instance) = Instance::current() {
        border::guarded("times", || {
            instance.tick();
            0
        });
        return TICKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: its type, and the caller's argument.
    unsafe { next::<Times>(c"times")(buffer) }
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
        border::guarded("pthread_cond_timedwait", || {
            instance.await_calls();
            0
        });
    }
    // SAFETY: its type, and the caller's arguments.
    unsafe { next::<TimedWait>(c"pthread_cond_timedwait")(condition, mutex, until) }
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
