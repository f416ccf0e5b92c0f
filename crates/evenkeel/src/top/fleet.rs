//! `evenkeel control top`: what controllers know of all servers and routers, live or once, in the words of `evenkeel top`.

use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use os::signals::Signals;
use ratatui::Frame;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;
use stdx::words::counted;
use tuner::report::Paint;

use super::view::page::{Page, cut, heading, title};
use crate::failure::Failure;
use crate::terminal::live::{self, LivePicture};
use crate::tune::paint;

mod columns;

use columns::{Column, LEVELS, ROUTERS, SERVERS};

/// A longer name is cut.
const NAME_MAX: usize = 24;
/// Views and pools take at most this part of the rows, and routers of what is left, unless there are fewer of the others.
const PART: usize = 3;

/// Asks a controller; the error is a clause for people.
pub(crate) type AskFigures = Box<dyn Fn() -> Result<Value, String> + Send>;

/// Shows figures until `q`. A controller that does not answer is said, and what it has said before stays.
pub(crate) fn show(ask: AskFigures, interval: Duration) -> Result<ExitCode, Failure> {
    // Before there are threads: a signal is to find the one that restores the terminal.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let seen = Arc::new(Mutex::new(FleetSeen::default()));
    start(ask, interval, Arc::clone(&seen))
        .map_err(|error| Failure::system("start thread figures", error))?;
    let mut view = FleetView { seen, shown: FleetSeen::default(), paint: paint() };
    live::show(&mut view, interval.min(Duration::from_secs(1)), &signals)
}

/// A table of an answer, in lines of at most so many characters.
pub(crate) fn table(document: &Value, columns: usize) -> String {
    let mut lines = Vec::new();
    for (kind, rows, columns_of) in tables(document) {
        if rows.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let width = name_width(kind, &rows);
        lines.push(head(kind, width, columns_of));
        lines.extend(rows.iter().map(|row| line(row, width, columns_of)));
    }
    if lines.is_empty() {
        return "no figures yet: agents tell them with their turns, every 15 s\n".to_owned();
    }
    let plain = |line: &Line<'_>| {
        let text: String = line.spans.iter().map(|span| &*span.content).collect();
        cut_end(&text, columns) + "\n"
    };
    lines.iter().map(plain).collect()
}

fn cut_end(text: &str, columns: usize) -> String {
    let text = text.trim_end();
    match text.chars().count() > columns {
        true => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// What a controller has said last, and why it says nothing now.
#[derive(Clone, Debug, Default)]
struct FleetSeen {
    document: Option<Arc<Value>>,
    trouble: Option<String>,
}

/// A thread that asks again and again; it ends with the process.
fn start(ask: AskFigures, interval: Duration, seen: Arc<Mutex<FleetSeen>>) -> io::Result<()> {
    std::thread::Builder::new().name("figures".to_owned()).spawn(move || {
        loop {
            let watch = Stopwatch::start();
            let answer = ask();
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Ok(document) => *seen = FleetSeen { document: Some(Arc::new(document)), trouble: None },
                Err(why) => seen.trouble = Some(why),
            }
            drop(seen);
            pause(interval.saturating_sub(watch.passed()));
        }
    })?;
    Ok(())
}

struct FleetView {
    seen: Arc<Mutex<FleetSeen>>,
    shown: FleetSeen,
    paint: Paint,
}

impl LivePicture for FleetView {
    fn refresh(&mut self) -> Result<(), Failure> {
        self.shown = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        draw(frame, &self.shown);
        if self.paint == Paint::Plain {
            // Bold text is no colour.
            let area = frame.area();
            frame.buffer_mut().set_style(area, Style::new().fg(Color::Reset).bg(Color::Reset));
        }
    }
}

fn draw(frame: &mut Frame<'_>, seen: &FleetSeen) {
    let mut page = Page { left: frame.area(), frame };
    let nothing = Value::Null;
    let document = seen.document.as_deref().unwrap_or(&nothing);
    let count = |kind: &str| document[kind].as_array().map_or(0, Vec::len);
    let what = match seen.document {
        Some(_) => {
            format!("{}, {}", counted(count("servers"), "server"), counted(count("routers"), "router"))
        }
        None => "reading".to_owned(),
    };
    title(&mut page, &what);
    if let Some(why) = &seen.trouble {
        let width = page.width();
        page.lines(vec![Line::styled(cut(why, width), Style::new().fg(Color::Red))]);
    }
    page.gap();
    let mut left: Vec<_> = tables(document).into_iter().filter(|(_, rows, _)| !rows.is_empty()).collect();
    while !left.is_empty() {
        let (kind, rows, columns) = left.remove(0);
        let room = usize::from(page.left.height);
        // What the others need, but not more than leaves this one its part.
        let others: usize = left.iter().map(|(_, rows, _)| rows.len() + 2).sum();
        let most = room.saturating_sub(others).max(room / PART).max(2);
        let width = name_width(kind, &rows).min(page.width() / 2);
        let shown = if rows.len() < most { rows.len() } else { most.saturating_sub(2) };
        let mut lines = vec![head(kind, width, columns)];
        lines.extend(rows[..shown].iter().map(|row| line(row, width, columns)));
        if shown < rows.len() {
            lines.push(Line::raw(format!("and {} more", rows.len() - shown)));
        }
        page.lines(lines);
        page.gap();
    }
}

/// A row: its name, and what its columns are made of.
struct Row<'d> {
    name: String,
    fields: &'d Value,
}

type Table<'d> = (&'static str, Vec<Row<'d>>, &'static [Column]);

/// Views and pools, routers, servers. Those with most requests come first, and of routers those with errors.
fn tables<'d>(document: &'d Value) -> [Table<'d>; 3] {
    let all = |kind: &str| document[kind].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let levels = all("levels").map(|level| {
        let view = level["view"].as_str().unwrap_or_default();
        let name = level["pool"].as_str().map_or(view.to_owned(), |pool| format!("{view}/{pool}"));
        Row { name, fields: level }
    });
    let latest = |kind: &str| -> Vec<Row<'d>> {
        let row = |row: &'d Value| {
            let fields = Value::as_array(&row["points"])?.last()?;
            Some(Row { name: row["id"].as_str()?.to_owned(), fields })
        };
        let mut rows: Vec<Row<'d>> = all(kind).filter_map(row).collect();
        let order = |row: &Row<'_>| {
            let figure = |name: &str| row.fields[name].as_f64().unwrap_or(0.0);
            (figure("errors_per_s"), figure("requests_per_s"))
        };
        rows.sort_by(|one, other| order(other).partial_cmp(&order(one)).unwrap_or(std::cmp::Ordering::Equal));
        rows
    };
    [
        ("view/pool", levels.collect(), &LEVELS),
        ("router", latest("routers"), &ROUTERS),
        ("server", latest("servers"), &SERVERS),
    ]
}

fn name_width(kind: &str, rows: &[Row<'_>]) -> usize {
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    longest.clamp(kind.len(), NAME_MAX)
}

fn head(kind: &str, name: usize, columns: &[Column]) -> Line<'static> {
    let columns = columns.iter().map(|column| format!("{:>width$}", column.heading, width = column.width));
    heading(format!("{kind:<name$}") + &columns.collect::<String>())
}

fn line(row: &Row<'_>, name: usize, columns: &[Column]) -> Line<'static> {
    let mut line = Line::from(format!("{:<name$}", cut(&row.name, name)));
    for column in columns {
        let span: Span<'static> = (column.cell)(row.fields);
        line.push_span(Span::styled(format!("{:>width$}", span.content, width = column.width), span.style));
    }
    line
}

#[cfg(test)]
mod tests;
