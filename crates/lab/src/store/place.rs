//! Where the name of a file leads.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};

/// Where a file is written.
pub enum Destination {
    /// Into what is there: a device, a FIFO, an open descriptor.
    Through(File),
    /// Aside, to take the place of the target when it is whole.
    Replaced {
        /// The path behind all symbolic links.
        target: PathBuf,
        /// Those of the file that is there.
        permissions: Option<Permissions>,
    },
}

/// Where `path` leads.
pub fn of(path: &Path) -> io::Result<Destination> {
    let known = match fs::metadata(path) {
        Ok(known) => Some(known),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match known {
        Some(known) if known.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Some(known) if !known.is_file() || is_descriptor(path) => {
            let mut options = OpenOptions::new();
            options.write(true).truncate(known.is_file());
            Ok(Destination::Through(options.open(path)?))
        }
        Some(known) => {
            // Who may not write to a file may not replace it either.
            OpenOptions::new().write(true).open(path)?;
            let target = fs::canonicalize(path)?;
            Ok(Destination::Replaced { target, permissions: Some(known.permissions()) })
        }
        None => {
            let target = resolve_links(path)?;
            match target.file_name() {
                Some(_) => Ok(Destination::Replaced { target, permissions: None }),
                None => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "this is not the name of a file",
                )),
            }
        }
    }
}

/// A file that is already open, under a name of its own.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"].iter().any(|open| path.starts_with(open))
}

/// The path that a symbolic link to nothing leads to.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            // An absolute target takes the place of the whole path.
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Links that are followed, as in Linux (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// True if both paths lead to one regular file.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let known = |path| fs::metadata(path).ok().filter(Metadata::is_file);
    match (known(one), known(other)) {
        (Some(a), Some(b)) => is_same(&a, &b, one, other),
        _ => false,
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata, _: &Path, _: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata, one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(a), Ok(b)) if a == b)
}
