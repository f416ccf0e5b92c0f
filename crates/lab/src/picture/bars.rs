//! Bars of a metric: a group for each condition, a bar with its interval for each treatment.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Axes, Figures, IN_MEMORY, INK, LETTER, TEXT, chart, color, from_zero, plot, write};
use crate::compare::{Interval, Metric};
use crate::quantity::title;

/// A bar is so wide at least, in pixels.
const BAR_MIN: usize = 18;

/// Draws what is known of a metric; nothing if no cell has a value.
pub fn bars(metric: &Metric) -> Option<String> {
    let names = |name: fn(&crate::compare::Standing) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for standing in &metric.standings {
            if !names.contains(&name(standing)) {
                names.push(name(standing));
            }
        }
        names
    };
    let (treatments, conditions) = (names(|it| &it.treatment), names(|it| &it.condition));
    let medians = || metric.standings.iter().filter_map(|standing| standing.median);
    medians().next()?;
    let y_range = from_zero(medians().map(|median| median.high));
    let longest = conditions.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let group = (treatments.len() * BAR_MIN).max((longest as f64 * LETTER) as usize + 12);
    let width = (conditions.len() * group + 110).max(460);
    let what = title(&metric.name);
    let picture =
        plot(width, 340, &format!("{what}: medians of trials, 95 % intervals"), &treatments, |area| {
            let x_range = 0.0..conditions.len() as f64;
            let axes = Axes { x: "", y: &what, x_range, y_range, figures: Figures::OnlyY };
            let mut chart = chart(area, &axes);
            for (group, condition) in conditions.iter().enumerate() {
                let bar = |index: usize, treatment: &&str| {
                    let own = metric.standings.iter();
                    let mut own = own.filter(|it| it.condition == *condition && it.treatment == *treatment);
                    Some((index, own.next()?.median?))
                };
                let bars =
                    treatments.iter().enumerate().filter_map(|(index, treatment)| bar(index, treatment));
                let share = 0.84 / treatments.len() as f64;
                for (index, median) in bars {
                    let left = group as f64 + 0.08 + share * index as f64;
                    draw(&mut chart, (left, left + share), median, index);
                }
                let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, 0.0));
                let (origin_x, origin_y) = area.get_base_pixel();
                write(area, condition, (x - origin_x, y - origin_y + 14), HPos::Center, TEXT);
            }
        });
    Some(picture)
}

fn draw(chart: &mut super::Chart, (left, right): (f64, f64), median: Interval, series: usize) {
    let air = (right - left) * 0.08;
    let bar = Rectangle::new([(left + air, 0.0), (right - air, median.middle)], color(series).filled());
    let (middle, cap) = ((left + right) / 2.0, (right - left) * 0.14);
    let line = |from: (f64, f64), to: (f64, f64)| PathElement::new(vec![from, to], INK.stroke_width(1));
    let whisker = [
        line((middle, median.low), (middle, median.high)),
        line((middle - cap, median.low), (middle + cap, median.low)),
        line((middle - cap, median.high), (middle + cap, median.high)),
    ];
    chart.draw_series([bar]).expect(IN_MEMORY);
    chart.draw_series(whisker).expect(IN_MEMORY);
}
