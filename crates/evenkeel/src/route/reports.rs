//! The thread that makes reports for clients, and takes the sums for averages every second.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use net::clock::Clock;
use net::{Nudge, Stop};
use os::clock::{Stopwatch, pause, unix_s};
use os::process_stat::{self, ProcessStat, field};
use router::{ProcessFacts, ReportFacts, RouterShared};
use rustix::param::{clock_ticks_per_second, page_size};

use super::unused_memory::UnusedMemory;

/// Time between two readings of the sums.
const TICK_US: u64 = 1_000_000;

/// The shortest time from one round of reports to the next.
const REST_MIN: Duration = Duration::from_millis(5);

/// A round of reports that took a while is followed by a rest of this many times that: reports cost at most a fifth of a
/// CPU, however many clients ask.
const REST: u32 = 4;

/// The longest command line that is reported.
const COMMAND_LINE_MAX: usize = 8192;

/// What the thread works with.
pub(super) struct Reports {
    pub(super) shared: Arc<RouterShared>,
    pub(super) nudge: Nudge,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
}

impl Reports {
    /// Runs until the process ends.
    pub(super) fn run(self) {
        let mut next_tick_us = 0;
        let mut unused = UnusedMemory::default();
        loop {
            let now = self.clock.now();
            if now.us >= next_tick_us {
                self.shared.tick(now);
                tell_time(&self.shared);
                unused.look(now.us, || process().resident_bytes);
                next_tick_us = now.us + TICK_US;
            }
            self.shared.wait_for_orders(Duration::from_micros(next_tick_us - now.us));
            if self.shared.is_asked_to_stop() {
                self.stop.stop();
            }
            let watch = Stopwatch::start();
            let workers = self.shared.serve_reports(|| facts(self.clock));
            if workers.is_empty() {
                continue;
            }
            workers.into_iter().for_each(|worker| self.nudge.nudge(worker));
            pause(REST_MIN.max(watch.passed() * REST));
        }
    }
}

/// Tells the workers the time of day.
pub(super) fn tell_time(shared: &RouterShared) {
    shared.tell_time(i64::try_from(unix_s()).unwrap_or(0));
}

/// Facts of this moment.
pub(super) fn facts(clock: Clock) -> ReportFacts {
    ReportFacts { now: clock.now(), unix_s: unix_s(), process: process() }
}

fn process() -> ProcessFacts {
    let id = std::process::id();
    let text = process_stat::read(id).unwrap_or_default();
    let stat = ProcessStat::parse(&text);
    let number = |field: usize| stat.as_ref().and_then(|stat| stat.field::<u64>(field)).unwrap_or(0);
    let seconds = |field: usize| number(field) as f64 / clock_ticks_per_second() as f64;
    ProcessFacts {
        id,
        parent: number(field::PARENT) as u32,
        user_s: seconds(field::USER_TIME),
        system_s: seconds(field::SYSTEM_TIME),
        minor_faults: number(field::MINOR_FAULTS),
        major_faults: number(field::MAJOR_FAULTS),
        resident_bytes: number(field::RESIDENT_PAGES) * page_size() as u64,
        virtual_bytes: number(field::VIRTUAL_BYTES),
    }
}

/// The words of a command line after the program, on one line.
pub(super) fn command_line(arguments: impl IntoIterator<Item = OsString>) -> String {
    let words: Vec<String> =
        arguments.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command_line: String =
        words.join(" ").chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let end =
        (0..=COMMAND_LINE_MAX.min(command_line.len())).rev().find(|end| command_line.is_char_boundary(*end));
    command_line.truncate(end.unwrap_or(0));
    command_line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_this_process_are_plausible() {
        let facts = process();
        assert_eq!(facts.id, std::process::id());
        assert!(facts.parent > 0 && facts.minor_faults > 0);
        assert!(facts.resident_bytes > 100_000 && facts.virtual_bytes >= facts.resident_bytes);
    }

    #[test]
    fn a_command_line_is_one_line_of_bounded_length() {
        let words = ["evenkeel", "route", "--config-str={\n}"].map(OsString::from);
        assert_eq!(command_line(words), "route --config-str={ }");
        let long = "é".repeat(COMMAND_LINE_MAX);
        assert!(command_line(["evenkeel".into(), long.into()]).len() <= COMMAND_LINE_MAX);
    }
}
