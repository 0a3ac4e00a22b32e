//! Files: written aside and renamed into place, so that what is there is always whole.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::results::Series;

/// A directory that results go to.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A file that is being written and gets its name when it is whole. Dropped before, it vanishes.
#[derive(Debug)]
pub struct Pending {
    file: Option<io::BufWriter<fs::File>>,
    aside: PathBuf,
    path: PathBuf,
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
                write!(f, "cannot write {path}: the disk is full; files already there are whole")
            }
            _ => write!(f, "cannot write {path}: {}", self.problem),
        }
    }
}

impl std::error::Error for Error {}

/// Puts a file in the place of another in one step; nothing half-written is ever seen.
///
/// # Errors
/// When it cannot be written; the old one is then as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into());
    let store = Store { root: directory.unwrap_or(Path::new(".")).into() };
    store.write(&name, bytes).map(drop)
}

impl Store {
    /// Makes the directory and checks that files can be made in it.
    ///
    /// # Errors
    /// When the directory cannot be made or written.
    pub fn create(root: &Path) -> Result<Self, Error> {
        let fail = |problem| Error { path: root.into(), problem };
        fs::create_dir_all(root).map_err(fail)?;
        let probe = root.join(".ackwright-probe");
        fs::write(&probe, b"").map_err(fail)?;
        fs::remove_file(&probe).map_err(fail)?;
        Ok(Self { root: root.into() })
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
        let mut pending = self.begin(name)?;
        match pending.write_all(bytes) {
            Ok(()) => pending.commit(),
            Err(problem) => Err(Error { path: pending.path.clone(), problem }),
        }
    }

    /// Begins a file that is written bit by bit.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(&self, name: &str) -> Result<Pending, Error> {
        let (path, aside) = self.paths(name);
        let made = aside.parent().map_or(Ok(()), fs::create_dir_all);
        match made.and_then(|()| fs::File::create(&aside)) {
            Ok(file) => Ok(Pending { file: Some(io::BufWriter::new(file)), aside, path }),
            Err(problem) => Err(Error { path, problem }),
        }
    }

    /// Where a file will be, and where it is until it is whole.
    fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        let path = self.root.join(name);
        let file = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into());
        let aside = path.with_file_name(format!(".{file}.part"));
        (path, aside)
    }

    /// Writes a time series as Parquet: `time_ns` and the series' columns, all 64-bit integers.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_series(&self, name: &str, series: &Series) -> Result<PathBuf, Error> {
        let bytes = parquet_bytes(series).map_err(|error| Error {
            path: self.root.join(name),
            problem: io::Error::other(error.to_string()),
        })?;
        self.write(name, &bytes)
    }
}

impl Pending {
    /// Gives the file its name; returns its path.
    ///
    /// # Errors
    /// When the rest cannot be written or the file not renamed.
    pub fn commit(mut self) -> Result<PathBuf, Error> {
        let flushed = match self.file.take().map(io::BufWriter::into_inner) {
            Some(Ok(_)) | None => Ok(()),
            Some(Err(error)) => Err(error.into_error()),
        };
        match flushed.and_then(|()| fs::rename(&self.aside, &self.path)) {
            Ok(()) => Ok(self.path.clone()),
            Err(problem) => {
                self.discard();
                Err(Error { path: self.path.clone(), problem })
            }
        }
    }

    /// Removes what was written. A leftover that cannot be removed harms nobody: its name says
    /// that it is a part.
    fn discard(&self) {
        let _ = fs::remove_file(&self.aside);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.file.is_some() {
            self.discard();
        }
    }
}

impl io::Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::Error::other("the file is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), io::Write::flush)
    }
}

/// The bytes of a Parquet file.
fn parquet_bytes(series: &Series) -> parquet::errors::Result<Vec<u8>> {
    let mut fields = vec![field("time_ns", Repetition::REQUIRED)?];
    for column in &series.columns {
        fields.push(field(&column.name, Repetition::OPTIONAL)?);
    }
    let schema = Type::group_type_builder("samples").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("ackwright".into())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&series.time_ns, None, None)?;
        column.close()?;
    }
    for values in series.columns.iter().map(|column| &column.values) {
        let Some(mut column) = group.next_column()? else { break };
        let present: Vec<i64> = values.iter().filter_map(|value| *value).collect();
        let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
        column.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(name: &str, repetition: Repetition) -> parquet::errors::Result<Arc<Type>> {
    let built = Type::primitive_type_builder(name, PhysicalType::INT64)
        .with_repetition(repetition)
        .build()?;
    Ok(Arc::new(built))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Column;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn scratch(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("ackwright-store-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the test");
        dir
    }

    #[test]
    fn a_series_comes_back_from_parquet() {
        let store = Store::create(&scratch("series")).unwrap();
        let series = Series {
            name: "flow-a".into(),
            time_ns: vec![0, 10, 20],
            columns: vec![Column {
                name: "cwnd_segments".into(),
                values: vec![Some(10), None, Some(20)],
            }],
        };
        let path = store.write_series("a/b.parquet", &series).unwrap();
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2].get_long(0).unwrap(), 20);
        assert_eq!(rows[2].get_long(1).unwrap(), 20);
        assert!(rows[1].get_long(1).is_err(), "an unknown value is null");
        assert_eq!(parquet_bytes(&series).unwrap(), parquet_bytes(&series).unwrap());
        fs::remove_dir_all(store.root()).unwrap();
    }

    #[test]
    fn an_unwritable_place_is_a_clear_error() {
        let dir = scratch("file");
        let file = dir.join("plain");
        fs::write(&file, b"x").unwrap();
        let error = Store::create(&file).unwrap_err().to_string();
        assert!(error.starts_with("cannot write"), "{error}");
        let store = Store::create(&dir).unwrap();
        let error = store.write("plain/below", b"y").unwrap_err().to_string();
        assert!(error.contains("plain"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_not_committed_vanishes() {
        let store = Store::create(&scratch("pending")).unwrap();
        let mut pending = store.begin("x").unwrap();
        pending.write_all(b"half").unwrap();
        drop(pending);
        assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0);
        fs::remove_dir_all(store.root()).unwrap();
    }

    #[test]
    fn a_file_that_is_there_is_replaced_whole() {
        let store = Store::create(&scratch("replace")).unwrap();
        store.write("x", b"old and long").unwrap();
        let path = store.write("x", b"new").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"new");
        let left = fs::read_dir(store.root()).unwrap().count();
        assert_eq!(left, 1, "nothing is left aside");
        fs::remove_dir_all(store.root()).unwrap();
    }
}
