//! Results of the network benchmark: medians over rounds, ratios within rounds, and what must be.

use std::fmt::Write;

use serde::Serialize;

use super::super::report::interval;
use super::row::{Bound, NetworkRow, ROWS};

/// All single measurements.
#[derive(Default)]
pub(super) struct NetworkReport {
    pub(super) measurements: Vec<Measurement>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    pub(super) row: &'static str,
    pub(super) unit: &'static str,
    pub(super) subject: &'static str,
    pub(super) round: usize,
    pub(super) figure: f64,
}

impl NetworkReport {
    /// One line for each row that was measured: the medians, and ours against each demand.
    pub(super) fn table(&self) -> String {
        let mut text = String::from(
            "| work | unit | evenkeel | memcached | null | ÷ memcached (95 %) | ÷ null | must | |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for row in ROWS.iter().filter(|row| self.measurements.iter().any(|one| one.row == row.name)) {
            self.line(row, &mut text);
        }
        text
    }

    fn line(&self, row: &NetworkRow, text: &mut String) {
        let base = row.base.unwrap_or(row.name);
        let (ours, theirs, null) = (
            self.figures(row.name, "evenkeel"),
            self.figures(base, "memcached"),
            self.figures(row.name, "null"),
        );
        let (of_memcached, of_null) = (ratios(&ours, &theirs), ratios(&ours, &null));
        let median_of =
            |figures: &[(usize, f64)]| median(&figures.iter().map(|(_, figure)| *figure).collect::<Vec<_>>());
        let (low, high) = interval(&of_memcached);
        let demands = [
            (row.of_memcached, median(&of_memcached), " × memcached"),
            (row.of_null, median(&of_null), " × null"),
            (row.alone, median_of(&ours), ""),
        ];
        let demands: Vec<(Bound, f64, &str)> =
            demands.into_iter().filter_map(|(bound, value, of)| Some((bound?, value, of))).collect();
        let must: Vec<String> = demands.iter().map(|(bound, _, of)| format!("{bound}{of}")).collect();
        let _ = writeln!(
            text,
            "| {}{} | {} | {} | {} | {} | {}{} | {} | {} | {} |",
            row.name,
            row.base.map(|base| format!(" (memcached: {base})")).unwrap_or_default(),
            row.work.unit(),
            shown(median_of(&ours)),
            shown(median_of(&theirs)),
            shown(median_of(&null)),
            ratio(median(&of_memcached)),
            if low.is_nan() { String::new() } else { format!(" ({low:.2}–{high:.2})") },
            ratio(median(&of_null)),
            must.join(", "),
            verdict(&demands),
        );
    }

    /// Figures with their rounds.
    fn figures(&self, row: &str, subject: &str) -> Vec<(usize, f64)> {
        let wanted = self.measurements.iter().filter(|one| one.row == row && one.subject == subject);
        wanted.map(|one| (one.round, one.figure)).collect()
    }
}

/// A demand whose other side was not measured is not met and not failed.
fn verdict(demands: &[(Bound, f64, &str)]) -> &'static str {
    match demands {
        _ if demands.iter().any(|(bound, value, _)| !value.is_nan() && !bound.is_met(*value)) => "NOT MET",
        _ if demands.iter().any(|(_, value, _)| value.is_nan()) => "not measured",
        _ => "met",
    }
}

/// Ratios of figures of the same round.
fn ratios(ours: &[(usize, f64)], theirs: &[(usize, f64)]) -> Vec<f64> {
    let of_round =
        |wanted: usize| theirs.iter().find(|(round, _)| *round == wanted).map(|(_, figure)| *figure);
    ours.iter().filter_map(|(round, figure)| Some(figure / of_round(*round)?)).collect()
}

fn median(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { stdx::statistics::median(values) }
}

fn shown(figure: f64) -> String {
    match figure {
        _ if figure.is_nan() => "–".to_owned(),
        _ if figure < 10.0 => format!("{figure:.2}"),
        _ if figure >= 10_000.0 => format!("{:.0} k", figure / 1000.0),
        _ => format!("{figure:.0}"),
    }
}

fn ratio(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(figures: &[(&'static str, &'static str, f64)], row: &str, ends: &str) {
        let measurement = |(row, subject, figure): &(&'static str, &'static str, f64)| Measurement {
            row,
            unit: "",
            subject,
            round: 1,
            figure: *figure,
        };
        let report = NetworkReport { measurements: figures.iter().map(measurement).collect() };
        let table = report.table();
        let line =
            table.lines().find(|line| line.starts_with(&format!("| {row}"))).expect("a line of the row");
        assert!(line.ends_with(ends), "{line}");
    }

    #[test]
    fn every_demand_decides() {
        let tls = |ours, null| {
            [
                ("tls-get-d1", "evenkeel", ours),
                ("tls-get-d1", "memcached", 100.0),
                ("tls-get-d1", "null", null),
            ]
        };
        check(
            &tls(120.0, 140.0),
            "tls-get-d1",
            "| 1.20 (1.20–1.20) | 0.86 | ≥ 1.15 × memcached, ≥ 0.8 × null | met |",
        );
        check(&tls(120.0, 160.0), "tls-get-d1", "NOT MET |");
        check(&tls(110.0, 120.0), "tls-get-d1", "NOT MET |");
    }

    #[test]
    fn a_resumed_handshake_is_compared_with_a_full_one_of_memcached() {
        let figures = [
            ("handshake-1.2", "memcached", 300.0),
            ("resumed-1.2", "memcached", 90.0),
            ("resumed-1.2", "evenkeel", 90.0),
        ];
        check(&figures, "resumed-1.2", "| 0.30 (0.30–0.30) | – | ≤ 0.333 × memcached | met |");
    }

    #[test]
    fn a_row_without_its_other_side_is_not_met() {
        check(&[("udp-burst", "evenkeel", 9.0)], "udp-burst", "not measured |");
    }
}
