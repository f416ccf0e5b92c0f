//! A metric second by second: a thin line for each trial, in the colour of its treatment, and their median. Trials that do
//! not count are grey.

use std::collections::BTreeMap;

use plotters::prelude::*;
use stdx::statistics::median;

use super::{Axes, Figures, IN_MEMORY, INK, PLOT_WIDTH, chart, color, from_zero, plot};

/// The trials of a treatment: its name, and each trial's seconds and values.
pub type Trials = (String, Vec<Vec<(f64, f64)>>);

/// More points than this of one trial are thinned out: there are not as many pixels.
const POINTS_MAX: usize = 300;

/// More lines than this, of all treatments together, are thinned out evenly; the medians are of all.
const LINES_MAX: usize = 200;

/// The step at which lines are thinned out, for this many trials of this many treatments.
pub fn one_in(trials: usize, treatments: usize) -> usize {
    trials.div_ceil((LINES_MAX / treatments.max(1)).max(1)).max(1)
}

/// Trials that do not count: no treatment's colour, and not its grey.
const DOUBTFUL: RGBColor = RGBColor(0xb5, 0xb9, 0xbf);

/// Draws them, with the dropped seconds at the beginning shaded; nothing without values. `doubtful` trials are of any of
/// the treatments.
pub fn seconds(
    title: &str,
    y: &str,
    treatments: &[Trials],
    doubtful: &[Vec<(f64, f64)>],
    warm_up_s: f64,
) -> Option<String> {
    let points = || treatments.iter().flat_map(|(_, trials)| trials).chain(doubtful).flatten();
    points().next()?;
    let x_range = 0.0..points().map(|point| point.0).fold(1.0, f64::max);
    let y_range = from_zero(points().map(|point| point.1));
    let names: Vec<&str> = treatments.iter().map(|(name, _)| &**name).collect();
    let picture = plot(PLOT_WIDTH, 320, title, &names, |area| {
        let (low, high) = (y_range.start, y_range.end);
        let axes = Axes { x: "seconds of load", y, x_range, y_range, figures: Figures::Both };
        let mut chart = chart(area, &axes);
        if warm_up_s > 0.0 {
            let shade = Rectangle::new([(0.0, low), (warm_up_s, high)], INK.mix(0.08).filled());
            chart.draw_series([shade]).expect(IN_MEMORY);
        }
        let grey = doubtful.iter().step_by(one_in(doubtful.len(), 1)).map(|trial| {
            let every = trial.len().div_ceil(POINTS_MAX).max(1);
            let path: Vec<(f64, f64)> = trial.iter().copied().step_by(every).collect();
            PathElement::new(path, DOUBTFUL.stroke_width(1))
        });
        chart.draw_series(grey).expect(IN_MEMORY);
        for (index, (_, trials)) in treatments.iter().enumerate() {
            let opacity = (1.6 / trials.len().max(1) as f64).clamp(0.2, 0.5);
            let some = trials.iter().step_by(one_in(trials.len(), treatments.len()));
            let lines = some.map(|trial| {
                let every = trial.len().div_ceil(POINTS_MAX).max(1);
                let path: Vec<(f64, f64)> = trial.iter().copied().step_by(every).collect();
                PathElement::new(path, color(index).mix(opacity).stroke_width(1))
            });
            chart.draw_series(lines).expect(IN_MEMORY);
            if trials.is_empty() {
                continue;
            }
            let middle = PathElement::new(middle(trials), color(index).stroke_width(2));
            chart.draw_series([middle]).expect(IN_MEMORY);
        }
    });
    Some(picture)
}

/// The median in each second that half of the trials have, as their samples do not fall on the same instants.
fn middle(trials: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let mut seconds: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (at_s, value) in trials.iter().flatten() {
        seconds.entry(at_s.round() as i64).or_default().push(*value);
    }
    let every = seconds.len().div_ceil(POINTS_MAX).max(1);
    let most = seconds.into_iter().filter(|(_, values)| values.len() * 2 >= trials.len());
    most.step_by(every).map(|(second, values)| (second as f64, median(&values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_line_goes_by_the_second_and_not_by_the_sample() {
        let trials =
            [vec![(1.1, 10.0), (2.0, 20.0)], vec![(2.1, 40.0), (3.1, 30.0)], vec![(1.9, 30.0), (2.9, 50.0)]];
        // Only one of three has the first second.
        assert_eq!(middle(&trials), [(2.0, 30.0), (3.0, 40.0)]);
    }
}
