//! The terminal as a screen for live pictures: its alternate screen, its rows, its keys.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use rustix::time::Timespec;

/// Rows if the terminal does not report them.
const ROWS_DEFAULT: usize = 24;

/// Rows of the terminal that pictures are drawn on.
pub(crate) fn rows() -> usize {
    let size = termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(ROWS_DEFAULT)
}

/// The terminal's alternate screen, with keys that are read unbuffered; dropping it restores the main screen.
pub(crate) struct Screen {
    keys: File,
    before: Termios,
}

impl Screen {
    /// `title` is shown until the first picture.
    pub(crate) fn enter(title: &str) -> io::Result<Screen> {
        let keys = File::open("/dev/tty")?;
        let before = termios::tcgetattr(&keys)?;
        let mut raw = before.clone();
        // Ctrl-C arrives as a key, too, so that the terminal is always restored.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        termios::tcsetattr(&keys, OptionalActions::Now, &raw)?;
        let screen = Screen { keys, before };
        io::stdout().write_all(format!("\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J{title}: reading\n").as_bytes())?;
        io::stdout().flush()?;
        Ok(screen)
    }

    /// Waits, and returns whether the user wants to leave: q, Ctrl-C, Ctrl-D.
    pub(crate) fn left_within(&self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).expect("a minute at most");
        if poll(&mut [PollFd::new(&self.keys, PollFlags::IN)], Some(&time))? == 0 {
            return Ok(false);
        }
        let mut key = [0; 16];
        let len = io::Read::read(&mut &self.keys, &mut key)?;
        Ok(len == 0 || key[..len].iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, nobody can be told.
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l").and_then(|()| io::stdout().flush());
        let _ = termios::tcsetattr(&self.keys, OptionalActions::Now, &self.before);
    }
}
