//! Cells of a metric, a row each: every trial, the median with its interval, and beside them the ratio to the baseline.
//!
//! What became better or worse is seen by the side of the rule on which its ratio lies, and by its colour.

use super::axis::{AxisScale, with_room};
use super::canvas::{Anchor, Canvas, Lettering, SMALL, TEXT, WIDTH, letters_in, width_of};
use super::{DIM, INK, RULE, color_of, levels, short};
use crate::analyze::comparison::{CellStanding, Metric};
use crate::analyze::verdict::{Interval, Verdict};
use crate::record::quantity::{Unit, change};

/// Of more trials than this, evenly chosen ones have a dot: more could not be distinguished.
const DOTS_MAX: usize = 200;

/// Pixels from row to row, and of many rows.
const ROW: f64 = 22.0;
const ROW_OF_MANY: f64 = 17.0;
const MANY_ROWS: usize = 30;

/// Pixels of the names at most, of the ratios, and of the words behind them.
const NAMES_WIDTH: f64 = 250.0;
const RATIOS_WIDTH: f64 = 170.0;
const WORDS_WIDTH: f64 = 148.0;
const GAP: f64 = 26.0;

/// Draws the cells of a metric; nothing if none has a value.
pub fn dots(metric: &Metric) -> Option<String> {
    metric.standings.iter().find_map(|standing| standing.median)?;
    let columns = Columns::of(metric);
    let are_compared = metric.standings.iter().any(|standing| standing.ratio.is_some());
    let (unit, every) = (Unit::of(&metric.name, most(metric)), every(metric));
    let trials = if every == 1 { "every trial".to_owned() } else { format!("one trial in {every}") };
    let is_short = metric.standings.iter().any(|standing| standing.verdict == Verdict::TooFewPairs);
    let ratios = match (are_compared, is_short) {
        (false, _) => "",
        (true, false) => {
            " At the right, the ratio to the first row of a group; what lies in the band does not matter."
        }
        (true, true) => {
            " At the right, the ratio to the first row of a group, of too few pairs for an interval."
        }
    };
    let right = if are_compared { WIDTH - RATIOS_WIDTH - WORDS_WIDTH - GAP } else { WIDTH - 40.0 };
    let values = metric.standings.iter().flat_map(marked).map(|value| value * unit.factor);
    let values = AxisScale::of(values, (columns.right + 14.0, right));
    let remark = format!(
        "Medians of trials with intervals of 95 %, and small dots for {trials}{}.{ratios}",
        values.note()
    );
    let mut canvas = Canvas::new(&unit.title, &remark);
    columns.head(&mut canvas);
    let (top, mut y) = (canvas.bottom, canvas.bottom);
    let row = if metric.standings.len() > MANY_ROWS { ROW_OF_MANY } else { ROW };
    let mut rows: Vec<(f64, &CellStanding)> = Vec::new();
    let mut groups: Vec<(f64, &str)> = Vec::new();
    for group in metric.standings.chunk_by(|a, b| a.condition == b.condition) {
        if !group[0].condition.is_empty() {
            groups.push((y + 0.5 * ROW, &group[0].condition));
            y += ROW;
        }
        for standing in group {
            rows.push((y + 0.5 * row, standing));
            y += row;
        }
        y += 4.0;
    }
    let ratios = are_compared.then(|| Ratios::of(metric, (right + GAP, right + GAP + RATIOS_WIDTH)));
    values.draw_below(&mut canvas, &values.marks(true), top, y);
    ratios.iter().for_each(|ratios| ratios.axis(&mut canvas, metric.band, top, y));
    for (y, condition) in groups {
        let condition = short(condition, letters_in(right - 10.0, TEXT * 1.1));
        canvas.text((10.0, y), &condition, Lettering::PLAIN.bold());
    }
    for ((y, standing), name) in rows.iter().zip(&columns.rows) {
        columns.name(&mut canvas, *y, name);
        draw_values(&mut canvas, *y, standing, (&values, unit.factor, every));
        ratios.iter().for_each(|ratios| ratios.draw(&mut canvas, *y, standing));
    }
    canvas.bottom = y + 20.0;
    Some(canvas.finish())
}

/// The highest value in a picture, which decides about its unit.
fn most(metric: &Metric) -> f64 {
    metric.standings.iter().flat_map(marked).fold(0.0, f64::max)
}

/// What is drawn of a cell's values.
fn marked(standing: &CellStanding) -> impl Iterator<Item = f64> {
    let ends = standing.median.map(|median| [median.low, median.high]);
    standing.values.iter().map(|(_, value)| *value).chain(ends.into_iter().flatten())
}

/// The step at which trials are thinned out.
fn every(metric: &Metric) -> usize {
    let most = metric.standings.iter().map(|standing| standing.values.len()).max().unwrap_or(0);
    most.div_ceil(DOTS_MAX).max(1)
}

fn draw_values(canvas: &mut Canvas, y: f64, standing: &CellStanding, drawn: (&AxisScale, f64, usize)) {
    let (scale, factor, every) = drawn;
    let Some(median) = standing.median.map(|median| median.times(factor)) else {
        let (at, _) = scale.pixels();
        return canvas.text((at + 6.0, y), "no value", Lettering::SMALL);
    };
    let values: Vec<f64> = standing.values.iter().step_by(every).map(|(_, value)| value * factor).collect();
    for (index, value) in values.iter().enumerate() {
        // In the order of the rounds from top to bottom, so that a drift is seen, too.
        let share = (index as f64 + 0.5) / values.len() as f64 - 0.5;
        canvas.dot((scale.at(*value), y + share * 0.5 * ROW), 1.6, INK, 0.35);
    }
    whisker(canvas, y, median, scale, color_of(standing.verdict));
}

/// An estimate with its interval.
fn whisker(canvas: &mut Canvas, y: f64, value: Interval, scale: &AxisScale, color: &'static str) {
    if value.is_bounded() {
        canvas.line(&[(scale.at(value.low), y), (scale.at(value.high), y)], color, 2.0, 1.0);
    }
    canvas.dot((scale.at(value.middle), y), 4.5, color, 1.0);
}

/// The names of the rows, in a column for each factor if all name the same ones.
struct Columns {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    lefts: Vec<f64>,
    right: f64,
}

impl Columns {
    fn of(metric: &Metric) -> Columns {
        let names: Vec<&str> = metric.standings.iter().map(|standing| &*standing.treatment).collect();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (mut head, mut rows) = match levels(&names) {
            Some((factors, rows)) => (texts(&factors), rows.iter().map(|row| texts(row)).collect()),
            None => {
                (vec![String::new()], names.iter().map(|name| vec![(*name).to_owned()]).collect::<Vec<_>>())
            }
        };
        let widest = |column: usize, head: &[String], rows: &[Vec<String>]| {
            let cells = rows.iter().map(|row| &row[column]).chain([&head[column]]);
            cells.map(|cell| width_of(cell, TEXT)).fold(0.0, f64::max) + 12.0
        };
        // The widest columns give way first.
        let mut letters = letters_in(NAMES_WIDTH, TEXT);
        let sum = |head: &[String], rows: &[Vec<String>]| {
            (0..head.len()).map(|it| widest(it, head, rows)).sum::<f64>()
        };
        while sum(&head, &rows) > NAMES_WIDTH && letters > 4 {
            letters -= 1;
            for cell in head.iter_mut().chain(rows.iter_mut().flatten()) {
                *cell = short(cell, letters);
            }
        }
        let mut lefts = Vec::new();
        let mut right = 10.0;
        for column in 0..head.len() {
            lefts.push(right);
            right += widest(column, &head, &rows);
        }
        Columns { head, rows, lefts, right }
    }

    /// The factors above their columns.
    fn head(&self, canvas: &mut Canvas) {
        if self.head.iter().all(String::is_empty) {
            return;
        }
        for (name, left) in self.head.iter().zip(&self.lefts) {
            canvas.text((*left, canvas.bottom + 4.0), name, Lettering::PLAIN.colored(DIM));
        }
        canvas.bottom += 14.0;
    }

    fn name(&self, canvas: &mut Canvas, y: f64, row: &[String]) {
        for (cell, left) in row.iter().zip(&self.lefts) {
            canvas.text((*left, y), cell, Lettering::PLAIN);
        }
    }
}

/// The scale of the ratios, on which half and twice are equally far from 1.
struct Ratios {
    scale: AxisScale,
    pixels: (f64, f64),
}

impl Ratios {
    fn of(metric: &Metric, pixels: (f64, f64)) -> Ratios {
        let ratios = metric.standings.iter().filter_map(|standing| standing.ratio);
        let drawn =
            ratios.flat_map(|ratio| [ratio.low, ratio.middle, ratio.high]).filter(|end| end.is_finite());
        let most = drawn
            .map(|end| end.ln().abs())
            .filter(|log| log.is_finite())
            .fold(metric.band.ln_1p() * 3.0, f64::max);
        // As far to both sides: the side tells what is more and what is less.
        let most = most.max(0.02) * 1.05;
        Ratios { scale: AxisScale::between(-most, most, pixels), pixels }
    }

    fn axis(&self, canvas: &mut Canvas, band: f64, top: f64, bottom: f64) {
        let place = |log: f64| self.scale.at(log);
        let (left, right) = (place(-band.ln_1p()), place(band.ln_1p()));
        canvas.rect((left, top), (right - left, bottom - top), INK, 0.08);
        let (least, most) = self.pixels;
        let within = MARKS
            .into_iter()
            .map(|ratio| (place(ratio.ln()), ratio))
            .filter(|(at, _)| *at > least && *at < most);
        let texts = within.map(|(at, ratio)| (at, mark(ratio)));
        for (x, text) in with_room(texts, true) {
            canvas.line(&[(x, top), (x, bottom)], RULE, 1.0, 1.0);
            canvas.text((x, bottom + 11.0), &text, Lettering::SMALL.at(Anchor::Middle));
        }
        canvas.line(&[(place(0.0), top), (place(0.0), bottom)], INK, 1.0, 0.8);
        canvas.line(&[(least, bottom), (most, bottom)], INK, 1.0, 0.6);
    }

    fn draw(&self, canvas: &mut Canvas, y: f64, standing: &CellStanding) {
        let color = color_of(standing.verdict);
        let words = self.pixels.1 + 12.0;
        let Some(ratio) = standing.ratio else {
            return canvas.text((words, y), standing.verdict.words(), Lettering::SMALL);
        };
        let log = Interval { low: ratio.low.ln(), middle: ratio.middle.ln(), high: ratio.high.ln() };
        whisker(canvas, y, log, &self.scale, color);
        let text = match standing.verdict {
            Verdict::NoDifferenceShown | Verdict::TooFewPairs => change(ratio.middle),
            verdict => format!("{} {}", change(ratio.middle), verdict.words()),
        };
        let lettering = Lettering::PLAIN.colored(color);
        let lettering = if standing.verdict.is_shown() { lettering.bold() } else { lettering };
        let room = letters_in(WIDTH - words, SMALL * 1.1);
        canvas.text((words, y), &short(&text, room), lettering);
    }
}

/// Ratios that have a mark as far as there is room, the coarse ones first.
const MARKS: [f64; 23] = [
    1.0, 2.0, 0.5, 10.0, 0.1, 1.5, 1.2, 0.8, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.01, 0.99, 1e2, 1e-2, 1e4,
    1e-4, 1e8, 1e-8, 1e15,
];

/// A ratio at an axis: 1.2 is `+20 %`.
fn mark(ratio: f64) -> String {
    match ratio {
        1.0 => "same".to_owned(),
        ratio if ratio >= 10.0 => change(ratio),
        // A tenth is more easily understood as that than as -90 %.
        ratio if ratio < 0.11 => format!("÷{}", (1.0 / ratio).round()),
        ratio => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}
