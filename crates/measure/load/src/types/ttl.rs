//! Times to live: how long a server is to keep an item, which follows from the item alone.

use crate::types::sizes::spans::Spans;
use std::fmt;
use std::str::FromStr;

/// The times to live that items have, as written on the command line; 0 is for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Ttls(Spans);

/// Computes the expiration time of an item as servers expect it.
#[derive(Clone, Debug)]
pub(crate) struct Expiry {
    /// Every item has this one.
    fixed: Option<u64>,
    spans: Spans,
    /// In seconds since 1970.
    start: u64,
}

impl Ttls {
    /// Expiration times for a run that starts at `start`, in seconds since 1970.
    pub(crate) fn expiry(&self, start: u64) -> Expiry {
        Expiry { fixed: self.0.fixed().map(|ttl| on_the_wire(ttl, start)), spans: self.0.clone(), start }
    }
}

impl Expiry {
    /// The time to live of the item with this hash, in seconds.
    pub(crate) fn seconds(&self, hash: u64) -> u64 {
        self.spans.of(hash)
    }

    /// The expiration time of the item with this hash, as it is sent.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> u64 {
        match self.fixed {
            Some(ttl) => ttl,
            None => on_the_wire(self.spans.of(hash), self.start),
        }
    }
}

/// Servers take more than 30 days for a time since 1970 (protocol.txt, "Expiration times").
const RELATIVE_MAX: u64 = 30 * DAY;
/// memcached reads it as a signed number of 32 bits: a longer time to live becomes the longest that it can express.
const ABSOLUTE_MAX: u64 = i32::MAX as u64;
const DAY: u64 = 24 * 3600;

pub(crate) fn on_the_wire(ttl: u64, start: u64) -> u64 {
    if ttl > RELATIVE_MAX { start.saturating_add(ttl).min(ABSOLUTE_MAX) } else { ttl }
}

impl FromStr for Ttls {
    type Err = String;

    fn from_str(text: &str) -> Result<Ttls, String> {
        Spans::parse(text, seconds).map(Ttls)
    }
}

/// A larger value is a typing error, and servers keep times in 32 bits.
const TTL_MAX: f64 = (3650 * DAY) as f64;

fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let unit = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => DAY as f64,
        _ => return Err(format!("{unit:?} is none of s, m, h, d")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    let seconds = (number * unit).round();
    if (0.0..=TTL_MAX).contains(&seconds) {
        Ok(seconds as u64)
    } else {
        Err(format!("{text} is not between 0 and ten years"))
    }
}

impl fmt::Display for Ttls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::mix;

    #[test]
    fn times_are_read_with_their_unit() {
        let check = |text: &str, shown: &str| {
            assert_eq!(text.parse::<Ttls>().map(|ttls| ttls.to_string()).as_deref(), Ok(shown), "{text}");
        };
        check("0", "0");
        check("3600", "3600");
        check("1d:0.65,14d:0.27,12h:0.07", "86400:0.65,1209600:0.27,43200:0.07");
        check("1m-1.5h,92.6d", "60-5400,8000640");
        for bad in ["", "d", "-1", "1w", "nan", "inf", "4000d", "2h-1h", "60:0"] {
            assert!(bad.parse::<Ttls>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn more_than_30_days_are_sent_as_a_time() {
        let expiry = |text: &str| text.parse::<Ttls>().expect(text).expiry(1_700_000_000);
        assert_eq!(expiry("0").of(1), 0);
        assert_eq!(expiry("30d").of(1), 2_592_000);
        assert_eq!(expiry("31d").of(1), 1_702_678_400);
        assert_eq!(on_the_wire(u64::MAX, 1_700_000_000), 2_147_483_647, "a trace has what it has");
        let both: std::collections::BTreeSet<_> = (0..100).map(|id| expiry("10,31d").of(mix(id))).collect();
        assert_eq!(both.into_iter().collect::<Vec<_>>(), [10, 1_702_678_400]);
    }
}
