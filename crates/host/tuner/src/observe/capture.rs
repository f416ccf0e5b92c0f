//! Capture of a host: facts and readings in one file, to be judged again elsewhere.

use serde::{Deserialize, Serialize};

use crate::{Facts, Reading, Series};

/// Facts and readings of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Capture {
    /// The facts.
    pub facts: Facts,
    /// The readings.
    pub series: Series,
}

/// Errors of reading a capture.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON of a capture.
    #[error("understand a saved host")]
    Json(#[from] serde_json::Error),
    /// It has too few readings to compare.
    #[error("understand a saved host: expected two readings or more in order of time")]
    Readings,
}

#[derive(Serialize, Deserialize)]
struct Written {
    facts: Facts,
    readings: Vec<Reading>,
}

impl From<Capture> for Written {
    fn from(Capture { facts, series }: Capture) -> Written {
        Written { facts, readings: series.readings().iter().map(|reading| Reading::clone(reading)).collect() }
    }
}

impl TryFrom<Written> for Capture {
    type Error = Error;

    fn try_from(Written { facts, readings }: Written) -> Result<Capture, Error> {
        Ok(Capture { facts, series: Series::new(readings).ok_or(Error::Readings)? })
    }
}

impl Capture {
    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts can be written as JSON")
    }

    /// From JSON.
    pub fn parse(text: &str) -> Result<Capture, Error> {
        serde_json::from_str::<Written>(text)?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_again() {
        let reading = |at_ms| Reading { at_ms, ..Reading::default() };
        let series = Series::new(vec![reading(0), reading(10_000)]).unwrap();
        let facts = Facts { memory_bytes: 1 << 30, ..Facts::default() };
        let capture = Capture { facts, series };
        assert_eq!(Capture::parse(&capture.json()).unwrap(), capture);
    }

    #[test]
    fn other_texts_are_no_captures() {
        let error = |text| Capture::parse(text).unwrap_err().to_string();
        assert_eq!(error("x"), "understand a saved host");
        assert!(error(r#"{"facts":{},"readings":[{}]}"#).contains("expected two readings"));
    }
}
