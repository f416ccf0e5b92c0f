//! Where a series of measurements settles.

/// MSER (White 1997): how much to cut from the front so that the mean of the rest is known best. At least `rest_min`
/// values are left. More than half: the series has no steady part that is longer than its beginning.
pub fn settled_from(series: &[f64], rest_min: usize) -> usize {
    let error = |from: usize| {
        let rest = &series[from..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let places = 0..=series.len().saturating_sub(rest_min);
    places.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_the_rest_is_cut() {
        let series = |high: usize| -> Vec<f64> {
            (0..30)
                .map(|n| if n < high { 500.0 } else { 100.0 } + (crate::prng::mix(n as u64) % 10) as f64)
                .collect()
        };
        assert_eq!(settled_from(&series(5), 5), 5);
        assert_eq!(settled_from(&series(20), 5), 20);
        assert!(settled_from(&series(0), 5) <= 15);
        assert_eq!(settled_from(&[1.0, 1.0, 1.0], 1), 0, "a constant is steady from its beginning");
    }
}
