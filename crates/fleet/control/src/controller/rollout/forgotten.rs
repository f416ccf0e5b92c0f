//! Generations that the register has forgotten, because it was restored from a backup: routers have them, and refuse what is
//! older. What the register has is published anew under a number above theirs.
//!
//! A controller that ran meanwhile believes nothing of such a register, so this is about one that was started since.

use fleet::{GenerationNumber, is_forgotten, next_number};
use stdx::clock::Now;

use super::target_rollout::ALL_HEARD_MS;
use crate::controller::observing::agents::Agents;

/// Interval of looks: each goes through all routers.
const LOOK_EVERY_MS: u64 = 1_000;
/// Time until it is tried again.
const AGAIN_MS: u64 = 10_000;

/// Looks for such generations.
pub(crate) struct ForgottenGenerations {
    look_at: Now,
    /// What was said about it last.
    line: Option<String>,
}

impl ForgottenGenerations {
    /// Of a controller that begins. All agents come first.
    pub(crate) fn new(now: Now) -> ForgottenGenerations {
        ForgottenGenerations { look_at: Now::at_ms(now.ms() + ALL_HEARD_MS), line: None }
    }

    /// Whether it is time for a look. The next one is later then.
    pub(crate) fn begin_look(&mut self, now: Now) -> bool {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = Now::at_ms(now.ms() + LOOK_EVERY_MS);
        }
        is_due
    }

    /// What is wrong, in words, if most routers are heard and some have generations beyond the target. It is tried again later
    /// to publish it anew.
    pub(crate) fn find(&mut self, target: GenerationNumber, agents: &Agents, now: Now) -> Option<String> {
        if !is_forgotten(target, agents.routers_have()) || !agents.hears_most_routers() {
            return None;
        }
        self.look_at = Now::at_ms(now.ms() + AGAIN_MS);
        let newest = next_number(Some(target), agents.routers_have()).0 - 1;
        Some(format!(
            "the register has forgotten generations that routers have: {newest} is beyond its {target}"
        ))
    }

    /// Keeps what has come of it, and returns it if it was not said before.
    pub(crate) fn note(&mut self, line: String) -> Option<String> {
        let is_new = self.line.as_ref() != Some(&line);
        self.line = Some(line.clone());
        Some(line).filter(|_| is_new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generations_beyond_the_target_are_found_once_agents_were_heard() {
        let at = Now::at_ms;
        let router =
            json!({"router": "r1", "view": "main", "generation": 7, "loaded": null, "text": "loaded"});
        let report = json!({"host": "h1", "zone": "a", "boot": 1, "turn": 1, "routers": [router]});
        let mut agents = Agents::new(at(0));
        agents.take(serde_json::from_value(report).expect("a turn"), true, at(0)).expect("it is new");
        let mut forgotten = ForgottenGenerations::new(at(0));
        assert!(!forgotten.begin_look(at(ALL_HEARD_MS - 1)) && forgotten.begin_look(at(ALL_HEARD_MS)));
        assert_eq!(forgotten.find(GenerationNumber(7), &agents, at(ALL_HEARD_MS)), None);
        let words = forgotten.find(GenerationNumber(5), &agents, at(ALL_HEARD_MS)).expect("it is beyond");
        assert!(words.ends_with("7 is beyond its 5"), "{words}");
        assert!(!forgotten.begin_look(at(ALL_HEARD_MS + LOOK_EVERY_MS)), "it is tried again later");
        assert!(forgotten.note(words.clone()).is_some() && forgotten.note(words).is_none());
    }
}
