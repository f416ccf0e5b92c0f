//! HTML report of a history, one self-contained page: recent changes, tables, and a picture of each series.

use super::history::{by_experiment, table};
use super::page::STYLE;
use super::table::markup;
use super::verdict::class;
use crate::history::change_point::{ChangePoint, Detector};
use crate::history::{MetricSeries, Point};
use crate::record::quantity::{Unit, chance, change};
use crate::report::picture::trend::trend;

/// At most this many series have a picture, those of metrics that decide first; the others are in the table only.
const PICTURES_MAX: usize = 100;

/// The page.
pub fn page(series: &[MetricSeries]) -> String {
    let mut left = PICTURES_MAX;
    let parts: String = by_experiment(series).map(|series| of_experiment(series, &mut left)).collect();
    let empty = if series.is_empty() { "<p>No run is kept yet.</p>\n" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>What runs have shown over time</title>\n<style>{STYLE}</style></head>\n\
         <body>\n<h1>What runs have shown over time</h1>\n{empty}{parts}</body></html>\n"
    )
}

fn of_experiment(series: &[MetricSeries], left: &mut usize) -> String {
    let changes: Vec<Vec<ChangePoint>> = series.iter().map(changes).collect();
    let sentences = series.iter().zip(&changes).filter(|(series, _)| series.is_primary);
    let sentences: String = sentences.flat_map(|(series, changes)| of_series(series, changes)).collect();
    let shown = series.len().min(*left);
    *left -= shown;
    let figures = series.iter().zip(&changes).take(shown);
    let figures: String =
        figures.map(|(series, changes)| format!("<figure>{}</figure>\n", trend(series, changes))).collect();
    let without = match series.len() - shown {
        0 => String::new(),
        more => format!("<p class=\"basis\">{more} more series have no picture here.</p>\n"),
    };
    let mut table = table(series);
    let heading = std::mem::take(&mut table.title);
    format!(
        "<h2>{}</h2>\n<section class=\"verdict\">\n{sentences}</section>\n{}<p class=\"basis\">A rule in a picture is where \
         the series changed for good, by more than what does not matter; axes do not begin at zero.</p>\n\
         <div class=\"pictures\">\n{figures}</div>\n{without}",
        markup(&heading),
        table.html(),
    )
}

/// Lasting changes that matter.
fn changes(series: &MetricSeries) -> Vec<ChangePoint> {
    let detector = Detector { change_min: series.matters, ..Detector::default() };
    detector.change_points(&series.medians())
}

/// A sentence for each change, the newest first.
fn of_series<'s>(series: &'s MetricSeries, changes: &'s [ChangePoint]) -> impl Iterator<Item = String> + 's {
    let newest_first = changes.iter().rev();
    newest_first.map(|point| {
        let commit = |run: &Point| run.commit.clone();
        let verdict = series.judge(point.before, point.after);
        let sentence = format!(
            "{}: {} became {}, {} (p {}), between {} and {}.",
            series.cell,
            Unit::of(&series.metric, point.before.max(point.after)).title,
            verdict.words(),
            change(point.after / point.before),
            chance(point.p),
            commit(&series.points[point.index - 1]),
            commit(&series.points[point.index]),
        );
        format!("<p class=\"{}\">{}</p>\n", class(verdict), markup(&sentence))
    })
}
