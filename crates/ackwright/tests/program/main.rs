//! The program as its users run it.

mod cli;
mod common;
mod generate;
mod mistakes;
mod multipath;
mod resume;
