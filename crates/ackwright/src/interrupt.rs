//! Ctrl-C: the first one asks for a clean stop, the second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A flag that Ctrl-C sets.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(install))
}

fn install() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    let installed = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    // Without a handler Ctrl-C still ends the program, and files are renamed into place whole.
    if let Err(error) = installed {
        eprintln!("warning: Ctrl-C cannot be caught: {error}");
    }
    flag
}
