//! Calls with bytes: what is written is read, whole, in part, out of band, early and in errors.

use super::*;

const TEXT: &[u8] = b"What goes in at one end comes out at the other.";

impl Pair {
    fn send_bytes(&mut self, fd: Fd, bytes: &[u8], to: Address, flags: i32) -> Result<i64, Errno> {
        let message = Message { address: to, iov: bytes.into(), control: Vec::new() };
        let (mut call, mut outcome) = self.begin(CLIENT, Syscall::Send { fd, message, flags });
        if outcome.is_pending() {
            outcome = self.again(CLIENT, &mut call);
        }
        let Poll::Ready(outcome) = outcome else { panic!("the call would block") };
        outcome.map(|returned| returned.value)
    }

    fn fetch(&mut self, who: usize, fd: Fd, len: u64, flags: i32) -> (i64, Vec<u8>) {
        let receive = Syscall::Receive { fd, iov: Iov::Fetch(len), flags };
        let returned = self.returned(who, receive).expect("it is there");
        let Data::Message(message) = returned.data else { panic!("a message") };
        (returned.value, message.bytes)
    }
}

#[test]
fn a_sentence_is_seen_and_read_in_pieces() {
    let mut pair = Pair::connected();
    assert_eq!(pair.send_bytes(3, &TEXT[..20], Address::Null, 0), Ok(20));
    assert_eq!(pair.fetch(SERVER, 4, 10, number::MSG_PEEK), (10, TEXT[..10].to_vec()));
    assert_eq!(pair.fetch(SERVER, 4, 10, 0), (10, TEXT[..10].to_vec()));
    assert_eq!(pair.fetch(SERVER, 4, 100, number::MSG_PEEK), (10, TEXT[10..20].to_vec()));
    // A call that waits for all keeps what it has.
    let iov = Iov::Fetch(37);
    let receive = Syscall::Receive { fd: 4, iov, flags: number::MSG_WAITALL };
    let (mut call, outcome) = pair.begin(SERVER, receive);
    assert_eq!(outcome, Poll::Pending);
    assert_eq!(pair.send_bytes(3, &TEXT[20..], Address::Null, 0), Ok(27));
    let Poll::Ready(Ok(returned)) = pair.again(SERVER, &mut call) else { panic!("all is there") };
    let Data::Message(message) = returned.data else { panic!("a message") };
    assert_eq!((returned.value, &message.bytes[..]), (37, &TEXT[10..]));
    // A reader that does not want to see them, and lengths among bytes.
    assert_eq!(pair.send_bytes(3, TEXT, Address::Null, 0), Ok(47));
    assert_eq!(pair.value(CLIENT, Syscall::write(3, 3)), Ok(3));
    assert_eq!(pair.send_bytes(3, b"end", Address::Null, 0), Ok(3));
    assert_eq!(pair.value(SERVER, Syscall::read(4, 40)), Ok(40));
    assert_eq!(pair.fetch(SERVER, 4, 100, 0), (13, b"e other.\0\0\0end"[1..].to_vec()));
}

#[test]
fn an_urgent_byte_is_itself() {
    let mut pair = Pair::connected();
    assert_eq!(pair.send_bytes(3, b"now!", Address::Null, number::MSG_OOB), Ok(4));
    assert_eq!(pair.fetch(SERVER, 4, 100, 0), (3, b"now".to_vec()));
    assert_eq!(pair.fetch(SERVER, 4, 1, number::MSG_OOB), (1, b"!".to_vec()));
    assert_eq!(pair.send_bytes(3, b"later", Address::Null, 0), Ok(5));
    assert_eq!(pair.fetch(SERVER, 4, 100, number::MSG_PEEK), (5, b"later".to_vec()));
    assert_eq!(pair.fetch(SERVER, 4, 100, 0), (5, b"later".to_vec()));
}

#[test]
fn fast_open_carries_bytes() {
    let mut pair = Pair::new();
    for who in [SERVER, CLIENT] {
        pair.sysctl(who, "tcp_fastopen", "0x403");
    }
    pair.listen(8);
    for fd in [3, 4] {
        assert_eq!(pair.value(CLIENT, socket()), Ok(fd.into()));
        // More than a SYN takes: the rest follows.
        let long = TEXT.repeat(100);
        let sent = pair.send_bytes(fd, &long, address("10.0.0.1:80"), number::MSG_FASTOPEN);
        assert_eq!(sent, Ok(4_700));
        let accepted = pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }).expect("one") as Fd;
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.fetch(SERVER, accepted, 10_000, 0), (4_700, long));
    }
    assert_eq!(pair.mib(CLIENT).fast_open_active, 1);
}

#[test]
fn signed_segments_are_signed_with_their_bytes() {
    let mut pair = Pair::new();
    let key = |last: u8| {
        let address = SocketAddr::from(([10, 0, 0, last], 0));
        OptionValue::Md5(Md5Signature { address, prefix_len: None, key: b"secret".to_vec() })
    };
    for (who, last) in [(SERVER, 2), (CLIENT, 1)] {
        assert_eq!(pair.value(who, socket()), Ok(3));
        let (level, name) = (number::SOL_TCP, number::TCP_MD5SIG);
        let set = Syscall::SetOption { fd: 3, level, name, value: key(last), len: 216 };
        assert_eq!(pair.value(who, set), Ok(0));
    }
    let address = address("0.0.0.0:80");
    assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address }), Ok(0));
    assert_eq!(pair.value(SERVER, Syscall::Listen { fd: 3, backlog: 1 }), Ok(0));
    pair.connect(3);
    assert_eq!(pair.value(SERVER, Syscall::Accept { fd: 3, flags: 0 }), Ok(4));
    assert_eq!(pair.send_bytes(3, TEXT, Address::Null, 0), Ok(47));
    assert_eq!(pair.fetch(SERVER, 4, 100, 0), (47, TEXT.to_vec()));
    assert_eq!(pair.mib(SERVER).md5_failure, 0);
}

#[test]
fn datagrams_keep_their_bytes() {
    let udp = Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 0 };
    let mut pair = Pair::new();
    for who in [SERVER, CLIENT] {
        assert_eq!(pair.value(who, udp.clone()), Ok(3));
    }
    let (here, there) = (address("0.0.0.0:53"), address("10.0.0.1:53"));
    assert_eq!(pair.value(SERVER, Syscall::Bind { fd: 3, address: here }), Ok(0));
    assert_eq!(pair.send_bytes(3, TEXT, there, 0), Ok(47));
    assert_eq!(pair.fetch(SERVER, 3, 10, number::MSG_PEEK), (10, TEXT[..10].to_vec()));
    assert_eq!(pair.fetch(SERVER, 3, 10, number::MSG_TRUNC), (47, TEXT[..10].to_vec()));
    // In fragments, which are put together by a copy.
    let long = TEXT.repeat(100);
    assert_eq!(pair.send_bytes(3, &long, there, 0), Ok(4_700));
    assert_eq!(pair.fetch(SERVER, 3, 10_000, 0), (4_700, long));
    assert_eq!(pair.hosts[SERVER].joined().times, 1);
    // Gathered from bytes and lengths.
    assert_eq!(pair.send_bytes(3, b"one", there, number::MSG_MORE), Ok(3));
    let message = Message { address: there, iov: 2.into(), control: Vec::new() };
    let more = Syscall::Send { fd: 3, message, flags: number::MSG_MORE };
    assert_eq!(pair.value(CLIENT, more), Ok(2));
    assert_eq!(pair.send_bytes(3, b"two", there, 0), Ok(3));
    assert_eq!(pair.fetch(SERVER, 3, 100, 0), (8, b"one\0\0two".to_vec()));
}

#[test]
fn the_error_queue_holds_the_bytes_of_the_datagram() {
    let udp = Syscall::Socket { domain: number::AF_INET, kind: number::SOCK_DGRAM, protocol: 0 };
    let mut pair = Pair::new();
    assert_eq!(pair.value(CLIENT, udp), Ok(3));
    pair.set(CLIENT, 3, number::SOL_IP, number::IP_RECVERR, 1);
    assert_eq!(pair.send_bytes(3, TEXT, address("10.0.0.1:9"), 0), Ok(47));
    assert_eq!(pair.fetch(CLIENT, 3, 100, number::MSG_ERRQUEUE), (47, TEXT.to_vec()));
}
