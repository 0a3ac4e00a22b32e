//! Where metrics are asked for: HTTP/1.1, one question a connection, on this machine only.

use crate::config::ListenAddress;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Who listens.
#[derive(Debug)]
pub enum Listener {
    /// On an address.
    Tcp(TcpListener),
    /// On a file.
    Unix(UnixListener),
}

/// A client that takes longer than this to ask or to read is left.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many are listened to or answered at a time. For another one, whoever has said nothing for longest is left; if all
/// have asked, it finds the connection closed.
const CLIENTS: usize = 64;
/// The longest question.
const LONGEST: usize = 8 << 10;

impl Listener {
    /// Listens at `place`; what an earlier process has left there is removed.
    ///
    /// # Errors
    /// Somebody listens there, or may not be listened there.
    pub fn bind(place: &ListenAddress) -> io::Result<Self> {
        match place {
            ListenAddress::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            ListenAddress::Unix(path) => {
                let is_socket = |file: fs::Metadata| file.file_type().is_socket();
                let left_over = fs::symlink_metadata(path).is_ok_and(is_socket)
                    && UnixStream::connect(path).is_err();
                if left_over {
                    fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
                Ok(Self::Unix(listener))
            }
        }
    }

    /// Answers questions for ever with what `metrics` gives, some at a time: what goes wrong with one, or
    /// takes its time, does not matter to the next.
    pub fn serve(&self, metrics: impl Fn() -> io::Result<String> + Sync) {
        let (clients, metrics) = (&Clients::default(), &metrics);
        thread::scope(|scope| {
            for number in 0.. {
                let Ok((stream, other)) = self.accept() else {
                    // No descriptors are left, as a rule: some will be free again.
                    thread::sleep(PATIENCE);
                    continue;
                };
                if !clients.admit(number, other) {
                    continue;
                }
                let begun = thread::Builder::new().spawn_scoped(scope, move || {
                    let _is_gone = answer(stream, || clients.mark_served(number), metrics);
                    clients.go(number);
                });
                if begun.is_err() {
                    clients.go(number);
                }
            }
        });
    }

    /// The next client, who is not waited for very long, by two handles.
    fn accept(&self) -> io::Result<(Box<dyn Client>, Box<dyn Client>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                (Box::new(stream.try_clone()?), Box::new(stream))
            }
            Self::Unix(listener) => {
                let stream = listener.accept()?.0;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                (Box::new(stream.try_clone()?), Box::new(stream))
            }
        })
    }
}

/// A client.
trait Client: Read + Write + Send {
    /// Shutting it down wakes the thread that reads from it.
    fn leave(&self);
}

impl Client for TcpStream {
    fn leave(&self) {
        let _is_gone = self.shutdown(Shutdown::Both);
    }
}

impl Client for UnixStream {
    fn leave(&self) {
        let _is_gone = self.shutdown(Shutdown::Both);
    }
}

/// Who is there.
#[derive(Default)]
struct Clients {
    count: AtomicUsize,
    /// Those that have not asked yet, in the order in which they came.
    silent: Mutex<BTreeMap<u64, Box<dyn Client>>>,
}

impl Clients {
    /// Another one has come; false if there is no room for it.
    fn admit(&self, number: u64, client: Box<dyn Client>) -> bool {
        let mut silent = self.silent.lock().expect("nobody panics with it");
        if self.count.load(Ordering::Relaxed) >= CLIENTS {
            // Its thread notices, and ends.
            let Some((_, oldest)) = silent.pop_first() else { return false };
            oldest.leave();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        silent.insert(number, client);
        true
    }

    /// It has sent its request, so its slot is not given to another client.
    fn mark_served(&self, number: u64) {
        self.silent.lock().expect("nobody panics with it").remove(&number);
    }

    fn go(&self, number: u64) {
        self.mark_served(number);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(
    mut stream: impl Read + Write,
    asks: impl FnOnce(),
    metrics: &impl Fn() -> io::Result<String>,
) -> io::Result<()> {
    let begun = Instant::now();
    let mut asked = Vec::new();
    let mut piece = [0; 1_024];
    while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
        let len = stream.read(&mut piece)?;
        asked.extend_from_slice(&piece[..len]);
        if len == 0 || begun.elapsed() > PATIENCE {
            return Ok(());
        }
        if asked.len() > LONGEST {
            let text = "a request of more than 8 kB\n";
            return reply(&mut stream, "431 Request Header Fields Too Large", PLAIN, text, true);
        }
    }
    asks();
    let line = asked.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_there = path.split('?').next() == Some("/metrics");
    let (status, kind, body) = match (method, is_there) {
        ("GET" | "HEAD", true) => match metrics() {
            Ok(text) => ("200 OK", OPEN_METRICS, text),
            Err(error) => ("503 Service Unavailable", PLAIN, format!("{error}\n")),
        },
        ("GET" | "HEAD", false) => ("404 Not Found", PLAIN, "GET /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", PLAIN, "GET /metrics\n".to_owned()),
    };
    reply(&mut stream, status, kind, &body, method != "HEAD")
}

/// Answers; a HEAD request gets the length of the body without it (RFC 9110 section 9.3.2).
fn reply(
    stream: &mut impl Write,
    status: &str,
    kind: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body.as_bytes())?;
    }
    Ok(())
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that says what it has and keeps what it hears.
    struct Talker(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for &mut Talker {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for &mut Talker {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(from);
            Ok(from.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(text: &str) -> String {
        let mut client = Talker(io::Cursor::new(text.as_bytes().to_vec()), Vec::new());
        answer(&mut client, || (), &|| Ok("x 1\n".to_owned())).expect("it is answered or left");
        String::from_utf8(client.1).expect("text")
    }

    #[test]
    fn metrics_and_nothing_else_are_given() {
        let right = ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(
            right.starts_with("HTTP/1.1 200 OK") && right.ends_with("\r\n\r\nx 1\n"),
            "{right}"
        );
        assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert_eq!(ask("GET /metrics HTTP/1.1\r\n"), "", "a question without an end");
        assert!(ask(&"x".repeat(20_000)).starts_with("HTTP/1.1 431"), "too long a question");
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(head.contains("Content-Length: 4\r\n"), "{head}");
        assert!(ask("HEAD /nothing HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn silent_clients_do_not_block_others() {
        let name = format!("ackwright-http-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener =
            Listener::bind(&ListenAddress::Unix(path.clone())).expect("a place of its own");
        thread::spawn(move || listener.serve(|| Ok("x 1\n".to_owned())));
        let connect = || UnixStream::connect(&path).expect("it listens");
        let silent: Vec<_> = (0..2 * CLIENTS).map(|_| connect()).collect();
        let mut client = connect();
        client.set_read_timeout(Some(PATIENCE / 2)).expect("a time");
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
        let mut heard = String::new();
        client.read_to_string(&mut heard).expect("before the silent ones are left");
        assert!(heard.ends_with("x 1\n"), "{heard}");
        // Who came first is the first to be left.
        let mut ends = silent.iter().map(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time");
            stream.read(&mut [0]).ok()
        });
        assert_eq!(ends.next(), Some(Some(0)));
        assert_eq!(ends.next_back(), Some(None));
        drop(ends);
        drop(silent);
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let path = std::env::temp_dir().join(format!("ackwright-http-file-{}", std::process::id()));
        fs::write(&path, "precious").expect("a file");
        Listener::bind(&ListenAddress::Unix(path.clone())).expect_err("somebody has that place");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious");
        fs::remove_file(&path).expect("it is there");
    }
}
