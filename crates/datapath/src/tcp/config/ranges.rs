//! The values that the files of sysctls take, by the kernel's readers of them.

use crate::tcp::timer::HZ;
use core::ops::RangeInclusive;

/// The largest `int`.
pub(crate) const INT_MAX: i64 = i32::MAX as i64;
/// `proc_dointvec`.
pub(crate) const INT: RangeInclusive<i64> = i32::MIN as i64..=INT_MAX;
/// `proc_dointvec_minmax` from zero.
pub(crate) const POSITIVE: RangeInclusive<i64> = 0..=INT_MAX;
/// `proc_dou8vec_minmax` without limits of its own.
pub(crate) const BYTE: RangeInclusive<i64> = 0..=255;
/// `proc_dou8vec_minmax` of 0 and 1.
pub(crate) const SWITCH: RangeInclusive<i64> = 0..=1;
/// `proc_dointvec_jiffies`: s, as long as they fit an `int` of ticks.
pub(crate) const SECONDS: RangeInclusive<i64> = -(INT_MAX / HZ as i64)..=INT_MAX / HZ as i64;
/// `proc_douintvec`.
pub(crate) const UNSIGNED: RangeInclusive<i64> = 0..=u32::MAX as i64;
/// `proc_doulongvec_minmax`. What is beyond 32 bits is kept as their maximum: four seconds in ns.
pub(crate) const LONG: RangeInclusive<i64> = 0..=i64::MAX;
