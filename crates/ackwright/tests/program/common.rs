//! Running the program and looking at what it said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the program.
pub fn ackwright(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ackwright"));
    // Tables are as wide as where nothing is known of the terminal.
    program.env_remove("COLUMNS").args(arguments).output().expect("it starts")
}

/// A directory of its own for each test, empty at the start.
pub fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}

/// Writes a file and gives its path.
pub fn write(directory: &Path, name: &str, text: &str) -> String {
    fs::write(directory.join(name), text).expect("a file for the test");
    path(directory, name)
}

/// The path of what is called `name` in `directory`.
pub fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_string_lossy().into_owned()
}

/// What a program said that must have succeeded.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it complained of.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
