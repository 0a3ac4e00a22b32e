//! `ackwright generate`: man pages and completions, for whoever packs the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, ValueEnum as _};
use clap_complete::{Generator as _, Shell};
use clap_mangen::Man;
use lab::store;

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
    fs::create_dir_all(directory)
        .map_err(|error| Failure::Usage(format!("{}: {error}", directory.display())))?;
    match args.what {
        GeneratedFiles::Man => {
            let mut program = program.disable_help_subcommand(true);
            program.build();
            pages(&program, directory)?;
        }
        GeneratedFiles::Completions => completions(program, directory)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for each command and the program.
fn pages(command: &Command, directory: &Path) -> Result<(), Failure> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages(command, directory)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(store::replace(&directory.join(page.get_filename()), &text)?)
}

/// A file for each shell. Their own writer panics on a full disk.
fn completions(mut program: Command, directory: &Path) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    for shell in Shell::value_variants() {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut program, &name, &mut text);
        store::replace(&directory.join(shell.file_name(&name)), &text)?;
    }
    Ok(())
}
