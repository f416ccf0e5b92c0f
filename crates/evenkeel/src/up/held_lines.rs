//! Log lines of the control plane while a cluster starts: written after its heading.

use std::sync::{Mutex, PoisonError};

use os::clock::unix_time;
use stdx::log_level::LogLevel;

use crate::terminal::line_queue::LINES;
use crate::terminal::log;

/// Lines that are kept: a start has a few, and one that never ends has no more.
const LINES_MAX: usize = 100;

/// Lines that wait for the heading, or go out at once when it is there.
pub(super) struct HeldLines(Mutex<Option<Vec<String>>>);

impl Default for HeldLines {
    fn default() -> HeldLines {
        HeldLines(Mutex::new(Some(Vec::new())))
    }
}

impl HeldLines {
    /// Writes a line, or keeps it.
    pub(super) fn say(&self, level: LogLevel, text: &str) {
        let line = log::line(unix_time(), level, "up", text);
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(held) if held.len() < LINES_MAX => held.push(line),
            _ => LINES.say(line),
        }
    }

    /// Writes what was kept, and keeps nothing from now on.
    pub(super) fn release(&self) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        held.into_iter().flatten().for_each(|line| LINES.say(line));
    }
}
