//! Label of a plan: a name by which the program that has applied it finds it again, whatever other plans are in force.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of a label: a journal has it again before each step.
const LEN_MAX: usize = 64;

/// A label: letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlanLabel(String);

/// Why a text is no label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {LEN_MAX} letters, digits, '-', '_' and '.'")]
pub struct PlanLabelError;

impl FromStr for PlanLabel {
    type Err = PlanLabelError;

    fn from_str(text: &str) -> Result<PlanLabel, PlanLabelError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match (1..=LEN_MAX).contains(&text.len()) && text.bytes().all(is_good) {
            true => Ok(PlanLabel(text.to_owned())),
            false => Err(PlanLabelError),
        }
    }
}

impl TryFrom<String> for PlanLabel {
    type Error = PlanLabelError;

    fn try_from(text: String) -> Result<PlanLabel, PlanLabelError> {
        text.parse()
    }
}

impl From<PlanLabel> for String {
    fn from(label: PlanLabel) -> String {
        label.0
    }
}

impl fmt::Display for PlanLabel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_plain_word() {
        for good in ["a", "change-4-1", "A_b.9", &"x".repeat(64)] {
            assert_eq!(good.parse::<PlanLabel>().map(String::from), Ok(good.to_owned()));
        }
        for odd in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(odd.parse::<PlanLabel>(), Err(PlanLabelError), "{odd:?}");
        }
        assert!(serde_json::from_str::<PlanLabel>("\"a b\"").is_err());
    }
}
