//! Figures of a server between two reports. What these do not have is unknown, and not 0.

use std::collections::BTreeMap;

use super::reading::ServerReading;

/// The classes of commands, in the order in which they are shown.
pub(super) const CLASSES: [&str; 5] = ["get", "set", "delete", "arithmetic", "touch"];
/// The measures of hot keys.
pub(super) const MEASURES: [&str; 3] = ["requests", "bytes", "misses"];

/// What happened between two reports, in a second, and what is so now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerFigures {
    pub(super) version: String,
    pub(super) uptime_s: u64,
    /// By class, of those that happened.
    pub(super) classes: Option<Vec<ClassFigures>>,
    /// How long input waited for a worker, on one connection in 256; `None` if none was seen.
    pub(super) wait: Option<TimeFigures>,
    /// Hits of all keys that were asked for.
    pub(super) hit_ratio: Option<f64>,
    pub(super) misses_per_s: Option<f64>,
    pub(super) connections: Option<u64>,
    pub(super) connections_max: Option<u64>,
    pub(super) accepted_per_s: Option<f64>,
    pub(super) refused_per_s: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) items: Option<u64>,
    pub(super) evictions_per_s: Option<f64>,
    pub(super) ghost_hits_per_s: Option<f64>,
    pub(super) received_bytes_per_s: Option<f64>,
    pub(super) sent_bytes_per_s: Option<f64>,
    /// Of a CPU, by worker.
    pub(super) workers: Vec<WorkerFigures>,
    /// By measure: keys and shares; `None` if the server lists no keys.
    pub(super) hot: Vec<Option<Vec<(String, f64)>>>,
}

/// A class of commands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassFigures {
    pub(super) name: &'static str,
    pub(super) per_s: f64,
    /// Of service.
    pub(super) times: TimeFigures,
}

/// Times of which so many were less than this, in microseconds: the ends of buckets, 12.5 % apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeFigures {
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
}

/// A worker thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WorkerFigures {
    pub(super) busy: f64,
    /// Ready to run, without a CPU.
    pub(super) waiting: f64,
}

impl ServerFigures {
    /// `None` if the server was started anew in between, or nothing has passed: there are no rates.
    pub(super) fn between(before: &ServerReading, after: &ServerReading) -> Option<ServerFigures> {
        let passed_us = after.uptime_us.checked_sub(before.uptime_us).filter(|us| *us > 0)?;
        let per_s = |count: u64| count as f64 * 1e6 / passed_us as f64;
        let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let stat = |name: &str| since(after.stat(name), before.stat(name));
        let rate = |name: &str| stat(name).map(per_s);
        let classes =
            CLASSES.into_iter().filter_map(|class| ClassFigures::between(class, before, after, &per_s));
        let found = stat("get_hits").zip(stat("cmd_get")).filter(|(_, gets)| *gets > 0);
        Some(ServerFigures {
            version: after.version().to_owned(),
            uptime_s: after.uptime_us / 1_000_000,
            classes: after.has_service().then(|| classes.collect()),
            wait: TimeFigures::between(&before.waits(), after.waits()).map(|(_, times)| times),
            // Read one after the other: hits may have one get more.
            hit_ratio: found.map(|(hits, gets)| (hits as f64 / gets as f64).min(1.0)),
            misses_per_s: rate("get_misses"),
            connections: after.stat("curr_connections"),
            connections_max: after.stat("max_connections"),
            accepted_per_s: rate("total_connections"),
            refused_per_s: rate("rejected_connections"),
            memory_bytes: after.number("memory", "charged_bytes"),
            memory_limit_bytes: after.number("memory", "limit_bytes"),
            items: after.stat("curr_items"),
            evictions_per_s: rate("evictions"),
            ghost_hits_per_s: since(after.ghost_hits(), before.ghost_hits()).map(per_s),
            received_bytes_per_s: rate("bytes_read"),
            sent_bytes_per_s: rate("bytes_written"),
            workers: workers(before, after, passed_us),
            hot: MEASURES.map(|by| after.hot(by)).into(),
        })
    }

    /// A class of commands, if such commands have happened.
    pub(super) fn class(&self, name: &str) -> Option<&ClassFigures> {
        self.classes.iter().flatten().find(|class| class.name == name)
    }

    /// The line that stands for classes where there are none.
    pub(super) fn without_requests(&self) -> Option<&'static str> {
        match self.classes.as_deref() {
            None => Some("– requests"),
            Some([]) => Some("no requests"),
            Some(_) => None,
        }
    }

    /// Commands of a class in a second.
    pub(super) fn rate_of(&self, name: &str) -> Option<f64> {
        self.classes.as_ref().map(|_| self.class(name).map_or(0.0, |class| class.per_s))
    }

    /// How much of `-m` is in use.
    pub(super) fn memory_share(&self) -> Option<f64> {
        Some(self.memory_bytes? as f64 / (self.memory_limit_bytes? as f64).max(1.0))
    }

    /// How busy the busiest worker is.
    pub(super) fn busiest(&self) -> Option<f64> {
        self.workers.iter().map(|worker| worker.busy).reduce(f64::max)
    }
}

fn workers(before: &ServerReading, after: &ServerReading, passed_us: u64) -> Vec<WorkerFigures> {
    let earlier = before.threads("worker-");
    let share = |after: u64, before: u64| after.saturating_sub(before) as f64 / (passed_us as f64 * 1e3);
    let figures = |(name, (run, wait)): (String, (u64, u64))| {
        let (run_before, wait_before) = earlier.get(&name).copied().unwrap_or((run, wait));
        let number = name.trim_start_matches("worker-").parse::<u64>().unwrap_or(u64::MAX);
        (number, WorkerFigures { busy: share(run, run_before), waiting: share(wait, wait_before) })
    };
    let mut numbered: Vec<_> = after.threads("worker-").into_iter().map(figures).collect();
    // worker-10 comes after worker-2.
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, figures)| figures).collect()
}

impl ClassFigures {
    fn between(
        name: &'static str,
        before: &ServerReading,
        after: &ServerReading,
        per_s: &impl Fn(u64) -> f64,
    ) -> Option<ClassFigures> {
        let (count, times) = TimeFigures::between(&before.service(name), after.service(name))?;
        Some(ClassFigures { name, per_s: per_s(count), times })
    }
}

impl TimeFigures {
    /// What was counted in between, and how often; `None` if nothing was.
    pub(super) fn between(
        before: &BTreeMap<u64, u64>,
        after: BTreeMap<u64, u64>,
    ) -> Option<(u64, TimeFigures)> {
        let mut buckets = after;
        for (end, count) in before {
            buckets.entry(*end).and_modify(|after| *after = after.saturating_sub(*count));
        }
        buckets.retain(|_, count| *count > 0);
        // A server may answer any numbers.
        let count = buckets.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let max_us = *buckets.keys().next_back()?;
        let (p50_us, p99_us) = (quantile(&buckets, count, 50), quantile(&buckets, count, 99));
        Some((count, TimeFigures { p50_us, p99_us, max_us }))
    }
}

/// The end of the bucket with the value below which are so many percent.
fn quantile(buckets: &BTreeMap<u64, u64>, count: u64, percent: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(percent)).div_ceil(100);
    let mut seen = 0;
    let reaches = |(_, count): &(&u64, &u64)| {
        seen += u128::from(**count);
        seen >= rank
    };
    buckets.iter().find(reaches).map_or(0, |(end, _)| *end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::picture::tests::report;

    #[test]
    fn rates_are_differences_by_the_servers_own_clock() {
        let (before, after) = (report(1, 1000), report(3, 5000));
        let figures = ServerFigures::between(&before, &after).expect("time has passed");
        let classes = figures.classes.expect("the report has them");
        let get = &classes[0];
        assert_eq!((get.name, get.per_s), ("get", 1900.0));
        assert_eq!((figures.hit_ratio, figures.misses_per_s), (Some(0.75), Some(500.0)));
        assert_eq!(classes.len(), 1, "sets have not happened in between");
    }

    #[test]
    fn a_server_that_was_started_anew_has_no_rates() {
        assert_eq!(ServerFigures::between(&report(9, 1000), &report(3, 5000)), None);
        assert_eq!(ServerFigures::between(&report(3, 5000), &report(3, 5000)), None);
    }

    #[test]
    fn reports_of_other_versions_lack_figures_but_are_read() {
        let bare = |us: u64| ServerReading::parse(&format!("{{\"uptime_us\": {us}}}")).expect("a report");
        let figures = ServerFigures::between(&bare(1), &bare(2)).expect("time has passed");
        assert_eq!((&figures.classes, figures.hit_ratio, &*figures.version), (&None, None, "?"));
        for other in ["", "[]", "{}", "{\"uptime_us\": -1}", "{\"uptime_us\": \"x\"}"] {
            assert!(ServerReading::parse(other).is_err(), "{other}");
        }
        let odd = "{\"uptime_us\": 5, \"service\": {\"get\": {\"buckets\": [[1], 2, [\"x\", 1], [8, 1]]}}, \"threads\": [1]}";
        let odd = ServerReading::parse(odd).expect("a report");
        assert_eq!(odd.service("get").len(), 1);
        assert!(ServerFigures::between(&bare(1), &odd).is_some());
    }

    #[test]
    fn what_a_report_lacks_is_unknown_and_not_zero() {
        let bare = |us: u64, stats: &str| {
            let text = format!("{{\"uptime_us\": {us}, \"stats\": {{{stats}}}, \"service\": {{}}}}");
            ServerReading::parse(&text).expect("a report")
        };
        let figures = ServerFigures::between(&bare(1, ""), &bare(2, "")).expect("time has passed");
        assert_eq!((figures.misses_per_s, figures.connections, figures.items), (None, None, None));
        assert_eq!((figures.memory_share(), figures.busiest()), (None, None));
        assert_eq!(figures.rate_of("get"), Some(0.0), "classes are listed, and there were no gets");
        let figures = ServerFigures::between(&bare(1, "\"evictions\": 7"), &bare(2, "\"evictions\": 7"));
        assert_eq!(figures.expect("time has passed").evictions_per_s, Some(0.0), "none is a number");
        // Nothing is counted from 0 that the report before does not have.
        let figures = ServerFigures::between(&bare(1, ""), &bare(2, "\"evictions\": 7"));
        assert_eq!(figures.expect("time has passed").evictions_per_s, None);
    }

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let buckets = BTreeMap::from([(8, 50), (16, 49), (32, 1)]);
        let of = |percent| quantile(&buckets, 100, percent);
        assert_eq!((of(50), of(51), of(99), of(100)), (8, 16, 16, 32));
        assert_eq!(quantile(&BTreeMap::from([(9, u64::MAX)]), u64::MAX, 99), 9);
    }
}
