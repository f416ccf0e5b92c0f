//! The share of a CPU that may be used at a latency target.
//!
//! Each worker is one queue, since a connection stays with its worker. Kingman's approximation of a queue with one server has a wait
//! whose tail is exponential, with the use ρ, the mean time of a request s, and the squared coefficients of variation of arrivals and
//! of times. Requests that arrive b at once have ca² = b.
//!
//! ```text
//! P(wait > t) ≈ ρ · exp(−2 (1 − ρ) t ÷ (s · (ca² + cs²)))
//! ```

/// Of all requests, this share may wait longer.
const TAIL: f64 = 0.01;

/// What bounds the use of a worker's CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerQueue {
    /// Mean CPU time of a request, in µs.
    pub(super) request_us: f64,
    /// Requests that arrive at once.
    pub(super) burst: f64,
    /// The squared coefficient of variation of the times of requests.
    pub(super) variation: f64,
}

impl WorkerQueue {
    /// The highest use with which 99 of 100 requests wait for at most this long. 0 without any time.
    pub(super) fn use_max(&self, wait_us: f64) -> f64 {
        if wait_us <= 0.0 {
            return 0.0;
        }
        let steepness = 2.0 * wait_us / (self.request_us * (self.burst + self.variation));
        let is_within = |used: f64| used * (-steepness * (1.0 - used)).exp() <= TAIL;
        // The tail grows with the use, from 0 to 1: halved until no figure that is shown changes.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if is_within(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// 2⁻⁴⁰ is far below any digit that is shown.
const HALVINGS: u32 = 40;

/// The squared coefficient of variation of a log-normal law with this mean and 99th percentile; a law cannot have every pair of them, and
/// gets the widest that it can have. 0 where the percentile is not above the mean.
pub(super) fn lognormal_variation(mean: f64, p99: f64) -> f64 {
    if mean <= 0.0 || p99 <= mean {
        return 0.0;
    }
    // p99 ÷ mean = exp(z σ − σ² ÷ 2), so σ = z − √(z² − 2 ln(p99 ÷ mean)).
    let inner = Z99 * Z99 - 2.0 * (p99 / mean).ln();
    let sigma = Z99 - inner.max(0.0).sqrt();
    (sigma * sigma).exp_m1()
}

/// The 99th percentile of a normal law.
const Z99: f64 = 2.326;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stricter_target_and_larger_bursts_allow_less() {
        let queue = |burst| WorkerQueue { request_us: 8.0, burst, variation: 1.0 };
        let uses = [200.0, 1_000.0, 5_000.0].map(|wait| queue(16.0).use_max(wait));
        assert!(uses.windows(2).all(|pair| pair[0] < pair[1]), "{uses:?}");
        assert!(queue(64.0).use_max(1_000.0) < queue(16.0).use_max(1_000.0));
        assert_eq!(queue(16.0).use_max(0.0), 0.0);
    }

    /// A queue with exponential times of its own: the wait of M/M/1 is exactly ρ · exp(−(1 − ρ) t ÷ s).
    #[test]
    fn without_bursts_it_is_the_queue_of_the_textbook() {
        let queue = WorkerQueue { request_us: 10.0, burst: 1.0, variation: 1.0 };
        let used = queue.use_max(100.0);
        let tail = used * (-(1.0 - used) * 10.0).exp();
        assert!((tail - 0.01).abs() < 1e-9, "{used} {tail}");
    }

    #[test]
    fn a_law_of_sizes_is_as_wide_as_its_percentile_says() {
        assert_eq!(lognormal_variation(100.0, 100.0), 0.0);
        // σ = 1: the 99th percentile is exp(2.326 − 0.5) times the mean, and the variation e − 1.
        let variation = lognormal_variation(1.0, (2.326_f64 - 0.5).exp());
        assert!((variation - 1.718).abs() < 0.01, "{variation}");
        assert!(lognormal_variation(1.0, 1e9).is_finite());
    }
}
