//! Percentiles of latency: a line for each treatment, on a logarithmic scale.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Axes, Chart, Figures, IN_MEMORY, PLOT_WIDTH, RULE, TEXT, chart, color, plot, write};
use crate::record::quantity::{Unit, number};

/// A line: its name, and the latency at each percentile that is known.
pub type PercentileCurve = (String, Vec<(&'static str, f64)>);

/// Metrics that are percentiles of latency, in order, with their names for people.
pub const PERCENTILES: [(&str, &str); 7] = [
    ("p50_us", "p50"),
    ("p75_us", "p75"),
    ("p90_us", "p90"),
    ("p95_us", "p95"),
    ("p99_us", "p99"),
    ("p999_us", "p99.9"),
    ("max_us", "max"),
];

/// Draws them if there are three percentiles.
pub fn percentiles(title: &str, lines: &[PercentileCurve]) -> Option<String> {
    let has = |name: &str| lines.iter().any(|(_, points)| points.iter().any(|point| point.0 == name));
    let known: Vec<&str> = PERCENTILES.iter().map(|(_, name)| *name).filter(|name| has(name)).collect();
    let values =
        || lines.iter().flat_map(|(_, points)| points).map(|point| point.1).filter(|value| *value > 0.0);
    if known.len() < 3 || values().next().is_none() {
        return None;
    }
    let unit = Unit::of("latency_us", values().fold(0.0, f64::max));
    let low = values().fold(f64::INFINITY, f64::min) * unit.factor;
    let high = values().fold(0.0, f64::max) * unit.factor;
    let names: Vec<&str> = lines.iter().map(|(name, _)| &**name).collect();
    let picture = plot(PLOT_WIDTH, 360, title, &names, |area| {
        let (bottom, top) = ((low / 1.15).log10(), (high * 1.15).log10());
        let x_range = -0.3..known.len() as f64 - 0.7;
        let axes = Axes { x: "", y: &unit.title, x_range, y_range: bottom..top, figures: Figures::None };
        let mut chart = chart(area, &axes);
        rules(&mut chart, area, (-0.3, known.len() as f64 - 0.7), bottom..top);
        let (origin_x, origin_y) = area.get_base_pixel();
        for (index, name) in known.iter().enumerate() {
            let (x, y) = chart.plotting_area().map_coordinate(&(index as f64, bottom));
            write(area, name, (x - origin_x, y - origin_y + 14), HPos::Center, TEXT);
        }
        for (index, (_, points)) in lines.iter().enumerate() {
            let place = |name: &str| known.iter().position(|other| *other == name);
            let at = points
                .iter()
                .filter_map(|(name, value)| Some((place(name)? as f64, (value * unit.factor).log10())));
            let path: Vec<(f64, f64)> = at.filter(|(_, log)| log.is_finite()).collect();
            let ink = color(index);
            chart.draw_series(path.iter().map(|at| Circle::new(*at, 3, ink.filled()))).expect(IN_MEMORY);
            chart.draw_series([PathElement::new(path, ink.stroke_width(2))]).expect(IN_MEMORY);
        }
    });
    Some(picture)
}

/// More powers of ten than this have rules without 2 and 5 between, and more than twice as many not one each.
const DECADES_MAX: i32 = 4;

/// Rules with their figures at 1, 2 and 5 of each power of ten, as far as there is room.
fn rules(chart: &mut Chart, area: &Area, (left, right): (f64, f64), logs: std::ops::Range<f64>) {
    let (first, last) = (logs.start.floor() as i32, logs.end.ceil() as i32);
    let digits: &[f64] = if last - first <= DECADES_MAX { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (last - first).div_euclid(2 * DECADES_MAX).max(1) as usize;
    let powers = (first..=last).step_by(every);
    let steps = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
    let (origin_x, origin_y) = area.get_base_pixel();
    for step in steps.filter(|step| logs.contains(&step.log10())) {
        let height = step.log10();
        let rule = PathElement::new(vec![(left, height), (right, height)], RULE);
        chart.draw_series([rule]).expect(IN_MEMORY);
        let (x, y) = chart.plotting_area().map_coordinate(&(left, height));
        // A number with too many zeros is written as a power of ten.
        let figure = if step < 0.001 { format!("{step:e}") } else { number(step) };
        write(area, &figure, (x - origin_x - 8, y - origin_y), HPos::Right, TEXT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_at_the_axis_have_room_however_far_it_reaches() {
        let rules = |lowest: f64| {
            let line = ("a".to_owned(), vec![("p50", lowest), ("p90", 500.0), ("p99", 900.0)]);
            let picture = percentiles("latency", &[line]).expect("a picture");
            picture.matches("stroke=\"#D8DBDF\"").count()
        };
        for lowest in [800.0, 80.0, 1.0, 1e-3, 1e-9, 1e-100, 1e-300] {
            assert!((1..=18).contains(&rules(lowest)), "{lowest}: {}", rules(lowest));
        }
    }
}
