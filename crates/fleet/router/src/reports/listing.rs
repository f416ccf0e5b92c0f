//! `stats` as mcrouter answers it: names, groups and forms of its statistics.
//!
//! Statistics of what is not built here are left out (docs/route/metrics.md has the list): a 0 would say that it was
//! looked at.

use std::fmt::{Display, Write};

use super::percent_g::PercentG;
use super::{hot_keys, servers};
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::reports::facts::ReportFacts;
use crate::shared::RouterShared;
use crate::stats::counted_pools::CountedPool;
use crate::stats::{
    COMMANDS, DestinationPhase, PoolTotals, RouteTotals, ServerPhases, StatsGroup, class_index,
};

/// Groups of a statistic, one bit each.
const BASIC: u8 = 1;
const DETAILED: u8 = 2;
const ODS: u8 = 4;
const COUNT: u8 = 8;
/// Only in `all`: mcrouter's old names, which exporters still ask for.
const OLD: u8 = 16;

/// The statistics of a group.
fn bits(group: StatsGroup) -> u8 {
    match group {
        StatsGroup::Basic => BASIC,
        StatsGroup::Detailed => DETAILED,
        StatsGroup::Ods => ODS,
        StatsGroup::Count => COUNT,
        StatsGroup::All => u8::MAX,
        _ => 0,
    }
}

/// Whether a group has requests by command.
fn has_commands(group: StatsGroup) -> bool {
    use StatsGroup::*;
    matches!(group, Basic | Detailed | Ods | All | Commands)
}

/// A listing being written.
struct Lines {
    groups: u8,
    out: String,
}

impl Lines {
    fn add(&mut self, groups: u8, name: &str, value: impl Display) {
        if self.groups & groups != 0 {
            self.always(name, value);
        }
    }

    fn always(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.out, "STAT {name} {value}\r\n");
    }
}

/// The whole reply.
pub(crate) fn listing(shared: &RouterShared, group: StatsGroup, facts: &ReportFacts) -> String {
    let cells = shared.cells();
    let mut lines = Lines { groups: bits(group), out: String::new() };
    match group {
        StatsGroup::Version => lines.always("mcrouter-version", crate::VERSION),
        StatsGroup::Servers => servers::servers(&cells, &mut lines.out),
        StatsGroup::SuspectServers => servers::suspects(&shared.suspects(), &mut lines.out),
        StatsGroup::Hot => hot_keys::listing(shared, facts.now, &mut lines.out),
        StatsGroup::External | StatsGroup::CommandErrors => {}
        _ => {
            let totals = RouteTotals::of(&cells);
            let phases = if lines.groups == 0 { ServerPhases::default() } else { ServerPhases::of(&cells) };
            statistics(shared, &totals, &phases, facts, &mut lines);
            if has_commands(group) {
                commands(shared, &totals, &mut lines);
            }
        }
    }
    lines.out.push_str("END\r\n");
    lines.out
}

fn statistics(
    shared: &RouterShared,
    totals: &RouteTotals,
    phases: &ServerPhases,
    facts: &ReportFacts,
    lines: &mut Lines,
) {
    process(shared, facts, lines);
    connections(shared, totals, phases, lines);
    requests(shared, totals, phases, lines);
    results(shared, totals, lines);
    hot_cache(totals, lines);
    pools(shared, lines);
    configuration(shared, facts, lines);
}

fn process(shared: &RouterShared, facts: &ReportFacts, lines: &mut Lines) {
    let (startup, process) = (shared.startup(), &facts.process);
    lines.add(BASIC | DETAILED, "version", crate::VERSION);
    lines.add(BASIC | DETAILED, "evenkeel_version", crate::EVENKEEL_VERSION);
    lines.add(BASIC | DETAILED, "commandargs", &startup.command_line);
    lines.add(BASIC | DETAILED, "pid", process.id);
    lines.add(BASIC | DETAILED, "parent_pid", process.parent);
    lines.add(BASIC | DETAILED, "time", facts.unix_s);
    lines.add(ODS | BASIC | DETAILED, "uptime", facts.unix_s.saturating_sub(startup.started_s));
    lines.add(OLD, "start_time", startup.started_s);
    lines.add(ODS | BASIC, "ps_rss", process.resident_bytes);
    lines.add(BASIC | DETAILED, "rusage_system", PercentG(process.system_s));
    lines.add(BASIC | DETAILED, "rusage_user", PercentG(process.user_s));
    lines.add(BASIC | DETAILED, "ps_num_minor_faults", process.minor_faults);
    lines.add(BASIC | DETAILED, "ps_num_major_faults", process.major_faults);
    lines.add(BASIC | DETAILED, "ps_user_time_sec", PercentG(process.user_s));
    lines.add(BASIC | DETAILED, "ps_system_time_sec", PercentG(process.system_s));
    lines.add(BASIC | DETAILED, "ps_vsize", process.virtual_bytes);
}

fn connections(shared: &RouterShared, totals: &RouteTotals, phases: &ServerPhases, lines: &mut Lines) {
    lines.add(ODS | DETAILED, "num_client_connections", totals.clients());
    lines.add(OLD, "num_clients", totals.clients());
    let all = ODS | BASIC | DETAILED;
    for (prefix, counts) in [("num_servers", phases.all), ("num_ssl_servers", phases.tls)] {
        let [new, up, closed, down] = counts;
        lines.add(all, prefix, new + up + closed + down);
        for (name, count) in [("new", new), ("up", up), ("down", down), ("closed", closed)] {
            lines.add(all, &format!("{prefix}_{name}"), count);
        }
    }
    let suspects = shared.suspects();
    lines.add(all, "num_suspect_servers", suspects.len());
    lines.add(all, "num_connections_opened", totals.servers_opened);
    lines.add(all, "num_connections_closed", totals.servers_closed);
    let reasons = suspects.iter().filter_map(|(_, health)| health.unavailable());
    let soft = reasons.clone().filter(|reason| *reason == Outcome::Timeout).count();
    lines.add(all, "num_soft_tko_count", soft);
    lines.add(all, "num_hard_tko_count", reasons.count() - soft);
}

fn requests(shared: &RouterShared, totals: &RouteTotals, phases: &ServerPhases, lines: &mut Lines) {
    let (sent, replied, failed) = (totals.all_requests(), totals.replied, totals.failed);
    let processing = sent.saturating_sub(replied);
    lines.add(ODS | BASIC, "num_proxies", shared.cells().len());
    lines.add(ODS | BASIC, "proxy_reqs_processing", processing);
    // Requests are routed as they are read.
    lines.add(ODS | BASIC, "proxy_reqs_waiting", 0);
    lines.add(ODS | DETAILED, "proxy_request_num_outstanding", processing);
    lines.add(COUNT, "request_sent_count", sent);
    lines.add(COUNT, "request_error_count", failed);
    lines.add(COUNT, "request_success_count", replied.saturating_sub(failed));
    lines.add(COUNT, "request_replied_count", replied);
    // Ours: what clients of the router found.
    lines.add(BASIC | COUNT, "get_hits_count", totals.get_hits);
    lines.add(BASIC | COUNT, "get_misses_count", totals.get_misses);
    lines.add(ODS | BASIC, "destination_pending_reqs", phases.pending);
    lines.add(ODS | BASIC, "destination_inflight_reqs", phases.inflight);
    let window = shared.window();
    let most = window.most_outstanding().max(phases.pending + phases.inflight);
    lines.add(ODS | BASIC, "destination_max_inflight_reqs", most);
    let recent = window.recent(totals).filter(|recent| recent.timed.iter().any(|count| *count > 0));
    let recent = recent.as_ref().unwrap_or(totals);
    let average = |classes: &[OperationClass]| {
        PercentG(recent.average_us(classes.iter().map(|class| class_index(*class))))
    };
    use OperationClass::*;
    lines.add(ODS | BASIC, "duration_us", average(&[Get, Update, Delete, Arithmetic, Touch]));
    lines.add(ODS | BASIC, "duration_get_us", average(&[Get]));
    lines.add(ODS | BASIC, "duration_update_us", average(&[Update]));
}

/// Groups of outcomes by mcrouter's names.
const RESULTS: [(&str, &[Outcome]); 9] = [
    ("connect_error", &[Outcome::ConnectError, Outcome::Aborted]),
    ("connect_timeout", &[Outcome::ConnectTimeout]),
    ("data_timeout", &[Outcome::Timeout]),
    ("busy", &[Outcome::Busy, Outcome::TryAgain]),
    ("tko", &[Outcome::Unavailable]),
    ("client_error", &[Outcome::ClientError]),
    ("local_error", &[Outcome::LocalError]),
    ("remote_error", &[Outcome::RemoteError]),
    ("deadline_exceeded_error", &[Outcome::DeadlineExceeded]),
];

fn results(shared: &RouterShared, totals: &RouteTotals, lines: &mut Lines) {
    let counted = shared.window().counted();
    let rate = |of: &dyn Fn(&RouteTotals) -> u64| {
        PercentG(counted.as_ref().map_or(0.0, |(counted, seconds)| of(counted) as f64 / seconds))
    };
    let groups = ODS | DETAILED;
    lines.add(groups, "request_sent", rate(&|totals| totals.all_requests()));
    lines.add(groups, "request_error", rate(&|totals| totals.failed));
    lines.add(groups, "request_success", rate(&|totals| totals.replied.saturating_sub(totals.failed)));
    lines.add(groups, "request_replied", rate(&|totals| totals.replied));
    lines.add(groups, "final_result_error", rate(&|totals| totals.failed));
    for name in ["failover_all", "failover_inorder_policy"] {
        lines.add(groups, name, rate(&|totals| totals.failovers));
        lines.add(groups, &format!("{name}_failed"), rate(&|totals| totals.failed_failovers));
    }
    lines.add(ODS | COUNT, "failover_all_failed_count", totals.failed_failovers);
    lines.add(ODS | COUNT, "failover_policy_result_error", totals.policy_errors);
    lines.add(ODS | COUNT, "failover_policy_tko_error", totals.policy_unavailable);
    lines.add(DETAILED, "dev_null_requests", totals.dev_null);
    let errors: Vec<Outcome> =
        Outcome::all().map(|(outcome, _)| outcome).filter(|outcome| outcome.is_error()).collect();
    for (name, outcomes) in std::iter::once(("error", &errors[..])).chain(RESULTS) {
        let some = |results: &[u64]| outcomes.iter().map(|outcome| results[*outcome as usize]).sum::<u64>();
        lines.add(groups, &format!("result_{name}"), rate(&|totals| some(&totals.results)));
        lines.add(groups, &format!("result_{name}_all"), rate(&|totals| some(&totals.results_all)));
        lines.add(ODS | COUNT, &format!("result_{name}_count"), some(&totals.results));
        lines.add(ODS | COUNT, &format!("result_{name}_all_count"), some(&totals.results_all));
    }
}

/// Ours: mcrouter has no hot values.
fn hot_cache(totals: &RouteTotals, lines: &mut Lines) {
    lines.add(BASIC | COUNT, "hot_cache_hits_count", totals.hot_hits);
    lines.add(BASIC | COUNT, "hot_cache_fills_count", totals.hot_fills);
    lines.add(BASIC | COUNT, "hot_cache_drops_count", totals.hot_dropped + totals.hot_evicted);
    lines.add(BASIC | DETAILED, "hot_cache_bytes", totals.hot_bytes);
}

/// Those that `--pool-stats-config-file` names. mcrouter gives them these groups, but writes them into its file only.
fn pools(shared: &RouterShared, lines: &mut Lines) {
    let counted = &shared.settings.counted_pools;
    if counted.names().len() == 0 || lines.groups & (ODS | COUNT) == 0 {
        return;
    }
    let cells = shared.cells();
    let mut connections = vec![0_u64; counted.names().len()];
    for destination in cells.iter().flat_map(|cells| cells.destinations()) {
        if let Some(pool) = destination.pool
            && destination.phase() == DestinationPhase::Up
            && !destination.is_gone()
        {
            connections[usize::from(pool.0)] += 1;
        }
    }
    for ((number, name), connections) in (0..).zip(counted.names()).zip(connections) {
        let totals = PoolTotals::of(cells.iter().map(|cells| &cells.pools), CountedPool(number));
        let mut add = |what: &str, value: u64| lines.add(ODS | COUNT, &format!("{name}.{what}"), value);
        add("requests.sum", totals.requests);
        add("final_result_error.sum", totals.failed);
        add("connections", connections);
        add("duration_us.avg", totals.duration_us as u64);
        add("total_duration_us.avg", totals.total_us as u64);
    }
}

fn configuration(shared: &RouterShared, facts: &ReportFacts, lines: &mut Lines) {
    let loads = shared.config_loads();
    let groups = ODS | DETAILED;
    lines.add(groups, "config_age", facts.unix_s.saturating_sub(loads.last_success_s));
    lines.add(groups, "config_last_attempt", loads.last_attempt_s);
    lines.add(groups, "config_last_success", loads.last_success_s);
    lines.add(groups, "config_failures", loads.failures);
    lines.add(groups, "configs_from_disk", u8::from(loads.is_from_dump));
    lines.add(groups, "config_full_attempt", loads.attempts);
    if shared.settings.discovers {
        for (name, value) in shared.discovery().statistics() {
            lines.add(BASIC | DETAILED, name, value);
        }
    }
}

fn commands(shared: &RouterShared, totals: &RouteTotals, lines: &mut Lines) {
    let counted = shared.window().counted();
    let rate = |of: &dyn Fn(&RouteTotals) -> u64| {
        counted.as_ref().map_or(0.0, |(counted, seconds)| of(counted) as f64 / seconds)
    };
    for (place, command) in COMMANDS.into_iter().enumerate() {
        lines.always(format_args!("cmd_{command}_count"), totals.requests[place]);
        lines.always(format_args!("cmd_{command}"), rate(&|totals| totals.requests[place]));
        lines.always(format_args!("cmd_{command}_out"), rate(&|totals| totals.out[place]));
        lines.always(format_args!("cmd_{command}_out_all"), rate(&|totals| totals.out_all[place]));
    }
}
