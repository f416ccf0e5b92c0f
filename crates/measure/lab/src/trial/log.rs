//! Logs of subjects and loads, of whatever size: their last lines, and words that are waited for.

use crate::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use stdx::escape;

/// At most this many lines of a log are shown.
const LINES_SHOWN: usize = 5;

/// Enough for these lines, if people are to read them.
const END_BYTES: u64 = 8 << 10;

/// The end of a log, in one line.
pub(crate) fn last_lines(log: &Path) -> String {
    let bytes = end(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
        [] => format!(" (its log is empty: {})", log.display()),
        last => format!(": {}", escape::line(&last.join(" / "))),
    }
}

fn end(log: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(END_BYTES)))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(END_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A search for words in what a log gains.
pub(crate) struct LogSearch<'w> {
    wanted: &'w str,
    /// How far it has been read.
    at: u64,
    /// The end of what was read, which may be the beginning of the words.
    before: Vec<u8>,
}

/// Read at once: a log of any size takes no more memory.
const PIECE_BYTES: u64 = 256 << 10;

impl<'w> LogSearch<'w> {
    /// From this place on.
    pub(crate) fn from(at: u64, wanted: &'w str) -> LogSearch<'w> {
        LogSearch { wanted, at, before: Vec::new() }
    }

    /// Whether the words have come since the last call.
    pub(crate) fn finds(&mut self, log: &Path) -> Result<bool, Error> {
        let failed = |source| Error::io("read", log)(source);
        let mut file = File::open(log).map_err(failed)?;
        // One that grows as quickly as it is read has its end where it is now.
        let len = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(self.at)).map_err(failed)?;
        while self.at < len {
            let mut text = std::mem::take(&mut self.before);
            let kept = text.len();
            let piece = PIECE_BYTES.min(len - self.at);
            file.by_ref().take(piece).read_to_end(&mut text).map_err(failed)?;
            if text.len() == kept {
                self.before = text;
                break;
            }
            self.at += (text.len() - kept) as u64;
            if String::from_utf8_lossy(&text).contains(self.wanted) {
                return Ok(true);
            }
            self.before = text.split_off(text.len().saturating_sub(self.wanted.len().saturating_sub(1)));
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::io::Write;

    #[test]
    fn of_a_long_log_only_its_end_is_read() {
        let scratch = Scratch::new("log-end");
        let log = scratch.path().join("log");
        // A hole takes no room: to read it would take all memory.
        let mut file = File::create(&log).expect("a file");
        file.set_len(1 << 40).expect("a hole");
        file.seek(SeekFrom::End(0)).expect("its end");
        file.write_all(b"\none\n\n  \ntwo\nthree\nfour\x1b[2J\nfive\n").expect("room");
        let said = last_lines(&log);
        assert!(said.ends_with(": one / two / three / four\\u001b[2J / five"), "{said}");
        assert!(last_lines(&scratch.path().join("none")).starts_with(" (its log is empty: "));
    }

    #[test]
    fn words_are_found_wherever_the_log_is_cut() {
        let scratch = Scratch::new("log-search");
        let log = scratch.path().join("log");
        let text = "über: not ready\nready für\nready für alle\n".as_bytes();
        for piece in [1, 2, 3, 7, text.len()] {
            std::fs::write(&log, "ready für alle\n").expect("the log of before");
            let mut search = LogSearch::from(log.metadata().expect("a file").len(), "ready für alle");
            let found = text.chunks(piece).position(|piece| {
                let mut file = File::options().append(true).open(&log).expect("a file");
                file.write_all(piece).expect("room");
                search.finds(&log).expect("it can be read")
            });
            assert_eq!(found, Some((text.len() - 2) / piece), "{piece}");
        }
        let mut search = LogSearch::from(0, "");
        std::fs::write(&log, "").expect("empty");
        assert!(!search.finds(&log).expect("it can be read"), "there is no line yet");
        std::fs::write(&log, "\n").expect("a line");
        assert!(search.finds(&log).expect("it can be read"));
    }

    #[test]
    fn a_log_that_was_cut_off_is_no_error() {
        let scratch = Scratch::new("log-cut");
        let log = scratch.path().join("log");
        std::fs::write(&log, "up\n").expect("room");
        assert!(!LogSearch::from(100, "up").finds(&log).expect("it can be read"));
    }
}
