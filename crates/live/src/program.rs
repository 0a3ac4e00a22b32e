//! Real programs in a namespace. Each ends with us, however we end.

use crate::kernel::RunSpan;
use crate::netns::Namespace;
use crate::sys::{self, process};
use datapath::units::Instant;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A program that runs, or has run.
#[derive(Debug)]
pub struct Program {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What is known of a program.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// When it began.
    pub started: Option<Instant>,
    /// When it ended by itself.
    pub finished: Option<Instant>,
    /// What it has printed, once it has ended.
    pub output: String,
    /// Why it did not do its work.
    pub failed: Option<String>,
}

/// How a program has ended.
#[derive(Clone, Debug)]
pub struct ProgramExit {
    /// What it has printed, errors too.
    pub output: String,
    /// Why it did not do its work; `None` if it ended with 0, or was stopped at its time.
    pub failed: Option<String>,
}

/// How often it is checked whether a program has ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Starts a program in a namespace at its time, and stops it at its time.
///
/// # Errors
/// No thread can be started.
pub fn run(namespace: &Namespace, words: Vec<String>, span: RunSpan) -> io::Result<Program> {
    let state = Arc::new(Mutex::new(State::default()));
    let shared = Arc::clone(&state);
    let thread = namespace.spawn(move || {
        if let Err(error) = watch(&words, &span, &shared) {
            lock(&shared).failed = Some(format!("{}: {error}", words.join(" ")));
        }
    })?;
    Ok(Program { state, thread: Some(thread) })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(words: &[String], span: &RunSpan, state: &Mutex<State>) -> io::Result<()> {
    let is_over = || span.over.load(Ordering::Relaxed);
    while sys::now() < span.start && !is_over() {
        std::thread::sleep(LOOK.min(std::time::Duration::from_nanos(
            span.start.saturating_since(sys::now()).as_nanos(),
        )));
    }
    let time = || Instant::ZERO + sys::now().saturating_since(span.zero);
    let mut printed = process::memory_file("output")?;
    let mut command = command(words)?;
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(printed.try_clone()?);
    let mut child = process::spawn_to_end_with_us(&mut command)?;
    lock(state).started = Some(time());
    let mut was_stopped = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if is_over() || sys::now() >= span.stop {
            was_stopped = true;
            break end(&mut child)?;
        }
        std::thread::sleep(LOOK);
    };
    let finished = time();
    let output = all_of(&mut printed)?;
    let mut known = lock(state);
    let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    known.failed = (!was_stopped && !status.success())
        .then(|| format!("{}: {status}: {last}", words.join(" ")));
    known.output = output;
    known.finished = Some(finished).filter(|_| !was_stopped);
    Ok(())
}

fn command(words: &[String]) -> io::Result<Command> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Asks a program to end, and insists.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    process::terminate(child);
    for _ in 0..100 {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()
}

fn all_of(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Program {
    /// What is known of it now.
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Its namespace could not be entered.
    pub fn wait(&mut self) -> io::Result<ProgramExit> {
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| io::Error::other("its thread has panicked"))??;
        }
        let State { output, failed, .. } = self.state();
        Ok(ProgramExit { output, failed })
    }
}

/// A program that has the terminal.
#[derive(Debug)]
pub struct Foreground {
    thread: JoinHandle<io::Result<io::Result<ExitStatus>>>,
}

/// Starts a program in a namespace with this process's terminal.
///
/// # Errors
/// No thread can be started.
pub fn in_foreground(namespace: &Namespace, words: Vec<String>) -> io::Result<Foreground> {
    let thread =
        namespace.spawn(move || process::spawn_to_end_with_us(&mut command(&words)?)?.wait())?;
    Ok(Foreground { thread })
}

impl Foreground {
    /// It has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its exit code; 128 and more if a signal has ended it.
    ///
    /// # Errors
    /// It could not be started.
    pub fn code(self) -> io::Result<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        let joined = self.thread.join().map_err(|_| io::Error::other("its thread has panicked"))?;
        let status = joined??;
        Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }
}
