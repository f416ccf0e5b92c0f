//! Changes of the host: orders of controllers are carried out so that the host goes back by itself unless a controller is heard afterwards.
//!
//! ```text
//! orders ─► ChangeDesk ─► thread "changes": look ─► begin ─► (a controller is heard) ─► keep ─► words ─► report
//!                                                                        order without attempt ─► go back
//! ```
//!
//! [`course`] says what is next of each change, an [`actor`] does it, [`record`] keeps what must not be forgotten. How the host is, is
//! read from the host: the agent may be killed between any two steps. [`standard`] makes such changes itself, when the host lacks something of
//! its standard and controllers let it act; no two of all these are under way at one time.

pub(super) mod actor;
mod course;
mod record;
mod standard;
mod tuner;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use fleet::tuning::standards::StandardWord;
use fleet::waves::HostWord;
use os::clock::{Stopwatch, unix_s};
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use super::settings::TuneSettings;
use super::state::{AgentStateError, AgentStore};
use super::upgrade::HostUpgrade;
use crate::service::SayLine;
use crate::service::turn::{
    ActKind, AsideWord, CHANGES_MAX, ChangeOrder, ChangeWord, ChangesReport, HostAct, StandardOrder,
    StandardReport, TurnReport,
};
use crate::words::in_full;
use actor::{ActPhase, ActState, HostActor};
use course::{ChangeCourse, CourseStep};
use record::{ChangeRecord, CourseId, KeptRecords, RecordStore};
use standard::{STANDARD_VERSION, Standard, StandardRefusals, StandardStep};
use tuner::TunerActor;

/// Interval of looks whether something is due although nothing has come.
const LOOK_FOR_WORK_EVERY: Duration = Duration::from_secs(1);
/// The kernel's name of the start of the host since which it runs.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// CPUs in use: a host with other ones may need other settings.
const CPUS: &str = "/sys/devices/system/cpu/online";

/// Changes of the host, as controllers order them. Its thread ends with the process.
pub(super) struct ChangeDesk {
    shared: Arc<Shared>,
    allowed: Vec<ActKind>,
    reported: Option<Said>,
}

struct Shared {
    state: Mutex<DeskState>,
    wake: Condvar,
}

/// What the threads tell each other.
#[derive(Default)]
struct DeskState {
    /// The last orders, if they have not been taken yet.
    orders: Option<NewOrders>,
    /// Controllers that were heard after an attempt had been applied.
    heard: Vec<HeardAttempt>,
    said: Said,
    waiting: Vec<WaitingAttempt>,
}

/// Orders of one turn.
struct NewOrders {
    changes: Vec<ChangeOrder>,
    standard: Option<StandardOrder>,
}

/// What the host says.
#[derive(Clone, Default, PartialEq, Eq)]
struct Said {
    words: Vec<ChangeWord>,
    aside: Vec<AsideWord>,
    standard: Option<StandardReport>,
}

/// An attempt that is applied and waits for a controller.
struct WaitingAttempt {
    id: CourseId,
    attempt: u32,
    /// The turns so far when it was first reported: an answer to a later one was made after it.
    after: Option<u64>,
}

/// An attempt of which a controller has been heard.
struct HeardAttempt {
    id: CourseId,
    attempt: u32,
    /// The version of the order.
    version: u64,
}

impl ChangeDesk {
    /// Starts its thread.
    pub(super) fn start(
        settings: &TuneSettings,
        upgrade: Option<HostUpgrade>,
        store: &AgentStore,
        say: SayLine,
    ) -> Result<ChangeDesk, ChangeDeskError> {
        let is_root = rustix::process::geteuid().is_root();
        let (records, known) = RecordStore::open(store.clone())?;
        let mut allowed = if settings.apply && is_root { vec![ActKind::Tune] } else { Vec::new() };
        allowed.extend(upgrade.as_ref().map(|_| ActKind::Upgrade));
        let actors = HostActors { tuner: TunerActor::new(settings, store.clone()), upgrade };
        if settings.apply && !is_root {
            say(
                LogLevel::Warning,
                "[tune] apply: the agent does not run as root, so it does not change the host",
            );
        }
        let boot = std::fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned();
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() });
        let work = ChangeWork {
            shared: Arc::clone(&shared),
            courses: known.changes.into_iter().map(ChangeCourse::new).collect(),
            standard: Standard::new(known.standard, refusals(settings, is_root)),
            cpus: String::new(),
            records,
            actors,
            named: Vec::new(),
            boot,
            clock: Stopwatch::start(),
            say,
        };
        let thread = std::thread::Builder::new().name("changes".to_owned());
        thread.spawn(move || work.run()).map_err(ChangeDeskError::Thread)?;
        Ok(ChangeDesk { shared, allowed, reported: None })
    }

    /// Takes the orders that a controller has answered this turn with.
    pub(super) fn on_orders(
        &mut self,
        mut orders: Vec<ChangeOrder>,
        standard: Option<StandardOrder>,
        turn: u64,
    ) {
        // A controller that names more is not honest; the newest ones are those under way. None orders what the agent makes itself.
        orders.retain(|order| !matches!(order.act, HostAct::Standard { .. }));
        orders.sort_by_key(|order| std::cmp::Reverse(order.order.change));
        orders.truncate(CHANGES_MAX);
        let mut state = self.shared.lock();
        let answered = state.waiting.iter().filter(|waiting| waiting.after.is_some_and(|after| after < turn));
        let heard = answered.filter_map(|waiting| {
            let version = match waiting.id {
                CourseId::Change(number) => {
                    let order = &orders.iter().find(|order| order.order.change == number)?.order;
                    (order.attempt == Some(waiting.attempt)).then_some(order.version)?
                }
                // One of another standard is ended when the orders are taken.
                CourseId::Standard(_) => standard.as_ref().map(|_| STANDARD_VERSION)?,
            };
            Some(HeardAttempt { id: waiting.id, attempt: waiting.attempt, version })
        });
        let heard: Vec<HeardAttempt> = heard.collect();
        state.heard.extend(heard);
        state.orders = Some(NewOrders { changes: orders, standard });
        self.shared.wake.notify_all();
    }

    /// Writes what is to be said into a report, and whether a controller waits for it.
    pub(super) fn report(&mut self, report: &mut TurnReport) -> bool {
        let mut state = self.shared.lock();
        // What it says is the same as while it was at work, and a controller has to be heard after it was done.
        let is_done_now = state.waiting.iter().any(|waiting| waiting.after.is_none());
        for waiting in &mut state.waiting {
            waiting.after.get_or_insert(report.turn);
        }
        let new = state.said.clone();
        let is_news = self.reported.as_ref().is_some_and(|before| *before != new) || is_done_now;
        self.reported = Some(new.clone());
        let Said { words, aside, standard } = new;
        report.changes = Some(ChangesReport { allowed: self.allowed.clone(), words, aside });
        report.standard = standard.or(Some(StandardReport { wish: None, word: StandardWord::Unknown }));
        is_news
    }
}

/// Why an agent with this file does not do what a standard needs.
fn refusals(settings: &TuneSettings, is_root: bool) -> StandardRefusals {
    let not_root = || "the agent does not run as root".to_owned();
    let not_there =
        |what: &str| format!("the agent's file does not allow it: [tune] {what} = true is not there");
    match settings {
        TuneSettings { apply: true, .. } if is_root => StandardRefusals::default(),
        TuneSettings { apply: true, .. } | TuneSettings { plan: true, .. } if !is_root => {
            StandardRefusals { plan: Some(not_root()), act: Some(not_root()) }
        }
        TuneSettings { plan: true, .. } => StandardRefusals { plan: None, act: Some(not_there("apply")) },
        _ => StandardRefusals { plan: Some(not_there("apply")), act: Some(not_there("apply")) },
    }
}

/// Why changes of the host cannot be carried out.
pub(super) enum ChangeDeskError {
    /// What was kept of them cannot be read.
    State(AgentStateError),
    /// The system has no thread left.
    Thread(std::io::Error),
}

impl From<AgentStateError> for ChangeDeskError {
    fn from(error: AgentStateError) -> ChangeDeskError {
        ChangeDeskError::State(error)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What carries out each kind of act.
struct HostActors {
    tuner: TunerActor,
    upgrade: Option<HostUpgrade>,
}

impl HostActors {
    /// What of a change does not stay.
    fn aside(&self, change: &ChangeOrder) -> Option<String> {
        match change.act.kind() {
            ActKind::Tune => self.tuner.aside(change),
            ActKind::Upgrade => None,
        }
    }

    fn of(&mut self, act: &HostAct) -> Result<&mut dyn HostActor, String> {
        match act.kind() {
            ActKind::Tune => Ok(&mut self.tuner),
            ActKind::Upgrade => match &mut self.upgrade {
                Some(upgrade) => Ok(upgrade),
                None => Err("the agent's file does not allow it: [upgrade] is not there".to_owned()),
            },
        }
    }
}

/// The thread's own state.
struct ChangeWork {
    shared: Arc<Shared>,
    /// By their ids: that of the standard, if there is one, is the last.
    courses: Vec<ChangeCourse>,
    standard: Standard,
    /// CPUs in use at the last look.
    cpus: String,
    records: RecordStore,
    actors: HostActors,
    /// Changes that the last orders name.
    named: Vec<CourseId>,
    boot: String,
    clock: Stopwatch,
    say: SayLine,
}

impl ChangeWork {
    fn run(mut self) {
        loop {
            self.take();
            while self.step() {
                self.tell();
                self.take();
            }
            self.tell();
            if let Some(upgrade) = &mut self.actors.upgrade {
                upgrade.renew_agent();
            }
            let state = self.shared.lock();
            if state.orders.is_none() {
                // Whatever has come is looked at in the next round.
                drop(self.shared.wake.wait_timeout(state, LOOK_FOR_WORK_EVERY));
            }
        }
    }

    /// Takes what has come.
    fn take(&mut self) {
        let (orders, heard) = {
            let mut state = self.shared.lock();
            (state.orders.take(), std::mem::take(&mut state.heard))
        };
        let before = self.kept();
        if let Some(NewOrders { changes, standard }) = orders {
            self.named = changes.iter().map(|order| CourseId::Change(order.order.change)).collect();
            for order in changes {
                self.take_order(&order);
            }
            self.forget();
            let now = self.now();
            self.standard.take(standard, now);
            self.end_other_standard();
        }
        for heard in heard {
            if let Some(course) = self.course(heard.id) {
                course.hear(heard.attempt, heard.version);
            }
        }
        self.follow_standard();
        self.keep_if_changed(&before);
    }

    /// An attempt at another standard than the present one goes back, if it is not kept yet. What is kept stays: nobody has asked to undo it.
    /// Without a standard all stays known, for a controller that has just begun may not know the host's yet: what is under way goes back by its
    /// deadline, and what a person has taken back is not forgotten.
    fn end_other_standard(&mut self) {
        let (Some(at), Some(wanted)) = (self.standard_at(), self.standard.wish()) else { return };
        let HostAct::Standard { wish, .. } = &self.courses[at].record().order.act else { return };
        if wish == wanted {
            return;
        }
        if self.courses[at].is_under_way() {
            self.courses[at].end();
        } else {
            self.courses.remove(at);
        }
    }

    /// Takes what has become of the standard's attempt, and whether the host is another one than before.
    fn follow_standard(&mut self) {
        let (now, course) = (self.now(), self.standard_at());
        self.standard.settle(course.map(|at| &self.courses[at]), now);
        if self.standard.wish().is_none() {
            return;
        }
        // Where it cannot be read, the hourly plan finds it.
        let cpus = std::fs::read_to_string(CPUS).unwrap_or_default();
        if cpus != self.cpus {
            self.cpus = cpus;
            self.standard.plan_soon(now);
        }
        // It was not kept, and the host meets its standard all the same.
        if let Some(at) = course
            && self.standard.is_met()
            && self.courses[at].is_as_before()
        {
            self.courses.remove(at);
        }
    }

    fn standard_at(&self) -> Option<usize> {
        self.courses.iter().position(|course| matches!(course.record().id(), CourseId::Standard(_)))
    }

    fn take_order(&mut self, order: &ChangeOrder) {
        match self.course(CourseId::Change(order.order.change)) {
            Some(course) => {
                if let Err(why) = course.take(order) {
                    (self.say)(LogLevel::Warning, &why);
                }
            }
            None => {
                let course = ChangeCourse::new(ChangeRecord { order: order.clone(), tried: None });
                self.courses.push(course);
                self.courses.sort_by_key(|course| course.record().id());
            }
        }
    }

    /// Forgets the oldest changes that no controller names any more: those first of which nothing is on the host.
    fn forget(&mut self) {
        while self.courses.len() - usize::from(self.standard_at().is_some()) > CHANGES_MAX {
            let named = &self.named;
            let is_over = |course: &ChangeCourse| !named.contains(&course.record().id());
            let changes = || {
                let is_change = |course: &&ChangeCourse| matches!(course.record().id(), CourseId::Change(_));
                self.courses.iter().take_while(is_change)
            };
            let place = changes()
                .position(|course| is_over(course) && course.is_as_before())
                .or_else(|| changes().position(is_over))
                .unwrap_or(0);
            self.courses.remove(place);
        }
    }

    fn course(&mut self, id: CourseId) -> Option<&mut ChangeCourse> {
        self.courses.iter_mut().find(|course| course.record().id() == id)
    }

    /// Does what is most urgent. False if nothing is to be done.
    fn step(&mut self) -> bool {
        let now = self.now();
        let steps = self.courses.iter().enumerate().map(|(place, course)| (place, course.next(now)));
        let is_busy = |place: usize| {
            let others = self.courses.iter().enumerate().filter(|(other, _)| *other != place);
            others.into_iter().any(|(_, course)| course.is_under_way())
        };
        // The newest goes back first, the oldest is begun first.
        let ranked = steps.filter_map(|(place, step)| match step {
            CourseStep::Look => Some(((0, place), place, step)),
            CourseStep::GoBack(_) => Some(((1, usize::MAX - place), place, step)),
            CourseStep::Keep(_) => Some(((2, place), place, step)),
            // The tuner refuses a plan over one that it may take back by itself.
            CourseStep::Begin(_) if is_busy(place) && self.stuck_beside(place).is_none() => None,
            CourseStep::Begin(_) => Some(((3, place), place, step)),
            CourseStep::Rest => None,
        });
        let Some((_, place, step)) = ranked.min_by_key(|(rank, ..)| *rank) else {
            return self.step_standard();
        };
        let before = self.kept();
        self.carry_out(place, step);
        self.keep_if_changed(&before);
        true
    }

    /// Plans for the standard, or begins an attempt at it. False if nothing is to be done.
    fn step_standard(&mut self) -> bool {
        let (now, course) = (self.now(), self.standard_at());
        let is_change = |course: &&ChangeCourse| matches!(course.record().id(), CourseId::Change(_));
        let is_busy = self.courses.iter().filter(is_change).any(ChangeCourse::is_under_way);
        match self.standard.next(course.map(|at| &self.courses[at]), is_busy, (now, unix_s())) {
            StandardStep::Rest => return false,
            StandardStep::Plan(wish) => {
                let before = self.kept();
                let found = self.actors.tuner.plan_standard(&wish);
                let now = self.now();
                self.standard.planned(found, now);
                self.keep_if_changed(&before);
            }
            StandardStep::Begin(own) => self.begin_standard(own),
        }
        true
    }

    /// What the host says of its standard. While a change is under way of which controllers know, they wait for that; of any other one they
    /// would wait in vain for the host to use what it may.
    fn standard_word(&self) -> StandardWord {
        let word = self.standard.word(self.standard_at().map(|at| &self.courses[at]), unix_s());
        let is_waiting =
            matches!(word, StandardWord::Unknown | StandardWord::Lacks { .. } | StandardWord::Drifted { .. });
        let is_unknown = |course: &&ChangeCourse| {
            let id = course.record().id();
            matches!(id, CourseId::Change(_)) && course.is_under_way() && !self.named.contains(&id)
        };
        let waits = is_waiting && self.standard.wish().is_some();
        let Some(course) = self.courses.iter().filter(|_| waits).find(is_unknown) else { return word };
        let why = course.trouble().unwrap_or("it is not over here, and controllers know of it no more");
        StandardWord::SteppedAside { reason: format!("{} is in the way: {why}", course.record().id()) }
    }

    /// Begins an attempt at once or not at all: a later moment may be one at which the host is frozen.
    fn begin_standard(&mut self, own: AnswerDigest) {
        let Some(record) = self.standard.begin(own, unix_s()) else { return };
        self.courses.retain(|course| matches!(course.record().id(), CourseId::Change(_)));
        self.courses.push(ChangeCourse::new(record));
        let place = self.courses.len() - 1;
        // The agent may have lost its folder, and with it the number of its last attempt.
        self.carry_out(place, CourseStep::Look);
        if let CourseStep::Begin(attempt) = self.courses[place].next(self.now()) {
            self.carry_out(place, CourseStep::Begin(attempt));
        } else if self.courses[place].is_blind() {
            let why = self.courses[place].trouble().unwrap_or_default().to_owned();
            self.courses.remove(place);
            let now = self.now();
            self.standard.not_begun(why, now);
        }
        if let Err(error) = self.keep() {
            (self.say)(LogLevel::Warning, &format!("keep changes of the host: {}", in_full(&error)));
        }
    }

    fn carry_out(&mut self, place: usize, step: CourseStep) {
        let order = self.courses[place].record().order.clone();
        let act = &order.act;
        let is_work = matches!(step, CourseStep::GoBack(_) | CourseStep::Begin(_));
        if is_work && matches!(act, HostAct::Tune { .. }) {
            let now = self.now();
            self.standard.note_change(now);
        }
        match step {
            CourseStep::Look => {
                let found = self.look(place, &order);
                let now = self.now();
                self.courses[place].looked(found, &self.boot, now);
                if matches!(act, HostAct::Standard { .. }) && self.actors.aside(&order).is_some() {
                    self.standard.plan_soon(now);
                }
            }
            CourseStep::GoBack(attempt) => {
                let gone = self.actors.of(act).and_then(|actor| {
                    self.courses[place].fails(actor.why_back(&order));
                    actor.go_back(&order, attempt)
                });
                let now = self.now();
                self.courses[place].has_gone_back(gone, now);
            }
            CourseStep::Keep(attempt) => {
                let kept = self.actors.of(act).and_then(|actor| actor.keep(&order, attempt));
                let now = self.now();
                self.courses[place].has_kept(kept, now);
            }
            CourseStep::Begin(attempt) => self.begin(place, attempt, &order),
            CourseStep::Rest => {}
        }
    }

    fn look(&mut self, place: usize, order: &ChangeOrder) -> Result<ActState, String> {
        let actor = self.actors.of(&order.act)?;
        let found = actor.look(order)?;
        match self.courses[place].may_be_unnoted() {
            // It cannot be taken back, and says so when that is tried.
            Some(attempt) if found == ActState::AsBefore && actor.is_there_unnoted(order)? => {
                Ok(ActState::There { attempt, phase: ActPhase::Interrupted })
            }
            _ => Ok(found),
        }
    }

    /// Another change that is under way and does not come to its end, in words.
    fn stuck_beside(&self, place: usize) -> Option<String> {
        let others = self.courses.iter().enumerate().filter(|(other, _)| *other != place);
        let mut stuck = others.filter_map(|(_, course)| {
            let why = course.trouble().filter(|_| course.is_under_way())?;
            Some(format!("{} is in the way: {why}", course.record().id()))
        });
        stuck.next()
    }

    fn begin(&mut self, place: usize, attempt: u32, order: &ChangeOrder) {
        if let Some(why) = self.stuck_beside(place) {
            self.courses[place].refuse(attempt, &self.boot, why);
            return;
        }
        self.courses[place].begin(attempt, &self.boot);
        // Otherwise an agent that is killed meanwhile would begin it again.
        if let Err(error) = self.keep() {
            let reason = format!("keep that it is begun: {}", in_full(&error));
            self.courses[place].refuse(attempt, &self.boot, reason);
            return;
        }
        self.tell();
        let begun = self.actors.of(&order.act).and_then(|actor| actor.begin(order, attempt));
        self.courses[place].has_begun(begun);
    }

    fn kept(&self) -> KeptRecords {
        let changes = self.courses.iter().map(|course| course.record().clone()).collect();
        KeptRecords { changes, standard: self.standard.record().clone() }
    }

    fn keep(&self) -> Result<(), AgentStateError> {
        self.records.keep(&self.kept())
    }

    /// A disk that takes nothing keeps no host from going back: what is not kept is found out from the host again.
    fn keep_if_changed(&self, before: &KeptRecords) {
        if self.kept() != *before
            && let Err(error) = self.keep()
        {
            (self.say)(LogLevel::Warning, &format!("keep changes of the host: {}", in_full(&error)));
        }
    }

    /// Says how the host is.
    fn tell(&self) {
        let change = |course: &ChangeCourse| match course.record().id() {
            CourseId::Change(number) => Some(number),
            CourseId::Standard(_) => None,
        };
        let word = |course: &ChangeCourse| {
            let own = Some(course.record().own().clone());
            Some(ChangeWord { change: change(course)?, own, word: course.word()? })
        };
        let words: Vec<ChangeWord> = self.courses.iter().filter_map(word).collect();
        let aside = |course: &ChangeCourse| {
            let record = course.record();
            let reason = course.kept().and_then(|_| self.actors.aside(&record.order))?;
            Some(AsideWord { change: change(course)?, own: Some(record.own().clone()), reason })
        };
        let aside: Vec<AsideWord> = self.courses.iter().filter_map(aside).collect();
        let wish = self.standard.wish().cloned();
        let standard = StandardReport { wish, word: self.standard_word() };
        let mut state = self.shared.lock();
        for AsideWord { change, reason, .. } in aside.iter().filter(|word| !state.said.aside.contains(word)) {
            (self.say)(
                LogLevel::Warning,
                &format!("change {change} of the host: something else works against it: {reason}"),
            );
        }
        for ChangeWord { change, word, .. } in words.iter().filter(|word| !state.said.words.contains(word)) {
            (self.say)(LogLevel::Info, &format!("change {change} of the host: {}", shown(word)));
        }
        if let Some(wish) = standard.wish.as_ref().filter(|_| state.said.standard.as_ref() != Some(&standard))
        {
            let (kind, name) = wish.words();
            (self.say)(LogLevel::Info, &format!("standard of the host, {kind} {name}: {}", standard.word));
        }
        state.said = Said { words, aside, standard: Some(standard) };
        let waiting = |course: &ChangeCourse| {
            let (id, attempt) = (course.record().id(), course.waiting()?);
            let known = state.waiting.iter().find(|known| (known.id, known.attempt) == (id, attempt));
            Some(WaitingAttempt { id, attempt, after: known.and_then(|known| known.after) })
        };
        let waiting = self.courses.iter().filter_map(waiting).collect();
        state.waiting = waiting;
    }

    fn now(&self) -> Now {
        Now { us: self.clock.passed().as_micros() as u64 }
    }
}

/// A word, for a line of the log.
fn shown(word: &HostWord) -> String {
    match word {
        HostWord::AsBefore => "it is as before".to_owned(),
        HostWord::Trying { attempt } => {
            format!("it has attempt {attempt}, and goes back unless a controller is heard")
        }
        HostWord::Changed { attempt } => format!("it keeps attempt {attempt}"),
        HostWord::Lapsed { attempt } => {
            format!("it has gone back by itself from attempt {attempt}: no controller was heard in time")
        }
        HostWord::Failed { attempt, reason } => format!("attempt {attempt} failed: {reason}"),
        HostWord::Stuck { reason } => format!("it is stuck: {reason}"),
    }
}

#[cfg(test)]
mod tests;
