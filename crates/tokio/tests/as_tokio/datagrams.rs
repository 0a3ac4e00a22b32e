//! Datagrams: what tokio's own socket answers over the loopback interface, ours answers over its device.

use super::*;
use std::future::{Ready, ready};
use std::net::UdpSocket as Kernel;
use tokio::io::{Interest, ReadBuf};

/// Who opens sockets; the peer is a socket of the kernel.
macro_rules! scenes {
    ($play:ident, $net:ty, $bind:expr, $connect:expr) => {
        pub async fn $play(net: &$net) -> Vec<(&'static str, Vec<String>)> {
            let mut all = Vec::new();
            let mut memory = [0; 10];
            let theirs = Kernel::bind((net.peer(), 0)).expect("a port");
            let there = theirs.local_addr().expect("an address");
            let s = $bind(net).await.expect("a port");
            let here = SocketAddr::new(net.own(), s.local_addr().expect("bound").port());

            let idle = [
                seen(s.readable()).await,
                seen(s.writable()).await,
                told(s.try_recv_from(&mut memory)),
                told(s.peer_addr()),
                seen(s.send(b"nobody")).await,
                seen(s.recv(&mut memory)).await,
            ];
            all.push(("nothing has come", idle.to_vec()));
            let sent = [
                seen(s.send_to(b"abc", there)).await,
                told(s.try_send_to(b"", there)),
                told(theirs.recv_from(&mut memory).map(|(len, from)| (len, from == here))),
                told(theirs.recv_from(&mut memory).map(|(len, from)| (len, from == here))),
                seen(s.send_to(&vec![0; 65_508], there)).await,
                seen(s.send_to(&vec![0; 70_000], there)).await,
                seen(s.send_to(b"x", SocketAddr::new(there.ip(), 0))).await,
                seen(s.send_to(b"x", address("255.255.255.255:1"))).await,
                seen(s.send_to(b"x", address("[::1]:1"))).await,
            ];
            all.push(("sent", sent.to_vec()));
            theirs.send_to(b"0123456789abcdef", here).expect("room");
            theirs.send_to(b"", here).expect("room");
            theirs.send_to(b"yz", here).expect("room");
            let from = |(len, from): (usize, SocketAddr)| (len, from == there);
            let come = [
                seen(s.readable()).await,
                seen(s.ready(Interest::READABLE | Interest::WRITABLE)).await,
                seen(async { s.peek_from(&mut memory).await.map(from) }).await,
                seen(async { s.recv_from(&mut memory).await.map(from) }).await,
                format!("{memory:?}"),
                seen(s.recv(&mut memory)).await,
                told(s.try_peek_from(&mut memory).map(from)),
                told(s.try_recv(&mut memory)),
                told(s.try_recv(&mut memory)),
            ];
            all.push(("come", come.to_vec()));

            // A wait that is given up loses nothing, and each of two that wait gets one.
            let given_up = seen(s.recv(&mut memory)).await;
            theirs.send_to(b"one", here).expect("room");
            let one = seen(s.recv(&mut memory)).await;
            let (mut first, mut second) = ([0; 10], [0; 10]);
            let send = async {
                sleep(Duration::from_millis(20)).await;
                theirs.send_to(b"two", here)?;
                theirs.send_to(b"two", here)
            };
            let waits = both(seen(s.recv(&mut first)), seen(s.recv(&mut second)));
            let (two, sent) = both(waits, send).await;
            sent.expect("room");
            all.push(("given up", vec![given_up, one, two.0, two.1]));

            let other = Kernel::bind((net.peer(), 0)).expect("a port");
            let connected = told($connect(&s, there).await);
            other.send_to(b"not for it", here).expect("room");
            theirs.send_to(b"for it", here).expect("room");
            let peer = [
                connected,
                told(s.peer_addr().map(|peer| peer == there)),
                seen(s.recv(&mut memory)).await,
                told(s.try_recv(&mut memory)),
                seen(s.send(b"abcd")).await,
                told(theirs.recv(&mut memory)),
                told(s.try_send(b"abcd")),
                seen(s.send_to(b"abcd", other.local_addr().expect("one"))).await,
                told(other.recv(&mut memory)),
            ];
            all.push(("connected", peer.to_vec()));
            drop(theirs);
            let kind = |taken: io::Result<Option<io::Error>>| {
                told(taken.map(|error| error.map(|error| error.kind())))
            };
            let mut refused = vec![seen(s.send(b"x")).await];
            pause().await;
            refused.push(seen(s.send(b"x")).await);
            pause().await;
            refused.extend([kind(s.take_error()), told(s.try_send(b"x"))]);
            pause().await;
            refused.extend([kind(s.take_error()), kind(s.take_error())]);
            all.push(("nobody there any more", refused));
            let mut polled = [0; 10];
            let mut buf = ReadBuf::new(&mut polled);
            let pending = poll_fn(|cx| Poll::Ready(s.poll_recv(cx, &mut buf).is_pending())).await;
            all.push(("polled", vec![pending.to_string()]));
            all
        }
    };
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The address that the peer sees.
trait Own {
    fn own(&self) -> IpAddr;
}

impl Own for Theirs {
    fn own(&self) -> IpAddr {
        [127, 0, 0, 1].into()
    }
}

impl Own for Ours {
    fn own(&self) -> IpAddr {
        self.stack.with_host(|host| host.source_address(self.peer)).expect("a route")
    }
}

async fn bind_theirs(_: &Theirs) -> io::Result<tokio::net::UdpSocket> {
    tokio::net::UdpSocket::bind("0.0.0.0:0").await
}

fn bind_ours(net: &Ours) -> Ready<io::Result<ackwright_tokio::UdpSocket>> {
    ready(ackwright_tokio::UdpSocket::bind(&net.stack, address("0.0.0.0:0")))
}

async fn connect_theirs(s: &tokio::net::UdpSocket, peer: SocketAddr) -> io::Result<()> {
    s.connect(peer).await
}

fn connect_ours(s: &ackwright_tokio::UdpSocket, peer: SocketAddr) -> Ready<io::Result<()>> {
    ready(s.connect(peer))
}

scenes!(play_theirs, Theirs, bind_theirs, connect_theirs);
scenes!(play_ours, Ours, bind_ours, connect_ours);

#[test]
fn datagrams_are_as_tokios_own() {
    let Some((stack, [_, peer])) = device::stack(5) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (theirs, ours) = runtime
        .expect("a runtime")
        .block_on(async { (play_theirs(&Theirs).await, play_ours(&Ours { stack, peer }).await) });
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn an_address_belongs_to_one_socket() {
    let Some((stack, [ours, theirs])) = device::stack(6) else { return };
    let bind =
        |ip: IpAddr, port| ackwright_tokio::UdpSocket::bind(&stack, SocketAddr::new(ip, port));
    let first = bind(ours, 0).expect("a port");
    let port = first.local_addr().expect("bound").port();
    let kind = |done: io::Result<_>| done.map(drop).map_err(|error: io::Error| error.kind());
    assert_eq!(kind(bind(ours, port)), Err(io::ErrorKind::AddrInUse));
    assert_eq!(kind(bind([0; 4].into(), port)), Err(io::ErrorKind::AddrInUse));
    assert_eq!(kind(bind(theirs, port)), Err(io::ErrorKind::AddrNotAvailable));
    drop(first);
    assert_eq!(kind(bind(ours, port)), Ok(()));
}

/// Of a datagram that nobody took a call that receives tells, as one that waits in the kernel does. tokio's own sleeps on:
/// it looks for `EPOLLIN` alone.
#[test]
fn a_receiving_call_reports_that_a_datagram_was_refused() {
    let Some((stack, [_, theirs])) = device::stack(7) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let s = ackwright_tokio::UdpSocket::bind(&stack, address("0.0.0.0:0")).expect("a port");
        s.connect(SocketAddr::new(theirs, 9)).expect("a route");
        let mut memory = [0; 10];
        let send = async {
            sleep(Duration::from_millis(20)).await;
            s.send(b"x").await
        };
        let (heard, sent) = both(seen(s.recv(&mut memory)), send).await;
        assert_eq!((heard.as_str(), sent.ok()), ("ConnectionRefused Some(111)", Some(1)));
        s.send(b"x").await.expect("room");
        let ready = s.ready(Interest::READABLE).await.expect("a device");
        assert!(ready.is_readable() && s.try_recv(&mut memory).is_err());
    });
}
