//! `ackwright ip`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iproute::ip::config::Config;
use iproute::ip::{Ip, IpError};
use lab::plan::excerpt;
use lab::{input, store};

use super::{Failure, Outcome, print};
use crate::import_note::Note;

/// Arguments of `ackwright ip`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright ip --config routes.ip route show
  ackwright ip --config routes.ip route add 198.18.0.0/15 \\
      nexthop via 10.0.1.2 weight 1 nexthop via 10.0.2.2 weight 3
  ackwright ip --config routes.ip route get 198.18.0.1 from 10.9.0.7 iif in0
  ackwright ip --config routes.ip -6 -j route show
  ackwright ip --import-kernel nexthop show
  ackwright ip --import-kernel save > routes.ip

FILE holds commands without the leading \"ip\": link add, address add, route, rule, nexthop, and
\"sysctl net.ipv4.fib_multipath_hash_policy=1\"; \"#\" begins a comment. Commands that change
something rewrite FILE atomically. Output is that of ip(8); \"route get\" adds the rule, table,
hash and bounds, unless --bare is given.")]
pub struct Args {
    /// File of ip commands; created if it does not exist and something is added
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use this machine's routes, rules, next hops and links (read over rtnetlink, never changed)
    #[arg(long)]
    import_kernel: bool,
    /// route get: print only the output of ip(8), not how the route was chosen
    #[arg(long)]
    bare: bool,
    /// What follows "ip": [-4|-6] [-j] [-d] OBJECT COMMAND …, or "save" to print the whole
    /// configuration
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<String>,
}

/// Runs one `ip` command.
pub fn run(args: &Args) -> Outcome {
    let args = args.gathered()?;
    let command = args.words.join(" ");
    if command.is_empty() {
        return Err(Failure::Usage(
            "no command given, for example \"route show\"; see ackwright ip --help".into(),
        ));
    }
    let mut config = args.read(&command)?;
    config.ip.explain = !args.bare;
    if command == "save" {
        print(&config.ip.save())?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = config.run(&command).map_err(|error| refused("", &command, &error))?;
    if answer.changed {
        let Some(file) = &args.config else {
            return Err(Failure::Usage(
                "the kernel's configuration is never changed; save it to a file and change that: \
                 ackwright ip --import-kernel save > routes.ip"
                    .into(),
            ));
        };
        write(file, &config.text())?;
    }
    if !answer.output.is_empty() {
        print(&answer.output)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Options of ours may stand after the words of `ip` too.
    fn gathered(&self) -> Result<Self, Failure> {
        let mut args = Self {
            config: self.config.clone(),
            import_kernel: self.import_kernel,
            bare: self.bare,
            words: Vec::new(),
        };
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--import-kernel" => args.import_kernel = true,
                "--bare" => args.bare = true,
                "--json" => args.words.insert(0, "-j".into()),
                "--config" => {
                    let file = words
                        .next()
                        .ok_or_else(|| Failure::Usage("--config needs a file name".into()))?;
                    args.config = Some(file.into());
                }
                text => match text.strip_prefix("--config=") {
                    Some(file) => args.config = Some(file.into()),
                    None => args.words.push(word.clone()),
                },
            }
        }
        Ok(args)
    }

    fn read(&self, command: &str) -> Result<Config, Failure> {
        match (&self.config, self.import_kernel) {
            (Some(file), false) => read_config(file, command),
            (None, true) => {
                let (ip, notes) = kernel()?;
                for note in notes.iter().filter(|note| note.always || depends_on_hash(command)) {
                    stderr_line!("note: {}", note.text);
                }
                Ok(Config::of(ip))
            }
            (None, false) => Err(Failure::Usage(
                "no routes given: use --config FILE for a file of ip commands, or \
                 --import-kernel for this machine's"
                    .into(),
            )),
            (Some(_), true) => {
                Err(Failure::Usage("--config and --import-kernel are mutually exclusive".into()))
            }
        }
    }
}

/// Only these answers depend on the hash.
fn depends_on_hash(command: &str) -> bool {
    command.split_whitespace().any(|word| word == "get")
}

/// A missing file counts as empty for commands that add something.
fn read_config(file: &Path, command: &str) -> Result<Config, Failure> {
    let adds = || {
        command
            .split_whitespace()
            .any(|word| matches!(word, "add" | "append" | "replace" | "prepend"))
    };
    if file.as_os_str() == store::STANDARD_OUTPUT {
        let message = "--config -: commands that change something rewrite the file, so it cannot \
            be standard input; use /dev/stdin to only read it";
        return Err(Failure::Usage(message.into()));
    }
    let text = match input::read_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && adds() => String::new(),
        Err(error) => return Err(Failure::Usage(format!("{}: {error}", file.display()))),
    };
    parse(file, &text)
}

/// Reads the text of a configuration file.
pub fn parse(file: &Path, text: &str) -> Result<Config, Failure> {
    if text.trim_start().starts_with(['[', '{']) {
        let message = "this is JSON, not ip commands as \"ackwright ip save\" prints them";
        return Err(Failure::Usage(format!("{}:1:1: {message}", file.display())));
    }
    Config::parse(text).map_err(|(line, error)| {
        let command = text.lines().nth(line - 1).unwrap_or("");
        refused(&format!("{}:{line}", file.display()), command, &error)
    })
}

/// `FILE:LINE:COLUMN: message`, or `column N: message` for what was typed.
fn refused(place: &str, command: &str, error: &IpError) -> Failure {
    let start = command.len() - command.trim_start().len();
    let (column, message) = match error {
        IpError::Grammar(error) => {
            let help = error.nearest.as_ref();
            let help = help.map_or(String::new(), |word| format!(" (did you mean \"{word}\"?)"));
            (error.column, format!("{}{help}", error.message))
        }
        other => {
            let text = other.to_string();
            (start, text.strip_prefix("Error: ").map_or(text.clone(), String::from))
        }
    };
    Failure::Usage(match (place, error) {
        ("", IpError::Grammar(_)) => {
            let (shown, place) = excerpt(command, command[..column].chars().count() + 1);
            let caret = " ".repeat(place - 1);
            format!("column {}: {message}\n  {shown}\n  {caret}^", column + 1)
        }
        ("", _) => message,
        _ => format!("{place}:{}: {message}", column + 1),
    })
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    Ok(store::replace(file, text.as_bytes())?)
}

/// This machine's configuration, and what could not be taken over.
#[cfg(target_os = "linux")]
fn kernel() -> Result<(Ip, Vec<Note>), Failure> {
    crate::rtnetlink::import().map_err(Failure::Other)
}

/// Other systems have no rtnetlink.
#[cfg(not(target_os = "linux"))]
fn kernel() -> Result<(Ip, Vec<Note>), Failure> {
    Err(Failure::Other("--import-kernel needs Linux: other kernels have no rtnetlink".into()))
}
