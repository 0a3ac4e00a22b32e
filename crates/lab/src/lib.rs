//! The laboratory: experiment files in, tables, time series, captures and plots out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | an experiment file, read and checked |
//! | [`sweep`] | the grid of points, and what repetitions draw |
//! | [`vectors`] | replays of traces recorded from the real kernel |

pub mod plan;
pub mod sweep;
pub mod vectors;
