//! Commands by name.

use super::pattern::Pattern;
use super::{Done, File, Ran, Shell, Status, network};
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use std::path::{Component, Path, PathBuf};

impl Shell {
    pub(super) fn command(
        &mut self,
        words: &[String],
        input: &str,
        pos: Pos,
        kernel: &mut Kernel,
    ) -> Done<Ran> {
        let Some((first, args)) = words.split_first() else { return Ok(Ran::quiet()) };
        if let Some((name, value)) = first.split_once('=')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.variables.insert(name.to_owned(), value.to_owned());
            return if args.is_empty() {
                Ok(Ran::quiet())
            } else {
                self.command(args, input, pos, kernel)
            };
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let name = first.rsplit('/').next().unwrap_or(first);
        match name {
            "sysctl" => network::sysctl(kernel, &args, pos),
            "set_sysctls.py" => network::set_sysctls(kernel, &args, pos),
            "defaults.sh" => self.defaults(first, pos, kernel),
            "ip" => network::ip(kernel, &args, pos),
            "ifconfig" => network::ifconfig(kernel, &args, pos),
            "tc" => network::tc(kernel, &args, pos),
            "ethtool" => network::ethtool(kernel, &args, pos),
            "nstat" => Ok(network::nstat(kernel, &args)),
            "grep" | "egrep" | "fgrep" => Ok(self.grep(name, &args, input, kernel)),
            "cat" => self.cat(&args, input, pos, kernel),
            "echo" => Ok(echo(&args)),
            "printf" => Ok(Ran::ok(args.join(" ").replace("\\n", "\n"))),
            "wc" => Ok(Ran::ok(format!("{}\n", input.lines().count()))),
            "dd" => self.dd(&args, pos),
            "truncate" => self.truncate(&args, pos),
            "rm" => Ok(self.remove(&args)),
            "touch" => self.touch(&args, pos, kernel),
            "true" | ":" | "modprobe" | "sleep" | "set" | "export" | "chmod" | "ulimit" => {
                Ok(Ran::quiet())
            }
            "false" => Ok(Ran::failed(String::new())),
            "exit" => {
                let code = args.first().and_then(|code| code.parse().ok()).unwrap_or(0);
                self.exited = Some(Status(code));
                Ok(Ran { status: Status(code), out: String::new(), err: String::new() })
            }
            "sh" | "bash" if args.first() == Some(&"-c") && args.len() == 2 => {
                self.nested(args[1], pos, kernel)
            }
            "sudo" | "env" => {
                let rest: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
                self.command(&rest, input, pos, kernel)
            }
            // A suite's own clean-up, written by `set_sysctls.py`: every run has a fresh host.
            _ if name.starts_with("sysctl_restore_") && first.starts_with("/tmp/") => {
                Ok(Ran::quiet())
            }
            _ if first.contains('/')
                && !matches!(
                    first.rsplit_once('/'),
                    Some(("/bin" | "/sbin" | "/usr/bin" | "/usr/sbin", _))
                ) =>
            {
                let what = format!("`{first}` is a program of the machine");
                Err(Fault::new(pos, what, "nothing is run on it; use the words of docs/drill.md"))
            }
            _ if CONTROL.contains(&name) => {
                let why = format!("`{name}` of the shell is not interpreted");
                Err(Fault::no_meaning(pos, why))
            }
            _ => Err(Fault::no_meaning(pos, format!("`{name}` has no meaning without a kernel"))),
        }
    }

    fn nested(&mut self, text: &str, pos: Pos, kernel: &mut Kernel) -> Done<Ran> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::new(pos, "scripts that call each other without end", ""));
        }
        let status = self.text(text, pos, kernel)?;
        self.depth -= 1;
        Ok(Ran { status, out: String::new(), err: String::new() })
    }

    /// `defaults.sh`: the suite's own if it lies below the folder of the run, else ours, which has
    /// the same settings.
    fn defaults(&mut self, path: &str, pos: Pos, kernel: &mut Kernel) -> Done<Ran> {
        let text = match self.inside(path) {
            Some(file) => match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) => {
                    let what = format!("{}: {error}", file.display());
                    return Err(Fault::new(pos, what, ""));
                }
            },
            None => DEFAULTS.to_owned(),
        };
        self.nested(&text, pos, kernel)
    }

    /// A file below the folder of the run; `None` if there is none.
    fn inside(&self, path: &str) -> Option<PathBuf> {
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

    fn grep(&self, name: &str, args: &[&str], input: &str, kernel: &mut Kernel) -> Ran {
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
            return Ran::failed("grep: no pattern\n".to_owned());
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
        Ran { status, out, err: String::new() }
    }

    fn cat(&self, args: &[&str], input: &str, pos: Pos, kernel: &mut Kernel) -> Done<Ran> {
        if args.is_empty() {
            return Ok(Ran::ok(input.to_owned()));
        }
        let mut out = String::new();
        for path in args {
            match self.read(path, kernel) {
                Some(text) => out.push_str(&text),
                None => return Err(Self::outside(path, pos)),
            }
        }
        Ok(Ran::ok(out))
    }

    /// `dd bs=1 count=5 if=/dev/zero of=/tmp/file`.
    fn dd(&mut self, args: &[&str], pos: Pos) -> Done<Ran> {
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
    fn truncate(&mut self, args: &[&str], pos: Pos) -> Done<Ran> {
        match args {
            ["-s", len, path] => {
                let len = size(len).filter(|len| *len <= MAX_FILE);
                self.make_file(path, len.ok_or_else(|| bad_size("", pos))?, pos)
            }
            _ => Err(Fault::new(pos, "truncate", "write `truncate -s SIZE /tmp/FILE`")),
        }
    }

    fn make_file(&mut self, path: &str, len: u64, pos: Pos) -> Done<Ran> {
        if !path.starts_with("/tmp/") {
            return Err(Self::outside(path, pos));
        }
        self.files.insert(path.to_owned(), File::Bytes(len));
        self.new_files.push((path.to_owned(), Some(len)));
        Ok(Ran::quiet())
    }

    fn touch(&mut self, args: &[&str], pos: Pos, kernel: &mut Kernel) -> Done<Ran> {
        for path in args {
            self.write(path, "", pos, kernel)?;
        }
        Ok(Ran::quiet())
    }

    /// Only virtual files go.
    fn remove(&mut self, args: &[&str]) -> Ran {
        let force = args.iter().any(|arg| arg.starts_with('-') && arg.contains('f'));
        let mut missing = false;
        for path in args.iter().filter(|arg| !arg.starts_with('-')) {
            missing |= self.files.remove(*path).is_none();
            self.new_files.push(((*path).to_owned(), None));
        }
        if missing && !force { Ran::failed("rm: no such file\n".to_owned()) } else { Ran::quiet() }
    }
}

fn echo(args: &[&str]) -> Ran {
    match args.split_first() {
        Some((&"-n", rest)) => Ran::ok(rest.join(" ")),
        _ => Ran::ok(format!("{}\n", args.join(" "))),
    }
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
const MAX_DEPTH: u32 = 8;

/// Words of the shell's own language.
const CONTROL: [&str; 16] = [
    "if", "then", "else", "fi", "for", "while", "do", "done", "case", "esac", "function", "eval",
    "exec", "source", ".", "test",
];

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
