//! Commands by name, functions, scripts.

use super::exec::ListExit;
use super::{CommandResult, Done, Shell, builtin, network, text, words};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

impl Shell {
    pub(super) fn command(
        &mut self,
        words: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let Some((first, rest)) = words.split_first() else { return Ok(CommandResult::success()) };
        if let Some(body) = self.functions.get(first).map(Arc::clone) {
            return self.call_function(&body, words, input, pos, kernel);
        }
        let args: Vec<&str> = rest.iter().map(String::as_str).collect();
        let name = match first.rsplit_once('/') {
            None | Some(("/bin" | "/sbin" | "/usr/bin" | "/usr/sbin", _)) => {
                first.rsplit('/').next().unwrap_or(first)
            }
            // A program by its place: one of the suite.
            Some((_, program)) => return self.program(first, program, rest, input, pos, kernel),
        };
        if let Some(ran) = builtin::run(self, name, &args, input, pos, kernel)? {
            return Ok(ran);
        }
        match name {
            "sysctl" => network::sysctl(kernel, &args, pos),
            "set_sysctls.py" => network::set_sysctls(kernel, &args, pos),
            "ip" => network::ip(kernel, &args, pos),
            "ifconfig" => network::ifconfig(kernel, &args, pos),
            "tc" => network::tc(kernel, &args, pos),
            "ethtool" => network::ethtool(kernel, &args, pos),
            "nstat" => Ok(network::nstat(kernel, &args)),
            "grep" | "egrep" | "fgrep" => Ok(self.grep(name, &args, &take(input), kernel)),
            "cat" => self.cat(&args, &take(input), pos, kernel),
            "tee" => self.tee(&args, take(input), pos, kernel),
            "echo" => Ok(text::echo(&args)),
            "printf" => Ok(text::printf(&args)),
            "wc" => Ok(CommandResult::ok(format!("{}\n", take(input).lines().count()))),
            "head" => Ok(text::ends_of(&args, &take(input), true)),
            "tail" => Ok(text::ends_of(&args, &take(input), false)),
            "cut" => text::cut(&args, &take(input), pos),
            "awk" | "gawk" | "mawk" => text::awk(&args, &take(input), pos),
            "tr" => text::tr(&args, &take(input), pos),
            "seq" => builtin::seq(&args, pos),
            "expr" => Ok(self.expr(&args)),
            "basename" => Ok(builtin::basename(&args)),
            "dirname" => Ok(builtin::dirname(&args)),
            "uname" => Ok(builtin::uname(&args)),
            "dd" => self.dd(&args, pos),
            "truncate" => self.truncate(&args, pos),
            "rm" => Ok(self.remove(&args)),
            "touch" => self.touch(&args, pos, kernel),
            "modprobe" | "sleep" | "usleep" | "chmod" | "sync" | "taskset" => {
                Ok(CommandResult::success())
            }
            "sh" | "bash" | "source" | "." => self.shell_of(name, rest, input, pos, kernel),
            "sudo" | "env" | "command" | "exec" | "timeout" | "nice" => {
                self.another(name, rest, input, pos, kernel)
            }
            _ if is_script(name) => self.script(first, rest, input, pos, kernel),
            _ => Err(Fault::no_meaning(pos, format!("`{name}` has no meaning without a kernel"))),
        }
    }

    /// A program that a script names by its place.
    fn program(
        &mut self,
        path: &str,
        name: &str,
        args: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        // A suite's own clean-up, written by `set_sysctls.py`: every run has a fresh host.
        if name.starts_with("sysctl_restore_") && path.starts_with("/tmp/") {
            return Ok(CommandResult::success());
        }
        if name == "set_sysctls.py" {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            return network::set_sysctls(kernel, &args, pos);
        }
        if is_script(name) {
            return self.script(path, args, input, pos, kernel);
        }
        let what = format!("`{path}` is a program of the machine");
        Err(Fault::new(pos, what, "no programs are run; use the commands of docs/drill.md"))
    }

    /// `env`, `timeout` and their like: another command behind options and settings.
    fn another(
        &mut self,
        name: &str,
        args: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        if name == "command" && args.first().is_some_and(|it| it == "-v" || it == "-V") {
            return Ok(CommandResult::ok(format!("{}\n", args[1..].join(" "))));
        }
        let options = args.iter().take_while(|arg| arg.starts_with('-') || arg.contains('='));
        let rest = &args[options.count()..];
        let rest = if name == "timeout" { rest.get(1..).unwrap_or_default() } else { rest };
        self.deeper(pos, |shell| shell.command(rest, input, pos, kernel))
    }

    /// `bash -c TEXT`, `bash FILE`, `source FILE`.
    fn shell_of(
        &mut self,
        name: &str,
        args: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let own = matches!(name, "source" | ".");
        let options = args.iter().take_while(|arg| arg.starts_with('-')).count();
        let strict = args[..options].iter().any(|arg| arg.contains('e'));
        let text_follows = args[..options].iter().any(|arg| arg.contains('c'));
        match &args[options..] {
            [] => self.apart_text(&take(input), args, strict, &mut String::new(), pos, kernel),
            [text, rest @ ..] if text_follows && !own => {
                self.apart_text(text, rest, strict, input, pos, kernel)
            }
            [file, rest @ ..] if !own => self.script(file, rest, input, pos, kernel),
            [file, ..] => {
                let text = self.text_of_script(file, pos)?;
                let wrap = |fault| within(file, pos, fault);
                let list = words::parse(&text, START).map_err(wrap)?;
                let ran = self.deeper(pos, |shell| shell.list(&list, input, kernel));
                let ran = ran.map_err(wrap)?;
                if matches!(self.leaving, Some(ListExit::Return(_))) {
                    self.leaving = None;
                }
                Ok(ran)
            }
        }
    }

    /// A text with variables of its own; `args` begin with `$0`.
    fn apart_text(
        &mut self,
        text: &str,
        args: &[String],
        strict: bool,
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let list = words::parse(text, pos)?;
        self.deeper(pos, |shell| {
            shell.apart(|shell| {
                shell.arguments = args.to_vec();
                shell.strict = strict;
                shell.list(&list, input, kernel)
            })
        })
    }

    /// One call deeper.
    pub(super) fn deeper<T>(
        &mut self,
        pos: Pos,
        act: impl FnOnce(&mut Self) -> Done<T>,
    ) -> Done<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::new(pos, "scripts that call each other without end", ""));
        }
        let done = act(self)?;
        self.depth -= 1;
        Ok(done)
    }

    fn call_function(
        &mut self,
        body: &Arc<super::List>,
        words: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let before = core::mem::replace(&mut self.arguments, words.to_vec());
        let ran = self.deeper(pos, |shell| shell.list(body, input, kernel))?;
        self.arguments = before;
        if matches!(self.leaving, Some(ListExit::Return(_))) {
            self.leaving = None;
        }
        Ok(ran)
    }

    /// Runs a script of the suite.
    pub(super) fn script(
        &mut self,
        path: &str,
        args: &[String],
        input: &mut String,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<CommandResult> {
        let text = self.text_of_script(path, pos)?;
        let list = words::parse(&text, START).map_err(|fault| within(path, pos, fault))?;
        let mut all = vec![path.to_owned()];
        all.extend_from_slice(args);
        self.deeper(pos, |shell| {
            shell.apart(|shell| {
                shell.arguments = all;
                shell.strict = false;
                shell.list(&list, input, kernel)
            })
        })
        .map_err(|fault| within(path, pos, fault))
    }

    /// A shell script: the suite's own if it lies below the folder of the run. Of `defaults.sh` we
    /// have one with the same settings.
    fn text_of_script(&self, path: &str, pos: Pos) -> Done<String> {
        let Some(file) = self.inside(path) else {
            if path.rsplit('/').next() == Some("defaults.sh") && !Path::new(path).is_absolute() {
                return Ok(DEFAULTS.to_owned());
            }
            let what = format!("`{path}` is not a script below the directory of the run");
            return Err(Fault::new(pos, what, "scripts elsewhere are not read"));
        };
        let unreadable = |why: String| Fault::new(pos, format!("{}: {why}", file.display()), "");
        let len = std::fs::metadata(&file).map_err(|error| unreadable(error.to_string()))?.len();
        if len > words::MAX_TEXT as u64 {
            return Err(unreadable("more than a megabyte".to_owned()));
        }
        std::fs::read_to_string(&file).map_err(|error| unreadable(error.to_string()))
    }

    /// A file below the folder of the run; `None` if there is none.
    pub(super) fn inside(&self, path: &str) -> Option<PathBuf> {
        if self.root.as_os_str().is_empty() || Path::new(path).is_absolute() {
            return None;
        }
        let joined = self.folder.join(path);
        // Links must not lead outside either.
        let real = joined.canonicalize().ok()?;
        let root = self.root.canonicalize().ok()?;
        let plain = !real.components().any(|part| part == Component::ParentDir);
        (plain && real.starts_with(root) && real.is_file()).then_some(real)
    }
}

fn take(input: &mut String) -> String {
    core::mem::take(input)
}

/// Programs of a suite that can be read: shell scripts.
fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "sh" || it == "bash")
}

/// A fault of a called script, at the place that calls it.
fn within(path: &str, pos: Pos, fault: Fault) -> Fault {
    Fault { pos, what: format!("{path}:{}: {}", fault.pos, fault.what), ..fault }
}

/// Where a script file begins.
const START: Pos = Pos { line: 1, column: 0 };

/// Scripts, functions and `$(…)` call each other no deeper.
pub(super) const MAX_DEPTH: u32 = 16;

/// The settings that suites begin with, where their own file cannot be read.
const DEFAULTS: &str = "\
ip tcp_metrics flush all
sysctl -q net.ipv4.tcp_rmem='4096 540000 15728640' net.ipv4.tcp_wmem='4096 262144 4194304'
sysctl -q net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_dsack=1 net.ipv4.tcp_frto=2
sysctl -q net.ipv4.tcp_syn_retries=5 net.ipv4.tcp_synack_retries=5 net.ipv4.tcp_reordering=3
sysctl -q net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_slow_start_after_idle=0
sysctl -q net.ipv4.tcp_early_retrans=4 net.ipv4.tcp_recovery=1 net.ipv4.tcp_tso_win_divisor=3
sysctl -q net.ipv4.tcp_ecn=0 net.ipv4.tcp_ecn_option=2
sysctl -q net.ipv4.tcp_pacing_ss_ratio=200 net.ipv4.tcp_pacing_ca_ratio=120
sysctl -q net.ipv4.tcp_notsent_lowat=4294967295
sysctl -q net.ipv4.tcp_fastopen=0x70403
sysctl -q net.ipv4.tcp_fastopen_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4
sysctl -q net.ipv4.tcp_syncookies=1
tc qdisc add dev tun0 root pfifo
";
