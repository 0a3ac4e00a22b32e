//! What a capture is read from: a file, or a pipe, whose writer may say nothing for long or not be there at all.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// A capture's bytes.
pub enum Input<'a> {
    /// What is there can be read at once.
    File(File),
    /// It may have to be waited for.
    Pipe(Pipe<'a>),
}

/// A pipe that another thread opens and reads: that waits as long as the writer pleases, and this one listens
/// meanwhile whether to stop.
pub struct Pipe<'a> {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
    stop: &'a AtomicBool,
}

/// How long a stop may remain unheard.
const UNHEARD: Duration = Duration::from_millis(50);
/// Bytes that are read at once, and pieces that may lie between the threads.
const PIECE: usize = 1 << 16;
const PIECES: usize = 4;

impl<'a> Input<'a> {
    /// Opens a capture. A pipe counts as opened at once.
    ///
    /// # Errors
    /// There is none, or it may not be read.
    pub fn open(path: &Path, stop: &'a AtomicBool) -> io::Result<(Self, fs::Metadata)> {
        let metadata = fs::metadata(path)?;
        let kind = metadata.file_type();
        if !kind.is_fifo() && !kind.is_char_device() {
            return Ok((Self::File(File::open(path)?), metadata));
        }
        let (to, pieces) = sync_channel(PIECES);
        let path = path.to_owned();
        // Where it never ends, the program's end ends it.
        thread::Builder::new().spawn(move || read_all(&path, &to))?;
        Ok((Self::Pipe(Pipe { pieces, piece: io::Cursor::default(), stop }), metadata))
    }
}

/// Sends all packets of a file, until the receiver has gone.
fn read_all(path: &PathBuf, to: &SyncSender<io::Result<Vec<u8>>>) {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return drop(to.send(Err(error))),
    };
    loop {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece).map(|len| {
            piece.truncate(len);
            piece
        });
        let is_last = read.as_ref().map_or(true, Vec::is_empty);
        if to.send(read).is_err() || is_last {
            return;
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(to),
            Self::Pipe(pipe) => pipe.read(to),
        }
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.position() == self.piece.get_ref().len() as u64 {
            match self.pieces.recv_timeout(UNHEARD) {
                Ok(piece) => {
                    self.piece = io::Cursor::new(piece?);
                    if self.piece.get_ref().is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    return Err(io::Error::other("stopped"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        self.piece.read(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;

    fn pipe(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ackwright-{name}-{}", std::process::id()));
        let _old = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().expect("there is mkfifo").success());
        path
    }

    #[test]
    fn a_read_from_a_silent_pipe_can_be_interrupted() {
        let path = pipe("silent");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (mut input, _) = Input::open(&path, &stop).expect("it is there");
            let reading = scope.spawn(move || input.read(&mut [0; 8]).map_err(|it| it.to_string()));
            thread::sleep(2 * UNHEARD);
            assert!(!reading.is_finished());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(reading.join().expect("no panic"), Err("stopped".to_owned()));
        });
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let path = pipe("read");
        let written: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (mut input, _) = Input::open(&path, &stop).expect("it is there");
            scope.spawn(|| {
                let mut file = File::create(&path).expect("somebody reads");
                file.write_all(&written).expect("all of it is read");
            });
            let mut read = Vec::new();
            input.read_to_end(&mut read).expect("it is not stopped");
            assert!(read == written);
        });
        fs::remove_file(&path).expect("it is there");
    }
}
