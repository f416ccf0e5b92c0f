//! Whole numbers and ranges of them, some more likely than others: `100:9,4k-16k`.

use std::fmt;
use stdx::prng::mix;

/// A weighted list; which entry and which number of it follows from a hash.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spans(Vec<Span>);

#[derive(Clone, Debug, PartialEq)]
struct Span {
    min: u64,
    max: u64,
    weight: f64,
    /// The last hash that belongs to this entry or one before it.
    last_hash: u64,
}

impl Spans {
    /// Reads entries `NUMBER`, `FROM-TO`, either with `:WEIGHT`; `number` reads one number.
    pub(crate) fn parse(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Spans, String> {
        let mut spans =
            text.split(',').map(|text| Span::parse(text, &number)).collect::<Result<Vec<_>, _>>()?;
        let total: f64 = spans.iter().map(|span| span.weight).sum();
        let mut sum = 0.0;
        for span in &mut spans {
            sum += span.weight;
            // The cast saturates.
            span.last_hash = (sum / total * HASHES) as u64;
        }
        if let Some(span) = spans.last_mut() {
            // To correct rounding of the sum.
            span.last_hash = u64::MAX;
        }
        Ok(Spans(spans))
    }

    /// The number that belongs to `hash`.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> u64 {
        let span = match &self.0[..] {
            [only] => only,
            spans => &spans[spans.partition_point(|span| span.last_hash < hash)],
        };
        // The upper bits of the hash have chosen the entry and are used up.
        span.min + ((u128::from(mix(hash)) * (u128::from(span.max - span.min) + 1)) >> 64) as u64
    }

    /// The only number, if there is but one.
    pub(crate) fn fixed(&self) -> Option<u64> {
        let (min, max) = (self.min(), self.max());
        (min == max).then_some(min)
    }

    pub(crate) fn min(&self) -> u64 {
        self.0.iter().map(|span| span.min).min().unwrap_or(0)
    }

    pub(crate) fn max(&self) -> u64 {
        self.0.iter().map(|span| span.max).max().unwrap_or(0)
    }

    pub(crate) fn mean(&self) -> f64 {
        let total: f64 = self.0.iter().map(|span| span.weight).sum();
        self.0.iter().map(|span| (span.min + span.max) as f64 / 2.0 * span.weight / total).sum()
    }
}

const HASHES: f64 = 18_446_744_073_709_551_616.0;

impl Span {
    fn parse(text: &str, number: &impl Fn(&str) -> Result<u64, String>) -> Result<Span, String> {
        let (span, weight) = match text.split_once(':') {
            None => (text, 1.0),
            Some((span, weight)) => {
                let weight = weight.parse().ok().filter(|weight: &f64| *weight > 0.0 && weight.is_finite());
                (span, weight.ok_or_else(|| format!("the weight in {text:?} is no number above 0"))?)
            }
        };
        let (min, max) = match span.split_once('-') {
            None => (number(span)?, number(span)?),
            Some((min, max)) => (number(min)?, number(max)?),
        };
        if min > max {
            return Err(format!("{min} is above {max}"));
        }
        Ok(Span { min, max, weight, last_hash: 0 })
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, span) in self.0.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { "," }, span.min)?;
            if span.max > span.min {
                write!(f, "-{}", span.max)?;
            }
            if span.weight != 1.0 {
                write!(f, ":{}", span.weight)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(text: &str) -> Result<Spans, String> {
        Spans::parse(text, |number| number.parse().map_err(|_| format!("{number:?} is no number")))
    }

    #[test]
    fn lists_are_read_and_shown() {
        let check = |text: &str, min, max, mean: f64| {
            let spans = spans(text).expect(text);
            assert_eq!((spans.to_string().as_str(), spans.min(), spans.max()), (text, min, max));
            assert!((spans.mean() - mean).abs() < 1e-9, "{text}: {}", spans.mean());
        };
        check("100", 100, 100, 100.0);
        check("10-20", 10, 20, 15.0);
        check("100:9,16384", 100, 16_384, 1728.4);
        check("0,5-7:0.5", 0, 7, 2.0);
        for bad in ["", ",", "1,,2", "x", "3-2", "-1", "1:", "1:0", "1:-1", "1:inf", "1:nan", "1-2-3"] {
            assert!(spans(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_come_as_often_as_their_weights_say() {
        let spans = spans("1:7,2:1,10-13:2").expect("a list");
        let mut seen = [0_i32; 20];
        for id in 0..100_000 {
            seen[spans.of(mix(id)) as usize] += 1;
        }
        let expected = |number| match number {
            1 => 70_000,
            2 => 10_000,
            10..=13 => 5000,
            _ => 0,
        };
        for (number, &times) in seen.iter().enumerate() {
            let expected = expected(number);
            assert!((times - expected).abs() <= expected / 20, "{number}: {times} of {expected}");
        }
    }
}
