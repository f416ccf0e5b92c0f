//! Change points of a series: lasting changes of level, which tell a regression from a noisy day.
//!
//! E-Divisive (Matteson and James 2014) finds candidates by the energy distance between the runs before and after; a
//! t test instead of permutations makes it deterministic and quick, and windows that slide over the series, whose
//! candidates are merged afterwards, keep a distant past out of it (Fleming et al., *Hunter*, ICPE 2023). Apache Otava
//! does the same; the tests hold our change points to its own. Besides, a level has to last, and most of its runs have
//! to have it: a single bad night is no change.

use crate::history::student::{Sample, t_test_p};

/// The parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    /// Runs that are looked at together, at least 2.
    pub window: usize,
    /// The probability of a change point by chance.
    pub p_max: f64,
    /// The least relative change of the mean that counts.
    pub change_min: f64,
    /// The fewest runs for which a level has to last.
    pub runs_min: usize,
}

impl Default for Detector {
    /// Otava's window and chance; a level of three runs.
    fn default() -> Detector {
        Detector { window: 50, p_max: 0.001, change_min: 0.0, runs_min: 3 }
    }
}

/// A lasting change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first run of the new level.
    pub index: usize,
    /// The mean since the change point before.
    pub before: f64,
    /// The mean up to the next change point.
    pub after: f64,
    /// The probability that chance alone makes such a difference; 1 if a few runs make it alone.
    pub p: f64,
}

impl ChangePoint {
    /// The change relative to the smaller of the two levels, without a sign.
    pub fn magnitude(&self) -> f64 {
        let relative = |from: f64, to: f64| if from == 0.0 { 0.0 } else { (to / from - 1.0).abs() };
        relative(self.before, self.after).max(relative(self.after, self.before))
    }
}

/// Candidates are searched with a probability that is higher by this: merging removes the weak ones again.
const WEAK: f64 = 10.0;

impl Detector {
    /// The change points of a series, in order.
    pub fn change_points(&self, series: &[f64]) -> Vec<ChangePoint> {
        assert!(self.window >= 2 && self.runs_min >= 1, "a window of two runs, and levels of one, at least");
        let places = self.candidates(series);
        self.merge(places, series)
    }

    /// The union of what every window shows by itself.
    fn candidates(&self, series: &[f64]) -> Vec<usize> {
        let mut places = Vec::new();
        let mut start = 0;
        while start < series.len() {
            let end = (start + self.window).min(series.len());
            let found = self.split(&series[start..end]);
            let last = found.last().map_or(0, |place| start + place);
            places.extend(found.into_iter().map(|place| start + place));
            start = last.max(start + self.window / 2);
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Splits one window again and again, at the best place of all its parts, while the parts differ.
    fn split(&self, window: &[f64]) -> Vec<usize> {
        let distances = Distances::of(window);
        let mut places: Vec<usize> = Vec::new();
        loop {
            let parts = parts(&places, window.len());
            let candidates = parts.filter_map(|(from, to)| {
                let (place, distance) = distances.best_split(from, to, self.runs_min)?;
                Some((from, place, to, distance))
            });
            let best = candidates.reduce(|best, other| if other.3 > best.3 { other } else { best });
            let Some((from, place, to, _)) = best else { return places };
            let p = t_test_p(Sample::of(&window[from..place]), Sample::of(&window[place..to]));
            if p > self.p_max * WEAK {
                return places;
            }
            places.push(place);
            places.sort_unstable();
        }
    }

    /// Removes the least certain change, or among certain ones the smallest, until all that are left count.
    fn merge(&self, mut places: Vec<usize>, series: &[f64]) -> Vec<ChangePoint> {
        loop {
            let points = judged(&places, series);
            let is_short = |(from, to): (usize, usize)| to - from < self.runs_min;
            let least_certain = index_by(&points, |point| -point.p);
            let smallest = index_by(&points, ChangePoint::magnitude);
            let shortest = parts(&places, series.len()).position(is_short).map(|part| part.saturating_sub(1));
            match (least_certain, smallest) {
                (Some(index), _) if points[index].p >= self.p_max => places.remove(index),
                (_, Some(index)) if points[index].magnitude() <= self.change_min => places.remove(index),
                _ => match shortest.filter(|_| !places.is_empty()) {
                    Some(index) => places.remove(index),
                    None => return points,
                },
            };
        }
    }
}

/// The parts between change points, as first and one past the last.
fn parts(places: &[usize], len: usize) -> impl Iterator<Item = (usize, usize)> {
    let from = std::iter::once(0).chain(places.iter().copied());
    let to = places.iter().copied().chain(std::iter::once(len));
    from.zip(to)
}

/// The values between those indices.
pub(crate) fn judged(places: &[usize], series: &[f64]) -> Vec<ChangePoint> {
    let parts: Vec<(usize, usize)> = parts(places, series.len()).collect();
    let pairs = parts.windows(2).map(|pair| {
        let (left, right) = (&series[pair[0].0..pair[0].1], &series[pair[1].0..pair[1].1]);
        let (before, after) = (Sample::of(left), Sample::of(right));
        let most = (median(right) - median(left)) / (after.mean - before.mean);
        let p = if most < MEDIAN_SHARE_MIN { 1.0 } else { t_test_p(before, after) };
        ChangePoint { index: pair[1].0, before: before.mean, after: after.mean, p }
    });
    pairs.collect()
}

/// The median moves at least by this share of the mean's way, or a few runs make all the difference. The t test alone
/// does not see that: it assumes the same noise on both sides.
const MEDIAN_SHARE_MIN: f64 = 0.5;

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// The place of the least.
fn index_by(points: &[ChangePoint], key: impl Fn(&ChangePoint) -> f64) -> Option<usize> {
    (0..points.len()).min_by(|a, b| key(&points[*a]).total_cmp(&key(&points[*b])))
}

/// Sums of distances between the runs of a window.
struct Distances {
    len: usize,
    /// `sums[k * (len + 1) + i]`: the distances of run `k` to the first `i` runs.
    sums: Vec<f64>,
}

impl Distances {
    fn of(window: &[f64]) -> Distances {
        let mut sums = Vec::with_capacity(window.len() * (window.len() + 1));
        for run in window {
            let mut sum = 0.0;
            sums.push(sum);
            for other in window {
                sum += (run - other).abs();
                sums.push(sum);
            }
        }
        Distances { len: window.len(), sums }
    }

    /// The distances of run `k` to the runs `from..to`.
    fn between(&self, k: usize, from: usize, to: usize) -> f64 {
        let row = k * (self.len + 1);
        self.sums[row + to] - self.sums[row + from]
    }

    /// Where the runs of `from..to` are split best, and the distance of the two sides. The right side may end before
    /// `to`: what comes later may be different again.
    fn best_split(&self, from: usize, to: usize, runs_min: usize) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        // Twice the sum of distances inside of the left side, all pairs counted once.
        let mut left_within = 0.0;
        for place in from + 1..to {
            left_within += self.between(place - 1, from, place - 1);
            if place - from < runs_min || to - place < runs_min {
                continue;
            }
            let (mut across, mut right_within) = (0.0, 0.0);
            for last in place..to {
                across += self.between(last, from, place);
                right_within += self.between(last, place, last);
                let (n, m) = ((place - from) as f64, (last + 1 - place) as f64);
                let pairs = |within: f64, own: f64, other: f64| {
                    if own > 1.0 { 2.0 * other * within / (own - 1.0) } else { 0.0 }
                };
                let distance =
                    (2.0 * across - pairs(left_within, n, m) - pairs(right_within, m, n)) / (n + m);
                if best.is_none_or(|(_, most)| distance > most) {
                    best = Some((place, distance));
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests;
