//! Parts of the live picture: rows from the top, bars, and text that gives no orders to a terminal.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use stdx::escape;

use crate::top::picture::TITLE;
use crate::top::watcher::{Seen, ServerState};

/// Readings whose rates are remembered: more than any terminal has columns.
pub(super) const RATES_MAX: usize = 1000;

/// A server or router, and its requests per second in the latest intervals.
pub(super) struct ServerView {
    pub(super) state: ServerState,
    pub(super) rates: VecDeque<u64>,
    pub(super) round: u64,
}

impl ServerView {
    pub(super) fn new(state: ServerState) -> ServerView {
        ServerView { state, rates: VecDeque::new(), round: 0 }
    }

    /// Takes the outcome of an attempt. A server that is away makes a gap.
    pub(super) fn pass(&mut self, state: ServerState, round: u64) {
        let rate = match &state.seen {
            Seen::Figures(figures) => {
                figures.classes.iter().flatten().map(|class| class.per_s).sum::<f64>() as u64
            }
            Seen::Router(figures) => figures.requests_per_s as u64,
            _ => 0,
        };
        if self.rates.len() == RATES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        (self.state, self.round) = (state, round);
    }
}

/// A terminal that is filled from the top.
pub(crate) struct Page<'f, 'b> {
    pub(crate) frame: &'f mut Frame<'b>,
    pub(crate) left: Rect,
}

impl Page<'_, '_> {
    /// So many of the rows that are left, or fewer.
    pub(super) fn take(&mut self, rows: usize) -> Rect {
        let height = u16::try_from(rows).unwrap_or(u16::MAX).min(self.left.height);
        let taken = Rect { height, ..self.left };
        self.left.y += height;
        self.left.height -= height;
        taken
    }

    pub(crate) fn lines(&mut self, lines: Vec<Line<'_>>) {
        let area = self.take(lines.len());
        self.frame.render_widget(Paragraph::new(lines), area);
    }

    /// An empty row, if there is something below it.
    pub(crate) fn gap(&mut self) {
        if self.left.height > 2 {
            self.take(1);
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.left.width.into()
    }

    /// The latest rates as bars, as many as there are columns.
    pub(super) fn bars(&mut self, area: Rect, rates: &VecDeque<u64>) {
        let shown = rates.iter().skip(rates.len().saturating_sub(area.width.into())).copied();
        let shown: Vec<u64> = shown.collect();
        self.frame.render_widget(Sparkline::default().data(&shown).style(Style::new().cyan()), area);
    }
}

/// Text of a server's, in one line of at most so many characters.
pub(crate) fn cut(text: &str, width: usize) -> String {
    // Escaping only makes it longer, and a hostile text may be very long.
    let start: String = text.chars().take(width + 1).collect();
    let text = escape::line(&start);
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect(),
        false => text.into_owned(),
    }
}

/// A bar of this share of a width, in eighths of a character.
pub(super) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    format!("{bar:<width$}")
}

/// Green, yellow from `warm` on, red from `hot` on.
pub(crate) fn heat(value: f64, warm: f64, hot: f64) -> Color {
    match value {
        value if value >= hot => Color::Red,
        value if value >= warm => Color::Yellow,
        _ => Color::Green,
    }
}

/// In red where it is not zero: nothing of this should happen.
pub(crate) fn alarm(value: f64, text: String) -> Span<'static> {
    if value > 0.0 { Span::styled(text, Style::new().red().bold()) } else { Span::raw(text) }
}

pub(crate) fn heading(text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), Style::new().bold())
}

/// The first row: what, and how to leave.
pub(crate) fn title(page: &mut Page<'_, '_>, what: &str) {
    let leave = "q ends";
    let room = page.width().saturating_sub(TITLE.len() + leave.len() + 4);
    let area = page.take(1);
    let line =
        Line::from(vec![Span::styled(TITLE, Style::new().bold()), Span::raw("  "), cut(what, room).into()]);
    page.frame.render_widget(Paragraph::new(line), area);
    if room > 0 {
        page.frame.render_widget(Paragraph::new(leave).right_aligned(), area);
    }
}

/// Why there are no figures.
pub(super) fn absence(seen: &Seen, width: usize) -> Span<'static> {
    match seen {
        Seen::Unreachable(why) => {
            Span::styled(cut(&format!("unreachable: {why}"), width), Style::new().fg(Color::Red))
        }
        _ => Span::raw("reading"),
    }
}
