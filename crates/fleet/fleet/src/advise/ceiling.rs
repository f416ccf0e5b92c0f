//! The share of a CPU that may be used at a latency target.
//!
//! Each worker is one queue, since a connection stays with its worker. Kingman's approximation of a queue with one server has a wait
//! whose tail is exponential, with the use ρ, the mean time of a request s, and the squared coefficients of variation of arrivals and
//! of times. Requests that arrive b at once have ca² = b.
//!
//! ```text
//! P(wait > t) ≈ ρ · exp(−2 (1 − ρ) t ÷ (s · (ca² + cs²)))
//! ```
//!
//! A CPU also stops now and then for longer than many requests take: for other programs, for interrupts, for the hypervisor. While it
//! stops for a time r, requests come at the usual rate, and afterwards the worker catches up with what is left of its time. Who comes
//! at the moment x after the stop began waits r − (1 − ρ) x, which is longer than t until x = (r − t) ÷ (1 − ρ). So with the share e of
//! the time that stops last beyond t (the sum of all r − t above 0, divided by the time in which they were seen),
//!
//! ```text
//! P(wait > t because of a stop) = e ÷ (1 − ρ)
//! ```
//!
//! Both are added: at most one request in a hundred may have either reason.

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
    /// The share of the time that stops of the CPU last beyond the wait that is asked about.
    pub(super) stopped: f64,
}

impl WorkerQueue {
    /// The highest use with which 99 of 100 requests wait for at most this long. 0 without any time.
    pub(super) fn use_max(&self, wait_us: f64) -> f64 {
        if wait_us <= 0.0 {
            return 0.0;
        }
        let steepness = 2.0 * wait_us / (self.request_us * (self.burst + self.variation));
        let is_within =
            |used: f64| used * (-steepness * (1.0 - used)).exp() + self.stopped / (1.0 - used) <= TAIL;
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
        let queue = |burst| WorkerQueue { request_us: 8.0, burst, variation: 1.0, stopped: 0.0 };
        let uses = [200.0, 1_000.0, 5_000.0].map(|wait| queue(16.0).use_max(wait));
        assert!(uses.windows(2).all(|pair| pair[0] < pair[1]), "{uses:?}");
        assert!(queue(64.0).use_max(1_000.0) < queue(16.0).use_max(1_000.0));
        assert_eq!(queue(16.0).use_max(0.0), 0.0);
    }

    /// A queue with exponential times of its own: the wait of M/M/1 is exactly ρ · exp(−(1 − ρ) t ÷ s).
    #[test]
    fn without_bursts_it_is_the_queue_of_the_textbook() {
        let queue = WorkerQueue { request_us: 10.0, burst: 1.0, variation: 1.0, stopped: 0.0 };
        let used = queue.use_max(100.0);
        let tail = used * (-(1.0 - used) * 10.0).exp();
        assert!((tail - 0.01).abs() < 1e-9, "{used} {tail}");
    }

    /// Half of what may be late is lost to stops, so half of the CPU is there to catch up. With all of it lost nothing may be used.
    #[test]
    fn stops_leave_what_it_takes_to_catch_up() {
        let used =
            |stopped| WorkerQueue { request_us: 1.0, burst: 1.0, variation: 1.0, stopped }.use_max(1_000.0);
        assert!((used(0.005) - 0.5).abs() < 1e-6, "{}", used(0.005));
        assert!(used(0.01) < 1e-9 && used(0.02) < 1e-9);
        assert!(used(0.0) > used(0.0001));
    }

    /// Poisson arrivals, times that are all alike, and a stop of 3 ms ten times a second: the same shares of requests wait for longer
    /// than a millisecond in a simulated queue as by the formulas together.
    #[test]
    fn a_simulated_queue_with_stops_waits_as_long() {
        const REQUEST_US: f64 = 10.0;
        const STOP: (f64, f64) = (100_000.0, 3_000.0);
        const WAIT_US: f64 = 1_000.0;
        let mut random = stdx::prng::Prng::new(1);
        for used in [0.5, 0.8, 0.9] {
            let (mut now, mut free, mut late, mut next_stop) = (0.0_f64, 0.0_f64, 0_u32, 0.0_f64);
            const REQUESTS: u32 = 2_000_000;
            for _ in 0..REQUESTS {
                now -= (1.0 - random.unit()).ln() * REQUEST_US / used;
                while next_stop <= now {
                    free = free.max(next_stop) + STOP.1;
                    next_stop += STOP.0;
                }
                let begins = free.max(now);
                late += u32::from(begins - now > WAIT_US);
                free = begins + REQUEST_US;
            }
            let found = f64::from(late) / f64::from(REQUESTS);
            let queue = used * (-2.0 * WAIT_US * (1.0 - used) / REQUEST_US).exp();
            let expected = queue + (STOP.1 - WAIT_US) / STOP.0 / (1.0 - used);
            assert!((found / expected - 1.0).abs() < 0.05, "{used}: {found}, expected {expected}");
        }
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
