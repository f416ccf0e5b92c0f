//! Figures formatted for people.

use crate::measure::latency::Latency;
use std::fmt;

pub(crate) fn percentiles(f: &mut fmt::Formatter<'_>, what: &str, latency: &Latency) -> fmt::Result {
    writeln!(
        f,
        "  {what:<10}p50 {} | p90 {} | p99 {} | p99.9 {} | max {} µs",
        grouped(latency.p50_us),
        grouped(latency.p90_us),
        grouped(latency.p99_us),
        grouped(latency.p999_us),
        grouped(latency.max_us)
    )
}

/// Rounded to a whole number, with a comma every three digits.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
