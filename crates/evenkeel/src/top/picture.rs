//! The picture of one server or router in full, or of several in a line each.

use stdx::words::counted;

use super::figures::{MEASURES, ServerFigures, TimeFigures};
use super::watcher::{Seen, ServerState};

mod router;

pub(super) const TITLE: &str = "evenkeel top";
/// Hot keys by each measure that are shown: more than fit most terminals.
const HOT_MAX: usize = 20;
/// Hot keys of all servers together.
const HOT_OF_ALL: usize = 10;
/// Workers that are shown one by one.
const WORKERS_MAX: usize = 16;

/// At most `rows` lines of at most `columns` characters.
pub(super) fn picture(servers: &[ServerState], columns: usize, rows: usize) -> String {
    let mut lines = match servers {
        [router] if router.is_router => router::one(router),
        [server] => one(server, columns),
        servers => several(servers),
    };
    lines.truncate(rows.saturating_sub(1).max(1));
    lines.iter().map(|line| cut(line, columns) + "\n").collect()
}

/// With an ellipsis if it is too long.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.trim_end().to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn one(server: &ServerState, columns: usize) -> Vec<String> {
    let title = format!("{TITLE}: {}", server.name);
    let Seen::Figures(figures) = &server.seen else {
        return vec![format!("{title} (q ends)"), String::new(), absence(&server.seen)];
    };
    let mut lines = vec![
        format!("{title}, {}, up {} (q ends)", figures.version, duration(figures.uptime_s)),
        String::new(),
        format!("{:<12}{:>12}  {:>9}{:>9}{:>9} µs", "", "per second", "p50 <", "p99 <", "max <"),
    ];
    let classes = figures.classes.iter().flatten();
    lines.extend(classes.map(|class| times(class.name, &grouped(class.per_s), &class.times)));
    lines.extend(figures.without_requests().map(str::to_owned));
    // Before their turn, of any class.
    lines.extend(figures.wait.iter().map(|wait| times("waited", "", wait)));
    lines.extend([
        String::new(),
        hits(figures),
        memory(figures),
        evictions(figures),
        clients(figures),
        network(figures),
        workers(figures),
    ]);
    lines.push(String::new());
    lines.extend(hot_columns(figures, columns));
    lines
}

fn times(name: &str, rate: &str, times: &TimeFigures) -> String {
    format!("{name:<12}{rate:>12}  {:>9}{:>9}{:>9}", times.p50_us, times.p99_us, times.max_us)
}

/// A time in microseconds. Of the longest, only the beginning of their bucket is known.
pub(super) fn micros(us: u64) -> String {
    if us >= LONGEST_US { "∞".to_owned() } else { us.to_string() }
}

/// The end of a router's last bucket.
const LONGEST_US: u64 = i64::MAX as u64;

/// `2 threads`: those of a router that route.
pub(super) fn threads(count: Option<u64>) -> String {
    count.map_or("– threads".to_owned(), |count| counted(count as usize, "thread"))
}

/// A number that a server or router of another version may not have.
pub(super) fn known(count: Option<u64>) -> String {
    count.map_or("–".to_owned(), |count| grouped(count as f64))
}

pub(super) fn known_rate(rate: Option<f64>) -> String {
    rate.map_or("–".to_owned(), grouped)
}

fn absence(seen: &Seen) -> String {
    match seen {
        Seen::Unreachable(why) => format!("unreachable: {why}"),
        _ => "reading".to_owned(),
    }
}

fn row(name: &str, text: String) -> String {
    format!("{name:<12}{text}")
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn hits(figures: &ServerFigures) -> String {
    let ratio = figures.hit_ratio.map_or("–".to_owned(), percent);
    row("hits", format!("{ratio} of gets, {} misses/s", known_rate(figures.misses_per_s)))
}

fn memory(figures: &ServerFigures) -> String {
    let [used, limit] = [figures.memory_bytes, figures.memory_limit_bytes].map(mebibytes);
    row("memory", format!("{used} of {limit} MiB, {} items", known(figures.items)))
}

fn evictions(figures: &ServerFigures) -> String {
    let [evictions, ghosts] = [figures.evictions_per_s, figures.ghost_hits_per_s].map(known_rate);
    row("evictions", format!("{evictions}/s; {ghosts}/s were stored again soon (ghost hits)"))
}

const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn mebibytes(bytes: Option<u64>) -> String {
    known_rate(bytes.map(|bytes| bytes as f64 / MIB))
}

/// Millions of bytes in a second.
pub(super) fn megabytes(bytes: Option<f64>) -> String {
    bytes.map_or("–".to_owned(), |bytes| format!("{:.1}", bytes / 1e6))
}

pub(super) fn percents(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn clients(figures: &ServerFigures) -> String {
    let [now, max] = [figures.connections, figures.connections_max].map(known);
    let [new, refused] = [figures.accepted_per_s, figures.refused_per_s].map(known_rate);
    row("clients", format!("{now} of {max} connections, {new} new/s, {refused} refused/s"))
}

fn network(figures: &ServerFigures) -> String {
    let [received, sent] = [figures.received_bytes_per_s, figures.sent_bytes_per_s].map(megabytes);
    row("network", format!("{received} MB/s received, {sent} MB/s sent"))
}

fn workers(figures: &ServerFigures) -> String {
    if figures.workers.is_empty() {
        return row("workers", "busy – %, without a CPU – %".to_owned());
    }
    let shown = figures.workers.iter().take(WORKERS_MAX);
    let list = |of: fn(&super::figures::WorkerFigures) -> f64| {
        shown.clone().map(|worker| format!("{:.0}", of(worker) * 100.0)).collect::<Vec<_>>().join(" ")
    };
    let more = if figures.workers.len() > WORKERS_MAX { " …" } else { "" };
    let (busy, waiting) = (list(|worker| worker.busy), list(|worker| worker.waiting));
    row("workers", format!("busy {busy}{more} %, without a CPU {waiting}{more} %"))
}

/// Three columns beside each other.
fn hot_columns(figures: &ServerFigures, columns: usize) -> Vec<String> {
    let width = (columns / MEASURES.len()).saturating_sub(2).clamp(20, 40);
    let cells = |cells: Vec<String>| {
        cells.iter().map(|cell| format!("{:<width$}  ", cut(cell, width))).collect::<String>()
    };
    let mut lines = vec![cells(MEASURES.map(|by| format!("hot by {by}")).into())];
    if figures.hot.iter().all(Option::is_none) {
        return vec!["the server lists no keys (-X)".to_owned()];
    }
    for place in 0..HOT_MAX {
        let cell = |keys: &Option<Vec<(String, f64)>>| {
            let hot = keys.as_ref().and_then(|keys| keys.get(place));
            hot.map_or(String::new(), |(key, share)| format!("{:>7}  {key}", percent(*share)))
        };
        let row: Vec<String> = figures.hot.iter().map(cell).collect();
        if row.iter().all(String::is_empty) {
            break;
        }
        lines.push(cells(row));
    }
    if lines.len() == 1 {
        lines.push("none".to_owned());
    }
    lines
}

/// `3 servers, 1 router, 1 unreachable`.
pub(super) fn summary_title<'s>(all: impl Iterator<Item = &'s ServerState> + Clone) -> String {
    let count = |is: fn(&ServerState) -> bool| all.clone().filter(|state| is(state)).count();
    let (servers, routers) = (count(|state| !state.is_router), count(|state| state.is_router));
    let away = count(|state| matches!(state.seen, Seen::Unreachable(_)));
    let mut parts = Vec::new();
    if servers > 0 || routers == 0 {
        parts.push(counted(servers, "server"));
    }
    if routers > 0 {
        parts.push(counted(routers, "router"));
    }
    if away > 0 {
        parts.push(format!("{away} unreachable"));
    }
    parts.join(", ")
}

/// Above the hottest keys of all.
pub(super) const HOT_HEADING: &str = "hot by requests, of those of its server";

fn several(all: &[ServerState]) -> Vec<String> {
    let width = all.iter().map(|server| server.name.chars().count()).max().unwrap_or(0).max(6);
    let (routers, servers): (Vec<_>, Vec<_>) = all.iter().partition(|state| state.is_router);
    let mut lines = vec![format!("{TITLE}: {} (q ends)", summary_title(all.iter())), String::new()];
    if !routers.is_empty() {
        lines.push(router::heading(width));
        lines.extend(routers.iter().map(|state| router::line(state, width)));
        if !servers.is_empty() {
            lines.push(String::new());
        }
    }
    if !servers.is_empty() {
        lines.push(format!(
            "{:<width$} {:>11} {:>10} {:>8} {:>8} {:>8} {:>7} {:>9} {:>7}",
            "server", "gets/s", "sets/s", "hits", "p99 < µs", "clients", "memory", "evict/s", "busiest"
        ));
        lines.extend(servers.iter().map(|server| match &server.seen {
            Seen::Figures(figures) => format!("{:<width$} {}", server.name, summary(figures)),
            seen => format!("{:<width$} {}", server.name, absence(seen)),
        }));
    }
    let hot = hottest(all);
    if !hot.is_empty() {
        lines.extend([String::new(), HOT_HEADING.to_owned()]);
        lines.extend(
            hot.into_iter().map(|(share, name, key)| format!("{:>7}  {name:<width$}  {key}", percent(share))),
        );
    }
    lines
}

fn summary(figures: &ServerFigures) -> String {
    let p99 = figures.class("get").map_or("–".to_owned(), |class| class.times.p99_us.to_string());
    format!(
        "{:>11} {:>10} {:>8} {p99:>8} {:>8} {:>7} {:>9} {:>7}",
        known_rate(figures.rate_of("get")),
        known_rate(figures.rate_of("set")),
        figures.hit_ratio.map_or("–".to_owned(), percent),
        figures.connections.map_or("–".to_owned(), |count| count.to_string()),
        percents(figures.memory_share()),
        known_rate(figures.evictions_per_s),
        percents(figures.busiest()),
    )
}

/// The keys with the largest shares, with their servers; with their routers where there are no servers, whose requests those
/// of a router are.
pub(super) fn hottest<'s>(
    servers: impl IntoIterator<Item = &'s ServerState, IntoIter: Clone>,
) -> Vec<(f64, &'s str, &'s str)> {
    let servers = servers.into_iter();
    let has_servers = servers.clone().any(|server| !server.is_router);
    let mut all = Vec::new();
    for server in servers {
        let keys = match &server.seen {
            Seen::Figures(figures) => figures.hot[0].iter().flatten(),
            Seen::Router(figures) if !has_servers => figures.hot.iter().flatten(),
            _ => continue,
        };
        all.extend(keys.map(|(key, share)| (*share, &*server.name, &**key)));
    }
    all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    all.truncate(HOT_OF_ALL);
    all
}

/// With commas between thousands.
pub(super) fn grouped(value: f64) -> String {
    let digits = (value.round().max(0.0) as u64).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
pub(super) mod tests;
