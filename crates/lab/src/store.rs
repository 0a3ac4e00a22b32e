//! Files: written aside and renamed into place, so that what is there is always whole.
//!
//! A name leads where it leads for any tool of Unix: through symbolic links to their target, and
//! into devices and FIFOs, which are written to and never replaced.

mod earlier;
mod place;
mod series;
pub mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use place::same_file;
pub use series::Label;

use crate::input;
use crate::results::Series;
pub use crate::stems::{distinct_stems, file_stem};
use earlier::FileList;
use place::Destination;

/// A directory that results go to.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    /// What is written is noted, for the next run into the directory.
    listed: Option<Arc<Mutex<FileList>>>,
}

/// A file that is being written. Where it can, it gets its name when it is whole, and vanishes if it
/// is dropped before.
#[derive(Debug)]
pub struct Pending {
    sink: Option<Sink>,
    /// What it is called until it is whole; `None` if it is written through.
    aside: Option<PathBuf>,
    /// Where a symbolic link leads, or else the path.
    target: PathBuf,
    path: PathBuf,
    note: Option<(Arc<Mutex<FileList>>, String)>,
}

#[derive(Debug)]
enum Sink {
    File(io::BufWriter<fs::File>),
    Output(io::BufWriter<io::Stdout>),
}

/// Why a file could not be written.
#[derive(Debug)]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub problem: io::Error,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.problem.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                write!(
                    f,
                    "cannot write {path}: the disk is full; files already written are complete"
                )
            }
            _ => write!(f, "cannot write {path}: {}", self.problem),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// What was asked for is impossible or dangerous, and nothing was tried.
    fn refused(path: &Path, why: &str) -> Self {
        Self { path: path.into(), problem: io::Error::new(io::ErrorKind::InvalidInput, why) }
    }

    /// True if nothing was tried: the arguments are at fault, and not the disk.
    pub fn is_refusal(&self) -> bool {
        self.problem.kind() == io::ErrorKind::InvalidInput
    }
}

/// Standard output, as the name of a file.
pub const STANDARD_OUTPUT: &str = "-";

/// Files that are being written aside, for a signal that ends the program.
static ASIDE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn aside_files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    ASIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all that is half-written. As long as the guard lives, nothing new is begun: end the
/// program under it.
pub fn abandon() -> impl Drop {
    let files = aside_files();
    for file in files.iter() {
        let _ = fs::remove_file(file);
    }
    files
}

/// Begins a file that the user has named; `-` is standard output.
///
/// # Errors
/// When it cannot be made.
pub fn begin(path: &Path) -> Result<Pending, Error> {
    if path.as_os_str() == STANDARD_OUTPUT {
        let sink = Sink::Output(io::BufWriter::new(io::stdout()));
        let (path, target) = (path.into(), path.into());
        return Ok(Pending { sink: Some(sink), aside: None, target, path, note: None });
    }
    let failed = |problem| Error { path: path.into(), problem };
    let (sink, aside, target) = match place::of(path).map_err(failed)? {
        Destination::Through(file) => (file, None, path.to_path_buf()),
        Destination::Replaced { target, permissions } => {
            if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let aside = target.with_file_name(format!(".{name}.part"));
            let mut known = aside_files();
            let file = create_aside(&aside).map_err(failed)?;
            known.insert(aside.clone());
            if let Some(permissions) = permissions {
                // A file system without permissions has none to keep.
                let _ = file.set_permissions(permissions);
            }
            (file, Some(aside), target)
        }
    };
    let sink = Some(Sink::File(io::BufWriter::new(sink)));
    Ok(Pending { sink, aside, target, path: path.into(), note: None })
}

/// Makes the file that is written aside. What a process that was killed has left of one goes; what another process
/// is writing stays: where both would write, the first to end would rename what the second has half-written. Where
/// nothing can be locked, as on some network file systems, nothing prevents that.
fn create_aside(aside: &Path) -> io::Result<fs::File> {
    let left = input::open_result(aside);
    if left.is_ok_and(|left| matches!(left.try_lock(), Err(fs::TryLockError::WouldBlock))) {
        let why = "it is being written already, by another run or under another option; choose another name";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let _ = fs::remove_file(aside);
    let file = fs::OpenOptions::new().write(true).create_new(true).open(aside)?;
    let _ = file.try_lock();
    Ok(file)
}

/// Puts a file in the place of another in one step; nothing half-written is ever seen.
///
/// # Errors
/// When it cannot be written; the old one is then as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    begin(path)?.write_whole(bytes).map(drop)
}

/// A time series of a file; `None` if it is none.
pub fn read_series_file(file: fs::File, name: &str) -> Option<Series> {
    series::read(file, name).ok()
}

impl Store {
    /// Makes the directory and checks that files can be made in it.
    ///
    /// # Errors
    /// When the directory cannot be made or written.
    pub fn create(root: &Path) -> Result<Self, Error> {
        if root.as_os_str() == STANDARD_OUTPUT {
            let why = "standard output cannot take several files: name a directory (./- for one \
                called -)";
            return Err(Error::refused(root, why));
        }
        let fail = |problem| Error { path: root.into(), problem };
        fs::create_dir_all(root).map_err(fail)?;
        let probe = root.join(".ackwright-probe");
        let _ = fs::remove_file(&probe);
        fs::OpenOptions::new().write(true).create_new(true).open(&probe).map_err(fail)?;
        fs::remove_file(&probe).map_err(fail)?;
        Ok(Self { root: root.into(), listed: None })
    }

    /// Makes the directory and checks that results may go there later, by [`results`](Self::results), which
    /// removes those of an earlier run: until then these stay.
    ///
    /// # Errors
    /// As of [`results`](Self::results).
    pub fn check_results(root: &Path) -> Result<(), Error> {
        let store = Self::create(root)?;
        earlier::find(root)?;
        // Whether the disk has room shows with the first byte only.
        let probe = store.root.join(".ackwright-probe");
        let written = fs::write(&probe, b"\n").and_then(|()| fs::remove_file(&probe));
        written.map_err(|problem| {
            let _ = fs::remove_file(&probe);
            Error { path: probe, problem }
        })
    }

    /// The same for all results of one run: what an earlier run has left there is removed, so that
    /// old figures never lie beside new ones. Returns how many files that were.
    ///
    /// # Errors
    /// When there are files in the way which no earlier run has written; nothing is removed then.
    pub fn results(root: &Path, program: &str) -> Result<(Self, usize), Error> {
        Self::results_keeping(root, program, BTreeSet::new())
    }

    /// The same, but for the files that are in `keep`: they stay, and are listed as before.
    ///
    /// # Errors
    /// As of [`results`](Self::results).
    pub fn results_keeping(
        root: &Path,
        program: &str,
        keep: BTreeSet<String>,
    ) -> Result<(Self, usize), Error> {
        let store = Self::create(root)?;
        let removed = earlier::remove(root, &keep)?;
        let listed = FileList::begin(root, program, keep)?;
        Ok((Self { listed: Some(Arc::new(Mutex::new(listed))), ..store }, removed))
    }

    /// Which program has written the results in `root`, if it is known.
    pub fn program_of(root: &Path) -> Option<String> {
        earlier::program(root)
    }

    /// Removes what other processes have left half-written: they have all ended.
    ///
    /// # Errors
    /// When a directory cannot be read, or a file not be removed.
    pub fn remove_parts(&self) -> Result<(), Error> {
        earlier::remove_parts(&self.root)
    }

    /// Lists files that others write, or have written.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn note(&self, names: impl IntoIterator<Item = String>) -> Result<(), Error> {
        let Some(listed) = &self.listed else { return Ok(()) };
        let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let failed = |problem| Error { path: self.root.join(&name), problem };
            listed.note(&name).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes files of these results again.
    pub fn remove<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut listed = self
            .listed
            .as_ref()
            .map(|listed| listed.lock().unwrap_or_else(PoisonError::into_inner));
        for name in names {
            // One that is not there need not be removed.
            let _ = fs::remove_file(self.root.join(name));
            if let Some(listed) = &mut listed {
                listed.unlist(name);
            }
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file whole or not at all; returns its path.
    ///
    /// # Errors
    /// When the file cannot be written; nothing half-written is left.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        self.begin(name)?.write_whole(bytes)
    }

    /// Begins a file that is written bit by bit.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(&self, name: &str) -> Result<Pending, Error> {
        let mut pending = begin(&self.root.join(name))?;
        pending.note = self.listed.as_ref().map(|listed| (Arc::clone(listed), name.to_owned()));
        Ok(pending)
    }

    /// Puts the list of files into an order that does not depend on which thread was first.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sort_list(&self) -> Result<(), Error> {
        let Some(listed) = &self.listed else { return Ok(()) };
        listed.lock().unwrap_or_else(PoisonError::into_inner).sort()
    }

    /// Writes a table as CSV and as Parquet.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_table(&self, csv: &str, parquet: &str, table: &table::Table) -> Result<(), Error> {
        let failed = |name: &str, problem| Error { path: self.root.join(name), problem };
        self.write_csv(csv, table)?;
        let bytes = table.parquet();
        let bytes = bytes.map_err(|error| failed(parquet, io::Error::other(error.to_string())))?;
        self.write(parquet, &bytes).map(drop)
    }

    /// Writes a table as CSV.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_csv(&self, name: &str, table: &table::Table) -> Result<PathBuf, Error> {
        let failed = |problem| Error { path: self.root.join(name), problem };
        self.write(name, &table.csv().map_err(failed)?)
    }

    /// Writes a time series as Parquet: `time_ns` and the series' columns, all 64-bit integers, and
    /// columns that say in each row the same: what the series is of.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_series(
        &self,
        name: &str,
        series: &Series,
        labels: &[(String, Label)],
    ) -> Result<PathBuf, Error> {
        let bytes = series::parquet_bytes(series, labels).map_err(|error| Error {
            path: self.root.join(name),
            problem: io::Error::other(error.to_string()),
        })?;
        self.write(name, &bytes)
    }

    /// Reads a time series back; `None` if there is none, or it is none.
    pub fn read_series(&self, name: &str, series: &str) -> Option<Series> {
        series::read(input::open_result(&self.root.join(name)).ok()?, series).ok()
    }
}

impl Pending {
    fn write_whole(mut self, bytes: &[u8]) -> Result<PathBuf, Error> {
        match self.write_all(bytes) {
            Ok(()) => self.commit(),
            Err(problem) => Err(Error { path: self.path.clone(), problem }),
        }
    }

    /// Gives the file its name; returns its path.
    ///
    /// # Errors
    /// When the rest cannot be written or the file not renamed.
    pub fn commit(mut self) -> Result<PathBuf, Error> {
        match self.finish() {
            Ok(()) => Ok(self.path.clone()),
            Err(problem) => Err(Error { path: self.path.clone(), problem }),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Some((listed, name)) = &self.note {
            listed.lock().unwrap_or_else(PoisonError::into_inner).note(name)?;
        }
        // Some file systems tell of a full disk only here. It stays open, and so locked, until it has its name.
        let _locked = match self.sink.take() {
            Some(Sink::File(file)) => {
                Some(file.into_inner().map_err(io::IntoInnerError::into_error)?)
            }
            _ => None,
        };
        let Some(aside) = &self.aside else { return Ok(()) };
        let mut known = aside_files();
        fs::rename(aside, &self.target)?;
        known.remove(aside);
        self.aside = None;
        Ok(())
    }
}

impl Drop for Pending {
    /// Removes what was written. A leftover that cannot be removed does no harm: its name says
    /// that it is a part.
    fn drop(&mut self) {
        let aborted = self.sink.take();
        if let Some(Sink::File(file)) = aborted {
            // What waits in the buffer is not wanted any more.
            drop(file.into_parts());
        }
        if let Some(aside) = self.aside.take() {
            let mut known = aside_files();
            let _ = fs::remove_file(&aside);
            known.remove(&aside);
        }
    }
}

impl io::Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Some(Sink::File(file)) => file.write(bytes),
            Some(Sink::Output(output)) => output.write(bytes),
            None => Err(io::Error::other("the file is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Some(Sink::File(file)) => file.flush(),
            Some(Sink::Output(output)) => output.flush(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
