//! Rollouts of other routes that go on although slots get other members meanwhile.
//!
//! A member that is lost while new routes go out is in two texts: in the new one, and in that of routers whose turn has not come. So its
//! replacement is two generations. The *lower* one has the routes that all routers have had, the *upper* one the new routes, and slots have
//! the same members in both.
//!
//! ```text
//! slots    each router gets the generation that has its routes: two slot changes at the same time, each with canaries of its own
//! routes   the upper one goes on with the wave in which the routes were, from the lower one
//! ```
//!
//! No router gets other routes in the first step, and the second one is the rollout that it would have been. Most rollouts have no lower
//! generation: those are the second step alone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use stdx::clock::Now;

use super::{
    Entry, Progress, PublishedTexts, Rollout, RolloutError, RolloutEvent, RolloutLane, RolloutSettings,
    RolloutState, RolloutWave,
};
use crate::{GenerationNumber, RouterId, TextDigest};

/// The two generations of a replacement, and what routers have before it.
#[derive(Clone, Debug)]
pub struct LayeredTexts {
    /// What all routers have had.
    pub base: PublishedTexts,
    /// The same routes, with the members that slots have now.
    pub lower: PublishedTexts,
    /// The new routes, with the members that slots have now.
    pub upper: PublishedTexts,
    /// Generations with the new routes and other members, the newest first.
    pub goes_on_from: Vec<GenerationNumber>,
}

/// One generation on its way to the routers, perhaps with a lower one.
#[derive(Clone, Debug)]
pub struct LayeredRollout {
    slots: Option<SlotStep>,
    upper: Rollout,
}

/// The first step.
#[derive(Clone, Debug)]
struct SlotStep {
    /// Routers that have the old routes get the lower generation.
    lower: Rollout,
    /// Routers that have the new routes get the upper one.
    ahead: Rollout,
    goes_on_from: Vec<GenerationNumber>,
    is_over: bool,
    /// Routers whose turn for the new routes had come, whatever they say that they have.
    had_their_turn: BTreeSet<RouterId>,
    /// Since when routers have had the new routes: the time of a wave does not begin again.
    served_since: BTreeMap<RouterId, Now>,
}

impl LayeredRollout {
    /// A rollout without a lower generation.
    pub fn plain(upper: Rollout) -> LayeredRollout {
        LayeredRollout { slots: None, upper }
    }

    /// The rollout of a replacement's two generations. `before` is the rollout that was going on, if that is known here.
    ///
    /// # Errors
    /// If a text has failed before, or the numbers do not grow.
    pub fn begin(
        texts: LayeredTexts,
        settings: &RolloutSettings,
        refused: &BTreeSet<TextDigest>,
        before: Option<&LayeredRollout>,
    ) -> Result<LayeredRollout, RolloutError> {
        let LayeredTexts { base, lower, upper, goes_on_from } = texts;
        let begin = |new: &PublishedTexts, old: PublishedTexts, lane| {
            Rollout::begin(new.clone(), old, lane, settings.clone(), refused)
        };
        let generation = goes_on_from.first().copied().unwrap_or(base.generation);
        let had = PublishedTexts { generation, digests: BTreeMap::new() };
        let ahead = begin(&upper, had, RolloutLane::SlotChange)?;
        let mut main = begin(&upper, lower.clone(), RolloutLane::Routes)?;
        let lower = begin(&lower, base, RolloutLane::SlotChange)?;
        let (mut had_their_turn, mut served_since) = (BTreeSet::new(), BTreeMap::new());
        if let Some(before) = before.filter(|before| goes_on_from.first() == Some(&before.generation())) {
            let of = &before.upper;
            (main.wave, main.proven) = (of.wave.clone(), of.proven.clone());
            main.settled_since = of.settled_since;
            (had_their_turn, served_since) = (before.had_their_turn(), before.served_since());
        }
        let slots = SlotStep { lower, ahead, goes_on_from, is_over: false, had_their_turn, served_since };
        Ok(LayeredRollout { slots: Some(slots), upper: main })
    }

    /// Those that have failed are none of them: they have gone back.
    fn had_their_turn(&self) -> BTreeSet<RouterId> {
        if let Some(step) = self.open_step() {
            return step.had_their_turn.iter().chain(step.ahead.routers.keys()).cloned().collect();
        }
        let is_told =
            |entry: &Entry| matches!(entry.progress, Progress::Told { .. } | Progress::Loaded { .. });
        let told = self.upper.routers.iter().filter(|(_, entry)| is_told(entry));
        told.map(|(router, _)| router.clone()).collect()
    }

    fn served_since(&self) -> BTreeMap<RouterId, Now> {
        if let Some(step) = self.open_step() {
            return step.served_since.clone();
        }
        let loaded = self.upper.routers.iter().filter_map(|(router, entry)| match entry.progress {
            Progress::Loaded { since } => Some((router.clone(), since)),
            _ => None,
        });
        loaded.collect()
    }

    fn open_step(&self) -> Option<&SlotStep> {
        self.slots.as_ref().filter(|step| !step.is_over)
    }

    /// Whether routers get other members of slots now, and nobody other routes.
    pub fn is_in_slots(&self) -> bool {
        self.open_step().is_some()
    }

    /// Takes what happened; the next [`LayeredRollout::act`] acts on it.
    pub fn note(&mut self, event: RolloutEvent, now: Now) {
        let Some(step) = &mut self.slots else { return self.upper.note(event, now) };
        if step.is_over {
            if let RolloutEvent::Left { router } = &event {
                step.lower.routers.remove(router);
            }
            let late = match &event {
                RolloutEvent::Appeared { router, has, .. } => {
                    let is_new = !self.upper.routers.contains_key(router);
                    (is_new && step.goes_on_from.contains(has)).then(|| router.clone())
                }
                _ => None,
            };
            self.upper.note(event, now);
            // It has had the new routes before, and does not go back to the old ones.
            if let Some(entry) = late.and_then(|router| self.upper.routers.get_mut(&router)) {
                entry.progress = Progress::Told { since: now };
            }
            return;
        }
        if !is_of_a_router(&event) {
            self.upper.note(event.clone(), now);
        }
        step.note(event, now, self.upper.texts.generation);
    }

    /// Takes what a router says of the lower generation.
    pub fn note_of_lower(&mut self, event: RolloutEvent, now: Now) {
        if let Some(step) = &mut self.slots {
            step.lower.note(event, now);
        }
    }

    /// Takes what a person has said of the routes before members of slots changed: that goes on with them, and holds up no member.
    pub fn note_of_routes(&mut self, event: RolloutEvent, now: Now) {
        // Whom a person has excused halts nothing, whatever it gets.
        if let (RolloutEvent::Resume { .. }, Some(step)) = (&event, &mut self.slots) {
            step.lower.note(event.clone(), now);
            step.ahead.note(event.clone(), now);
        }
        self.upper.note(event, now);
    }

    /// Lets it go on with the time. Routes wait until all routers are known.
    pub fn act(&mut self, knows_all: bool, now: Now) {
        if let Some(step) = self.slots.as_mut().filter(|step| !step.is_over) {
            step.lower.on(RolloutEvent::Tick, now);
            step.ahead.on(RolloutEvent::Tick, now);
            if !knows_all || !step.is_done() {
                return;
            }
            step.is_over = true;
            step.hand_over(&mut self.upper, now);
        }
        if knows_all {
            self.upper.on(RolloutEvent::Tick, now);
        }
    }

    /// Routers that shall have another generation since the last call.
    pub fn take_admitted(&mut self) -> Vec<RouterId> {
        let mut admitted = self.upper.take_admitted();
        if let Some(step) = &mut self.slots {
            admitted.extend(step.lower.take_admitted());
            admitted.extend(step.ahead.take_admitted());
        }
        admitted
    }

    /// The generation that a router shall have; never a lower one than it has. `None` for an unknown router.
    pub fn wanted(&self, router: &RouterId) -> Option<GenerationNumber> {
        match self.open_step() {
            Some(step) => step.ahead.wanted(router).or_else(|| step.lower.wanted(router)),
            None => self.upper.wanted(router),
        }
    }

    /// The generation that goes out.
    pub fn generation(&self) -> GenerationNumber {
        self.upper.generation()
    }

    /// The lower generation, if there is one.
    pub fn lower(&self) -> Option<GenerationNumber> {
        self.slots.as_ref().map(|step| step.lower.generation())
    }

    /// What routers have in the end whose turn has not come.
    pub fn base(&self) -> GenerationNumber {
        self.upper.base()
    }

    /// What all routers had before the lower generation, if there is one.
    pub fn before_lower(&self) -> Option<GenerationNumber> {
        self.slots.as_ref().map(|step| step.lower.base())
    }

    /// The newest generation below it that has been in use everywhere, or is on its way without a bad sign.
    pub fn proven(&self) -> GenerationNumber {
        self.open_step().map_or(self.upper.base(), |step| step.lower.base())
    }

    /// The texts that crashed a router or were refused by a canary: never to be published again.
    pub fn condemned(&self) -> impl Iterator<Item = &TextDigest> {
        let of_step =
            self.slots.iter().flat_map(|step| step.lower.condemned().iter().chain(step.ahead.condemned()));
        self.upper.condemned().iter().chain(of_step)
    }

    /// Whether a text of the lower generation has failed: the new members, and not the routes.
    pub fn has_lower_failed(&self) -> bool {
        self.slots.as_ref().is_some_and(|step| !step.lower.condemned().is_empty())
    }

    /// How carefully it goes out.
    pub fn lane(&self) -> RolloutLane {
        self.upper.lane()
    }

    /// Routers that have halted it, or would: what a person excuses who lets it go on.
    pub fn failing(&self) -> BTreeSet<RouterId> {
        match self.open_step() {
            Some(step) => step.lower.failing().into_iter().chain(step.ahead.failing()).collect(),
            None => self.upper.failing(),
        }
    }

    /// Routers whose files somebody else has written.
    pub fn set_aside(&self) -> impl Iterator<Item = &RouterId> {
        let step = self.open_step();
        let of_step = step.into_iter().flat_map(|step| step.lower.set_aside().chain(step.ahead.set_aside()));
        self.upper.set_aside().chain(of_step)
    }

    /// Where it is.
    pub fn state(&self) -> RolloutState {
        if let Some(step) = &self.slots {
            let is_bad =
                |state: &RolloutState| matches!(state, RolloutState::Halted(_) | RolloutState::Frozen);
            // Late news of the lower generation is news of what all have.
            if step.is_over && !step.lower.condemned().is_empty() {
                return step.lower.state();
            }
            if !step.is_over {
                let open = step.parts().map(Rollout::state).filter(|state| *state != RolloutState::Done);
                let open: Vec<RolloutState> = open.collect();
                let first = open.iter().find(|state| is_bad(state)).or(open.first());
                let going = || RolloutState::Going { wave: RolloutWave::Canaries, waits_for: None };
                return first.cloned().unwrap_or_else(going);
            }
        }
        self.upper.state()
    }

    /// The rollout of what routers have whose turn has not come, as a new generation: to all at once, for most of them have it. `None`
    /// while they get it.
    pub fn roll_back(&mut self, generation: GenerationNumber) -> Option<LayeredRollout> {
        if self.is_in_slots() {
            return None;
        }
        self.upper.roll_back(generation).ok().map(LayeredRollout::plain)
    }
}

impl SlotStep {
    /// Those of its two rollouts that have routers.
    fn parts(&self) -> impl Iterator<Item = &Rollout> {
        [&self.lower, &self.ahead].into_iter().filter(|part| !part.routers.is_empty())
    }

    fn is_done(&self) -> bool {
        self.parts().next().is_some() && self.parts().all(Rollout::waits_for_silent_only)
    }

    fn note(&mut self, event: RolloutEvent, now: Now, upper: GenerationNumber) {
        let Some(router) = router_of(&event) else {
            self.lower.note(event.clone(), now);
            return self.ahead.note(event, now);
        };
        if let RolloutEvent::Left { .. } = &event {
            self.lower.note(event.clone(), now);
            return self.ahead.note(event, now);
        }
        if self.ahead.routers.contains_key(router) {
            return self.ahead.note(event, now);
        }
        let is_known = self.lower.routers.contains_key(router);
        let is_ahead = match &event {
            // Another controller has told it.
            RolloutEvent::Appeared { has, .. } if *has >= upper => true,
            RolloutEvent::Appeared { has, .. } => {
                !is_known && (self.goes_on_from.contains(has) || self.had_their_turn.contains(router))
            }
            // It has had the upper one, and gone back from it.
            RolloutEvent::Crashed { .. } | RolloutEvent::Refused { .. } => is_known,
            _ => false,
        };
        if !is_ahead {
            return self.lower.note(event, now);
        }
        if let Some(entry) = self.lower.routers.remove(router) {
            let entry = Entry { progress: Progress::Told { since: now }, ..entry };
            self.ahead.routers.insert(router.clone(), entry);
            (self.lower.is_changed, self.ahead.is_changed) = (true, true);
        }
        self.ahead.note(event, now);
    }

    /// Its routers are those of the second step.
    fn hand_over(&self, upper: &mut Rollout, now: Now) {
        let is_canary = upper.wave == RolloutWave::Canaries;
        for (router, entry) in &self.lower.routers {
            let is_excused = upper.excused.contains(router);
            let kept = Entry { progress: Progress::Kept, is_canary: false, is_excused, ..entry.clone() };
            upper.routers.insert(router.clone(), Entry { shortfall: None, ..kept });
        }
        for (router, entry) in &self.ahead.routers {
            let progress = match entry.progress {
                Progress::Kept => Progress::Told { since: now },
                Progress::Loaded { since } => {
                    let since = self.served_since.get(router).map_or(since, |served| since.min(*served));
                    Progress::Loaded { since }
                }
                progress => progress,
            };
            let is_excused = entry.is_excused || upper.excused.contains(router);
            upper.routers.insert(router.clone(), Entry { progress, is_canary, is_excused, ..entry.clone() });
        }
        upper.is_changed = true;
    }
}

fn is_of_a_router(event: &RolloutEvent) -> bool {
    router_of(event).is_some()
}

fn router_of(event: &RolloutEvent) -> Option<&RouterId> {
    match event {
        RolloutEvent::Appeared { router, .. }
        | RolloutEvent::Left { router }
        | RolloutEvent::Acknowledged { router, .. }
        | RolloutEvent::Unanswered { router }
        | RolloutEvent::Refused { router, .. }
        | RolloutEvent::Crashed { router, .. }
        | RolloutEvent::Silent { router, .. }
        | RolloutEvent::Heard { router }
        | RolloutEvent::SetAside { router } => Some(router),
        RolloutEvent::Tick
        | RolloutEvent::Halt { .. }
        | RolloutEvent::Resume { .. }
        | RolloutEvent::Hurry
        | RolloutEvent::Freeze
        | RolloutEvent::Thaw => None,
    }
}
