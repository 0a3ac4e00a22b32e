//! HTTP between tokio tasks on our stack and programs on the kernel's: curl asks our server, and our
//! client asks a server of the kernel's. Takes root and a network namespace; says so where there is none.
#![cfg(target_os = "linux")]

mod device;

use ackwright_tokio::{TcpListener, TcpStream};
use device::stack;
use std::io::{self, Read as _, Write as _};
use std::process::Command;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

const SIZE: usize = 3_000_000;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn content() -> Vec<u8> {
    (0..SIZE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Answers one request: GET gives the content, PUT gives back what came.
async fn answer(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    assert!(stream.nodelay()?);
    assert_eq!(stream.congestion_control()?, "cubic");
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let (mut first, mut length) = (String::new(), 0);
    read.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.to_ascii_lowercase().starts_with("expect:") {
            write.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = content();
    if first.starts_with("PUT ") {
        body = vec![0; length];
        read.read_exact(&mut body).await?;
    }
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    write.write_all(head.as_bytes()).await?;
    write.write_all(&body).await?;
    write.shutdown().await
}

#[test]
fn curl_gets_and_puts() {
    let Some((stack, [ours, _])) = stack(1) else { return };
    let content = content();
    let file = std::env::temp_dir().join(format!("ackwright-tokio-{}", std::process::id()));
    std::fs::write(&file, &content).expect("a file");
    let upload = file.clone();
    let curl = std::thread::spawn(move || {
        let ask = |arguments: &[&str]| {
            let run = Command::new("curl").args(["-sS", "-m", "20"]).args(arguments).output();
            run.map(|output| {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                output.stdout
            })
        };
        let url = format!("http://{ours}:8080/it");
        Some((ask(&[&url]).ok()?, ask(&["-T", upload.to_str()?, &url]).ok()?))
    });
    runtime().block_on(async {
        let listener = TcpListener::bind(&stack, (ours, 8080).into()).expect("a listener");
        let taken =
            TcpListener::bind(&stack, (ours, 8080).into()).expect_err("a port that is taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        while !curl.is_finished() {
            let next =
                tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept());
            if let Ok(accepted) = next.await {
                let (stream, peer) = accepted.expect("a connection");
                assert_eq!((stream.local_addr().port(), stream.peer_addr()), (8080, peer));
                answer(stream).await.expect("an exchange");
            }
        }
    });
    let _is_removed = std::fs::remove_file(&file);
    let Some((got, back)) = curl.join().expect("what curl says") else {
        return eprintln!("SKIPPED: no curl");
    };
    assert!(got == content && back == content, "{} and {} bytes", got.len(), back.len());
}

#[test]
fn our_client_asks_the_kernels_server() {
    let Some((stack, [_, theirs])) = stack(2) else { return };
    let server = std::net::TcpListener::bind((theirs, 0)).expect("a port");
    let address = server.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a connection");
        let mut request = Vec::new();
        stream.read_to_end(&mut request).expect("a request");
        stream.write_all(&request).expect("an answer");
    });
    let content = content();
    let got = runtime().block_on(async {
        let stream = TcpStream::connect(&stack, address).await.expect("a connection");
        let (mut read, mut write) = stream.into_split();
        write.write_all(&content).await.expect("room");
        drop(write);
        let mut got = Vec::new();
        read.read_to_end(&mut got).await.expect("an answer");
        got
    });
    thread.join().expect("a server");
    assert!(got == content, "{} bytes", got.len());

    let refused = runtime().block_on(TcpStream::connect(&stack, (theirs, 1).into()));
    assert_eq!(refused.expect_err("nobody").kind(), io::ErrorKind::ConnectionRefused);
}
