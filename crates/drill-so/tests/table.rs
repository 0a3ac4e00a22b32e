//! The exported table, driven as packetdrill drives it: calls, packets, time.

#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use ackwright_so::interface::Interface;
use ackwright_so::packetdrill_interface_init;
use core::net::SocketAddr;
use datapath::packet::{Packet, TcpFlags};
use drill::ast::Action;
use drill::lex::Defines;
use drill::parse::{Family, Parser};
use drill::wire::{Offsets, WireEnds, inbound};
use libc::{c_int, c_void, in_addr, sa_family_t, sockaddr, sockaddr_in, socklen_t};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// There is one instance at a time in a process.
static ONE: Mutex<()> = Mutex::new(());

/// The table as packetdrill has it after loading, with calls that are checked.
struct Loaded {
    table: Interface,
    _alone: MutexGuard<'static, ()>,
}

macro_rules! call {
    ($loaded:expr, $name:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: the table was filled in, and the arguments would do for the system call.
        unsafe { $loaded.table.$name.expect("an entry")($loaded.table.userdata $(, $argument)*) }
    };
}

const NULL: *mut c_void = core::ptr::null_mut();

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Loaded {
    fn new(flags: &str) -> Self {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Interface::EMPTY;
        let flags = CString::new(flags).expect("no zero byte");
        // SAFETY: a C string and a table.
        unsafe { packetdrill_interface_init(flags.as_ptr(), &raw mut table) };
        Self { table, _alone: alone }
    }

    fn now(&self) -> i64 {
        let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self, gettimeofday, &raw mut now, core::ptr::null_mut()), 0);
        now.tv_sec * 1_000_000 + now.tv_usec
    }

    /// A listening socket on port 8080.
    fn listen(&self) -> c_int {
        let fd = call!(self, socket, libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        assert!(fd >= 3);
        let address = sockaddr_in {
            sin_family: libc::AF_INET as sa_family_t,
            sin_port: 8080_u16.to_be(),
            sin_addr: in_addr { s_addr: u32::from_ne_bytes([192, 168, 0, 1]) },
            sin_zero: [0; 8],
        };
        let len = size_of::<sockaddr_in>() as socklen_t;
        assert_eq!(call!(self, bind, fd, (&raw const address).cast::<sockaddr>(), len), 0);
        assert_eq!(call!(self, listen, fd, 1), 0);
        fd
    }

    /// Sends a packet of a script to the host, whose sequence numbers begin at `isn`.
    fn send(&self, line: &str, isn: u32) {
        let parser = Parser::new(line).expect("lexes");
        let script = parser.script(Vec::new(), Family::V4, &Defines::new()).expect("parses");
        let Some(Action::Packet(spec)) = script.events.into_iter().next().map(|it| it.action)
        else {
            panic!("{line} is no packet");
        };
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let ends = WireEnds { local: end("192.168.0.1:8080"), remote: end("192.0.2.1:40000") };
        let packet = inbound(&spec, ends, Offsets { remote: 0, local: isn }, 0);
        let mut bytes = Vec::new();
        packet.emit(&vec![0; packet.body.len as usize], &mut bytes);
        assert_eq!(call!(self, netdev_send, bytes.as_ptr().cast::<c_void>(), bytes.len()), 0);
    }

    /// The next packet of the host and its time in µs; `None` after a silence.
    fn receive(&self) -> Option<(Packet, i64)> {
        let mut buffer = vec![0_u8; 65_536];
        let (mut len, mut time) = (buffer.len(), 0);
        let to = buffer.as_mut_ptr().cast::<c_void>();
        assert_eq!(call!(self, netdev_receive, to, &raw mut len, &raw mut time), 0);
        (len > 0).then(|| (Packet::parse_ip(&buffer[..len]).expect("an IP packet"), time))
    }

    /// Opens a connection; gives the host's first sequence number and the accepted socket.
    fn accept(&self, listener: c_int) -> (u32, c_int) {
        self.send("+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 8>", 0);
        let (packet, _) = self.receive().expect("a SYN-ACK");
        let isn = packet.tcp().expect("TCP").seq.0;
        self.send("+0 < . 1:1(0) ack 1 win 257", isn);
        let mut peer = sockaddr_in {
            sin_family: 0,
            sin_port: 0,
            sin_addr: in_addr { s_addr: 0 },
            sin_zero: [0; 8],
        };
        let mut len = size_of::<sockaddr_in>() as socklen_t;
        let to = (&raw mut peer).cast::<sockaddr>();
        let fd = call!(self, accept, listener, to, &raw mut len);
        assert!(fd > listener);
        assert_eq!((peer.sin_port, len), (40_000_u16.to_be(), 16));
        assert_eq!(peer.sin_addr.s_addr.to_ne_bytes(), [192, 0, 2, 1]);
        (isn, fd)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        call!(self, free);
    }
}

/// A SYN goes in, a SYN-ACK comes out: well formed, at once, with the options that it answers.
#[test]
fn a_syn_is_answered() {
    let loaded = Loaded::new("--ip_version=ipv4");
    loaded.listen();
    let before = loaded.now();
    loaded.send("+0 < S 7:7(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 8>", 0);
    let (packet, time) = loaded.receive().expect("a SYN-ACK");
    let tcp = packet.tcp().expect("TCP");
    assert_eq!(tcp.flags, TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0));
    assert_eq!((tcp.ack.0, tcp.src_port, tcp.dst_port), (8, 8080, 40_000));
    assert_eq!(tcp.options.mss, 1460);
    assert_eq!(packet.flaws(), datapath::packet::Flaws::NONE);
    assert!((before..before + 10).contains(&time), "{before} {time}");
}

/// packetdrill looks at the clock before it makes any call.
#[test]
fn the_clock_goes_before_anything_happens() {
    let loaded = Loaded::new("");
    let start = loaded.now();
    // A look takes a tenth of a microsecond.
    assert!((0..8).all(|_| loaded.now() == start));
    assert_eq!(loaded.now(), start + 1);
    assert_eq!(call!(loaded, usleep, 1_000), 0);
    assert_eq!(loaded.now(), start + 1_001);
}

/// Time passes where packetdrill sleeps, by exactly that much, and hardly any where it looks
/// at the clock; what is due meanwhile happens at its own time.
#[test]
fn time_is_virtual() {
    let loaded = Loaded::new("");
    loaded.listen();
    let start = loaded.now();
    assert_eq!(call!(loaded, usleep, 5_000_000), 0);
    assert_eq!(loaded.now(), start + 5_000_000);
    loaded.send("+0 < S 0:0(0) win 65535 <mss 1000>", 0);
    let (_, first) = loaded.receive().expect("a SYN-ACK");
    // Not acknowledged: it comes again after a second, however long packetdrill sleeps.
    assert_eq!(call!(loaded, usleep, 1_500_000), 0);
    let (_, second) = loaded.receive().expect("the SYN-ACK again");
    // The kernel's timer wheel is coarse there: 64 ms.
    assert!((1_000_000..1_064_000).contains(&(second - first)), "{first} {second}");
}

/// A host that has nothing more to say ends the wait.
#[test]
fn silence_has_an_end() {
    let loaded = Loaded::new("");
    loaded.listen();
    let before = loaded.now();
    assert!(loaded.receive().is_none());
    assert_eq!(loaded.now() - before, 2_000_000);
}

/// A call that waits in the thread for such calls returns when a packet comes, and the clock tells
/// that thread the time at which it did.
#[test]
fn a_call_waits_in_its_own_thread() {
    let loaded = Loaded::new("");
    let listener = loaded.listen();
    let (isn, fd) = loaded.accept(listener);
    let table = loaded.table;
    let user = table.userdata as usize;
    let waiting = std::thread::Builder::new().name(READER.to_owned()).spawn(move || {
        let mut buffer = [0_u8; 100];
        let user = user as *mut c_void;
        // SAFETY: the table was filled in; the buffer is as long as it says.
        let got = unsafe {
            table.read.expect("an entry")(user, fd, buffer.as_mut_ptr().cast(), buffer.len())
        };
        let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: as above.
        unsafe {
            table.gettimeofday.expect("an entry")(user, &raw mut now, core::ptr::null_mut());
        }
        (got, now.tv_sec * 1_000_000 + now.tv_usec)
    });
    let waiting = waiting.expect("a thread");
    // As packetdrill does: on only when the other thread sleeps or is done.
    while !waiting.is_finished() && !reader_sleeps() {
        std::thread::yield_now();
    }
    let before = loaded.now();
    assert_eq!(call!(loaded, usleep, 100_000), 0);
    loaded.send("+0 < P. 1:51(50) ack 1 win 257", isn);
    assert_eq!(call!(loaded, usleep, 100_000), 0);
    let (got, at) = waiting.join().expect("no panic");
    assert_eq!((got, at - before), (50, 100_000));
}

/// The name of the thread whose call waits.
const READER: &str = "reader";

/// Whether that thread sleeps in the kernel.
fn reader_sleeps() -> bool {
    std::fs::read_dir("/proc/self/task").expect("threads").flatten().any(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.contains("(reader) S ")
    })
}

/// What the machine would answer, the host answers; numbers of descriptors are the process's own.
#[test]
fn options_and_errors_are_the_hosts() {
    let loaded = Loaded::new("--mss=1000");
    let listener = loaded.listen();
    let (isn, fd) = loaded.accept(listener);
    let mut info = [0_u8; 512];
    let mut len = info.len() as socklen_t;
    let to = info.as_mut_ptr().cast::<c_void>();
    let got = call!(loaded, getsockopt, fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len);
    // `struct tcp_info` of Linux 7: the state comes first; the congestion window is 80 bytes on.
    assert_eq!((got, len, info[0]), (0, 280, 1));
    assert_eq!(u32::from_ne_bytes(info[80..84].try_into().expect("four bytes")), 10);

    assert_eq!(call!(loaded, fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK as libc::c_ulong), 0);
    assert_eq!(call!(loaded, read, fd, to, 10), -1);
    assert_eq!(errno(), libc::EAGAIN);
    assert_eq!(call!(loaded, read, 12_345, to, 10), -1);
    assert_eq!(errno(), libc::EBADF);

    // A super-packet of three segments counts as such.
    loaded.send("+0 < P. 1:3001(3000) ack 1 win 257", isn);
    assert_eq!(call!(loaded, read, fd, NULL, 10), -1);
    assert_eq!(errno(), libc::EFAULT);
    assert_eq!(call!(loaded, read, fd, to, 4_000), 3_000);
    assert_eq!(call!(loaded, close, fd), 0);
    assert_eq!(call!(loaded, close, fd), -1);
}

/// Waiting for what cannot come ends with an error, not never.
#[test]
fn a_hopeless_call_of_the_script_returns() {
    let loaded = Loaded::new("");
    let listener = loaded.listen();
    let (no_address, no_len) = (core::ptr::null_mut(), core::ptr::null_mut());
    assert_eq!(call!(loaded, accept, listener, no_address, no_len), -1);
    assert_eq!(errno(), libc::EINTR);
}
