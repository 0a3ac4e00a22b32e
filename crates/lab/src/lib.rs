//! The laboratory: experiment files in, tables, time series, captures and plots out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | an experiment file, read and checked |
//! | [`sweep`] | the grid of points, and what repetitions draw |
//! | [`run`] | runs: worlds built, run side by side, measured |
//! | [`Registry`] | what a library user adds to the words of experiment files |
//! | [`results`], [`stats`] | what runs leave behind, and its summary over repetitions |
//! | [`store`], [`output`] | files: summaries, Parquet, captures |
//! | [`published`], [`reproduce`] | published experiments: their figures, and ours beside them |
//! | [`input`] | files that are read whole, up to a size |
//! | [`report`] | results as tables |
//! | [`flent`] | results as flent reads them |
//! | [`plot`] | SVG and PNG |
//! | [`multipath`], [`shared_fib`] | disruption, balance and cost of multipath; a FIB read while it changes |
//! | [`ecmp`] | what-if: load per next hop, what moves when one fails |
//! | [`mod@bench`] | speed |
//! | [`replay`] | captures through qdiscs, and what ACK filters would drop of them |
//! | [`trace`] | what a run did, for Perfetto, for qvis, and as text |
//! | [`vectors`] | replays of traces recorded from the real kernel |
//!
//! ```
//! use lab::plan::Experiment;
//! use lab::run::{Options, run};
//!
//! let text = r#"
//!     schema = 1
//!     name = "one-flow"
//!     duration = "2s"
//!     [nodes.a]
//!     [nodes.b]
//!     [links.wire]
//!     ends = ["a", "b"]
//!     rate = "10mbit"
//!     [flows.transfer]
//!     app = "bulk"
//!     from = "a"
//!     to = "b"
//! "#;
//! let experiment = Experiment::parse("one-flow.toml", text, &[])?;
//! let stop = std::sync::atomic::AtomicBool::new(false);
//! let points = run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(()))?;
//! let goodput = points[0].runs[0].metrics.iter().find(|metric| metric.name == "goodput");
//! assert!(goodput.is_some_and(|metric| (9.0..10.0).contains(&metric.value)));
//!
//! let mistaken = Experiment::parse("mine.toml", &text.replace("rate", "rat"), &[]);
//! assert!(mistaken.unwrap_err().to_string().contains("did you mean \"rate\"?"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
pub mod bench;
mod draw;
pub mod ecmp;
pub mod flent;
pub mod input;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod live;
pub mod multipath;
pub mod output;
pub mod plan;
pub mod plot;
pub mod published;
mod registry;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod run;
mod samples;
pub mod shared_fib;
pub mod stats;
mod stems;
pub mod store;
pub mod sweep;
pub mod trace;
pub mod vectors;

pub use application::{Application, ApplicationKind, FlowPlace, GuestApp};
pub use registry::{NameError, Registry};
