//! Bars of a metric: a group for each condition, a bar for each treatment with its interval and a dot for each trial.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    Axes, Figures, IN_MEMORY, INK, LETTER, NAME_MAX, TEXT, are_numbered, chart, color, from_zero, plot,
    short, write,
};
use crate::analyze::comparison::{CellStanding, Metric};
use crate::analyze::verdict::Interval;
use crate::record::quantity::{Unit, title};

/// The minimum width of a bar, in pixels: the dots of ten trials stand side by side in it.
const BAR_MIN: usize = 30;

/// Of more trials than this, evenly chosen ones have a dot: more could not be distinguished.
const DOTS_MAX: usize = 200;

/// Draws the bars of a metric; nothing if no cell has a value.
pub fn bars(metric: &Metric) -> Option<String> {
    let (treatments, conditions) = (names(metric, |it| &it.treatment), names(metric, |it| &it.condition));
    let medians = || metric.standings.iter().filter_map(|standing| standing.median);
    medians().next()?;
    let values = metric.standings.iter().flat_map(|standing| &standing.values).map(|(_, value)| *value);
    let y_range = from_zero(medians().flat_map(|median| [median.low, median.high]).chain(values));
    let unit = Unit::of(&metric.name, y_range.end);
    let y_range = y_range.start * unit.factor..y_range.end * unit.factor;
    let bottom = y_range.start;
    let longest = conditions.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let group = (treatments.len() * BAR_MIN).max((longest as f64 * LETTER) as usize + 12);
    let width = (conditions.len() * group + 110).max(460);
    let what = title(&metric.name);
    let most = metric.standings.iter().map(|standing| standing.values.len()).max().unwrap_or(0);
    let every = most.div_ceil(DOTS_MAX).max(1);
    let trials = if every == 1 { "each trial".to_owned() } else { format!("one trial in {every}") };
    let picture = plot(
        width,
        340,
        &format!("{what}: medians of trials, 95 % intervals, {trials}"),
        &treatments,
        |area| {
            let x_range = 0.0..conditions.len() as f64;
            let axes = Axes { x: "", y: &unit.title, x_range, y_range, figures: Figures::OnlyY };
            let mut chart = chart(area, &axes);
            for (group, condition) in conditions.iter().enumerate() {
                let bar = |index: usize, treatment: &&str| {
                    let own = metric.standings.iter();
                    let mut own = own.filter(|it| it.condition == *condition && it.treatment == *treatment);
                    let standing = own.next()?;
                    let values = standing.values.iter().step_by(every);
                    let values = values.map(|(_, value)| value * unit.factor);
                    Some((index, standing.median?.times(unit.factor), values.collect::<Vec<f64>>()))
                };
                let bars =
                    treatments.iter().enumerate().filter_map(|(index, treatment)| bar(index, treatment));
                let share = 0.84 / treatments.len() as f64;
                let below = |text: &str, at: f64, line: i32, chart: &super::Chart| {
                    let (x, y) = chart.plotting_area().map_coordinate(&(at, bottom));
                    let (origin_x, origin_y) = area.get_base_pixel();
                    write(area, text, (x - origin_x, y - origin_y + 14 * line), HPos::Center, TEXT);
                };
                for (index, median, values) in bars {
                    let left = group as f64 + 0.08 + share * index as f64;
                    draw(&mut chart, (left, left + share), median, &values, index);
                    if are_numbered(treatments.len()) {
                        below(&(index + 1).to_string(), left + share / 2.0, 1, &chart);
                    }
                }
                let line = if are_numbered(treatments.len()) { 2 } else { 1 };
                below(&short(condition, NAME_MAX), group as f64 + 0.5, line, &chart);
            }
        },
    );
    Some(picture)
}

/// Names of treatments or conditions, each once.
fn names(metric: &Metric, name: fn(&CellStanding) -> &str) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for standing in &metric.standings {
        if !names.contains(&name(standing)) {
            names.push(name(standing));
        }
    }
    names
}

/// Draws the bar of a treatment with its dots and its interval.
fn draw(
    chart: &mut super::Chart,
    (left, right): (f64, f64),
    median: Interval,
    values: &[f64],
    series: usize,
) {
    let air = (right - left) * 0.06;
    // Lighter than its mark in the legend, so that marks on it are visible.
    let shade = color(series).mix(0.65).filled();
    let bar = Rectangle::new([(left + air, 0.0), (right - air, median.middle)], shade);
    chart.draw_series([bar]).expect(IN_MEMORY);
    // In the order of the rounds from left to right, so that a drift is seen, too.
    let step = (right - left - 4.0 * air) / values.len().max(1) as f64;
    let place = |round: usize| left + 2.0 * air + step * (round as f64 + 0.5);
    let dots = values.iter().enumerate().map(|(round, value)| (place(round), *value));
    chart.draw_series(dots.map(|at| Circle::new(at, 2, INK.mix(0.55).filled()))).expect(IN_MEMORY);
    let (middle, cap) = ((left + right) / 2.0, (right - left) * 0.18);
    let line = |from: (f64, f64), to: (f64, f64)| PathElement::new(vec![from, to], INK.stroke_width(2));
    let whisker = [
        line((middle, median.low), (middle, median.high)),
        line((middle - cap, median.low), (middle + cap, median.low)),
        line((middle - cap, median.high), (middle + cap, median.high)),
    ];
    chart.draw_series(whisker).expect(IN_MEMORY);
}
