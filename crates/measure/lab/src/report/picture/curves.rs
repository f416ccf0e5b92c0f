//! Latency over throughput: a line for each treatment, a point for each condition, with the spread of the trials.

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, SMALL, TEXT, WIDTH, width_of};
use super::{color, levels, short};
use crate::analyze::comparison::Metric;
use crate::analyze::verdict::Interval;
use crate::record::quantity::Unit;

/// This many loads make a curve.
const POINTS_MIN: usize = 3;

/// Letters of a condition beside its point.
const CONDITION_MAX: usize = 14;

const LEFT: f64 = 74.0;
const HEIGHT: f64 = 340.0;

/// A treatment and its points, each with the name of its condition.
type Curve<'n> = (&'n str, Vec<(String, Interval, Interval)>);

/// Draws it if there are loads enough.
pub fn curves(throughput: &Metric, latency: &Metric) -> Option<String> {
    let most = latency.standings.iter().filter_map(|it| it.median).map(|median| median.high);
    let unit = Unit::of(&latency.name, most.fold(0.0, f64::max));
    let conditions: Vec<&str> = latency.standings.iter().map(|it| &*it.condition).collect();
    let (factors, words) = match levels(&conditions) {
        Some((factors, levels)) => (factors.join(", "), levels.iter().map(|it| it.join(", ")).collect()),
        None => (String::new(), conditions.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()),
    };
    let mut lines: Vec<Curve> = Vec::new();
    for ((x, y), condition) in throughput.standings.iter().zip(&latency.standings).zip(words) {
        let Some((x_value, y_value)) = x.median.zip(y.median) else { continue };
        let point = (short(&condition, CONDITION_MAX), x_value, y_value.times(unit.factor));
        match lines.iter_mut().find(|(other, _)| *other == x.treatment) {
            Some((_, points)) => points.push(point),
            None => lines.push((&x.treatment, vec![point])),
        }
    }
    if lines.iter().all(|(_, points)| points.len() < POINTS_MIN) {
        return None;
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x_scale = AxisScale::of(points().flat_map(|(_, x, _)| [x.low, x.high]), (LEFT, WIDTH - 30.0));
    let x_title = Unit::of(&throughput.name, 0.0).title;
    let mark = if factors.is_empty() { "the condition" } else { &factors };
    let y_values = || points().flat_map(|(_, _, y)| [y.low, y.high]);
    let remark = format!(
        "Medians of trials with intervals of 95 %{}; at the points: {mark}.",
        AxisScale::of(y_values(), (0.0, 1.0)).note()
    );
    let mut canvas = Canvas::new(&format!("{} over {x_title}", unit.title), &remark);
    canvas.legend(&lines.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let (top, bottom) = (canvas.bottom + 6.0, canvas.bottom + HEIGHT);
    let y_scale = AxisScale::of(y_values(), (bottom, top));
    x_scale.draw_below(&mut canvas, &x_scale.marks(true), top, bottom);
    y_scale.draw_beside(&mut canvas, LEFT, WIDTH - 30.0);
    canvas.text(((LEFT + WIDTH - 30.0) / 2.0, bottom + 29.0), &x_title, Lettering::PLAIN.at(Anchor::Middle));
    let mut labels = PointLabels { taken: Vec::new(), within: [LEFT + 2.0, top, WIDTH, bottom - 2.0] };
    for (index, (_, points)) in lines.iter().enumerate() {
        let at = |x: &Interval, y: &Interval| (x_scale.at(x.middle), y_scale.at(y.middle));
        for (_, x, y) in points {
            let (middle_x, middle_y) = at(x, y);
            canvas.line(
                &[(x_scale.at(x.low), middle_y), (x_scale.at(x.high), middle_y)],
                color(index),
                1.0,
                0.6,
            );
            canvas.line(
                &[(middle_x, y_scale.at(y.low)), (middle_x, y_scale.at(y.high))],
                color(index),
                1.0,
                0.6,
            );
            canvas.dot((middle_x, middle_y), 4.0, color(index), 1.0);
            labels.taken.push([middle_x - 4.0, middle_y - 4.0, middle_x + 4.0, middle_y + 4.0]);
        }
        let path: Vec<(f64, f64)> = points.iter().map(|(_, x, y)| at(x, y)).collect();
        canvas.line(&path, color(index), 2.0, 1.0);
    }
    for (index, (_, points)) in lines.iter().enumerate() {
        for (condition, x, y) in points {
            labels.write(&mut canvas, (x_scale.at(x.middle), y_scale.at(y.middle)), condition, color(index));
        }
    }
    canvas.bottom = bottom + 38.0;
    Some(canvas.finish())
}

/// Names of points, each beside its own where there is room.
struct PointLabels {
    taken: Vec<[f64; 4]>,
    within: [f64; 4],
}

impl PointLabels {
    /// A name for which there is no room is left out: the line through the points has the order of the conditions.
    fn write(&mut self, canvas: &mut Canvas, (x, y): (f64, f64), name: &str, color: &'static str) {
        let (width, height) = (width_of(name, SMALL) + 2.0, TEXT + 1.0);
        let sides = [
            (1.0, -1.0),
            (1.0, 1.0),
            (-1.0, -1.0),
            (-1.0, 1.0),
            (1.0, 0.0),
            (-1.0, 0.0),
            (0.0, -1.0),
            (0.0, 1.0),
        ];
        let place = |(across, down): (f64, f64)| {
            let (x, y) = (x + across * (width / 2.0 + 6.0), y + down * (height / 2.0 + 5.0));
            [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
        };
        let is_free = |[left, top, right, bottom]: &[f64; 4]| {
            let [least_x, least_y, most_x, most_y] = self.within;
            let is_apart = |other: &[f64; 4]| {
                *right <= other[0] || other[2] <= *left || *bottom <= other[1] || other[3] <= *top
            };
            *left >= least_x
                && *top >= least_y
                && *right <= most_x
                && *bottom <= most_y
                && self.taken.iter().all(is_apart)
        };
        if let Some(free) = sides.into_iter().map(place).find(is_free) {
            let middle = ((free[0] + free[2]) / 2.0, (free[1] + free[3]) / 2.0);
            canvas.text(middle, name, Lettering::SMALL.colored(color).bold().at(Anchor::Middle));
            self.taken.push(free);
        }
    }
}
