//! Sizes of keys and values: numbers, ranges, or a law; which one an item has follows from the item alone.

pub(crate) mod law;
pub(crate) mod spans;

use crate::types::sizes::law::{Curve, Law};
use crate::types::sizes::spans::Spans;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The sizes that items have, as written on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemSizes(Shape);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// `100`, `64-4k`, `100:9,16k:1`.
    Spans(Spans),
    /// `exp:300`, `fb_value`.
    Law(Law),
}

/// Computes the size of an item.
#[derive(Clone, Debug)]
pub(crate) enum Sizer {
    /// Every item has this size.
    Fixed(usize),
    Spans(Spans),
    Curve(Curve),
}

impl ItemSizes {
    /// The sizes; those of a law are kept within `limits`, the others are what the user asked for.
    pub(crate) fn sizer(&self, limits: RangeInclusive<usize>) -> Sizer {
        match &self.0 {
            Shape::Law(law) => Sizer::Curve(Curve::new(*law, limits)),
            Shape::Spans(spans) => match spans.fixed() {
                Some(size) => Sizer::Fixed(size as usize),
                None => Sizer::Spans(spans.clone()),
            },
        }
    }
}

impl Sizer {
    /// The size that belongs to `hash`.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> usize {
        match self {
            Sizer::Fixed(size) => *size,
            Sizer::Spans(spans) => spans.of(hash) as usize,
            Sizer::Curve(curve) => curve.of(hash),
        }
    }

    /// The smallest size.
    pub(crate) fn min(&self) -> usize {
        match self {
            Sizer::Fixed(size) => *size,
            Sizer::Spans(spans) => spans.min() as usize,
            Sizer::Curve(curve) => curve.min(),
        }
    }

    /// The largest size.
    pub(crate) fn max(&self) -> usize {
        match self {
            Sizer::Fixed(size) => *size,
            Sizer::Spans(spans) => spans.max() as usize,
            Sizer::Curve(curve) => curve.max(),
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        match self {
            Sizer::Fixed(size) => *size as f64,
            Sizer::Spans(spans) => spans.mean(),
            Sizer::Curve(curve) => curve.mean(),
        }
    }
}

impl FromStr for ItemSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<ItemSizes, String> {
        // A name marks a law, before its numbers and colons are taken for a list's.
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Ok(ItemSizes(Shape::Law(text.parse()?)));
        }
        let size = |text: &str| {
            let bytes = stdx::units::parse_size(text).ok_or_else(|| format!("{text:?} is no size"))?;
            // memcached's -I ends here; and sums of two never overflow.
            if bytes > SIZE_MAX { Err(format!("{text} is too large")) } else { Ok(bytes) }
        };
        Spans::parse(text, size).map(|spans| ItemSizes(Shape::Spans(spans)))
    }
}

const SIZE_MAX: u64 = 1 << 30;

impl fmt::Display for ItemSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Shape::Spans(spans) => spans.fmt(f),
            Shape::Law(law) => law.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_numbers_ranges_lists_or_laws() {
        let check = |text: &str, shown: &str, min, max| {
            let sizes: ItemSizes = text.parse().expect(text);
            let sizer = sizes.sizer(1..=250);
            assert_eq!((sizes.to_string().as_str(), sizer.min(), sizer.max()), (shown, min, max));
        };
        check("100", "100", 100, 100);
        check("1k", "1024", 1024, 1024);
        check("10-20", "10-20", 10, 20);
        check("64,64,4k", "64,64,4096", 64, 4096);
        check("100:9,16k:1", "100:9,16384", 100, 16_384);
        check("10-20:3,1k-2k", "10-20:3,1024-2048", 10, 2048);
        check("fb_key", "fb_key", 1, 250);
        check("exp:100", "exp:100", 1, 250);
        for bad in ["", "x", "20-10", "1,,2", "-5", "2g", "exp:", "fb_keys"] {
            assert!(bad.parse::<ItemSizes>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_size_of_a_range_occurs_and_none_outside() {
        let sizer = "3-6".parse::<ItemSizes>().expect("a range").sizer(0..=0);
        let mut seen = [0; 10];
        for id in 0..4000_u64 {
            seen[sizer.of(stdx::prng::mix(id))] += 1;
        }
        assert_eq!((&seen[..3], &seen[7..]), (&[0; 3][..], &[0; 3][..]));
        assert!(seen[3..7].iter().all(|&times| times > 850), "{seen:?}");
    }
}
