//! What files take was tried on a 6.18 kernel, file by file.

use super::*;
use crate::tcp::config::TcpConfig;
use core::num::NonZeroU32;

fn taken(name: &str, value: &str) -> Option<u32> {
    let mut sysctl = Sysctl::default();
    sysctl.set(name, value).ok()?;
    sysctl.scalar_mut(name).copied()
}

/// Departure 41 of docs/LINUX.md.
#[test]
fn defaults_of_memory_are_those_of_published_results() {
    let sysctl = Sysctl::default();
    assert_eq!(sysctl.tcp_rmem, [4_096, 131_072, 6 << 20]);
    assert_eq!(sysctl.tcp_limit_output_bytes, 1 << 20);
}

#[test]
fn numbers_are_read_as_the_kernel_reads_them() {
    assert_eq!(taken("tcp_frto", "0x10"), Some(16));
    assert_eq!(taken("tcp_frto", "010"), Some(8));
    assert_eq!(taken("tcp_frto", " 1\n"), Some(1));
    assert_eq!(taken("tcp_limit_output_bytes", "-0x10"), Some(16_u32.wrapping_neg()));
    for wrong in ["", "x", "1x", "+3", "--3", "-", "0x", "1 2", "99999999999999999999"] {
        assert_eq!(taken("tcp_frto", wrong), None, "{wrong:?}");
    }
}

#[test]
fn what_linux_refuses_is_refused_with_the_range_in_the_message() {
    let mut sysctl = Sysctl::default();
    let told = sysctl.set("net.ipv4.tcp_min_rtt_wlen", "86401");
    let wanted = "tcp_min_rtt_wlen takes a whole number from 0 to 86400, not 86401";
    assert_eq!(told, Err(SysctlError::Value(wanted.to_owned())));
    assert_eq!(sysctl, Sysctl::default(), "and nothing has changed");
    assert_eq!(sysctl.set("tcp_nosuch", "1"), Err(SysctlError::Unknown));
}

#[test]
fn ranges_end_where_the_kernels_do() {
    for (name, low, high) in [
        ("tcp_frto", 0, 255),
        ("tcp_adv_win_scale", -31, 31),
        ("tcp_syn_retries", 1, 127),
        ("tcp_rto_max_ms", 1_000, 120_000),
        ("tcp_rto_min_us", 1, INT_MAX),
        ("tcp_notsent_lowat", 0, u32::MAX.into()),
        ("tcp_base_mss", i32::MIN.into(), INT_MAX),
        ("min_pmtu", 68, INT_MAX),
        ("tcp_keepalive_time", -2_147_483, 2_147_483),
    ] {
        for (value, wanted) in [(low, true), (high, true), (low - 1, false), (high + 1, false)] {
            assert_eq!(taken(name, &value.to_string()).is_some(), wanted, "{name} = {value}");
        }
    }
}

#[test]
fn reordering_begins_no_higher_than_it_may_rise() {
    let mut sysctl = Sysctl::default();
    assert!(sysctl.set("tcp_reordering", "300").is_ok());
    assert!(sysctl.set("tcp_max_reordering", "10").is_ok());
    assert!(sysctl.set("tcp_reordering", "11").is_err());
}

#[test]
fn of_three_numbers_the_last_ones_may_be_left_out() {
    let mut sysctl = Sysctl::default();
    assert_eq!(sysctl.set("tcp_rmem", "5000 6000"), Ok(()));
    assert_eq!(sysctl.tcp_rmem, [5_000, 6_000, 6_291_456]);
    for wrong in ["", "0 1 1", "1 2 3 4", "1 x", "2147483648"] {
        assert!(sysctl.set("tcp_rmem", wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn seconds_below_zero_are_over_at_once() {
    assert_eq!(taken("tcp_keepalive_time", "-5").map(Sysctl::seconds), Some(0));
    assert_eq!(Sysctl::seconds(5), 5);
}

#[test]
fn a_socket_keeps_the_bounds_of_timeouts_that_it_was_made_with() {
    let mut config = TcpConfig::default();
    let mut sysctl = config.sysctl.clone();
    (sysctl.tcp_rto_min_us, sysctl.tcp_rto_max_ms) = (5_000, 10_000);
    sysctl.tcp_retries2 = 3;
    config.read_sysctl(&sysctl);
    assert_eq!(config.sysctl.tcp_retries2, 3, "what is not copied is read anew");
    let bounds = |config: &TcpConfig| {
        let own = &config.socket;
        (own.rto_min_us.map(NonZeroU32::get), own.rto_max_ms.map(NonZeroU32::get))
    };
    assert_eq!(bounds(&config), (Some(200_000), Some(120_000)));
    config.read_sysctl(&TcpConfig::default().sysctl);
    assert_eq!(bounds(&config), (Some(200_000), Some(120_000)));
}
