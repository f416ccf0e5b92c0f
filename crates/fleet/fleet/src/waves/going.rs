//! The way forward of a change: figures before it, canaries, shares, zones, looks.

use std::collections::BTreeSet;

use super::FleetChange;
use super::figures::{Logs, less};
use super::hosts::after;
use super::judge::Judgement;
use super::pairs::{self, MatchedPair};
use super::progress::{ChangeStage, ToldHost};
use super::trial::{KindTrial, TrialOutcome};
use super::types::{ChangeWave, HaltCause};

/// A host in a hundred may fall silent with a change that has reached many: so many do on any day.
const LOST_PERCENT: usize = 5;
/// As many may be lost of a small number, also where no host may fail with it: a host that falls silent says nothing about the change.
const LOST_LEAST: usize = 2;
/// A host that says that it is at work gets so many times the time to confirm.
const WORK_TIMES: u64 = 4;

impl FleetChange {
    /// One decision, if there is one to be made.
    pub(super) fn go_on(&mut self) -> bool {
        if self.forget_gone() || self.forget_failed() {
            return true;
        }
        if let Some(cause) = self.trouble() {
            return self.halt(cause);
        }
        if !self.progress.is_drawn {
            return self.draw();
        }
        if self.tell() {
            self.settle(None);
            return true;
        }
        if self.awaited().is_some() {
            if self.settled_since.is_some() {
                self.settle(None);
            }
            return false;
        }
        let Some(since) = self.settled_since else {
            self.settle(Some(self.hosts.now));
            return false;
        };
        if after(since, self.hold_ms()) > self.hosts.now {
            return false;
        }
        // What has been measured meanwhile is judged when it is allowed to go on.
        if !self.withheld.is_empty() {
            return false;
        }
        let is_decided = if self.progress.is_measured { self.end_step() } else { self.measure() };
        if is_decided {
            self.settle(None);
        }
        is_decided
    }

    /// Whose turn it is.
    pub(super) fn wave(&self) -> ChangeWave {
        let zones = pairs::zones(&self.plan);
        let zone = zones[self.progress.zone.min(zones.len() - 1)].clone();
        match self.progress.wave {
            _ if !self.progress.is_measured => ChangeWave::Baseline,
            0 => ChangeWave::Canaries,
            wave => match self.plan.settings.shares.get(wave - 1) {
                Some(percent) => ChangeWave::Share { percent: *percent, zone },
                None => ChangeWave::Rest { zone },
            },
        }
    }

    /// How long this step runs after all have the change.
    pub(super) fn hold_ms(&self) -> u64 {
        let settings = &self.plan.settings;
        if !self.progress.is_measured {
            return settings.baseline_ms;
        }
        let due = || self.due_trials().map(|trial| &self.progress.trials[trial]);
        if self.is_rest() || !self.is_last_zone() {
            settings.zone_ms
        } else if due().next().is_some() && due().all(KindTrial::takes_turns) {
            settings.turn_ms
        } else {
            settings.look_ms
        }
    }

    fn is_rest(&self) -> bool {
        self.progress.wave > self.plan.settings.shares.len()
    }

    /// Canaries are of all zones.
    fn is_last_zone(&self) -> bool {
        self.progress.wave == 0 || self.progress.zone + 1 >= pairs::zones(&self.plan).len()
    }

    fn due_trials(&self) -> impl Iterator<Item = usize> {
        let is_judged = !self.is_rest();
        let trials = self.progress.trials.iter().enumerate();
        trials
            .filter(move |(_, trial)| is_judged && trial.is_due(self.progress.wave))
            .map(|(number, _)| number)
    }

    /// What has to happen before the step's time begins: a host that has to become as it was told, or to be heard.
    pub(super) fn awaited(&self) -> Option<usize> {
        let told = self.progress.told.iter().find(|(place, told)| {
            let is_away = self.hosts.is_away(**place) || self.hosts.left_out(**place, None).is_some();
            !self.is_settled(**place, **told) && !is_away
        });
        let told = told.map(|(place, _)| *place);
        let unknown = || (0..self.plan.hosts.len()).find(|place| self.hosts.is_unknown(*place));
        told.or_else(unknown).or_else(|| self.blocked())
    }

    /// A host whose cluster has another one under way, which is away: it gets its turn when that one is back or gone.
    fn blocked(&self) -> Option<usize> {
        if !self.plan.restarts {
            return None;
        }
        let has_next = !self.next_hosts().is_empty();
        let under_way = self.progress.told.iter().find(|(place, told)| !self.is_settled(**place, **told));
        under_way.filter(|_| has_next).map(|(place, _)| *place)
    }

    /// Attempts that have come to nothing: the host is as before, and may get another one. A host that lives and says nothing of the attempt in
    /// time is taken as one that went back, which its journal does; one that says that it is at work gets longer.
    fn forget_failed(&mut self) -> bool {
        let (mut failed, mut lapsed) = (Vec::new(), Vec::new());
        for (place, told) in self.progress.told.iter().filter(|(_, told)| told.is_on) {
            let is_late = after(self.hosts.ordered(*place), self.late_ms(*place, *told)) <= self.hosts.now;
            let is_silent = self.hosts.away_at(*place).is_some();
            if self.hosts.refuses(*place, *told) {
                failed.push(*place);
            } else if self.hosts.has_lapsed(*place, *told)
                || (is_late && !is_silent && !self.hosts.is_changed(*place, *told))
            {
                lapsed.push(*place);
            }
        }
        for place in &lapsed {
            self.progress.told.entry(*place).and_modify(|told| told.lapses += 1);
        }
        let is_decided = !failed.is_empty() || !lapsed.is_empty();
        self.progress.turn_off(failed.into_iter().chain(lapsed));
        is_decided
    }

    /// How long after its order a host is late.
    pub(super) fn late_ms(&self, place: usize, told: ToldHost) -> u64 {
        let times = if self.hosts.is_trying(place, told) { WORK_TIMES } else { 1 };
        self.plan.settings.confirm_ms.saturating_mul(times)
    }

    fn trouble(&self) -> Option<HaltCause> {
        let told = self.progress.told.iter().filter(|(place, _)| !self.progress.excused.contains(place));
        let troubled = told.filter_map(|(place, told)| {
            self.hosts.trouble(*place, *told).map(|(is_evident, reason)| (*place, is_evident, reason))
        });
        let (evident, lost): (Vec<_>, Vec<_>) = troubled.partition(|(_, is_evident, _)| *is_evident);
        let most = self.plan.settings.troubled_max;
        let lost_most = most.max(LOST_LEAST).max(self.progress.told.len() * LOST_PERCENT / 100);
        let too_many =
            [(evident, most), (lost, lost_most)].into_iter().find(|(found, most)| found.len() > *most);
        let (found, _) = too_many?;
        let (place, _, reason) = found.first()?;
        let host = self.plan.hosts[*place].host.clone();
        Some(HaltCause::Troubled { hosts: found.len(), host, reason: reason.clone() })
    }

    /// Draws the pairs of each kind, as soon as all hosts are heard or away.
    fn draw(&mut self) -> bool {
        if (0..self.plan.hosts.len()).any(|place| self.hosts.is_unknown(place)) {
            return false;
        }
        let kinds = self.plan.judged_kinds();
        let may_take_part =
            |place: usize| self.hosts.may_begin(place, None) && !self.plan.hosts[place].is_last;
        let trials = kinds.map(|(kind, hosts)| {
            let pairs = pairs::draw(&self.plan, &hosts, may_take_part, self.plan.settings.pairs_max);
            KindTrial::new(kind, pairs, &self.plan)
        });
        self.progress.trials = trials.collect();
        self.progress.is_drawn = true;
        true
    }

    /// Keeps the figures before the change. Pairs without them take no part; if too few are left, nobody is changed.
    fn measure(&mut self) -> bool {
        let settings = &self.plan.settings;
        let begin = self.settled_since.unwrap_or(self.hosts.now);
        let is_late = after(begin, settings.baseline_ms + settings.figures_ms) <= self.hosts.now;
        let mut trials = self.progress.trials.clone();
        for trial in trials.iter_mut().filter(|trial| trial.passed.is_none()) {
            for pair in &mut trial.pairs {
                pair.before = less(self.hosts.figures(pair.changed), self.hosts.figures(pair.control));
            }
            let has_pairs = !trial.pairs.is_empty();
            let known = trial.pairs.iter().filter(|pair| KindTrial::is_known(pair, settings)).count();
            // Turns need no figures before: they go on and off.
            let wanted = if trial.takes_turns() { usize::from(!has_pairs) } else { settings.pairs };
            let is_short = known < wanted || (!is_late && !trial.takes_turns() && known < trial.pairs.len());
            if !is_short {
                continue;
            }
            if !is_late {
                return false;
            }
            let missing = settings.margins.keys().min_by_key(|figure| {
                trial.pairs.iter().filter(|pair| pair.before[**figure as usize].is_some()).count()
            });
            let Some(figure) = missing.copied() else { return false };
            return self.halt(HaltCause::NoFigures { kind: trial.kind.clone(), figure, known, wanted });
        }
        self.progress.trials = trials;
        self.progress.is_measured = true;
        true
    }

    /// Tells those whose turn has come, or whose part of a turn is without the change.
    fn tell(&mut self) -> bool {
        if !self.progress.is_measured {
            return false;
        }
        let off: Vec<usize> = self
            .due_trials()
            .map(|number| &self.progress.trials[number])
            .filter(|trial| !trial.is_on())
            .flat_map(|trial| self.taking_part(trial))
            .map(|pair| pair.changed)
            .filter(|place| self.progress.is_on(*place))
            .collect();
        let mut on = if self.withheld.is_empty() { self.next_hosts() } else { Vec::new() };
        if self.plan.restarts {
            let under_way =
                self.progress.told.iter().filter(|(place, told)| !self.is_settled(**place, **told));
            let under_way: Vec<usize> = under_way.map(|(place, _)| *place).collect();
            // A host that is away keeps nobody from a turn but those of its cluster: in a large fleet some host always is.
            let is_busy =
                under_way.iter().any(|place| self.plan.hosts[*place].is_last || !self.hosts.is_away(*place));
            self.leave_last(&mut on, is_busy);
            on = self.one_of_each_cluster(on.into_iter(), under_way.iter().copied());
        }
        if on.is_empty() && off.is_empty() {
            return false;
        }
        self.progress.turn_off(off);
        self.progress.turn_on(on);
        true
    }

    /// The rest of all zones have their turn.
    fn is_end(&self) -> bool {
        self.is_rest() && self.is_last_zone()
    }

    /// Hosts that come last get their turn one after the other, when no other one is to be told and none is under way.
    fn leave_last(&self, on: &mut Vec<usize>, is_busy: bool) {
        let is_last = |place: &usize| self.plan.hosts[*place].is_last;
        if on.iter().any(|place| !is_last(place)) || is_busy {
            on.retain(|place| !is_last(place));
        } else {
            on.truncate(1);
        }
    }

    /// Pairs of a trial that can give a figure, as many as it uses.
    fn taking_part<'t>(&'t self, trial: &'t KindTrial) -> impl Iterator<Item = &'t MatchedPair> {
        trial.pairs.iter().filter(move |pair| self.takes_part(trial, pair)).take(trial.used)
    }

    fn takes_part(&self, trial: &KindTrial, pair: &MatchedPair) -> bool {
        let told = self.progress.told.get(&pair.changed).copied();
        let is_on_trial = told.is_some() && self.hosts.is_control(pair.changed);
        let is_fit = self.hosts.left_out(pair.changed, told).is_none()
            || (is_on_trial && told.is_some_and(|told| told.is_on));
        let is_control = self.hosts.is_control(pair.control) && !self.progress.is_on(pair.control);
        let is_known = trial.takes_turns() || KindTrial::is_known(pair, &self.plan.settings);
        is_fit && is_control && is_known
    }

    /// Hosts whose turn has come and that can be told now.
    fn next_hosts(&self) -> Vec<usize> {
        let may_begin = |place: &usize| self.hosts.may_begin(*place, self.progress.told.get(place).copied());
        let trials = || self.due_trials().map(|number| &self.progress.trials[number]);
        let on_trial = trials()
            .filter(|trial| trial.is_on())
            .flat_map(|trial| self.taking_part(trial))
            .map(|pair| pair.changed);
        if self.progress.wave == 0 {
            return on_trial.filter(may_begin).collect();
        }
        let on_trial: BTreeSet<usize> = on_trial.collect();
        let zones = pairs::zones(&self.plan);
        let last = self.progress.zone.min(zones.len() - 1);
        let percent = self.plan.settings.shares.get(self.progress.wave - 1);
        let controls = self.progress.trials.iter().flat_map(|trial| &trial.pairs).map(|pair| pair.control);
        let controls: BTreeSet<usize> = controls.filter(|_| percent.is_some()).collect();
        let mut next = Vec::new();
        for zone in &zones[..=last] {
            let of_zone = (0..self.plan.hosts.len()).filter(|place| {
                let host = &self.plan.hosts[*place];
                host.zone == **zone && (!host.is_last || self.is_end())
            });
            let of_zone: Vec<usize> = of_zone.collect();
            let told = of_zone.iter().filter(|place| self.progress.is_on(**place)).count();
            let share = percent
                .map_or(of_zone.len(), |percent| (of_zone.len() * usize::from(*percent)).div_ceil(100));
            let free = of_zone.into_iter().filter(|place| may_begin(place) && !controls.contains(place));
            // Those on trial first, which are looked at.
            let mut order: Vec<_> =
                free.map(|place| (!on_trial.contains(&place), self.lot(place), place)).collect();
            order.sort_unstable();
            let wanted = share.saturating_sub(told);
            next.extend(order.into_iter().map(|(_, _, place)| place).take(wanted));
        }
        if self.is_last_zone() && percent.is_some() {
            let missing: Vec<usize> =
                on_trial.into_iter().filter(|place| may_begin(place) && !next.contains(place)).collect();
            next.extend(missing);
        }
        next
    }

    fn lot(&self, place: usize) -> u64 {
        pairs::lot(self.plan.number, self.plan.hosts[place].host.as_str())
    }

    /// The time of a step is over: the next zone, a look, or the next wave.
    fn end_step(&mut self) -> bool {
        if !self.is_last_zone() {
            self.progress.zone += 1;
            return true;
        }
        if self.is_rest() {
            self.progress.stage = ChangeStage::Done;
            return true;
        }
        match self.look() {
            TrialOutcome::Waits(_) => false,
            TrialOutcome::Halts(cause) => self.halt(cause),
            TrialOutcome::Continues => true,
            TrialOutcome::Passed => {
                self.progress.wave += 1;
                self.progress.zone = 0;
                if let Some(percent) = self.plan.settings.shares.get(self.progress.wave - 1) {
                    let kinds = self.plan.kinds();
                    for trial in &mut self.progress.trials {
                        let hosts = kinds.get(&trial.kind).map_or(0, Vec::len);
                        trial.widen((hosts * usize::from(*percent)).div_ceil(100));
                    }
                }
                true
            }
        }
    }

    /// Looks at all kinds that have something to find out. What one of them waits for, the others wait for, too.
    fn look(&mut self) -> TrialOutcome {
        let settings = &self.plan.settings;
        let since = self.settled_since.unwrap_or(self.hosts.now);
        let is_late = after(since, self.hold_ms() + settings.figures_ms) <= self.hosts.now;
        let judgement = Judgement {
            settings,
            promised: &self.plan.promised,
            kinds: self.progress.trials.len(),
            may_turn: self.plan.takes_turns,
        };
        let mut trials = self.progress.trials.clone();
        let mut overall = TrialOutcome::Passed;
        for number in self.due_trials() {
            let differences: Vec<Option<Logs>> = self.differences(&self.progress.trials[number]);
            let outcome = trials[number].look(self.progress.wave, &differences, &judgement, is_late);
            overall = match (overall, outcome) {
                (TrialOutcome::Halts(cause), _) | (_, TrialOutcome::Halts(cause)) => {
                    TrialOutcome::Halts(cause)
                }
                (TrialOutcome::Waits(cause), _) | (_, TrialOutcome::Waits(cause)) if is_late => {
                    TrialOutcome::Halts(cause)
                }
                (TrialOutcome::Waits(cause), _) | (_, TrialOutcome::Waits(cause)) => {
                    TrialOutcome::Waits(cause)
                }
                (TrialOutcome::Continues, _) | (_, TrialOutcome::Continues) => TrialOutcome::Continues,
                (TrialOutcome::Passed, TrialOutcome::Passed) => TrialOutcome::Passed,
            };
        }
        if !matches!(overall, TrialOutcome::Waits(_)) {
            self.progress.trials = trials;
        }
        overall
    }

    /// Differences between the two hosts of each pair now; none of a pair that does not take part.
    fn differences(&self, trial: &KindTrial) -> Vec<Option<Logs>> {
        let mut left = trial.used;
        let differences = trial.pairs.iter().map(|pair| {
            let told = self.progress.told.get(&pair.changed).copied();
            let is_settled = told.is_some_and(|told| self.is_settled(pair.changed, told));
            let is_on = told.is_some_and(|told| told.is_on) == trial.is_on();
            let takes_part = left > 0 && self.takes_part(trial, pair);
            left -= usize::from(takes_part);
            let is_compared = takes_part && is_settled && is_on && self.hosts.is_as_before(pair.control);
            is_compared.then(|| less(self.hosts.figures(pair.changed), self.hosts.figures(pair.control)))
        });
        differences.collect()
    }
}
