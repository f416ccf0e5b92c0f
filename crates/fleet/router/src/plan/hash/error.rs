//! Errors of descriptions of hashes.

use super::salted::SALT_LEN_MAX;

/// All names that a configuration may give.
const NAMES: [&str; 8] = [
    "Ch3",
    "Crc32",
    "WeightedCh3",
    "WeightedCh3Rv",
    "Rendezvous",
    "WeightedRendezvous",
    "ConstShard",
    "Latest",
];

/// Why a description is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum HashError {
    #[error("expected one of {}, found hash function `{found}`", NAMES.join(", "))]
    Function { found: String },
    #[error("expected 1 to {max} children for {function}, found {found}")]
    Count { function: &'static str, found: usize, max: usize },
    #[error("expected `weights` for {0}, found none")]
    NoWeights(&'static str),
    #[error("expected a weight for each of {children} children, found {weights}")]
    WeightCount { children: usize, weights: usize },
    #[error("expected a weight {accepted}, found {found}")]
    Weight { accepted: &'static str, found: f64 },
    #[error("expected `tags` for {0}, found none")]
    NoTags(&'static str),
    #[error("expected a tag for each of {children} children, found {tags}")]
    TagCount { children: usize, tags: usize },
    #[error("expected a salt of at most {SALT_LEN_MAX} bytes, found {0}")]
    Salt(usize),
}
