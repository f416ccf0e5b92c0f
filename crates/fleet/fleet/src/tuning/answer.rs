//! Answers of hosts about their tuning, and the reasons why there is none.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters of a SHA-256 in hexadecimal.
const DIGEST_LEN: usize = 64;

/// The SHA-256 of a text about a host's tuning, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AnswerDigest(Box<str>);

impl AnswerDigest {
    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AnswerDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<AnswerDigest, String> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == DIGEST_LEN && text.bytes().all(is_digit) {
            return Ok(AnswerDigest(text.into()));
        }
        let found: String = text.chars().take(DIGEST_LEN + 1).collect();
        Err(format!("{found:?} is not a SHA-256: {DIGEST_LEN} hexadecimal digits in lower case"))
    }
}

impl TryFrom<String> for AnswerDigest {
    type Error = String;

    fn try_from(text: String) -> Result<AnswerDigest, String> {
        text.parse()
    }
}

impl From<AnswerDigest> for String {
    fn from(digest: AnswerDigest) -> String {
        digest.0.into()
    }
}

impl fmt::Display for AnswerDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What is known of a host that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer<T> {
    /// It has answered.
    Given(T),
    /// It has not.
    Missing(NoAnswer),
}

/// Why there is no answer of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoAnswer {
    /// No agent of this host was heard of.
    NoAgent,
    /// Its agent is not heard any more.
    Silent,
    /// Its agent is of a version that does not know the question.
    OlderAgent,
    /// Its agent's file does not allow it.
    NotAllowed,
    /// Its agent does not run as root.
    NotRoot,
    /// It has not looked yet, or is looking.
    Waiting,
    /// It has answered, and this controller has not got the text of the answer yet.
    OnItsWay,
    /// It has tried.
    Failed(String),
}

impl NoAnswer {
    /// In a word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            NoAnswer::NoAgent => "no_agent",
            NoAnswer::Silent => "silent",
            NoAnswer::OlderAgent => "older_agent",
            NoAnswer::NotAllowed => "not_allowed",
            NoAnswer::NotRoot => "not_root",
            NoAnswer::Waiting => "waiting",
            NoAnswer::OnItsWay => "on_its_way",
            NoAnswer::Failed(_) => "failed",
        }
    }

    /// All words, for metrics.
    pub const WORDS: [&'static str; 8] =
        ["no_agent", "silent", "older_agent", "not_allowed", "not_root", "waiting", "on_its_way", "failed"];

    /// Whether it may come by itself within a minute or two.
    pub fn is_passing(&self) -> bool {
        matches!(self, NoAnswer::Waiting | NoAnswer::OnItsWay)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            NoAnswer::NoAgent => "no agent was heard of",
            NoAnswer::Silent => "the agent is silent",
            NoAnswer::OlderAgent => "the agent is of an older version, which is not asked",
            NoAnswer::NotAllowed => "the agent's file does not allow it ([tune])",
            NoAnswer::NotRoot => "the agent does not run as root",
            NoAnswer::Waiting => "it has not looked yet",
            NoAnswer::OnItsWay => "the answer is on its way to this controller",
            NoAnswer::Failed(why) => return write!(formatter, "it failed: {why}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_lower_case_hexadecimal_digits() {
        assert!("0f".repeat(32).parse::<AnswerDigest>().is_ok());
        for text in ["", "0f", &"0F".repeat(32), &"0g".repeat(32), &"0".repeat(65)] {
            assert!(text.parse::<AnswerDigest>().is_err(), "{text:?}");
        }
    }
}
