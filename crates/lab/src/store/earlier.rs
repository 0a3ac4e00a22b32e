//! What earlier runs have left in a directory of results.
//!
//! Every file is noted in a list before it gets its name, so that the next run knows what it may
//! remove. It removes all of that, and refuses to begin where other files lie among it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Error;
use crate::input;

/// The name of the list.
const LIST: &str = ".ackwright-files";
/// What stands above the names.
const HEAD: &str = "# written by ackwright; the next results written here replace these files\n";
/// Before what the program was that wrote them.
const PROGRAM: &str = "# program ";
/// What results are called, files and directories. Everything else in a directory is not ours.
const RESULTS: [&str; 14] = [
    "summary.json",
    "table.csv",
    "table.tex",
    "runs",
    "results.csv",
    "results.parquet",
    "flows.csv",
    "flows.parquet",
    "series",
    "pcap",
    "flent",
    "plots",
    "explain",
    "view",
];
/// Directories of results are no deeper.
const DEPTH_MAX: u32 = 4;

/// The list of files being written.
#[derive(Debug)]
pub struct FileList {
    path: PathBuf,
    file: File,
    head: String,
    names: BTreeSet<String>,
}

impl FileList {
    /// A list of files that stay, written by this program.
    pub fn begin(root: &Path, program: &str, names: BTreeSet<String>) -> Result<Self, Error> {
        let path = root.join(LIST);
        let failed = |problem| Error { path: path.clone(), problem };
        let head = format!("{HEAD}{PROGRAM}{program}\n");
        super::replace(&path, full_text(&head, &names).as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        Ok(Self { path, file, head, names })
    }

    /// Notes a file that is about to get its name.
    pub fn note(&mut self, name: &str) -> io::Result<()> {
        if self.names.insert(name.into()) {
            self.file.write_all(format!("{name}\n").as_bytes())?;
        }
        Ok(())
    }

    /// A file that has been removed again.
    pub fn unlist(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// Writes the list anew in order.
    pub fn sort(&mut self) -> Result<(), Error> {
        super::replace(&self.path, full_text(&self.head, &self.names).as_bytes())?;
        let failed = |problem| Error { path: self.path.clone(), problem };
        self.file = OpenOptions::new().append(true).open(&self.path).map_err(failed)?;
        Ok(())
    }
}

/// The text of a list.
fn full_text(head: &str, names: &BTreeSet<String>) -> String {
    let mut text = head.to_owned();
    for name in names {
        text.extend([name, "\n"]);
    }
    text
}

/// Which program has written what is below `root`, if one has and said so.
pub fn program(root: &Path) -> Option<String> {
    let text = input::read_result(&root.join(LIST)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(PROGRAM)).map(String::from)
}

/// What an earlier run has written below `root`: files, and directories, each before those in it.
///
/// # Errors
/// Other files lie among it.
pub fn find(root: &Path) -> Result<(Vec<String>, Vec<String>), Error> {
    let known = names(root)?;
    let (there, directories) = all(root)?;
    let (files, foreign): (Vec<String>, Vec<String>) = there
        .into_iter()
        .partition(|name| known.contains(name) || is_part(name) || is_of_listed_run(name, &known));
    if let Some(name) = foreign.first() {
        let why = "no earlier run has written it; choose another directory, or move it away";
        return Err(Error::refused(&root.join(name), why));
    }
    Ok((files, directories))
}

/// Removes what processes that were killed have left of files below `root`.
///
/// # Errors
/// When a directory cannot be read, or a file not be removed.
pub fn remove_parts(root: &Path) -> Result<(), Error> {
    let (files, _) = all(root)?;
    remove_each(root, files.iter().filter(|name| is_part(name)))
}

/// Removes what an earlier run has written below `root`, but for what is in `keep`; returns how
/// many files that were.
pub fn remove(root: &Path, keep: &BTreeSet<String>) -> Result<usize, Error> {
    let (files, directories) = find(root)?;
    let gone: Vec<&String> = files.iter().filter(|name| !keep.contains(*name)).collect();
    remove_each(root, gone.iter().copied())?;
    for name in directories.iter().rev() {
        // One that is not empty has something in it that came meanwhile.
        let _ = fs::remove_dir(root.join(name));
    }
    Ok(gone.iter().filter(|name| !is_part(name)).count())
}

fn remove_each<'a>(root: &Path, names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    for name in names {
        let path = root.join(name);
        fs::remove_file(&path).map_err(|problem| Error { path, problem })?;
    }
    Ok(())
}

/// All files below `root` that are called as results are, and all directories, each before those in
/// it.
fn all(root: &Path) -> Result<(Vec<String>, Vec<String>), Error> {
    let mut files = Vec::new();
    let mut directories = Vec::new();
    for name in RESULTS {
        walk(root, name, 0, &mut files, &mut directories)?;
    }
    Ok((files, directories))
}

/// The names on the list of an earlier run. A last line that was cut off is of a file that was
/// never finished.
fn names(root: &Path) -> Result<BTreeSet<String>, Error> {
    let path = root.join(LIST);
    match input::read_result(&path) {
        Ok(text) => {
            Ok(text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(problem) => Err(Error { path, problem }),
    }
}

/// What a run that was killed has left of a file.
fn is_part(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with('.') && Path::new(file).extension().is_some_and(|end| end == "part")
}

/// A file of a run whose record is listed, though it is not listed itself: another process wrote it,
/// and the list does not yet contain it.
fn is_of_listed_run(name: &str, known: &BTreeSet<String>) -> bool {
    let listed = |run: &str| known.contains(&format!("runs/{run}.json"));
    let Some((folder, rest)) = name.split_once('/') else { return false };
    // The name of a run stands before the end of the name, or before the name of a part of it.
    let end = match folder {
        "series" | "view" => '/',
        "pcap" | "explain" => '-',
        "flows.csv" | "flows.parquet" | "flent" => '.',
        _ => return false,
    };
    rest.match_indices(end).any(|(place, _)| listed(&rest[..place]))
}

/// All files below `name`, with `/` between the parts of their names, and all directories, each
/// before those in it. Links are not followed: they are no files of ours.
fn walk(
    root: &Path,
    name: &str,
    depth: u32,
    files: &mut Vec<String>,
    directories: &mut Vec<String>,
) -> Result<(), Error> {
    let path = root.join(name);
    let failed = |problem| Error { path: path.clone(), problem };
    match fs::symlink_metadata(&path) {
        Ok(known) if known.is_dir() && depth < DEPTH_MAX => {}
        Ok(_) => {
            files.push(name.into());
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    directories.push(name.into());
    let mut inside = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        inside.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    inside.sort();
    for below in inside {
        walk(root, &format!("{name}/{below}"), depth + 1, files, directories)?;
    }
    Ok(())
}
