//! Table of the last words of hosts: in memory only, because hosts say them again in every turn.
//!
//! What is not known is never taken for what is wanted: a host that is not heard from is neither changed nor as before.

use stdx::clock::Now;

use super::figures::{FigureWindow, HostFigures, Logs};
use super::progress::ToldHost;
use super::types::{HostWord, LeftOut};

/// Times that a host may go back by itself before nobody tells it again.
const LAPSES_MAX: u32 = 2;

/// All hosts of the plan, by their places in it.
#[derive(Clone, Debug)]
pub(super) struct HostTable {
    rows: Vec<HostRow>,
    silence_ms: u64,
    /// The latest moment that was seen: a late event does not turn time back.
    pub(super) now: Now,
}

#[derive(Clone, Debug, Default)]
struct HostRow {
    word: Option<HostWord>,
    silent_since: Option<Now>,
    is_frozen: bool,
    plan_differs: bool,
    aside: Option<String>,
    has_left: bool,
    /// When the last order to it was in the register.
    ordered: Now,
    window: FigureWindow,
}

impl HostTable {
    /// Nobody has been heard yet.
    pub(super) fn new(hosts: usize, silence_ms: u64, now: Now) -> HostTable {
        let row = HostRow { silent_since: Some(now), ordered: now, ..HostRow::default() };
        HostTable { rows: vec![row; hosts], silence_ms, now }
    }

    /// True if it is news.
    pub(super) fn say(&mut self, place: usize, word: HostWord) -> bool {
        let row = &mut self.rows[place];
        let was_silent = row.silent_since.take().is_some();
        let is_news = row.word.as_ref() != Some(&word);
        row.word = Some(word);
        is_news || was_silent
    }

    /// It is heard, and how it is is not known.
    pub(super) fn say_nothing(&mut self, place: usize) -> bool {
        let row = &mut self.rows[place];
        let was_silent = row.silent_since.take().is_some();
        row.word.take().is_some() || was_silent
    }

    pub(super) fn fall_silent(&mut self, place: usize, since: Now) -> bool {
        let row = &mut self.rows[place];
        row.silent_since.is_none() && row.silent_since.replace(since).is_none()
    }

    pub(super) fn freeze(&mut self, place: usize, is_frozen: bool) -> bool {
        std::mem::replace(&mut self.rows[place].is_frozen, is_frozen) != is_frozen
    }

    pub(super) fn differ(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.rows[place].plan_differs, true)
    }

    pub(super) fn step_aside(&mut self, place: usize, reason: Option<String>) -> bool {
        let is_aside = reason.is_some();
        std::mem::replace(&mut self.rows[place].aside, reason).is_some() != is_aside
    }

    pub(super) fn leave(&mut self, place: usize) -> bool {
        !std::mem::replace(&mut self.rows[place].has_left, true)
    }

    /// True if a figure of it has become known.
    pub(super) fn measure(&mut self, place: usize, figures: &HostFigures) -> bool {
        self.rows[place].window.add(figures)
    }

    pub(super) fn forget_figures(&mut self) {
        self.rows.iter_mut().for_each(|row| row.window = FigureWindow::default());
    }

    pub(super) fn figures(&self, place: usize) -> Logs {
        self.rows[place].window.means()
    }

    /// An order to it is in the register from now on.
    pub(super) fn order(&mut self, place: usize) {
        self.rows[place].ordered = self.now;
    }

    /// When the last order to it was in the register.
    pub(super) fn ordered(&self, place: usize) -> Now {
        self.rows[place].ordered
    }

    pub(super) fn has_left(&self, place: usize) -> bool {
        self.rows[place].has_left
    }

    /// Not heard for so long that nobody waits for it.
    pub(super) fn is_away(&self, place: usize) -> bool {
        self.away_at(place).is_some_and(|at| at <= self.now)
    }

    /// When nobody will wait for it any more, if it stays silent.
    pub(super) fn away_at(&self, place: usize) -> Option<Now> {
        self.rows[place].silent_since.map(|since| after(since, self.silence_ms))
    }

    fn is_heard(&self, place: usize) -> bool {
        self.rows[place].silent_since.is_none()
    }

    /// Silent, but not for long enough to go on without it.
    pub(super) fn is_unknown(&self, place: usize) -> bool {
        !self.is_heard(place) && !self.is_away(place) && !self.rows[place].has_left
    }

    /// It has said of this attempt that it keeps it, and is heard.
    pub(super) fn is_changed(&self, place: usize, told: ToldHost) -> bool {
        let is_said = |word: &HostWord| *word == HostWord::Changed { attempt: told.attempt };
        told.is_on && self.is_heard(place) && self.rows[place].word.as_ref().is_some_and(is_said)
    }

    /// It has said that it is at work on this attempt, and is heard.
    pub(super) fn is_trying(&self, place: usize, told: ToldHost) -> bool {
        let is_said = |word: &HostWord| *word == HostWord::Trying { attempt: told.attempt };
        told.is_on && self.is_heard(place) && self.rows[place].word.as_ref().is_some_and(is_said)
    }

    /// It has said last that it keeps this attempt, or has said nothing to this controller.
    pub(super) fn may_keep(&self, place: usize, told: ToldHost) -> bool {
        let is_said = |word: &HostWord| *word == HostWord::Changed { attempt: told.attempt };
        self.rows[place].word.as_ref().is_none_or(is_said)
    }

    /// It has said that it is as before, and is heard.
    pub(super) fn is_as_before(&self, place: usize) -> bool {
        let is_said = |word: &HostWord| {
            matches!(word, HostWord::AsBefore | HostWord::Lapsed { .. } | HostWord::Failed { .. })
        };
        self.is_heard(place) && self.rows[place].word.as_ref().is_some_and(is_said)
    }

    /// It cannot go back, as it says.
    pub(super) fn is_stuck(&self, place: usize) -> bool {
        matches!(self.rows[place].word, Some(HostWord::Stuck { .. }))
    }

    /// It cannot apply the change, or would change something else.
    pub(super) fn refuses(&self, place: usize, told: ToldHost) -> bool {
        let row = &self.rows[place];
        let has_failed = match &row.word {
            Some(HostWord::Failed { attempt, .. }) => *attempt == told.attempt,
            _ => false,
        };
        has_failed || (row.plan_differs && self.is_as_before(place))
    }

    /// It has gone back by itself from this attempt.
    pub(super) fn has_lapsed(&self, place: usize, told: ToldHost) -> bool {
        self.rows[place].word == Some(HostWord::Lapsed { attempt: told.attempt })
    }

    /// Why it does not get the change although its turn has come.
    pub(super) fn left_out(&self, place: usize, told: Option<ToldHost>) -> Option<LeftOut> {
        let row = &self.rows[place];
        let lapses = told.map_or(0, |told| told.lapses);
        match &row.word {
            _ if row.has_left => Some(LeftOut::Gone),
            _ if row.aside.is_some() => row.aside.clone().map(LeftOut::SteppedAside),
            _ if row.plan_differs => Some(LeftOut::PlanDiffers),
            Some(HostWord::Failed { reason, .. } | HostWord::Stuck { reason }) => {
                Some(LeftOut::Failed(reason.clone()))
            }
            _ if lapses >= LAPSES_MAX => Some(LeftOut::DoesNotConfirm),
            _ if row.is_frozen => Some(LeftOut::Frozen),
            _ if self.is_away(place) => Some(LeftOut::Silent),
            _ => None,
        }
    }

    /// It can be told now.
    pub(super) fn may_begin(&self, place: usize, told: Option<ToldHost>) -> bool {
        let is_free = !told.is_some_and(|told| told.is_on);
        is_free && self.is_as_before(place) && self.left_out(place, told).is_none()
    }

    /// Its figures can stand for hosts without the change.
    pub(super) fn is_control(&self, place: usize) -> bool {
        let row = &self.rows[place];
        !row.has_left && row.aside.is_none() && !row.plan_differs && !self.is_away(place)
    }

    /// What is wrong with a host that was told, and whether that is more than silence.
    pub(super) fn trouble(&self, place: usize, told: ToldHost) -> Option<(bool, String)> {
        let row = &self.rows[place];
        match &row.word {
            _ if row.aside.is_some() => {
                row.aside.clone().map(|reason| (true, format!("it stepped aside: {reason}")))
            }
            Some(HostWord::Failed { attempt, reason }) if *attempt == told.attempt => {
                Some((true, format!("it could not apply it: {reason}")))
            }
            Some(HostWord::Stuck { reason }) => Some((true, format!("it is stuck: {reason}"))),
            // It was told to go back, because it was at work for too long.
            Some(HostWord::Trying { attempt })
                if *attempt == told.attempt && !told.is_on && told.lapses > 0 =>
            {
                Some((false, "it was at work on it and did not come to an end in time".to_owned()))
            }
            Some(HostWord::Lapsed { .. }) if told.lapses > 0 => {
                Some((false, "it went back by itself: it heard no controller in time".to_owned()))
            }
            _ if told.lapses > 0 => Some((
                false,
                "it did not say in time that it has it, and was told to be as before".to_owned(),
            )),
            _ if told.is_on && self.is_away(place) => Some((false, "it is not heard from".to_owned())),
            _ => None,
        }
    }
}

/// A moment that many milliseconds later.
pub(super) fn after(moment: Now, ms: u64) -> Now {
    Now { us: moment.us.saturating_add(ms.saturating_mul(1000)) }
}
