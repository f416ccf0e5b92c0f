//! The line on the terminal while a replay goes on.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use os::clock::Stopwatch;
use replay::ReplayStep;
use stdx::words::counted;

/// Interval of the line on the terminal.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
const BAR_LEN: u64 = 30;

/// The line on the terminal.
pub(super) struct ProgressLine {
    total: u64,
    /// Bytes of files that are read.
    before: u64,
    sent_before: u64,
    watch: Stopwatch,
    is_shown: bool,
}

impl ProgressLine {
    pub(super) fn new(is_wanted: bool) -> ProgressLine {
        let is_shown = is_wanted && io::stderr().is_terminal();
        ProgressLine { total: 0, before: 0, sent_before: 0, watch: Stopwatch::start(), is_shown }
    }

    pub(super) fn take(&mut self, step: ReplayStep) {
        match step {
            ReplayStep::Listed { len } => self.total = len,
            ReplayStep::Reading { offset, sent } => self.show(offset, sent),
            ReplayStep::Read { len, sent } => self.advance(len, sent),
        }
    }

    /// Shows how far the present file is read.
    fn show(&mut self, offset: u64, sent: u64) {
        if !self.is_shown || self.watch.passed() < PROGRESS_EVERY {
            return;
        }
        self.watch = Stopwatch::start();
        let line = bar(self.before + offset, self.total, self.sent_before + sent);
        // A message is written over it.
        let _ = write!(io::stderr(), "\r\x1b[K{line}\r");
    }

    /// A file is read.
    fn advance(&mut self, len: u64, sent: u64) {
        self.before += len;
        self.sent_before += sent;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Files are tried again and others come, so the part of the total is not the whole truth; it is never beyond it.
fn bar(read: u64, total: u64, sent: u64) -> String {
    let read = read.min(total);
    let full = (read * BAR_LEN).checked_div(total).unwrap_or(BAR_LEN);
    let percent = (read * 100).checked_div(total).unwrap_or(100);
    let (full, empty) = ("#".repeat(full as usize), ".".repeat((BAR_LEN - full) as usize));
    format!("[{full}{empty}] {percent:>3} %  {} sent", counted(sent as usize, "delete"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_between_nothing_and_all() {
        assert_eq!(bar(0, 10, 0), format!("[{}]   0 %  0 deletes sent", ".".repeat(30)));
        assert_eq!(bar(5, 10, 1), format!("[{}{}]  50 %  1 delete sent", "#".repeat(15), ".".repeat(15)));
        assert_eq!(bar(25, 10, 7), format!("[{}] 100 %  7 deletes sent", "#".repeat(30)));
        assert_eq!(bar(0, 0, 0), format!("[{}] 100 %  0 deletes sent", "#".repeat(30)));
    }
}
