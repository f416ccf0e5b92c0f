//! The families of mcrouter_exporter, so that its dashboards and alerts go on working.
//!
//! Names, labels and types are the exporter's, also where Prometheus' conventions would have others.

use stdx::exposition::{Exposition, FamilyKind};

use super::server_figures::AllServers;
use crate::message::outcome::Outcome;
use crate::reports::facts::ReportFacts;
use crate::reports::listing_of_all;
use crate::shared::RouterShared;
use crate::stats::COMMANDS;

use FamilyKind::{Counter, Gauge};

/// Families of one statistic each: name, type, statistics that are added, help.
const SINGLE: [(&str, FamilyKind, &[&str], &str); 13] = [
    ("mcrouter_start_time_seconds", Counter, &["start_time"], "The time of the start, since 1970."),
    ("mcrouter_config_failures", Counter, &["config_failures"], "Loads of configurations that failed."),
    ("mcrouter_config_last_attempt", Gauge, &["config_last_attempt"], "Time of the last load, since 1970."),
    (
        "mcrouter_config_last_success",
        Gauge,
        &["config_last_success"],
        "Time of the last load that succeeded, since 1970.",
    ),
    (
        "mcrouter_duration_us",
        Gauge,
        &["duration_us"],
        "Average time of requests to servers, in microseconds.",
    ),
    ("mcrouter_proxy_reqs_processing", Gauge, &["proxy_reqs_processing"], "Requests without a reply yet."),
    ("mcrouter_proxy_reqs_waiting", Gauge, &["proxy_reqs_waiting"], "Requests that are not routed yet."),
    ("mcrouter_clients", Counter, &["num_clients"], "Connections of clients."),
    (
        "mcrouter_cpu_seconds_total",
        Counter,
        &["ps_user_time_sec", "ps_system_time_sec"],
        "CPU time of the process, in seconds.",
    ),
    ("mcrouter_resident_memory_bytes", Counter, &["ps_rss"], "Resident memory, in bytes."),
    ("mcrouter_virtual_memory_bytes", Counter, &["ps_vsize"], "Virtual memory, in bytes."),
    ("mcrouter_dev_null_requests", Counter, &["dev_null_requests"], "Requests sent to a DevNullRoute."),
    ("mcrouter_asynclog_requests", Counter, &["asynclog_requests"], "Deletes written to the async log."),
];

/// Families with a label: name, type, label, before and after the label's value in the statistic's name, help.
const LABELLED: [(&str, FamilyKind, &str, &str, &str, &str); 11] = [
    ("mcrouter_commands", Gauge, "cmd", "cmd_", "", "Requests per second, by command."),
    ("mcrouter_command_count", Counter, "cmd", "cmd_", "_count", "Requests, by command."),
    (
        "mcrouter_command_out",
        Counter,
        "cmd",
        "cmd_",
        "_out",
        "Requests to servers per second, without failovers.",
    ),
    ("mcrouter_command_out_all", Counter, "cmd", "cmd_", "_out_all", "Requests to servers per second."),
    ("mcrouter_request", Gauge, "type", "request_", "", "Requests per second, by stage."),
    ("mcrouter_request_count", Counter, "type", "request_", "_count", "Requests, by stage."),
    ("mcrouter_results", Gauge, "reply", "result_", "", "Errors per second, without failovers."),
    ("mcrouter_result_count", Counter, "reply", "result_", "_count", "Errors, without failovers."),
    ("mcrouter_result_all", Gauge, "reply", "result_", "_all", "Errors per second."),
    ("mcrouter_result_all_count", Counter, "reply", "result_", "_all_count", "Errors."),
    ("mcrouter_servers", Gauge, "state", "num_servers_", "", "Connections to servers, by state."),
];

/// Values of the labels.
fn values(label: &str) -> &'static [&'static str] {
    match label {
        "cmd" => &COMMANDS,
        "type" => &["error", "replied", "sent", "success"],
        "reply" => {
            &["busy", "connect_error", "connect_timeout", "data_timeout", "error", "local_error", "tko"]
        }
        _ => &["closed", "down", "new", "up"],
    }
}

/// Families by server: name, outcome.
const RESULTS: [(&str, Outcome); 11] = [
    ("mcrouter_server_memcached_stored_count", Outcome::Stored),
    ("mcrouter_server_memcached_not_stored_count", Outcome::NotStored),
    ("mcrouter_server_memcached_found_count", Outcome::Found),
    ("mcrouter_server_memcached_not_found_count", Outcome::NotFound),
    ("mcrouter_server_memcached_deleted_count", Outcome::Deleted),
    ("mcrouter_server_memcached_touched_count", Outcome::Touched),
    ("mcrouter_server_memcached_exists_count", Outcome::Exists),
    ("mcrouter_server_memcached_remote_error_count", Outcome::RemoteError),
    ("mcrouter_server_memcached_connect_timeout_count", Outcome::ConnectTimeout),
    ("mcrouter_server_memcached_timeout_count", Outcome::Timeout),
    ("mcrouter_server_memcached_tko", Outcome::Unavailable),
];

pub(super) fn write(shared: &RouterShared, facts: &ReportFacts, servers: &AllServers, text: &mut Exposition) {
    let stats = listing_of_all(shared, facts);
    let value = |name: &str| stats.get(name).and_then(|value| value.parse::<f64>().ok());
    text.single("mcrouter_up", Gauge, "Whether the router answers.", 1);
    text.family("mcrouter_version", Gauge, "The version, as a label.")
        .sample(&[("version", crate::VERSION)], 1);
    for (name, kind, stats, help) in SINGLE {
        // What is not built has no family.
        let values: Option<Vec<f64>> = stats.iter().map(|name| value(name)).collect();
        if let Some(values) = values {
            text.single(name, kind, help, values.iter().sum::<f64>());
        }
    }
    for (name, kind, label, before, after, help) in LABELLED {
        let mut family = text.family(name, kind, help);
        for of in values(label) {
            if let Some(value) = value(&format!("{before}{of}{after}")) {
                family.sample(&[(label, of)], value);
            }
        }
    }
    for (name, outcome) in RESULTS {
        let help = format!("Requests to a server that ended with {}.", outcome.name());
        let mut family = text.family(name, Counter, &help);
        for (server, figures) in &servers.servers {
            family.sample(&[("server", server)], figures.results[outcome as usize]);
        }
    }
}
