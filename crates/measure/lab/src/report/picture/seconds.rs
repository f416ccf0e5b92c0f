//! A metric second by second: a panel for each condition, in it a thin line for each trial, in the colour of its treatment,
//! and their median. Trials that do not count are grey.

use std::collections::BTreeMap;

use stdx::statistics::median;

use super::axis::AxisScale;
use super::canvas::{Anchor, Canvas, Lettering, TEXT, WIDTH, letters_in};
use super::{INK, color, short};
use crate::record::quantity::Unit;
use crate::record::quantity::is_latency;

/// A trial's seconds and values.
pub type TrialSeconds = Vec<(f64, f64)>;

/// A condition, the trials of each treatment under it, and the trials of any of them that do not count.
#[derive(Clone, Debug)]
pub struct SecondsPanel {
    /// The condition; empty if there is none.
    pub condition: String,
    /// The treatments with their trials.
    pub treatments: Vec<(String, Vec<TrialSeconds>)>,
    /// The other trials.
    pub doubtful: Vec<TrialSeconds>,
}

/// More points than this of one trial are thinned out: there are not as many pixels.
const POINTS_MAX: usize = 300;

/// More lines than this of a panel, of all treatments together, are thinned out evenly; the medians are of all.
const LINES_MAX: usize = 200;

/// Trials that do not count: no treatment's colour, and not its grey.
const DOUBTFUL: &str = "#b5b9bf";

const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 20.0;
const HEIGHT: f64 = 260.0;
const HEIGHT_OF_MANY: f64 = 130.0;

/// Draws them, with the dropped seconds at the beginning shaded; nothing without values.
pub fn seconds(metric: &str, panels: &[SecondsPanel], warm_up_s: f64) -> Option<String> {
    // No latency is zero: nothing was measured in that second.
    let is_drawn = |(_, value): &(f64, f64)| *value > 0.0 || !is_latency(metric);
    let trials = || {
        let counted = panels.iter().flat_map(|panel| &panel.treatments).flat_map(|(_, trials)| trials);
        counted.chain(panels.iter().flat_map(|panel| &panel.doubtful))
    };
    let values = || trials().flatten().filter(|it| is_drawn(it)).map(|point| point.1);
    values().next()?;
    let unit = Unit::of(metric, values().fold(0.0, f64::max));
    let treatments: Vec<&str> = panels[0].treatments.iter().map(|(name, _)| &**name).collect();
    let most = panels.iter().flat_map(|it| &it.treatments).map(|(_, trials)| trials.len()).max().unwrap_or(0);
    let drawn = match one_in(most, treatments.len()) {
        1 => "Every trial, and the median of all".to_owned(),
        some => format!("One trial in {some}, and the median of all"),
    };
    let doubtful =
        if panels.iter().all(|it| it.doubtful.is_empty()) { "" } else { "; doubtful ones in grey" };
    let shade = if warm_up_s > 0.0 { "; what is dropped is shaded" } else { "" };
    let scaled = || values().map(|value| value * unit.factor);
    let note = AxisScale::of(scaled(), (0.0, 1.0)).note();
    let mut canvas = Canvas::new(
        &format!("{}, second by second", unit.title),
        &format!("{drawn}{doubtful}{shade}{note}."),
    );
    canvas.legend(&treatments);
    let last = trials().flatten().map(|point| point.0).fold(1.0, f64::max);
    let x_scale = AxisScale::between(0.0, last, (LEFT, RIGHT));
    let height = if panels.len() > 1 { HEIGHT_OF_MANY } else { HEIGHT };
    for panel in panels {
        let top = canvas.bottom + if panel.condition.is_empty() { 4.0 } else { 22.0 };
        let bottom = top + height;
        let heading = short(&panel.condition, letters_in(RIGHT - LEFT, TEXT * 1.1));
        canvas.text((LEFT, top - 13.0), &heading, Lettering::PLAIN.bold());
        let y_scale = AxisScale::of(scaled(), (bottom, top));
        x_scale.draw_below(&mut canvas, &x_scale.marks(true), top, bottom);
        y_scale.draw_beside(&mut canvas, LEFT, RIGHT);
        canvas.rect((LEFT, top), (x_scale.at(warm_up_s) - LEFT, bottom - top), INK, 0.08);
        let path = |trial: &TrialSeconds| -> Vec<(f64, f64)> {
            let every = trial.len().div_ceil(POINTS_MAX).max(1);
            let some = trial.iter().step_by(every).filter(|it| is_drawn(it));
            some.map(|(at_s, value)| (x_scale.at(*at_s), y_scale.at(value * unit.factor))).collect()
        };
        draw(&mut canvas, panel, path);
        canvas.bottom = bottom + 18.0;
    }
    canvas.text(
        ((LEFT + RIGHT) / 2.0, canvas.bottom + 9.0),
        "seconds of load",
        Lettering::PLAIN.at(Anchor::Middle),
    );
    canvas.bottom += 18.0;
    Some(canvas.finish())
}

fn draw(canvas: &mut Canvas, panel: &SecondsPanel, path: impl Fn(&TrialSeconds) -> Vec<(f64, f64)>) {
    for trial in panel.doubtful.iter().step_by(one_in(panel.doubtful.len(), 1)) {
        canvas.line(&path(trial), DOUBTFUL, 1.0, 1.0);
    }
    for (index, (_, trials)) in panel.treatments.iter().enumerate() {
        let opacity = (1.6 / trials.len().max(1) as f64).clamp(0.2, 0.5);
        for trial in trials.iter().step_by(one_in(trials.len(), panel.treatments.len())) {
            canvas.line(&path(trial), color(index), 1.0, opacity);
        }
    }
    // Above all trials, whatever their treatment.
    for (index, (_, trials)) in panel.treatments.iter().enumerate().filter(|(_, (_, it))| !it.is_empty()) {
        canvas.line(&path(&middle(trials)), color(index), 2.5, 1.0);
    }
}

/// The step at which lines are thinned out, for this many trials of this many treatments.
fn one_in(trials: usize, treatments: usize) -> usize {
    trials.div_ceil((LINES_MAX / treatments.max(1)).max(1)).max(1)
}

/// The median in each second that half of the trials have, as their samples do not fall on the same instants.
fn middle(trials: &[TrialSeconds]) -> TrialSeconds {
    let mut seconds: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (at_s, value) in trials.iter().flatten() {
        seconds.entry(at_s.round() as i64).or_default().push(*value);
    }
    let most = seconds.into_iter().filter(|(_, values)| values.len() * 2 >= trials.len());
    most.map(|(second, values)| (second as f64, median(&values))).collect()
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
