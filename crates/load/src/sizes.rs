//! Sizes of keys and values: one, a range or a list; which one an item has follows from the item alone.

use std::fmt;
use std::str::FromStr;

/// The sizes that items have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Every item has this size.
    Fixed(usize),
    /// Every size from the first to the last is equally likely.
    Range(usize, usize),
    /// Every entry is equally likely; repeat one to make it more so.
    List(Vec<usize>),
}

impl Sizes {
    /// The size that belongs to `hash`.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(min, max) => min + below(hash, max - min + 1),
            Sizes::List(sizes) => sizes[below(hash, sizes.len())],
        }
    }

    /// The smallest size.
    pub(crate) fn min(&self) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(min, _) => *min,
            Sizes::List(sizes) => sizes.iter().copied().min().unwrap_or(0),
        }
    }

    /// The largest size.
    pub(crate) fn max(&self) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(_, max) => *max,
            Sizes::List(sizes) => sizes.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Scales a hash down to `0..bound` (Lemire's multiplication).
fn below(hash: u64, bound: usize) -> usize {
    ((u128::from(hash) * bound as u128) >> 64) as usize
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let size = |text: &str| {
            let bytes = stdx::units::parse_size(text).ok_or_else(|| format!("{text:?} is no size"))?;
            usize::try_from(bytes).map_err(|_| format!("{text} is too large"))
        };
        if let Some((min, max)) = text.split_once('-') {
            let (min, max) = (size(min)?, size(max)?);
            return if min <= max {
                Ok(Sizes::Range(min, max))
            } else {
                Err(format!("{min} is above {max}"))
            };
        }
        let mut sizes = text.split(',').map(size).collect::<Result<Vec<_>, _>>()?;
        Ok(if sizes.len() == 1 { Sizes::Fixed(sizes.remove(0)) } else { Sizes::List(sizes) })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Range(min, max) => write!(f, "{min}-{max}"),
            Sizes::List(sizes) => {
                for (index, size) in sizes.iter().enumerate() {
                    write!(f, "{}{size}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_one_a_range_or_a_list() {
        let check = |text: &str, shown: &str, min, max| {
            let sizes: Sizes = text.parse().expect(text);
            assert_eq!((sizes.to_string().as_str(), sizes.min(), sizes.max()), (shown, min, max));
        };
        check("100", "100", 100, 100);
        check("1k", "1024", 1024, 1024);
        check("10-20", "10-20", 10, 20);
        check("64,64,4k", "64,64,4096", 64, 4096);
        for bad in ["", "x", "20-10", "1,,2", "-5"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_size_of_a_range_occurs_and_none_outside() {
        let sizes = Sizes::Range(3, 6);
        let mut seen = [0; 10];
        for id in 0..4000u64 {
            seen[sizes.of(stdx::prng::mix(id))] += 1;
        }
        assert_eq!((&seen[..3], &seen[7..]), (&[0; 3][..], &[0; 3][..]));
        assert!(seen[3..7].iter().all(|&times| times > 850), "{seen:?}");
    }
}
