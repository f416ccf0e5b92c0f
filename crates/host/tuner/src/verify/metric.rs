//! Metric in a command's output: found by a pattern, or by a pointer into JSON.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// The place of the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputMetric {
    /// Between these texts in a line; the last such line counts.
    Pattern {
        /// Before the number; blanks stand for any number of blanks.
        before: String,
        /// Behind it.
        after: String,
    },
    /// At this place (RFC 6901) of the last JSON value that the output holds at the beginning of a line.
    Pointer(String),
}

/// A text that is no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a text with {{}} where the number stands, such as 'p99 {{}}', or a place in JSON, such as /latency/p99_us"
)]
pub struct NoMetric;

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("find {0} in what the command printed")]
pub struct NotFound(OutputMetric);

impl FromStr for OutputMetric {
    type Err = NoMetric;

    fn from_str(text: &str) -> Result<OutputMetric, NoMetric> {
        match text.split_once("{}") {
            Some((before, after)) if !after.contains("{}") => {
                Ok(OutputMetric::Pattern { before: single_spaced(before), after: single_spaced(after) })
            }
            None if text.starts_with('/') => Ok(OutputMetric::Pointer(text.to_owned())),
            _ => Err(NoMetric),
        }
    }
}

impl fmt::Display for OutputMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputMetric::Pattern { before, after } => write!(f, "'{before}{{}}{after}'"),
            OutputMetric::Pointer(pointer) => write!(f, "{pointer} (JSON)"),
        }
    }
}

impl OutputMetric {
    /// The figure in an output.
    pub fn find(&self, output: &str) -> Result<f64, NotFound> {
        let found = match self {
            OutputMetric::Pattern { before, after } => {
                output.lines().rev().find_map(|line| in_line(&single_spaced(line), before, after))
            }
            OutputMetric::Pointer(pointer) => at(output, pointer),
        };
        found.filter(|figure| figure.is_finite()).ok_or_else(|| NotFound(self.clone()))
    }
}

/// Tables are aligned with blanks, so a pattern does not depend on their number.
fn single_spaced(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (first, last) = (text.starts_with(char::is_whitespace), text.ends_with(char::is_whitespace));
    match words.is_empty() {
        true if text.is_empty() => String::new(),
        true => " ".to_owned(),
        false => format!("{}{words}{}", if first { " " } else { "" }, if last { " " } else { "" }),
    }
}

fn in_line(line: &str, before: &str, after: &str) -> Option<f64> {
    line.match_indices(before).find_map(|(start, _)| {
        let rest = &line[start + before.len()..];
        let len = rest.find(|c: char| !(c.is_ascii_digit() || "+-.,eE".contains(c))).unwrap_or(rest.len());
        // A comma or a stop may belong to the sentence. `1,204` is a number as people read it.
        let number = rest[..len].trim_end_matches(['.', ',', 'e', 'E', '-', '+']);
        let tail = &rest[number.len()..];
        number.replace(',', "").parse().ok().filter(|_| tail.starts_with(after))
    })
}

fn at(output: &str, pointer: &str) -> Option<f64> {
    let mut starts: Vec<usize> = output.match_indices('\n').map(|(end, _)| end + 1).collect();
    starts.insert(0, 0);
    let number = |value: &Value| {
        let found = value.pointer(pointer)?;
        found.as_f64().or_else(|| found.as_str()?.parse().ok())
    };
    starts.into_iter().rev().filter(|start| output[*start..].starts_with(['{', '['])).find_map(|start| {
        let value = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>().next();
        number(&value?.ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metric: &str, output: &str, wanted: Option<f64>) {
        let metric: OutputMetric = metric.parse().unwrap();
        assert_eq!(metric.find(output).ok(), wanted, "{metric} in {output:?}");
    }

    #[test]
    fn a_number_stands_where_the_pattern_says() {
        let load = "  rate          1,103,197 requests/s     1,103,197 keys/s\n  latency   p50 806 | p99 2,832 | p99.9 5,472 µs";
        check("rate {} requests/s", load, Some(1_103_197.0));
        check("p99 {}", load, Some(2832.0));
        check("p99.9 {} µs", load, Some(5472.0));
        check("Totals {} ", "Totals    148210.55   12 0.5\n", Some(148_210.55));
        check("requests/s: {}", "requests/s: 5.\n", Some(5.0));
        check("{} ms", "took 1.5e-3 ms", Some(0.0015));
        check("{} ms", "1 s and 7 ms", Some(7.0));
        check("x {}", "x -3", Some(-3.0));
    }

    #[test]
    fn the_last_line_counts() {
        check("rate {}", "rate 5\nrate 7\ndone", Some(7.0));
        check("rate {}", "rate 5\nrate fast", Some(5.0));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        check("p99 {}", "p99 none", None);
        check("p99 {} ms", "p99 7 µs", None);
        check("p99 {}", "", None);
        check("/a", "{\"a\": \"fast\"} ", None);
        check("/a", "text", None);
        let said = "p99 {}".parse::<OutputMetric>().unwrap().find("").unwrap_err().to_string();
        assert_eq!(said, "find 'p99 {}' in what the command printed");
    }

    #[test]
    fn a_pointer_leads_into_json_wherever_it_stands() {
        check("/server/p99_us", "{\"server\": {\"p99_us\": 812.5}}", Some(812.5));
        check("/a/1", "measuring\n{\"a\": [1,\n 2]}\nlatency 5\n", Some(2.0));
        check("/a", "{\"a\": 1}\n{\"a\": 2}\n{\"b\": 3}\n", Some(2.0));
        check("/a", "{\"a\": \"7.5\"}", Some(7.5));
    }

    #[test]
    fn other_texts_are_no_metrics() {
        for text in ["", "p99", "{} {}"] {
            assert_eq!(text.parse::<OutputMetric>(), Err(NoMetric), "{text}");
        }
    }
}
