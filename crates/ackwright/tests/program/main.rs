//! The program as its users run it.

mod cli;
mod common;
mod mistakes;
mod multipath;
mod resume;
