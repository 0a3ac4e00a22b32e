//! Which connection begins over another one in TIME-WAIT, and how.

use super::*;
use crate::profile::Profile;
use crate::tcp::TcpConfig;

/// A client whose connection to a listener is in TIME-WAIT at its side, and all that decides about the next one.
struct Again {
    /// Where the listener is: at the other host, or at the client's own.
    listener: usize,
    profile: Profile,
    reuse: &'static str,
    timestamps: &'static str,
    /// The client asks for its port.
    bound: bool,
    waits_ms: u64,
}

impl Again {
    /// What the second connect gives, how far behind the end of the first connection the second begins where it goes
    /// over the wire, and how often a port was taken over.
    fn outcome(self) -> (Result<i64, Errno>, Option<u32>, u64) {
        let mut pair = Pair::new();
        pair.hosts[CLIENT].set_tcp_defaults(TcpConfig::for_profile(self.profile));
        pair.sysctl(CLIENT, "net.ipv4.ip_local_port_range", "41000 41000");
        pair.sysctl(CLIENT, "tcp_tw_reuse", self.reuse);
        pair.sysctl(CLIENT, "tcp_timestamps", self.timestamps);
        assert_eq!(pair.value(self.listener, socket()), Ok(3));
        let bind = Syscall::Bind { fd: 3, address: address("0.0.0.0:80") };
        assert_eq!(pair.value(self.listener, bind), Ok(0));
        assert_eq!(pair.value(self.listener, Syscall::Listen { fd: 3, backlog: 8 }), Ok(0));
        let to = if self.listener == CLIENT { "127.0.0.1:80" } else { "10.0.0.1:80" };
        let ours = if self.listener == CLIENT { 4 } else { 3 };
        assert_eq!(Self::connect(&mut pair, ours, to, self.bound), Err(Errno::EINPROGRESS));
        let accepted = pair.value(self.listener, Syscall::Accept { fd: 3, flags: 0 });
        let accepted = accepted.expect("a connection") as Fd;
        assert_eq!(pair.value(CLIENT, Syscall::Close { fd: ours }), Ok(0));
        assert_eq!(pair.value(self.listener, Syscall::Close { fd: accepted }), Ok(0));
        pair.pass(Duration::from_millis(self.waits_ms));
        let seq_of = |packet: &Packet| packet.tcp().map(|tcp| (tcp.seq, tcp.options.timestamps));
        let end = pair.sent(CLIENT).last().and_then(seq_of);
        let outcome = Self::connect(&mut pair, ours, to, self.bound);
        let syn = pair.sent(CLIENT).first().and_then(seq_of);
        let gap = end.zip(syn).map(|((end, echoing), (begin, syn))| {
            let echo = |told: Option<crate::packet::Timestamps>| told.map(|told| told.echo);
            assert_eq!(echo(syn), echo(echoing), "the SYN echoes the last timestamp that came");
            begin.bytes_since(end)
        });
        (outcome, gap, pair.mib(CLIENT).time_wait_recycled)
    }

    fn connect(pair: &mut Pair, fd: Fd, to: &str, bound: bool) -> Result<i64, Errno> {
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
        pair.set(CLIENT, fd, number::SOL_SOCKET, number::SO_REUSEADDR, 1);
        if bound {
            let bind = Syscall::Bind { fd, address: address("0.0.0.0:42000") };
            assert_eq!(pair.value(CLIENT, bind), Ok(0));
        }
        pair.nonblocking(CLIENT, fd);
        pair.value(CLIENT, Syscall::Connect { fd, address: address(to) })
    }
}

/// `tcp_twsk_unique`, as Linux 6.18 was seen to do it; before 6.13 the wait was until the next second.
#[test]
fn a_port_in_time_wait_is_reused_where_old_segments_cannot_be_mistaken_for_new() {
    let (now, before) = (Profile::linux_6_18, Profile::linux_6_1);
    let refused = Err(Errno::EADDRNOTAVAIL);
    for (listener, profile, reuse, timestamps, bound, waits_ms, taken) in [
        (SERVER, now(), "0", "1", true, 1, true),
        (SERVER, now(), "0", "0", true, 1, false),
        (SERVER, now(), "1", "0", true, 5_000, false),
        (SERVER, now(), "0", "1", false, 5_000, false),
        (SERVER, now(), "1", "1", false, 999, false),
        (SERVER, now(), "1", "1", false, 1_000, true),
        (SERVER, now(), "1", "0", false, 1_000, false),
        (SERVER, now(), "2", "1", false, 5_000, false),
        (SERVER, now(), "2", "1", true, 1, true),
        (SERVER, before(), "0", "1", true, 1, true),
        (SERVER, before(), "1", "1", false, 990, false),
        (SERVER, before(), "1", "1", false, 1_000, true),
        (CLIENT, now(), "0", "1", false, 5_000, false),
        (CLIENT, now(), "2", "1", false, 999, false),
        (CLIENT, now(), "2", "1", false, 1_000, true),
        (CLIENT, now(), "1", "1", false, 1_000, true),
    ] {
        let name = format!("{listener} {} {reuse} {timestamps} {bound} {waits_ms}", profile.name);
        let again = Again { listener, profile, reuse, timestamps, bound, waits_ms };
        let (outcome, gap, recycled) = again.outcome();
        let expected = if taken { Err(Errno::EINPROGRESS) } else { refused };
        assert_eq!((outcome, recycled), (expected, taken.into()), "{name}");
        let beyond = (taken && listener == SERVER).then_some(65_537);
        assert_eq!(gap, beyond, "{name}");
    }
}

/// That no port was free is remembered only as long as none in TIME-WAIT makes way.
#[test]
fn a_program_that_keeps_trying_gets_the_port_when_it_is_free() {
    let mut pair = Pair::connected();
    pair.sysctl(CLIENT, "tcp_tw_reuse", "1");
    pair.sysctl(CLIENT, "tcp_tw_reuse_delay", "30");
    let local = pair.local(3);
    let only = format!("{0} {0}", local.port());
    pair.sysctl(CLIENT, "net.ipv4.ip_local_port_range", &only);
    assert_eq!(pair.value(CLIENT, socket()), Ok(4));
    pair.nonblocking(CLIENT, 4);
    let connect = |pair: &mut Pair, after_ms| {
        pair.pass(Duration::from_millis(after_ms));
        pair.value(CLIENT, Syscall::Connect { fd: 4, address: address("10.0.0.1:80") })
    };
    let refused = Err(Errno::EADDRNOTAVAIL);
    assert_eq!(connect(&mut pair, 0), refused, "the connection lives");
    assert_eq!(pair.value(CLIENT, Syscall::Close { fd: 3 }), Ok(0));
    assert_eq!(connect(&mut pair, 10), refused, "FIN-WAIT-2");
    assert_eq!(pair.value(SERVER, Syscall::Close { fd: 4 }), Ok(0));
    assert_eq!(connect(&mut pair, 10), refused);
    assert_eq!(connect(&mut pair, 19), refused);
    assert_eq!(connect(&mut pair, 1), Err(Errno::EINPROGRESS));
}
