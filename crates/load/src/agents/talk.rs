//! What coordinator and agents say to each other: an object of JSON in a line.
//!
//! The order is: hello ► plan ◄ (busy …) ready ► clock ◄ clock, several times; start ◄ (second …) end. Described for
//! others in docs/load-many.md; a change of it makes another `PROTOCOL`.

use crate::error::Error;
use crate::summary::Summary;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The version of this conversation.
pub(crate) const PROTOCOL: u32 = 1;

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// The first words, unasked.
    Hello { protocol: u32, version: String },
    /// Still storing items: a sign of life.
    Busy { stored: u64, of: u64 },
    /// All connections are open.
    Ready,
    /// The reading of its clock, at once.
    Clock { now_ns: u64 },
    /// Latencies of the requests that were done in one second of the window.
    Second { second: u64, latency: Packed },
    /// The rate of the last second: also a sign of life.
    Rate { requests_per_second: f64 },
    /// What it measured.
    End(Box<End>),
    /// Why it cannot go on.
    Failed { why: String },
}

/// What an agent measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) summary: Summary,
    pub(crate) latency: Packed,
    /// Of an open loop.
    pub(crate) waits: Option<PackedWaits>,
    /// With --tls.
    pub(crate) handshakes: Option<Packed>,
}

/// Of an open loop.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PackedWaits {
    pub(crate) slip: Packed,
    pub(crate) late: Packed,
    pub(crate) service: Packed,
}

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// What to do: the words of a command line, and which part of how many.
    Plan { agent: usize, agents: usize, words: Vec<String> },
    /// What time is it?
    Clock,
    /// Begin at this time of the agent's own clock.
    Start { at_ns: u64 },
}

/// A histogram of nanoseconds: HdrHistogram's V2 in base64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Packed(String);

impl Packed {
    pub(crate) fn new(histogram: &Histogram<u64>) -> Packed {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(histogram, &mut bytes).expect("a vector takes everything");
        Packed(STANDARD.encode(bytes))
    }

    pub(crate) fn open(&self) -> Result<Histogram<u64>, String> {
        let bytes = STANDARD.decode(&self.0).map_err(|error| error.to_string())?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
    }
}

/// Says it, as one line.
pub(crate) fn say(out: &mut dyn Write, message: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(message).map_err(std::io::Error::from)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_arrives_as_it_was() {
        let mut histogram = Histogram::new_with_max(100_000_000_000, 3).expect("constants that fit");
        (0..5000_u64).for_each(|n| histogram.saturating_record(n * n * 1000));
        let back = Packed::new(&histogram).open().expect("our own words");
        assert_eq!(back, histogram);
        assert!(Packed(String::from("nonsense!")).open().is_err());
        assert!(Packed(STANDARD.encode(b"nonsense")).open().is_err());
    }

    #[test]
    fn messages_look_like_this() {
        let check = |message: &ToAgent, wanted: &str| {
            let mut line = Vec::new();
            say(&mut line, message).expect("a vector takes everything");
            assert_eq!(String::from_utf8_lossy(&line), format!("{wanted}\n"));
        };
        check(&ToAgent::Clock, r#""clock""#);
        check(&ToAgent::Start { at_ns: 7 }, r#"{"start":{"at_ns":7}}"#);
        let words = vec![String::from("--rate=5")];
        check(
            &ToAgent::Plan { agent: 0, agents: 2, words },
            r#"{"plan":{"agent":0,"agents":2,"words":["--rate=5"]}}"#,
        );
    }
}
