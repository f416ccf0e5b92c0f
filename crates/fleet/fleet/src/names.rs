//! Names of a fleet's parts: validated once, where text comes in.
//!
//! They appear in files, URLs, certificates and etcd's keys, so they have no separator of any of these.

mod text_digest;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use text_digest::TextDigest;

/// Longest name in bytes: that of a label in DNS.
const NAME_LEN_MAX: usize = 63;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {found:?} is not 1 to {NAME_LEN_MAX} letters, digits, '.', '_' and '-' that begin with a letter or digit"
)]
pub struct NameError {
    what: &'static str,
    found: String,
}

fn checked(what: &'static str, text: &str) -> Result<Box<str>, NameError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins_well && text.len() <= NAME_LEN_MAX && text.bytes().all(is_good) {
        return Ok(text.into());
    }
    // A file of 100 MB can be one name.
    Err(NameError { what, found: text.chars().take(NAME_LEN_MAX + 1).collect() })
}

macro_rules! name {
    ($(#[$documentation:meta])* $name:ident, $what:literal) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$name, NameError> {
                checked($what, text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// A cluster: an ordered list of slots that share the keys among them, and a pool in the routers' configuration.
    ClusterName, "the cluster"
}
name! {
    /// A place in a cluster's order, which a part of the keys belongs to. It keeps its name while its members change.
    SlotId, "the slot"
}
name! {
    /// A cache server process at one address.
    MemberId, "the member"
}
name! {
    /// A machine that members run on.
    HostId, "the host"
}
name! {
    /// A failure domain: hosts of one zone may fail together.
    ZoneName, "the zone"
}
name! {
    /// A router process.
    RouterId, "the router"
}
name! {
    /// A configuration that a group of routers reads.
    ViewName, "the view"
}
name! {
    /// A question to the hosts of a scope about their tuning.
    TuneAskId, "the question"
}

/// A generation's place in the chain of generations, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationNumber(pub u64);

impl fmt::Display for GenerationNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_name: bool) {
        assert_eq!(text.parse::<ClusterName>().is_ok(), is_name, "{text:?}");
    }

    #[test]
    fn a_name_fits_into_files_urls_and_certificates() {
        check("c07", true);
        check("web-1.eu_west", true);
        check(&"x".repeat(NAME_LEN_MAX), true);
        check(&"x".repeat(NAME_LEN_MAX + 1), false);
        for text in ["", ".", "..", "-v", "a/b", "a b", "a\n", "ä", "a\0b", "a:b", "%2e"] {
            check(text, false);
        }
    }

    #[test]
    fn an_error_quotes_no_more_than_a_name_can_be_long() {
        let error = "/".repeat(100_000_000).parse::<HostId>().expect_err("no name");
        assert!(error.to_string().len() < 300, "{error}");
    }
}
