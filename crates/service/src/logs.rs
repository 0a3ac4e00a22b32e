//! Logging to standard error: as text, or as JSON for a log collector.

use crate::config::Log;
use std::io;
use tracing_subscriber::fmt;

/// Begins to log; once in a process.
pub fn begin(log: Log) {
    // If the reader of standard error has gone, there is nowhere to report that.
    let builder = fmt().with_writer(io::stderr).with_target(false).with_ansi(false);
    let builder = builder.log_internal_errors(false);
    let begun = match log {
        Log::Text => tracing::subscriber::set_global_default(builder.finish()),
        Log::Json => tracing::subscriber::set_global_default(
            builder.json().flatten_event(true).with_current_span(false).finish(),
        ),
    };
    begun.expect("nobody else logs in this process");
}
