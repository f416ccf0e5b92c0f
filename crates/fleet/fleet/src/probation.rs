//! The probation of a new text in one router: an agent's own decision, which needs no controller.
//!
//! The agent writes the text, waits until the router has loaded it, and watches for 30 s. If the router ends twice, does not
//! answer or doubles its errors, the agent puts the old text back, reports the crash and never takes that text again.
//!
//! Errors are no evidence against a text as long as servers explain them that have answered this router before ([`losses`]):
//! a server that dies soon after a text was loaded is lost with any text, and has to be replaced by the next one.
//!
//! A router that ends once may have been restarted by hand, or killed for want of memory: the text is not to blame if the
//! next process loads it. Going back costs more than a second look: the router would use members again that have left their
//! slots, and what it has stored and deleted meanwhile is in others.
//!
//! A text is **acknowledged when it is loaded**, not after the 30 s: the canaries of a slot change run for 2 s only, and
//! a drain's phase means what routers do, not how well. A crash may therefore follow an acknowledgement; a rollout takes
//! both. The state is JSON for whoever keeps it on disk; moments are not in it, so that a restarted agent watches anew.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use crate::{GenerationNumber, TextDigest};

mod losses;
mod observation;
#[cfg(test)]
mod tests;

use losses::Losses;
pub use observation::{LostServer, RouterCounts, RouterObservation};

/// The texts refused for good that an agent remembers. A fleet that publishes 64 different fatal texts has other
/// problems; the register remembers them, too.
pub const REFUSED_TEXTS_MAX: usize = 64;

/// Observations in a row without an answer that count as a hang: one a second, and a router that computes a large
/// configuration may miss two.
const UNANSWERED_MAX: u32 = 5;

/// A router that has ended while its text was on probation is started again within this time, or the text ends it at its start.
const BACK_WITHIN_MS: u64 = 3_000;

/// A router with mcrouter's defaults reloads after a second, but only once a minute if it cannot watch the file.
const LOAD_WITHIN_MS: u64 = 90_000;

/// How long a loaded text is watched.
const WATCH_MS: u64 = 30_000;

/// A text of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenText {
    /// The latest generation that has it.
    pub generation: GenerationNumber,
    /// Its digest.
    pub digest: TextDigest,
}

/// What the agent has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAction {
    /// Keep the state: before anything else in the list, so that an agent that ends in between knows what it wrote.
    Keep,
    /// Write this text into the router's file.
    Write(TextDigest),
    /// Tell the controllers.
    Report(AgentReport),
}

/// What an agent tells controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReport {
    /// The router has loaded it.
    Loaded(GivenText),
    /// The router has not loaded it, or it is refused for good.
    Refused(GivenText, &'static str),
    /// The router suffered; the old text is back.
    Crashed(GivenText, &'static str),
    /// The file is not what the agent wrote: it stays as it is.
    Foreign(TextDigest),
}

/// The agent's state beside one router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probation {
    good: Option<GivenText>,
    trial: Option<TextTrial>,
    refused: Vec<TextDigest>,
    #[serde(skip)]
    foreign: Option<TextDigest>,
    /// The file is ours again, and the router has not loaded it yet.
    #[serde(skip)]
    is_given_back: bool,
    #[serde(skip)]
    latest: Option<RouterObservation>,
    #[serde(skip)]
    idle_from: Option<RouterCounts>,
    /// Servers that the router has, by its own names, as it said last.
    #[serde(skip)]
    servers: BTreeSet<String>,
}

/// A text that is not known to be good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TextTrial {
    text: GivenText,
    /// The process that the text was written for.
    process: Option<u64>,
    /// Counts of the router before, to compare with.
    before: RouterCounts,
    is_loaded: bool,
    /// The router has ended once since the text was written.
    #[serde(default)]
    has_ended: bool,
    /// The text that the router had when this one came, if that was on probation itself: the one to put back. The last good
    /// one may be some generations old, and its servers may have left their slots since.
    #[serde(default)]
    stood: Option<GivenText>,
    /// It was put back: its generation was reported before.
    #[serde(default)]
    is_put_back: bool,
    /// The file was seen to have it: whatever else is there later, somebody else has put there.
    #[serde(skip)]
    is_written: bool,
    #[serde(skip)]
    since: Option<Now>,
    #[serde(skip)]
    counts: Option<RouterCounts>,
    #[serde(skip)]
    losses: Losses,
    #[serde(skip)]
    unanswered: u32,
    /// When it has ended, until it answers again.
    #[serde(skip)]
    ended: Option<Now>,
}

impl Probation {
    /// The last text that has passed; at first the file that was there (generation 0).
    pub fn good(&self) -> Option<&GivenText> {
        self.good.as_ref()
    }

    /// Takes the names of all servers that the router has now. Without them, the loss of one that it has never asked speaks against the text.
    pub fn note_servers(&mut self, names: BTreeSet<String>) {
        self.servers = names;
    }

    /// Takes the generation that the router shall have.
    pub fn on_target(&mut self, target: GivenText, now: Now) -> Vec<AgentAction> {
        let newest = self.trial.as_ref().map(|trial| &trial.text).or(self.good.as_ref());
        if newest.is_some_and(|newest| newest.generation >= target.generation) || self.foreign.is_some() {
            return Vec::new();
        }
        if self.refused.contains(&target.digest) {
            return vec![AgentAction::Report(AgentReport::Refused(target, "this text failed here before"))];
        }
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.text.digest == target.digest) {
            trial.text = target.clone();
            // Whatever was reported of this text, it was of an earlier generation.
            trial.is_put_back = false;
            let is_loaded = trial.is_loaded;
            return keep_and(is_loaded.then_some(AgentReport::Loaded(target)));
        }
        if let Some(good) = self.good.as_mut().filter(|good| good.digest == target.digest)
            && self.trial.is_none()
        {
            *good = target.clone();
            return keep_and(Some(AgentReport::Loaded(target)));
        }
        let latest = self.latest.as_ref();
        let before = match (latest.and_then(|latest| latest.counts), self.idle_from) {
            (Some(end), Some(start)) => end.since(start).unwrap_or_default(),
            _ => RouterCounts::default(),
        };
        let digest = target.digest.clone();
        let process = latest.and_then(|latest| latest.process);
        let losses = Losses::begin(latest, self.servers.clone());
        let stood =
            self.trial.take().and_then(|trial| if trial.is_loaded { Some(trial.text) } else { trial.stood });
        self.trial = Some(TextTrial {
            text: target,
            process,
            before,
            is_loaded: false,
            has_ended: false,
            stood,
            is_put_back: false,
            is_written: false,
            since: Some(now),
            counts: None,
            losses,
            unanswered: 0,
            ended: None,
        });
        vec![AgentAction::Keep, AgentAction::Write(digest)]
    }

    /// Takes what was seen of the router and its file, about once a second.
    pub fn on_observation(&mut self, seen: RouterObservation, now: Now) -> Vec<AgentAction> {
        let actions = match self.foreign_text(&seen) {
            Some(found) if self.foreign.as_ref() == Some(&found) => Vec::new(),
            Some(found) => {
                // Somebody decides here by hand. What the router does from now on says nothing about the trial, which begins anew
                // when its text is back.
                self.foreign = Some(found.clone());
                keep_and(Some(AgentReport::Foreign(found)))
            }
            None => {
                if self.foreign.take().is_some() {
                    self.take_back(&seen, now);
                }
                let mut actions = self.watch(&seen, now);
                actions.extend(self.loaded_again(&seen).map(AgentAction::Report));
                actions
            }
        };
        self.remember(seen);
        actions
    }

    fn foreign_text(&self, seen: &RouterObservation) -> Option<TextDigest> {
        let found = seen.file.as_ref().filter(|found| !self.refused.contains(found))?;
        let is_ours = match &self.trial {
            // Who has changed the file by hand may put back either text.
            Some(trial) if trial.is_written && self.foreign.is_none() => trial.text.digest == *found,
            Some(trial) if trial.text.digest == *found => true,
            // The agent ended before it wrote.
            Some(TextTrial { stood: Some(stood), .. }) if stood.digest == *found => true,
            // The first file that is seen is adopted.
            _ => match &self.good {
                Some(good) => good.digest == *found,
                None => self.trial.is_none() && self.foreign.is_none(),
            },
        };
        (!is_ours).then(|| found.clone())
    }

    /// The file is one of ours again: somebody has put it back, or has taken it away.
    fn take_back(&mut self, seen: &RouterObservation, now: Now) {
        self.is_given_back = true;
        let has = |text: &GivenText| seen.file.as_ref().is_none_or(|found| text.digest == *found);
        self.trial = self.trial.take().and_then(|trial| {
            let TextTrial { text, stood, before, losses, .. } = trial;
            let (text, stood) = if has(&text) { (text, stood) } else { (stood.filter(has)?, None) };
            let begun = TextTrial::put_back(text, before, losses);
            Some(TextTrial { stood, is_put_back: false, since: Some(now), ..begun })
        });
    }

    /// Controllers know of a file that was given back when the router has loaded it.
    fn loaded_again(&mut self, seen: &RouterObservation) -> Option<AgentReport> {
        let good = self
            .good
            .as_ref()
            .filter(|good| self.is_given_back && seen.loaded.as_ref() == Some(&good.digest));
        // A trial says so itself.
        self.is_given_back = self.is_given_back && self.trial.is_none() && good.is_none();
        good.filter(|_| self.trial.is_none()).cloned().map(AgentReport::Loaded)
    }

    fn watch(&mut self, seen: &RouterObservation, now: Now) -> Vec<AgentAction> {
        let Some(trial) = &mut self.trial else { return self.keep_in_force(seen) };
        // An agent that was started again may have ended before it wrote.
        if seen.file.as_ref() != Some(&trial.text.digest) {
            trial.since = Some(now);
            return vec![AgentAction::Write(trial.text.digest.clone())];
        }
        trial.is_written = true;
        let since = *trial.since.get_or_insert(now);
        let passed = now.ms().saturating_sub(since.ms());
        let had_ended = trial.has_ended;
        if let Some(reason) = trial.fault(seen, now) {
            return self.put_back(reason, true);
        }
        if trial.has_ended && !had_ended {
            // The new process is watched for as long.
            (trial.since, trial.ended) = (Some(now), Some(now));
            return keep_and(None);
        }
        trial.ended = trial.ended.filter(|_| seen.loaded.is_none());
        if trial.ended.is_some_and(|ended| now.ms().saturating_sub(ended.ms()) >= BACK_WITHIN_MS) {
            return self.put_back("the router ended, and is not back", true);
        }
        if !trial.is_loaded {
            if seen.loaded.as_ref() == Some(&trial.text.digest) {
                (trial.is_loaded, trial.since, trial.counts) = (true, Some(now), seen.counts);
                trial.process = trial.process.or(seen.process);
                let is_news = !trial.is_put_back;
                return keep_and(is_news.then(|| AgentReport::Loaded(trial.text.clone())));
            }
            return if passed >= LOAD_WITHIN_MS {
                self.put_back("it was not loaded", false)
            } else {
                Vec::new()
            };
        }
        if passed >= WATCH_MS && seen.loaded.as_ref() == Some(&trial.text.digest) {
            self.good = self.trial.take().map(|trial| trial.text);
            return vec![AgentAction::Keep];
        }
        Vec::new()
    }

    fn keep_in_force(&mut self, seen: &RouterObservation) -> Vec<AgentAction> {
        match (&self.good, &seen.file) {
            // The agent ended, or the disk was full, after a text was refused and before the old one was back.
            (Some(good), Some(found)) if good.digest != *found => {
                vec![AgentAction::Write(good.digest.clone())]
            }
            // Whoever takes a file away that he has written gives it back to the agent. The first file was never sent.
            (Some(good), None) if good.generation > GenerationNumber(0) => {
                self.is_given_back = true;
                vec![AgentAction::Write(good.digest.clone())]
            }
            (None, Some(found)) if !self.refused.contains(found) => {
                self.good = Some(GivenText { generation: GenerationNumber(0), digest: found.clone() });
                vec![AgentAction::Keep]
            }
            _ => Vec::new(),
        }
    }

    fn put_back(&mut self, reason: &'static str, is_crash: bool) -> Vec<AgentAction> {
        let Some(trial) = self.trial.take() else { return Vec::new() };
        if self.refused.len() == REFUSED_TEXTS_MAX {
            self.refused.remove(0);
        }
        self.refused.push(trial.text.digest.clone());
        // The generation stays behind: the router goes forward to a new one only.
        let stood = trial.stood.filter(|stood| !self.refused.contains(&stood.digest));
        let old = stood.as_ref().or(self.good.as_ref()).map(|old| AgentAction::Write(old.digest.clone()));
        self.trial = stood.map(|stood| TextTrial::put_back(stood, trial.before, trial.losses));
        let report = match is_crash {
            true => AgentReport::Crashed(trial.text, reason),
            false => AgentReport::Refused(trial.text, reason),
        };
        [AgentAction::Keep].into_iter().chain(old).chain([AgentAction::Report(report)]).collect()
    }

    /// Counts of a calm time are the measure of a trial.
    fn remember(&mut self, seen: RouterObservation) {
        let is_other = self.latest.as_ref().is_some_and(|latest| latest.process != seen.process);
        if self.trial.is_some() || is_other || self.idle_from.is_none() {
            self.idle_from = seen.counts;
        }
        self.latest = Some(seen);
    }
}

impl TextTrial {
    /// A text that is put back, and is watched as before.
    fn put_back(text: GivenText, before: RouterCounts, mut losses: Losses) -> TextTrial {
        losses.begin_again();
        TextTrial {
            text,
            process: None,
            before,
            is_loaded: false,
            has_ended: false,
            stood: None,
            is_put_back: true,
            is_written: false,
            since: None,
            counts: None,
            losses,
            unanswered: 0,
            ended: None,
        }
    }

    fn fault(&mut self, seen: &RouterObservation, now: Now) -> Option<&'static str> {
        if self.process.is_some() && seen.process != self.process {
            if std::mem::replace(&mut self.has_ended, true) {
                return Some("the router ended twice");
            }
            (self.process, self.counts, self.unanswered) = (None, None, 0);
            self.losses.begin_again();
        }
        if self.has_ended {
            self.process = self.process.or(seen.process);
        }
        // A router that was not running when the file was written is not to blame for being away.
        let may_be_away = self.process.is_none() && !self.has_ended || self.ended.is_some();
        self.unanswered = if seen.loaded.is_some() || may_be_away { 0 } else { self.unanswered + 1 };
        if self.unanswered >= UNANSWERED_MAX {
            return Some("the router does not answer");
        }
        if self.is_loaded && self.has_ended && seen.loaded.is_some() {
            // The new process counts from nothing.
            self.counts = self.counts.or(seen.counts);
        }
        let counts = self.counts.and_then(|start| seen.counts?.since(start))?;
        self.losses.blame(seen, counts, self.before, now).then_some("its errors doubled")
    }
}

fn keep_and(report: Option<AgentReport>) -> Vec<AgentAction> {
    [AgentAction::Keep].into_iter().chain(report.map(AgentAction::Report)).collect()
}
