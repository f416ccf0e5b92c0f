//! The figures as JSON, for `--once --json`.

use serde_json::{Map, Value, json};

use super::figures::{MEASURES, ServerFigures};
use super::watcher::{Seen, ServerState};

/// An array with an object for each server.
pub(super) fn report(servers: &[ServerState]) -> String {
    let servers: Vec<Value> = servers.iter().map(server).collect();
    format!("{}\n", serde_json::to_string_pretty(&servers).expect("values become text"))
}

fn server(server: &ServerState) -> Value {
    match &server.seen {
        Seen::Figures(figures) => json!({ "server": server.name, "figures": shown(figures) }),
        Seen::Unreachable(why) => json!({ "server": server.name, "unreachable": why }),
        Seen::Nothing | Seen::Once => json!({ "server": server.name, "unreachable": "it has just started" }),
    }
}

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
        "service": figures.classes.iter().map(class).collect::<Map<_, _>>(),
        "wait": figures.wait.map(|wait| json!({
            "p50_us": wait.p50_us, "p99_us": wait.p99_us, "max_us": wait.max_us,
        })),
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
