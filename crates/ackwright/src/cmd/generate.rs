//! `ackwright generate`: man pages and completions, for whoever packs the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, ValueEnum as _};
use clap_complete::Shell;

use super::{Failure, Outcome};

/// Arguments of `ackwright generate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright generate man ~/.local/share/man/man1
  ackwright generate completions completions        bash, elvish, fish, PowerShell, zsh")]
pub struct Args {
    /// What to write
    #[arg(value_enum)]
    what: GeneratedFiles,
    /// Directory to write to; created if missing
    directory: PathBuf,
}

/// What can be written.
#[derive(Clone, Copy, clap::ValueEnum)]
enum GeneratedFiles {
    /// A page for the program and one for each command, in section 1
    Man,
    /// A file for each shell, named as that shell looks for it
    Completions,
}

/// Writes the files; `program` is the command line that they describe.
pub fn run(args: &Args, program: Command) -> Outcome {
    let directory = &args.directory;
    let written = fs::create_dir_all(directory).and_then(|()| match args.what {
        GeneratedFiles::Man => clap_mangen::generate_to(program, directory),
        GeneratedFiles::Completions => completions(program, directory),
    });
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::Usage(format!("{}: {error}", directory.display()))),
    }
}

/// A file for each shell.
fn completions(mut program: Command, directory: &Path) -> std::io::Result<()> {
    let name = program.get_name().to_owned();
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut program, &name, directory)?;
    }
    Ok(())
}
