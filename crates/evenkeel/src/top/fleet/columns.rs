//! Columns of the fleet's tables: words, order and thresholds of `evenkeel top`.

use ratatui::style::Style;
use ratatui::text::Span;
use serde_json::Value;

use crate::top::picture::{grouped, known_rate, percent, percents};
use crate::top::view::page::{alarm, heat};

/// A column: its heading, its width, its text.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) width: usize,
    pub(super) cell: fn(&Value) -> Span<'static>,
}

/// A point that is older was not followed by another: a turn takes 20 s at most.
const OLD_S: f64 = 60.0;
/// Availability below which the figure is yellow, and red: 99.9 % and 99 %.
const LEVEL_WARM: f64 = 0.999;
const LEVEL_HOT: f64 = 0.99;

/// Of views and pools.
pub(super) const LEVELS: [Column; 4] = [
    Column { heading: "reqs/s", width: 11, cell: |fields| rate(fields, "requests_per_s") },
    Column { heading: "good 5 min", width: 12, cell: |fields| level(fields, "availability_5min") },
    Column { heading: "good 1 h", width: 12, cell: |fields| level(fields, "availability_1h") },
    Column { heading: "good 24 h", width: 12, cell: |fields| level(fields, "availability_24h") },
];

/// Of routers.
pub(super) const ROUTERS: [Column; 9] = [
    Column { heading: "reqs/s", width: 11, cell: |fields| rate(fields, "requests_per_s") },
    Column { heading: "hits", width: 9, cell: |fields| share(fields, "hit_ratio") },
    Column { heading: "p99 < µs", width: 9, cell: |fields| rate(fields, "reply_p99_us") },
    Column { heading: "TKO", width: 6, cell: |fields| alarming(fields, "unavailable_servers") },
    Column { heading: "errors/s", width: 10, cell: |fields| alarming(fields, "errors_per_s") },
    Column { heading: "CPU", width: 7, cell: |fields| percents(fields["cpus"].as_f64()).into() },
    Column { heading: "clients", width: 8, cell: |fields| rate(fields, "clients") },
    Column { heading: "failovers/s", width: 13, cell: |fields| alarming(fields, "failovers_per_s") },
    Column { heading: "age", width: 7, cell: age },
];

/// Of servers.
pub(super) const SERVERS: [Column; 9] = [
    Column { heading: "reqs/s", width: 11, cell: |fields| rate(fields, "requests_per_s") },
    Column { heading: "hits", width: 9, cell: |fields| share(fields, "hit_ratio") },
    Column { heading: "p99 < µs", width: 9, cell: |fields| rate(fields, "service_p99_us") },
    Column { heading: "memory", width: 8, cell: memory },
    Column { heading: "evict/s", width: 9, cell: |fields| rate(fields, "evictions_per_s") },
    Column { heading: "CPU", width: 7, cell: |fields| percents(fields["cpus"].as_f64()).into() },
    Column { heading: "clients", width: 8, cell: |fields| rate(fields, "connections") },
    Column { heading: "without a CPU", width: 15, cell: waiting },
    Column { heading: "age", width: 7, cell: age },
];

fn rate(fields: &Value, name: &str) -> Span<'static> {
    known_rate(fields[name].as_f64()).into()
}

fn share(fields: &Value, name: &str) -> Span<'static> {
    fields[name].as_f64().map_or("–".to_owned(), percent).into()
}

/// In red where it is known and not zero.
fn alarming(fields: &Value, name: &str) -> Span<'static> {
    fields[name].as_f64().map_or("–".into(), |rate| alarm(rate, grouped(rate)))
}

fn level(fields: &Value, name: &str) -> Span<'static> {
    let Some(share) = fields[name].as_f64() else { return "–".into() };
    // Of what is missing from all, more is worse.
    let colour = heat(1.0 - share, 1.0 - LEVEL_WARM, 1.0 - LEVEL_HOT);
    Span::styled(format!("{:.4} %", share * 100.0), Style::new().fg(colour))
}

fn memory(fields: &Value) -> Span<'static> {
    let used = fields["memory_used_bytes"].as_f64().zip(fields["memory_limit_bytes"].as_f64());
    percents(used.filter(|(_, limit)| *limit > 0.0).map(|(used, limit)| used / limit)).into()
}

/// Where workers are ready and have no CPU, other programs have it.
fn waiting(fields: &Value) -> Span<'static> {
    match fields["scheduling_wait_share"].as_f64() {
        Some(share) => Span::styled(percents(Some(share)), Style::new().fg(heat(share, 0.05, 0.2))),
        None => "–".into(),
    }
}

fn age(fields: &Value) -> Span<'static> {
    match fields["age_s"].as_f64() {
        Some(age_s) if age_s >= OLD_S => alarm(age_s, format!("{age_s:.0} s")),
        Some(age_s) => format!("{age_s:.0} s").into(),
        None => "–".into(),
    }
}
