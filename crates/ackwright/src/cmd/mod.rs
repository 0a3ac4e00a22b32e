//! The subcommands, one file each.

pub mod ackfilter;
pub mod bench;
pub mod check;
pub mod drill;
pub mod ecmp;
pub mod ip;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod swarm;
pub mod tc;
pub mod vectors;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use lab::plan::Error as PlanError;
use owo_colors::OwoColorize as _;

/// What a command ends with.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a command failed.
pub enum Failure {
    /// The user's file or arguments are wrong: exit code 2.
    Usage(String),
    /// Something else went wrong: exit code 1.
    Other(String),
    /// Ctrl-C: exit code 130.
    Interrupted(String),
    /// Whoever reads our output has gone: no message, and success, as for any filter.
    ClosedOutput,
}

impl Failure {
    /// Prints the message and gives the exit code.
    pub fn tell(self) -> ExitCode {
        let (message, code) = match self {
            Self::Usage(message) => (message, 2),
            Self::Other(message) => (message, 1),
            Self::Interrupted(message) => (message, 130),
            Self::ClosedOutput => return ExitCode::SUCCESS,
        };
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if colour {
            eprintln!("{}: {message}", "error".red());
        } else {
            eprintln!("error: {message}");
        }
        ExitCode::from(code)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<lab::store::Error> for Failure {
    fn from(error: lab::store::Error) -> Self {
        Self::Other(error.to_string())
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

/// Prints JSON, indented for a person and compact for a program.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() };
    print(&text)
}
