//! What is looked at: a directory of results, a capture, or a running `shape`.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lab::results::Series;
use serde_json::{Value as Json, json};

use crate::capture::Capture;
use crate::fault::Fault;

/// What is looked at.
#[derive(Debug)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    series: Mutex<RecentCache<Series>>,
    captures: Mutex<RecentCache<Capture>>,
}

/// What is looked at.
#[derive(Debug)]
pub enum Kind {
    /// What `ackwright run --out` has written: its summary.
    Results(Json),
    /// A capture.
    Capture,
    /// The control socket of a running `shape`.
    Live,
}

/// The last few that were asked for.
#[derive(Debug)]
struct RecentCache<T> {
    /// When it was last used, how many bytes it takes, and it itself.
    known: HashMap<PathBuf, (u64, usize, Arc<T>)>,
    clock: u64,
}

impl<T> Default for RecentCache<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), clock: 0 }
    }
}

impl<T> RecentCache<T> {
    /// The one of this path, read if it is not known. Those that were not used for longest go when all together take
    /// more than [`KEPT_BYTES`].
    fn get(
        &mut self,
        path: &Path,
        weigh: impl FnOnce(&T) -> usize,
        read: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<Arc<T>, Fault> {
        self.clock += 1;
        let now = self.clock;
        if let Some((used, _, one)) = self.known.get_mut(path) {
            *used = now;
            return Ok(Arc::clone(one));
        }
        let one = Arc::new(read()?);
        self.known.insert(path.into(), (now, weigh(&one), Arc::clone(&one)));
        while self.known.values().map(|(_, bytes, _)| bytes).sum::<usize>() > KEPT_BYTES {
            let others = self.known.iter().filter(|(_, (used, ..))| *used != now);
            let oldest = others.min_by_key(|(_, (used, ..))| *used).map(|(path, _)| path.clone());
            let Some(oldest) = oldest else { break };
            self.known.remove(&oldest);
        }
        Ok(one)
    }
}

/// What series may take, and what captures may.
const KEPT_BYTES: usize = 768 << 20;

impl Source {
    /// Looks what is there.
    ///
    /// # Errors
    /// Nothing is, or nothing that we know.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let missing = |why: &str| Fault::Missing(format!("{}: {why}", path.display()));
        let known = fs::metadata(path).map_err(|error| missing(&error.to_string()))?;
        let (path, kind) = if known.is_dir() {
            (path.to_owned(), Kind::Results(summary(path)?))
        } else if is_socket(&known) {
            (path.to_owned(), Kind::Live)
        } else if path.file_name().is_some_and(|name| name == SUMMARY) {
            let root = path.parent().unwrap_or(Path::new("")).to_owned();
            let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
            let summary = summary(&root)?;
            (root, Kind::Results(summary))
        } else {
            (path.to_owned(), Kind::Capture)
        };
        let source = Self { path, kind, series: Mutex::default(), captures: Mutex::default() };
        if matches!(source.kind, Kind::Capture) {
            // Report a damaged file before a browser opens.
            source.capture("")?;
        }
        Ok(source)
    }

    /// The runs of its results: each with its point's labels.
    pub fn runs(&self) -> Vec<(&Json, &Json)> {
        let Kind::Results(summary) = &self.kind else { return Vec::new() };
        let points = summary["points"].as_array().into_iter().flatten();
        points
            .flat_map(|point| {
                let runs = point["runs"].as_array().into_iter().flatten();
                runs.map(move |run| (run, &point["labels"]))
            })
            .collect()
    }

    /// The run of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn run(&self, name: &str) -> Result<&Json, Fault> {
        let known = self.runs().into_iter().map(|(run, _)| run).find(|run| run["name"] == name);
        known.ok_or_else(|| Fault::Missing(format!("no run is called \"{name}\"")))
    }

    /// The record of a run: its series, what tc showed.
    ///
    /// # Errors
    /// It is not there or no record.
    pub fn record(&self, run: &str) -> Result<Json, Fault> {
        let known = self.run(run)?;
        let file = format!("runs/{run}.json");
        if self.path.join(&file).exists() {
            return self.json(&file);
        }
        Ok(self.earlier_record(run, known))
    }

    /// The record of a run of an earlier version, which wrote none: from the summary, and the files that there are.
    fn earlier_record(&self, name: &str, run: &Json) -> Json {
        let Kind::Results(summary) = &self.kind else { return Json::Null };
        let points = summary["points"].as_array().into_iter().flatten();
        let is_of = |point: &&Json| {
            point["runs"].as_array().is_some_and(|runs| runs.iter().any(|it| it["name"] == name))
        };
        let of_point = points.filter(is_of).filter_map(|point| point["metrics"].as_array());
        let metrics = of_point.flatten().filter_map(|it| {
            let whole = format!("{} {}", it["scope"].as_str()?, it["metric"].as_str()?);
            let value = run["metrics"].get(whole)?;
            Some(json!([it["scope"], it["metric"], it["unit"], value]))
        });
        let captures = self.names("pcap", &format!("{name}-"), ".pcapng");
        let files = captures.iter().map(|port| format!("pcap/{name}-{port}.pcapng"));
        json!({
            "virtual_time_ns": run["virtual_time_ns"],
            "files": files.collect::<Vec<_>>(),
            "series": self.names(&format!("series/{name}"), "", ".parquet"),
            "metrics": metrics.collect::<Vec<_>>(),
            "distributions": [],
            "tc": [],
        })
    }

    /// A file of JSON below the directory.
    ///
    /// # Errors
    /// It is not there or no JSON.
    pub fn json(&self, file: &str) -> Result<Json, Fault> {
        let path = self.path.join(file);
        let text = lab::input::read_result(&path)
            .map_err(|error| Fault::Missing(format!("{}: {error}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Fault::Broken(format!("{}: {error}", path.display())))
    }

    /// The names of a directory's files that begin and end so, without both, in order.
    pub fn names(&self, directory: &str, begin: &str, end: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(directory)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let stems =
            names.filter_map(|name| Some(name.strip_prefix(begin)?.strip_suffix(end)?.to_owned()));
        stems.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// A series of a run.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn series(&self, run: &str, name: &str) -> Result<Arc<Series>, Fault> {
        self.run(run)?;
        let usual = format!("series/{run}/{}.parquet", plain(name)?);
        // What only `run --view` records lies elsewhere.
        let there = self.path.join(&usual).is_file();
        self.table(&if there { usual } else { format!("view/{run}/{name}.parquet") }, name)
    }

    /// A table of numbers over time.
    ///
    /// # Errors
    /// It is not there or no such table.
    pub fn table(&self, file: &str, name: &str) -> Result<Arc<Series>, Fault> {
        let path = self.path.join(file);
        let mut kept = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&path, weight, || {
            let open = lab::input::open_result(&path)
                .map_err(|error| Fault::Missing(format!("{}: {error}", path.display())))?;
            lab::store::read_series_file(open, name).map(last_shown).ok_or_else(|| {
                Fault::Broken(format!("{}: not a series written by ackwright", path.display()))
            })
        })
    }

    /// A capture of a run by its port; of a source that is a capture, that.
    ///
    /// # Errors
    /// It is not there or no capture.
    pub fn capture_of(&self, run: &str, port: &str) -> Result<Arc<Capture>, Fault> {
        if matches!(self.kind, Kind::Capture) {
            return self.capture("");
        }
        self.run(run)?;
        self.capture(&format!("pcap/{run}-{}.pcapng", plain(port)?))
    }

    fn capture(&self, file: &str) -> Result<Arc<Capture>, Fault> {
        let path = if file.is_empty() { self.path.clone() } else { self.path.join(file) };
        if !file.is_empty() {
            lab::input::open_result(&path)
                .map_err(|error| Fault::Missing(format!("{}: {error}", path.display())))?;
        }
        let mut kept = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&path, Capture::bytes, || Capture::read(&path))
    }
}

/// Bytes of memory of a series.
fn weight(series: &Series) -> usize {
    series.time_ns.len() * (8 + series.columns.len() * size_of::<Option<i64>>())
}

/// A name that leads nowhere else.
///
/// # Errors
/// It does.
pub fn plain(name: &str) -> Result<&str, Fault> {
    let leads = name.contains(['/', '\\', '\0']) || name == ".." || name == "." || name.is_empty();
    if leads { Err(Fault::Missing(format!("\"{name}\" is not a valid name"))) } else { Ok(name) }
}

const SUMMARY: &str = "summary.json";

fn summary(root: &Path) -> Result<Json, Fault> {
    let path = root.join(SUMMARY);
    let text = lab::input::read_result(&path).map_err(|error| {
        let hint = "a directory of results is what `ackwright run FILE --out DIR` writes";
        Fault::Missing(format!("{}: {error}; {hint}", path.display()))
    })?;
    let broken = |what: &str| Fault::Broken(format!("{}: {what}", path.display()));
    let summary: Json = serde_json::from_str(&text).map_err(|error| broken(&error.to_string()))?;
    match summary["schema"].as_u64() {
        Some(1) if summary["points"].is_array() => Ok(summary),
        Some(other) if other != 1 => {
            Err(broken(&format!("schema {other} is not supported, only 1")))
        }
        _ => Err(broken("not a summary written by `ackwright run`")),
    }
}

#[cfg(unix)]
fn is_socket(known: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    known.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_socket(_known: &fs::Metadata) -> bool {
    false
}

/// A flow is shown while it lasts: the last window of one that is finished says nothing.
fn last_shown(mut series: Series) -> Series {
    let life = series.life();
    let shown = life.start.saturating_sub(1)..life.end;
    for column in &mut series.columns {
        let values = column.values.iter().enumerate();
        column.values = values.map(|(at, value)| value.filter(|_| shown.contains(&at))).collect();
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::results::Column;

    #[test]
    fn a_finished_flow_has_no_window_any_more() {
        let column = |name: &str, values: [i64; 6]| Column {
            name: name.into(),
            values: values.map(Some).to_vec().into(),
        };
        let flow = |name: &str| Series {
            name: name.into(),
            time_ns: (1..=6).collect(),
            columns: vec![
                column("throughput_bits_per_sec", [0, 0, 8, 0, 0, 0]),
                column("unacked_segments", [0, 0, 2, 1, 0, 0]),
                column("cwnd_segments", [10; 6]),
            ],
        };
        let shown = last_shown(flow("flow-a"));
        let window: Vec<_> = shown.columns[2].values.iter().collect();
        assert_eq!(window, [None, Some(10), Some(10), Some(10), None, None]);
        assert_eq!(last_shown(flow("port-a")), flow("port-a"), "a queue goes on");
    }
}
