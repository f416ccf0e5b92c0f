//! Notices and progress of jobs, on standard error.

use std::io::{self, IsTerminal, Write};

use tuning::{Notice, Progress};

use crate::failure::say;

/// A line that stays.
pub(super) fn notice(notice: &Notice) {
    say(format_args!("evenkeel: tune: {notice}"));
}

/// One line of a terminal that is written over and over.
pub(super) fn progress(progress: &Progress) {
    if io::stderr().is_terminal() {
        // It is for somebody who waits; nothing is lost without.
        let _ = write!(io::stderr(), "\r\x1b[K{progress}");
    }
}
