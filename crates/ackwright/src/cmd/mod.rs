//! The subcommands, one file each.

pub mod ackfilter;
pub mod bench;
pub mod check;
#[cfg(target_os = "linux")]
pub mod ctl;
pub mod drill;
pub mod ecmp;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod generate;
pub mod ip;
#[cfg(target_os = "linux")]
pub mod iperf;
#[cfg(target_os = "linux")]
pub mod proxy;
pub mod replay;
pub mod reproduce;
#[cfg(target_os = "linux")]
pub mod route;
pub mod run;
#[cfg(target_os = "linux")]
mod running;
#[cfg(target_os = "linux")]
pub mod service;
#[cfg(target_os = "linux")]
pub mod shape;
#[cfg(target_os = "linux")]
pub mod shell;
#[cfg(target_os = "linux")]
mod stack;
pub mod swarm;
pub mod tc;
#[cfg(target_os = "linux")]
pub mod top;
pub mod vectors;
pub mod view;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use lab::output::Output;
use lab::store::{self, Store};

use lab::plan::{Error as PlanError, clipped};
use owo_colors::OwoColorize as _;

use crate::interrupt;

/// The most that `--jobs` may ask for: each is a thread.
pub const JOBS_MAX: i64 = 1024;

/// What a command ends with.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a command failed.
pub enum Failure {
    /// The user's file or arguments are wrong: exit code 2.
    Usage(String),
    /// Something else went wrong: exit code 1.
    Other(String),
    /// A signal: exit code 130 for Ctrl-C, 143 for SIGTERM.
    Interrupted(String),
    /// The reader of our output has gone (EPIPE): no message, and success, as for any filter.
    ClosedOutput,
}

impl Failure {
    /// Prints the message and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::Usage(message) => (message, ExitCode::from(2)),
            Self::Other(message) => (message, ExitCode::FAILURE),
            Self::Interrupted(message) => (message, interrupt::exit_code()),
            Self::ClosedOutput => return ExitCode::SUCCESS,
        };
        let message = presentable(&message);
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if colour {
            stderr_line!("{}: {message}", "error".red());
        } else {
            stderr_line!("error: {message}");
        }
        code
    }
}

/// A message holds words of the user's, which may be long, and bytes that a terminal would obey.
fn presentable(message: &str) -> String {
    let plain = |c: char| if c.is_control() { c.escape_default().collect() } else { c.to_string() };
    let lines = message.lines().map(|line| line.chars().map(plain).collect::<String>());
    let lines: Vec<String> = lines.map(|line| clipped(&line, LINE_MAX).into_owned()).collect();
    lines.join("\n")
}

/// Characters of a line of a message.
const LINE_MAX: usize = 1000;

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        if error.is_refusal() {
            return Self::Usage(error.to_string());
        }
        match (error.path.to_str(), error.problem.kind()) {
            (Some(store::STANDARD_OUTPUT), _) => error.problem.into(),
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedOutput,
            _ => Self::Other(format!("cannot write to standard output: {error}")),
        }
    }
}

/// Prints to standard output; a closed pipe ends the program quietly.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Reads a text file of the user's.
pub fn read_text(file: &Path) -> Result<String, Failure> {
    lab::input::read_text(file)
        .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

/// Refuses to write over what is read: after the first byte there would be nothing to read.
pub fn refuse_overwriting(output: &Path, inputs: &[&Path]) -> Result<(), Failure> {
    match inputs.iter().find(|input| store::same_file(output, input)) {
        None => Ok(()),
        Some(input) => {
            let (output, input) = (output.display(), input.display());
            Err(Failure::Usage(format!("{output} would overwrite {input}, which is read")))
        }
    }
}

/// Refuses a file of `option` on standard output, where what is printed would be in the midst of it.
pub fn refuse_output(option: &str, file: &Path) -> Result<(), Failure> {
    if file.as_os_str() != store::STANDARD_OUTPUT {
        return Ok(());
    }
    let why = "the results are printed there; name a file (./- for one called -)";
    Err(Failure::Usage(format!("{option} -: cannot write to standard output: {why}")))
}

/// A folder is to be made, or written to, where something else lies, or on the way there: a file, or a link
/// that leads nowhere.
pub fn refuse_file(directory: &Path) -> Result<(), Failure> {
    let there = directory.ancestors().find(|path| path.symlink_metadata().is_ok());
    let Some(file) = there.filter(|there| !there.is_dir()) else { return Ok(()) };
    let name = file.display();
    Err(Failure::Usage(format!("{name} is not a directory; choose another one for the output")))
}

/// The program, as its results name it: others may come to other figures.
pub const PROGRAM: &str =
    concat!("ackwright ", env!("CARGO_PKG_VERSION"), " ", env!("ACKWRIGHT_COMMIT"));

/// Directories that this process writes results to; each is locked until it ends.
static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Makes `directory` and keeps other processes from writing results there as well: files of both
/// would lie side by side. Where nothing can be locked, as on some network file systems, nothing
/// prevents that.
pub fn lock_directory(directory: &Path) -> Result<(), Failure> {
    refuse_file(directory)?;
    Store::create(directory)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(file) = File::open(directory) else { return Ok(()) };
    if held.contains_key(directory) {
        return Ok(());
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Failure::Usage(format!(
            "{} is being written by another run; choose another directory, or wait until that \
             run has ended",
            directory.display()
        ))),
        Err(TryLockError::Error(_)) => Ok(()),
        Ok(()) => {
            held.insert(directory.into(), file);
            Ok(())
        }
    }
}

/// Results go to `directory`, in place of those of an earlier run there.
pub fn results(directory: &Path) -> Result<Output, Failure> {
    lock_directory(directory)?;
    let (store, removed) = Store::results(directory, PROGRAM)?;
    if removed > 0 {
        let directory = directory.display();
        stderr_line!("note: replacing {removed} files of an earlier run in {directory}");
    }
    Ok(Output::new(store))
}

/// Results may go to `directory` later; until then those of an earlier run stay there.
pub fn check_results(directory: &Path) -> Result<(), Failure> {
    lock_directory(directory)?;
    Ok(Store::check_results(directory)?)
}

/// Prints JSON, indented for a person and compact for a program.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() };
    print(&text)
}
