//! Where metrics are asked for: HTTP/1.1, one question a connection, on this machine only.

use crate::config::Place;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

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
/// The longest question.
const LONGEST: usize = 8 << 10;

impl Listener {
    /// Listens at `place`; what an earlier process has left there is removed.
    ///
    /// # Errors
    /// Somebody listens there, or may not be listened there.
    pub fn bind(place: &Place) -> io::Result<Self> {
        match place {
            Place::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            Place::Unix(path) => {
                let left_over = fs::metadata(path).is_ok()
                    && std::os::unix::net::UnixStream::connect(path).is_err();
                if left_over {
                    fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
                Ok(Self::Unix(listener))
            }
        }
    }

    /// Answers questions for ever with what `metrics` gives; what goes wrong with one does not matter to
    /// the next.
    pub fn serve(&self, mut metrics: impl FnMut() -> io::Result<String>) {
        loop {
            let served = match self {
                Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    answer(stream, &mut metrics)
                }),
                Self::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    answer(stream, &mut metrics)
                }),
            };
            if served.is_err_and(|error| error.raw_os_error().is_some_and(|code| code == EMFILE)) {
                std::thread::sleep(PATIENCE);
            }
        }
    }
}

/// No descriptors left.
const EMFILE: i32 = 24;

fn answer(
    mut stream: impl Read + Write,
    metrics: &mut impl FnMut() -> io::Result<String>,
) -> io::Result<()> {
    let mut asked = Vec::new();
    let mut piece = [0; 1_024];
    while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
        let len = stream.read(&mut piece)?;
        asked.extend_from_slice(&piece[..len]);
        if len == 0 || asked.len() > LONGEST {
            return Ok(());
        }
    }
    let line = asked.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) if path.split('?').next() == Some("/metrics") => {
            match metrics() {
                Ok(text) => ("200 OK", OPEN_METRICS, text),
                Err(error) => ("503 Service Unavailable", PLAIN, format!("{error}\n")),
            }
        }
        (Some("GET"), Some(_)) => ("404 Not Found", PLAIN, "GET /metrics\n".to_owned()),
        (Some("HEAD"), _) => ("200 OK", OPEN_METRICS, String::new()),
        _ => ("405 Method Not Allowed", PLAIN, "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that says `asked` and keeps what it hears.
    struct Client(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for &mut Client {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for &mut Client {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(from);
            Ok(from.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(text: &str) -> String {
        let mut client = Client(io::Cursor::new(text.as_bytes().to_vec()), Vec::new());
        answer(&mut client, &mut || Ok("x 1\n".to_owned())).expect("it is answered or left");
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
        assert_eq!(ask(&"x".repeat(20_000)), "", "too long a question");
    }
}
