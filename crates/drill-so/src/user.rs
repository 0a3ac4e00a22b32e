//! The first argument of each call of the table, its `userdata`, and how a call comes to its instance by it.

use crate::border::{self, fail};
use crate::instance::Instance;
use datapath::socket::{Errno, Return};
use libc::{c_int, c_void, size_t, ssize_t};

/// `userdata`, as the caller has it.
pub(crate) type User = *mut c_void;

/// Does a call of the instance behind the first argument. It fails where there is none.
pub(crate) fn with<T: From<i8>>(user: User, name: &str, act: impl FnOnce(&Instance) -> T) -> T {
    border::guarded(name, || match Instance::numbered(user.addr()) {
        Some(instance) => act(&instance),
        None => no_instance(name),
    })
}

/// What is said of a call after `free`, or with something else than the table's `userdata`.
#[cold]
pub(crate) fn no_instance<T: From<i8>>(name: &str) -> T {
    eprintln!(
        "ackwright: {name}(): no such instance: the first argument is the table's userdata, until free()"
    );
    fail(Errno::EBADF)
}

/// What a call that moves bytes returns.
pub(crate) fn value(done: Result<Return, Errno>) -> ssize_t {
    done.map_or_else(fail, |done| done.value as ssize_t)
}

/// A count of elements; a negative one is absurd, and refused as such.
pub(crate) fn length(count: c_int) -> size_t {
    usize::try_from(count).unwrap_or(size_t::MAX)
}
