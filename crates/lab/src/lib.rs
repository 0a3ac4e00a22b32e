//! lab

pub mod vectors;
