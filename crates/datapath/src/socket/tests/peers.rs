//! What is known of peers, and what it decides.

use super::*;
use crate::tcp::shared::Metrics;

/// Without SYN cookies the last quarter of `tcp_max_syn_backlog` is for peers whose RTT is known (`tcp_peer_is_proven`), as
/// Linux 6.18 was seen to do; for an hour, as the RTT is.
#[test]
fn a_known_peer_is_accepted_where_others_are_not() {
    let at = |text: &str| text.parse().expect("an address");
    for (rtt_us_8, age_s, answered) in [(0, 1, 4), (8_000, 1, 6), (8_000, 3_601, 4)] {
        let mut pair = Pair::new();
        pair.sysctl(SERVER, "tcp_syncookies", "0");
        pair.sysctl(SERVER, "tcp_max_syn_backlog", "4");
        pair.listen(100);
        let updated = pair.now;
        pair.pass(Duration::from_secs(age_s));
        let known = Metrics { rtt_us_8, updated, ..Metrics::default() };
        pair.hosts[SERVER].set_tcp_metrics(at("10.0.0.1"), at("10.0.0.2"), known);
        pair.cut[SERVER] = true;
        for fd in 3..9 {
            assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
            pair.nonblocking(CLIENT, fd);
            let connect = Syscall::Connect { fd, address: address("10.0.0.1:80") };
            assert_eq!(pair.value(CLIENT, connect), Err(Errno::EINPROGRESS));
        }
        assert_eq!(pair.sent(SERVER).len(), answered, "{rtt_us_8} {age_s}");
        assert_eq!(pair.mib(SERVER).listen_drops, 6 - answered as u64);
    }
}

/// `tcp_rto_max_ms` bounds how long a SYN-ACK waits for its answer only since 7.x: 6.18 was seen to wait 1 s, 2 s, 4 s.
#[test]
fn a_syn_ack_waits_no_longer_than_the_longest_timeout_where_that_counts_for_it() {
    use crate::profile::Profile;
    for (profile, timeouts) in [(Profile::linux_7(), 4), (Profile::linux_6_18(), 2)] {
        let name = profile.name;
        let mut pair = Pair::new();
        pair.hosts[SERVER].set_tcp_defaults(crate::tcp::TcpConfig::for_profile(profile));
        pair.sysctl(SERVER, "tcp_rto_max_ms", "1000");
        pair.listen(1);
        pair.cut[SERVER] = true;
        assert_eq!(pair.value(CLIENT, socket()), Ok(3));
        pair.nonblocking(CLIENT, 3);
        let connect = Syscall::Connect { fd: 3, address: address("10.0.0.1:80") };
        assert_eq!(pair.value(CLIENT, connect), Err(Errno::EINPROGRESS));
        pair.cut[CLIENT] = true;
        pair.pass(Duration::from_millis(4_500));
        assert_eq!(pair.mib(SERVER).timeouts, timeouts, "{name}");
    }
}
