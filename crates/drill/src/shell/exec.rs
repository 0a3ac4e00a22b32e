//! Lists and commands at work: what runs, in which order, and where its output goes.

use super::syntax::{Command, Join, Kind, List, Pipeline, Redirect, Target, Text, Word};
use super::{CommandResult, Done, File, Shell, Status, glob, network};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::sync::Arc;

/// Why a list ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListExit {
    /// `break`, out of so many loops.
    Break(u32),
    /// `continue`, of the loop that is so many out.
    Continue(u32),
    /// `return`.
    Return(Status),
    /// `exit`.
    Exit(Status),
}

/// Commands of one packetdrill script together; loops end here.
const MAX_STEPS: u32 = 10_000;

impl Shell {
    /// Runs pipelines one after the other. Standard input is shared: whichever command reads it
    /// consumes it.
    pub(super) fn list(
        &mut self,
        list: &List,
        input: &mut String,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let mut whole = CommandResult::success();
        let mut skip = false;
        for pipeline in list {
            if !skip {
                let ran = self.pipeline(pipeline, input, kernel)?;
                self.add(&mut whole, ran);
                if let Some(leaving) = self.leaving {
                    if let ListExit::Exit(status) | ListExit::Return(status) = leaving {
                        whole.status = status;
                    }
                    return Ok(whole);
                }
                let failed = !whole.status.ok() && !pipeline.negated;
                if self.strict && failed && pipeline.join == Join::Next {
                    self.leaving = Some(ListExit::Exit(whole.status));
                    return Ok(whole);
                }
            }
            skip = match pipeline.join {
                Join::Next => false,
                Join::And => !whole.status.ok(),
                Join::Or => whole.status.ok(),
            };
        }
        Ok(whole)
    }

    /// What one more command printed, and its status.
    fn add(&mut self, whole: &mut CommandResult, ran: CommandResult) {
        self.last = ran.status.0;
        whole.status = ran.status;
        for (all, more) in [(&mut whole.out, ran.out), (&mut whole.err, ran.err)] {
            if all.len() < super::MAX_TEXT {
                all.push_str(&more);
            }
        }
    }

    /// A list whose failure is an answer, not a failure.
    fn condition(
        &mut self,
        list: &List,
        input: &mut String,
        whole: &mut CommandResult,
        kernel: &mut Kernel,
    ) -> Done<bool> {
        let strict = core::mem::replace(&mut self.strict, false);
        let ran = self.list(list, input, kernel)?;
        self.strict = strict;
        let holds = ran.status.ok();
        self.add(whole, ran);
        Ok(holds)
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        input: &mut String,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let mut whole = CommandResult::success();
        let mut piped = String::new();
        for (index, command) in pipeline.commands.iter().enumerate() {
            let input = if index == 0 { &mut *input } else { &mut piped };
            let CommandResult { status, out, err } = self.redirected(command, input, kernel)?;
            whole.status = status;
            whole.err.push_str(&err);
            if index + 1 == pipeline.commands.len() {
                whole.out = out;
            } else {
                piped = out;
            }
        }
        if pipeline.negated {
            whole.status = if whole.status.ok() { Status::FAILURE } else { Status::SUCCESS };
        }
        Ok(whole)
    }

    /// One command, with its redirections.
    fn redirected(
        &mut self,
        command: &Command,
        input: &mut String,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let what = format!("more than {MAX_STEPS} shell commands");
            return Err(Fault::new(command.pos, what, "does a loop not end?"));
        }
        let ran = match self.input_of(&command.redirects, command.pos, kernel)? {
            Some(mut own) => self.kind(command, &mut own, kernel)?,
            None => self.kind(command, input, kernel)?,
        };
        self.redirect(ran, &command.redirects, command.pos, kernel)
    }

    fn kind(
        &mut self,
        command: &Command,
        input: &mut String,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let pos = command.pos;
        match &command.kind {
            Kind::Simple(words) => self.simple(words, input, pos, kernel),
            Kind::If(branches, otherwise) => {
                let mut whole = CommandResult::success();
                for (condition, then) in branches {
                    let holds = self.condition(condition, input, &mut whole, kernel)?;
                    if self.leaving.is_some() {
                        return Ok(whole);
                    }
                    if holds {
                        return self.chosen_list(whole, then, input, kernel);
                    }
                }
                self.chosen_list(whole, otherwise, input, kernel)
            }
            Kind::While { until, condition, body } => {
                let mut whole = CommandResult::success();
                loop {
                    let status = whole.status;
                    let holds = self.condition(condition, input, &mut whole, kernel)?;
                    whole.status = status;
                    if holds == *until || self.leaving.is_some() {
                        return Ok(whole);
                    }
                    if self.run_body(&mut whole, body, input, pos, kernel)? {
                        return Ok(whole);
                    }
                }
            }
            Kind::For(name, words, body) => {
                let values = match words {
                    Some(words) => self.expand_all(words, pos, kernel)?,
                    None => self.arguments.iter().skip(1).cloned().collect(),
                };
                let mut whole = CommandResult::success();
                for value in values {
                    self.assign(name, value, pos)?;
                    if self.run_body(&mut whole, body, input, pos, kernel)? {
                        break;
                    }
                }
                Ok(whole)
            }
            Kind::Count([begin, condition, step], body) => {
                let mut whole = CommandResult::success();
                self.arithmetic_or_fault(begin, 0, pos)?;
                while self.arithmetic_or_fault(condition, 1, pos)? != 0 {
                    if self.run_body(&mut whole, body, input, pos, kernel)? {
                        break;
                    }
                    self.arithmetic_or_fault(step, 0, pos)?;
                }
                Ok(whole)
            }
            Kind::Case(word, arms) => {
                let text = self.expand(word, pos, kernel)?;
                for (patterns, body) in arms {
                    for pattern in patterns {
                        let pattern = self.expand_pattern(pattern, pos, kernel)?;
                        if glob::matches(&pattern, &text) {
                            return self.list(body, input, kernel);
                        }
                    }
                }
                Ok(CommandResult::success())
            }
            Kind::Group(list) => self.list(list, input, kernel),
            Kind::Subshell(list) => {
                let ran = self.apart(|shell| shell.list(list, input, kernel))?;
                Ok(ran)
            }
            Kind::Arithmetic(text) => {
                let value = self.arithmetic_or_fault(text, 0, pos)?;
                Ok(if value == 0 {
                    CommandResult::failed(String::new())
                } else {
                    CommandResult::success()
                })
            }
            Kind::Function(name, body) => {
                self.functions.insert(name.clone(), Arc::clone(body));
                Ok(CommandResult::success())
            }
        }
    }

    /// The list that a condition has chosen.
    fn chosen_list(
        &mut self,
        mut whole: CommandResult,
        list: &List,
        input: &mut String,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let ran = self.list(list, input, kernel)?;
        self.add(&mut whole, ran);
        Ok(whole)
    }

    /// The body of a loop, once; true if the loop is over.
    fn run_body(
        &mut self,
        whole: &mut CommandResult,
        body: &List,
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<bool> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let what = format!("a loop of more than {MAX_STEPS} commands");
            return Err(Fault::new(pos, what, "does it not end?"));
        }
        let ran = self.list(body, input, kernel)?;
        self.add(whole, ran);
        Ok(match self.leaving {
            None => false,
            Some(ListExit::Break(1)) => {
                self.leaving = None;
                true
            }
            Some(ListExit::Continue(1)) => {
                self.leaving = None;
                false
            }
            Some(ListExit::Break(loops)) => {
                self.leaving = Some(ListExit::Break(loops - 1));
                true
            }
            Some(ListExit::Continue(loops)) => {
                self.leaving = Some(ListExit::Continue(loops - 1));
                true
            }
            Some(ListExit::Return(_) | ListExit::Exit(_)) => true,
        })
    }

    /// Something whose variables and `exit` are its own.
    pub(super) fn apart(
        &mut self,
        act: impl FnOnce(&mut Self) -> Done<CommandResult>,
    ) -> Done<CommandResult> {
        let (variables, arguments) = (self.variables.clone(), self.arguments.clone());
        let (functions, strict) = (self.functions.clone(), self.strict);
        let ran = act(self)?;
        (self.variables, self.arguments) = (variables, arguments);
        (self.functions, self.strict) = (functions, strict);
        self.leaving = None;
        Ok(ran)
    }

    fn simple(
        &mut self,
        words: &[Word],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let settings = words.iter().take_while(|word| is_assignment(word)).count();
        let (settings, words) = words.split_at(settings);
        let (outputs, last) = (self.outputs, self.last);
        let before = (!words.is_empty() && !settings.is_empty()).then(|| self.variables.clone());
        for word in settings {
            let text = self.expand(word, pos, kernel)?;
            let (name, value) = text.split_once('=').unwrap_or((&text, ""));
            let (name, value) = match name.strip_suffix('+') {
                Some(name) => (name, self.variable(name) + value),
                None => (name, value.to_owned()),
            };
            self.assign(name, value, pos)?;
        }
        let words = self.expand_all(words, pos, kernel)?;
        if words.is_empty() {
            // The status of an assignment is that of the last `$(…)` in it.
            let status = if self.outputs == outputs { 0 } else { self.last };
            return Ok(CommandResult { status: Status(status), ..CommandResult::success() });
        }
        self.last = last;
        let ran = self.command(&words, input, pos, kernel)?;
        // Settings in front of a command are for this command.
        if let Some(before) = before {
            self.variables = before;
        }
        Ok(ran)
    }

    fn input_of(
        &mut self,
        redirects: &[Redirect],
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<Option<String>> {
        let mut input = None;
        for redirect in redirects {
            match &redirect.target {
                Target::Input(word) => {
                    let path = self.expand(word, pos, kernel)?;
                    let text = self.read(&path, kernel);
                    input = Some(text.ok_or_else(|| Self::outside(&path, pos))?);
                }
                Target::Here(word) => input = Some(self.expand(word, pos, kernel)?),
                Target::Output { .. } | Target::Duplicate => {}
            }
        }
        Ok(input)
    }

    /// Sends output where the redirections say; what is left goes on.
    fn redirect(
        &mut self,
        ran: CommandResult,
        redirects: &[Redirect],
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let CommandResult { status, mut out, mut err } = ran;
        // Where the two streams go, and whether behind what is there; `None`: on.
        let mut out_to: Option<(String, bool)> = None;
        let mut err_to: Option<(String, bool)> = None;
        let (mut err_follows, mut out_follows) = (false, false);
        for redirect in redirects {
            match &redirect.target {
                Target::Input(_) | Target::Here(_) => {}
                Target::Duplicate if redirect.stream == 1 => {
                    out_follows = err_to.is_none();
                    out_to.clone_from(&err_to);
                }
                Target::Duplicate => {
                    err_follows = out_to.is_none();
                    err_to.clone_from(&out_to);
                }
                Target::Output { word, append } => {
                    let path = (self.expand(word, pos, kernel)?, *append);
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
        if out_follows && out_to.is_none() {
            err.push_str(&core::mem::take(&mut out));
        }
        let mut failed = String::new();
        if let Some((path, append)) = err_to {
            // Both streams in one file: output first, then errors behind it.
            if out_to.as_ref().is_some_and(|(other, _)| *other == path) {
                out.push_str(&core::mem::take(&mut err));
            } else {
                failed += &self.write(&path, &core::mem::take(&mut err), append, pos, kernel)?;
            }
        } else if err_follows {
            out.push_str(&core::mem::take(&mut err));
        }
        if let Some((path, append)) = out_to {
            failed += &self.write(&path, &core::mem::take(&mut out), append, pos, kernel)?;
        }
        let status = if failed.is_empty() { status } else { Status::FAILURE };
        err.push_str(&failed);
        Ok(CommandResult { status, out, err })
    }

    /// Writes a virtual file, or a setting by its file; gives what is wrong with its value.
    pub(super) fn write(
        &mut self,
        path: &str,
        text: &str,
        append: bool,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<String> {
        if matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            return Ok(String::new());
        }
        if path.starts_with("/proc/sys/") || path.starts_with("/sys/") {
            return network::set(kernel, path, text, pos).map(|ran| ran.err);
        }
        if !path.starts_with("/tmp/") || path.contains("/../") {
            return Err(Self::outside(path, pos));
        }
        let before = match self.files.get(path) {
            Some(File::Text(before)) if append => before.clone(),
            _ => String::new(),
        };
        let whole = before + text;
        if whole.len() > super::MAX_TEXT {
            return Err(Fault::new(pos, format!("`{path}` grows beyond a megabyte"), ""));
        }
        self.new_files.push((path.to_owned(), Some(whole.len() as u64)));
        self.files.insert(path.to_owned(), File::Text(whole));
        Ok(String::new())
    }
}

/// `NAME=…` or `NAME+=…`.
fn is_assignment(word: &Word) -> bool {
    let Some(first) = word.parts.first().filter(|part| !part.quoted) else { return false };
    let Text::Literal(text) = &first.text else { return false };
    let Some((name, _)) = text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
