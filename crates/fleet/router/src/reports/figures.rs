//! Figures for programs that watch a router, as `evenkeel top` does: counts with the time at which they were read, and the
//! times of replies, which `stats` does not have.

use super::hot_keys;
use crate::config::{Json, JsonValue, Location};
use crate::reports::facts::ReportFacts;
use crate::reports::metrics::server_figures::{AllServers, FATES, ServerFigures};
use crate::shared::RouterShared;
use crate::stats::shadow_counts::{LatencyHistogram, ShadowComparison, ShadowReport};
use crate::stats::{COMMANDS, DestinationPhase, LATENCY_BUCKETS, RouteTotals, ServerPhases, bound_s};

/// The object `route` of the page. Rates are differences of two pages, over the difference of their `uptime_us`.
pub(super) fn figures(shared: &RouterShared, facts: &ReportFacts, network: &net::Counts) -> Json {
    let cells = shared.cells();
    let (totals, phases) = (RouteTotals::of(&cells), ServerPhases::of(&cells));
    let (loads, plan) = (shared.config_loads(), shared.plan());
    let mut latency = [0_u64; LATENCY_BUCKETS];
    for destination in cells.iter().flat_map(|cells| cells.destinations()) {
        latency.iter_mut().zip(&destination.latency).for_each(|(sum, counter)| *sum += counter.value());
    }
    let mut names: Vec<&str> = plan.servers.iter().map(|spec| &*spec.name).collect();
    names.sort_unstable();
    names.dedup();
    let unavailable =
        names.iter().filter(|name| shared.health_of_known(name).unavailable().is_some()).count();
    let commands = COMMANDS.into_iter().zip(totals.requests).map(|(name, count)| (name, number(count)));
    let phases_by_name =
        DestinationPhase::ALL.into_iter().map(|phase| (phase.name(), number(phases.all[phase as usize])));
    let servers = AllServers::read(shared);
    let pools = servers.pools.iter().map(|(name, figures)| (&**name, pool(figures)));
    let timeouts = servers.servers.iter().map(|(_, figures)| figures.timeouts()).sum::<u64>();
    let cpu_us = ((facts.process.user_s + facts.process.system_s) * 1e6) as u64;
    object([
        ("version", JsonValue::String(crate::EVENKEEL_VERSION.to_owned())),
        ("requests", object(commands).value),
        ("replies", number(totals.replied)),
        ("errors", number(totals.failed)),
        ("get_hits", number(totals.get_hits)),
        ("get_misses", number(totals.get_misses)),
        ("hot_cache_hits", number(totals.hot_hits)),
        ("failovers", number(totals.failovers)),
        ("failed_failovers", number(totals.failed_failovers)),
        ("timeouts", number(timeouts + servers.others.timeouts())),
        ("pools", object(pools).value),
        ("shadows", shadows(&plan.shadow_report(), loads.attempts.saturating_sub(loads.failures))),
        ("servers", number(names.len() as u64)),
        ("unavailable_servers", number(unavailable as u64)),
        ("outstanding", number(totals.outstanding())),
        ("connections", object(phases_by_name).value),
        ("clients", number(totals.clients())),
        ("clients_opened", number(totals.clients_opened)),
        ("threads", number(cells.len() as u64)),
        ("cpu_us", number(cpu_us)),
        ("bytes_read", number(network.bytes_read)),
        ("bytes_written", number(network.bytes_written)),
        ("config_age_s", number(facts.unix_s.saturating_sub(loads.last_success_s))),
        ("config_failures", number(loads.failures)),
        ("latency", object([("buckets", buckets(&latency))]).value),
        ("hot", hot(shared, facts)),
    ])
}

/// Each server of the configuration in force, up to the number that has series of its own, and how many others there are. Counts are
/// since the configuration names the server; rates are differences of two reports, over the difference of their `uptime_us`.
pub(super) fn servers(shared: &RouterShared, facts: &ReportFacts) -> Json {
    let all = AllServers::read(shared);
    let server = |(name, figures): &(String, ServerFigures)| (name.clone(), json(server(figures)));
    object([
        ("uptime_us", number(facts.now.us)),
        ("servers", JsonValue::Object(all.servers.iter().map(server).collect())),
        ("others", number(all.others.servers)),
    ])
}

/// Whether a server gets requests, what became of them, and the times of its replies.
fn server(figures: &ServerFigures) -> JsonValue {
    let fates = FATES.into_iter().zip(figures.fates()).map(|(fate, count)| (fate, number(count)));
    object([
        // A server with several time limits is one server.
        ("available", JsonValue::Bool(figures.available == figures.servers)),
        ("outstanding", number(figures.outstanding)),
        ("outcomes", object(fates).value),
        ("latency", object([("buckets", buckets(&figures.latency))]).value),
    ])
    .value
}

/// Requests to the servers of a pool, of which `errors` were not answered well, and `timeouts` of these not in time.
fn pool(figures: &ServerFigures) -> JsonValue {
    let all: u64 = figures.fates().iter().sum();
    let counts = [
        ("requests", number(all)),
        ("errors", number(all - figures.successes())),
        ("timeouts", number(figures.timeouts())),
    ];
    object(counts).value
}

/// Requests whose reply was compared with that of a shadow, and those of them whose replies differ, of all shadows; `null` if none is
/// compared. The counts of each by its name begin anew with each configuration: `loads` says with which.
fn shadows(report: &ShadowReport, loads: u64) -> JsonValue {
    if report.shadows.is_empty() {
        return JsonValue::Null;
    }
    let sum = |of: fn(&ShadowComparison) -> u64| number(report.shadows.iter().map(of).sum());
    let by_name = report.named().into_iter().map(|(name, shadow)| (name, json(comparison(shadow))));
    object([
        ("compared", sum(ShadowComparison::compared)),
        ("differed", sum(ShadowComparison::differed)),
        ("loads", number(loads)),
        ("by_name", JsonValue::Object(by_name.collect())),
    ])
    .value
}

/// What has been found about one shadow.
fn comparison(shadow: &ShadowComparison) -> JsonValue {
    let (normal_hits, shadow_hits) = shadow.hits();
    let times = |times: &LatencyHistogram| {
        let pair = |(end, count): &(u64, u64)| {
            json(JsonValue::Array(vec![json(number(*end)), json(number(*count))]))
        };
        JsonValue::Array(times.buckets.iter().map(pair).collect())
    };
    object([
        ("compared", number(shadow.compared())),
        ("other_outcomes", number(shadow.other_outcomes())),
        ("other_values", number(shadow.other_values)),
        ("other_sizes", number(shadow.other_sizes)),
        ("normal_hits", number(normal_hits)),
        ("shadow_hits", number(shadow_hits)),
        ("normal_us", times(&shadow.normal)),
        ("shadow_us", times(&shadow.shadow)),
    ])
    .value
}

/// Pairs of the end of a bucket in microseconds, and how many replies took less than that and no less than the one before.
/// The last end is the largest number: there is no limit.
fn buckets(counts: &[u64]) -> JsonValue {
    let pair = |(bucket, count): (usize, &u64)| {
        let end = bound_s(bucket).map_or(JsonValue::Int(i64::MAX), |end| number((end * 1e6).round() as u64));
        json(JsonValue::Array(vec![json(end), json(number(*count))]))
    };
    let seen = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    JsonValue::Array(seen.map(pair).collect())
}

/// Keys with most requests; `null` if they are hidden.
fn hot(shared: &RouterShared, facts: &ReportFacts) -> JsonValue {
    let Some(hot) = hot_keys::hottest(shared, facts.now) else { return JsonValue::Null };
    let key = |hot: &::hot_keys::HotKey| {
        object([
            ("key", JsonValue::String(hot_keys::readable(&hot.key))),
            ("share", JsonValue::Double(hot.share)),
        ])
    };
    object([("requests", JsonValue::Array(hot.requests.iter().map(key).collect()))]).value
}

fn number(number: u64) -> JsonValue {
    JsonValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn json(value: JsonValue) -> Json {
    Json::new(Location::default(), value)
}

fn object<'n>(entries: impl IntoIterator<Item = (&'n str, JsonValue)>) -> Json {
    let entries = entries.into_iter().map(|(name, value)| (name.to_owned(), json(value)));
    json(JsonValue::Object(entries.collect()))
}
