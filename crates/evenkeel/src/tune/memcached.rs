//! A memcached or Evenkeel, asked for its `stats`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use tuner::rules::per_second;
use tuner::verification::Objective;

/// Longest wait for it.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Longest answer, in lines; there are about a hundred.
const LINES_MAX: usize = 10_000;
/// Fewer commands a second are no load.
const COMMANDS_PER_S_MIN: f64 = 1.0;

/// Its counters by name.
pub(super) type Stats = BTreeMap<String, u64>;

/// Asks.
pub(super) fn stats(server: &str) -> io::Result<Stats> {
    let address = server.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&address, TIME_MAX)?;
    stream.set_read_timeout(Some(TIME_MAX))?;
    stream.set_write_timeout(Some(TIME_MAX))?;
    stream.write_all(b"stats\r\n")?;
    let mut stats = Stats::new();
    for line in BufReader::new(stream).lines().take(LINES_MAX) {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["END"] => return Ok(stats),
            ["STAT", name, value] => {
                // What is no number is no counter: the version, for one.
                stats.extend(value.parse().map(|value| (name.to_owned(), value)));
            }
            _ => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it does not answer as memcached does"))
}

/// Whether it served meanwhile, and turned nobody away.
pub(super) fn objective(
    server: &str,
    before: io::Result<Stats>,
    after: io::Result<Stats>,
    window_s: f64,
) -> Objective {
    let what = format!("memcached {server}");
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => {
            return Objective { what, seen: format!("it cannot be asked: {error}"), held: Some(false) };
        }
    };
    let now = |name: &str| after.get(name).copied().unwrap_or(0);
    let grown = |name: &str| now(name).saturating_sub(before.get(name).copied().unwrap_or(0));
    if before.get("pid") != after.get("pid") || now("uptime") < before.get("uptime").copied().unwrap_or(0) {
        return Objective { what, seen: "it was started again meanwhile".into(), held: Some(false) };
    }
    let commands: u64 = ["cmd_get", "cmd_set", "cmd_touch"].into_iter().map(grown).sum();
    let turned_away = grown("listen_disabled_num") + grown("rejected_connections");
    let per_s = commands as f64 / window_s;
    let seen = format!(
        "{} commands, {} connections; listen_disabled_num +{}, rejected_connections +{}",
        per_second(per_s),
        now("curr_connections"),
        grown("listen_disabled_num"),
        grown("rejected_connections")
    );
    match (turned_away, per_s >= COMMANDS_PER_S_MIN) {
        (0, true) => Objective { what, seen, held: Some(true) },
        (0, false) => Objective { what, seen: format!("no load: {seen}"), held: None },
        _ => Objective { what, seen, held: Some(false) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pairs: &[(&str, u64)]) -> io::Result<Stats> {
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[track_caller]
    fn check(before: &[(&str, u64)], after: &[(&str, u64)], held: Option<bool>, seen: &str) {
        let objective = objective("a:1", stats(before), stats(after), 10.0);
        assert_eq!((objective.held, objective.seen.as_str()), (held, seen));
    }

    #[test]
    fn it_holds_while_it_serves_and_turns_nobody_away() {
        let before = [("cmd_get", 100), ("listen_disabled_num", 2), ("pid", 8), ("uptime", 50)];
        let still = "listen_disabled_num +0, rejected_connections +0";
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
            &format!("no load: 0.0 /s commands, 0 connections; {still}"),
        );
        check(
            &before,
            &[("cmd_get", 700), ("listen_disabled_num", 5), ("pid", 8), ("uptime", 60)],
            Some(false),
            "60 /s commands, 0 connections; listen_disabled_num +3, rejected_connections +0",
        );
        check(&before, &[("pid", 9), ("uptime", 1)], Some(false), "it was started again meanwhile");
    }

    #[test]
    fn a_server_that_is_gone_holds_nothing() {
        let gone = Err(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(objective("a:1", stats(&[]), gone, 1.0).held, Some(false));
    }
}
