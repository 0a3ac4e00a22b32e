//! Ctrl-C, SIGTERM and SIGHUP: the first one asks for a clean stop where that is possible, the second
//! one ends the program. No file that is half-written stays.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use lab::store;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The flag of a command that stops by itself.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// The signal that came, or 0.
static SIGNAL: AtomicU8 = AtomicU8::new(0);

/// SIGHUP means something else to the command that runs.
static KEEPS_HANGUP: AtomicBool = AtomicBool::new(false);

/// SIGHUP ends nothing from now on: the command that runs has it read its configuration again.
pub fn keep_hangup() {
    KEEPS_HANGUP.store(true, Ordering::Relaxed);
}

/// Whether SIGHUP ends the command that runs.
pub fn ends_by_hangup() -> bool {
    !KEEPS_HANGUP.load(Ordering::Relaxed) && !ignored().has(SIGHUP)
}

/// A flag that the first signal sets. Who asks for it stops by itself.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(Arc::default))
}

/// What the program ends with after it has stopped: 128 and the number of the signal, as shells do.
pub fn exit_code() -> ExitCode {
    let signal = SIGNAL.load(Ordering::Relaxed);
    ExitCode::from(128 + if signal == 0 { SIGINT as u8 } else { signal })
}

/// Its number on all systems that have it.
const SIGXFSZ: i32 = 25;

/// Waits for signals from now on. Those that were ignored when the program began stay so: `nohup`,
/// and jobs in the background of a script, mean it.
pub fn listen() {
    let ignored = ignored();
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.has(*signal));
    let mut signals = match Signals::new(heard) {
        Ok(signals) => signals,
        // They end the program then, and files are renamed into place whole.
        Err(error) => {
            return stderr_line!("warning: cannot install signal handlers: {error}");
        }
    };
    // A file beyond the limit of its size (RLIMIT_FSIZE) is an error of its own then.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP && KEEPS_HANGUP.load(Ordering::Relaxed) {
                continue;
            }
            let first = SIGNAL.swap(signal as u8, Ordering::Relaxed) == 0;
            match FLAG.get() {
                Some(flag) if first => flag.store(true, Ordering::Relaxed),
                _ => end(signal),
            }
        }
    });
}

/// Ends the program without what is half-written.
fn end(signal: i32) -> ! {
    let _nothing_new = store::abandon();
    std::process::exit(128 + signal)
}

/// The signals that are ignored, as bits from signal 1 on.
struct Ignored(u64);

impl Ignored {
    fn has(&self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

fn ignored() -> Ignored {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ignored(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}
