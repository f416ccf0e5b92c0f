//! Lengths of time in the notation of flags.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time: `10`, `10s`, `1.5s`, `500ms`, `50us`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
        let seconds = match unit {
            "" | "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("{unit:?} is none of us, ms, s, m, h")),
        };
        let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
        match Duration::try_from_secs_f64(number * seconds) {
            Ok(span) if span > SPAN_MAX => Err(String::from("longer than 30 years")),
            span => span.map(Span).map_err(|error| error.to_string()),
        }
    }
}

/// So that sums of some of them are times of a clock that counts nanoseconds.
const SPAN_MAX: Duration = Duration::from_secs(1_000_000_000);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        let check = |text: &str, us| assert_eq!(text.parse(), Ok(Span(Duration::from_micros(us))), "{text}");
        check("10", 10_000_000);
        check("10s", 10_000_000);
        check("1.5s", 1_500_000);
        check("500ms", 500_000);
        check("50us", 50);
        check("50µs", 50);
        check("2m", 120_000_000);
        for bad in ["", "s", "-1", "1d", "1e400", "nan", "300000h"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?}");
        }
    }
}
