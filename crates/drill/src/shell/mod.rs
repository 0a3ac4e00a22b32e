//! Back-ticks: shell commands interpreted against the virtual host.
//!
//! Nothing is handed to a shell and nothing runs on the machine. The words are those that suites
//! use: `sysctl`, `set_sysctls.py`, `defaults.sh`, `ip`, `tc`, `ethtool`, `nstat`, `grep`, `cat`,
//! `echo`, `dd`, `rm` and a few more, joined by `;`, `&&`, `||`, `|`, with redirections, variables
//! and `$((…))`. The only files ever read are a `defaults.sh` in the folder that was handed to the
//! runner; all others are virtual.

mod arith;
mod command;
mod lookup;
mod network;
mod pattern;
mod words;

pub use words::MAX_TEXT;

use crate::ast::Command;
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::collections::BTreeMap;
use std::path::PathBuf;
use words::{Join, Redirect, Simple, Target, split};

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
    /// How deep scripts call scripts.
    depth: u32,
    /// What went to standard output and error of whole commands, for `-v`.
    pub printed: String,
    /// Virtual files that the application may open, new since they were last taken.
    new_files: Vec<(String, Option<u64>)>,
    exited: Option<Status>,
    steps: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum File {
    Text(String),
    Bytes(u64),
}

/// What one command printed, and its status.
struct Ran {
    status: Status,
    out: String,
    err: String,
}

impl Ran {
    const fn ok(out: String) -> Self {
        Self { status: Status::SUCCESS, out, err: String::new() }
    }

    const fn failed(err: String) -> Self {
        Self { status: Status::FAILURE, out: String::new(), err }
    }

    const fn quiet() -> Self {
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
    pub fn run(&mut self, command: &Command, kernel: &mut Kernel) -> Done<Status> {
        self.exited = None;
        self.text(&command.text, command.pos, kernel)
    }

    /// Virtual files that have come (with their length) or gone since this was last asked.
    pub fn take_new_files(&mut self) -> Vec<(String, Option<u64>)> {
        core::mem::take(&mut self.new_files)
    }

    fn text(&mut self, text: &str, pos: Pos, kernel: &mut Kernel) -> Done<Status> {
        let mut status = Status::SUCCESS;
        let mut skip = false;
        for pipeline in split(text, pos)? {
            if !skip {
                status = self.pipeline(&pipeline.commands, kernel)?;
                if let Some(exit) = self.exited {
                    return Ok(exit);
                }
            }
            skip = match pipeline.join {
                Join::Next => false,
                Join::And => !status.ok(),
                Join::Or => status.ok(),
            };
        }
        Ok(status)
    }

    fn pipeline(&mut self, commands: &[Simple], kernel: &mut Kernel) -> Done<Status> {
        let mut input = String::new();
        let mut status = Status::SUCCESS;
        for (index, simple) in commands.iter().enumerate() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                let what = format!("more than {MAX_STEPS} shell commands");
                return Err(Fault::new(simple.pos, what, ""));
            }
            let mut words = Vec::new();
            for word in &simple.words {
                let expanded = self.expand(word, simple.pos)?;
                if word.quoted {
                    words.push(expanded);
                } else {
                    words.extend(expanded.split_whitespace().map(str::to_owned));
                }
            }
            if let Some(text) = self.input_of(&simple.redirects, simple.pos)? {
                input = text;
            }
            let ran = self.command(&words, &input, simple.pos, kernel)?;
            status = ran.status;
            let out = self.redirect(ran, &simple.redirects, simple.pos, kernel)?;
            if index + 1 == commands.len() {
                if self.printed.len() < MAX_TEXT {
                    self.printed.push_str(&out);
                }
            } else {
                input = out;
            }
        }
        Ok(status)
    }

    fn input_of(&self, redirects: &[Redirect], pos: Pos) -> Done<Option<String>> {
        for redirect in redirects {
            if let Target::Input(word) = &redirect.target {
                let path = self.expand(word, pos)?;
                return match self.files.get(&path) {
                    Some(File::Text(text)) => Ok(Some(text.clone())),
                    _ => Err(Self::outside(&path, pos)),
                };
            }
        }
        Ok(None)
    }

    /// Sends output where the redirections say; what is left goes on to the next command.
    fn redirect(
        &mut self,
        ran: Ran,
        redirects: &[Redirect],
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<String> {
        let Ran { mut out, mut err, .. } = ran;
        // Where the two streams go; `None`: on to the next command.
        let (mut out_to, mut err_to): (Option<String>, Option<String>) = (None, None);
        let mut err_follows = false;
        for redirect in redirects {
            match &redirect.target {
                Target::Input(_) => {}
                Target::Duplicate => {
                    err_follows = out_to.is_none();
                    err_to.clone_from(&out_to);
                }
                Target::Output { word, append: _ } => {
                    let path = self.expand(word, pos)?;
                    match redirect.stream {
                        1 => out_to = Some(path),
                        2 => {
                            err_to = Some(path);
                            err_follows = false;
                        }
                        _ => {
                            out_to = Some(path.clone());
                            err_to = Some(path);
                        }
                    }
                }
            }
        }
        if let Some(path) = err_to {
            self.write(&path, &core::mem::take(&mut err), pos, kernel)?;
        } else if err_follows {
            out.push_str(&core::mem::take(&mut err));
        } else if self.printed.len() < MAX_TEXT {
            self.printed.push_str(&err);
        }
        if let Some(path) = out_to {
            self.write(&path, &core::mem::take(&mut out), pos, kernel)?;
        }
        Ok(out)
    }

    /// Writes a virtual file, or a setting by its file.
    fn write(&mut self, path: &str, text: &str, pos: Pos, kernel: &mut Kernel) -> Done<()> {
        if path == "/dev/null" || path == "/dev/stdout" || path == "/dev/stderr" {
            return Ok(());
        }
        if path.starts_with("/proc/sys/") || path.starts_with("/sys/") {
            return network::set(kernel, path, text, pos).map(|_| ());
        }
        if !path.starts_with("/tmp/") {
            return Err(Self::outside(path, pos));
        }
        self.new_files.push((path.to_owned(), Some(text.len() as u64)));
        self.files.insert(path.to_owned(), File::Text(text.to_owned()));
        Ok(())
    }

    fn outside(path: &str, pos: Pos) -> Fault {
        let what = format!("`{path}` is not a file of this script");
        let fix = "scripts may use virtual files below /tmp, /proc/sys, /proc/net and /sys";
        Fault::new(pos, what, fix)
    }
}

/// Commands of one script together.
const MAX_STEPS: u32 = 10_000;

#[cfg(test)]
mod tests;
