//! Files of vectors, line by line.

use crate::input;
use serde_json::Value;
use std::fmt;
use std::io;
use std::path::Path;

/// Why a file could not be replayed at all.
#[derive(Debug)]
pub enum Error {
    /// It could not be read.
    Io(io::Error),
    /// A line (from 1) is not what the format says.
    Format {
        /// Line in the file, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The first line belongs to no known format.
    UnknownKind,
}

/// Bytes of a file of vectors, unpacked.
const FILE_MAX: u64 = 1 << 30;

/// Every line of a `.jsonl` or `.jsonl.gz` file (gzip is recognised by its magic number).
///
/// # Errors
/// When the file cannot be read or a line is not JSON.
pub fn read_lines(path: &Path) -> Result<Vec<Value>, Error> {
    let text = input::text(input::open_unpacked(path)?, FILE_MAX)?;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value = serde_json::from_str(line)
            .map_err(|error| Error::Format { line: number + 1, problem: error.to_string() })?;
        lines.push(value);
    }
    Ok(lines)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Format { line, problem } => write!(f, "line {line}: {problem}"),
            Self::UnknownKind => write!(f, "not a vector file: its first line has no known keys"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
