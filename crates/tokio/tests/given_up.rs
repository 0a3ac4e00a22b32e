//! Futures that are dropped, tasks that end, panics of others: nothing is kept, lost or stuck. Takes root; says so
//! where there is none.
#![cfg(target_os = "linux")]

mod device;

use ackwright_tokio::{Stack, TcpListener, TcpStream};
use device::stack;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().expect("a runtime")
}

/// A task that is never run, and has something.
#[derive(Default)]
struct Task<T>(Mutex<Option<T>>);

impl<T: Send> Wake for Task<T> {
    fn wake(self: Arc<Self>) {}
}

type Plain = Task<()>;

#[test]
fn who_gives_up_is_not_kept() {
    let Some((stack, [ours, theirs])) = stack(4) else { return };
    let task = Arc::<Plain>::default();
    let poll = |future: Pin<&mut dyn Future<Output = io::Result<()>>>| {
        // A waker of its own each time, as combinators of futures make them.
        let each = Arc::new(Task(Mutex::new(Some(Arc::clone(&task)))));
        assert!(future.poll(&mut Context::from_waker(&Waker::from(each))).is_pending());
    };
    let listener = TcpListener::bind(&stack, (ours, 80).into()).expect("a listener");
    for _ in 0..1_000 {
        poll(pin!(async { listener.accept().await.map(drop) }));
    }
    assert_eq!(Arc::strong_count(&task), 1, "of accepts that were dropped");

    let peer = std::net::TcpListener::bind((theirs, 0)).expect("a port");
    let to = peer.local_addr().expect("an address");
    let mut stream = runtime().block_on(TcpStream::connect(&stack, to)).expect("a connection");
    for _ in 0..1_000 {
        let mut memory = [0; 10];
        poll(pin!(async { stream.read(&mut memory).await.map(drop) }));
    }
    assert!(Arc::strong_count(&task) <= 2, "of reads only the last is known");
    drop(stream);
    assert_eq!(Arc::strong_count(&task), 1);

    // Nobody answers there.
    let silent = SocketAddr::new([10, 213, 4, 77].into(), 1);
    for _ in 0..1_000 {
        poll(pin!(async { TcpStream::connect(&stack, silent).await.map(drop) }));
    }
    assert_eq!(Arc::strong_count(&task), 1, "of connects");
    let left = stack
        .with_host(|host| host.tcp_sockets().filter(|(_, remote, _)| *remote == silent).count());
    assert_eq!(left, 0, "sockets of connects that were dropped");
}

/// Dropped between any two polls, an `accept` takes nobody along, and a `read` no byte.
#[test]
fn what_is_given_up_loses_nothing() {
    const COUNT: usize = 200;
    let Some((stack, [ours, _])) = stack(5) else { return };
    let listener = TcpListener::bind(&stack, (ours, 80).into()).expect("a listener");
    let clients = std::thread::spawn(move || {
        (0..COUNT)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect((ours, 80)).expect("a connection");
                for byte in 0..100 {
                    stream.write_all(&[byte]).expect("room");
                }
                stream
            })
            .collect::<Vec<_>>()
    });
    runtime().block_on(async {
        for _ in 0..COUNT {
            let mut stream = loop {
                if let Ok(accepted) = timeout(Duration::from_micros(50), listener.accept()).await {
                    break accepted.expect("a connection").0;
                }
            };
            let mut all: Vec<u8> = Vec::new();
            while all.len() < 100 {
                let mut memory = [0; 7];
                if let Ok(read) = timeout(Duration::ZERO, stream.read(&mut memory)).await {
                    all.extend(&memory[..read.expect("a connection")]);
                }
            }
            assert!(all.iter().copied().eq(0..100));
        }
    });
    drop(clients.join());
}

/// One waits in each of two ways in one task, and the one that goes on is still woken.
#[test]
fn the_other_of_two_is_woken() {
    let Some((stack, [ours, _])) = stack(6) else { return };
    let listener = TcpListener::bind(&stack, (ours, 80).into()).expect("a listener");
    let both = async {
        let mut first = Box::pin(listener.accept());
        let mut second = Box::pin(listener.accept());
        std::future::poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            assert!(second.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(first);
        let client = std::thread::spawn(move || std::net::TcpStream::connect((ours, 80)));
        let accepted = timeout(Duration::from_secs(5), second).await.expect("it is woken");
        accepted.expect("a connection");
        drop(client.join());
    };
    runtime().block_on(both);
}

/// A task that is woken may be all that has the stack: it then ends in the stack's own thread.
#[test]
fn the_last_of_a_stack_goes_in_its_own_thread() {
    let Some((stack, [_, theirs])) = stack(7) else { return };
    let peer = std::net::TcpListener::bind((theirs, 0)).expect("a port");
    let to = peer.local_addr().expect("an address");
    let mut stream = runtime().block_on(TcpStream::connect(&stack, to)).expect("a connection");
    let (mut theirs, _) = peer.accept().expect("a connection");
    drop(stack);
    let task = Arc::new(Task::<TcpStream>(Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&task));
    let mut memory = [0; 10];
    let mut memory = ReadBuf::new(&mut memory);
    let read = Pin::new(&mut stream).poll_read(&mut Context::from_waker(&waker), &mut memory);
    assert!(read.is_pending());
    *task.0.lock().expect("no panic") = Some(stream);
    drop((task, waker));
    theirs.write_all(b"x").expect("room");
    // The stack has ended: its device is gone, and nobody answers.
    let mut end = Vec::new();
    theirs.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let _reset_or_unreachable = theirs.read_to_end(&mut end);
    let gone = || !std::path::Path::new("/sys/class/net/aktk7").exists();
    let over = std::time::Instant::now() + Duration::from_secs(5);
    while !gone() && std::time::Instant::now() < over {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "the device is still there");
}

#[test]
fn who_panics_panics_alone() {
    let Some((stack, [ours, _])) = stack(8) else { return };
    let theirs = stack.clone();
    let looks = std::thread::spawn(move || theirs.with_host(|_| panic!("on purpose")));
    assert!(looks.join().is_err());
    let theirs = stack.clone();
    let sets = std::thread::spawn(move || {
        let inner = ackwright_live_listener(&theirs, ours);
        drop(inner);
    });
    assert!(sets.join().is_err());
    let listener = TcpListener::bind(&stack, (ours, 80).into()).expect("a stack that works");
    assert!(stack.check().is_ok());
    drop(listener);
}

/// Binds with options that nobody can set.
fn ackwright_live_listener(stack: &Stack, at: IpAddr) -> io::Result<live::endpoint::TcpListener> {
    live::endpoint::TcpListener::bind_with(stack, (at, 81).into(), |_| panic!("on purpose"))
}

/// A runtime that ends takes its tasks along wherever they are; the next one finds the stack as it was.
#[test]
fn many_tasks_and_a_runtime_that_ends() {
    const COUNT: usize = 1_000;
    let Some((stack, [ours, _])) = stack(9) else { return };
    let serve = |stack: Stack| async move {
        let listener = TcpListener::bind(&stack, (ours, 80).into())?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
        #[expect(unreachable_code, reason = "it says what the task returns")]
        io::Result::Ok(())
    };
    for round in 0..2 {
        let runtime = runtime();
        runtime.spawn(serve(stack.clone()));
        let clients = std::thread::spawn(move || {
            let connect = || loop {
                // The listener may not be there yet.
                if let Ok(stream) = std::net::TcpStream::connect((ours, 80)) {
                    break stream;
                }
            };
            let mut clients: Vec<_> = (0..COUNT).map(|_| connect()).collect();
            for client in &mut clients {
                client.write_all(&[7; 3_000]).expect("room");
            }
            for client in &mut clients {
                let mut back = vec![0; 3_000];
                client.read_exact(&mut back).expect("an echo");
                assert!(back.iter().all(|byte| *byte == 7));
            }
            clients
        });
        let clients = clients.join().expect("echoes");
        runtime.shutdown_timeout(Duration::from_secs(5));
        drop(clients);
        assert!(stack.drain(Duration::from_secs(10)), "round {round}");
    }
}

#[test]
fn halves_are_forgotten_reunited_and_say_where_they_are() {
    let Some((stack, [_, theirs])) = stack(10) else { return };
    let peer = std::net::TcpListener::bind((theirs, 0)).expect("a port");
    let to = peer.local_addr().expect("an address");
    runtime().block_on(async {
        let connect = || async { TcpStream::connect(&stack, to).await.expect("a connection") };
        let (read, write) = connect().await.into_split();
        assert_eq!((read.as_ref().peer_addr(), write.as_ref().peer_addr()), (to, to));
        let mut stream = write.reunite(read).expect("of the same");
        let (mut kernels, _) = peer.accept().expect("a connection");
        assert_eq!(
            stream.try_read(&mut [0]).expect_err("nothing").kind(),
            io::ErrorKind::WouldBlock
        );
        assert_eq!(stream.try_write(b"ab").expect("room"), 2);
        kernels.read_exact(&mut [0; 2]).expect("two bytes");
        stream.write_all(b"c").await.expect("room");
        let (mut read, write) = stream.into_split();
        write.forget();
        kernels.write_all(b"still open").expect("room");
        read.read_exact(&mut [0; 10]).await.expect("ten bytes");
        kernels.read_exact(&mut [0; 1]).expect("a byte");
        kernels.set_nonblocking(true).expect("a socket");
        let more = kernels.read(&mut [0; 1]).expect_err("no end yet");
        assert_eq!(more.kind(), io::ErrorKind::WouldBlock);
    });
}
