//! Readiness, looks ahead, and halves. Both kinds of streams have the same calls under the same names, so a scene is
//! written once and compiled for each.

use super::*;
use std::io::IoSliceMut;
use tokio::io::Interest;

macro_rules! scenes {
    ($play:ident, $net:ty) => {
        pub async fn $play(net: &$net) -> Vec<(&'static str, Vec<String>)> {
            let mut all = Vec::new();
            let mut memory = [0; 10];
            let either = Interest::READABLE | Interest::WRITABLE;

            let (s, mut theirs) = pair(net).await;
            let idle = [
                seen(s.readable()).await,
                seen(s.writable()).await,
                seen(s.peek(&mut memory)).await,
                told(s.try_read(&mut memory)),
                seen(s.ready(either)).await,
            ];
            all.push(("nothing has come", idle.to_vec()));

            theirs.write_all(b"abcdef").expect("room");
            let come = [
                seen(s.readable()).await,
                seen(s.ready(either)).await,
                seen(s.ready(Interest::READABLE)).await,
                seen(s.ready(Interest::WRITABLE)).await,
                seen(s.peek(&mut memory[..4])).await,
                format!("{:?}", &memory[..4]),
                seen(s.peek(&mut memory)).await,
                seen(s.peek(&mut [])).await,
                told(s.try_read(&mut memory[..2])),
                seen(s.peek(&mut memory)).await,
                format!("{:?}", &memory[..4]),
            ];
            all.push(("something has come", come.to_vec()));
            let (mut one, mut two) = ([0; 3], [0; 3]);
            let mut places = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
            let several = [
                told(s.try_read_vectored(&mut places)),
                told(s.try_read_vectored(&mut [])),
                format!("{one:?} {two:?}"),
                told(s.try_write_vectored(&[IoSlice::new(b"xy"), IoSlice::new(b"z")])),
                told(s.try_read(&mut memory)),
                seen(s.readable()).await,
            ];
            all.push(("several places", several.to_vec()));
            drop(theirs);
            pause().await;

            let (mut s, mut theirs) = pair(net).await;
            theirs.write_all(b"abc").expect("room");
            theirs.shutdown(std::net::Shutdown::Write).expect("a connection");
            pause().await;
            let ended = [
                seen(s.ready(Interest::READABLE)).await,
                seen(s.peek(&mut memory)).await,
                seen(s.read(&mut memory)).await,
                seen(s.peek(&mut memory)).await,
                seen(s.peek(&mut memory)).await,
                told(s.try_read(&mut memory)),
                seen(s.readable()).await,
                seen(s.ready(either)).await,
            ];
            all.push(("ended by the peer", ended.to_vec()));

            let (mut s, mut theirs) = pair(net).await;
            theirs.write_all(b"abc").expect("room");
            let shut =
                [seen(s.shutdown()).await, seen(s.writable()).await, told(s.try_write(b"x"))];
            all.push(("shut for writing", shut.to_vec()));

            let s = reset(net, b"").await;
            let gone = [
                seen(s.readable()).await,
                seen(s.writable()).await,
                seen(s.peek(&mut memory)).await,
                seen(s.peek(&mut memory)).await,
                told(s.try_read(&mut memory)),
                told(s.try_write(b"x")),
            ];
            all.push(("reset, and looked at", gone.to_vec()));
            let s = reset(net, b"abc").await;
            let gone = [
                seen(s.peek(&mut memory)).await,
                told(s.take_error().map(|error| error.map(|error| error.kind()))),
                told(s.take_error().map(|error| error.map(|error| error.kind()))),
                seen(s.peek(&mut memory)).await,
            ];
            all.push(("reset, and asked for its error", gone.to_vec()));

            // A full one becomes writable again, and two tasks that look are told both.
            let (s, mut theirs) = pair(net).await;
            let block = vec![7; 100_000];
            // Until the peer's buffer is full as well.
            while s.try_write(&block).is_ok() {
                while s.try_write(&block).is_ok() {}
                pause().await;
            }
            let full = [told(s.try_write(b"x")), seen(s.writable()).await];
            let reads = std::thread::spawn(move || {
                let mut some = vec![0; 8 << 20];
                let read = theirs.read(&mut some).is_ok();
                for _ in 0..200 {
                    let _some = theirs.set_read_timeout(Some(Duration::from_millis(50)));
                    if theirs.read(&mut some).is_err() {
                        break;
                    }
                }
                (read, theirs)
            });
            let room = both(seen(s.writable()), seen(s.writable())).await;
            let (read, mut theirs) = reads.join().expect("no panic");
            all.push(("full", [&full[..], &[room.0, room.1, read.to_string()]].concat()));
            let (one, two) = (s.readable(), s.peek(&mut memory));
            theirs.write_all(b"q").expect("room");
            let looks = both(seen(one), seen(two)).await;
            all.push(("two that look", vec![looks.0, looks.1]));

            let (mut s, mut theirs) = pair(net).await;
            let (mut reads, mut writes) = s.split();
            let wrote = seen(writes.write_all(b"abc")).await;
            theirs.read_exact(&mut memory[..3]).expect("three bytes");
            theirs.write_all(b"defg").expect("room");
            let lent = [
                wrote,
                seen(reads.readable()).await,
                seen(reads.peek(&mut memory)).await,
                seen(reads.read(&mut memory[..2])).await,
                told(reads.try_read(&mut memory)),
                seen(writes.writable()).await,
                told(writes.try_write(b"hi")),
                (reads.as_ref().peer_addr_told() == writes.as_ref().peer_addr_told()).to_string(),
            ];
            let whole = [seen(s.write_all(b"j")).await, told(theirs.read_exact(&mut memory[..3]))];
            all.push(("lent halves", [lent.to_vec(), whole.to_vec()].concat()));

            let (s, mut theirs) = pair(net).await;
            let (mut reads, writes) = s.into_split();
            theirs.write_all(b"defg").expect("room");
            let owned = [
                seen(reads.readable()).await,
                seen(reads.peek(&mut memory)).await,
                seen(reads.ready(Interest::READABLE)).await,
                seen(writes.ready(Interest::WRITABLE)).await,
                told(reads.try_read(&mut memory)),
                told(writes.try_write(b"hi")),
            ];
            drop(writes);
            let end = told(theirs.read_to_end(&mut Vec::new()));
            all.push(("owned halves", [owned.to_vec(), vec![end]].concat()));
            all
        }
    };
}

/// An address, with or without a `Result`.
trait PeerAddr {
    fn peer_addr_told(&self) -> SocketAddr;
}

impl PeerAddr for TcpStream {
    fn peer_addr_told(&self) -> SocketAddr {
        self.peer_addr()
    }
}

impl PeerAddr for tokio::net::TcpStream {
    fn peer_addr_told(&self) -> SocketAddr {
        self.peer_addr().expect("a connection")
    }
}

scenes!(play_theirs, Theirs);
scenes!(play_ours, Ours);

#[test]
fn it_is_ready_as_tokios_own() {
    let Some((stack, [_, peer])) = device::stack(4) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (theirs, ours) = runtime
        .expect("a runtime")
        .block_on(async { (play_theirs(&Theirs).await, play_ours(&Ours { stack, peer }).await) });
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}
