//! Picture of the live view: figures of the latest second, and the seconds before as bars and as a picture of latencies.

use super::heat::Heat;
use crate::measure::latency::Latency;
use crate::measure::seconds::SecondStats;
use crate::measure::seconds::Whole;
use crate::measure::verdict::BUSY_MAX;
use crate::report::figures::grouped;
use crate::report::follower::{AgentNow, AgentState};
use crate::report::summary::Second;
use crate::types::description::Description;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use std::collections::VecDeque;

/// The content of the view.
pub(super) struct View {
    title: String,
    /// Seconds of the window, if that is what ends it.
    seconds: Option<f64>,
    pub(super) stage: Stage,
    passed_s: f64,
    latest: Option<Second>,
    interval: Option<SecondStats>,
    errors: u64,
    /// If several machines make the load.
    pub(super) agents: Vec<AgentNow>,
    rates: VecDeque<u64>,
    heat: Heat,
}

/// The stage of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    Prefill { items: u64, of: u64 },
    WarmUp,
    Window,
}

/// The latencies of a second are known when the next one has begun.
const AGE_MAX_S: f64 = 2.5;
/// Seconds that are remembered: more than any terminal has columns.
pub(super) const SECONDS_MAX: usize = 1000;
/// Rows of the bars: whether the rate is steady needs no more.
const BARS: u16 = 3;

impl View {
    pub(super) fn new(run: &Description) -> View {
        let shape = match (&run.rate, &run.trace) {
            (_, Some(_)) => String::from("trace"),
            (Some(rate), _) => format!("{} requests/s", grouped(*rate)),
            (None, None) => String::from("closed loop"),
        };
        let Description { host, port, connections, depth, .. } = run;
        let server = match (&run.socket, &run.server) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(server)) => server.clone(),
            (None, None) => format!("{host}:{port}"),
        };
        View {
            title: format!("evenkeel load: {shape}, {connections} connections of depth {depth}, {server}"),
            seconds: run.window().map(|window| window.as_secs_f64()),
            stage: Stage::WarmUp,
            passed_s: 0.0,
            latest: None,
            interval: None,
            errors: 0,
            agents: Vec::new(),
            rates: VecDeque::new(),
            heat: Heat::default(),
        }
    }

    /// A second of the window has passed, and the latencies of some have become known.
    pub(super) fn pass(&mut self, second: &Second, known: &[Whole]) {
        self.stage = Stage::Window;
        self.passed_s += second.seconds;
        push(&mut self.rates, second.requests_per_second);
        self.latest = Some(*second);
        for Whole { interval, counts } in known {
            self.heat.push(counts.latency_ns.as_ref());
            self.errors += interval.failures.total();
            self.interval = Some(*interval);
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [title, stage, _, figures, _, rates, head, heat] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(if self.agents.is_empty() { 5 } else { 7 }),
            Constraint::Length(1),
            Constraint::Length(1 + BARS),
            Constraint::Length(1),
            Constraint::Fill(1),
        ])
        .areas(frame.area());
        frame.render_widget(Line::from(self.title.as_str()).bold(), title);
        frame.render_widget(self.stage(), stage);
        frame.render_widget(Line::from("q ends").alignment(Alignment::Right).dim(), stage);
        frame.render_widget(Paragraph::new(self.figures()), figures);
        bars(frame, rates, "rate", "requests/s", &self.rates, Color::Green);
        frame.render_widget(Line::from(Heat::HEAD).dim(), head);
        self.heat.draw(heat, frame.buffer_mut());
    }

    fn stage(&self) -> String {
        match (self.stage, self.seconds) {
            (Stage::Prefill { items, of }, _) => {
                format!("prefill: {} of {} keys", grouped(items as f64), grouped(of as f64))
            }
            (Stage::WarmUp, _) => String::from("warm-up: nothing is counted yet"),
            (Stage::Window, Some(seconds)) => format!("{:.0} of {seconds:.0} s", self.passed_s),
            (Stage::Window, None) => format!("{:.0} s", self.passed_s),
        }
    }

    fn figures(&self) -> Vec<Line<'static>> {
        let Some(second) = &self.latest else { return Vec::new() };
        let interval = self.interval.unwrap_or_default();
        let row = |name: &str, figures: String| format!("{name:<10}{figures}");
        let us = |latency: Option<Latency>| latency.map_or_else(|| String::from("–"), shown);
        let errors = Line::from(row("errors", grouped(self.errors as f64)));
        let client = format!("{:.0} %", second.busiest_thread * 100.0);
        let server = second.server.map_or_else(String::new, |server| {
            format!(" of a CPU, server {:.0} %", server.cpu_seconds / second.seconds * 100.0)
        });
        let cpu = vec![
            Span::from(row("CPU", String::from("busiest client thread "))),
            Span::styled(client, warning(second.busiest_thread > BUSY_MAX)),
            Span::from(server),
        ];
        let slip = match interval.slip {
            Some(slip) => Line::from(row("slip", shown(slip))),
            None => Line::from(row("slip", String::from("– (a closed loop has no schedule)"))).dim(),
        };
        let mut figures = vec![
            Line::from(row("rate", format!("{} requests/s", grouped(second.requests_per_second)))),
            Line::from(row("latency", us(interval.latency) + &self.age())),
            slip,
            errors.style(warning(self.errors > 0)),
            Line::from(cpu),
        ];
        if !self.agents.is_empty() {
            figures.push(Line::from(row("agents", self.agents())));
            let silent = AgentNow::silent(&self.agents);
            let line = if silent.is_empty() { silent } else { row("silent", silent) };
            figures.push(Line::styled(line, warning(true)));
        }
        figures
    }

    /// The rates of the agents that report.
    fn agents(&self) -> String {
        let heard = self.agents.iter().filter_map(|AgentNow { name, state }| match state {
            AgentState::Loads { requests_per_second } => {
                Some(format!("{name} {}", grouped(*requests_per_second)))
            }
            AgentState::Silent { .. } | AgentState::Lost => None,
            AgentState::Ended => Some(format!("{name} has ended")),
        });
        heard.collect::<Vec<_>>().join(" | ")
    }

    /// The age of the latencies that are shown, if it is unusual: an agent has not reported them since.
    fn age(&self) -> String {
        let known_s = self.interval.map_or(0.0, |interval| interval.second as f64 + 1.0);
        let age_s = self.passed_s - known_s;
        if age_s > AGE_MAX_S && self.interval.is_some() {
            format!(", {age_s:.0} s ago")
        } else {
            String::new()
        }
    }
}

fn shown(latency: Latency) -> String {
    let Latency { p50_us, p99_us, p999_us, max_us, .. } = latency;
    let [p50, p99, p999, max] = [p50_us, p99_us, p999_us, max_us].map(grouped);
    format!("p50 {p50} | p99 {p99} | p99.9 {p999} | max {max} µs")
}

fn warning(is_bad: bool) -> Style {
    if is_bad { Style::new().fg(Color::Red).bold() } else { Style::new() }
}

fn push(history: &mut VecDeque<u64>, value: f64) {
    if history.len() == SECONDS_MAX {
        history.pop_front();
    }
    history.push_back(value.round() as u64);
}

/// A column for each second, the latest one at the right end once there are as many as columns.
fn bars(frame: &mut Frame<'_>, area: Rect, name: &str, unit: &str, history: &VecDeque<u64>, color: Color) {
    let [head, bars] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let columns = usize::from(bars.width);
    let shown = history.iter().skip(history.len().saturating_sub(columns));
    let highest = shown.clone().max().copied().unwrap_or(0);
    let head_line = format!("{name}, a column a second, the highest {} {unit}", grouped(highest as f64));
    frame.render_widget(Line::from(head_line).dim(), head);
    frame.render_widget(Sparkline::default().data(shown).style(Style::new().fg(color)), bars);
}

#[cfg(test)]
mod tests;
