//! The laboratory: experiment files in, tables, time series, captures and plots out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | an experiment file, read and checked |
//! | [`sweep`] | the grid of points, and what repetitions draw |
//! | [`results`], [`stats`] | what runs leave behind, and its summary over repetitions |
//! | [`store`] | files: summaries, Parquet, captures |
//! | [`plot`] | SVG and PNG |
//! | [`vectors`] | replays of traces recorded from the real kernel |

pub mod plan;
pub mod plot;
pub mod results;
pub mod stats;
pub mod store;
pub mod sweep;
pub mod vectors;
