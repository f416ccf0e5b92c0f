//! The trial of one kind of hosts: its pairs, how many of them take part, and its turns where they are too few.
//!
//! A look needs as many units as its rung has. A unit is a pair, as long as there are pairs. When all pairs of the kind take part,
//! they go on in turns (on, off, off, on), and a unit is a pair and a block of four parts. Then the pairs are the whole kind, so that
//! nothing is said about hosts that were not measured.

use serde::{Deserialize, Serialize};

use super::figures::{FigureKind, Logs, less};
use super::judge::{Judgement, LookReport, LookVerdict};
use super::pairs::MatchedPair;
use super::plan::{ChangePlan, HostsAlike};
use super::settings::{RUNGS, WaveSettings};
use super::types::HaltCause;

/// The sign of each part of a block: on, off, off, on. What drifts evenly over the four is the same on both sides.
const SIGNS: [f64; 4] = [0.5, -0.5, -0.5, 0.5];
/// Blocks of one trial: with the default times they take eight hours.
const BLOCKS_MAX: usize = 24;

/// A kind of hosts on trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KindTrial {
    pub(super) kind: HostsAlike,
    pub(super) pairs: Vec<MatchedPair>,
    /// The kind has no other pairs.
    pub(super) is_whole: bool,
    /// So many of the pairs that can take part do.
    pub(super) used: usize,
    rung: usize,
    turns: Option<TurnBlocks>,
    /// The last wave in which it went on.
    pub(super) passed: Option<usize>,
    pub(super) looks: Vec<LookReport>,
}

/// Blocks of four parts, in which the hosts of all pairs have the change and have it not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct TurnBlocks {
    done: usize,
    part: usize,
    /// For each pair, what the parts of this block have given so far.
    sums: Vec<Logs>,
    units: Vec<Logs>,
}

/// What follows from a look.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TrialOutcome {
    /// Nothing more to find out in this wave.
    Passed,
    /// More pairs or another part of a turn have to run.
    Continues,
    /// Figures are missing.
    Waits(HaltCause),
    /// The change halts.
    Halts(HaltCause),
}

impl KindTrial {
    pub(super) fn new(kind: HostsAlike, pairs: Vec<MatchedPair>, plan: &ChangePlan) -> KindTrial {
        let settings = &plan.settings;
        let (is_whole, used) = (pairs.len() < settings.pairs_max, settings.units(0));
        let has_turns = plan.takes_turns && pairs.len() < settings.pairs;
        let turns = has_turns.then(|| TurnBlocks::of(pairs.len()));
        KindTrial { kind, pairs, is_whole, used, rung: 0, turns, passed: None, looks: Vec::new() }
    }

    /// Whether it has something to find out in a wave. A kind of which all pairs take part has no other hosts to look at.
    pub(super) fn is_due(&self, wave: usize) -> bool {
        self.passed != Some(wave) && (wave == 0 || !self.is_whole || self.used < self.pairs.len())
    }

    /// At least this share of its hosts takes part.
    pub(super) fn widen(&mut self, hosts: usize) {
        self.used = self.used.max(hosts.min(self.pairs.len()));
    }

    pub(super) fn takes_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// The changed hosts of its pairs have the change now.
    pub(super) fn is_on(&self) -> bool {
        self.turns.as_ref().is_none_or(|turns| SIGNS[turns.part] > 0.0)
    }

    /// A person lets it go on without an answer.
    pub(super) fn excuse(&mut self, wave: usize) {
        (self.passed, self.turns) = (Some(wave), None);
    }

    /// Pairs of which this is known before the change: all figures that are judged.
    pub(super) fn is_known(pair: &MatchedPair, settings: &WaveSettings) -> bool {
        settings.margins.keys().all(|figure| pair.before[*figure as usize].is_some())
    }

    /// A look, or a part of a turn: `differences` are those between the two hosts of each pair now; none of pairs that do not take part.
    /// When it is late, pairs without figures are not waited for any more.
    pub(super) fn look(
        &mut self,
        wave: usize,
        differences: &[Option<Logs>],
        judgement: &Judgement,
        is_late: bool,
    ) -> TrialOutcome {
        let mut report = match &mut self.turns {
            Some(turns) => match turns.part_over(differences, judgement.settings) {
                Err(figure) => return self.waits(differences, figure, judgement.settings),
                Ok(()) if !turns.is_enough(judgement.settings.units(self.rung)) => {
                    return TrialOutcome::Continues;
                }
                Ok(()) => judgement.look(wave, &turns.units, judgement.settings.pairs),
            },
            None => {
                let pairs = self.pairs.iter().zip(differences);
                let units: Vec<Logs> =
                    pairs.filter_map(|(pair, now)| now.map(|now| less(now, pair.before))).collect();
                let wanted = if is_late { 0 } else { judgement.settings.units(self.rung).min(units.len()) };
                judgement.look(wave, &units, wanted.max(judgement.settings.pairs))
            }
        };
        let report = match &mut report {
            Err(figure) if self.turns.is_some() => {
                return TrialOutcome::Halts(self.no_figures(differences, *figure, judgement.settings));
            }
            Err(figure) => return self.waits(differences, *figure, judgement.settings),
            Ok(report) => report.clone(),
        };
        let (verdict, words, kind) = (report.verdict.clone(), report.to_string(), self.kind.clone());
        self.looks.push(report);
        match verdict {
            LookVerdict::Better | LookVerdict::NotWorse => {
                self.excuse(wave);
                TrialOutcome::Passed
            }
            LookVerdict::Worse(figures) => {
                TrialOutcome::Halts(HaltCause::Worse { kind, figures, look: words })
            }
            LookVerdict::Undecided if self.grow(judgement) => TrialOutcome::Continues,
            LookVerdict::Undecided => TrialOutcome::Halts(HaltCause::CannotTell { kind, look: words }),
        }
    }

    /// Takes the next rung. False if there is none, or neither more pairs nor turns.
    fn grow(&mut self, judgement: &Judgement) -> bool {
        if self.rung + 1 == RUNGS {
            return false;
        }
        self.rung += 1;
        match &mut self.turns {
            Some(turns) => turns.done < BLOCKS_MAX,
            None if self.used < self.pairs.len() => {
                self.used = judgement.settings.units(self.rung).clamp(self.used + 1, self.pairs.len());
                true
            }
            None if self.is_whole && judgement.may_turn => {
                self.turns = Some(TurnBlocks::of(self.pairs.len()));
                true
            }
            None => false,
        }
    }

    fn waits(
        &self,
        differences: &[Option<Logs>],
        figure: FigureKind,
        settings: &WaveSettings,
    ) -> TrialOutcome {
        TrialOutcome::Waits(self.no_figures(differences, figure, settings))
    }

    fn no_figures(
        &self,
        differences: &[Option<Logs>],
        figure: FigureKind,
        settings: &WaveSettings,
    ) -> HaltCause {
        let is_known = |now: &&Option<Logs>| now.is_some_and(|now| now[figure as usize].is_some());
        let known = differences.iter().filter(is_known).count();
        let wanted = if self.turns.is_some() { 1 } else { settings.pairs };
        HaltCause::NoFigures { kind: self.kind.clone(), figure, known, wanted }
    }
}

impl TurnBlocks {
    fn of(pairs: usize) -> TurnBlocks {
        TurnBlocks { sums: vec![[Some(0.0); FigureKind::COUNT]; pairs], ..TurnBlocks::default() }
    }

    /// Adds what a part has given. A pair that misses one part is no unit of the block; if all miss it, a figure that is missing is named.
    fn part_over(&mut self, differences: &[Option<Logs>], settings: &WaveSettings) -> Result<(), FigureKind> {
        for figure in settings.margins.keys() {
            if differences.iter().flatten().all(|now| now[*figure as usize].is_none()) {
                return Err(*figure);
            }
        }
        let sign = SIGNS[self.part];
        for (sum, now) in self.sums.iter_mut().zip(differences) {
            let now = now.unwrap_or_default();
            *sum = std::array::from_fn(|figure| Some(sum[figure]? + sign * now[figure]?));
        }
        self.part += 1;
        if self.part == SIGNS.len() {
            let sums = std::mem::replace(self, TurnBlocks::of(self.sums.len()));
            let is_whole = |sum: &Logs| settings.margins.keys().all(|figure| sum[*figure as usize].is_some());
            let units = sums.units.into_iter().chain(sums.sums.into_iter().filter(is_whole));
            (self.done, self.units) = (sums.done + 1, units.collect());
        }
        Ok(())
    }

    /// There are so many units, or no more can come.
    fn is_enough(&self, wanted: usize) -> bool {
        self.part == 0 && (self.units.len() >= wanted || self.done >= BLOCKS_MAX)
    }
}
