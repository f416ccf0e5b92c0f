//! The newest generation that all routers have had: what a router may have whose turn has not come, and since when nobody uses a
//! member that has left its slot.
//!
//! It is written down, one write for each rollout, so that a controller that is started does not take a generation for proven
//! that was on its way. If that write is lost, an older generation counts, and routers that have more keep what they have.

use fleet::rollout::RolloutState;
use fleet::{Generation, GenerationNumber, gone_back_to};
use stdx::clock::Now;

use super::published::published;
use super::{ALL_HEARD_MS, Controller, RETRY_MS};

impl Controller {
    /// The newest generation that all routers have had, as far as anybody has seen.
    pub(super) fn settled(&self) -> Option<GenerationNumber> {
        self.settled.max(self.register.view().settled())
    }

    /// Notes that all routers have the target. A controller that has just started does not know all of them.
    pub(super) fn note_settled(&mut self) {
        let (Some(target), true) = (self.target(), self.is_rolled_out()) else { return };
        if self.now.ms() < self.began.ms() + ALL_HEARD_MS {
            return;
        }
        let settled = self.settled.map_or(target, |settled| settled.max(target));
        self.settled = Some(settled);
        let is_kept = self.register.view().settled() >= self.settled;
        // The first controller by name writes it.
        if is_kept
            || self.now < self.settle_at
            || self.register.away().is_some()
            || self.peers.waits_ms(self.now) > 0
        {
            return;
        }
        match self.register.keep_settled(target, settled) {
            Ok(()) => {}
            Err(_) => self.settle_at = Now::at_ms(self.now.ms() + RETRY_MS),
        }
    }

    /// What routers may have whose turn has not come: the newest generation that all have had, and none that has failed.
    pub(super) fn base_of(
        &self,
        current: &Generation,
        before: Option<GenerationNumber>,
    ) -> Option<GenerationNumber> {
        let generations = self.register.view().generations();
        // What was gone back from has failed: no router gets it that lacks it, whoever has gone back.
        if let Some(back) = gone_back_to(generations, current) {
            return Some(back.number);
        }
        let has_all = self.has_reached_all(before);
        let settled = self.settled().max(has_all);
        let is_known =
            |number: &GenerationNumber| *number < current.number && generations.contains_key(number);
        // Of an older register nothing is known but the chain.
        let first =
            settled.filter(is_known).or_else(|| before.or(current.parent).map(|one| self.proven(one)));
        let first = generations.get(&first?);
        let mut chain = std::iter::successors(first, |one| generations.get(&one.parent?));
        chain.find(|one| !self.has_failed(one)).map(|one| one.number)
    }

    /// Whether any text of a generation has failed in a router.
    pub(super) fn has_failed(&self, generation: &Generation) -> bool {
        if self.condemned.is_empty() {
            return false;
        }
        let (texts, _) = published(generation.number, &generation.content);
        texts.digests.values().any(|digest| self.condemned.contains(digest))
    }

    /// The generation before, if its rollout here has come to its end.
    fn has_reached_all(&self, before: Option<GenerationNumber>) -> Option<GenerationNumber> {
        let done = self.rollout.as_ref().filter(|rollout| rollout.state() == RolloutState::Done);
        done.map(|done| done.generation()).filter(|done| before == Some(*done))
    }

    /// Not a generation that is still on its way, for its canaries have not shown yet that it is good.
    fn proven(&self, before: GenerationNumber) -> GenerationNumber {
        match &self.rollout {
            // Where there was nothing before, there is nothing else to have.
            Some(going)
                if going.generation() == before
                    && going.base() > GenerationNumber(0)
                    && going.state() != RolloutState::Done =>
            {
                going.base()
            }
            _ => before,
        }
    }
}
