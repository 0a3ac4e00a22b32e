//! The terminal while something is watched in it: keys come one by one and are not shown, and what stood
//! there before comes back at the end, however that comes.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use console::Term;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// How soon a signal is seen.
const LOOK: u8 = 50;

/// A terminal that was taken.
pub struct Screen {
    terminal: Term,
    /// How keys were read before; `None` where standard input is no terminal.
    before: Option<Termios>,
}

impl Screen {
    /// Takes `terminal`: its other screen, without a cursor.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn open(terminal: Term) -> io::Result<Self> {
        let input = io::stdin();
        let before = tcgetattr(&input).ok().filter(|_| input.is_terminal());
        if let Some(mut modes) = before.clone() {
            // Ctrl-C stays a signal.
            modes.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
            tcsetattr(&input, SetArg::TCSANOW, &modes)?;
        }
        terminal.write_str("\x1b[?1049h\x1b[?25l")?;
        Ok(Self { terminal, before })
    }

    /// Rows and columns.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size()
    }

    /// Shows `text` and nothing else.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn show(&self, text: &str) -> io::Result<()> {
        self.terminal.clear_screen()?;
        self.terminal.write_line(text)
    }

    /// Waits for so long; true if `q` was pressed or `stopped` set meanwhile.
    pub fn wait_for_exit(&self, longest: Duration, stopped: &AtomicBool) -> bool {
        let over = Instant::now() + longest;
        loop {
            if stopped.load(Ordering::Relaxed) {
                return true;
            }
            let left = over.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let look = left.min(Duration::from_millis(LOOK.into()));
            if self.before.is_none() {
                std::thread::sleep(look);
            } else if quits_within(look) {
                return true;
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal has gone, there is nothing to restore.
        let _ = self.terminal.write_str("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

/// Whether `q` is pressed within `longest`; a signal ends the wait as well.
fn quits_within(longest: Duration) -> bool {
    let input = io::stdin();
    let mut waited = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    // Less than a millisecond is rounded up to one, so that this does not spin.
    let timeout = PollTimeout::from(longest.as_millis().clamp(1, LOOK.into()) as u8);
    if poll(&mut waited, timeout).unwrap_or(0) == 0 {
        return false;
    }
    let mut input = input.lock();
    let Some(keys) = input.fill_buf().ok().filter(|keys| !keys.is_empty()) else {
        // A terminal that has gone is ready for ever.
        std::thread::sleep(longest);
        return false;
    };
    let (quits, len) = (keys.iter().any(|key| matches!(key, b'q' | b'Q')), keys.len());
    input.consume(len);
    quits
}
