//! Tuning of the host: an agent runs the tuner as a process, once an hour and when it is asked, and keeps what it said in a short form.
//!
//! ```text
//! orders ─► TuningDesk ─► thread "tuning": one run after the other ─► answers and their texts ─► report
//! ```
//!
//! Nothing of the host is changed. The tuner is known by its command line, its JSON and its exit statuses alone.

pub(super) mod command;
pub(super) mod program;
pub(super) mod runs;
mod schedule;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use fleet::{HostId, TuneAskId};
use os::clock::{Stopwatch, unix_s};

use super::settings::TuneSettings;
use super::upgrade::HostUpgrade;
use crate::service::turn::{
    ASKS_MAX, BODIES_PER_TURN_MAX, PlanReport, PlanWish, TuneAnswer, TuneAsk, TuneBody, TuneOrders,
    TuneReport, TuneWhat,
};
use runs::{Found, TunerRuns};
use schedule::LookSchedule;

/// How often it is seen whether the hourly look is due.
const LOOK_FOR_WORK_EVERY: Duration = Duration::from_secs(1);
/// Time for which the answer to a question is kept while no controller asks it: it may have been started again, and be told the question by another one.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What is asked about the tuning, and what was answered. Its thread ends with the process.
pub(super) struct TuningDesk {
    shared: Arc<Shared>,
    /// The state that was reported last.
    reported: u64,
}

struct Shared {
    state: Mutex<DeskState>,
    wake: Condvar,
}

struct DeskState {
    orders: TuneOrders,
    check: Timed,
    /// Questions that the last look answers.
    asked: Vec<TuneAskId>,
    plans: Vec<(TuneAskId, Timed)>,
    bodies: BTreeMap<AnswerDigest, String>,
    /// Changes with what is to be reported.
    version: u64,
}

/// An answer, and since when there is it.
struct Timed {
    answer: TuneAnswer,
    since: Stopwatch,
}

/// What is to be done next.
enum Job {
    Look(Vec<TuneAskId>),
    Plan(TuneAsk),
}

impl Timed {
    fn now(answer: TuneAnswer) -> Timed {
        Timed { answer, since: Stopwatch::start() }
    }

    fn aged(&self) -> TuneAnswer {
        self.answer.aged(self.since.passed().as_secs())
    }
}

impl TuningDesk {
    /// Starts its thread, if the tuner may run at all.
    pub(super) fn start(
        host: &HostId,
        settings: TuneSettings,
        upgrade: Option<HostUpgrade>,
    ) -> std::io::Result<TuningDesk> {
        let check = if settings.check { TuneAnswer::Waiting } else { TuneAnswer::NotAllowed };
        let state = DeskState {
            orders: TuneOrders::default(),
            check: Timed::now(check),
            asked: Vec::new(),
            plans: Vec::new(),
            bodies: BTreeMap::new(),
            version: 0,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let (of_thread, schedule) = (Arc::clone(&shared), LookSchedule::new(host, unix_s()));
        std::thread::Builder::new()
            .name("tuning".to_owned())
            .spawn(move || of_thread.work(&settings, upgrade, schedule))?;
        Ok(TuningDesk { shared, reported: u64::MAX })
    }

    /// Takes what a controller asks.
    pub(super) fn on_orders(&mut self, orders: Option<TuneOrders>) {
        let orders = orders.unwrap_or_default().bounded();
        let mut state = self.shared.lock();
        if state.orders != orders {
            // Texts that are lacked are news; questions are when they are answered.
            state.version += u64::from(!orders.lacks.is_empty());
            state.orders = orders;
            self.shared.wake.notify_all();
        }
    }

    /// What is to be said, and whether a controller waits for it.
    pub(super) fn report(&mut self) -> (TuneReport, bool) {
        let state = self.shared.lock();
        let is_news = self.reported != state.version && self.reported != u64::MAX;
        self.reported = state.version;
        let plan = |(ask, timed): &(TuneAskId, Timed)| PlanReport { ask: ask.clone(), answer: timed.aged() };
        let lacked = state.orders.lacks.iter().filter_map(|digest| state.bodies.get(digest).cloned());
        let report = TuneReport {
            check: state.check.aged(),
            asked: state.asked.clone(),
            plans: state.plans.iter().map(plan).collect(),
            bodies: lacked.take(BODIES_PER_TURN_MAX).collect(),
            uid: rustix::process::geteuid().as_raw(),
        };
        (report, is_news)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, settings: &TuneSettings, mut upgrade: Option<HostUpgrade>, mut schedule: LookSchedule) {
        let (mut runs, clock) = (TunerRuns::new(settings), Stopwatch::start());
        loop {
            let job = {
                let mut state = self.lock();
                state.forget_old();
                state.refuse(settings, upgrade.is_some());
                let is_due = settings.check && schedule.is_due(clock.passed());
                match state.next(settings, is_due) {
                    Some(job) => job,
                    None => {
                        // Whatever has come is looked at in the next round.
                        let _ = self.wake.wait_timeout(state, LOOK_FOR_WORK_EVERY);
                        continue;
                    }
                }
            };
            // The agent takes no other program meanwhile.
            let own = upgrade.as_ref().and_then(HostUpgrade::agent);
            let _stays = own.as_ref().map(|own| own.stay());
            match job {
                Job::Look(asks) => {
                    let found = runs.look();
                    self.lock().take_look(asks, found);
                }
                Job::Plan(ask) => {
                    let found = match (&ask.what, &mut upgrade) {
                        (TuneWhat::Plan(PlanWish::Version(version)), Some(upgrade)) => {
                            upgrade.plan(version).map(Found::from)
                        }
                        (TuneWhat::Plan(wish), _) => runs.plan(wish),
                        (TuneWhat::Check, _) => continue,
                    };
                    self.lock().take_plan(ask.id, found);
                }
            }
        }
    }
}

impl DeskState {
    /// The oldest question that is not answered; otherwise the hourly look.
    fn next(&self, settings: &TuneSettings, is_due: bool) -> Option<Job> {
        let is_open = |ask: &&TuneAsk| match ask.what {
            TuneWhat::Check => settings.check && !self.asked.contains(&ask.id),
            TuneWhat::Plan(_) => !self.plans.iter().any(|(answered, _)| *answered == ask.id),
        };
        let first = self.orders.asks.iter().find(is_open);
        if let Some(ask @ TuneAsk { what: TuneWhat::Plan(_), .. }) = first {
            return Some(Job::Plan(ask.clone()));
        }
        // One look answers all who want one.
        let looks = self.orders.asks.iter().filter(|ask| ask.what == TuneWhat::Check).filter(is_open);
        let looks: Vec<TuneAskId> = looks.map(|ask| ask.id.clone()).collect();
        (is_due || !looks.is_empty()).then_some(Job::Look(looks))
    }

    /// Answers at once what this agent does not do.
    fn refuse(&mut self, settings: &TuneSettings, is_upgraded: bool) {
        let is_root = rustix::process::geteuid().is_root();
        let refusal = |ask: &TuneAsk| match (&ask.what, settings.plan, is_root) {
            (TuneWhat::Plan(PlanWish::Version(_)), _, _) => (!is_upgraded).then(|| TuneAnswer::Failed {
                why: "the agent's file does not allow it: [upgrade] is not there".to_owned(),
                age_s: 0,
            }),
            (TuneWhat::Plan(_), false, _) => Some(TuneAnswer::NotAllowed),
            (TuneWhat::Plan(_), true, false) => Some(TuneAnswer::NotRoot),
            (TuneWhat::Plan(_), true, true) | (TuneWhat::Check, _, _) => None,
        };
        let is_new = |ask: &TuneAskId| !self.plans.iter().any(|(known, _)| known == ask);
        let asks = self.orders.asks.iter().filter(|ask| is_new(&ask.id));
        let refused: Vec<(TuneAskId, TuneAnswer)> =
            asks.filter_map(|ask| Some((ask.id.clone(), refusal(ask)?))).collect();
        for (ask, answer) in refused {
            self.put_plan(ask, answer);
        }
    }

    fn take_look(&mut self, asks: Vec<TuneAskId>, found: Result<Found, String>) {
        let answer = self.answer(found);
        self.check = Timed::now(answer);
        self.asked.extend(asks);
        let old = self.asked.len().saturating_sub(ASKS_MAX);
        self.asked.drain(..old);
        self.changed();
    }

    fn take_plan(&mut self, ask: TuneAskId, found: Result<Found, String>) {
        let answer = self.answer(found);
        self.put_plan(ask, answer);
    }

    fn put_plan(&mut self, ask: TuneAskId, answer: TuneAnswer) {
        self.plans.push((ask, Timed::now(answer)));
        let old = self.plans.len().saturating_sub(ASKS_MAX);
        self.plans.drain(..old);
        self.changed();
    }

    fn answer(&mut self, found: Result<Found, String>) -> TuneAnswer {
        match found {
            Err(why) => TuneAnswer::Failed { why, age_s: 0 },
            Ok(Found { body, facts, own }) => {
                let mut keep = |body: TuneBody| {
                    let (digest, text) = body.text();
                    self.bodies.insert(digest.clone(), text);
                    digest
                };
                let (body, facts) = (keep(body), facts.map(|facts| keep(TuneBody::Facts(facts))));
                TuneAnswer::Done { body, facts, own, age_s: 0 }
            }
        }
    }

    /// Forgets answers to questions that are over, and texts that no answer names.
    fn forget_old(&mut self) {
        let asks = &self.orders.asks;
        let is_kept = |(ask, timed): &(TuneAskId, Timed)| {
            asks.iter().any(|open| open.id == *ask) || timed.since.passed() < KEPT_FOR
        };
        let before = self.plans.len();
        self.plans.retain(is_kept);
        if self.plans.len() != before {
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.version += 1;
        let answers = || std::iter::once(&self.check).chain(self.plans.iter().map(|(_, timed)| timed));
        let named: Vec<&AnswerDigest> = answers().flat_map(|timed| timed.answer.named()).collect();
        self.bodies.retain(|digest, _| named.contains(&digest));
    }
}

#[cfg(test)]
mod tests;
