//! The figures as JSON, for `--once --json`.

use serde_json::{Map, Value, json};

use super::figures::{MEASURES, ServerFigures, TimeFigures};
use super::router::RouterFigures;
use super::watcher::{Seen, ServerState};

/// An array with an object for each server and each router.
pub(super) fn report(servers: &[ServerState]) -> String {
    let servers: Vec<Value> = servers.iter().map(server).collect();
    format!("{}\n", serde_json::to_string_pretty(&servers).expect("values become text"))
}

fn server(server: &ServerState) -> Value {
    let (field, value) = match &server.seen {
        Seen::Figures(figures) => ("figures", shown(figures)),
        Seen::Router(figures) => ("figures", shown_router(figures)),
        Seen::Unreachable(why) => ("unreachable", why.clone().into()),
        Seen::Nothing | Seen::Once => ("unreachable", "it has just started".into()),
    };
    let kind = if server.is_router { "router" } else { "server" };
    json!({ kind: server.name, field: value })
}

/// What the router does not count is `null`.
fn shown_router(figures: &RouterFigures) -> Value {
    let rate = |(name, rate): &(String, f64)| (name.clone(), json!(rate));
    let key = |(key, share): &(String, f64)| json!({ "key": key, "share": share });
    json!({
        "version": figures.version,
        "uptime_s": figures.uptime_s,
        "requests_per_s": figures.requests_per_s,
        "commands_per_s": figures.commands.iter().map(rate).collect::<Map<_, _>>(),
        "errors_per_s": figures.errors_per_s,
        "hit_ratio": figures.hit_ratio,
        "misses_per_s": figures.misses_per_s,
        "hot_cache_hits_per_s": figures.hot_cache_hits_per_s,
        "replies": figures.replies.map(times),
        "failovers_per_s": figures.failovers_per_s,
        "failed_failovers_per_s": figures.failed_failovers_per_s,
        "servers": figures.servers,
        "unavailable_servers": figures.unavailable_servers,
        "connections_up": figures.connections_up,
        "connections_down": figures.connections_down,
        "clients": figures.clients,
        "accepted_per_s": figures.accepted_per_s,
        "cpu": figures.cpu,
        "threads": figures.threads,
        "received_bytes_per_s": figures.received_bytes_per_s,
        "sent_bytes_per_s": figures.sent_bytes_per_s,
        "config_age_s": figures.config_age_s,
        "config_failures": figures.config_failures,
        "hot": figures.hot.as_ref().map(|keys| json!({
            "requests": keys.iter().map(key).collect::<Vec<_>>(),
        })),
    })
}

/// What the server does not report is `null`.
fn shown(figures: &ServerFigures) -> Value {
    let class = |class: &super::figures::ClassFigures| {
        let times = json!({
            "per_s": class.per_s, "p50_us": class.times.p50_us, "p99_us": class.times.p99_us,
            "max_us": class.times.max_us,
        });
        (class.name.to_owned(), times)
    };
    let hot = MEASURES.into_iter().zip(&figures.hot).map(|(by, keys)| {
        let key = |(key, share): &(String, f64)| json!({ "key": key, "share": share });
        (by.to_owned(), keys.as_ref().map(|keys| keys.iter().map(key).collect::<Vec<_>>()).into())
    });
    let worker =
        |worker: &super::figures::WorkerFigures| json!({ "busy": worker.busy, "waiting": worker.waiting });
    json!({
        "version": figures.version,
        "uptime_s": figures.uptime_s,
        "service": figures.classes.as_ref().map(|all| all.iter().map(class).collect::<Map<_, _>>()),
        "wait": figures.wait.map(times),
        "hit_ratio": figures.hit_ratio,
        "misses_per_s": figures.misses_per_s,
        "connections": figures.connections,
        "connections_max": figures.connections_max,
        "accepted_per_s": figures.accepted_per_s,
        "refused_per_s": figures.refused_per_s,
        "memory_bytes": figures.memory_bytes,
        "memory_limit_bytes": figures.memory_limit_bytes,
        "items": figures.items,
        "evictions_per_s": figures.evictions_per_s,
        "ghost_hits_per_s": figures.ghost_hits_per_s,
        "received_bytes_per_s": figures.received_bytes_per_s,
        "sent_bytes_per_s": figures.sent_bytes_per_s,
        "workers": figures.workers.iter().map(worker).collect::<Vec<_>>(),
        "hot": hot.collect::<Map<String, Value>>(),
    })
}

fn times(times: TimeFigures) -> Value {
    json!({"p50_us": times.p50_us, "p99_us": times.p99_us, "max_us": times.max_us})
}
