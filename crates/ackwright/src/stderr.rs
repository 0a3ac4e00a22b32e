//! Standard error, as every part of the program writes to it.

/// A line on standard error, as of `eprintln!`, but without a panic if its reader has gone.
macro_rules! stderr_line {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _is_gone = writeln!(std::io::stderr(), $($words)*);
    }};
}
