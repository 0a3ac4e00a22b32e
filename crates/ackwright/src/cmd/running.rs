//! What the commands share that run until they are stopped (`shape`, `route`, `service`), and those that control them.

use std::os::unix::net::UnixStream;

use datapath::units::Duration;
use iproute::words::Word;
use live::commands::CommandError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Failure;
use crate::interrupt;

/// The directory of control sockets, unless `--ctl` names another place.
pub const FOLDER: &str = "/run/ackwright";

/// The end to read of a pipe into which SIGTERM and Ctrl-C write, and SIGHUP where it [ends](interrupt::ends_by_hangup)
/// the command.
pub fn stop_pipe() -> Result<UnixStream, Failure> {
    let hangup = interrupt::ends_by_hangup().then_some(SIGHUP);
    let made = UnixStream::pair().and_then(|(read, write)| {
        read.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT].into_iter().chain(hangup) {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(read)
    });
    made.map_err(|error| Failure::Other(format!("cannot install signal handlers: {error}")))
}

/// A time in the words of tc, as the value of `option`.
pub fn time(option: &str, text: &str) -> Result<Duration, Failure> {
    iproute::units::time(Word { text, column: 0 }, option)
        .map_err(|error| Failure::Usage(format!("{option}: {}", error.message)))
}

/// A message with the text and a caret below the place.
pub fn pointed(place: &str, text: &str, wrong: &CommandError) -> Failure {
    let before = text.get(..wrong.column).unwrap_or(text).chars().count();
    let (column, caret) = (before + 1, " ".repeat(before));
    Failure::Usage(format!("{place}:{column}: {}\n  {text}\n  {caret}^", wrong.message))
}
