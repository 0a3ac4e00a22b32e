//! Asking the caches for what will be needed soon.
//!
//! Where thousands of hosts take turns, whatever the next packet needs has left the caches since the
//! last one. To wait for it line by line costs more than all computing. Who knows in time
//! which packet comes next asks beforehand. This never changes what is computed.

use prefetch_index::prefetch_index;

/// Asks for the cache line in which `value` begins.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_index(core::slice::from_ref(value), 0);
}

/// Asks for an element of a slice, which need not exist.
#[inline]
pub fn prefetch_at<T>(slice: &[T], index: usize) {
    prefetch_index(slice, index);
}

/// Asks for all cache lines of a value. The name of one of its numbers tells where it lies.
#[macro_export]
macro_rules! prefetch_whole {
    ($value:expr, $kind:ty, $field:ident) => {{
        $crate::prefetch_part!($value, $kind, $field, 0..core::mem::size_of::<$kind>());
    }};
}

/// Asks for the cache lines of some bytes of a value, counted from its beginning. The name of one of its
/// numbers tells where it lies.
#[macro_export]
macro_rules! prefetch_part {
    ($value:expr, $kind:ty, $field:ident, $bytes:expr) => {{
        let value: &$kind = $value;
        let at = core::mem::offset_of!($kind, $field) as isize;
        let bytes: core::ops::Range<usize> = $bytes;
        $crate::prefetch::prefetch_around(
            core::slice::from_ref(&value.$field),
            bytes.start as isize - at..bytes.end as isize - at,
        );
    }};
}

/// Asks for these bytes, counted from the only element of `anchor`.
#[inline]
#[doc(hidden)]
pub fn prefetch_around<T>(anchor: &[T], bytes: core::ops::Range<isize>) {
    let unit = size_of::<T>() as isize;
    let mut at = bytes.start;
    while at < bytes.end {
        prefetch_index(anchor, (at / unit) as usize);
        at += LINE;
    }
}

/// Bytes of a cache line.
const LINE: isize = 64;
