//! Datagrams that come together, and the memory that they wait in.

use super::*;
use crate::tcp::config::TcpConfig;

fn segments(len: u64, size: u16) -> Syscall {
    with(len, "127.0.0.1:53", &[Control::UdpSegment(size)])
}

impl Pair {
    /// All that waits at 3 of the server: bytes, and of each datagram where it was told (`UDP_GRO`).
    fn heard(&mut self, room: u64) -> Vec<(i64, Option<i32>)> {
        let mut all = Vec::new();
        while let Ok(Return { value, data }) = self.returned(SERVER, Syscall::recv(3, room, 0)) {
            let Data::Message(message) = data else { panic!("a message") };
            let size = message.control.iter().find_map(|control| match control {
                Control::UdpGro(size) => Some(*size),
                _ => None,
            });
            all.push((value, size));
        }
        all
    }

    fn memory(&mut self, name: usize) -> u32 {
        let syscall = Syscall::get(3, number::SOL_SOCKET, number::SO_MEMINFO);
        match self.returned(SERVER, syscall).expect("an option").data {
            Data::Option(OptionValue::MemInfo(memory)) => memory[name],
            other => panic!("{other:?}"),
        }
    }
}

/// A host's own datagrams of one call, with and without `UDP_GRO`, as Linux 6.18 was seen to hand them over.
#[test]
fn datagrams_of_one_call_are_read_as_they_are_asked_for() {
    for (gro, len, size, room, expected, counted) in [
        (0, 2_500, 1_000, 9_000, &[(1_000, None), (1_000, None), (500, None)][..], 3),
        (1, 2_500, 1_000, 9_000, &[(2_500, Some(1_000))], 1),
        (1, 1_000, 1_000, 9_000, &[(1_000, None)], 1),
        (1, 2_500, 1_000, 1_500, &[(1_500, Some(1_000))], 1),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
        pair.set(SERVER, 3, number::SOL_UDP, number::UDP_GRO, gro);
        assert_eq!(pair.value(SERVER, segments(len, size)), Ok(len as i64));
        assert_eq!(pair.heard(room), expected, "{gro} {len} {size}");
        let counts = pair.hosts[SERVER].snmp(false);
        assert_eq!((counts.udp_out_datagrams, counts.udp_in_datagrams), (1, counted));
    }
    // What it was when it came is what it stays; only who asks is told.
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    pair.set(SERVER, 3, number::SOL_UDP, number::UDP_GRO, 1);
    assert_eq!(pair.value(SERVER, segments(2_500, 1_000)), Ok(2_500));
    pair.set(SERVER, 3, number::SOL_UDP, number::UDP_GRO, 0);
    assert_eq!(pair.heard(9_000), [(2_500, None)]);
}

/// The receive buffer: how many datagrams of one size fit, and what is charged after each read. Linux 6.18 over `lo`.
#[test]
fn a_buffer_is_given_back_by_quarters() {
    for (buffer, len, there, after) in [
        (1_152, 1, 1_664, &[832, 0][..]),
        (1_152, 1_000, 2_304, &[0]),
        (2_000, 1, 3_328, &[3_328, 1_664, 1_664, 0]),
        (4_000, 1, 7_488, &[7_488, 7_488, 4_992, 4_992, 4_992, 2_496, 2_496, 2_496, 0]),
        (4_000, 1_000, 6_912, &[4_608, 2_304, 0]),
        (8_000, 1_000, 13_824, &[13_824, 9_216, 9_216, 4_608, 4_608, 0]),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
        pair.set(SERVER, 3, number::SOL_SOCKET, number::SO_RCVBUF, buffer);
        for _ in 0..40 {
            assert_eq!(pair.value(SERVER, to(3, len, "127.0.0.1:53")), Ok(len as i64));
        }
        assert_eq!(pair.memory(0), there, "{buffer} {len}");
        let fitted = after.len() as u64;
        assert_eq!(u64::from(pair.memory(8)), 40 - fitted, "what did not fit");
        assert_eq!(pair.hosts[SERVER].snmp(false).udp_rcvbuf_errors, 40 - fitted);
        for left in after {
            assert_eq!(pair.value(SERVER, Syscall::read(3, 2_000)), Ok(len as i64));
            assert_eq!(pair.memory(0), *left, "{buffer} {len}");
        }
        assert_eq!(pair.value(SERVER, Syscall::read(3, 1)), Err(Errno::EAGAIN));
    }
    // Older kernels let one in that exceeds the buffer.
    let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
    let profile = crate::profile::Profile::linux_6_1();
    let defaults = TcpConfig { profile, ..pair.hosts[SERVER].tcp_defaults() };
    pair.hosts[SERVER].set_tcp_defaults(defaults);
    pair.set(SERVER, 3, number::SOL_SOCKET, number::SO_RCVBUF, 2_000);
    for _ in 0..40 {
        assert_eq!(pair.value(SERVER, to(3, 1_000, "127.0.0.1:53")), Ok(1_000));
    }
    assert_eq!(pair.memory(0), 4_608);
}

/// What a datagram of so many bytes is charged, alone and as many; what is set aside for more. Linux 6.18 over `lo`.
#[test]
fn datagrams_are_charged_for_their_memory() {
    for (len, size, charged, aside) in [
        (0, 0, 832, 3_264),
        (100, 0, 832, 3_264),
        (200, 0, 1_280, 2_816),
        (600, 0, 1_280, 2_816),
        (900, 0, 2_304, 1_792),
        (1_472, 0, 2_304, 1_792),
        (2_000, 0, 4_352, 3_840),
        (4_000, 0, 8_448, 3_840),
        (9_000, 0, 16_640, 3_840),
        (30_000, 0, 30_832, 1_936),
        (60_000, 0, 60_832, 608),
        (640, 10, 1_472, 2_624),
        (65_000, 1_000, 65_832, 3_800),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
        pair.set(SERVER, 3, number::SOL_UDP, number::UDP_GRO, 1);
        assert_eq!(pair.value(SERVER, segments(len, size)), Ok(len as i64));
        assert_eq!((pair.memory(0), pair.memory(4)), (charged, aside), "{len} {size}");
    }
}

/// `SO_PEEK_OFF`: what is peeked at, one after the other, and what is read: bytes, whether cut, the offset after it. As
/// Linux 6.18 was seen to do.
#[test]
fn peeks_go_on_where_the_last_ended() {
    let (peek, trunc) = (number::MSG_PEEK, number::MSG_TRUNC);
    // Offset, datagrams, and of each call room, flags, what it gives and the offset then; -1: EAGAIN.
    for (offset, datagrams, calls) in [
        (
            0,
            &[10, 20][..],
            &[
                (4, peek, 4, true, 4),
                (100, peek, 6, false, 10),
                (100, peek, 20, false, 30),
                (100, peek, -1, false, 30),
                (100, 0, 10, false, 20),
                (100, peek, -1, false, 20),
                (5, 0, 5, true, 15),
            ][..],
        ),
        (
            0,
            &[0, 3, 0],
            &[
                (4, peek, 0, false, 0),
                (100, peek, 3, false, 3),
                (100, peek, 0, false, 3),
                (100, peek, -1, false, 3),
                (100, 0, 0, false, 3),
                (100, peek, -1, false, 3),
                (5, 0, 3, false, 0),
                (5, peek, -1, false, 0),
            ],
        ),
        (
            3,
            &[6],
            &[(2, peek | trunc, 6, true, 9), (100, peek, -1, false, 9), (1, trunc, 6, true, 3)],
        ),
        (-1, &[6], &[(2, peek, 2, true, -1), (9, peek, 6, false, -1), (9, 0, 6, false, -1)]),
        (2, &[6], &[(9, peek, 4, false, 6)]),
    ] {
        let mut pair = Pair::datagrams(number::AF_INET, "0.0.0.0:53");
        assert_eq!(pair.get(SERVER, 3, number::SOL_SOCKET, number::SO_PEEK_OFF), -1);
        pair.set(SERVER, 3, number::SOL_SOCKET, number::SO_PEEK_OFF, offset);
        for len in datagrams {
            assert_eq!(pair.value(CLIENT, to(3, *len, "10.0.0.1:53")), Ok(*len as i64));
        }
        for (number, (room, flags, value, cut, after)) in calls.iter().enumerate() {
            let what = format!("{offset} {datagrams:?}, call {number}");
            match pair.returned(SERVER, Syscall::recv(3, *room, *flags)) {
                Ok(Return { value: told, data: Data::Message(message) }) => {
                    assert_eq!((told, message.flags & trunc != 0), (*value, *cut), "{what}");
                }
                other => assert_eq!((other.err(), *value), (Some(Errno::EAGAIN), -1), "{what}"),
            }
            let now = pair.get(SERVER, 3, number::SOL_SOCKET, number::SO_PEEK_OFF);
            assert_eq!(now, *after, "{what}");
        }
    }
}
