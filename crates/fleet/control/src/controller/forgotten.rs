//! Generations that the register has forgotten, because it was restored from a backup: routers have them, and refuse what is
//! older. What the register has is published anew under a number above theirs.
//!
//! A controller that ran meanwhile believes nothing of such a register, so this is about one that was started since.

use fleet::{is_forgotten, next_number};
use stdx::clock::Now;

use super::Controller;
use crate::authorise::ControlVerb;

/// Interval of looks: each goes through all routers.
const LOOK_EVERY_MS: u64 = 1_000;
/// Time until it is tried again.
const AGAIN_MS: u64 = 10_000;

impl Controller {
    /// Publishes the target anew if routers have generations beyond it.
    pub(super) fn publish_forgotten(&mut self) {
        if self.now < self.forgotten_at {
            return;
        }
        self.forgotten_at = Now::at_ms(self.now.ms() + LOOK_EVERY_MS);
        let (Some(target), None) = (self.target(), self.register.away()) else { return };
        if !is_forgotten(target, self.agents.routers_have())
            || !self.agents.hears_most_routers()
            || self.peers.waits_ms(self.now) > 0
        {
            return;
        }
        self.forgotten_at = Now::at_ms(self.now.ms() + AGAIN_MS);
        let newest = next_number(Some(target), self.agents.routers_have()).0 - 1;
        let words = format!(
            "the register has forgotten generations that routers have: {newest} is beyond its {target}"
        );
        let content = self.register.view().content();
        let outcome = match self.frozen_by(&content) {
            Some(_) => Err("the fleet is frozen".to_owned()),
            None => {
                let reason = format!("the content of generation {target} once more: {words}");
                self.publish_unasked(ControlVerb::Rollback, &reason, content)
            }
        };
        let line = match outcome {
            Ok(()) if self.target() == Some(target) => return,
            Ok(()) => {
                let number = self.target().unwrap_or(target);
                format!("{words}; what {target} has goes out once more, as {number}")
            }
            Err(error) => format!("{words}; what {target} has does not go out once more yet: {error}"),
        };
        if self.forgotten_line.as_ref() != Some(&line) {
            self.log.add(line.clone());
            self.forgotten_line = Some(line);
        }
    }
}
