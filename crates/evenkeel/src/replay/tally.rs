//! Counts of a replay, and how they are told: as text, as JSON, and as a line on the terminal meanwhile.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use os::clock::Stopwatch;
use serde_json::json;
use stdx::words::counted;

use super::fleet::Fleet;

/// Servers, and places of what was refused, that the text names.
const SHOWN_MAX: usize = 10;

/// Interval of the line on the terminal.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
const BAR_LEN: u64 = 30;

/// Counts.
#[derive(Debug, Default)]
pub(super) struct ReplayTally {
    pub(super) sent: u64,
    /// Lines that are no deletes.
    pub(super) refused: u64,
    /// Files with such lines.
    pub(super) refused_in: Vec<PathBuf>,
    pub(super) files_done: u64,
    pub(super) files_left: u64,
    /// Deletes in them, as far as they were read.
    pub(super) left: u64,
    pub(super) files_in_use: u64,
    /// Why some are left that have nothing to do with a server: the last reason.
    pub(super) trouble: Option<String>,
    /// An error with which a server has answered.
    pub(super) refusal: Option<String>,
}

impl ReplayTally {
    /// What the user reads at the end. Of a dry run, nothing was sent.
    pub(super) fn text(&self, fleet: &Fleet, is_dry: bool) -> String {
        let servers = fleet.tallies();
        let (mut text, count) =
            (String::new(), servers.iter().filter(|(_, tally, _)| tally.sent > 0).count());
        let mut line = |words: String| {
            writeln!(text, "{words}").expect("writing to memory does not fail");
        };
        match is_dry {
            true => {
                line(format!("{} would be sent, nothing was", counted(self.sent as usize, "delete")));
                for (server, tally, _) in servers.iter().take(SHOWN_MAX) {
                    line(format!("  {} to {server}", tally.sent));
                }
                let more = servers.len().saturating_sub(SHOWN_MAX);
                if more > 0 {
                    line(format!("  others to {}", counted(more, "server")));
                }
            }
            false => line(format!(
                "{} sent to {}; {} done",
                counted(self.sent as usize, "delete"),
                counted(count, "server"),
                counted(self.files_done as usize, "file")
            )),
        }
        if self.files_left > 0 {
            let deletes = if self.left > 0 {
                format!(", {} or more", counted(self.left as usize, "delete"))
            } else {
                String::new()
            };
            line(format!(
                "{} left{deletes}: the same command goes on",
                counted(self.files_left as usize, "file")
            ));
        }
        let troubled = servers.iter().filter(|(_, _, is_away)| *is_away);
        for (server, tally, _) in troubled.clone().take(SHOWN_MAX) {
            let why = tally.trouble.as_deref().unwrap_or("no answer");
            line(format!("  {server} does not answer: {why}"));
        }
        let more = troubled.count().saturating_sub(SHOWN_MAX);
        if more > 0 {
            line(format!("  and {more} others"));
        }
        if let Some(refusal) = &self.refusal {
            line(format!("  a server has answered: {refusal}"));
        }
        if let Some(trouble) = &self.trouble {
            line(format!("  {trouble}"));
        }
        if self.refused > 0 {
            line(match is_dry {
                true => format!("{} no deletes:", counted(self.refused as usize, "line")),
                false => {
                    format!("{} no deletes, moved out of the way:", counted(self.refused as usize, "line"))
                }
            });
            let end = if is_dry { "" } else { super::folder::REFUSED };
            self.refused_in
                .iter()
                .take(SHOWN_MAX)
                .for_each(|path| line(format!("  {}{end}", path.display())));
        }
        if self.files_in_use > 0 {
            line(format!("{} in use, and left alone", counted(self.files_in_use as usize, "file")));
        }
        text
    }

    /// The same for programs.
    pub(super) fn json(&self, fleet: &Fleet, is_dry: bool) -> String {
        let servers: Vec<_> = fleet
            .tallies()
            .iter()
            .map(|(server, tally, is_away)| {
                json!({"server": &**server, "sent": tally.sent, "failures": tally.failures,
                       "is_away": is_away, "trouble": tally.trouble})
            })
            .collect();
        let whole = json!({
            "dry_run": is_dry,
            "sent": self.sent,
            "left": self.left,
            "refused": self.refused,
            "refused_in": self.refused_in,
            "files": {"done": self.files_done, "left": self.files_left, "in_use": self.files_in_use},
            "trouble": self.trouble,
            "refusal": self.refusal,
            "servers": servers,
        });
        format!("{whole}\n")
    }

    /// Notes a file with lines that are no deletes.
    pub(super) fn note_refused(&mut self, count: u64, path: &Path) {
        self.refused += count;
        // JSON names all; a folder full of strange files is not to fill the memory.
        if count > 0 && self.refused_in.len() < 1000 && !self.refused_in.iter().any(|known| known == path) {
            self.refused_in.push(path.to_owned());
        }
    }
}

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
    /// For so many bytes.
    pub(super) fn new(total: u64, is_wanted: bool) -> ProgressLine {
        let is_shown = is_wanted && io::stderr().is_terminal();
        ProgressLine { total, before: 0, sent_before: 0, watch: Stopwatch::start(), is_shown }
    }

    /// Shows how far the present file is read.
    pub(super) fn show(&mut self, offset: u64, sent: u64) {
        if !self.is_shown || self.watch.passed() < PROGRESS_EVERY {
            return;
        }
        self.watch = Stopwatch::start();
        let line = bar(self.before + offset, self.total, self.sent_before + sent);
        // A message is written over it.
        let _ = write!(io::stderr(), "\r\x1b[K{line}\r");
    }

    /// A file is read.
    pub(super) fn advance(&mut self, len: u64, sent: u64) {
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
