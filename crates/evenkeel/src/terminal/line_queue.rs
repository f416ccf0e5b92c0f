//! Lines for the operator that a thread of their own writes: who has something to say does not wait for whoever reads it.
//!
//! Standard error may be a pipe whose reader has stopped, or a terminal that is held (Ctrl-S). A thread that writes to it then
//! waits for as long as that lasts, and so would everybody whose requests it serves.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use os::clock::unix_time;
use stdx::log_level::LogLevel;
use stdx::words::counted;

use crate::failure::say;
use crate::terminal::log;

/// Lines of the process. Many come from threads that serve requests.
pub(crate) static LINES: LineQueue = LineQueue::new();

/// Time for lines that are not written yet at the end. The next process of a supervisor waits for it.
pub(crate) const LAST_LINES: Duration = Duration::from_millis(200);

/// Bytes of lines that wait: many minutes of what a server or a router says, and little beside what it needs otherwise.
const WAITING_MAX: usize = 1024 * 1024;

/// Lines of the process, once [`LineQueue::start`] was called; before, they are written at once.
pub(crate) struct LineQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    lines: VecDeque<String>,
    /// Of all lines.
    bytes: usize,
    /// Lines for which there was no room, since the last that was taken.
    left_out: u64,
    has_writer: bool,
    /// The writer has taken a line, and is not back.
    is_writing: bool,
}

impl LineQueue {
    pub(crate) const fn new() -> LineQueue {
        let waiting =
            Waiting { lines: VecDeque::new(), bytes: 0, left_out: 0, has_writer: false, is_writing: false };
        LineQueue { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Starts the thread that writes, which ends with the process.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(|| self.write(|line| say(format_args!("{line}"))))?;
        self.waiting().has_writer = true;
        Ok(())
    }

    /// Says a line. Never waits for its reader once the thread runs.
    pub(crate) fn say(&self, line: String) {
        let mut waiting = self.waiting();
        if !waiting.has_writer {
            drop(waiting);
            return say(format_args!("{line}"));
        }
        if waiting.bytes + line.len() > WAITING_MAX {
            waiting.left_out += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        self.changed.notify_all();
    }

    /// Waits until all lines are written, at most this long.
    pub(crate) fn finish(&self, at_most: Duration) {
        let is_busy =
            |waiting: &mut Waiting| waiting.has_writer && (waiting.is_writing || !waiting.lines.is_empty());
        // Whether they are or not: there is nothing else to do about it.
        drop(self.changed.wait_timeout_while(self.waiting(), at_most, is_busy));
    }

    fn write(&self, mut write: impl FnMut(&str)) -> ! {
        loop {
            let (line, left_out) = self.next();
            write(&line);
            if left_out > 0 {
                let lines = counted(left_out as usize, "line");
                let text = format_args!("{lines} left out: standard error was not read in time");
                write(&log::line(unix_time(), LogLevel::Warning, "log", text));
            }
        }
    }

    /// Waits for the next line. With it comes the number of those that were left out after it had come.
    fn next(&self) -> (String, u64) {
        let mut waiting = self.waiting();
        waiting.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                waiting.is_writing = true;
                // They came after the last of those that wait.
                let is_last = waiting.lines.is_empty();
                let left_out = if is_last { std::mem::take(&mut waiting.left_out) } else { 0 };
                return (line, left_out);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue whose writer does not come back.
    fn queue() -> LineQueue {
        let queue = LineQueue::new();
        queue.waiting().has_writer = true;
        queue
    }

    #[test]
    fn lines_come_in_their_order_and_what_has_no_room_is_counted() {
        let queue = queue();
        let line = "x".repeat(WAITING_MAX / 4);
        for number in 0..7 {
            queue.say(format!("{number}{}", &line[1..]));
        }
        let taken: Vec<_> = (0..4).map(|_| queue.next()).collect();
        let taken: Vec<_> = taken.iter().map(|(line, left_out)| (&line[..1], *left_out)).collect();
        assert_eq!(taken, [("0", 0), ("1", 0), ("2", 0), ("3", 3)]);
        queue.say("later".to_owned());
        assert_eq!(queue.next(), ("later".to_owned(), 0));
    }

    #[test]
    fn the_end_waits_for_lines_but_not_for_ever() {
        let queue = queue();
        queue.finish(Duration::from_secs(3600));
        queue.say("a line".to_owned());
        queue.finish(Duration::from_millis(1));
        queue.next();
        queue.finish(Duration::from_millis(1));
    }
}
