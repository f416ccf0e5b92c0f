//! Scales from values to pixels, linear or logarithmic, and the marks of an axis.

use super::canvas::{Anchor, Canvas, Lettering, SMALL, width_of};
use super::{INK, RULE};
use crate::record::quantity::number;

/// Values that span more than this factor, a decade and a half, are drawn on a logarithmic scale: on a linear one most of
/// them would lie at the bottom.
const LOG_FROM: f64 = 31.6;

/// No axis is longer: the length of one from below zero to above must be finite, too.
const AXIS_MAX: f64 = f64::MAX / 4.0;

/// Pixels between two marks, beside the width of what is written there.
const MARK_GAP: f64 = 14.0;
/// Pixels between marks that stand above each other, at least.
const LINE_GAP: f64 = 26.0;

/// A scale: the values at its ends and the pixels there.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisScale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl AxisScale {
    /// From zero, or below if a value is, to a little above the highest; logarithmic where values span too much.
    pub(super) fn of(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> AxisScale {
        let (low, high) = ends(values);
        if low > 0.0 && high / low > LOG_FROM {
            return AxisScale::log([low, high].into_iter(), pixels);
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if low == 0.0 && high == 0.0 { 1.0 } else { high };
        AxisScale::between(low * 1.06, high * 1.06, pixels)
    }

    /// Logarithmic, over the values above zero.
    pub(super) fn log(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> AxisScale {
        let (low, high) = ends(values.filter(|value| *value > 0.0));
        let (low, high) = if low > 0.0 { (low, high) } else { (1.0, 1.0) };
        let air = (high / low).powf(0.05).clamp(1.05, 2.0);
        AxisScale {
            low: (low / air).max(f64::MIN_POSITIVE),
            high: (high * air).min(AXIS_MAX),
            is_log: true,
            from,
            to,
        }
    }

    /// From the least to the most, with some air, and not from zero.
    pub(super) fn tight(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> AxisScale {
        let (low, high) = ends(values);
        let air = ((high - low) * 0.08).max(high.abs() * 0.01);
        AxisScale::between(low - air, high + air, pixels)
    }

    /// Linear between two values, which are made different if they are not.
    pub(super) fn between(low: f64, high: f64, (from, to): (f64, f64)) -> AxisScale {
        let end = |end: f64| if end.is_nan() { 0.0 } else { end.clamp(-AXIS_MAX, AXIS_MAX) };
        let (low, high) = (end(low), end(high));
        let least = (low.abs().max(high.abs()) * 1e-9).max(1e-100);
        AxisScale { low, high: high.max(low + least), is_log: false, from, to }
    }

    /// The pixel of a value. One beyond the ends is at the end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(f64::MIN_POSITIVE).ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            false => (value - self.low) / (self.high - self.low),
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// The pixels of its ends.
    pub(super) fn pixels(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// What to add to the axis' title.
    pub(super) fn note(&self) -> &'static str {
        if self.is_log { ", logarithmic" } else { "" }
    }

    /// Marks and their figures, as many as there is room for; `across`: beside each other.
    pub(super) fn marks(&self, across: bool) -> Vec<(f64, String)> {
        if self.is_log {
            let marks = self.log_marks(across);
            if marks.len() > 1 {
                return marks;
            }
        }
        self.linear_marks(across)
    }

    fn linear_marks(&self, across: bool) -> Vec<(f64, String)> {
        let (range, length) = (self.high - self.low, (self.to - self.from).abs());
        let power = range.log10().floor() as i32;
        let steps = (power - 2..=power + 1)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| (digit * 10f64.powi(power), power)));
        for (step, power) in steps {
            // Not more than there are pixels, whatever rounding makes of them.
            if range / step > length {
                continue;
            }
            let first = (self.low / step).ceil();
            let count = (self.high / step).floor() - first;
            let values = (0..=count as u32).map(|index| (first + f64::from(index)) * step);
            let marks: Vec<(f64, String)> = values.map(|value| (value, figure(value, power))).collect();
            let widest = marks.iter().map(|(_, text)| width_of(text, SMALL)).fold(0.0, f64::max);
            let gap = if across { widest + MARK_GAP } else { LINE_GAP };
            if step / range * length >= gap {
                return marks.into_iter().map(|(value, text)| (self.at(value), text)).collect();
            }
        }
        Vec::new()
    }

    fn log_marks(&self, across: bool) -> Vec<(f64, String)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let every = (last - first).div_euclid(8).max(1);
        let powers = || (first.div_euclid(every) * every..=last).step_by(every as usize);
        // Where there is no room for all, powers of ten come first.
        let candidates = [1.0, 5.0, 2.0]
            .into_iter()
            .flat_map(|digit| powers().map(move |power| digit * 10f64.powi(power)));
        let within = candidates.filter(|value| (self.low..=self.high).contains(value));
        let texts = within.map(|value| {
            // A number with too many zeros is written as a power of ten.
            (self.at(value), if value < 0.001 { format!("{value:e}") } else { number(value) })
        });
        with_room(texts, across)
    }

    /// Rules across a plot that reaches from `top` to `bottom`, with figures below it.
    pub(super) fn draw_below(&self, canvas: &mut Canvas, marks: &[(f64, String)], top: f64, bottom: f64) {
        for (x, text) in marks {
            canvas.line(&[(*x, top), (*x, bottom)], RULE, 1.0, 1.0);
            canvas.text((*x, bottom + 11.0), text, Lettering::SMALL.at(Anchor::Middle));
        }
        canvas.line(&[(self.from, bottom), (self.to, bottom)], INK, 1.0, 0.6);
    }

    /// Rules along a plot that reaches from `left` to `right`, with figures at its left.
    pub(super) fn draw_beside(&self, canvas: &mut Canvas, left: f64, right: f64) {
        for (y, text) in self.marks(false) {
            canvas.line(&[(left, y), (right, y)], RULE, 1.0, 1.0);
            canvas.text((left - 7.0, y), &text, Lettering::SMALL.at(Anchor::End));
        }
        canvas.line(&[(left, self.from), (left, self.to)], INK, 1.0, 0.6);
    }
}

/// The candidates that are not too near to earlier ones.
pub(super) fn with_room(candidates: impl Iterator<Item = (f64, String)>, across: bool) -> Vec<(f64, String)> {
    let mut kept: Vec<(f64, String)> = Vec::new();
    for (at, text) in candidates {
        let gap = |other: &str| match across {
            true => (width_of(&text, SMALL) + width_of(other, SMALL)) / 2.0 + MARK_GAP / 2.0,
            false => LINE_GAP / 1.4,
        };
        if kept.iter().all(|(other, own)| (at - other).abs() >= gap(own)) {
            kept.push((at, text));
        }
    }
    kept
}

/// A figure with the decimals of the step before it, thousands apart.
fn figure(value: f64, power: i32) -> String {
    match power {
        ..=-10 | 13.. => format!("{value:e}"),
        ..0 => {
            let decimals = power.unsigned_abs() as usize;
            let text = format!("{value:.decimals$}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            if value.abs() < 1000.0 {
                text.to_owned()
            } else {
                text.replacen(&format!("{:.0}", value.trunc()), &number(value.trunc()), 1)
            }
        }
        _ => number(value),
    }
}

/// The least and the most of what is finite; zeros without any.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite());
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { (0.0, 0.0) } else { (low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], expected: &str) {
        let marks = AxisScale::of(values.iter().copied(), (0.0, 300.0)).marks(true);
        let texts: Vec<&str> = marks.iter().map(|(_, text)| &**text).collect();
        assert_eq!(texts.join(" "), expected, "{values:?}");
    }

    #[test]
    fn an_axis_is_logarithmic_from_a_decade_and_a_half_on() {
        check(&[10.0, 100.0, 310.0], "0 50 100 150 200 250 300");
        check(&[10.0, 100.0, 320.0], "10 100 50 20 200");
        check(&[0.0, 3_200.0], "0 1,000 2,000 3,000");
        check(&[0.001, 0.003], "0 0.001 0.002 0.003");
        check(&[-900.0, 100.0], "-800 -600 -400 -200 0");
        check(&[], "0 0.2 0.4 0.6 0.8 1");
    }

    #[test]
    fn an_axis_ends_whatever_it_is_given() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let ends = [0.0, -1.0, 1e-320, 1e15, 1e15 + 0.125, 1e308, f64::MAX, f64::MIN, inf, -inf, nan];
        for (start, end) in ends.iter().flat_map(|start| ends.map(|end| (*start, end))) {
            let scales = [
                AxisScale::of([start, end].into_iter(), (0.0, 300.0)),
                AxisScale::log([start, end].into_iter(), (0.0, 300.0)),
                AxisScale::tight([start, end].into_iter(), (300.0, 0.0)),
                AxisScale::between(start, end, (0.0, 300.0)),
            ];
            for scale in scales {
                let marks = scale.marks(true);
                assert!(marks.len() < 20, "{start} {end}: {} marks", marks.len());
                let pixels = marks.iter().map(|(at, _)| *at).chain([scale.at(start), scale.at(end)]);
                assert!(pixels.into_iter().all(|at| (0.0..=300.0).contains(&at)), "{start} {end}: {scale:?}");
            }
        }
    }

    #[test]
    fn figures_of_a_narrow_range_differ_from_each_other() {
        let marks = AxisScale::tight([1_001.2, 1_001.9].into_iter(), (200.0, 0.0)).marks(false);
        let mut texts: Vec<String> = marks.into_iter().map(|(_, text)| text).collect();
        let count = texts.len();
        texts.dedup();
        assert!(count > 2 && texts.len() == count, "{texts:?}");
        assert!(texts.iter().all(|text| text.starts_with("9") || text.starts_with("1,0")), "{texts:?}");
    }
}
