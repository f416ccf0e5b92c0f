//! Percentiles of latency: a panel for each condition, a line for each treatment, on one logarithmic scale.

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, TEXT, WIDTH, letters_in};
use super::{are_numbered, color, short};
use crate::record::quantity::Unit;

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

/// Panels beside each other, at most.
const BESIDE_MAX: usize = 2;

const LEFT: f64 = 70.0;
const HEIGHT: f64 = 230.0;

/// Draws them if there are three percentiles; panels have the names of their conditions.
pub fn percentiles(remark: &str, panels: &[(String, Vec<PercentileCurve>)]) -> Option<String> {
    let points = || panels.iter().flat_map(|(_, lines)| lines).flat_map(|(_, points)| points);
    let has = |name: &str| points().any(|point| point.0 == name);
    let known: Vec<&str> = PERCENTILES.iter().map(|(_, name)| *name).filter(|name| has(name)).collect();
    let values = || points().map(|point| point.1).filter(|value| *value > 0.0);
    if known.len() < 3 || values().next().is_none() {
        return None;
    }
    let unit = Unit::of("latency_us", values().fold(0.0, f64::max));
    let mut canvas = Canvas::new(&format!("Percentiles of {}", unit.title), remark);
    let names: Vec<&str> = panels[0].1.iter().map(|(name, _)| &**name).collect();
    canvas.legend(&names);
    let beside = panels.len().min(BESIDE_MAX);
    let width = (WIDTH - 20.0) / beside as f64;
    for row in panels.chunks(beside) {
        let top = canvas.bottom + if row[0].0.is_empty() { 4.0 } else { 22.0 };
        let bottom = top + HEIGHT;
        let scale = AxisScale::log(values().map(|value| value * unit.factor), (bottom, top));
        for (column, (condition, lines)) in row.iter().enumerate() {
            let left = LEFT + width * column as f64;
            let right = left + width - LEFT - 4.0;
            let heading = short(condition, letters_in(right - left, TEXT * 1.1));
            canvas.text((left, top - 13.0), &heading, Lettering::PLAIN.bold());
            scale.draw_beside(&mut canvas, left, right);
            let step = (right - left - 40.0) / (known.len() - 1) as f64;
            let x = |name: &str| {
                let place = known.iter().position(|other| *other == name)?;
                Some(left + 16.0 + step * place as f64)
            };
            for name in &known {
                let at = (x(name).expect("it is one of them"), bottom + 11.0);
                canvas.text(at, name, Lettering::SMALL.at(Anchor::Middle));
            }
            draw(&mut canvas, lines, |name, value| Some((x(name)?, scale.at(value * unit.factor))));
        }
        canvas.bottom = bottom + 22.0;
    }
    Some(canvas.finish())
}

fn draw(canvas: &mut Canvas, lines: &[PercentileCurve], place: impl Fn(&str, f64) -> Option<(f64, f64)>) {
    let mut numbers: Vec<f64> = Vec::new();
    for (index, (_, points)) in lines.iter().enumerate() {
        let known = points.iter().filter(|(_, value)| *value > 0.0);
        let path: Vec<(f64, f64)> = known.filter_map(|(name, value)| place(name, *value)).collect();
        path.iter().for_each(|at| canvas.dot(*at, 3.0, color(index), 1.0));
        canvas.line(&path, color(index), 2.0, 1.0);
        // A number for which there is no room is left out.
        let end = path
            .last()
            .filter(|(_, y)| are_numbered(lines.len()) && numbers.iter().all(|it| (it - y).abs() >= 13.0));
        if let Some((x, y)) = end {
            canvas.text((x + 7.0, *y), &(index + 1).to_string(), Lettering::SMALL.colored(color(index)));
            numbers.push(*y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RULE;
    use super::*;

    #[test]
    fn figures_at_the_axis_have_room_however_far_it_reaches() {
        let rules = |lowest: f64| {
            let line = ("a".to_owned(), vec![("p50", lowest), ("p90", 500.0), ("p99", 900.0)]);
            let picture = percentiles("", &[(String::new(), vec![line])]).expect("a picture");
            picture.matches(&format!("stroke=\"{RULE}\"")).count()
        };
        for lowest in [800.0, 80.0, 1.0, 1e-3, 1e-9, 1e-100, 1e-300] {
            assert!((2..=18).contains(&rules(lowest)), "{lowest}: {}", rules(lowest));
        }
    }
}
