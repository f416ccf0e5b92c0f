//! A series over its runs: medians with their intervals, and its lasting changes.

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, WIDTH};
use super::{INK, SERIES, color_of, short};
use crate::history::MetricSeries;
use crate::history::change_point::ChangePoint;
use crate::record::quantity::{Unit, change};

/// The newest runs, at most this many, are drawn: there are not many more pixels.
pub const RUNS_MAX: usize = 250;

/// At most this many names of runs stand below.
const NAMES_MAX: usize = 6;

/// Letters of a name.
const NAME_MAX: usize = 10;

const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 20.0;
const HEIGHT: f64 = 200.0;

/// Draws the newest runs; `changes` are places in all of them. The axis reaches from the least to the most, not from zero.
pub fn trend(series: &MetricSeries, changes: &[ChangePoint]) -> String {
    let skipped = series.points.len().saturating_sub(RUNS_MAX);
    let points = &series.points[skipped..];
    let ends = || points.iter().flat_map(|point| [point.median.low, point.median.middle, point.median.high]);
    let unit = Unit::of(&series.metric, ends().fold(f64::NEG_INFINITY, f64::max));
    let mut canvas = Canvas::new(&unit.title, &series.cell);
    let (top, bottom) = (canvas.bottom + 14.0, canvas.bottom + 14.0 + HEIGHT);
    let y_scale = AxisScale::tight(ends().map(|value| value * unit.factor), (bottom, top));
    let x_scale = AxisScale::between(-0.6, points.len() as f64 - 0.4, (LEFT, RIGHT));
    y_scale.draw_beside(&mut canvas, LEFT, RIGHT);
    let mut free_from = LEFT;
    for change_point in changes.iter().filter(|change| change.index >= skipped) {
        let color = color_of(series.judge(change_point.before, change_point.after));
        let x = x_scale.at((change_point.index - skipped) as f64 - 0.5);
        canvas.line(&[(x, top), (x, bottom)], color, 2.0, 1.0);
        let (text, width) = (change(change_point.after / change_point.before), 60.0);
        if x - width / 2.0 >= free_from && x + width / 2.0 <= WIDTH {
            let lettering = Lettering::SMALL.colored(color).bold().at(Anchor::Middle);
            canvas.text((x, top - 8.0), &text, lettering);
            free_from = x + width / 2.0;
        }
    }
    let place = |run: usize, value: f64| (x_scale.at(run as f64), y_scale.at(value * unit.factor));
    for (run, point) in points.iter().enumerate() {
        canvas.line(&[place(run, point.median.low), place(run, point.median.high)], SERIES[0], 3.0, 0.35);
    }
    let path: Vec<(f64, f64)> =
        points.iter().enumerate().map(|(run, point)| place(run, point.median.middle)).collect();
    canvas.line(&path, SERIES[0], 1.0, 1.0);
    path.iter().for_each(|at| canvas.dot(*at, 3.0, SERIES[0], 1.0));
    let every = points.len().div_ceil(NAMES_MAX).max(1);
    for (run, point) in points.iter().enumerate().step_by(every) {
        let x = x_scale.at(run as f64);
        canvas.line(&[(x, bottom), (x, bottom + 4.0)], INK, 1.0, 1.0);
        let name = short(&point.commit, NAME_MAX);
        canvas.text((x.clamp(40.0, WIDTH - 40.0), bottom + 13.0), &name, Lettering::SMALL.at(Anchor::Middle));
    }
    canvas.bottom = bottom + 20.0;
    canvas.finish()
}
