//! Figures of a service in lines of JSON: `{"unix_s": 1795279200, "client_p99_us": 812, "wait_share": null}`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ServiceSeries;
use crate::record::is_credible;

/// Lines of a file, at most: 5 minutes over two years, or seconds over two days.
pub const LINES_MAX: usize = 250_000;

/// Figures in all lines together, at most.
pub const FIGURES_MAX: usize = 32;

/// Reads the lines, which may be in any order. What a line does not have, or has as null, is not known. The error has the
/// number of the line.
pub fn parse_samples(text: &str) -> Result<Vec<ServiceSeries>, String> {
    let mut figures: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |what: &str| format!("line {}: {what}", index + 1);
        if index >= LINES_MAX {
            return Err(at(&format!("expected at most {LINES_MAX} lines")));
        }
        let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
            at(&format!("expected an object such as {{\"unix_s\": 1795279200, \"p99_us\": 812}}: {error}"))
        })?;
        let unix_s = object.get("unix_s").and_then(Value::as_u64);
        let unix_s = unix_s.ok_or_else(|| at("expected `unix_s`, whole seconds since 1970"))?;
        for (name, value) in object.iter().filter(|(name, value)| *name != "unix_s" && !value.is_null()) {
            let value = value.as_f64().filter(|value| is_credible(*value));
            let value = value
                .ok_or_else(|| at(&format!("expected a number of at most 1e15, or null, as `{name}`")))?;
            if !figures.contains_key(name) && figures.len() >= FIGURES_MAX {
                return Err(at(&format!("expected at most {FIGURES_MAX} figures, found one more, `{name}`")));
            }
            figures.entry(name.clone()).or_default().insert(unix_s, value);
        }
    }
    let series = figures.into_iter();
    Ok(series.map(|(name, points)| ServiceSeries { name, points: points.into_iter().collect() }).collect())
}
