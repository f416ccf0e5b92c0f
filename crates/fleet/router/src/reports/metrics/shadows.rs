//! Metrics of shadows that are compared (`--compare-shadows`, `--shadow-report`). They begin anew with each configuration.

use stdx::exposition::{Exposition, FamilyKind};

use crate::stats::shadow_counts::{LatencyHistogram, ShadowReport};

/// Bounds of the times in microseconds: powers of two from 32 µs to 2 s.
const BOUNDS_US: [u64; 17] = {
    let mut bounds = [32; 17];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

pub(super) fn write(report: &ShadowReport, text: &mut Exposition) {
    let shadows = report.named();
    if shadows.is_empty() {
        return;
    }
    let mut compared = text.family(
        "evenkeel_route_shadow_compared_total",
        FamilyKind::Counter,
        "Requests whose reply was compared with that of a shadow.",
    );
    for (name, shadow) in &shadows {
        compared.sample(&[("shadow", name)], shadow.compared());
    }
    let mut differed = text.family(
        "evenkeel_route_shadow_differed_total",
        FamilyKind::Counter,
        "Compared requests with another outcome, or whose value was another one (value) or had another size (size).",
    );
    for (name, shadow) in &shadows {
        let kinds = [
            ("outcome", shadow.other_outcomes()),
            ("value", shadow.other_values),
            ("size", shadow.other_sizes),
        ];
        for (what, count) in kinds {
            differed.sample(&[("shadow", name), ("what", what)], count);
        }
    }
    let mut times = text.family(
        "evenkeel_route_shadow_latency_seconds",
        FamilyKind::Histogram,
        "Times of the compared replies: those that clients got (normal), and the shadow's.",
    );
    for (name, shadow) in &shadows {
        for (side, histogram) in [("normal", &shadow.normal), ("shadow", &shadow.shadow)] {
            let (buckets, sum, count) = cumulative(histogram);
            times.histogram(&[("shadow", name), ("side", side)], buckets, sum, count);
        }
    }
}

/// Counts up to each bound in seconds, the sum of all times by the ends of their ranges, and how many there are.
fn cumulative(histogram: &LatencyHistogram) -> (Vec<(f64, u64)>, f64, u64) {
    let seconds = |us: u64| us as f64 / 1e6;
    let up_to = |bound: &u64| {
        histogram.buckets.iter().filter(|(end_us, _)| end_us <= bound).map(|(_, count)| count).sum()
    };
    let buckets = BOUNDS_US.iter().map(|bound| (seconds(*bound), up_to(bound))).collect();
    let sum = histogram.buckets.iter().map(|(end_us, count)| seconds(*end_us) * *count as f64).sum();
    (buckets, sum, histogram.buckets.iter().map(|(_, count)| count).sum())
}

#[cfg(test)]
mod tests {
    use stdx::exposition::read;

    use super::*;
    use crate::stats::shadow_counts::ShadowComparison;

    #[test]
    fn what_differs_is_counted_by_kind() {
        use crate::message::outcome::Outcome;
        let times = |end_us| LatencyHistogram { buckets: vec![(end_us, 5)] };
        let shadow = ShadowComparison {
            name: "shadow in line 8".to_owned(),
            outcomes: vec![(Outcome::Found, Outcome::Found, 3), (Outcome::Found, Outcome::NotFound, 2)],
            same_values: 1,
            other_values: 1,
            other_sizes: 1,
            normal: times(64),
            shadow: times(9_000_000),
        };
        let mut text = Exposition::default();
        write(&ShadowReport { shadows: vec![shadow.clone(), shadow] }, &mut text);
        let text = text.finish();
        read(&text).expect("Prometheus reads it");
        for line in [
            "evenkeel_route_shadow_compared_total{shadow=\"shadow in line 8\"} 5",
            "evenkeel_route_shadow_compared_total{shadow=\"shadow in line 8 (2)\"} 5",
            "evenkeel_route_shadow_differed_total{shadow=\"shadow in line 8\",what=\"outcome\"} 2",
            "evenkeel_route_shadow_differed_total{shadow=\"shadow in line 8\",what=\"size\"} 1",
            "evenkeel_route_shadow_latency_seconds_bucket{shadow=\"shadow in line 8\",side=\"normal\",le=\"0.000032\"} 0",
            "evenkeel_route_shadow_latency_seconds_bucket{shadow=\"shadow in line 8\",side=\"normal\",le=\"0.000064\"} 5",
            "evenkeel_route_shadow_latency_seconds_bucket{shadow=\"shadow in line 8\",side=\"shadow\",le=\"2.097152\"} 0",
            "evenkeel_route_shadow_latency_seconds_count{shadow=\"shadow in line 8\",side=\"shadow\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
