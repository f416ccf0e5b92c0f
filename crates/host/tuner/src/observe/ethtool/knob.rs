//! Driver settings as ethtool sets them, in text as names and numbers: `combined=4 rx=0 tx=0`.
//!
//! Pure. The kernel reads and writes whole structures; the tables here map names to their words. Parameters that a
//! wanted text does not name stay as they are.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A structure of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// The number of queues: `ethtool -L`.
    Channels,
    /// The number of descriptors: `ethtool -G`.
    Rings,
    /// How long a device gathers packets before it interrupts: `ethtool -C`.
    Coalescing,
}

/// Numbers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(pub(super) BTreeMap<&'static str, u32>);

impl Knob {
    /// The option of the program `ethtool`.
    pub fn option(self) -> &'static str {
        match self {
            Knob::Channels => "-L",
            Knob::Rings => "-G",
            Knob::Coalescing => "-C",
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Knob::Channels => "channels",
            Knob::Rings => "rings",
            Knob::Coalescing => "coalescing",
        }
    }

    /// Commands of ethtool.h that read and write it.
    pub(super) fn commands(self) -> (u32, u32) {
        match self {
            Knob::Channels => (0x3c, 0x3d),
            Knob::Rings => (0x10, 0x11),
            Knob::Coalescing => (0x0e, 0x0f),
        }
    }

    /// Names, and the words where they are: of `struct ethtool_channels`, `ethtool_ringparam`, `ethtool_coalesce`.
    pub(super) fn words(self) -> &'static [(&'static str, usize)] {
        match self {
            Knob::Channels => &[("rx", 5), ("tx", 6), ("combined", 8)],
            Knob::Rings => &[("rx", 5), ("tx", 8)],
            Knob::Coalescing => &[
                ("adaptive-rx", 10),
                ("adaptive-tx", 11),
                ("rx-usecs", 1),
                ("rx-frames", 2),
                ("tx-usecs", 5),
                ("tx-frames", 6),
            ],
        }
    }

    /// A text of it.
    pub fn parse(self, text: &str) -> Result<Parameters, &'static str> {
        let parameters: Parameters = text.parse()?;
        let known = |name: &&str| self.words().iter().any(|(known, _)| known == name);
        if parameters.0.keys().all(known) { Ok(parameters) } else { Err(EXPECTED) }
    }
}

impl Parameters {
    /// Whether this has every value that `wanted` names.
    pub fn fulfils(&self, wanted: &Parameters) -> bool {
        wanted.0.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// From a structure's words. Values that an adaptive driver chooses by itself are no settings.
    pub(super) fn of(knob: Knob, words: &[u32]) -> Parameters {
        let mut parameters: BTreeMap<_, _> =
            knob.words().iter().map(|(name, place)| (*name, words[*place])).collect();
        for (adaptive, chosen) in
            [("adaptive-rx", ["rx-usecs", "rx-frames"]), ("adaptive-tx", ["tx-usecs", "tx-frames"])]
        {
            if parameters.get(adaptive).is_some_and(|adaptive| *adaptive != 0) {
                parameters.retain(|name, _| !chosen.contains(name));
            }
        }
        Parameters(parameters)
    }

    /// For the program `ethtool`: `combined 4 rx 0`.
    pub fn arguments(&self) -> String {
        let on = |name: &str, value: u32| match (name.starts_with("adaptive"), value) {
            (true, 0) => "off".to_owned(),
            (true, _) => "on".to_owned(),
            (false, value) => value.to_string(),
        };
        let words: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name} {}", on(name, *value))).collect();
        words.join(" ")
    }
}

const EXPECTED: &str = "names and numbers, such as combined=4 or rx-usecs=50";

impl FromStr for Parameters {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Parameters, Self::Err> {
        let named = |name: &str| {
            let all = [Knob::Channels, Knob::Rings, Knob::Coalescing];
            all.iter().flat_map(|knob| knob.words()).map(|(known, _)| *known).find(|known| *known == name)
        };
        let word = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((named(name)?, value.parse().ok()?))
        };
        let words: Option<BTreeMap<_, _>> = text.split_whitespace().map(word).collect();
        words.filter(|words| !words.is_empty()).map(Parameters).ok_or(EXPECTED)
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_what_it_means_and_nothing_else() {
        let parameters = Knob::Channels.parse("combined=4 rx=0").unwrap();
        assert_eq!(parameters.to_string(), "combined=4 rx=0");
        assert!(Knob::Channels.parse("rx=0 combined=4 tx=1").unwrap().fulfils(&parameters));
        assert!(!Knob::Channels.parse("rx=1 combined=4").unwrap().fulfils(&parameters));
        for wrong in ["", "combined", "combined=four", "combind=4", "rx-usecs=4", "combined=-1"] {
            assert!(Knob::Channels.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_an_adaptive_driver_chooses_is_no_setting() {
        let mut words = [0; 23];
        (words[1], words[5], words[10]) = (64, 16, 1);
        let text = Parameters::of(Knob::Coalescing, &words).to_string();
        assert_eq!(text, "adaptive-rx=1 adaptive-tx=0 tx-frames=0 tx-usecs=16");
        words[10] = 0;
        assert!(Parameters::of(Knob::Coalescing, &words).to_string().contains("rx-usecs=64"));
        assert_eq!(
            "adaptive-rx=1 rx-usecs=8".parse::<Parameters>().unwrap().arguments(),
            "adaptive-rx on rx-usecs 8"
        );
    }
}
