//! Several servers in a line each, and the hottest keys of all.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{Page, ServerView, absence, alarm, cut, heading, heat, memory_share, title};
use crate::top::figures::ServerFigures;
use crate::top::picture::{grouped, hottest, percent};
use crate::top::watcher::Seen;

/// A longer name is cut.
const NAME_MAX: usize = 30;
/// Hot keys of all servers together have at least so many rows, if there are so many.
const HOT_MIN: usize = 5;
/// Fewer columns of bars show no course.
const BARS_MIN: usize = 10;

/// A column: its heading, its width, its text.
struct Column {
    heading: &'static str,
    width: usize,
    cell: fn(&ServerFigures) -> Span<'static>,
}

/// In the order in which they stand; those behind are left out first.
const COLUMNS: [Column; 9] = [
    Column { heading: "gets/s", width: 11, cell: |figures| rate(figures, "get") },
    Column {
        heading: "hits",
        width: 9,
        cell: |figures| figures.hit_ratio.map_or("–".into(), percent).into(),
    },
    Column { heading: "p99 < µs", width: 9, cell: p99 },
    Column { heading: "busiest", width: 8, cell: busiest },
    Column { heading: "sets/s", width: 10, cell: |figures| rate(figures, "set") },
    Column { heading: "memory", width: 7, cell: |figures| percents(memory_share(figures)).into() },
    Column { heading: "clients", width: 8, cell: |figures| figures.connections.to_string().into() },
    Column { heading: "evict/s", width: 9, cell: |figures| grouped(figures.evictions_per_s).into() },
    Column { heading: "refused/s", width: 10, cell: refused },
];

pub(super) fn draw(page: &mut Page<'_, '_>, servers: &[ServerView], host: &[Line<'static>]) {
    let away = servers.iter().filter(|server| matches!(server.state.seen, Seen::Unreachable(_))).count();
    let away = if away == 0 { String::new() } else { format!(", {away} unreachable") };
    title(page, &format!("{} servers{away}", servers.len()));
    page.gap();
    let hot = hot_lines(servers);
    let below =
        [host.len(), hot.len().min(HOT_MIN + 1)].into_iter().filter(|rows| *rows > 0).map(|rows| rows + 1);
    let rows = usize::from(page.left.height);
    let room = rows.saturating_sub(below.sum()).max(rows / 2);
    table(page, servers, room);
    if !host.is_empty() {
        page.gap();
        page.lines(host.to_vec());
    }
    if !hot.is_empty() {
        page.gap();
        page.lines(hot);
    }
}

fn table(page: &mut Page<'_, '_>, servers: &[ServerView], rows: usize) {
    let longest = servers.iter().map(|server| server.state.name.chars().count()).max().unwrap_or(0);
    let name = longest.clamp(6, NAME_MAX).min(page.width() / 2);
    let mut used = name;
    let fits = |column: &&Column| {
        used += column.width;
        used <= page.width()
    };
    let columns: Vec<&Column> = COLUMNS.iter().take_while(fits).collect();
    let used = name + columns.iter().map(|column| column.width).sum::<usize>();
    let head = columns.iter().map(|column| format!("{:>width$}", column.heading, width = column.width));
    page.lines(vec![heading(format!("{:<name$}", "server") + &head.collect::<String>())]);
    let shown = if servers.len() < rows { servers.len() } else { rows.saturating_sub(2) };
    for server in &servers[..shown] {
        let area = page.take(1);
        let mut line = Line::from(format!("{:<name$}", cut(&server.state.name, name)));
        match &server.state.seen {
            Seen::Figures(figures) => line.extend(columns.iter().map(|column| right(column, figures))),
            seen => {
                line.push_span(" ");
                line.push_span(absence(seen, page.width().saturating_sub(name + 1)));
            }
        }
        page.frame.render_widget(Paragraph::new(line), area);
        let beside = page.width().saturating_sub(used + 2);
        if beside >= BARS_MIN && matches!(server.state.seen, Seen::Figures(_)) {
            page.bars(Rect { x: area.x + (used + 2) as u16, width: beside as u16, ..area }, &server.rates);
        }
    }
    if shown < servers.len() {
        page.lines(vec![Line::raw(format!("and {} more", servers.len() - shown))]);
    }
}

fn right(column: &Column, figures: &ServerFigures) -> Span<'static> {
    let span = (column.cell)(figures);
    Span::styled(format!("{:>width$}", span.content, width = column.width), span.style)
}

fn rate(figures: &ServerFigures, name: &str) -> Span<'static> {
    let class = figures.classes.iter().find(|class| class.name == name);
    grouped(class.map_or(0.0, |class| class.per_s)).into()
}

fn p99(figures: &ServerFigures) -> Span<'static> {
    let get = figures.classes.iter().find(|class| class.name == "get");
    get.map_or("–".to_owned(), |get| get.times.p99_us.to_string()).into()
}

fn busiest(figures: &ServerFigures) -> Span<'static> {
    let busiest = figures.workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    Span::styled(percents(busiest), Style::new().fg(heat(busiest, 0.6, 0.9)))
}

fn refused(figures: &ServerFigures) -> Span<'static> {
    alarm(figures.refused_per_s, grouped(figures.refused_per_s))
}

fn percents(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn hot_lines(servers: &[ServerView]) -> Vec<Line<'static>> {
    let hot = hottest(servers.iter().map(|server| &server.state));
    let width = hot.iter().map(|(_, name, _)| name.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let line = |(share, name, key): &(f64, &str, &str)| {
        let name = cut(name, width);
        Line::raw(format!("{:>7}  {name:<width$}  {}", percent(*share), cut(key, 250)))
    };
    let head = (!hot.is_empty()).then(|| heading("hot by requests, of those of its server"));
    head.into_iter().chain(hot.iter().map(line)).collect()
}
