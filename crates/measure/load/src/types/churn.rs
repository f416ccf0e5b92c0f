//! Churn as the flags describe it: how many connections are closed and opened anew, and when.

use crate::types::span::Span;
use std::fmt;
use std::str::FromStr;

/// Churn by requests, by rate, and all at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChurnPlan {
    /// Requests of a connection.
    pub(crate) after: Option<u64>,
    /// Connections per second, all threads together.
    pub(crate) rate: Option<f64>,
    pub(crate) storm: Option<Storm>,
}

/// This many connections at once, this long after the window was opened: `500@3s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    pub(crate) connections: usize,
    pub(crate) at: Span,
}

impl FromStr for Storm {
    type Err = String;

    fn from_str(text: &str) -> Result<Storm, String> {
        let (connections, at) = text.split_once('@').ok_or("a storm is N@TIME, as in 500@3s")?;
        let connections = connections.parse().ok().filter(|n| *n > 0);
        let connections =
            connections.ok_or_else(|| format!("{text:?} begins with no number of connections"))?;
        Ok(Storm { connections, at: at.parse()? })
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.connections, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_are_read() {
        let storm = Storm { connections: 500, at: "3s".parse().expect("a time") };
        assert_eq!("500@3s".parse(), Ok(storm));
        for bad in ["500", "0@3s", "x@3s", "500@", "@3s"] {
            assert!(bad.parse::<Storm>().is_err(), "{bad}");
        }
    }
}
