//! The rollout of one generation: canaries, shares, zones, and what halts it.
//!
//! A state machine without I/O: [`Rollout::on`] and [`Rollout::note`] take what happened, [`Rollout::wanted`] says which generation a router
//! shall have, [`Rollout::next_call`] when [`RolloutEvent::Tick`] is due. The order in which routers get their turn
//! depends on their names and the generation's number alone, so that two controllers decide the same. No random number
//! and no clock.

mod layered;
mod order;
mod settings;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use stdx::clock::Now;

use crate::{GenerationNumber, RouterId, TextDigest, ViewName, ZoneName};
pub use layered::{LayeredRollout, LayeredTexts};
pub use settings::{RolloutSettings, RolloutSettingsError};
pub use types::{
    HaltEvidence, PublishedTexts, RolloutError, RolloutEvent, RolloutLane, RolloutState, RolloutWave,
    Shortfall,
};

/// One generation on its way to the routers.
#[derive(Clone, Debug)]
pub struct Rollout {
    texts: PublishedTexts,
    base: PublishedTexts,
    lane: RolloutLane,
    settings: RolloutSettings,
    routers: BTreeMap<RouterId, Entry>,
    wave: RolloutWave,
    /// Since when all that count in this wave have loaded the text.
    settled_since: Option<Now>,
    /// What routers have done with the text, or have not.
    halt: Option<HaltEvidence>,
    /// Why a person has halted it.
    halted_by_hand: Option<String>,
    /// Routers that halt nothing, as a person has said.
    excused: BTreeSet<RouterId>,
    /// A person does not want to wait for the time of waves.
    is_hurried: bool,
    condemned: BTreeSet<TextDigest>,
    /// Views of which a canary has run the text for the canaries' time.
    proven: BTreeSet<ViewName>,
    has_begun: bool,
    is_frozen: bool,
    rolled_back_to: Option<GenerationNumber>,
    /// The latest moment that was seen: a late event does not turn time back.
    now: Now,
    /// Something has happened since [`Rollout::act`] looked at all routers.
    is_changed: bool,
    /// All routers had the generation then.
    is_done: bool,
    /// They had it at some time: what one of them says later is that router's matter, unless the text has ended it.
    was_done: bool,
    /// When it has to look again although nothing happens.
    due: Option<Now>,
    /// Routers whose turn has come, and that nobody has taken out yet.
    admitted: Vec<RouterId>,
}

/// A router as the rollout knows it.
#[derive(Clone, Debug)]
struct Entry {
    zone: ZoneName,
    view: ViewName,
    has: GenerationNumber,
    progress: Progress,
    is_canary: bool,
    silent_since: Option<Now>,
    /// Its file is somebody else's: it keeps that, and nobody waits for it.
    is_aside: bool,
    /// Whatever is wrong with it does not halt the rollout: a person has said so, or all others had the text before.
    is_excused: bool,
    /// What was wrong with it, while it has failed.
    shortfall: Option<Shortfall>,
}

impl Entry {
    /// A router whose turn has not come.
    fn kept(zone: ZoneName, view: ViewName, has: GenerationNumber) -> Entry {
        let (progress, is_canary, silent_since) = (Progress::Kept, false, None);
        let (is_aside, is_excused, shortfall) = (false, false, None);
        Entry { zone, view, has, progress, is_canary, silent_since, is_aside, is_excused, shortfall }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not its turn.
    Kept,
    /// Shall have the generation.
    Told { since: Now },
    /// Has loaded it.
    Loaded { since: Now },
    /// Refused it or went back by itself.
    Failed,
}

impl Rollout {
    /// Begins with no routers: they appear by [`RolloutEvent::Appeared`]; nothing goes out before the first `Tick`.
    pub fn begin(
        texts: PublishedTexts,
        base: PublishedTexts,
        lane: RolloutLane,
        settings: RolloutSettings,
        refused: &BTreeSet<TextDigest>,
    ) -> Result<Rollout, RolloutError> {
        if texts.generation <= base.generation {
            return Err(RolloutError::NotNewer { found: texts.generation, base: base.generation });
        }
        if let Some((view, digest)) = texts.digests.iter().find(|(_, digest)| refused.contains(digest)) {
            return Err(RolloutError::RefusedText { view: view.clone(), digest: digest.clone() });
        }
        let wave = if lane == RolloutLane::Rollback { RolloutWave::All } else { RolloutWave::Canaries };
        Ok(Rollout {
            texts,
            base,
            lane,
            settings,
            routers: BTreeMap::new(),
            wave,
            settled_since: None,
            halt: None,
            halted_by_hand: None,
            excused: BTreeSet::new(),
            is_hurried: false,
            condemned: BTreeSet::new(),
            proven: BTreeSet::new(),
            has_begun: false,
            is_frozen: false,
            rolled_back_to: None,
            now: Now::default(),
            is_changed: true,
            is_done: false,
            was_done: false,
            due: None,
            admitted: Vec::new(),
        })
    }

    /// The rollout of the old content as a new generation, to all at once: most routers have that content already.
    pub fn roll_back(&mut self, generation: GenerationNumber) -> Result<Rollout, RolloutError> {
        if generation <= self.texts.generation {
            return Err(RolloutError::NotNewer { found: generation, base: self.texts.generation });
        }
        let old = PublishedTexts { generation, digests: self.base.digests.clone() };
        let mut back = Rollout::begin(
            old,
            self.texts.clone(),
            RolloutLane::Rollback,
            self.settings.clone(),
            &self.condemned,
        )?;
        for (router, entry) in &self.routers {
            let has = if entry.progress == Progress::Kept { entry.has } else { self.texts.generation };
            let kept = Entry::kept(entry.zone.clone(), entry.view.clone(), has.max(entry.has));
            let (silent_since, is_aside) = (entry.silent_since, entry.is_aside);
            back.routers.insert(router.clone(), Entry { silent_since, is_aside, ..kept });
        }
        back.base.generation = self.base.generation;
        back.is_frozen = self.is_frozen;
        back.now = self.now;
        self.rolled_back_to = Some(generation);
        self.is_changed = true;
        Ok(back)
    }

    /// Takes what happened, and acts on it.
    pub fn on(&mut self, event: RolloutEvent, now: Now) {
        self.note(event, now);
        self.act();
    }

    /// Takes what happened; the next `Tick` acts on it. What a router says again costs one look into a table, whatever the size of the
    /// fleet: each of 20,000 says it every 15 s.
    pub fn note(&mut self, event: RolloutEvent, now: Now) {
        self.now = self.now.max(now);
        let is_news = match event {
            RolloutEvent::Appeared { router, zone, view, has } => self.appear(router, zone, view, has),
            RolloutEvent::Left { router } => {
                self.lift(&router);
                self.routers.remove(&router).is_some()
            }
            RolloutEvent::Acknowledged { router, digest } => self.acknowledge(&router, &digest),
            RolloutEvent::Unanswered { router } => self.unload(&router),
            RolloutEvent::Refused { router, reason } => self.fail(router, Shortfall::Refused(reason)),
            RolloutEvent::Crashed { router, reason } => self.fail(router, Shortfall::Crashed(reason)),
            RolloutEvent::Silent { router, since } => self.miss(&router, since),
            RolloutEvent::Heard { router } => self.hear(&router),
            RolloutEvent::SetAside { router } => self.put_aside(&router),
            RolloutEvent::Tick => !std::mem::replace(&mut self.has_begun, true),
            RolloutEvent::Halt { reason } => self.halted_by_hand.replace(reason).is_none(),
            RolloutEvent::Resume { excused } => self.resume(&excused),
            RolloutEvent::Hurry => !std::mem::replace(&mut self.is_hurried, true),
            RolloutEvent::Freeze => !std::mem::replace(&mut self.is_frozen, true),
            RolloutEvent::Thaw => std::mem::replace(&mut self.is_frozen, false),
        };
        self.is_changed |= is_news;
    }

    /// Looks at all routers, if something is new or due.
    fn act(&mut self) {
        // Before the first moment the routers are not all known, and canaries drawn from a part would be too many.
        let is_due = self.is_changed || self.due.is_some_and(|due| due <= self.now);
        if !self.has_begun || !is_due {
            return;
        }
        self.find_missing();
        if !self.is_stopped() {
            self.advance();
        }
        self.due = self.next_call();
        self.is_done = self.all_have_it();
        self.was_done |= self.is_done && !self.is_stopped();
        self.is_changed = false;
    }

    /// Routers that shall have the generation since the last call.
    pub fn take_admitted(&mut self) -> Vec<RouterId> {
        std::mem::take(&mut self.admitted)
    }

    /// Whether nothing but routers that are silent, or keep somebody else's file, lack the generation.
    fn waits_for_silent_only(&self) -> bool {
        let is_kept = |entry: &Entry| entry.progress == Progress::Kept && !self.is_away(entry);
        let is_last = self.wave == RolloutWave::All && self.unsettled().is_none();
        is_last && !self.is_stopped() && !self.routers.values().any(is_kept)
    }

    fn all_have_it(&self) -> bool {
        let is_done = self.wave == RolloutWave::All && self.unsettled().is_none() && self.kept() == 0;
        is_done && !self.routers.is_empty()
    }

    /// The generation that a router shall have; never a lower one than it has. `None` for an unknown router.
    pub fn wanted(&self, router: &RouterId) -> Option<GenerationNumber> {
        let entry = self.routers.get(router)?;
        let shall =
            if entry.progress == Progress::Kept { self.base.generation } else { self.texts.generation };
        Some(shall.max(entry.has))
    }

    /// The generation that goes out.
    pub fn generation(&self) -> GenerationNumber {
        self.texts.generation
    }

    /// What routers have whose turn has not come.
    pub fn base(&self) -> GenerationNumber {
        self.base.generation
    }

    /// The texts that crashed a router or were refused by a canary: never to be published again.
    pub fn condemned(&self) -> &BTreeSet<TextDigest> {
        &self.condemned
    }

    /// What has halted it.
    fn halt(&self) -> Option<HaltEvidence> {
        let by_hand = || self.halted_by_hand.clone().map(|reason| HaltEvidence::Person { reason });
        self.halt.clone().or_else(by_hand)
    }

    /// How carefully it goes out.
    pub fn lane(&self) -> RolloutLane {
        self.lane
    }

    /// Routers that have halted it, or would: what a person excuses who lets it go on.
    pub fn failing(&self) -> BTreeSet<RouterId> {
        let missing = self.views().into_iter().flat_map(|view| self.missing(view));
        let failed = self.routers.iter().filter(|(_, entry)| entry.progress == Progress::Failed);
        missing.chain(failed.map(|(router, _)| router)).cloned().collect()
    }

    /// Routers whose files somebody else has written.
    pub fn set_aside(&self) -> impl Iterator<Item = &RouterId> {
        self.routers.iter().filter(|(_, entry)| entry.is_aside).map(|(router, _)| router)
    }

    /// Where the rollout is.
    pub fn state(&self) -> RolloutState {
        if let Some(to) = self.rolled_back_to {
            return RolloutState::RollingBack { to };
        }
        if let Some(halt) = self.halt() {
            return RolloutState::Halted(halt);
        }
        if self.is_frozen {
            return RolloutState::Frozen;
        }
        // Most of the time nothing is new, and everybody asks.
        let is_done = if self.is_changed { self.all_have_it() } else { self.is_done };
        if is_done {
            return RolloutState::Done;
        }
        let kept = || self.routers.iter().find(|(_, entry)| entry.progress == Progress::Kept);
        let waits_for = self.unsettled().or_else(|| {
            // All that remain are of views whose canaries are silent.
            kept().map(|(router, _)| router).filter(|_| self.wave == RolloutWave::All)
        });
        RolloutState::Going { wave: self.wave.clone(), waits_for: waits_for.cloned() }
    }

    /// When `Tick` is due although nothing happens.
    pub fn next_call(&self) -> Option<Now> {
        if self.is_stopped() {
            return None;
        }
        let hold = self.settled_since.filter(|_| self.wave != RolloutWave::All);
        let hold = hold.map(|since| after(since, self.hold_ms(&self.wave)));
        let answers = self.routers.values().filter_map(|entry| match (entry.progress, entry.silent_since) {
            (Progress::Told { .. } | Progress::Loaded { .. }, Some(since)) => {
                Some(after(since, self.settings.silence_ms))
            }
            (Progress::Told { since }, None) => Some(after(since, self.settings.fence_ms)),
            _ => None,
        });
        let proofs = self.routers.values().filter_map(|entry| match entry.progress {
            Progress::Loaded { since } if entry.is_canary && !self.proven.contains(&entry.view) => {
                Some(after(since, self.hold_ms(&RolloutWave::Canaries)))
            }
            _ => None,
        });
        answers.chain(proofs).chain(hold).filter(|due| *due > self.now).min()
    }

    fn appear(&mut self, router: RouterId, zone: ZoneName, view: ViewName, has: GenerationNumber) -> bool {
        let was_silent = self.hear(&router);
        if let Some(entry) = self.routers.get_mut(&router) {
            let is_news = was_silent || (&entry.zone, &entry.view, entry.has) != (&zone, &view, has);
            (entry.zone, entry.view, entry.has) = (zone, view, has);
            return is_news;
        }
        // A router that has the generation was told by another controller, or before this one started again.
        let has_it = has == self.texts.generation;
        let is_canary = has_it && self.wave == RolloutWave::Canaries;
        let progress = if has_it { Progress::Told { since: self.now } } else { Progress::Kept };
        let kept = Entry::kept(zone, view, has);
        let is_excused = self.excused.contains(&router);
        self.routers.insert(router, Entry { progress, is_canary, is_excused, ..kept });
        true
    }

    fn miss(&mut self, router: &RouterId, since: Now) -> bool {
        let Some(entry) = self.routers.get_mut(router).filter(|entry| entry.silent_since.is_none()) else {
            return false;
        };
        entry.silent_since = Some(since);
        true
    }

    fn hear(&mut self, router: &RouterId) -> bool {
        let Some(entry) = self.routers.get_mut(router) else { return false };
        let was_silent = entry.silent_since.take().is_some();
        if was_silent && matches!(entry.progress, Progress::Told { .. }) {
            entry.progress = Progress::Told { since: self.now };
        }
        was_silent
    }

    fn acknowledge(&mut self, router: &RouterId, digest: &TextDigest) -> bool {
        let is_heard = self.hear(router) | self.take_back(router);
        let Some(entry) = self.routers.get_mut(router) else { return false };
        let is_ours = self.texts.digests.get(&entry.view) == Some(digest);
        match entry.progress {
            Progress::Told { .. } | Progress::Failed if is_ours => {
                entry.progress = Progress::Loaded { since: self.now };
                entry.is_excused = false;
                self.lift(router);
            }
            // Something else was put there, or the router started with another file.
            Progress::Loaded { .. } if !is_ours => entry.progress = Progress::Told { since: self.now },
            _ => return is_heard,
        }
        true
    }

    /// Somebody else has written its file. It keeps that, as a silent router keeps its own: nobody waits for it, and it is no fault of the
    /// text.
    fn put_aside(&mut self, router: &RouterId) -> bool {
        let is_heard = self.hear(router);
        let Some(entry) = self.routers.get_mut(router) else { return false };
        let is_news = !std::mem::replace(&mut entry.is_aside, true);
        if entry.progress == Progress::Failed {
            entry.progress = Progress::Told { since: self.now };
            self.lift(router);
        }
        is_news || is_heard
    }

    /// Its file is its agent's again.
    fn take_back(&mut self, router: &RouterId) -> bool {
        let Some(entry) = self.routers.get_mut(router) else { return false };
        let was_aside = std::mem::take(&mut entry.is_aside);
        if let (true, Progress::Told { since }) = (was_aside, &mut entry.progress) {
            *since = self.now;
        }
        was_aside
    }

    /// The cause of a halt is gone, if it was this router and no text has failed.
    fn lift(&mut self, router: &RouterId) {
        let is_cause = |halt: &HaltEvidence| matches!(halt, HaltEvidence::Router { router: cause, .. } if cause == router);
        if self.condemned.is_empty() && self.halt.as_ref().is_some_and(is_cause) {
            // Another router may have failed as well.
            let mut others = self.routers.iter().filter(|(other, entry)| {
                *other != router && entry.progress == Progress::Failed && !entry.is_excused
            });
            self.halt = others.find_map(|(other, entry)| {
                let (router, is_canary) = (other.clone(), entry.is_canary);
                let shortfall = entry.shortfall.clone()?;
                Some(HaltEvidence::Router { router, is_canary, shortfall })
            });
        }
    }

    /// A canary that ends may have ended because of the text: its time begins anew when it has loaded it again. Whether another
    /// router runs is no concern of the rollout once it has loaded the text.
    fn unload(&mut self, router: &RouterId) -> bool {
        let is_heard = self.hear(router) | self.take_back(router);
        let (wave, now) = (&self.wave, self.now);
        let Some(entry) = self.routers.get_mut(router) else { return false };
        let is_on_trial = entry.is_canary && *wave == RolloutWave::Canaries;
        if !is_on_trial || !matches!(entry.progress, Progress::Loaded { .. }) {
            return is_heard;
        }
        entry.progress = Progress::Told { since: now };
        true
    }

    fn fail(&mut self, router: RouterId, shortfall: Shortfall) -> bool {
        let is_heard = self.hear(&router) | self.take_back(&router);
        let Some(entry) = self.routers.get_mut(&router) else { return false };
        // A late report about an earlier generation says nothing about this one. What was said before is no news.
        if matches!(entry.progress, Progress::Kept | Progress::Failed) {
            return is_heard;
        }
        (entry.progress, entry.shortfall) = (Progress::Failed, Some(shortfall.clone()));
        let is_crash = matches!(shortfall, Shortfall::Crashed(_));
        entry.is_excused |= self.was_done && !is_crash;
        if entry.is_excused && !is_crash {
            return true;
        }
        let (is_canary, view) = (entry.is_canary, entry.view.clone());
        if is_canary || is_crash {
            self.condemned.extend(self.texts.digests.get(&view).cloned());
        }
        self.halt = Some(HaltEvidence::Router { router, is_canary, shortfall });
        true
    }

    /// A person overrules what a person has said, and what these routers do; never a condemned text.
    fn resume(&mut self, excused: &BTreeSet<RouterId>) -> bool {
        let was_halted = self.halted_by_hand.take().is_some();
        if !self.condemned.is_empty() {
            return was_halted;
        }
        self.excused.extend(excused.iter().cloned());
        let mut is_news = was_halted;
        for (_, entry) in self.routers.iter_mut().filter(|(router, _)| excused.contains(router)) {
            is_news |= !std::mem::replace(&mut entry.is_excused, true);
        }
        excused.iter().for_each(|router| self.lift(router));
        is_news
    }

    /// Routers that shall have the text and say nothing about it: silent canaries, and any that live and have not answered within the
    /// fence. Other ones take the place of canaries. More of a view than it has canaries are no accident: the text may take whole
    /// hosts down, which then report no crash. That ends when they answer.
    fn find_missing(&mut self) {
        let is_absence = |halt: &HaltEvidence| {
            matches!(
                halt,
                HaltEvidence::Router { shortfall: Shortfall::NoAnswer | Shortfall::FellSilent, .. }
            )
        };
        let is_stopped =
            self.is_stopped_by_hand() || self.halt.as_ref().is_some_and(|halt| !is_absence(halt));
        if self.was_done || is_stopped {
            return;
        }
        let too_many = self.views().into_iter().find_map(|view| {
            let of_view = self.routers.values().filter(|entry| entry.view == *view).count();
            let mut missing = self.missing(view);
            let router = missing.nth(self.settings.canaries(self.lane, of_view))?;
            let entry = &self.routers[router];
            let shortfall =
                if entry.silent_since.is_some() { Shortfall::FellSilent } else { Shortfall::NoAnswer };
            Some(HaltEvidence::Router { router: router.clone(), is_canary: entry.is_canary, shortfall })
        });
        // The first evidence stays.
        self.halt = too_many.map(|new| self.halt.take().unwrap_or(new));
    }

    fn missing<'r>(&'r self, view: &ViewName) -> impl Iterator<Item = &'r RouterId> + use<'r> {
        let is_missing = |entry: &Entry| {
            let is_told = matches!(entry.progress, Progress::Told { .. } | Progress::Loaded { .. });
            let is_lost = entry.is_canary && entry.has < self.texts.generation && self.is_silent(entry);
            is_told && !entry.is_aside && !entry.is_excused && (is_lost || self.is_overdue(entry))
        };
        let view = view.clone();
        let of_view = self.routers.iter().filter(move |(_, entry)| entry.view == view);
        of_view.filter(move |(_, entry)| is_missing(entry)).map(|(router, _)| router)
    }

    fn views(&self) -> BTreeSet<&ViewName> {
        self.routers.values().map(|entry| &entry.view).collect()
    }

    fn prove(&mut self) {
        let hold = self.hold_ms(&RolloutWave::Canaries);
        let proofs = self.routers.values().filter(|entry| match entry.progress {
            Progress::Loaded { since } => entry.is_canary && after(since, hold) <= self.now,
            _ => false,
        });
        let proven = proofs.map(|entry| entry.view.clone()).collect::<Vec<_>>();
        self.proven.extend(proven);
    }

    fn is_proven(&self, view: &ViewName) -> bool {
        self.lane == RolloutLane::Rollback || self.proven.contains(view)
    }

    fn advance(&mut self) {
        loop {
            self.admit();
            if self.unsettled().is_some() {
                self.settled_since = None;
                return;
            }
            if self.wave == RolloutWave::All || self.routers.is_empty() {
                return;
            }
            let since = *self.settled_since.get_or_insert(self.now);
            if after(since, self.hold_ms(&self.wave)) > self.now {
                return;
            }
            self.settled_since = None;
            self.wave = self.next_wave();
        }
    }

    /// Lets in whom the wave allows. A view without a proven canary (its routers were silent, or it is new) gets its
    /// canaries first, whatever the wave.
    fn admit(&mut self) {
        self.prove();
        let is_first = self.wave == RolloutWave::Canaries;
        let (mut canaries, mut others) = (Vec::new(), Vec::new());
        for view in self.views() {
            if is_first || !self.is_proven(view) {
                canaries.extend(self.prefix(view, |live| self.settings.canaries(self.lane, live)));
                continue;
            }
            others.extend(match &self.wave {
                RolloutWave::Share { percent } => self.prefix(view, |live| settings::share(live, *percent)),
                RolloutWave::Zone(zone) => {
                    self.kept_where(|entry| entry.view == *view && entry.zone == *zone)
                }
                RolloutWave::All | RolloutWave::Canaries => self.kept_where(|entry| entry.view == *view),
            });
        }
        let canaries = canaries.into_iter().map(|router| (router, true));
        for (router, is_canary) in canaries.chain(others.into_iter().map(|router| (router, false))) {
            let entry = self.routers.get_mut(&router).expect("it was found in the table");
            entry.progress = Progress::Told { since: self.now };
            entry.is_canary = is_canary;
            self.admitted.push(router);
        }
    }

    fn kept_where(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<RouterId> {
        let kept =
            self.routers.iter().filter(|(_, entry)| entry.progress == Progress::Kept && is_meant(entry));
        kept.map(|(router, _)| router.clone()).collect()
    }

    /// The first living routers of a view's order that are missing to the wanted number.
    fn prefix(&self, view: &ViewName, wanted: impl Fn(usize) -> usize) -> Vec<RouterId> {
        let live = || self.routers.iter().filter(|(_, entry)| entry.view == *view && !self.is_away(entry));
        let told = live().filter(|(_, entry)| entry.progress != Progress::Kept).count();
        let missing = wanted(live().count()).saturating_sub(told);
        let zones = live().map(|(router, entry)| (router, &entry.zone));
        let order = order::spread(self.texts.generation, zones.collect());
        // One that has just fallen silent would hold up the wave until it counts as away.
        let may_begin = |router: &&RouterId| {
            let entry = &self.routers[*router];
            entry.progress == Progress::Kept && entry.silent_since.is_none() && !entry.is_aside
        };
        order.into_iter().filter(may_begin).take(missing).cloned().collect()
    }

    fn hold_ms(&self, wave: &RolloutWave) -> u64 {
        if self.is_hurried { 0 } else { self.settings.hold_ms(self.lane, wave) }
    }

    fn next_wave(&self) -> RolloutWave {
        if self.is_hurried {
            return RolloutWave::All;
        }
        let shares = self.settings.shares(self.lane);
        match &self.wave {
            RolloutWave::Canaries if !shares.is_empty() => RolloutWave::Share { percent: shares[0] },
            RolloutWave::Share { percent } if shares.iter().any(|share| share > percent) => {
                let next = shares.iter().find(|share| *share > percent);
                RolloutWave::Share { percent: *next.expect("there is a larger one") }
            }
            _ if self.lane == RolloutLane::Routes => self.next_zone(),
            _ => RolloutWave::All,
        }
    }

    /// The last zone is the wave of all, which routers that appear later belong to as well.
    fn next_zone(&self) -> RolloutWave {
        let kept = self.routers.values();
        let kept = kept.filter(|entry| entry.progress == Progress::Kept && self.is_proven(&entry.view));
        let zones = kept.map(|entry| &entry.zone).collect::<BTreeSet<_>>();
        match order::zones(self.texts.generation, zones).as_slice() {
            [] | [_] => RolloutWave::All,
            [first, ..] => RolloutWave::Zone((*first).clone()),
        }
    }

    /// A router that must load the text before the wave ends. Those that are away do not hold it up: they keep their file, and
    /// get the generation when they come back.
    fn unsettled(&self) -> Option<&RouterId> {
        let open = |entry: &Entry| {
            !matches!(entry.progress, Progress::Loaded { .. } | Progress::Kept) && !entry.is_excused
        };
        self.routers.iter().find(|(_, entry)| open(entry) && !self.is_away(entry)).map(|(router, _)| router)
    }

    /// Nobody waits for it.
    fn is_away(&self, entry: &Entry) -> bool {
        entry.is_aside || self.is_silent(entry) || self.is_overdue(entry)
    }

    fn is_silent(&self, entry: &Entry) -> bool {
        entry.silent_since.is_some_and(|since| after(since, self.settings.silence_ms) <= self.now)
    }

    /// It lives, and has said nothing about the text for too long.
    fn is_overdue(&self, entry: &Entry) -> bool {
        match entry.progress {
            Progress::Told { since } => {
                entry.silent_since.is_none() && after(since, self.settings.fence_ms) <= self.now
            }
            _ => false,
        }
    }

    fn is_stopped(&self) -> bool {
        self.halt.is_some() || self.is_stopped_by_hand()
    }

    fn is_stopped_by_hand(&self) -> bool {
        self.halted_by_hand.is_some() || self.is_frozen || self.rolled_back_to.is_some()
    }

    fn kept(&self) -> usize {
        self.routers.values().filter(|entry| entry.progress == Progress::Kept).count()
    }
}

fn after(moment: Now, ms: u64) -> Now {
    Now { us: moment.us.saturating_add(ms.saturating_mul(1000)) }
}
