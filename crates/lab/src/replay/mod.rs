//! Real captures through our qdiscs, at their own time stamps.
//!
//! [`Source`] reads a capture record by record and keeps what was asked for, `Line` is a qdisc
//! with the line behind it, [`Tally`] counts. Only what waits in the qdisc is held in memory, so
//! that a capture may be of any size.

pub mod acks;
mod bins;
mod delays;
mod input;
pub(crate) mod line;
mod report;
mod source;
mod tally;

use std::path::Path;

use datapath::qdisc::Sched;
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};
use iproute::tc::Device;
use iproute::words::GrammarError;
use pcap::{Interface, InterfaceId, Writer};

use crate::plan::{excerpt, tc};
use crate::run::Progress;
use crate::store;
use crate::trace::capture::CaptureTrace;
use line::Line;
pub use line::PacketOutcome;
pub use report::Report;
pub use source::{PacketSelection, Source};
pub use tally::Tally;

/// What to do with a capture.
#[derive(Clone, Debug)]
pub struct Options {
    /// The qdiscs as after `tc qdisc add dev DEV root`, outermost first.
    pub qdiscs: Vec<String>,
    /// The rate of the line behind them; without one a packet takes no time.
    pub rate: Option<Rate>,
    /// Which packets go through.
    pub select: PacketSelection,
    /// Seed of the qdiscs' hashes and draws.
    pub seed: u64,
    /// Take a capture that breaks off within a record as ending before it.
    pub partial: bool,
}

/// Why a capture could not be replayed.
#[derive(Debug)]
pub enum Error {
    /// The capture cannot be read, or is none: what, with its place.
    Capture(String),
    /// The words of a qdisc are wrong.
    Words(String),
    /// A file could not be written.
    Store(store::Error),
    /// It was stopped from outside.
    Stopped,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Capture(problem) | Self::Words(problem) => write!(f, "{problem}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for Error {}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// Virtual time at which a capture begins: some clocks take zero for never.
const EPOCH_NS: u64 = 1_000_000_000;

/// Builds the tree of qdiscs; a wrong word is reported with its place in the text.
fn build(texts: &[String], seed: u64) -> Result<Sched, Error> {
    let said = |text: &str, error: &GrammarError| {
        let before = text.get(..error.column).unwrap_or(text).chars().count();
        let help = error
            .nearest
            .as_ref()
            .map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
        let (text, column) = excerpt(text, before + 1);
        let caret = " ".repeat(column - 1);
        format!("--qdisc:1:{}: {}{help}\n  {text}\n  {caret}^", before + 1, error.message)
    };
    for text in texts {
        tc::qdisc(text, &[]).map_err(|error| Error::Words(said(text, &error)))?;
    }
    tc::qdisc_tree(texts, &[], Device::default(), &Rng::stream(seed, 0))
        .map_err(|(index, why)| Error::Words(format!("--qdisc \"{}\": {why}", texts[index])))
}

/// Checks the words of the qdiscs, before anything is read or written.
///
/// # Errors
/// What is wrong with them, and where.
pub fn check(options: &Options) -> Result<(), Error> {
    build(&options.qdiscs, options.seed).map(drop)
}

/// What is written of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// What leaves, as a capture.
    pub out: Option<&'a Path>,
    /// A trace of the queue, for Perfetto.
    pub trace: Option<&'a Path>,
}

/// Replays `capture`; what comes out of it goes to files as well.
///
/// # Errors
/// When the capture or the words are faulty, a file cannot be written, or it was stopped. No file
/// is left half-written.
pub fn replay(
    capture: &Path,
    options: &Options,
    files: Files<'_>,
    progress: &dyn Progress,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<Report, Error> {
    let mut line = Line::new(build(&options.qdiscs, options.seed)?, options.rate);
    let mut source = Source::open(capture, options, progress, stop)?;
    let begin = Instant::from_nanos(EPOCH_NS);
    let (name, words) = (capture.display().to_string(), options.qdiscs.join(", "));
    let trace = files.trace.map(|path| CaptureTrace::create(path, &name, &words, begin));
    let mut sink = Sink {
        tally: Tally::default(),
        output: files.out.map(Output::begin).transpose()?,
        trace: trace.transpose()?,
        failed: None,
    };
    while let Some(arrival) = source.next_arrival()? {
        let now = Instant::from_nanos(EPOCH_NS + arrival.since_start_ns);
        line.run_until(now, &mut |fate| sink.on_departure(&source, &fate));
        sink.tally.entered(now, &arrival.packet);
        line.arrive(now, arrival.packet, arrival.frame, &mut |fate| {
            sink.on_departure(&source, &fate);
        });
        sink.check()?;
        if let Some(trace) = &mut sink.trace {
            trace.on_backlog(now, line.waiting(), line.root());
        }
    }
    line.drain(&mut |fate| sink.on_departure(&source, &fate));
    sink.check()?;
    let Sink { tally, output, trace, .. } = sink;
    trace.map(CaptureTrace::finish).transpose()?;
    let written = output.map(Output::finish).transpose()?;
    Ok(Report {
        capture: capture.display().to_string(),
        qdiscs: options.qdiscs.clone(),
        counts: source.counts(),
        waiting: line.waiting(),
        tc_text: line.tc_text(),
        tc_json: line.tc_json(),
        tally,
        written,
    })
}

/// Where packets go that leave.
struct Sink {
    tally: Tally,
    output: Option<Output>,
    trace: Option<CaptureTrace>,
    /// The first thing that went wrong.
    failed: Option<store::Error>,
}

impl Sink {
    fn on_departure(&mut self, source: &Source<'_>, fate: &PacketOutcome<'_>) {
        self.tally.on_departure(fate);
        if let Some(trace) = &mut self.trace {
            trace.on_departure(fate);
        }
        if let (Some(output), None) = (&mut self.output, &self.failed) {
            self.failed = output.write(source, fate).err();
        }
    }

    fn check(&mut self) -> Result<(), store::Error> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// The capture that is written: what left when it left, and what was dropped with a comment.
struct Output {
    writer: Writer<store::Pending>,
    path: std::path::PathBuf,
    /// The interface of each interface of the source.
    interfaces: Vec<Option<InterfaceId>>,
}

impl Output {
    fn begin(path: &Path) -> Result<Self, store::Error> {
        let pending = store::begin(path)?;
        let failed = |problem| store::Error { path: path.into(), problem };
        Ok(Self {
            writer: Writer::new(pending).map_err(failed)?,
            path: path.into(),
            interfaces: Vec::new(),
        })
    }

    fn write(&mut self, source: &Source<'_>, fate: &PacketOutcome<'_>) -> Result<(), store::Error> {
        let failed = |problem| store::Error { path: self.path.clone(), problem };
        let index = fate.frame.interface;
        if self.interfaces.len() <= index {
            self.interfaces.resize(index + 1, None);
        }
        let id = if let Some(id) = self.interfaces[index] {
            id
        } else {
            let Interface { name, link_type, .. } = source.interfaces()[index].clone();
            let interface = Interface { name, link_type, snap_len: 0 };
            let id = self.writer.add_interface(&interface).map_err(failed)?;
            self.interfaces[index] = Some(id);
            id
        };
        let comment = fate.reason.map(|reason| format!("dropped: {}", reason.name()));
        let nanos = source.epoch_ns() + fate.at.as_nanos().saturating_sub(EPOCH_NS);
        let bytes = fate.bytes();
        self.writer
            .write_frame(id, nanos, &bytes, fate.frame.original_len, comment.as_deref())
            .map_err(failed)
    }

    fn finish(self) -> Result<String, store::Error> {
        let failed = |problem| store::Error { path: self.path.clone(), problem };
        let path = self.writer.finish().map_err(failed)?.commit()?;
        Ok(path.display().to_string())
    }
}
