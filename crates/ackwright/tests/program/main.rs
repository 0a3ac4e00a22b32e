//! The program as its users run it.

mod cli;
mod common;
mod generate;
mod habits;
mod mistakes;
mod multipath;
#[cfg(unix)]
mod profile;
mod resume;
#[cfg(target_os = "linux")]
mod shape;
