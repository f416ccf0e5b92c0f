//! The standard of a host in turns: what it shall have and whether it may act now, and what it says of it.

use fleet::tuning::PlanWish;
use fleet::tuning::standards::StandardWord;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::fault::shorten;

/// What a host shall have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandardOrder {
    /// The profile or strategy.
    pub wish: PlanWish,
    /// It may be tuned now, if it lacks something of it.
    #[serde(default)]
    pub may_act: bool,
    /// The host goes back by itself if it has not heard a controller for so long after it was tuned.
    pub confirm_ms: u64,
}

/// What a host says of its standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandardReport {
    /// Of which; none of an agent that was told of none since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<PlanWish>,
    /// How it is.
    #[serde(deserialize_with = "word")]
    pub word: StandardWord,
}

/// A word; one of a newer agent that is not understood counts as a refusal. Its turn counts all the same.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StandardWord, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_else(|error| {
        let reason = format!("the controller does not understand what its agent says: {error}");
        StandardWord::Refused { reason }
    }))
}

impl StandardReport {
    /// Shortens texts, which are for people.
    pub(super) fn limit(&mut self) {
        if let Some(text) = self.word.text_mut() {
            shorten(text);
            *text = text.replace(char::is_control, " ");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::super::{TurnOrders, TurnReport};
    use super::*;

    fn turn(standard: &Value) -> TurnReport {
        let turn = json!({"host": "h1", "zone": "a", "boot": 1, "turn": 1, "standard": standard});
        from_value(turn).expect("a turn")
    }

    #[test]
    fn what_a_newer_side_says_spoils_no_turn() {
        let said = turn(&json!({"wish": {"profile": "a"}, "word": {"melted": {}}, "moon": 1}));
        let word = said.standard.expect("a word").word;
        assert!(matches!(&word, StandardWord::Refused { reason } if reason.contains("`melted`")), "{word}");
        // A wish of another kind is no standard that this program knows.
        assert_eq!(turn(&json!({"wish": {"moon": "a"}, "word": "meets"})).standard, None);
        let orders = json!({"version": 1, "standard": {"wish": {"moon": "a"}, "confirm_ms": 1}});
        assert_eq!(from_value::<TurnOrders>(orders).expect("orders").standard, None);
        // An agent that was told of none says that it is none of an older version.
        assert_eq!(turn(&json!({"word": "unknown"})).standard.expect("a word").wish, None);
    }

    #[test]
    fn texts_are_bounded_and_do_nothing_to_a_terminal() {
        let said = turn(&json!({"word": {"stepped_aside": {"reason": "\u{1b}[2J".repeat(10_000)}}}));
        let mut word = said.checked().expect("a turn").standard.expect("a word").word;
        let text = word.text_mut().expect("a reason");
        assert!(!text.contains(char::is_control) && text.len() <= super::super::TEXT_MAX);
    }
}
