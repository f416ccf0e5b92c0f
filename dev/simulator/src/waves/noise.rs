//! Figures of hosts with noise: differences between hosts, times that are common to a cluster, and heavy tails.

use fleet::waves::HostFigures;
use stdx::prng::{Prng, mix};

/// One value in twenty has so many times the noise of the others: a neighbour, a batch job, a hot key.
const TAIL_SHARE: f64 = 0.05;
const TAIL_FACTOR: f64 = 4.0;
/// Common to all hosts of a cluster in one time, as a share of one: load changes over the day.
const COMMON: f64 = 0.1;
/// Between hosts, as a share of one: it is there before and after.
const BETWEEN: f64 = 0.2;

/// What a change does to the hosts of a class, as a share of one: 0.05 makes each figure 5 % worse.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlantedEffect {
    /// Requests per second of CPU time that are lost.
    pub requests: f64,
    /// By how much the 99th percentile grows.
    pub p99: f64,
    /// Of hosts of the first class only.
    pub first_class_only: bool,
}

/// Draws figures.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    seed: u64,
    /// Standard deviation of a host's ratio of after and before.
    sigma: f64,
}

impl Noise {
    pub(super) fn new(seed: u64, sigma: f64) -> Noise {
        Noise { seed, sigma }
    }

    /// The figures of a host in a time, of which each has a number.
    pub(super) fn figures(
        &self,
        host: usize,
        cluster: usize,
        time: u64,
        effect: &PlantedEffect,
    ) -> HostFigures {
        let log = |figure: u64| {
            let at = |parts: [u64; 3]| {
                parts.into_iter().fold(self.seed ^ figure, |seed, part| mix(seed ^ mix(part + 1)))
            };
            let between = BETWEEN * normal(at([host as u64, 0, 0]));
            let common = COMMON * normal(at([cluster as u64, time, 1]));
            // Of two such times the ratio has the standard deviation sigma.
            let own = self.sigma / 2f64.sqrt() * heavy(at([host as u64, time, 2]));
            between + common + own
        };
        HostFigures {
            requests_per_cpu_s: Some(100_000.0 * log(1).exp() * (1.0 - effect.requests)),
            p99_us: Some(800.0 * log(2).exp() * (1.0 + effect.p99)),
            // Far above the share below which differences are of no account.
            scheduling_wait: Some((0.2 * log(3).exp()).min(1.0)),
        }
    }
}

/// Nearly normal, standard deviation 1: the sum of twelve uniform numbers.
fn normal(seed: u64) -> f64 {
    let mut prng = Prng::new(seed);
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// Standard deviation 1, with heavy tails.
fn heavy(seed: u64) -> f64 {
    let is_tail = Prng::new(mix(seed ^ 0x7a11)).unit() < TAIL_SHARE;
    let scale = (1.0 - TAIL_SHARE + TAIL_SHARE * TAIL_FACTOR * TAIL_FACTOR).sqrt();
    normal(seed) * if is_tail { TAIL_FACTOR } else { 1.0 } / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_two_times_has_the_standard_deviation_that_is_named() {
        let noise = Noise::new(1, 0.02);
        let none = PlantedEffect::default();
        let log = |host, time| {
            let figures = noise.figures(host, host, time, &none);
            figures.requests_per_cpu_s.map_or(0.0, f64::ln)
        };
        // What is common to a cluster goes with the difference to another host of it.
        let other = |host, time| {
            let figures = noise.figures(host + 100_000, host, time, &none);
            figures.requests_per_cpu_s.map_or(0.0, f64::ln)
        };
        let hosts = 20_000;
        let ratios = (0..hosts).map(|host| (log(host, 2) - log(host, 1)) - (other(host, 2) - other(host, 1)));
        let deviation = (ratios.map(|it| it * it).sum::<f64>() / hosts as f64).sqrt();
        // Of two hosts it is larger by the root of two.
        let expected = 0.02 * 2f64.sqrt();
        assert!((deviation / expected - 1.0).abs() < 0.05, "{deviation} and not {expected}");
    }
}
