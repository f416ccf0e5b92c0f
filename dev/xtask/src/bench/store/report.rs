//! The table: one line per figure, ours beside the peer's, and what the design asks for.

use std::fmt::Write;

use serde::Serialize;

pub(crate) const MIB: f64 = (1 << 20) as f64;

/// Everything measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StoreReport {
    pub(crate) peer: String,
    pub(crate) rows: Vec<Row>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) part: &'static str,
    pub(crate) measure: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peer: Option<f64>,
    pub(crate) goal: Option<Goal>,
    /// Further notes.
    pub(crate) note: String,
}

/// The goal of the design.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    of: Figure,
    bound: Bound,
    must: f64,
    stretch: f64,
}

/// The subject of the goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Figure {
    Ours,
    Ratio,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Bound {
    AtLeast,
    AtMost,
}

impl Goal {
    /// Ours ÷ peer.
    pub(crate) fn ratio_at_least(must: f64, stretch: f64) -> Option<Goal> {
        Some(Goal { of: Figure::Ratio, bound: Bound::AtLeast, must, stretch })
    }

    pub(crate) fn at_least(must: f64, stretch: f64) -> Option<Goal> {
        Some(Goal { of: Figure::Ours, bound: Bound::AtLeast, must, stretch })
    }

    pub(crate) fn at_most(must: f64, stretch: f64) -> Option<Goal> {
        Some(Goal { of: Figure::Ours, bound: Bound::AtMost, must, stretch })
    }
}

impl Row {
    pub(crate) fn new(
        part: &'static str,
        measure: impl Into<String>,
        unit: &'static str,
        ours: f64,
        peer: f64,
    ) -> Row {
        Row { part, measure: measure.into(), unit, ours, peer: Some(peer), goal: None, note: String::new() }
    }

    /// A figure that has no counterpart.
    pub(crate) fn alone(
        part: &'static str,
        measure: impl Into<String>,
        unit: &'static str,
        ours: f64,
    ) -> Row {
        Row { part, measure: measure.into(), unit, ours, peer: None, goal: None, note: String::new() }
    }

    pub(crate) fn goal(self, goal: Option<Goal>) -> Row {
        Row { goal, ..self }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.peer.map(|peer| self.ours / peer)
    }

    fn verdict(&self) -> String {
        let Some(Goal { of, bound, must, stretch }) = self.goal else { return String::new() };
        let (figure, unit) = match of {
            Figure::Ours => (self.ours, ""),
            Figure::Ratio => (self.ratio().unwrap_or(f64::NAN), "×"),
        };
        let (sign, meets): (&str, fn(f64, f64) -> bool) = match bound {
            Bound::AtLeast => ("≥", |figure, aim| figure >= aim),
            Bound::AtMost => ("≤", |figure, aim| figure <= aim),
        };
        let word = match (meets(figure, must), meets(figure, stretch)) {
            (true, true) => "stretch met",
            (true, false) => "met",
            (false, _) => "NOT MET",
        };
        format!("{sign} {}{unit} / {}{unit}: {word}", short(must), short(stretch))
    }
}

impl StoreReport {
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "| part | measure | evenkeel | {} | ÷ | must / stretch | note |\n|---|---|---|---|---|---|---|\n",
            self.peer
        );
        for row in &self.rows {
            let peer = row.peer.map(|peer| figure(peer, row.unit)).unwrap_or_default();
            let ratio = row.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {peer} | {ratio} | {} | {} |",
                row.part,
                row.measure,
                figure(row.ours, row.unit),
                row.verdict(),
                row.note
            );
        }
        text
    }
}

/// At most two digits after the point.
fn short(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').into()
}

/// A number with its unit: four digits are enough.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        size if size.is_nan() => return "–".into(),
        size if size.is_infinite() => return "never".into(),
        size if size >= 100_000.0 => return grouped(value, unit),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().into()
}

/// `1234567` as `1,234,567`.
fn grouped(value: f64, unit: &str) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{} {unit}", groups.join(",")).trim_end().into()
}

/// Says on the side how far things are.
pub(crate) fn progress(line: impl std::fmt::Display) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_by_ours_or_by_the_ratio() {
        let row = Row::new("density", "items", "", 150.0, 100.0);
        for (goal, verdict) in [
            (Goal::ratio_at_least(1.45, 1.65), "≥ 1.45× / 1.65×: met"),
            (Goal::ratio_at_least(1.2, 1.3), "≥ 1.2× / 1.3×: stretch met"),
            (Goal::at_most(90.0, 79.0), "≤ 90 / 79: NOT MET"),
        ] {
            assert_eq!(row.clone().goal(goal).verdict(), verdict);
        }
    }

    #[test]
    fn figures_have_the_digits_that_matter() {
        for (value, text) in
            [(2_221_234.4, "2,221,234 B"), (130.04, "130 B"), (79.06, "79.1 B"), (1.234, "1.23 B")]
        {
            assert_eq!(figure(value, "B"), text);
        }
    }
}
