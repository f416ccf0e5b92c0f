//! Metric names: the unit that a name implies, and whether high or low values are good.

use serde::{Deserialize, Serialize};

/// Whether high or low values are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Latencies, times.
    Lower,
    /// Rates.
    Higher,
}

/// Whether high or low values are good, as far as the name shows: `None` if it does not.
pub fn better(metric: &str) -> Option<Better> {
    let metric = metric.strip_suffix(ADDED).unwrap_or(metric);
    let ends = |endings: &[&str]| endings.iter().any(|ending| metric.ends_with(ending));
    let has = |parts: &[&str]| parts.iter().any(|part| metric.contains(part));
    let is_word = |words: &[&str]| metric.split('_').any(|word| words.contains(&word));
    // Few errors a second are good, and so is a short time to hit: the counted or timed thing goes first.
    if has(&["wait", "steal", "error", "dropped", "squeezed", "overflow", "retrans", "fail", "timeout"])
        || is_word(&["miss", "misses", "missed"])
    {
        Some(Better::Lower)
    } else if has(&["_per_s", "_per_cpu_s"]) || ends(&["qps", "tps", "iops"]) {
        Some(Better::Higher)
    } else if ends(&["_ns", "_us", "_ms", "_s", "_bytes"]) {
        Some(Better::Lower)
    } else if is_word(&["hit", "hits"]) {
        Some(Better::Higher)
    } else {
        None
    }
}

/// The ending of what was added while a load ran, to a count or to memory.
pub(crate) const ADDED: &str = "_added";

/// Whether it is a duration.
pub fn is_latency(metric: &str) -> bool {
    ["_ns", "_us", "_ms"].iter().any(|unit| metric.ends_with(unit))
}

/// The name with its unit, for people: `p99_us` is `p99 (µs)`, `requests_per_second` is `requests/s`.
pub fn title(metric: &str) -> String {
    if let Some(whole) = metric.strip_suffix(ADDED) {
        return format!("{}, added", title(whole));
    }
    let name = |name: &str| name.replace('_', " ").replace("mib", "MiB");
    let rates = [("_per_cpu_second", "CPU-s"), ("_per_second", "s")];
    if let Some((what, per)) =
        rates.iter().find_map(|(ending, per)| Some((metric.strip_suffix(ending)?, per)))
    {
        return format!("{}/{per}", name(what));
    }
    let units =
        [("_ns", "ns"), ("_us", "µs"), ("_ms", "ms"), ("_bytes", "bytes"), ("_share", "share"), ("_s", "s")];
    match units.iter().find_map(|(ending, unit)| Some((metric.strip_suffix(ending)?, unit))) {
        Some((what, unit)) => format!("{} ({unit})", name(what)),
        None => name(metric),
    }
}

/// The unit in which an axis has a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// The label of the axis: `p99 (ms)`.
    pub title: String,
    /// The factor for values.
    pub factor: f64,
}

impl Unit {
    /// Times are written in the unit in which most of them are below a thousand.
    pub fn of(metric: &str, most: f64) -> Unit {
        let larger = [("_ns", "_us"), ("_us", "_ms"), ("_ms", "_s")];
        let (mut name, mut factor) = (metric.to_owned(), 1.0);
        for (small, large) in larger {
            match name.strip_suffix(small) {
                Some(what) if most * factor >= 1_000.0 => {
                    name = format!("{what}{large}");
                    factor /= 1_000.0;
                }
                _ => {}
            }
        }
        Unit { title: title(&name), factor }
    }
}

/// A number for people: three significant digits, thousands apart.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e15 || !value.is_finite() {
        return format!("{value:e}");
    }
    if magnitude < 100.0 {
        let decimals = match magnitude {
            0.0 => 0,
            m if m >= 10.0 => 1,
            m if m >= 1.0 => 2,
            m => (2 - m.log10().floor() as i32).clamp(3, 9) as usize,
        };
        let text = format!("{value:.decimals$}");
        return if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        };
    }
    let digits = format!("{magnitude:.0}");
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio as a change: 1.132 is `+13.2 %`, and one larger than tenfold is a factor.
pub fn change(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("×{}", number(ratio)),
        ratio => format!("{:+.1} %", (ratio - 1.0) * 100.0),
    }
}

/// The probability by chance, as text.
pub fn chance(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_good() {
        let rates = ["errors_per_second", "misses_per_second", "retransmits_per_second", "timeouts_per_s"];
        let others = ["p99_us", "server_cpu_s", "steal_share", "server_wait_share", "softnet_dropped"];
        for metric in others.into_iter().chain(rates).chain(["white_us", "hit_p99_us", "miss_share"]) {
            assert_eq!(better(metric), Some(Better::Lower), "{metric}");
        }
        for metric in ["requests_per_second", "requests_per_cpu_second", "hit_share", "read_iops", "hits"] {
            assert_eq!(better(metric), Some(Better::Higher), "{metric}");
        }
        for metric in ["get_misses_added", "server_rss_bytes_added"] {
            assert_eq!(better(metric), Some(Better::Lower), "{metric}");
        }
        assert_eq!((better("colour"), better("white_share")), (None, None));
    }

    #[test]
    fn an_axis_has_the_unit_with_few_digits() {
        let unit = |metric, most| {
            let Unit { title, factor } = Unit::of(metric, most);
            (title, (1.0 / factor).round())
        };
        assert_eq!(unit("p99_us", 999.0), ("p99 (µs)".into(), 1.0));
        assert_eq!(unit("p99_us", 1_000.0), ("p99 (ms)".into(), 1_000.0));
        assert_eq!(unit("p99_us", 2e6), ("p99 (s)".into(), 1e6));
        assert_eq!(unit("wake_ns", 5e6), ("wake (ms)".into(), 1e6));
        assert_eq!(unit("requests_per_second", 1e6), ("requests/s".into(), 1.0));
    }

    #[test]
    fn numbers_are_for_people() {
        let numbers = [0.0, 0.001_234, 0.5, 12.34, 99.96, 1234.5, 1_234_567.0, -4321.0];
        let texts = numbers.map(number);
        assert_eq!(texts, ["0", "0.00123", "0.5", "12.3", "100", "1,234", "1,234,567", "-4,321"]);
        assert_eq!(
            (change(1.132), change(0.5), change(12.0)),
            ("+13.2 %".into(), "-50.0 %".into(), "×12".into())
        );
        assert_eq!(title("server_rss_bytes_added"), "server rss (bytes), added");
        let titles =
            ["p99_us", "requests_per_cpu_second", "read_mib_per_second", "server_wait_share"].map(title);
        assert_eq!(titles, ["p99 (µs)", "requests/CPU-s", "read MiB/s", "server wait (share)"]);
    }
}
