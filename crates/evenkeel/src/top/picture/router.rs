//! Routers: one in full, or a line for each.

use super::{
    TITLE, absence, duration, grouped, known, known_rate, megabytes, micros, percent, percents, row, threads,
};
use crate::top::router::RouterFigures;
use crate::top::watcher::{Seen, ServerState};

/// Hot keys that are shown.
const HOT_MAX: usize = 20;

pub(super) fn one(router: &ServerState) -> Vec<String> {
    let title = format!("{TITLE}: router {}", router.name);
    let Seen::Router(figures) = &router.seen else {
        return vec![format!("{title} (q ends)"), String::new(), absence(&router.seen)];
    };
    let mut lines = vec![
        format!("{title}, {}, up {} (q ends)", figures.version, duration(figures.uptime_s)),
        String::new(),
        format!("{:<12}{:>12}  {:>9}{:>9}{:>9} µs", "", "per second", "p50 <", "p99 <", "max <"),
    ];
    lines.extend(figures.commands.iter().map(|(name, rate)| format!("{name:<12}{:>12}", grouped(*rate))));
    if figures.commands.is_empty() {
        lines.push("no requests".to_owned());
    }
    lines.extend(figures.replies.map(|times| {
        let [p50, p99, max] = [times.p50_us, times.p99_us, times.max_us].map(micros);
        format!("{:<12}{:>12}  {p50:>9}{p99:>9}{max:>9}", "replies", "")
    }));
    lines.push(String::new());
    lines.extend(facts(figures));
    lines.extend([String::new(), "hot by requests".to_owned()]);
    match &figures.hot {
        None => lines.push("the router lists no keys (--hide-hot-keys)".to_owned()),
        Some(keys) if keys.is_empty() => lines.push("none".to_owned()),
        Some(keys) => {
            let shown = keys.iter().take(HOT_MAX);
            lines.extend(shown.map(|(key, share)| format!("{:>7}  {key}", percent(*share))));
        }
    }
    lines
}

fn facts(figures: &RouterFigures) -> [String; 8] {
    let ratio = figures.hit_ratio.map_or("–".to_owned(), percent);
    let [misses, hot, errors, over, failed, new] = [
        figures.misses_per_s,
        figures.hot_cache_hits_per_s,
        figures.errors_per_s,
        figures.failovers_per_s,
        figures.failed_failovers_per_s,
        figures.accepted_per_s,
    ]
    .map(known_rate);
    let [received, sent] = [figures.received_bytes_per_s, figures.sent_bytes_per_s].map(megabytes);
    let [up, down, clients, refused] =
        [figures.connections_up, figures.connections_down, figures.clients, figures.config_failures]
            .map(known);
    let cpu = percents(figures.cpu);
    let age = figures.config_age_s.map_or("–".to_owned(), duration);
    [
        row("hits", format!("{ratio} of gets, {misses} misses/s")),
        row("hot values", format!("{hot}/s of these hits without a server")),
        row("failures", format!("{errors} errors/s, {over} failovers/s, {failed} failed failovers/s")),
        row(
            "servers",
            format!("{} unavailable (TKO), {up} connections up, {down} down", figures.unavailable()),
        ),
        row("clients", format!("{clients} connections, {new} new/s")),
        row("network", format!("{received} MB/s received, {sent} MB/s sent")),
        row("CPU", format!("{cpu} of one, {}", threads(figures.threads))),
        row("config", format!("loaded {age} ago, {refused} later ones refused")),
    ]
}

pub(super) fn heading(width: usize) -> String {
    format!(
        "{:<width$} {:>11} {:>10} {:>8} {:>8} {:>8} {:>7} {:>11} {:>7}",
        "router", "reqs/s", "errors/s", "hits", "p99 < µs", "clients", "TKO", "failovers/s", "CPU"
    )
}

pub(super) fn line(router: &ServerState, width: usize) -> String {
    let Seen::Router(figures) = &router.seen else {
        return format!("{:<width$} {}", router.name, absence(&router.seen));
    };
    format!(
        "{:<width$} {:>11} {:>10} {:>8} {:>8} {:>8} {:>7} {:>11} {:>7}",
        router.name,
        grouped(figures.requests_per_s),
        known_rate(figures.errors_per_s),
        figures.hit_ratio.map_or("–".to_owned(), percent),
        figures.replies.map_or("–".to_owned(), |times| micros(times.p99_us)),
        known(figures.clients),
        figures.unavailable(),
        known_rate(figures.failovers_per_s),
        percents(figures.cpu),
    )
}
