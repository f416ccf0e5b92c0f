//! Latency over throughput: a line for each treatment, a point for each condition, with the spread of the trials.

use plotters::prelude::*;

use super::{Axes, Figures, IN_MEMORY, PLOT_WIDTH, chart, color, from_zero, plot};
use crate::analyze::comparison::{CellStanding, Metric};
use crate::analyze::verdict::Interval;
use crate::record::quantity::Unit;

/// This many loads make a curve.
const POINTS_MIN: usize = 3;

/// Draws it if there are loads enough.
pub fn curves(throughput: &Metric, latency: &Metric) -> Option<String> {
    let most = latency.standings.iter().filter_map(|it| it.median).map(|median| median.high);
    let unit = Unit::of(&latency.name, most.fold(0.0, f64::max));
    let mut lines: Vec<(&str, Vec<(Interval, Interval)>)> = Vec::new();
    for (x, y) in throughput.standings.iter().zip(&latency.standings) {
        let Some((x_value, y_value)) = x.median.zip(y.median) else { continue };
        let point = (x_value, y_value.times(unit.factor));
        let name = |standing: &CellStanding| -> String { standing.treatment.clone() };
        match lines.iter_mut().find(|(other, _)| *other == name(x)) {
            Some((_, points)) => points.push(point),
            None => lines.push((&x.treatment, vec![point])),
        }
    }
    if lines.iter().all(|(_, points)| points.len() < POINTS_MIN) {
        return None;
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x_range = from_zero(points().map(|(x, _)| x.high));
    let y_range = from_zero(points().map(|(_, y)| y.high));
    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    let (x_title, y_title) = (Unit::of(&throughput.name, 0.0).title, unit.title);
    let picture = plot(
        PLOT_WIDTH,
        400,
        &format!("{y_title} over {x_title}: medians of trials, 95 % intervals"),
        &names,
        |area| {
            let axes = Axes { x: &x_title, y: &y_title, x_range, y_range, figures: Figures::Both };
            let mut chart = chart(area, &axes);
            for (index, (_, points)) in lines.iter().enumerate() {
                let ink = color(index);
                let cross = points.iter().flat_map(|(x, y)| {
                    [
                        PathElement::new(vec![(x.middle, y.low), (x.middle, y.high)], ink.mix(0.6)),
                        PathElement::new(vec![(x.low, y.middle), (x.high, y.middle)], ink.mix(0.6)),
                    ]
                });
                chart.draw_series(cross).expect(IN_MEMORY);
                let path: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.middle, y.middle)).collect();
                chart.draw_series(path.iter().map(|at| Circle::new(*at, 4, ink.filled()))).expect(IN_MEMORY);
                chart.draw_series([PathElement::new(path, ink.stroke_width(2))]).expect(IN_MEMORY);
            }
        },
    );
    Some(picture)
}
