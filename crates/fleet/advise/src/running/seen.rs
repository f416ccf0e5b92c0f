//! Observations at a server beside its workload: CPU time of a request, times, ghost hits. They are shown beside an answer, and are no inputs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::page::ServerPageReading;
use crate::report::amount::{percent, short};
use crate::server_stats::{ServerStats, ServerStatsError};

/// What was seen between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerSeen {
    cpu_us: Option<f64>,
    service_p99_us: Option<u64>,
    ghost_share: Option<f64>,
}

/// What two readings of `stats` and of the page say.
///
/// # Errors
/// If a statistic is no number.
pub fn server_seen(
    [before, after]: [&ServerStats; 2],
    pages: Option<[&ServerPageReading; 2]>,
) -> Result<ServerSeen, ServerStatsError> {
    let grown = |name| -> Result<Option<f64>, ServerStatsError> {
        Ok(before.optional(name)?.zip(after.optional(name)?).map(|(before, after)| after - before))
    };
    let seconds = grown("rusage_user")?.zip(grown("rusage_system")?).map(|(user, system)| user + system);
    let requests = grown("cmd_get")?.zip(grown("cmd_set")?).map(|(gets, sets)| gets + sets);
    Ok(ServerSeen {
        cpu_us: seconds.zip(requests.filter(|all| *all > 0.0)).map(|(seconds, all)| seconds * 1e6 / all),
        service_p99_us: pages.and_then(|[before, after]| after.service_p99_us(before)),
        ghost_share: pages.and_then(|[before, after]| after.ghost_share(before)),
    })
}

impl ServerSeen {
    /// Lines behind an answer; none if nothing was seen.
    pub fn text(&self) -> String {
        let mut lines = String::new();
        let mut say = |line: String| {
            let _ = writeln!(lines, "  {line}");
        };
        if let Some(us) = self.cpu_us {
            say(format!("a get or set took {} µs of CPU time, of all threads of the server", short(us)));
        }
        if let Some(us) = self.service_p99_us {
            say(format!("99 % of the requests took less than {us} µs, once it was their turn"));
        }
        if let Some(share) = self.ghost_share {
            say(ghost_words(share));
        }
        if lines.is_empty() { lines } else { format!("\nSeen at the server\n{lines}") }
    }

    /// For programs; what was not seen is null.
    pub fn json(&self) -> Value {
        json!({"cpu_us_of_a_request": self.cpu_us, "service_p99_us": self.service_p99_us, "ghost_share": self.ghost_share})
    }
}

/// What ghost hits say about memory, as a clause.
pub(crate) fn ghost_words(share: f64) -> String {
    format!(
        "{} of what is stored had been evicted a short time before, which more memory would keep; how much more is not told by that",
        percent(share)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_a_request_is_that_between_the_readings() {
        let stats = |cpu: f64, requests: u32| {
            let text = format!(
                "STAT rusage_user {cpu}\nSTAT rusage_system {cpu}\nSTAT cmd_get {requests}\nSTAT cmd_set {requests}\nEND\n"
            );
            ServerStats::parse(&text).expect("statistics")
        };
        let (before, after) = (stats(1.0, 1_000), stats(1.01, 2_000));
        let seen = server_seen([&before, &after], None).expect("statistics");
        assert_eq!(
            seen.text(),
            "\nSeen at the server\n  a get or set took 10 µs of CPU time, of all threads of the server\n"
        );
        assert_eq!(
            (&seen.json()["ghost_share"], seen.json()["cpu_us_of_a_request"].as_f64().map(f64::round)),
            (&Value::Null, Some(10.0))
        );
        let nothing = server_seen([&before, &before], None).expect("statistics");
        assert_eq!((nothing.cpu_us, nothing.text().as_str()), (None, ""));
    }
}
