//! The log of verbs that run long, on standard error: each line has a time in UTC, a level, the verb and a text, as text or as an
//! object of JSON (`--log json`).
//!
//! What a verb prints for the person who has typed it (an error before it begins, a plan, a result) is no log.

use std::fmt::Display;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use os::clock::unix_time;
use stdx::log_level::LogLevel;
use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;
use time::format_description::well_known::iso8601::{Config, EncodedConfig, TimePrecision};

use crate::terminal::line_queue::{LAST_LINES, LINES};

/// `2026-11-28T19:44:49.123Z`: milliseconds, so that lines of several hosts can be put in order.
const STAMP: EncodedConfig =
    Config::DEFAULT.set_time_precision(TimePrecision::Second { decimal_digits: NonZero::new(3) }).encode();

/// Whether lines are JSON. The log is the process's, and so is its format.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// A line as an object of JSON.
#[derive(serde::Serialize)]
struct JsonLine<'l> {
    ts: &'l str,
    level: &'l str,
    verb: &'l str,
    text: &'l str,
}

/// From now on, lines are JSON.
pub(crate) fn write_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Whether lines are JSON.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// A line about what ends the process.
pub(crate) fn error(subject: &str, text: impl Display) {
    log(LogLevel::Error, subject, text);
    LINES.finish(LAST_LINES);
}

/// A line about something that an operator may want to know. `subject` is the verb.
pub(crate) fn info(subject: &str, text: impl Display) {
    log(LogLevel::Info, subject, text);
}

/// A line about something that an operator should look at.
pub(crate) fn warning(subject: &str, text: impl Display) {
    log(LogLevel::Warning, subject, text);
}

/// A line of this level.
pub(crate) fn log(level: LogLevel, subject: &str, text: impl Display) {
    LINES.say(line(unix_time(), level, subject, text));
}

/// The line as it is written.
pub(crate) fn line(at: Duration, level: LogLevel, subject: &str, text: impl Display) -> String {
    let stamp = stamp(at);
    if !is_json() {
        return as_text(&stamp, level, subject, text);
    }
    as_json(&stamp, level, subject, &text.to_string())
}

fn as_text(stamp: &str, level: LogLevel, subject: &str, text: impl Display) -> String {
    format!("{stamp} {} {subject}: {text}", level.name())
}

fn as_json(stamp: &str, level: LogLevel, subject: &str, text: &str) -> String {
    let line = JsonLine { ts: stamp, level: level.name(), verb: subject, text };
    serde_json::to_string(&line).expect("texts become JSON")
}

fn stamp(at: Duration) -> String {
    let seconds = i64::try_from(at.as_secs()).ok();
    let time = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let time = time.map(|time| time + Duration::from_nanos(at.subsec_nanos().into()));
    let stamp = time.and_then(|time| time.format(&Iso8601::<STAMP>).ok());
    // A clock that no calendar goes to must not keep a line back.
    stamp.unwrap_or_else(|| format!("{:.3}", at.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(millis: u64, level: LogLevel, expected: &str) {
        assert_eq!(line(Duration::from_millis(millis), level, "serve", "a text"), expected);
    }

    #[test]
    fn a_line_of_json_has_the_same_fields() {
        let line = as_json("1970-01-01T00:00:00.000Z", LogLevel::Info, "serve", "a \"text\"\nof two lines");
        let expected = r#"{"ts":"1970-01-01T00:00:00.000Z","level":"info","verb":"serve","text":"a \"text\"\nof two lines"}"#;
        assert_eq!(line, expected);
    }

    #[test]
    fn a_line_has_time_level_subject_and_text() {
        check(0, LogLevel::Error, "1970-01-01T00:00:00.000Z error serve: a text");
        check(951_782_400_120, LogLevel::Warning, "2000-02-29T00:00:00.120Z warning serve: a text");
        check(1_735_689_599_999, LogLevel::Info, "2024-12-31T23:59:59.999Z info serve: a text");
        check(u64::MAX, LogLevel::Info, "18446744073709552.000 info serve: a text");
    }
}
