//! Our own families, under `evenkeel_route_`.

use protocol::discovery::DiscoveryList;
use stdx::exposition::{Exposition, FamilyKind};

use super::server_figures::{AllServers, FATES, ServerFigures};
use crate::message::outcome::Outcome;
use crate::reports::facts::ReportFacts;
use crate::reports::hot_keys;
use crate::shared::RouterShared;
use crate::stats::{COMMANDS, DestinationPhase, RouteTotals, ServerPhases, bound_s};

use FamilyKind::{Counter, Gauge, Histogram};

pub(super) fn write(
    shared: &RouterShared,
    facts: &ReportFacts,
    network: &net::Counts,
    servers: &AllServers,
    text: &mut Exposition,
) {
    let cells = shared.cells();
    let (totals, phases) = (RouteTotals::of(&cells), ServerPhases::of(&cells));
    text.family("evenkeel_route_build_info", Gauge, "The version, as a label.")
        .sample(&[("version", crate::EVENKEEL_VERSION)], 1);
    requests(&totals, text);
    to_servers(&totals, text);
    compression(&totals, text);
    hot_cache(&totals, text);
    connections(shared, &totals, &phases, network, text);
    configuration(shared, facts, text);
    discovery(shared, text);
    by_server(servers, text);
    by_pool(servers, text);
    hot_keys(shared, facts, text);
}

/// With `--cluster-file`.
fn discovery(shared: &RouterShared, text: &mut Exposition) {
    if !shared.settings.discovers {
        return;
    }
    let state = shared.discovery();
    let list = state.list.as_deref();
    let revision = list.map_or(0, DiscoveryList::revision);
    let help = "Revision of the routers that clients with auto-discovery are told; 0 before the first.";
    text.single("evenkeel_route_cluster_revision", Gauge, help, revision);
    let members = list.map_or(0, DiscoveryList::members);
    let help = "Routers that clients with auto-discovery are told.";
    text.single("evenkeel_route_cluster_members", Gauge, help, members);
    let help = "1 if these are what the file says, 0 if it cannot be used.";
    text.single("evenkeel_route_cluster_file_current", Gauge, help, u8::from(state.is_current));
    let help = "Contents of the file that could not be used.";
    text.single("evenkeel_route_cluster_file_refused_total", Counter, help, state.refusals);
}

/// Few keys, which come and go: each is a series.
fn hot_keys(shared: &RouterShared, facts: &ReportFacts, text: &mut Exposition) {
    let Some(hot) = hot_keys::hottest(shared, facts.now) else { return };
    let help = "Share of the last five to ten seconds' requests of the keys with most of them.";
    let mut family = text.family("evenkeel_route_hot_key_share", Gauge, help);
    for hot in &hot.requests {
        family.sample(&[("key", &hot_keys::readable(&hot.key))], hot.share);
    }
}

fn requests(totals: &RouteTotals, text: &mut Exposition) {
    let help = "Requests of clients; a get of several keys counts for each.";
    let mut family = text.family("evenkeel_route_requests_total", Counter, help);
    for (command, count) in COMMANDS.into_iter().zip(totals.requests) {
        family.sample(&[("command", command)], count);
    }
    let help = "Answered requests of clients; those that want no reply count as successes.";
    let mut family = text.family("evenkeel_route_replies_total", Counter, help);
    family.sample(&[("result", "success")], totals.replied.saturating_sub(totals.failed));
    family.sample(&[("result", "error")], totals.failed);
    let help = "Gets of clients by what they found; those that were answered with an error are in neither.";
    let mut family = text.family("evenkeel_route_gets_total", Counter, help);
    family.sample(&[("result", "hit")], totals.get_hits);
    family.sample(&[("result", "miss")], totals.get_misses);
    let help = "Requests of clients without a reply yet.";
    let processing = totals.all_requests().saturating_sub(totals.replied);
    text.single("evenkeel_route_processing", Gauge, help, processing);
}

fn to_servers(totals: &RouteTotals, text: &mut Exposition) {
    let help = "Requests to servers, by whether another server had failed before.";
    let mut family = text.family("evenkeel_route_sent_total", Counter, help);
    for (place, command) in COMMANDS.into_iter().enumerate() {
        let failovers = totals.out_all[place].saturating_sub(totals.out[place]);
        family.sample(&[("command", command), ("kind", "normal")], totals.out[place]);
        family.sample(&[("command", command), ("kind", "failover")], failovers);
    }
    let help = "Outcomes of requests to servers, by mcrouter's names.";
    let mut family = text.family("evenkeel_route_results_total", Counter, help);
    for (outcome, name) in Outcome::all() {
        family.sample(&[("result", name)], totals.results_all[outcome as usize]);
    }
    let help = "Requests of clients that went to another server after an error.";
    text.single("evenkeel_route_failovers_total", Counter, help, totals.failovers);
    let help = "Those of them that no server answered without an error.";
    text.single("evenkeel_route_failed_failovers_total", Counter, help, totals.failed_failovers);
}

fn compression(totals: &RouteTotals, text: &mut Exposition) {
    let help = "Values for pools with compression, by whether they became smaller; those that did not are stored as they were.";
    let mut family = text.family("evenkeel_route_compressions_total", Counter, help);
    family.sample(&[("result", "compressed")], totals.compressed);
    family.sample(&[("result", "not_smaller")], totals.not_smaller);
    let help = "Bytes of values that were compressed, before and after.";
    let mut family = text.family("evenkeel_route_compression_bytes_total", Counter, help);
    family.sample(&[("when", "before")], totals.bytes_before);
    family.sample(&[("when", "after")], totals.bytes_after);
    let help = "Compressed values that were read; those without a value are misses.";
    let mut family = text.family("evenkeel_route_decompressions_total", Counter, help);
    family.sample(&[("result", "decompressed")], totals.decompressed);
    family.sample(&[("result", "damaged")], totals.damaged);
    family.sample(&[("result", "no_dictionary")], totals.no_dictionary);
}

fn hot_cache(totals: &RouteTotals, text: &mut Exposition) {
    let help = "Gets that hot values in the router have answered.";
    text.single("evenkeel_route_hot_cache_hits_total", Counter, help, totals.hot_hits);
    let help = "Values that were kept as hot.";
    text.single("evenkeel_route_hot_cache_fills_total", Counter, help, totals.hot_fills);
    let help = "Hot values that were dropped before their time: because of an update, or to make room.";
    let mut family = text.family("evenkeel_route_hot_cache_drops_total", Counter, help);
    family.sample(&[("reason", "update")], totals.hot_dropped);
    family.sample(&[("reason", "memory")], totals.hot_evicted);
    let help = "Bytes of hot values, with what they need besides.";
    text.single("evenkeel_route_hot_cache_bytes", Gauge, help, totals.hot_bytes);
}

fn connections(
    shared: &RouterShared,
    totals: &RouteTotals,
    phases: &ServerPhases,
    network: &net::Counts,
    text: &mut Exposition,
) {
    text.single("evenkeel_route_clients", Gauge, "Connections of clients.", totals.clients());
    let help = "Connections of clients so far.";
    text.single("evenkeel_route_clients_total", Counter, help, totals.clients_opened);
    let help =
        "Clients that were closed because a thread held more than --buffer-memory-mb, and they most of it.";
    text.single("evenkeel_route_clients_closed_for_memory_total", Counter, help, totals.closed_for_memory);
    let help = "Values that were answered with an error for the same reason.";
    text.single("evenkeel_route_values_refused_for_memory_total", Counter, help, totals.refused_for_memory);
    let help = "Bytes from and to clients and servers.";
    let mut family = text.family("evenkeel_route_bytes_total", Counter, help);
    family.sample(&[("direction", "received")], network.bytes_read);
    family.sample(&[("direction", "sent")], network.bytes_written);
    let help = "Connections to servers, one for each thread and server, by state.";
    let mut family = text.family("evenkeel_route_connections", Gauge, help);
    for phase in DestinationPhase::ALL {
        family.sample(&[("state", phase.name())], phases.all[phase as usize]);
    }
    let help = "Connections to servers that were made.";
    text.single("evenkeel_route_connections_opened_total", Counter, help, totals.servers_opened);
    let help = "Connections to servers that have ended.";
    text.single("evenkeel_route_connections_closed_total", Counter, help, totals.servers_closed);
    let suspects = shared.suspects();
    let help = "Servers that have failed since their last reply.";
    text.single("evenkeel_route_suspect_servers", Gauge, help, suspects.len());
    let unavailable = suspects.iter().filter(|(_, health)| health.unavailable().is_some()).count();
    let help = "Servers to which nothing is sent until a probe is answered (TKO).";
    text.single("evenkeel_route_unavailable_servers", Gauge, help, unavailable);
    let help = "Times that a server became unavailable.";
    text.single("evenkeel_route_became_unavailable_total", Counter, help, totals.became_unavailable);
}

fn configuration(shared: &RouterShared, facts: &ReportFacts, text: &mut Exposition) {
    let (loads, plan) = (shared.config_loads(), shared.plan());
    let help = "Time since the configuration in force was loaded.";
    let age = facts.unix_s.saturating_sub(loads.last_success_s);
    text.single("evenkeel_route_config_age_seconds", Gauge, help, age);
    let help = "Number of the configuration in force, counted from the start.";
    text.single("evenkeel_route_config_generation", Gauge, help, plan.generation);
    let mut family = text.family("evenkeel_route_config_loads_total", Counter, "Loads of configurations.");
    family.sample(&[("result", "success")], loads.attempts.saturating_sub(loads.failures));
    family.sample(&[("result", "error")], loads.failures);
    let help = "Whether the configuration in force is a copy that was kept on disk.";
    text.single("evenkeel_route_config_from_dump", Gauge, help, u8::from(loads.is_from_dump));
    let md5 = plan.facts.as_ref().map_or("", |facts| &facts.md5);
    text.family("evenkeel_route_config_info", Gauge, "MD5 digest of the configuration in force, as a label.")
        .sample(&[("md5", md5)], 1);
    let help = "When each certificate of the router ends, in seconds since 1970.";
    let mut family = text.family("evenkeel_route_certificate_end_seconds", Gauge, help);
    for end in shared.certificate_ends() {
        family.sample(&[("file", &end.file.to_string_lossy())], end.end_s);
    }
    let help = "Servers of the configuration in force.";
    text.single("evenkeel_route_servers", Gauge, help, plan.servers.len());
}

/// The name of the series for the servers that have none of their own. No server is called so: it would have a port.
const OTHER: &str = "other";

fn by_server(all: &AllServers, text: &mut Exposition) {
    let others = (all.others.servers > 0).then_some((OTHER, &all.others));
    let each = || all.servers.iter().map(|(name, figures)| (&**name, figures)).chain(others);
    let help = "Requests to a server, by what became of them.";
    outcomes("evenkeel_route_server_outcomes_total", help, "server", each(), text);
    let help = "Time from a request to its reply, in turns of the router; timeouts are in it.";
    latencies("evenkeel_route_server_latency_seconds", help, "server", each(), text);
    let mut family =
        text.family("evenkeel_route_server_outstanding", Gauge, "Requests to a server without a reply yet.");
    for (name, figures) in each() {
        family.sample(&[("server", name)], figures.outstanding);
    }
    let help = "Whether a server gets requests: 1, or 0 until a probe is answered.";
    let mut family = text.family("evenkeel_route_server_available", Gauge, help);
    for (name, figures) in all.servers.iter() {
        // A server with several time limits is one server.
        family.sample(&[("server", name)], u8::from(figures.available == figures.servers));
    }
    let help = "Servers beyond the limit of those that have series of their own.";
    text.single("evenkeel_route_servers_not_shown", Gauge, help, all.others.servers);
}

fn by_pool(all: &AllServers, text: &mut Exposition) {
    let each = || all.pools.iter().map(|(name, figures)| (&**name, figures));
    let help = "Requests to the servers of a pool, by what became of them.";
    outcomes("evenkeel_route_pool_outcomes_total", help, "pool", each(), text);
    let help = "Time from a request to its reply, of the servers of a pool; timeouts are in it.";
    latencies("evenkeel_route_pool_latency_seconds", help, "pool", each(), text);
    let mut family = text.family("evenkeel_route_pool_servers", Gauge, "Servers of a pool.");
    for (name, figures) in each() {
        family.sample(&[("pool", name)], figures.servers);
    }
    let help = "Servers of a pool that get requests.";
    let mut family = text.family("evenkeel_route_pool_available_servers", Gauge, help);
    for (name, figures) in each() {
        family.sample(&[("pool", name)], figures.available);
    }
    let help = "Pools beyond the limit of those that have series.";
    text.single("evenkeel_route_pools_not_shown", Gauge, help, all.pools_left_out);
}

fn outcomes<'a>(
    name: &str,
    help: &str,
    label: &str,
    each: impl Iterator<Item = (&'a str, &'a ServerFigures)>,
    text: &mut Exposition,
) {
    let mut family = text.family(name, Counter, help);
    for (of, figures) in each {
        for (fate, count) in FATES.into_iter().zip(figures.fates()) {
            family.sample(&[(label, of), ("outcome", fate)], count);
        }
    }
}

fn latencies<'a>(
    name: &str,
    help: &str,
    label: &str,
    each: impl Iterator<Item = (&'a str, &'a ServerFigures)>,
    text: &mut Exposition,
) {
    let mut family = text.family(name, Histogram, help);
    for (of, figures) in each {
        let mut below = 0;
        let buckets = figures.latency.iter().enumerate().filter_map(|(bucket, count)| {
            below += count;
            bound_s(bucket).map(|bound| (bound, below))
        });
        let buckets: Vec<(f64, u64)> = buckets.collect();
        let sum = figures.latency_us as f64 / 1e6;
        family.histogram(&[(label, of)], buckets, sum, figures.latency.iter().sum());
    }
}
