//! Many scripts: which files, which variants, side by side.

use crate::ast::{Flag, Script};
use crate::fault::{Fault, Pos};
use crate::lex::Defines;
use crate::parse::Parser;
use crate::run::{Failure, RunReport, ScriptFolder, Verdict, run};
use crate::settings::{IpVersion, Settings};
use rayon::prelude::*;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;

/// One script file and the folder of the run that it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file.
    pub path: PathBuf,
    /// Its name in reports: relative to what was named on the command line.
    pub name: String,
    /// The folder of the run.
    pub root: PathBuf,
}

impl File {
    /// What stands in it.
    ///
    /// # Errors
    /// When it cannot be read, or is no script by its size; with its name.
    pub fn text(&self) -> io::Result<String> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&self.path).map_err(named)?;
        file.take(TEXT_MAX + 1).read_to_end(&mut bytes).map_err(named)?;
        if bytes.len() as u64 > TEXT_MAX {
            let message = format!("a script has at most {} MB", TEXT_MAX >> 20);
            return Err(named(io::Error::new(io::ErrorKind::FileTooLarge, message)));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Bytes of a script.
const TEXT_MAX: u64 = 16 << 20;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The variants asked for; empty: the one that each script asks for, else IPv4.
    pub versions: Vec<IpVersion>,
    /// Flags of the command line.
    pub flags: Vec<Flag>,
    /// How many scripts at once; 0 = as many as there are processors.
    pub jobs: usize,
}

/// One script in one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which file, as an index.
    pub file: usize,
    /// Which variant.
    pub version: IpVersion,
    /// Not run: it is for other variants only.
    pub excluded: bool,
}

/// What came of a [`Job`].
#[derive(Debug)]
pub struct Report {
    /// The script's name.
    pub name: String,
    /// The variant.
    pub version: IpVersion,
    /// The run.
    pub outcome: RunReport,
}

/// Every script of `paths`: files as they are, folders with all `.pkt` below them, in order.
///
/// # Errors
/// A path that cannot be read, and why.
pub fn find(paths: &[PathBuf]) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        if path.is_dir() {
            let mut found = Vec::new();
            walk(path, &mut found, 0).map_err(named)?;
            found.sort();
            for file in found {
                let name = file.strip_prefix(path).unwrap_or(&file).display().to_string();
                files.push(File { path: file, name, root: path.clone() });
            }
        } else {
            std::fs::metadata(path).map_err(named)?;
            let root = path.parent().map(Path::to_path_buf).unwrap_or_default();
            let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
            files.push(File { path: path.clone(), name: path.display().to_string(), root });
        }
    }
    Ok(files)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>, depth: u32) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Links to folders could lead in circles.
        if entry.file_type()?.is_dir() {
            walk(&path, found, depth + 1)?;
        } else if path.extension().is_some_and(|it| it == "pkt") {
            found.push(path);
        }
    }
    Ok(())
}

/// Folders are followed no deeper.
const MAX_DEPTH: u32 = 32;

impl Plan {
    /// The jobs of a file: one for each variant.
    fn jobs_of(&self, index: usize, file: &File, text: &str) -> Vec<Job> {
        let only = only_version(&file.name, text);
        let job = |version, excluded| Job { file: index, version, excluded };
        match self.versions.as_slice() {
            [] => {
                let version = only.first().copied().unwrap_or(IpVersion::Ipv4);
                vec![job(version, false)]
            }
            [one] => vec![job(*one, !only.is_empty() && !only.contains(one))],
            several => several
                .iter()
                .filter(|version| only.is_empty() || only.contains(version))
                .map(|version| job(*version, false))
                .collect(),
        }
    }
}

/// The variants that a script is for, if not for all: by `--ip_version` in it, else by a name that
/// ends in `v4` or `v6`, as the suites' own runners have it.
fn only_version(name: &str, text: &str) -> Vec<IpVersion> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let said = text.lines().find_map(|line| line.trim().strip_prefix("--ip_version="));
    if let Some(word) = said.and_then(|rest| rest.split_whitespace().next()) {
        return IpVersion::by_name(word).into_iter().collect();
    }
    let stem = name.strip_suffix(".pkt").unwrap_or(name);
    if stem.ends_with("v6") {
        vec![IpVersion::Ipv6]
    } else if stem.ends_with("v4") {
        vec![IpVersion::Ipv4, IpVersion::Ipv4MappedIpv6]
    } else {
        Vec::new()
    }
}

/// Runs every file in every variant; `progress` is called for each that is done. Reports come in
/// the order of files and variants, whatever the number of threads.
///
/// # Errors
/// A file that cannot be read.
pub fn run_all(
    files: &[File],
    plan: &Plan,
    progress: impl Fn(&Report) + Sync,
) -> io::Result<Vec<Report>> {
    let texts: Vec<String> = files.iter().map(File::text).collect::<io::Result<_>>()?;
    run_texts(files, &texts, plan, progress)
}

/// The same where the scripts have been read already: one text for each file.
///
/// # Errors
/// When threads cannot be started.
pub fn run_texts(
    files: &[File],
    texts: &[String],
    plan: &Plan,
    progress: impl Fn(&Report) + Sync,
) -> io::Result<Vec<Report>> {
    let mut jobs = Vec::new();
    for (index, (file, text)) in files.iter().zip(texts).enumerate() {
        jobs.extend(plan.jobs_of(index, file, text));
    }
    let one = |job: &Job| {
        let file = &files[job.file];
        let outcome = if job.excluded {
            let because = format!("the script is not for {}", job.version);
            skipped(Pos::default(), because)
        } else {
            run_guarded(&texts[job.file], file, job.version, &plan.flags)
        };
        let report = Report { name: file.name.clone(), version: job.version, outcome };
        progress(&report);
        report
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads(plan.jobs, jobs.len()))
        .stack_size(STACK)
        .build()
        .map_err(io::Error::other)?;
    Ok(pool.install(|| jobs.par_iter().map(one).collect()))
}

/// As many threads as asked for, or (0) as there are processors, but no more than there is work for.
fn threads(asked: usize, work: usize) -> usize {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = if asked == 0 { processors() } else { asked };
    threads.clamp(1, work.max(1))
}

/// Scripts may nest; the parser is bounded well below this.
const STACK: usize = 8 << 20;

fn skipped(pos: Pos, because: String) -> RunReport {
    RunReport {
        verdict: Verdict::Skip { pos, because },
        packets: Vec::new(),
        events: Vec::new(),
        log: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A broken invariant of ours ends one script, not the others.
fn run_guarded(text: &str, file: &File, version: IpVersion, flags: &[Flag]) -> RunReport {
    let run = std::panic::AssertUnwindSafe(|| run_text(text, file, version, flags));
    std::panic::catch_unwind(run).unwrap_or_else(|cause| {
        let what = cause
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| cause.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        failed(Pos::default(), "panic", format!("the stack panicked: {what}"))
    })
}

fn failed(pos: Pos, field: &str, reason: String) -> RunReport {
    let failure = Failure { pos, field: field.to_owned(), reason, details: Vec::new() };
    RunReport {
        verdict: Verdict::Fail(Box::new(failure)),
        packets: Vec::new(),
        events: Vec::new(),
        log: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Reads and runs one script.
pub fn run_text(text: &str, file: &File, version: IpVersion, flags: &[Flag]) -> RunReport {
    match read(text, version, flags) {
        Ok((script, settings)) => {
            let folder = file.path.parent().map(Path::to_path_buf).unwrap_or_default();
            run(&script, &settings, &ScriptFolder { folder, root: file.root.clone() })
        }
        Err(fault) if fault.no_meaning => skipped(fault.pos, fault.what),
        Err(fault) => failed(fault.pos, "syntax", fault.to_string()),
    }
}

/// Reads a script with its flags and those of the command line.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(
    text: &str,
    version: IpVersion,
    command_line: &[Flag],
) -> Result<(Script, Settings), Fault> {
    let mut parser = Parser::new(text)?;
    let flags = parser.flags()?;
    let settings = Settings::of_run(version, &flags, command_line)?;
    let defines: &Defines = &settings.defines;
    let script = parser.script(flags, settings.ip_version.family(), defines)?;
    Ok((script, settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use IpVersion::{Ipv4, Ipv4MappedIpv6, Ipv6};

    #[test]
    fn no_more_threads_are_started_than_there_are_scripts() {
        assert_eq!(threads(1_000_000, 3), 3);
        assert_eq!(threads(2, 3), 2);
        assert_eq!([threads(7, 0), threads(0, 1)], [1, 1]);
    }

    #[test]
    fn variants_by_name_flag_and_command_line() {
        let file =
            |name: &str| File { path: name.into(), name: name.to_owned(), root: PathBuf::new() };
        let plan = |versions: &[IpVersion]| Plan { versions: versions.to_vec(), ..Plan::default() };
        let versions = |plan: &Plan, name: &str, text: &str| -> Vec<(IpVersion, bool)> {
            plan.jobs_of(0, &file(name), text)
                .into_iter()
                .map(|it| (it.version, it.excluded))
                .collect()
        };
        assert_eq!(versions(&plan(&[]), "a.pkt", ""), [(Ipv4, false)]);
        assert_eq!(versions(&plan(&[]), "a-v6.pkt", ""), [(Ipv6, false)]);
        assert_eq!(versions(&plan(&[]), "a.pkt", "--ip_version=ipv6\n0 x() = 0"), [(Ipv6, false)]);
        assert_eq!(versions(&plan(&[Ipv4]), "a-v6.pkt", ""), [(Ipv4, true)]);
        assert_eq!(
            versions(&plan(&IpVersion::ALL), "a-ipv4.pkt", ""),
            [(Ipv4, false), (Ipv4MappedIpv6, false)]
        );
        assert_eq!(versions(&plan(&IpVersion::ALL), "a.pkt", "").len(), 3);
    }

    /// Editors of Windows begin files with it. Anywhere else it is no text of a script.
    #[test]
    fn a_byte_order_mark_begins_a_script() {
        let script = "--mss=1000\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
        assert!(read(&format!("\u{feff}{script}"), Ipv4, &[]).is_ok());
        let file = File { path: "a.pkt".into(), name: "a.pkt".to_owned(), root: PathBuf::new() };
        let plan = Plan::default();
        let v6 = plan.jobs_of(0, &file, "\u{feff}--ip_version=ipv6\n0 x() = 0");
        assert_eq!(v6[0].version, Ipv6);
        let wrong = read("\u{feff}0 socket(..., SOCK_STREAM, IPPROTO_TCP) == 3", Ipv4, &[]);
        assert_eq!(wrong.unwrap_err().pos.to_string(), "1:42");
        let second = read(&format!("{script}\u{feff}"), Ipv4, &[]);
        assert_eq!(second.unwrap_err().pos.to_string(), "3:1");
    }
}
