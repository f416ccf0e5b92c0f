//! Any output, by patterns: a text with `{}` where the number stands. The last line that matches counts.

use super::output::LoadResults;
use std::collections::BTreeMap;
use tuner::verify::metric::OutputMetric;

pub(super) fn parse(text: &str, patterns: &BTreeMap<String, String>) -> Result<LoadResults, String> {
    let one = |(name, metric): (String, OutputMetric)| {
        let figure = metric.find(text).map_err(|error| format!("lines.{name}: {error}"))?;
        Ok((name, figure))
    };
    let metrics = metrics(patterns)?.into_iter().map(one).collect::<Result<_, String>>()?;
    Ok(LoadResults { metrics, ..LoadResults::default() })
}

/// The parsed patterns.
pub(super) fn metrics(patterns: &BTreeMap<String, String>) -> Result<Vec<(String, OutputMetric)>, String> {
    let one = |(name, pattern): (&String, &String)| {
        let metric = pattern.parse().map_err(|error| format!("lines.{name}: {error}"))?;
        Ok((name.clone(), metric))
    };
    patterns.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(name: &str, pattern: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), pattern.to_owned())])
    }

    #[test]
    fn the_last_line_that_matches_counts() {
        let output = "rate: 5 /s\nrate: 1,204.5 /s\nthe end";
        let results = parse(output, &patterns("requests_per_second", "rate: {} /s")).expect("a figure");
        assert_eq!(results.metrics["requests_per_second"], 1204.5);
    }

    #[test]
    fn what_is_not_there_is_said_with_its_name() {
        let missing = parse("", &patterns("p99_us", "p99 {}")).expect_err("nothing there");
        assert_eq!(missing, "lines.p99_us: find 'p99 {}' in what the command printed");
        assert!(
            parse("", &patterns("p99_us", "p99"))
                .expect_err("no pattern")
                .starts_with("lines.p99_us: expected a text")
        );
    }
}
