//! What a shell does itself: `test`, `set`, `shift`, `break`, `read`, `let`, and small arithmetic
//! and text programs that scripts use like parts of the language.

use super::exec::ListExit;
use super::{CommandResult, Done, Shell, Status, condition};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::fmt::Write as _;

/// Runs a part of the shell itself; `None` if there is none of that name.
pub(super) fn run(
    shell: &mut Shell,
    name: &str,
    args: &[&str],
    input: &mut String,
    pos: Pos,
    kernel: &mut Kernel,
) -> Done<Option<CommandResult>> {
    let status = |given: Option<&&str>, otherwise: i32| {
        Status(given.and_then(|code| code.parse::<i32>().ok()).unwrap_or(otherwise) & 0xff)
    };
    Ok(Some(match name {
        ":" | "true" | "trap" | "wait" | "ulimit" | "umask" | "cd" | "hash" => {
            CommandResult::success()
        }
        "false" => CommandResult::failed(String::new()),
        "test" => test(shell, args, kernel),
        "[" | "[[" => {
            let close = if name == "[" { "]" } else { "]]" };
            match args.split_last() {
                Some((last, args)) if *last == close => test(shell, args, kernel),
                _ => return Err(Fault::new(pos, format!("no `{close}` follows"), "")),
            }
        }
        "exit" | "return" => {
            let status = status(args.first(), shell.last);
            let leaving = if name == "exit" { ListExit::Exit } else { ListExit::Return };
            shell.leaving = Some(leaving(status));
            CommandResult { status, ..CommandResult::success() }
        }
        "break" | "continue" => {
            let loops = args.first().and_then(|it| it.parse().ok()).unwrap_or(1_u32).max(1);
            let leaving = if name == "break" { ListExit::Break } else { ListExit::Continue };
            shell.leaving = Some(leaving(loops));
            CommandResult::success()
        }
        "set" => {
            set(shell, args);
            CommandResult::success()
        }
        "shift" => {
            let by = args.first().and_then(|it| it.parse().ok()).unwrap_or(1_usize);
            let end = (1 + by).min(shell.arguments.len());
            shell.arguments.drain(1.min(end)..end);
            CommandResult::success()
        }
        "export" | "local" | "readonly" | "declare" | "typeset" => {
            for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
                if let Some((name, value)) = arg.split_once('=') {
                    shell.assign(name, value.to_owned(), pos)?;
                }
            }
            CommandResult::success()
        }
        "unset" => {
            for arg in args {
                shell.variables.remove(*arg);
                shell.functions.remove(*arg);
            }
            CommandResult::success()
        }
        "let" => {
            let mut value = 0;
            for arg in args {
                value = shell.arithmetic_or_fault(arg, 0, pos)?;
            }
            if value == 0 { CommandResult::failed(String::new()) } else { CommandResult::success() }
        }
        "read" => read(shell, args, input, pos)?,
        "eval" => {
            let list = super::words::parse(&args.join(" "), pos)?;
            shell.deeper(pos, |shell| shell.list(&list, input, kernel))?
        }
        _ => return Ok(None),
    }))
}

fn test(shell: &Shell, args: &[&str], kernel: &mut Kernel) -> CommandResult {
    // Whether there is something in each file that a word could name.
    let there: Vec<(String, bool)> = args
        .iter()
        .filter_map(|word| {
            let filled = if word.starts_with('/') {
                !shell.read(word, kernel)?.is_empty()
            } else {
                shell.inside(word)?.metadata().is_ok_and(|file| file.len() > 0)
            };
            Some(((*word).to_owned(), filled))
        })
        .collect();
    let exists =
        |path: &str| there.iter().find(|(known, _)| known == path).map(|(_, filled)| *filled);
    match condition::evaluate(args, &exists) {
        Ok(true) => CommandResult::success(),
        Ok(false) => CommandResult::failed(String::new()),
        Err(what) => CommandResult {
            status: Status(2),
            err: format!("test: {what}\n"),
            ..CommandResult::success()
        },
    }
}

/// `set -e`, `set +e`, `set -- WORDS`; other options change nothing here.
fn set(shell: &mut Shell, args: &[&str]) {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.chars().next(), *arg) {
            (_, "--") => {
                shell.arguments.truncate(1);
                shell.arguments.extend(args.by_ref().map(|it| (*it).to_owned()));
            }
            (Some('-'), "-o") | (Some('+'), "+o") => {
                let errexit = args.next() == Some(&"errexit");
                shell.strict = if errexit { *arg == "-o" } else { shell.strict };
            }
            (Some('-'), letters) if letters.contains('e') => shell.strict = true,
            (Some('+'), letters) if letters.contains('e') => shell.strict = false,
            _ => {}
        }
    }
}

/// `read [-r] NAME…`: a line, word by word; the last name gets the rest.
fn read(shell: &mut Shell, args: &[&str], input: &mut String, pos: Pos) -> Done<CommandResult> {
    if input.is_empty() {
        return Ok(CommandResult::failed(String::new()));
    }
    let (line, rest) = match input.split_once('\n') {
        Some((line, rest)) => (line.to_owned(), rest.to_owned()),
        None => (input.clone(), String::new()),
    };
    *input = rest;
    let names: Vec<&&str> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let mut left = line.trim();
    for (index, name) in names.iter().enumerate() {
        let value = if index + 1 == names.len() {
            core::mem::take(&mut left)
        } else {
            let (word, behind) = left.split_once([' ', '\t']).unwrap_or((left, ""));
            left = behind.trim_start();
            word
        };
        shell.assign(name, value.to_owned(), pos)?;
    }
    Ok(CommandResult::success())
}

/// `seq LAST`, `seq FIRST LAST`, `seq FIRST STEP LAST`.
pub(super) fn seq(args: &[&str], pos: Pos) -> Done<CommandResult> {
    let numbers: Option<Vec<i64>> = args.iter().map(|arg| arg.parse().ok()).collect();
    let (first, step, last) = match numbers.as_deref() {
        Some([last]) => (1, 1, *last),
        Some([first, last]) => (*first, 1, *last),
        Some([first, step, last]) if *step != 0 => (*first, *step, *last),
        _ => {
            let what = format!("`seq {}`", args.join(" "));
            return Err(Fault::new(pos, what, "write seq [FIRST [STEP]] LAST"));
        }
    };
    let mut out = String::new();
    let mut at = first;
    while if step > 0 { at <= last } else { at >= last } {
        if out.len() > MAX_SEQ {
            return Err(Fault::new(pos, "a sequence of more than 64 KiB", ""));
        }
        let _ = writeln!(out, "{at}");
        at = at.saturating_add(step);
    }
    Ok(CommandResult::ok(out))
}

const MAX_SEQ: usize = 1 << 16;

pub(super) fn basename(args: &[&str]) -> CommandResult {
    let path = args.first().copied().unwrap_or_default().trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = args.get(1).and_then(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    CommandResult::ok(format!("{name}\n"))
}

pub(super) fn dirname(args: &[&str]) -> CommandResult {
    let path = args.first().copied().unwrap_or_default().trim_end_matches('/');
    let folder = match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    };
    CommandResult::ok(format!("{folder}\n"))
}

/// `uname [-r]`: the kernel whose behaviour the stack has.
pub(super) fn uname(args: &[&str]) -> CommandResult {
    CommandResult::ok(if args.contains(&"-r") { "7.3.0\n" } else { "Linux\n" }.to_owned())
}

impl Shell {
    /// `expr A + B`: as `$((…))`.
    pub(super) fn expr(&mut self, args: &[&str]) -> CommandResult {
        match self.arithmetic_or_fault(&args.join(" "), 0, Pos::default()) {
            Ok(value) => {
                let status = if value == 0 { Status::FAILURE } else { Status::SUCCESS };
                CommandResult { status, out: format!("{value}\n"), err: String::new() }
            }
            Err(_) => CommandResult {
                status: Status(2),
                err: "expr: syntax error\n".to_owned(),
                ..CommandResult::success()
            },
        }
    }
}
