//! What tokio's own stream answers over the loopback interface, ours answers over its device: each scene is played
//! with both, against the same peer, a socket of the kernel. Takes root; says so where there is none.
#![cfg(target_os = "linux")]

#[path = "as_tokio/datagrams.rs"]
mod datagrams;
mod device;
#[path = "as_tokio/readiness.rs"]
mod readiness;

use ackwright_tokio::{Stack, TcpStream};
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

/// Who connects.
trait Net {
    type Stream: AsyncRead + AsyncWrite + Unpin;

    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;

    /// An address of the kernel that it reaches.
    fn peer(&self) -> IpAddr;
}

struct Theirs;

impl Net for Theirs {
    type Stream = tokio::net::TcpStream;

    async fn connect(&self, to: SocketAddr) -> io::Result<Self::Stream> {
        tokio::net::TcpStream::connect(to).await
    }

    fn peer(&self) -> IpAddr {
        [127, 0, 0, 1].into()
    }
}

struct Ours {
    stack: Stack,
    peer: IpAddr,
}

impl Net for Ours {
    type Stream = TcpStream;

    async fn connect(&self, to: SocketAddr) -> io::Result<Self::Stream> {
        TcpStream::connect(&self.stack, to).await
    }

    fn peer(&self) -> IpAddr {
        self.peer
    }
}

/// A connection, and the kernel's end of it.
async fn pair<N: Net>(net: &N) -> (N::Stream, std::net::TcpStream) {
    let listener = TcpListener::bind((net.peer(), 0)).expect("a port");
    let stream = net.connect(listener.local_addr().expect("an address")).await;
    (stream.expect("a connection"), listener.accept().expect("a connection").0)
}

/// A connection whose peer has reset it, after it wrote `last`: it has closed what it had not read.
async fn reset<N: Net>(net: &N, last: &[u8]) -> N::Stream {
    let (mut ours, mut theirs) = pair(net).await;
    ours.write_all(b"unread").await.expect("room");
    theirs.write_all(last).expect("room");
    pause().await;
    drop(theirs);
    pause().await;
    ours
}

/// Until what was sent has come.
async fn pause() {
    sleep(Duration::from_millis(60)).await;
}

fn told<T: Debug>(done: io::Result<T>) -> String {
    match done {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {:?}", error.kind(), error.raw_os_error()),
    }
}

/// What comes of it, or that it waits.
async fn seen<T: Debug>(done: impl Future<Output = io::Result<T>>) -> String {
    timeout(Duration::from_millis(300), done).await.map_or("waits".to_owned(), told)
}

/// Both, side by side in one task.
async fn both<A, B>(one: impl Future<Output = A>, two: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(cx)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = two.as_mut().poll(cx)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, two) => {
                (first, second) = (one, two);
                Poll::Pending
            }
        }
    })
    .await
}

/// What happened in each scene, with its name.
async fn play(net: &impl Net) -> Vec<(&'static str, Vec<String>)> {
    let mut all = Vec::new();
    let mut memory = [0; 10];
    macro_rules! scene {
        ($name:literal, $($seen:expr),* $(,)?) => { all.push(($name, vec![$($seen),*])) };
    }

    let (mut s, _theirs) = pair(net).await;
    scene!(
        "shut for writing",
        seen(s.shutdown()).await,
        seen(s.shutdown()).await,
        seen(s.write(b"x")).await,
        seen(s.write(b"")).await,
        seen(s.flush()).await,
        seen(s.read(&mut memory)).await,
    );
    let (mut s, theirs) = pair(net).await;
    drop(theirs);
    pause().await;
    let first = [
        seen(s.read(&mut memory)).await,
        seen(s.read(&mut memory)).await,
        seen(s.write(b"x")).await,
    ];
    pause().await;
    scene!(
        "closed by the peer",
        first.join(" "),
        seen(s.write(b"x")).await,
        seen(s.read(&mut memory)).await,
        seen(s.shutdown()).await,
        seen(s.shutdown()).await,
    );
    let mut s = reset(net, b"").await;
    scene!(
        "reset, and read",
        seen(s.read(&mut memory)).await,
        seen(s.read(&mut memory)).await,
        seen(s.write(b"x")).await,
        seen(s.write(b"")).await,
        seen(s.shutdown()).await,
    );
    let mut s = reset(net, b"").await;
    scene!(
        "reset, and written",
        seen(s.write(b"x")).await,
        seen(s.write(b"x")).await,
        seen(s.read(&mut memory)).await,
        seen(s.shutdown()).await,
    );
    let mut s = reset(net, b"").await;
    scene!("reset, and nothing written", seen(s.write(b"")).await, seen(s.write(b"x")).await);
    let mut s = reset(net, b"").await;
    scene!("reset, and shut", seen(s.shutdown()).await, seen(s.write(b"x")).await);
    let mut s = reset(net, b"abc").await;
    scene!(
        "reset behind data",
        seen(s.read(&mut memory[..2])).await,
        seen(s.read(&mut memory)).await,
        seen(s.read(&mut memory)).await,
    );
    let (mut s, mut theirs) = pair(net).await;
    let waits = seen(s.read(&mut [])).await;
    theirs.write_all(b"abc").expect("room");
    pause().await;
    let there = [seen(s.read(&mut [])).await, seen(s.read(&mut memory)).await];
    drop(theirs);
    pause().await;
    scene!("no memory to read into", waits, there.join(" "), seen(s.read(&mut [])).await);
    let (mut s, mut theirs) = pair(net).await;
    let shut = seen(s.shutdown()).await;
    theirs.write_all(b"abc").expect("room");
    let there = seen(s.read(&mut memory)).await;
    drop(theirs);
    scene!("half closed", shut, there, seen(s.read(&mut memory)).await, seen(s.shutdown()).await);
    let (mut s, mut theirs) = pair(net).await;
    theirs.shutdown(std::net::Shutdown::Write).expect("a connection");
    let end = [seen(s.read(&mut memory)).await, seen(s.write_all(b"abc")).await];
    scene!("half closed by the peer", end.join(" "), told(theirs.read_exact(&mut memory[..3])));

    let (mut s, mut theirs) = pair(net).await;
    let pieces = [&b""[..], b"ab", b"cde", b""].map(IoSlice::new);
    let written = seen(s.write_vectored(&pieces)).await;
    pause().await;
    scene!(
        "several pieces",
        s.is_write_vectored().to_string(),
        written,
        told(theirs.read(&mut memory)),
        seen(s.write_vectored(&[])).await,
    );
    for to in ["0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1", "127.0.0.1:1"] {
        scene!(
            "addresses",
            seen(async { net.connect(to.parse().expect("one")).await.map(drop) }).await
        );
    }
    for port in [0, 1] {
        let to = SocketAddr::new(net.peer(), port);
        scene!("ports", seen(async { net.connect(to).await.map(drop) }).await);
    }

    // What a write that was given up has not told of, it has not written.
    let (mut s, mut theirs) = pair(net).await;
    let (block, mut written, mut given_up) = (vec![7; 100_000], 0, 0);
    while given_up < 20 {
        match timeout(Duration::ZERO, s.write(&block)).await {
            Ok(some) => written += some.expect("a connection"),
            Err(_) => given_up += 1,
        }
    }
    drop(s);
    let mut read = Vec::new();
    scene!(
        "writes that are given up",
        told(theirs.read_to_end(&mut read).map(|len| len == written))
    );

    // A task that always finds something lets others have their turn.
    let (mut s, mut theirs) = pair(net).await;
    theirs.write_all(&[1; 5_000]).expect("room");
    pause().await;
    let mut reads = pin!(async {
        for _ in 0..4_000 {
            s.read_u8().await.expect("a byte");
        }
    });
    let first = poll_fn(|cx| Poll::Ready(reads.as_mut().poll(cx).is_ready())).await;
    reads.await;
    scene!("much to do", first.to_string());

    let (s, mut theirs) = pair(net).await;
    theirs.write_all(b"abc").expect("room");
    pause().await;
    drop(s);
    scene!("dropped unread", told(theirs.read(&mut memory)));
    let (mut s, mut theirs) = pair(net).await;
    s.write_all(b"abc").await.expect("room");
    drop(s);
    scene!("dropped after a write", told(theirs.read_to_end(&mut Vec::new())));
    all
}

#[test]
fn it_answers_as_tokios_own() {
    let Some((stack, [_, peer])) = device::stack(3) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (theirs, ours) = runtime
        .expect("a runtime")
        .block_on(async { (play(&Theirs).await, play(&Ours { stack, peer }).await) });
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}
