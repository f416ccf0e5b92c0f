//! Several servers and routers in a line each, and the hottest keys of all.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::page::{Page, ServerView, absence, alarm, cut, heading, heat, title};
use crate::top::figures::ServerFigures;
use crate::top::picture::{
    HOT_HEADING, grouped, hottest, known, known_rate, micros, percent, percents, summary_title,
};
use crate::top::router::RouterFigures;
use crate::top::watcher::Seen;

/// A longer name is cut.
const NAME_MAX: usize = 30;
/// Hot keys of all servers together have at least so many rows, if there are so many.
const HOT_MIN: usize = 5;
/// Fewer columns of bars show no course.
const BARS_MIN: usize = 10;
/// Routers take at most this part of the rows of both tables, unless servers leave more.
const ROUTERS_PART: usize = 3;

/// A column: its heading, its width, its text.
struct Column<F> {
    heading: &'static str,
    width: usize,
    cell: fn(&F) -> Span<'static>,
}

/// In the order in which they stand; those behind are left out first.
const COLUMNS: [Column<ServerFigures>; 9] = [
    Column { heading: "gets/s", width: 11, cell: |figures| rate(figures, "get") },
    Column {
        heading: "hits",
        width: 9,
        cell: |figures| figures.hit_ratio.map_or("–".into(), percent).into(),
    },
    Column { heading: "p99 < µs", width: 9, cell: p99 },
    Column { heading: "busiest", width: 8, cell: busiest },
    Column { heading: "sets/s", width: 10, cell: |figures| rate(figures, "set") },
    Column { heading: "memory", width: 7, cell: |figures| percents(figures.memory_share()).into() },
    Column {
        heading: "clients",
        width: 8,
        cell: |figures| figures.connections.map_or("–".to_owned(), |count| count.to_string()).into(),
    },
    Column { heading: "evict/s", width: 9, cell: |figures| known_rate(figures.evictions_per_s).into() },
    Column { heading: "refused/s", width: 10, cell: |figures| alarming(figures.refused_per_s) },
];

/// Columns of routers. The first of them have the widths of those of servers, which stand below them.
const ROUTER_COLUMNS: [Column<RouterFigures>; 8] = [
    Column { heading: "reqs/s", width: 11, cell: |figures| grouped(figures.requests_per_s).into() },
    Column {
        heading: "hits",
        width: 9,
        cell: |figures| figures.hit_ratio.map_or("–".into(), percent).into(),
    },
    Column {
        heading: "p99 < µs",
        width: 9,
        cell: |figures| figures.replies.map_or("–".to_owned(), |times| micros(times.p99_us)).into(),
    },
    Column { heading: "TKO", width: 8, cell: unavailable },
    Column { heading: "errors/s", width: 10, cell: |figures| alarming(figures.errors_per_s) },
    Column { heading: "CPU", width: 7, cell: |figures| percents(figures.cpu).into() },
    Column { heading: "clients", width: 8, cell: |figures| known(figures.clients).into() },
    Column { heading: "failovers/s", width: 13, cell: |figures| alarming(figures.failovers_per_s) },
];

pub(super) fn draw(page: &mut Page<'_, '_>, all: &[ServerView], host: &[Line<'static>]) {
    title(page, &summary_title(all.iter().map(|view| &view.state)));
    page.gap();
    let hot = hot_lines(all);
    let below =
        [host.len(), hot.len().min(HOT_MIN + 1)].into_iter().filter(|rows| *rows > 0).map(|rows| rows + 1);
    let rows = usize::from(page.left.height);
    let mut room = rows.saturating_sub(below.sum()).max(rows / 2);
    let (routers, servers): (Vec<&ServerView>, Vec<&ServerView>) =
        all.iter().partition(|view| view.state.is_router);
    if !routers.is_empty() {
        let left = if servers.is_empty() { room } else { room.saturating_sub(servers.len() + 2) };
        let most = left.max(room / ROUTERS_PART).max(2);
        let before = page.left.height;
        let figures = |seen: &Seen| match seen {
            Seen::Router(figures) => Some(RouterFigures::clone(figures)),
            _ => None,
        };
        table(page, "router", &routers, &ROUTER_COLUMNS, figures, most);
        if !servers.is_empty() {
            page.gap();
        }
        room = room.saturating_sub((before - page.left.height).into());
    }
    if !servers.is_empty() {
        let figures = |seen: &Seen| match seen {
            Seen::Figures(figures) => Some(ServerFigures::clone(figures)),
            _ => None,
        };
        table(page, "server", &servers, &COLUMNS, figures, room);
    }
    if !host.is_empty() {
        page.gap();
        page.lines(host.to_vec());
    }
    if !hot.is_empty() {
        page.gap();
        page.lines(hot);
    }
}

/// A row for each, below a heading; `kind` is what they are.
fn table<F>(
    page: &mut Page<'_, '_>,
    kind: &str,
    all: &[&ServerView],
    columns: &[Column<F>],
    figures: impl Fn(&Seen) -> Option<F>,
    rows: usize,
) {
    let longest = all.iter().map(|view| view.state.name.chars().count()).max().unwrap_or(0);
    let name = longest.clamp(6, NAME_MAX).min(page.width() / 2);
    let mut used = name;
    let fits = |column: &&Column<F>| {
        used += column.width;
        used <= page.width()
    };
    let columns: Vec<&Column<F>> = columns.iter().take_while(fits).collect();
    let used = name + columns.iter().map(|column| column.width).sum::<usize>();
    let head = columns.iter().map(|column| format!("{:>width$}", column.heading, width = column.width));
    page.lines(vec![heading(format!("{kind:<name$}") + &head.collect::<String>())]);
    let shown = if all.len() < rows { all.len() } else { rows.saturating_sub(2) };
    for view in &all[..shown] {
        let area = page.take(1);
        let mut line = Line::from(format!("{:<name$}", cut(&view.state.name, name)));
        let figures = figures(&view.state.seen);
        match &figures {
            Some(figures) => line.extend(columns.iter().map(|column| right(column, figures))),
            None => {
                line.push_span(" ");
                line.push_span(absence(&view.state.seen, page.width().saturating_sub(name + 1)));
            }
        }
        page.frame.render_widget(Paragraph::new(line), area);
        let beside = page.width().saturating_sub(used + 2);
        if beside >= BARS_MIN && figures.is_some() {
            page.bars(Rect { x: area.x + (used + 2) as u16, width: beside as u16, ..area }, &view.rates);
        }
    }
    if shown < all.len() {
        page.lines(vec![Line::raw(format!("and {} more", all.len() - shown))]);
    }
}

fn right<F>(column: &Column<F>, figures: &F) -> Span<'static> {
    let span = (column.cell)(figures);
    Span::styled(format!("{:>width$}", span.content, width = column.width), span.style)
}

/// In red where it is known and not zero.
fn alarming(rate: Option<f64>) -> Span<'static> {
    rate.map_or("–".into(), |rate| alarm(rate, grouped(rate)))
}

fn unavailable(figures: &RouterFigures) -> Span<'static> {
    alarm(figures.unavailable_servers.unwrap_or(0) as f64, figures.unavailable())
}

fn rate(figures: &ServerFigures, name: &str) -> Span<'static> {
    known_rate(figures.rate_of(name)).into()
}

fn p99(figures: &ServerFigures) -> Span<'static> {
    figures.class("get").map_or("–".to_owned(), |get| get.times.p99_us.to_string()).into()
}

fn busiest(figures: &ServerFigures) -> Span<'static> {
    let shown = percents(figures.busiest());
    match figures.busiest() {
        Some(busiest) => Span::styled(shown, Style::new().fg(heat(busiest, 0.6, 0.9))),
        None => shown.into(),
    }
}

fn hot_lines(servers: &[ServerView]) -> Vec<Line<'static>> {
    let hot = hottest(servers.iter().map(|server| &server.state));
    let width = hot.iter().map(|(_, name, _)| name.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let line = |(share, name, key): &(f64, &str, &str)| {
        let name = cut(name, width);
        Line::raw(format!("{:>7}  {name:<width$}  {}", percent(*share), cut(key, 250)))
    };
    let head = (!hot.is_empty()).then(|| heading(HOT_HEADING));
    head.into_iter().chain(hot.iter().map(line)).collect()
}
