//! Lines of a controller for people: those that wait for the log, and those that are said at once.

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::log_level::LogLevel;

use crate::service::SayLine;

/// Lines that wait to be written, the oldest of which are lost.
pub(super) const LOG_LINES_MAX: usize = 64;

/// The lines, and who writes them.
pub(super) struct ControllerLog {
    waiting: VecDeque<String>,
    say: SayLine,
}

impl Default for ControllerLog {
    fn default() -> ControllerLog {
        ControllerLog { waiting: VecDeque::new(), say: Arc::new(|_, _: &str| {}) }
    }
}

impl ControllerLog {
    /// Says lines to `say` from now on.
    pub(super) fn say_to(&mut self, say: SayLine) {
        self.say = say;
    }

    /// Says a line at once.
    pub(super) fn say(&self, level: LogLevel, line: &str) {
        (self.say)(level, line);
    }

    /// Adds a line to those that wait.
    pub(super) fn add(&mut self, line: String) {
        if self.waiting.len() >= LOG_LINES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(line);
    }

    /// Takes the lines that wait, the oldest first.
    pub(super) fn take(&mut self) -> impl Iterator<Item = String> + use<> {
        std::mem::take(&mut self.waiting).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_are_lost_when_nobody_takes_them() {
        let mut log = ControllerLog::default();
        for number in 0..LOG_LINES_MAX + 2 {
            log.add(number.to_string());
        }
        let lines: Vec<String> = log.take().collect();
        assert_eq!((lines.len(), lines[0].as_str()), (LOG_LINES_MAX, "2"));
        assert_eq!(log.take().count(), 0);
    }
}
