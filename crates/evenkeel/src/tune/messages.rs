//! Notices and progress of jobs, on standard error.

use std::io::{self, IsTerminal, Write};

use tuning::{JobNotice, JobProgress};

use crate::failure::say;

/// A line that stays.
pub(super) fn notice(notice: &JobNotice) {
    say(format_args!("evenkeel: tune: {notice}"));
}

/// A line about this process.
pub(super) fn say_line(line: &str) {
    say(format_args!("evenkeel: tune: {line}"));
}

/// One line of a terminal that is overwritten each time.
pub(super) fn progress(progress: &JobProgress) {
    if io::stderr().is_terminal() {
        // Progress only informs somebody who waits; the job does not depend on it.
        let _ = write!(io::stderr(), "\r\x1b[K{progress}");
    }
}
