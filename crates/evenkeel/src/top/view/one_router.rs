//! One router in full.

use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::one::{BARS_MIN, TABLE, gauge, name, row};
use super::page::{Page, ServerView, absence, alarm, cut, heading, title};
use crate::top::figures::TimeFigures;
use crate::top::picture::{
    duration, grouped, known, known_rate, megabytes, micros, percent, percents, threads,
};
use crate::top::router::RouterFigures;
use crate::top::watcher::Seen;

/// Commands that are shown: those with most requests.
const COMMANDS_MAX: usize = 6;

pub(super) fn draw(page: &mut Page<'_, '_>, router: &ServerView, host: &[Line<'static>]) {
    let shown = &router.state.name;
    let Seen::Router(figures) = &router.state.seen else {
        title(page, &format!("router {shown}"));
        page.gap();
        let width = page.width();
        page.lines(vec![absence(&router.state.seen, width).into()]);
        page.gap();
        return page.lines(host.to_vec());
    };
    title(page, &format!("router {shown}  {}  up {}", figures.version, duration(figures.uptime_s)));
    page.gap();
    requests(page, figures, router);
    page.gap();
    let width = page.width();
    page.lines(vec![hits(figures, width), hot_values(figures), failures(figures)]);
    page.lines(vec![servers(figures), clients(figures), network(figures)]);
    page.lines(vec![cpu(figures), configuration(figures)]);
    if !host.is_empty() {
        page.gap();
        page.lines(host.to_vec());
    }
    page.gap();
    hot(page, figures);
}

/// A row for each command, and the times of the servers' replies; beside them the course of all requests.
fn requests(page: &mut Page<'_, '_>, figures: &RouterFigures, router: &ServerView) {
    let width = page.width();
    let times = width.saturating_sub(24 + 3) / 9;
    let none = || [const { String::new() }; 3];
    let mut lines = vec![row("", "per second", ["p50 <", "p99 <", "max <"].map(String::from), times).bold()];
    if times > 0 {
        lines[0].push_span(" µs");
    }
    let shown = figures.commands.iter().take(COMMANDS_MAX);
    lines.extend(shown.map(|(name, rate)| row(&cut(name, 11), &grouped(*rate), none(), times)));
    if figures.commands.is_empty() {
        lines.push(Line::raw("no requests"));
    }
    lines.extend(figures.replies.map(|replies| row("replies", "", numbers(replies), times)));
    let area = page.take(lines.len());
    page.frame.render_widget(Paragraph::new(lines), area);
    let beside = width.saturating_sub(TABLE + 2);
    if beside >= BARS_MIN && area.height > 1 {
        let x = area.x + (TABLE + 2) as u16;
        let head = Rect { x, width: beside as u16, height: 1, ..area };
        page.frame.render_widget(heading("requests"), head);
        page.bars(Rect { y: area.y + 1, height: area.height - 1, ..head }, &router.rates);
    }
}

fn numbers(times: TimeFigures) -> [String; 3] {
    [times.p50_us, times.p99_us, times.max_us].map(micros)
}

fn hits(figures: &RouterFigures, width: usize) -> Line<'static> {
    let ratio = figures.hit_ratio.map_or("–".to_owned(), percent);
    let misses = known_rate(figures.misses_per_s);
    let text = format!(" {ratio} of gets, {misses} misses/s");
    vec![name("hits"), gauge(figures.hit_ratio.unwrap_or(0.0), width), text.into()].into()
}

fn hot_values(figures: &RouterFigures) -> Line<'static> {
    let rate = known_rate(figures.hot_cache_hits_per_s);
    vec![name("hot values"), format!("{rate}/s of these hits without a server").into()].into()
}

fn failures(figures: &RouterFigures) -> Line<'static> {
    let errors = format!("{} errors/s", known_rate(figures.errors_per_s));
    let [over, failed] = [figures.failovers_per_s, figures.failed_failovers_per_s].map(known_rate);
    let failovers = format!(", {over} failovers/s, {failed} failed failovers/s");
    vec![name("failures"), alarm(figures.errors_per_s.unwrap_or(0.0), errors), failovers.into()].into()
}

fn servers(figures: &RouterFigures) -> Line<'static> {
    let away = figures.unavailable_servers.unwrap_or(0) as f64;
    let unavailable = alarm(away, format!("{} unavailable (TKO)", figures.unavailable()));
    let [up, down] = [figures.connections_up, figures.connections_down].map(known);
    vec![name("servers"), unavailable, format!(", {up} connections up, {down} down").into()].into()
}

fn clients(figures: &RouterFigures) -> Line<'static> {
    let (now, new) = (known(figures.clients), known_rate(figures.accepted_per_s));
    vec![name("clients"), format!("{now} connections, {new} new/s").into()].into()
}

fn network(figures: &RouterFigures) -> Line<'static> {
    let [received, sent] = [figures.received_bytes_per_s, figures.sent_bytes_per_s].map(megabytes);
    vec![name("network"), format!("{received} MB/s received, {sent} MB/s sent").into()].into()
}

fn cpu(figures: &RouterFigures) -> Line<'static> {
    let used = percents(figures.cpu);
    vec![name("CPU"), format!("{used} of one, {}", threads(figures.threads)).into()].into()
}

fn configuration(figures: &RouterFigures) -> Line<'static> {
    let age = figures.config_age_s.map_or("–".to_owned(), duration);
    let failures = figures.config_failures;
    let failed = alarm(failures.unwrap_or(0) as f64, format!("{} later ones refused", known(failures)));
    vec![name("config"), format!("loaded {age} ago, ").into(), failed].into()
}

fn hot(page: &mut Page<'_, '_>, figures: &RouterFigures) {
    let Some(keys) = &figures.hot else {
        return page.lines(vec![Line::raw("the router lists no keys (--hide-hot-keys)")]);
    };
    let width = page.width();
    let mut lines = vec![heading("hot by requests")];
    let line =
        |(key, share): &(String, f64)| Line::raw(format!("{:>7}  {}", percent(*share), cut(key, width)));
    lines.extend(keys.iter().take(page.left.height.into()).map(line));
    if lines.len() == 1 {
        lines.push(Line::raw("none"));
    }
    page.lines(lines);
}
