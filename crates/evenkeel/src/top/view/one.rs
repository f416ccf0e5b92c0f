//! One server in full.

use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};

use super::page::{Page, ServerView, absence, alarm, bar, cut, heading, heat, title};
use crate::top::figures::{MEASURES, ServerFigures, TimeFigures, WorkerFigures};
use crate::top::picture::{duration, grouped, known, known_rate, mebibytes, megabytes, percent};
use crate::top::watcher::Seen;

/// Columns of the table of requests, with all of its times.
pub(super) const TABLE: usize = 12 + 12 + 3 * 9 + 3;
/// Fewer columns of bars show no course.
pub(super) const BARS_MIN: usize = 10;
/// Columns of a worker.
const WORKER: usize = 26;
/// Rows of workers: with 16 to a row on a wide terminal, more than there are.
const WORKER_ROWS_MAX: usize = 4;

pub(super) fn draw(page: &mut Page<'_, '_>, server: &ServerView, host: &[Line<'static>]) {
    let name = &server.state.name;
    let Seen::Figures(figures) = &server.state.seen else {
        title(page, name);
        page.gap();
        let width = page.width();
        page.lines(vec![absence(&server.state.seen, width).into()]);
        page.gap();
        return page.lines(host.to_vec());
    };
    title(page, &format!("{name}  {}  up {}", figures.version, duration(figures.uptime_s)));
    page.gap();
    requests(page, figures, server);
    page.gap();
    let width = page.width();
    page.lines(vec![hits(figures, width), memory(figures, width), evictions(figures), clients(figures)]);
    page.lines(vec![network(figures)]);
    workers(page, &figures.workers);
    if !host.is_empty() {
        page.gap();
        page.lines(host.to_vec());
    }
    page.gap();
    hot(page, figures);
}

/// A row for each class, with the times that there is room for; beside them the course of all requests.
fn requests(page: &mut Page<'_, '_>, figures: &ServerFigures, server: &ServerView) {
    let width = page.width();
    let times = width.saturating_sub(24 + 3) / 9;
    let mut lines = vec![row("", "per second", ["p50 <", "p99 <", "max <"].map(String::from), times).bold()];
    if times > 0 {
        lines[0].push_span(" µs");
    }
    for class in figures.classes.iter().flatten() {
        lines.push(row(class.name, &grouped(class.per_s), numbers(class.times), times));
    }
    lines.extend(figures.without_requests().map(Line::raw));
    // Before their turn, of any class.
    lines.extend(figures.wait.map(|wait| row("waited", "", numbers(wait), times)));
    let area = page.take(lines.len());
    page.frame.render_widget(ratatui::widgets::Paragraph::new(lines), area);
    let beside = width.saturating_sub(TABLE + 2);
    if beside >= BARS_MIN && area.height > 1 {
        let x = area.x + (TABLE + 2) as u16;
        let head = Rect { x, width: beside as u16, height: 1, ..area };
        page.frame.render_widget(heading("requests"), head);
        page.bars(Rect { y: area.y + 1, height: area.height - 1, ..head }, &server.rates);
    }
}

fn numbers(times: TimeFigures) -> [String; 3] {
    [times.p50_us, times.p99_us, times.max_us].map(|us| us.to_string())
}

/// The 99th percentile goes first, then the maximum.
pub(super) fn row(name: &str, rate: &str, [p50, p99, max]: [String; 3], times: usize) -> Line<'static> {
    let shown: &[String] = match times {
        0 => &[],
        1 => &[p99],
        2 => &[p99, max],
        _ => &[p50, p99, max],
    };
    let times: String = shown.iter().map(|time| format!("{time:>9}")).collect();
    Line::raw(format!("{name:<12}{rate:>12}{times}"))
}

pub(super) fn name(text: &str) -> Span<'static> {
    Span::styled(format!("{text:<11} "), Style::new().bold())
}

pub(super) fn gauge(share: f64, width: usize) -> Span<'static> {
    let columns = (width / 5).clamp(4, 24);
    Span::styled(bar(share, columns), Style::new().cyan().on_dark_gray())
}

fn hits(figures: &ServerFigures, width: usize) -> Line<'static> {
    let ratio = figures.hit_ratio.map_or("–".to_owned(), percent);
    let text = format!(" {ratio} of gets, {} misses/s", known_rate(figures.misses_per_s));
    vec![name("hits"), gauge(figures.hit_ratio.unwrap_or(0.0), width), text.into()].into()
}

fn memory(figures: &ServerFigures, width: usize) -> Line<'static> {
    let [used, limit] = [figures.memory_bytes, figures.memory_limit_bytes].map(mebibytes);
    let text = format!(" {used} of {limit} MiB, {} items", known(figures.items));
    vec![name("memory"), gauge(figures.memory_share().unwrap_or(0.0), width), text.into()].into()
}

fn evictions(figures: &ServerFigures) -> Line<'static> {
    let [evictions, ghosts] = [figures.evictions_per_s, figures.ghost_hits_per_s].map(known_rate);
    let text = format!("{evictions}/s; {ghosts}/s were stored again soon (ghost hits)");
    vec![name("evictions"), text.into()].into()
}

fn clients(figures: &ServerFigures) -> Line<'static> {
    let [now, max] = [figures.connections, figures.connections_max].map(known);
    let text = format!("{now} of {max} connections, {} new/s, ", known_rate(figures.accepted_per_s));
    let refused = format!("{} refused/s", known_rate(figures.refused_per_s));
    let refused = alarm(figures.refused_per_s.unwrap_or(0.0), refused);
    vec![name("clients"), text.into(), refused].into()
}

fn network(figures: &ServerFigures) -> Line<'static> {
    let [received, sent] = [figures.received_bytes_per_s, figures.sent_bytes_per_s].map(megabytes);
    vec![name("network"), format!("{received} MB/s received, {sent} MB/s sent").into()].into()
}

/// A bar for each: how busy it is; and how long it was ready to run without a CPU.
fn workers(page: &mut Page<'_, '_>, workers: &[WorkerFigures]) {
    let a_row = (page.width().saturating_sub(12) / WORKER).max(1);
    let rows = workers.len().div_ceil(a_row).min(WORKER_ROWS_MAX);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (place, chunk) in workers.chunks(a_row).take(rows).enumerate() {
        let mut line = Line::from(name(if place == 0 { "workers" } else { "" }));
        for (number, worker) in chunk.iter().enumerate() {
            line.extend(worker_cell(place * a_row + number, *worker));
        }
        lines.push(line);
    }
    let shown = (rows * a_row).min(workers.len());
    if shown < workers.len() {
        lines.push(Line::raw(format!("{:12}and {} more", "", workers.len() - shown)));
    }
    page.lines(lines);
}

fn worker_cell(number: usize, worker: WorkerFigures) -> [Span<'static>; 3] {
    let busy = Style::new().fg(heat(worker.busy, 0.6, 0.9)).on_dark_gray();
    let waiting = format!(" +{:.0} wait", worker.waiting * 100.0);
    [
        Span::styled(bar(worker.busy, 6), busy),
        Span::raw(format!(" {number}: {:.0} %", worker.busy * 100.0)),
        Span::styled(
            format!("{:<width$}", waiting, width = WORKER.saturating_sub(6 + 8)),
            Style::new().fg(heat(worker.waiting, 0.02, 0.1)),
        ),
    ]
}

/// Three columns beside each other, where there is room for them.
fn hot(page: &mut Page<'_, '_>, figures: &ServerFigures) {
    if figures.hot.iter().all(Option::is_none) {
        return page.lines(vec![Line::raw("the server lists no keys (-X)")]);
    }
    let measures = (page.width() / 24).clamp(1, MEASURES.len());
    let width = (page.width() / measures).saturating_sub(2).min(48);
    let cells = |cells: Vec<String>| -> String {
        cells.iter().map(|cell| format!("{:<width$}  ", cut(cell, width))).collect()
    };
    let heads = MEASURES.iter().take(measures).map(|by| format!("hot by {by}"));
    let mut lines = vec![heading(cells(heads.collect()))];
    for place in 0..page.left.height.into() {
        let cell = |keys: &Option<Vec<(String, f64)>>| {
            let hot = keys.as_ref().and_then(|keys| keys.get(place));
            hot.map_or(String::new(), |(key, share)| format!("{:>7}  {}", percent(*share), cut(key, width)))
        };
        let row: Vec<String> = figures.hot.iter().take(measures).map(cell).collect();
        if row.iter().all(String::is_empty) {
            break;
        }
        lines.push(Line::raw(cells(row)));
    }
    if lines.len() == 1 {
        lines.push(Line::raw("none"));
    }
    page.lines(lines);
}
