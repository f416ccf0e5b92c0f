//! Wire format of a histogram of nanoseconds: HdrHistogram's V2 in base64, for serde's `with`.

use crate::measure::histogram::histogram;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};
use std::error::Error;

/// For optional histograms.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Packed(#[serde(with = "crate::measure::packed")] pub(crate) Histogram<u64>);

pub(crate) fn serialize<S: serde::Serializer>(sent: &Histogram<u64>, out: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(sent, &mut bytes).expect("a vector takes everything");
    STANDARD.encode(bytes).serialize(out)
}

/// Converts a histogram of any shape to ours: those can be added.
pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Histogram<u64>, D::Error> {
    let text = String::deserialize(text)?;
    let read = || -> Result<Histogram<u64>, Box<dyn Error>> {
        let bytes = STANDARD.decode(&text)?;
        let sent: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
        let mut ours = histogram();
        ours.add(&sent)?;
        Ok(ours)
    };
    read().map_err(|error| serde::de::Error::custom(format!("no histogram: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_arrives_as_it_was() {
        let mut sent = histogram();
        (0..5000_u64).for_each(|n| sent.saturating_record(n * n * 1000));
        let text = serde_json::to_string(&Packed(sent.clone())).expect("a string");
        assert_eq!(serde_json::from_str::<Packed>(&text).expect("our own words").0, sent);
        for bad in ["\"nonsense!\"", "\"bm9uc2Vuc2U=\"", "7"] {
            assert!(serde_json::from_str::<Packed>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn another_shape_is_made_ours_or_refused() {
        let text = |max_ns| {
            let mut other = Histogram::new_with_max(max_ns, 1).expect("constants that fit");
            other.saturating_record(max_ns / 2);
            serde_json::to_string(&Packed(other)).expect("a string")
        };
        let ours = serde_json::from_str::<Packed>(&text(1_000_000)).expect("small enough").0;
        assert_eq!((ours.high(), ours.sigfig()), (histogram().high(), histogram().sigfig()));
        assert!(serde_json::from_str::<Packed>(&text(u64::MAX / 2)).is_err());
    }
}
