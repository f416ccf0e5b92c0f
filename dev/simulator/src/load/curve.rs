//! Warmth curves: the hit ratio of a cache that was empty a number of requests ago.
//!
//! Che's approximation (Che, Tung, Wang 2002): an LRU cache holds what was requested within its characteristic window of `W`
//! requests, so an item with probability `p` is found with `1 − exp(−p·W)`. A cache that was empty `n < W` requests ago is the
//! same with the window `n`. Popularity is Zipf's.

/// Ratio of the ranks at the two ends of a bucket; the popularity in it differs by less than 3 %.
const BUCKET_RATIO: f64 = 1.03;
/// Points of the table per doubling of the window, at least.
const POINTS_PER_DOUBLING: f64 = 4.0;
/// Halvings in a search: to a billionth of its range, far beyond the buckets' precision.
const HALVINGS: usize = 30;
/// A catalogue that is larger by this factor is not considered: no hit ratio above one half needs it.
const CATALOGUE_FACTOR_MAX: f64 = 1e6;

/// Hit ratio of one server by the window, as a table; and for tests, how full its memory is.
#[derive(Clone, Debug)]
pub(super) struct WarmthCurve {
    hits: Vec<f64>,
    #[cfg(test)]
    fills: Vec<f64>,
    window: f64,
    /// Points per doubling.
    density: f64,
}

/// Ranks with nearly equal popularity: how many, and the probability of one.
type Buckets = Vec<(f64, f64)>;

impl WarmthCurve {
    /// The curve of a server with room for `capacity` items, whose hit ratio is `hit_ratio` when it is full. The catalogue is
    /// as large as this takes.
    pub(super) fn new(capacity: f64, exponent: f64, hit_ratio: f64) -> WarmthCurve {
        assert!(
            capacity > 1.0 && (0.5..1.0).contains(&hit_ratio),
            "a server with items and a hit ratio from 0.5 to 1"
        );
        let (mut low, mut high) = (1.0_f64 + 1e-9, CATALOGUE_FACTOR_MAX);
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            let buckets = zipf(capacity * middle, exponent);
            if hit(&buckets, full_window(&buckets, capacity)) > hit_ratio {
                low = middle
            } else {
                high = middle
            }
        }
        let buckets = zipf(capacity * low, exponent);
        let window = full_window(&buckets, capacity);
        let points = (window.log2() * POINTS_PER_DOUBLING).ceil() as usize + 1;
        // The last point is the full window exactly: most servers are there most of the time.
        let density = (points - 1) as f64 / window.log2();
        let at = |point: usize| 2f64.powf(point as f64 / density);
        WarmthCurve {
            hits: (0..points).map(|point| hit(&buckets, at(point))).collect(),
            #[cfg(test)]
            fills: (0..points).map(|point| fill(&buckets, at(point)) / capacity).collect(),
            window,
            density,
        }
    }

    /// The hit ratio after so many requests.
    pub(super) fn hit_ratio(&self, requests: f64) -> f64 {
        self.between(&self.hits, requests)
    }

    /// The part of the memory that is full after so many requests.
    #[cfg(test)]
    pub(super) fn fill(&self, requests: f64) -> f64 {
        self.between(&self.fills, requests)
    }

    /// Requests after which the server is as warm as it will be.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    fn between(&self, table: &[f64], requests: f64) -> f64 {
        if requests < 1.0 {
            return table[0] * requests.max(0.0);
        }
        let place = requests.min(self.window).log2() * self.density;
        let at = (place as usize).min(table.len() - 2);
        table[at] + (table[at + 1] - table[at]) * (place - at as f64).clamp(0.0, 1.0)
    }
}

fn zipf(catalogue: f64, exponent: f64) -> Buckets {
    let mut buckets = Vec::new();
    let (mut first, mut total) = (1.0_f64, 0.0);
    while first <= catalogue {
        let next = (first * BUCKET_RATIO).max(first + 1.0).floor().min(catalogue + 1.0);
        let (count, middle) = (next - first, ((first * (next - 1.0).max(first)).sqrt()).max(1.0));
        let weight = middle.powf(-exponent);
        total += count * weight;
        buckets.push((count, weight));
        if next <= first {
            break;
        }
        first = next;
    }
    buckets.iter_mut().for_each(|(_, weight)| *weight /= total);
    buckets
}

fn hit(buckets: &Buckets, window: f64) -> f64 {
    buckets.iter().map(|(count, p)| count * p * -(-p * window).exp_m1()).sum()
}

fn fill(buckets: &Buckets, window: f64) -> f64 {
    buckets.iter().map(|(count, p)| count * -(-p * window).exp_m1()).sum()
}

/// The window in which as many different items are requested as there is room for.
fn full_window(buckets: &Buckets, capacity: f64) -> f64 {
    let (mut low, mut high) = (capacity.ln(), capacity.ln() + 30.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if fill(buckets, middle.exp()) < capacity { low = middle } else { high = middle }
    }
    high.exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    /// A server of the report: 92 GB in items of 1,222 bytes, 36,000 requests/s.
    const ITEMS: f64 = 92e9 / 1222.0;
    const RATE: f64 = 36_000.0;

    #[track_caller]
    fn check(hit_ratio: f64) {
        let curve = WarmthCurve::new(ITEMS, 0.99, hit_ratio);
        let full_minutes = curve.window() / RATE / 60.0;
        assert!(full_minutes >= 34.8, "{full_minutes} minutes: sooner than with a new item in every request");
        assert!(
            (curve.hit_ratio(curve.window()) - hit_ratio).abs() < 0.002,
            "{}",
            curve.hit_ratio(curve.window())
        );
        assert!((curve.fill(curve.window()) - 1.0).abs() < 0.01);
        // Half of the hits come back while the memory is still nearly empty.
        let after_20_s = RATE * 20.0;
        assert!(curve.hit_ratio(after_20_s) > hit_ratio / 2.0, "{}", curve.hit_ratio(after_20_s));
        assert!(curve.fill(after_20_s) < 0.02, "{}", curve.fill(after_20_s));
        let steps = (0..60).map(|step| curve.hit_ratio(2f64.powi(step)));
        assert!(steps.clone().zip(steps.skip(1)).all(|(before, after)| after >= before));
    }

    #[test]
    fn the_hit_ratio_returns_sooner_than_the_memory_is_full() {
        [0.90, 0.95, 0.99].into_iter().for_each(check);
    }

    #[test]
    fn the_curve_agrees_with_a_real_lru_cache() {
        let (capacity, catalogue, exponent) = (2_000.0, 6_000.0, 0.9);
        let buckets = zipf(catalogue, exponent);
        let expected = hit(&buckets, full_window(&buckets, capacity));
        let mut sums: Vec<f64> = (1..=catalogue as u32).map(|rank| f64::from(rank).powf(-exponent)).collect();
        (1..sums.len()).for_each(|at| sums[at] += sums[at - 1]);
        let (mut prng, mut last, mut hits) = (Prng::new(1), vec![0_u64; sums.len()], 0);
        let mut order = std::collections::BTreeSet::new();
        for time in 1..=60_000_u64 {
            let point = prng.unit() * sums[sums.len() - 1];
            let item = sums.partition_point(|sum| *sum <= point);
            if order.remove(&(last[item], item)) {
                hits += u64::from(time > 30_000);
            }
            last[item] = time;
            order.insert((time, item));
            if order.len() > capacity as usize {
                order.pop_first();
            }
        }
        let found = hits as f64 / 30_000.0;
        assert!((found - expected).abs() < 0.02, "{found}, expected {expected}");
    }
}
