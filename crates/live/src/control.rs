//! The socket by which commands come at run time: one line asks, what is answered begins with a line
//! `0`, or `2` if the command was wrong, and ends with the connection.
//!
//! Nothing here waits: a client that sends nothing holds a place until others need it, one that does not
//! read loses its answer.

use crate::sys::Epoll;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// So many clients at a time; the longest command.
const CLIENTS: usize = 16;
const LONGEST: usize = 64 << 10;
/// Who asks waits so long for each piece of the answer: a program that is stopped (SIGSTOP) never gives one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tokens of an `Epoll` from here on belong to this module: the listener, then a client each.
pub const TOKENS: u64 = 16;

/// The listening socket, and the connected clients.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    inside: Option<(Receiver<UnixStream>, UnixStream)>,
    clients: [Option<Client>; CLIENTS],
    /// Where the next client goes if all places are taken.
    next: usize,
}

/// A handle for threads of this process, which may have given up the right to open the socket's file.
#[derive(Debug)]
pub struct ControlHandle {
    door: Sender<UnixStream>,
    bell: UnixStream,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
    /// What is left of the answer.
    answer: VecDeque<u8>,
    gone: bool,
}

impl Control {
    /// Listens at `path`, for its owner only. What a process that is gone has left there is removed.
    ///
    /// # Errors
    /// Somebody listens there, or it is a file of another kind (`EADDRINUSE`), or the file cannot be made.
    pub fn listen(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let bind = || UnixListener::bind(path);
        let listener = match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_over(path) => {
                fs::remove_file(path)?;
                bind()?
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let listens = UnixStream::connect(path).is_ok();
                let why = if listens {
                    "another program listens there; if it is ackwright, `ackwright ctl --ctl \
                     PATH stop` ends it"
                } else {
                    "the file there is not a socket of ackwright; choose another path"
                };
                return Err(io::Error::new(ErrorKind::AddrInUse, why));
            }
            other => other?,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let clients = [const { None }; CLIENTS];
        Ok(Self { listener, path: path.to_owned(), inside: None, clients, next: 0 })
    }

    /// Lets threads of this process ask without the file; before [`register`](Self::register).
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn inside(&mut self) -> io::Result<ControlHandle> {
        let (bell, rings) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        let (door, comes) = channel();
        self.inside = Some((comes, rings));
        Ok(ControlHandle { door, bell })
    }

    /// Waits for clients as well.
    pub fn register(&self, epoll: &Epoll) -> io::Result<()> {
        if let Some((_, rings)) = &self.inside {
            epoll.add(rings.as_fd(), TOKENS, Epoll::READ)?;
        }
        epoll.add(self.listener.as_fd(), TOKENS, Epoll::READ)
    }

    /// Something has happened by `token`: a whole command, if there is one, to be answered by
    /// [`reply`](Self::reply) with the same token.
    pub fn request(&mut self, token: u64, epoll: &Epoll) -> Option<String> {
        let Some(index) = token.checked_sub(TOKENS + 1) else {
            self.accept(epoll);
            return None;
        };
        let place = self.clients.get_mut(index as usize)?;
        let client = place.as_mut()?;
        if !client.answer.is_empty() {
            if client.send_answer() {
                *place = None;
            }
            return None;
        }
        let command = client.command();
        if command.is_none() && (client.gone || client.said.len() >= LONGEST) {
            *place = None;
        }
        command
    }

    /// Answers: whether the command was right, and what is to be printed. The connection ends, once the client has read
    /// what its buffer does not hold.
    pub fn reply(&mut self, token: u64, right: bool, text: &str, epoll: &Epoll) {
        let Some(index) = token.checked_sub(TOKENS + 1) else { return };
        let place = &mut self.clients[index as usize];
        let Some(client) = place else { return };
        let head = if right { "0\n" } else { "2\n" };
        client.answer = format!("{head}{text}").into_bytes().into();
        let is_over = client.send_answer();
        if is_over || epoll.change(client.stream.as_fd(), token, Epoll::WRITE).is_err() {
            *place = None;
        }
    }

    fn accept(&mut self, epoll: &Epoll) {
        if let Some((comes, rings)) = &mut self.inside {
            // One ring for each who comes; two that ring together are heard together.
            let _none_rings = rings.read(&mut [0; CLIENTS]);
            for stream in comes.try_iter().collect::<Vec<_>>() {
                self.admit(stream, epoll);
            }
        }
        if let Ok((stream, _)) = self.listener.accept() {
            self.admit(stream, epoll);
        }
    }

    fn admit(&mut self, stream: UnixStream, epoll: &Epoll) {
        let free = self.clients.iter().position(Option::is_none);
        // Nobody keeps others out by saying nothing: those who came first have to go.
        let index = free.unwrap_or(self.next);
        self.next = (index + 1) % CLIENTS;
        self.clients[index] = None;
        let token = TOKENS + 1 + index as u64;
        let ready = stream.set_nonblocking(true);
        if ready.and_then(|()| epoll.add(stream.as_fd(), token, Epoll::READ)).is_ok() {
            self.clients[index] =
                Some(Client { stream, said: Vec::new(), answer: VecDeque::new(), gone: false });
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Sends what the buffer takes of the answer; true if that was all, or the client has gone.
    fn send_answer(&mut self) -> bool {
        while !self.answer.is_empty() {
            match self.stream.write(self.answer.as_slices().0) {
                Ok(len) => drop(self.answer.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// The command, once its line has ended.
    fn command(&mut self) -> Option<String> {
        let mut piece = [0; 4_096];
        while self.said.len() < LONGEST {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.gone = true;
                    break;
                }
                Ok(len) => self.said.extend_from_slice(&piece[..len]),
            }
        }
        let end = self.said.iter().position(|byte| *byte == b'\n')?;
        Some(String::from_utf8_lossy(&self.said[..end]).trim().to_owned())
    }
}

/// Whether a process listens on the socket at `path`, as far as can be known without permission to
/// connect.
pub fn is_running(path: &Path) -> bool {
    !is_left_over(path)
}

/// Whether it is a stale socket file, on which no process listens. Other files refuse a connection
/// as well.
fn is_left_over(path: &Path) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return false;
    }
    let refused = UnixStream::connect(path);
    matches!(refused, Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

/// Sends `command` to the process that listens on `path`; returns whether it succeeded, and the
/// answer.
///
/// # Errors
/// Nobody listens there, or it goes away in between.
pub fn request(path: &Path, command: &str) -> io::Result<(bool, String)> {
    request_over(UnixStream::connect(path)?, command)
}

impl ControlHandle {
    /// As [`request`].
    ///
    /// # Errors
    /// Nobody listens any more.
    pub fn request(&self, command: &str) -> io::Result<(bool, String)> {
        let (ours, theirs) = UnixStream::pair()?;
        let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
        self.door.send(theirs).map_err(gone)?;
        { &self.bell }.write_all(&[0])?;
        request_over(ours, command)
    }
}

fn request_over(stream: UnixStream, command: &str) -> io::Result<(bool, String)> {
    request_within(PATIENCE, stream, command)
}

fn request_within(
    patience: Duration,
    mut stream: UnixStream,
    command: &str,
) -> io::Result<(bool, String)> {
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("{}\n", command.replace('\n', " ")).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            let why = format!("no answer within {patience:?}: the program may be suspended");
            io::Error::new(ErrorKind::TimedOut, why)
        }
        _ => error,
    })?;
    match answer.split_once('\n') {
        Some((head @ ("0" | "2"), text)) => Ok((head == "0", text.to_owned())),
        _ => Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "no answer: the program has probably ended",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a place of its own.
    fn listening(name: &str) -> (PathBuf, Control, Epoll) {
        let path = std::env::temp_dir().join(format!("ackwright-{name}-{}", std::process::id()));
        let control = Control::listen(&path).unwrap();
        let epoll = Epoll::new().unwrap();
        control.register(&epoll).unwrap();
        (path, control, epoll)
    }

    /// Answers what has been asked, once something has happened or (`poll`) at once; how many that were.
    fn answer(
        control: &mut Control,
        epoll: &mut Epoll,
        poll: bool,
        text: impl Fn(&str) -> String,
    ) -> usize {
        let tokens: Vec<u64> = epoll.wait(poll).unwrap().map(|(token, _)| token).collect();
        let mut answered = 0;
        for token in tokens {
            if let Some(command) = control.request(token, epoll) {
                control.reply(token, true, &text(&command), epoll);
                answered += 1;
            }
        }
        answered
    }

    #[test]
    fn a_command_is_answered_and_a_left_over_socket_replaced() {
        let folder = std::env::temp_dir().join(format!("ackwright-control-{}", std::process::id()));
        let path = folder.join("socket");
        fs::create_dir_all(&folder).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(!is_running(&path));
        let mut control = Control::listen(&path).unwrap();
        assert!(is_running(&path));
        let refused = Control::listen(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("another program listens there"), "{refused}");
        let inside = control.inside().unwrap();
        let mut epoll = Epoll::new().unwrap();
        control.register(&epoll).unwrap();
        let asked = path.clone();
        let asking = std::thread::spawn(move || request(&asked, "say\nit").unwrap());
        let asking_inside = std::thread::spawn(move || inside.request("say it").unwrap());
        let mut answered = 0;
        while answered < 2 {
            answered += answer(&mut control, &mut epoll, false, |command| {
                assert_eq!(command, "say it");
                format!("{command}!")
            });
        }
        for asking in [asking, asking_inside] {
            assert_eq!(asking.join().unwrap(), (true, "say it!".to_owned()));
        }
        drop(control);
        assert!(!path.exists());
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let path = std::env::temp_dir().join(format!("ackwright-file-{}", std::process::id()));
        fs::write(&path, "precious").unwrap();
        let refused = Control::listen(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("not a socket of ackwright"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_request_to_a_suspended_program_times_out_with_an_explanation() {
        let (path, _control, _epoll) = listening("stopped");
        let stream = UnixStream::connect(&path).unwrap();
        let unanswered = request_within(Duration::from_millis(50), stream, "show").unwrap_err();
        assert_eq!(unanswered.kind(), ErrorKind::TimedOut);
        assert!(unanswered.to_string().contains("the program may be suspended"), "{unanswered}");
    }

    #[test]
    fn silent_clients_keep_nobody_out() {
        let (path, mut control, mut epoll) = listening("silent");
        let mut silent = Vec::new();
        for _ in 0..3 * CLIENTS {
            silent.push(UnixStream::connect(&path).unwrap());
            assert_eq!(control.request(TOKENS, &epoll), None);
        }
        let asking = std::thread::spawn(move || request(&path, "say it"));
        while answer(&mut control, &mut epoll, false, |_| "it".to_owned()) == 0 {}
        assert_eq!(asking.join().unwrap().unwrap(), (true, "it".to_owned()));
    }

    #[test]
    fn an_answer_that_the_buffer_does_not_hold_is_whole() {
        let (path, mut control, mut epoll) = listening("long");
        let long = "0123456789".repeat(200_000);
        let asking = std::thread::spawn(move || request(&path, "say it"));
        while !asking.is_finished() {
            answer(&mut control, &mut epoll, true, |_| long.clone());
        }
        assert_eq!(asking.join().unwrap().unwrap(), (true, long));
    }
}
