//! TCP as Linux does it. The connection is split by responsibility; see each module.

pub mod config;
pub mod seq;
