//! Back-ticks: shell commands interpreted against the virtual host.
//!
//! Nothing is handed to a shell and nothing runs on the machine. The language is that of a shell
//! script: lists, pipelines, redirections, variables, `$((…))`, `$(…)`, `if`, `for`, `while`,
//! `case`, functions. The commands are those that suites use: `sysctl`, `set_sysctls.py`, `ip`, `tc`,
//! `ethtool`, `nstat`, `grep`, `cat`, `echo`, `test`, `dd` and a few more. The only files ever read
//! are shell scripts below the folder that was handed to the runner; all others are virtual.
//!
//! | file | what it holds |
//! |---|---|
//! | `syntax`, `words`, `lists` | a text as a tree |
//! | `exec` | lists, pipelines, redirections, `if` and its like |
//! | `expand`, `arith`, `glob`, `condition` | `$…`, `$((…))`, patterns, `[ … ]` |
//! | `command`, `builtin`, `text`, `network` | commands by name |
//! | `lookup` | virtual files |

mod arith;
mod builtin;
mod command;
mod condition;
mod exec;
mod expand;
mod glob;
mod lists;
mod lookup;
mod network;
mod pattern;
mod syntax;
mod text;
mod words;

pub use words::MAX_TEXT;

use crate::ast::Command;
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use exec::ListExit;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use syntax::List;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    /// 0.
    pub const SUCCESS: Self = Self(0);
    /// 1.
    pub const FAILURE: Self = Self(1);

    /// Whether `&&` goes on.
    pub const fn ok(self) -> bool {
        self.0 == 0
    }
}

/// What commands leave behind.
#[derive(Debug, Default)]
pub struct Shell {
    /// The folder of the script.
    folder: PathBuf,
    /// Files below it may be read; nothing else.
    root: PathBuf,
    /// Virtual files: their content, or only their length.
    files: BTreeMap<String, File>,
    variables: BTreeMap<String, String>,
    functions: BTreeMap<String, Arc<List>>,
    /// `$0`, `$1`, …
    arguments: Vec<String>,
    /// `$?`.
    last: i32,
    /// How many `$(…)` have run.
    outputs: u64,
    /// `set -e`: a command that fails ends the script.
    strict: bool,
    /// How deep scripts and functions call each other.
    depth: u32,
    /// What went to standard output and error of whole commands, for `-v`.
    pub printed: String,
    /// Virtual files that the application may open, new since they were last taken.
    new_files: Vec<(String, Option<u64>)>,
    /// The list at work is being left.
    leaving: Option<ListExit>,
    steps: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum File {
    Text(String),
    Bytes(u64),
}

/// What one command printed, and its status.
struct CommandResult {
    status: Status,
    out: String,
    err: String,
}

impl CommandResult {
    const fn ok(out: String) -> Self {
        Self { status: Status::SUCCESS, out, err: String::new() }
    }

    const fn failed(err: String) -> Self {
        Self { status: Status::FAILURE, out: String::new(), err }
    }

    const fn success() -> Self {
        Self::ok(String::new())
    }
}

type Done<T> = Result<T, Fault>;

impl Shell {
    /// A shell for a script in `folder`. Files at and below `root` may be read.
    pub fn new(folder: PathBuf, root: PathBuf) -> Self {
        Self { folder, root, ..Self::default() }
    }

    /// Runs what stands in back-ticks; the status is that of the last command.
    ///
    /// # Errors
    /// What is wrong with it, or is not interpreted.
    pub fn run(&mut self, command: &Command, kernel: &mut Kernel) -> Done<Status> {
        self.reset_flow();
        let list = words::parse(&command.text, command.pos)?;
        let ran = self.list(&list, &mut String::new(), kernel)?;
        self.print(&ran.out);
        self.print(&ran.err);
        Ok(ran.status)
    }

    /// Runs a script file below the folder of the run.
    ///
    /// # Errors
    /// There is no such file there; what is wrong with it, or is not interpreted.
    pub fn run_file(&mut self, path: &str, pos: Pos, kernel: &mut Kernel) -> Done<Status> {
        self.reset_flow();
        let ran = self.script(path, &[], &mut String::new(), pos, kernel)?;
        self.print(&ran.out);
        self.print(&ran.err);
        Ok(ran.status)
    }

    /// What every text begins with, whatever the one before has left.
    fn reset_flow(&mut self) {
        (self.strict, self.leaving, self.depth) = (false, None, 0);
        self.arguments = vec!["sh".to_owned()];
    }

    fn print(&mut self, text: &str) {
        if self.printed.len() < MAX_TEXT {
            self.printed.push_str(text);
        }
    }

    /// Virtual files that have come (with their length) or gone since this was last asked.
    pub fn take_new_files(&mut self) -> Vec<(String, Option<u64>)> {
        core::mem::take(&mut self.new_files)
    }

    fn outside(path: &str, pos: Pos) -> Fault {
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            return Fault::no_meaning(pos, format!("`{path}` is not modelled"));
        }
        let what = format!("`{path}` is not a file of this script");
        let fix = "scripts may use virtual files below /tmp, /proc/sys, /proc/net and /sys";
        Fault::new(pos, what, fix)
    }
}

#[cfg(test)]
mod tests;
