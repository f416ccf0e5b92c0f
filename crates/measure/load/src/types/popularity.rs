//! Popularity: how often items are asked for.

use std::fmt;
use std::str::FromStr;

/// How often items are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All equally often.
    Uniform,
    /// The rank-k item `k^-s` as often as the first.
    Zipf(f64),
    /// Few keys that get a share of the requests of their own.
    Hot {
        /// Of the requests; the other keys share the rest.
        share: f64,
        /// How many keys are hot.
        keys: u64,
    },
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Popularity, String> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(Popularity::Uniform),
            None if text == "zipf" => Some(0.99),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            Some(("hot", set)) => return hot(set).ok_or_else(|| String::from(LAWS)),
            _ => None,
        };
        match exponent {
            Some(exponent) if exponent > 0.0 && exponent <= 20.0 => Ok(Popularity::Zipf(exponent)),
            _ => Err(String::from(LAWS)),
        }
    }
}

const LAWS: &str = "one of uniform, zipf, zipf:EXPONENT (0 < EXPONENT <= 20), hot:SHARE,KEYS (hot:0.9,1000: nine in ten requests for a thousand keys)";

fn hot(set: &str) -> Option<Popularity> {
    let (share, keys) = set.split_once(',')?;
    let (share, keys) = (share.parse().ok()?, keys.parse().ok()?);
    (share > 0.0 && share <= 1.0 && keys > 0).then_some(Popularity::Hot { share, keys })
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => write!(f, "uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Popularity::Hot { share, keys } => write!(f, "hot:{share},{keys}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_are_read() {
        assert_eq!("uniform".parse(), Ok(Popularity::Uniform));
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf(0.99)));
        assert_eq!("zipf:1.2".parse(), Ok(Popularity::Zipf(1.2)));
        assert_eq!("hot:0.9,1000".parse(), Ok(Popularity::Hot { share: 0.9, keys: 1000 }));
        for bad in [
            "",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "gauss",
            "uniform:1",
            "hot",
            "hot:0.9",
            "hot:0,1",
            "hot:2,1",
            "hot:1,0",
        ] {
            assert!(bad.parse::<Popularity>().is_err(), "{bad:?}");
        }
    }
}
