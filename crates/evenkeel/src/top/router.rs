//! A router: its report, and figures between two of them.
//!
//! What a report does not have is missing in the picture: a router of another version may count less.

use std::collections::BTreeMap;

use serde_json::Value;

use super::figures::TimeFigures;
use super::reading::pairs;

/// One report.
#[derive(Clone, Debug)]
pub(super) struct RouterReading {
    /// The object `route` of the page.
    route: Value,
    /// Microseconds since the router's start, by its own clock.
    pub(super) uptime_us: u64,
}

impl RouterReading {
    pub(super) fn new(route: Value, uptime_us: u64) -> RouterReading {
        RouterReading { route, uptime_us }
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.route[name].as_u64()
    }

    /// Requests by command.
    fn requests(&self) -> BTreeMap<&str, u64> {
        let all = self.route["requests"].as_object().into_iter().flatten();
        all.filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?))).collect()
    }

    /// Keys and shares, the hottest first; `None` if the router lists no keys.
    fn hot(&self) -> Option<Vec<(String, f64)>> {
        let keys = self.route["hot"]["requests"].as_array()?;
        let pair = |hot: &Value| Some((hot["key"].as_str()?.to_owned(), hot["share"].as_f64()?));
        Some(keys.iter().filter_map(pair).collect())
    }
}

/// What happened between two reports, in a second, and what is so now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RouterFigures {
    pub(super) version: String,
    pub(super) uptime_s: u64,
    pub(super) requests_per_s: f64,
    /// Of those that happened, the most frequent first.
    pub(super) commands: Vec<(String, f64)>,
    pub(super) errors_per_s: Option<f64>,
    /// Hits of all keys that clients asked for and got an answer.
    pub(super) hit_ratio: Option<f64>,
    pub(super) misses_per_s: Option<f64>,
    /// Gets that hot values in the router answered.
    pub(super) hot_cache_hits_per_s: Option<f64>,
    /// From a request to a server to its reply; `None` if there was none.
    pub(super) replies: Option<TimeFigures>,
    pub(super) failovers_per_s: Option<f64>,
    pub(super) failed_failovers_per_s: Option<f64>,
    pub(super) servers: Option<u64>,
    /// Those of them to which nothing is sent.
    pub(super) unavailable_servers: Option<u64>,
    pub(super) connections_up: Option<u64>,
    pub(super) connections_down: Option<u64>,
    pub(super) clients: Option<u64>,
    pub(super) accepted_per_s: Option<f64>,
    /// Of one CPU, all threads together.
    pub(super) cpu: Option<f64>,
    pub(super) threads: Option<u64>,
    pub(super) received_bytes_per_s: Option<f64>,
    pub(super) sent_bytes_per_s: Option<f64>,
    pub(super) config_age_s: Option<u64>,
    pub(super) config_failures: Option<u64>,
    /// Keys and shares; `None` if the router lists no keys.
    pub(super) hot: Option<Vec<(String, f64)>>,
}

impl RouterFigures {
    /// `None` if the router was started anew in between, or nothing has passed: there are no rates.
    pub(super) fn between(before: &RouterReading, after: &RouterReading) -> Option<RouterFigures> {
        let passed_us = after.uptime_us.checked_sub(before.uptime_us).filter(|us| *us > 0)?;
        let per_s = |count: u64| count as f64 * 1e6 / passed_us as f64;
        let since = |name: &str| Some(after.number(name)?.saturating_sub(before.number(name)?));
        let rate = |name: &str| since(name).map(per_s);
        let earlier = before.requests();
        let of_command = |(name, count): (&str, u64)| {
            (name.to_owned(), per_s(count.saturating_sub(earlier.get(name).copied().unwrap_or(0))))
        };
        let mut commands: Vec<(String, f64)> = after.requests().into_iter().map(of_command).collect();
        commands.retain(|(_, rate)| *rate > 0.0);
        commands.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let found = since("get_hits").zip(since("get_misses"));
        let found = found.map(|(hits, misses)| (hits, hits.saturating_add(misses)));
        let buckets = |reading: &RouterReading| pairs(&reading.route["latency"]["buckets"]);
        Some(RouterFigures {
            version: after.route["version"].as_str().unwrap_or("?").to_owned(),
            uptime_s: after.uptime_us / 1_000_000,
            // The sum of none would be -0.
            requests_per_s: commands.iter().fold(0.0, |sum, (_, rate)| sum + rate),
            commands,
            errors_per_s: rate("errors"),
            hit_ratio: found.filter(|(_, gets)| *gets > 0).map(|(hits, gets)| hits as f64 / gets as f64),
            misses_per_s: rate("get_misses"),
            hot_cache_hits_per_s: rate("hot_cache_hits"),
            replies: TimeFigures::between(&buckets(before), buckets(after)).map(|(_, times)| times),
            failovers_per_s: rate("failovers"),
            failed_failovers_per_s: rate("failed_failovers"),
            servers: after.number("servers"),
            unavailable_servers: after.number("unavailable_servers"),
            connections_up: after.route["connections"]["up"].as_u64(),
            connections_down: after.route["connections"]["down"].as_u64(),
            clients: after.number("clients"),
            accepted_per_s: rate("clients_opened"),
            cpu: since("cpu_us").map(|us| us as f64 / passed_us as f64),
            threads: after.number("threads"),
            received_bytes_per_s: rate("bytes_read"),
            sent_bytes_per_s: rate("bytes_written"),
            config_age_s: after.number("config_age_s"),
            config_failures: after.number("config_failures"),
            hot: after.hot(),
        })
    }

    /// How many servers are unavailable, of how many: `0 of 3`.
    pub(super) fn unavailable(&self) -> String {
        let counts = self.unavailable_servers.zip(self.servers);
        counts.map_or("–".to_owned(), |(away, all)| format!("{away} of {all}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::top::reading::MemberReading;

    /// The report of a router after so many seconds and gets.
    pub(in crate::top) fn router_report(seconds: u64, gets: u64) -> RouterReading {
        let text = serde_json::json!({
            "cmd_get_count": gets,
            "uptime_us": seconds * 1_000_000,
            "route": {
                "version": "0.1.0",
                "requests": { "get": gets, "set": gets / 10, "delete": 7 },
                "replies": gets, "errors": gets / 1000, "get_hits": gets * 9 / 10, "get_misses": gets / 10,
                "hot_cache_hits": gets / 20, "failovers": gets / 100, "failed_failovers": 0,
                "servers": 3, "unavailable_servers": 1, "outstanding": 5,
                "connections": { "new": 0, "up": 4, "closed": 0, "down": 2 },
                "clients": 12, "clients_opened": 40 + seconds, "threads": 2, "cpu_us": seconds * 350_000,
                "bytes_read": gets * 1000, "bytes_written": gets * 1050,
                "config_age_s": 400, "config_failures": 0,
                "latency": { "buckets": [[128, gets / 2], [256, gets * 45 / 100], [1024, gets / 20]] },
                "hot": { "requests": [{ "key": "user:4711", "share": 0.0742 }] },
            },
        });
        match MemberReading::parse(&text.to_string()).expect("a report") {
            MemberReading::Router(reading) => reading,
            MemberReading::Server(_) => panic!("a router"),
        }
    }

    #[test]
    fn rates_are_differences_by_the_routers_own_clock() {
        let figures =
            RouterFigures::between(&router_report(1, 1000), &router_report(3, 5000)).expect("figures");
        assert_eq!(figures.commands, [("get".to_owned(), 2000.0), ("set".to_owned(), 200.0)]);
        assert_eq!((figures.requests_per_s, figures.errors_per_s), (2200.0, Some(2.0)));
        assert_eq!((figures.hit_ratio, figures.cpu), (Some(0.9), Some(0.35)));
        let times = figures.replies.expect("replies");
        assert_eq!((times.p50_us, times.p99_us, times.max_us), (128, 1024, 1024));
        assert_eq!(figures.unavailable(), "1 of 3");
    }

    #[test]
    fn a_router_that_was_started_anew_has_no_rates() {
        assert_eq!(RouterFigures::between(&router_report(9, 1000), &router_report(3, 5000)), None);
        assert_eq!(RouterFigures::between(&router_report(3, 5000), &router_report(3, 5000)), None);
    }

    #[test]
    fn what_a_router_does_not_count_is_unknown_and_not_zero() {
        let bare = |us| RouterReading::new(serde_json::json!({ "requests": { "get": us } }), us);
        let figures = RouterFigures::between(&bare(1), &bare(2)).expect("figures");
        assert_eq!((figures.errors_per_s, figures.hit_ratio, figures.clients), (None, None, None));
        assert_eq!((figures.unavailable(), figures.requests_per_s), ("–".to_owned(), 1e6));
    }
}
