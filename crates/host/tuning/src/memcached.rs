//! Queries of the `stats` of a memcached or Evenkeel.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use os::clock::Stopwatch;
use protocol::client::{Framer, Line, MalformedReply, Piece, command};
use tuner::diagnose::rules::per_second;
use tuner::verify::verification::ObjectiveResult;

/// Longest wait for the whole answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Longest answer; there are about a hundred lines, of 3 KiB in all.
const BYTES_MAX: u64 = 256 << 10;
/// Fewer commands a second are no load.
const COMMANDS_PER_S_MIN: f64 = 1.0;

/// The server's counters by name.
pub(crate) type Stats = BTreeMap<String, u64>;

/// Queries a server.
pub(crate) fn stats(server: &str) -> io::Result<Stats> {
    stats_within(server, TIME_MAX)
}

fn stats_within(server: &str, time_max: Duration) -> io::Result<Stats> {
    let deadline = Deadline { watch: Stopwatch::start(), time_max };
    let mut stream = connect(server, &deadline)?;
    stream.set_write_timeout(Some(deadline.left()?))?;
    let mut request = Vec::new();
    command::stats(&mut request, "");
    stream.write_all(&request)?;
    let mut stream = DeadlineStream { stream, deadline }.take(BYTES_MAX);
    let mut reading = Reading::default();
    let mut received = [0; 4096];
    loop {
        let len = stream.read(&mut received)?;
        if len == 0 {
            return Err(wrong("its stats have no end"));
        }
        if reading.take(&received[..len])? {
            return Ok(reading.stats);
        }
    }
}

/// The part of the answer that has been read.
#[derive(Default)]
struct Reading {
    framer: Framer,
    stats: Stats,
}

impl Reading {
    /// Takes what arrived; `true` once the answer is whole.
    fn take(&mut self, mut received: &[u8]) -> io::Result<bool> {
        while let Some(piece) = self.framer.next(&mut received).map_err(broken)? {
            match piece {
                Piece::Line { line: Line::End, .. } => return Ok(true),
                // A value that is not a number is not a counter: for example, the version.
                Piece::Line { line: Line::Stat { name, value }, .. } => {
                    let value = str::from_utf8(value).ok().and_then(|value| value.trim_ascii().parse().ok());
                    self.stats.extend(value.map(|value| (String::from_utf8_lossy(name).into_owned(), value)));
                }
                Piece::Line { line, .. } => return Err(wrong(format!("it answers stats with {line}"))),
                Piece::Body { .. } => unreachable!("a line that announces a body ends the reading"),
            }
        }
        Ok(false)
    }
}

fn broken(broken: MalformedReply<'_>) -> io::Error {
    wrong(format!("its answer is not a reply: {broken}"))
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// A connection to the first of its addresses that accepts one: nothing may listen at others of the same name.
fn connect(server: &str, deadline: &Deadline) -> io::Result<TcpStream> {
    let mut refused = io::ErrorKind::AddrNotAvailable.into();
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline.left()?) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The end of waiting.
struct Deadline {
    watch: Stopwatch,
    time_max: Duration,
}

impl Deadline {
    fn left(&self) -> io::Result<Duration> {
        let left = self.time_max.checked_sub(self.watch.passed()).filter(|left| !left.is_zero());
        left.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

/// A stream that is read until the deadline, even if some bytes keep arriving.
struct DeadlineStream {
    stream: TcpStream,
    deadline: Deadline,
}

impl Read for DeadlineStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(into)
    }
}

/// Whether the server served meanwhile, and turned no client away.
pub(crate) fn objective(
    server: &str,
    before: io::Result<Stats>,
    after: io::Result<Stats>,
    window_s: f64,
) -> ObjectiveResult {
    let what = format!("memcached {server}");
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => {
            return ObjectiveResult { what, seen: format!("it cannot be asked: {error}"), held: Some(false) };
        }
    };
    // `None`: it does not count that, or did not say so once.
    let grown = |name: &str| Some(after.get(name)?.saturating_sub(*before.get(name)?));
    let is_younger =
        after.get("uptime").zip(before.get("uptime")).is_some_and(|(after, before)| after < before);
    if before.get("pid") != after.get("pid") || is_younger {
        return ObjectiveResult { what, seen: "it was started again meanwhile".into(), held: Some(false) };
    }
    let counts: Vec<u64> = ["cmd_get", "cmd_set", "cmd_touch"].into_iter().filter_map(grown).collect();
    let refusals = [grown("listen_disabled_num"), grown("rejected_connections")];
    let per_s = counts.iter().sum::<u64>() as f64 / window_s;
    let added = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| format!("+{count}"));
    let connections = after.get("curr_connections").map_or("unknown".to_owned(), u64::to_string);
    let [disabled, rejected] = refusals.map(added);
    let seen = format!(
        "{} commands, {connections} connections; listen_disabled_num {disabled}, rejected_connections {rejected}",
        per_second(per_s),
    );
    let turned_away = refusals.into_iter().flatten().reduce(|one, other| one + other);
    match (turned_away, per_s >= COMMANDS_PER_S_MIN) {
        (Some(1..), _) => ObjectiveResult { what, seen, held: Some(false) },
        _ if counts.is_empty() => {
            ObjectiveResult { what, seen: format!("it does not count commands: {seen}"), held: None }
        }
        (None, _) => {
            let seen = format!("it does not count the clients that it turns away: {seen}");
            ObjectiveResult { what, seen, held: None }
        }
        (_, true) => ObjectiveResult { what, seen, held: Some(true) },
        (_, false) => ObjectiveResult { what, seen: format!("no load: {seen}"), held: None },
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn stats(pairs: &[(&str, u64)]) -> io::Result<Stats> {
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[track_caller]
    fn check(before: &[(&str, u64)], after: &[(&str, u64)], held: Option<bool>, seen: &str) {
        let objective = objective("a:1", stats(before), stats(after), 10.0);
        assert_eq!((objective.held, objective.seen.as_str()), (held, seen));
    }

    /// The answer in pieces of `len` bytes.
    fn read(answer: &str, len: usize) -> Result<Stats, String> {
        let mut reading = Reading::default();
        for piece in answer.as_bytes().chunks(len) {
            if reading.take(piece).map_err(|error| error.to_string())? {
                return Ok(reading.stats);
            }
        }
        Err("no end".into())
    }

    #[test]
    fn statistics_that_are_numbers_are_counters() {
        let answer =
            "STAT pid 8\r\nSTAT version 1.6.45\r\nSTAT cmd_get 100\r\nSTAT rusage_user 0.5\r\nEND\r\n";
        for len in 1..=answer.len() {
            let stats = read(answer, len).expect("an answer");
            assert_eq!(stats.into_iter().collect::<Vec<_>>(), [("cmd_get".into(), 100), ("pid".into(), 8)]);
        }
    }

    #[test]
    fn any_other_answer_is_an_error_at_once() {
        for (answer, expected) in [
            ("CLIENT_ERROR unauthenticated\r\n", "it answers stats with \"CLIENT_ERROR unauthenticated\""),
            (
                "STAT pid 8\r\nHTTP/1.1 400 Bad Request\r\n",
                "it answers stats with \"HTTP/1.1 400 Bad Request\"",
            ),
            ("VALUE a 0 2000000000\r\n", "it answers stats with \"VALUE a 0 2000000000\""),
            ("VALUE a\r\n", "its answer is not a reply: found \"VALUE a\", expected VALUE with a key of"),
            ("STAT pid 8\r\nSTAT", "no end"),
            (&"x".repeat(5000), "its answer is not a reply: found \"xxxxxxxx"),
        ] {
            for len in [1, 7, 16 * 1024] {
                let error = read(answer, len).expect_err(answer);
                assert!(error.starts_with(expected), "{error}");
            }
        }
    }

    #[test]
    fn the_objective_holds_if_the_server_serves_and_turns_no_client_away() {
        let before = [("cmd_get", 100), ("listen_disabled_num", 2), ("pid", 8), ("uptime", 50)];
        let still = "listen_disabled_num +0, rejected_connections unknown";
        check(
            &before,
            &[
                ("cmd_get", 700),
                ("curr_connections", 4),
                ("listen_disabled_num", 2),
                ("pid", 8),
                ("uptime", 60),
            ],
            Some(true),
            &format!("60 /s commands, 4 connections; {still}"),
        );
        check(
            &before,
            &[("cmd_get", 100), ("listen_disabled_num", 2), ("pid", 8), ("uptime", 60)],
            None,
            &format!("no load: 0.0 /s commands, unknown connections; {still}"),
        );
        check(
            &before,
            &[("cmd_get", 700), ("listen_disabled_num", 5), ("pid", 8), ("uptime", 60)],
            Some(false),
            "60 /s commands, unknown connections; listen_disabled_num +3, rejected_connections unknown",
        );
        // What it does not count is unknown, and not zero.
        let unknown = "listen_disabled_num unknown, rejected_connections unknown";
        check(
            &[("cmd_get", 100), ("pid", 8)],
            &[("cmd_get", 700), ("pid", 8)],
            None,
            &format!(
                "it does not count the clients that it turns away: 60 /s commands, unknown connections; {unknown}"
            ),
        );
        check(
            &[("pid", 8)],
            &[("pid", 8)],
            None,
            &format!("it does not count commands: 0.0 /s commands, unknown connections; {unknown}"),
        );
        check(&before, &[("pid", 9), ("uptime", 1)], Some(false), "it was started again meanwhile");
    }

    #[test]
    fn a_server_that_is_gone_misses_the_objective() {
        let gone = Err(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(objective("a:1", stats(&[]), gone, 1.0).held, Some(false));
    }

    /// Queries a server that sends this many lines and then closes the connection.
    #[track_caller]
    fn check_end(times: usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Read the request first: a connection that is closed with unread bytes is reset.
            stream.read_exact(&mut [0; 7]).unwrap();
            (0..times).take_while(|_| stream.write_all(b"STAT pid 8\r\n").is_ok()).for_each(drop);
        });
        let error = stats_within(&server, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.to_string(), "its stats have no end");
        answering.join().unwrap();
    }

    #[test]
    fn an_answer_without_end_is_an_error_after_a_close_and_at_the_limit() {
        check_end(1);
        check_end(usize::MAX);
    }

    #[test]
    fn a_server_that_answers_slowly_is_awaited_until_the_deadline_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"STAT pid 8\r\n").is_ok() {
                std::thread::park_timeout(Duration::from_millis(10));
            }
        });
        let error = stats_within(&server, Duration::from_millis(200)).unwrap_err();
        // The kind of the error depends on the call that waits.
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
    }
}
