//! Arrivals: the distribution of the times between the requests of an open loop.

pub(crate) mod pace;

use std::fmt;
use std::str::FromStr;

/// The distribution of the times between two requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Exponential times: users who are independent of each other.
    Poisson,
    /// Always the same time.
    Constant,
    /// Generalised Pareto times of this shape: burstier than Poisson. Atikoglu et al. (SIGMETRICS 2012) fitted
    /// 0.154971 to Facebook's ETC pool.
    Pareto(f64),
}

/// The shape of Facebook's ETC pool.
const PARETO_SHAPE: f64 = 0.154_971;
/// From 0.5 on the variance is infinite, and no run is long enough to reach the rate that was asked for.
const PARETO_SHAPE_MAX: f64 = 0.5;

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let shape = match text.split_once(':') {
            None if text == "poisson" => return Ok(Arrivals::Poisson),
            None if text == "constant" => return Ok(Arrivals::Constant),
            None if text == "pareto" => Some(PARETO_SHAPE),
            Some(("pareto", shape)) => shape.parse().ok(),
            _ => None,
        };
        match shape {
            Some(shape) if shape > 0.0 && shape < PARETO_SHAPE_MAX => Ok(Arrivals::Pareto(shape)),
            _ => Err(format!(
                "one of poisson, constant, pareto, pareto:SHAPE (0 < SHAPE < {PARETO_SHAPE_MAX})"
            )),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Poisson => write!(f, "poisson"),
            Arrivals::Constant => write!(f, "constant"),
            Arrivals::Pareto(shape) => write!(f, "pareto:{shape}"),
        }
    }
}

impl Arrivals {
    /// The standard deviation of a count whose mean is `requests`: for a long time, that of a renewal process.
    pub(crate) fn deviation(self, requests: f64) -> f64 {
        match self {
            Arrivals::Poisson => requests.sqrt(),
            Arrivals::Constant => 0.0,
            Arrivals::Pareto(shape) => (requests / (1.0 - 2.0 * shape)).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read() {
        for (text, law) in [
            ("poisson", Arrivals::Poisson),
            ("constant", Arrivals::Constant),
            ("pareto", Arrivals::Pareto(PARETO_SHAPE)),
            ("pareto:0.3", Arrivals::Pareto(0.3)),
        ] {
            assert_eq!(text.parse(), Ok(law));
        }
        for bad in ["", "uniform", "pareto:", "pareto:0", "pareto:0.5", "pareto:nan", "poisson:1"] {
            assert!(bad.parse::<Arrivals>().is_err(), "{bad:?}");
        }
    }
}
