//! A series over its runs: medians with their intervals, and its lasting changes.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Axes, Figures, IN_MEMORY, INK, PLOT_WIDTH, SERIES, TEXT, chart, svg, write};
use crate::analyze::verdict::Verdict;
use crate::history::MetricSeries;
use crate::history::change_point::ChangePoint;
use crate::record::quantity::Unit;

/// The newest runs, at most this many, are drawn: there are not many more pixels.
pub const RUNS_MAX: usize = 250;

/// At most this many names of runs stand below.
const NAMES_MAX: usize = 6;

/// Letters of a name.
const NAME_MAX: usize = 10;

/// Colours of what became better, worse, or neither.
const BETTER: RGBColor = SERIES[2];
const WORSE: RGBColor = SERIES[5];
const OTHER: RGBColor = SERIES[6];

/// Draws the newest runs; `changes` are places in all of them. The axis reaches from the least to the most, not from zero.
pub fn trend(series: &MetricSeries, changes: &[ChangePoint]) -> String {
    let skipped = series.points.len().saturating_sub(RUNS_MAX);
    let points = &series.points[skipped..];
    let ends = || points.iter().flat_map(|point| [point.median.low, point.median.middle, point.median.high]);
    let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
    let unit = Unit::of(&series.metric, high);
    let margin = ((high - low) * 0.08).max(high.abs() * 0.01).max(f64::MIN_POSITIVE);
    let y_range = (low - margin) * unit.factor..(high + margin) * unit.factor;
    let x_range = -0.6..points.len() as f64 - 0.4;
    svg(PLOT_WIDTH as u32, 270, &format!("{}: {}", series.cell, unit.title), |root| {
        let (width, height) = root.dim_in_pixel();
        let area = root.clone().shrink((0, 30), (width, height - 30));
        let axes = Axes { x: "", y: &unit.title, x_range, y_range: y_range.clone(), figures: Figures::OnlyY };
        let mut chart = chart(&area, &axes);
        for change in changes.iter().filter(|change| change.index >= skipped) {
            let ink = match series.judge(change.before, change.after) {
                Verdict::Better => BETTER,
                Verdict::Worse => WORSE,
                _ => OTHER,
            };
            let x = (change.index - skipped) as f64 - 0.5;
            let rule = PathElement::new(vec![(x, y_range.start), (x, y_range.end)], ink.stroke_width(2));
            chart.draw_series([rule]).expect(IN_MEMORY);
        }
        let place = |run: usize, value: f64| (run as f64, value * unit.factor);
        let spread = points.iter().enumerate().map(|(run, point)| {
            let ends = vec![place(run, point.median.low), place(run, point.median.high)];
            PathElement::new(ends, SERIES[0].mix(0.35).stroke_width(3))
        });
        chart.draw_series(spread).expect(IN_MEMORY);
        let path: Vec<(f64, f64)> =
            points.iter().enumerate().map(|(run, point)| place(run, point.median.middle)).collect();
        chart.draw_series([PathElement::new(path.clone(), SERIES[0].stroke_width(1))]).expect(IN_MEMORY);
        chart.draw_series(path.iter().map(|at| Circle::new(*at, 3, SERIES[0].filled()))).expect(IN_MEMORY);
        let (origin_x, origin_y) = area.get_base_pixel();
        let every = points.len().div_ceil(NAMES_MAX).max(1);
        for (run, point) in points.iter().enumerate().step_by(every) {
            let (x, y) = chart.plotting_area().map_coordinate(&(run as f64, y_range.start));
            let mark =
                PathElement::new(vec![(x - origin_x, y - origin_y), (x - origin_x, y - origin_y + 4)], INK);
            area.draw(&mark).expect(IN_MEMORY);
            let name: String = point.commit.chars().take(NAME_MAX).collect();
            write(&area, &name, (x - origin_x, y - origin_y + 14), HPos::Center, TEXT);
        }
    })
}
