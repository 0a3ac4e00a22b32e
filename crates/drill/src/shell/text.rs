//! Commands about texts and files: `grep`, `cat`, `echo`, `dd` and their like.

use super::pattern::Pattern;
use super::{CommandResult, Done, File, Shell, Status};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::fmt::Write as _;

impl Shell {
    pub(super) fn grep(
        &self,
        name: &str,
        args: &[&str],
        input: &str,
        kernel: &mut Kernel,
    ) -> CommandResult {
        let (mut quiet, mut count, mut invert, mut extended) =
            (false, false, false, name == "egrep");
        let mut words = Vec::new();
        for arg in args {
            match arg.strip_prefix('-') {
                Some(letters) if !letters.is_empty() && words.is_empty() => {
                    for letter in letters.chars() {
                        match letter {
                            'q' => quiet = true,
                            'c' => count = true,
                            'v' => invert = true,
                            'E' => extended = true,
                            _ => {}
                        }
                    }
                }
                _ => words.push(*arg),
            }
        }
        let Some((pattern, files)) = words.split_first() else {
            return CommandResult::failed("grep: no pattern\n".to_owned());
        };
        let pattern = Pattern::new(pattern, extended);
        let mut found = Vec::new();
        if files.is_empty() {
            found.extend(
                input.lines().filter(|it| pattern.matches(it) != invert).map(str::to_owned),
            );
        }
        for file in files {
            let Some(text) = self.read(file, kernel) else { continue };
            for line in text.lines().filter(|it| pattern.matches(it) != invert) {
                found.push(if files.len() > 1 {
                    format!("{file}:{line}")
                } else {
                    line.to_owned()
                });
            }
        }
        let out = if quiet {
            String::new()
        } else if count {
            format!("{}\n", found.len())
        } else {
            found.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
        };
        let status = if found.is_empty() { Status::FAILURE } else { Status::SUCCESS };
        CommandResult { status, out, err: String::new() }
    }

    pub(super) fn cat(
        &self,
        args: &[&str],
        input: &str,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        if args.is_empty() {
            return Ok(CommandResult::ok(input.to_owned()));
        }
        let mut out = String::new();
        for path in args {
            match self.read(path, kernel) {
                Some(text) => out.push_str(&text),
                None => return Err(Self::outside(path, pos)),
            }
        }
        Ok(CommandResult::ok(out))
    }

    /// `dd bs=1 count=5 if=/dev/zero of=/tmp/file`.
    pub(super) fn dd(&mut self, args: &[&str], pos: Pos) -> Done<CommandResult> {
        let (mut bs, mut count, mut source, mut target) = (512_u64, 0_u64, "", "");
        for arg in args {
            let Some((name, value)) = arg.split_once('=') else { continue };
            match name {
                "bs" => bs = size(value).ok_or_else(|| bad_size(value, pos))?,
                "count" => count = size(value).ok_or_else(|| bad_size(value, pos))?,
                "if" => source = value,
                "of" => target = value,
                _ => {}
            }
        }
        if !matches!(source, "/dev/zero" | "/dev/urandom" | "/dev/random") {
            return Err(Self::outside(source, pos));
        }
        let len = bs.checked_mul(count).filter(|len| *len <= MAX_FILE);
        self.make_file(target, len.ok_or_else(|| bad_size("", pos))?, pos)
    }

    /// `truncate -s 5 /tmp/file`.
    pub(super) fn truncate(&mut self, args: &[&str], pos: Pos) -> Done<CommandResult> {
        match args {
            ["-s", len, path] => {
                let len = size(len).filter(|len| *len <= MAX_FILE);
                self.make_file(path, len.ok_or_else(|| bad_size("", pos))?, pos)
            }
            _ => Err(Fault::new(pos, "truncate", "write `truncate -s SIZE /tmp/FILE`")),
        }
    }

    fn make_file(&mut self, path: &str, len: u64, pos: Pos) -> Done<CommandResult> {
        if !path.starts_with("/tmp/") {
            return Err(Self::outside(path, pos));
        }
        self.files.insert(path.to_owned(), File::Bytes(len));
        self.new_files.push((path.to_owned(), Some(len)));
        Ok(CommandResult::success())
    }

    pub(super) fn touch(
        &mut self,
        args: &[&str],
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        for path in args {
            self.write(path, "", true, pos, kernel)?;
        }
        Ok(CommandResult::success())
    }

    /// Only virtual files go.
    pub(super) fn remove(&mut self, args: &[&str]) -> CommandResult {
        let force = args.iter().any(|arg| arg.starts_with('-') && arg.contains('f'));
        let mut missing = false;
        for path in args.iter().filter(|arg| !arg.starts_with('-')) {
            missing |= self.files.remove(*path).is_none();
            self.new_files.push(((*path).to_owned(), None));
        }
        if missing && !force {
            CommandResult::failed("rm: no such file\n".to_owned())
        } else {
            CommandResult::success()
        }
    }

    /// `tee [-a] FILE…`.
    pub(super) fn tee(
        &mut self,
        args: &[&str],
        input: String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let append = args.contains(&"-a");
        let mut ran = CommandResult::ok(input);
        for path in args.iter().filter(|arg| !arg.starts_with('-')) {
            let wrong = self.write(path, &ran.out, append, pos, kernel)?;
            if !wrong.is_empty() {
                ran.status = Status::FAILURE;
                ran.err.push_str(&wrong);
            }
        }
        Ok(ran)
    }
}

pub(super) fn echo(args: &[&str]) -> CommandResult {
    let options = args.iter().take_while(|arg| matches!(**arg, "-n" | "-e" | "-ne" | "-en" | "-E"));
    let (options, words) = args.split_at(options.count());
    let mut text = words.join(" ");
    if options.iter().any(|it| it.contains('e')) {
        text = text.replace("\\n", "\n").replace("\\t", "\t");
    }
    if !options.iter().any(|it| it.contains('n')) {
        text.push('\n');
    }
    CommandResult::ok(text)
}

/// `printf FORMAT ARGUMENT…`: `%s`, `%d`, `%x`, `%%`, `\\n`, `\\t`; the format is used again for
/// arguments that are left.
pub(super) fn printf(args: &[&str]) -> CommandResult {
    let Some((format, args)) = args.split_first() else {
        return CommandResult::failed("printf: usage: printf format [arguments]\n".to_owned());
    };
    let mut args = args.iter().copied();
    let mut out = String::new();
    loop {
        let left = args.len();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match (c, if matches!(c, '\\' | '%') { chars.next() } else { None }) {
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some('t')) => out.push('\t'),
                ('\\', other) => out.push(other.unwrap_or('\\')),
                ('%', Some('s' | 'd' | 'i' | 'u')) => out.push_str(args.next().unwrap_or_default()),
                ('%', Some('x')) => {
                    let value = args.next().and_then(|it| it.parse::<i64>().ok());
                    let _ = write!(out, "{:x}", value.unwrap_or(0));
                }
                ('%', Some('%') | None) => out.push('%'),
                ('%', Some(other)) => {
                    return CommandResult::failed(format!(
                        "printf: `%{other}`: invalid directive\n"
                    ));
                }
                (other, _) => out.push(other),
            }
        }
        if args.len() == 0 || args.len() == left {
            return CommandResult::ok(out);
        }
    }
}

/// `head`, `tail`: the first or last lines of what comes in; `-n N`, `-N`, `-nN`.
pub(super) fn ends_of(args: &[&str], input: &str, first: bool) -> CommandResult {
    let mut said = args
        .iter()
        .filter_map(|arg| arg.trim_start_matches("-n").trim_start_matches('-').parse().ok());
    let count: usize = said.next_back().unwrap_or(10);
    let lines: Vec<&str> = input.lines().collect();
    let kept = if first {
        &lines[..count.min(lines.len())]
    } else {
        &lines[lines.len().saturating_sub(count)..]
    };
    CommandResult::ok(kept.iter().flat_map(|line| [*line, "\n"]).collect())
}

/// `cut -dC -fN[,N…]`.
pub(super) fn cut(args: &[&str], input: &str, pos: Pos) -> Done<CommandResult> {
    let joined = args.join(" ").replace("-d ", "-d").replace("-f ", "-f");
    let (mut delimiter, mut fields) = ('\t', Vec::new());
    let mut rest = joined.as_str();
    while let Some(option) = rest.strip_prefix('-') {
        let mut chars = option.chars();
        match chars.next() {
            Some('d') => {
                delimiter = chars.next().unwrap_or('\t');
                rest = chars.as_str().trim_start();
            }
            Some('f') => {
                let (list, behind) = chars.as_str().split_once(' ').unwrap_or((chars.as_str(), ""));
                fields = list.split(',').filter_map(|it| it.parse::<usize>().ok()).collect();
                rest = behind;
            }
            _ => break,
        }
    }
    if fields.is_empty() || !rest.is_empty() {
        return Err(Fault::no_meaning(pos, format!("`cut {joined}` is not interpreted")));
    }
    let mut out = String::new();
    for line in input.lines() {
        let all: Vec<&str> = line.split(delimiter).collect();
        let chosen: Vec<&str> =
            fields.iter().filter_map(|field| all.get(field.wrapping_sub(1)).copied()).collect();
        out.push_str(&chosen.join(&delimiter.to_string()));
        out.push('\n');
    }
    Ok(CommandResult::ok(out))
}

/// `awk [-FC] '[/PATTERN/] {print $N, …}'`.
pub(super) fn awk(args: &[&str], input: &str, pos: Pos) -> Done<CommandResult> {
    let not_interpreted =
        || Fault::no_meaning(pos, format!("`awk {}` is not interpreted", args.join(" ")));
    let (separator, program) = match args {
        [program] => (None, *program),
        ["-F", separator, program] => (Some(*separator), *program),
        [flag, program] => (Some(flag.strip_prefix("-F").ok_or_else(not_interpreted)?), *program),
        _ => return Err(not_interpreted()),
    };
    let program = program.trim();
    let (pattern, action) = match program.strip_prefix('/').and_then(|it| it.split_once('/')) {
        Some((pattern, action)) => (Some(Pattern::new(pattern, true)), action.trim()),
        None => (None, program),
    };
    let action = action.strip_prefix('{').and_then(|it| it.strip_suffix('}')).map(str::trim);
    let printed = action.and_then(|it| it.strip_prefix("print")).ok_or_else(not_interpreted)?;
    let fields: Option<Vec<usize>> = printed
        .trim_matches([' ', ';'])
        .split(',')
        .map(|field| match field.trim() {
            "" => Some(0),
            field => field.strip_prefix('$')?.parse().ok(),
        })
        .collect();
    let fields = fields.ok_or_else(not_interpreted)?;
    let mut out = String::new();
    for line in input.lines().filter(|line| pattern.as_ref().is_none_or(|it| it.matches(line))) {
        let words: Vec<&str> = match separator {
            Some(separator) => line.split(separator).collect(),
            None => line.split_whitespace().collect(),
        };
        let field = |number: &usize| match number {
            0 => line,
            number => words.get(number - 1).copied().unwrap_or_default(),
        };
        out.push_str(&fields.iter().map(field).collect::<Vec<_>>().join(" "));
        out.push('\n');
    }
    Ok(CommandResult::ok(out))
}

/// `tr SET SET`, `tr -d SET`, of single characters and ranges.
pub(super) fn tr(args: &[&str], input: &str, pos: Pos) -> Done<CommandResult> {
    let set = |text: &str| -> Vec<char> {
        let chars: Vec<char> = text.replace("\\n", "\n").replace("\\t", "\t").chars().collect();
        let mut out = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            if chars.get(at + 1) == Some(&'-')
                && let Some(end) = chars.get(at + 2)
            {
                out.extend((chars[at]..=*end).take(256));
                at += 3;
            } else {
                out.push(chars[at]);
                at += 1;
            }
        }
        out
    };
    Ok(CommandResult::ok(match args {
        ["-d", gone] => {
            let gone = set(gone);
            input.chars().filter(|c| !gone.contains(c)).collect()
        }
        [from, to] if !from.starts_with('-') => {
            let (from, to) = (set(from), set(to));
            let moved = |c: char| match from.iter().position(|it| *it == c) {
                Some(at) => to.get(at).or(to.last()).copied().unwrap_or(c),
                None => c,
            };
            input.chars().map(moved).collect()
        }
        _ => {
            let why = format!("`tr {}` is not interpreted", args.join(" "));
            return Err(Fault::no_meaning(pos, why));
        }
    }))
}

/// `5`, `64k`, `1M`.
fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1 << 10),
        'M' => (&text[..text.len() - 1], 1 << 20),
        'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn bad_size(text: &str, pos: Pos) -> Fault {
    Fault::new(pos, format!("`{text}` is not the size of a file"), "at most 1G")
}

/// Virtual files are no longer.
const MAX_FILE: u64 = 1 << 30;
