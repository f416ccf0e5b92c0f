//! Cells of an experiment, and the baseline that each is compared with.
//!
//! A factor that changes nothing but the load (sixteen threads or thirty-two) is a *condition*: a cell is compared with
//! the baseline under the same conditions, and so is one that says so. Everything else is *treatment*. Where only the load varies, it is the
//! factor under test, and all cells are compared with the first.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{Experiment, Factor, Level, Subject};
use crate::record::TrialRecord;

/// A subject with a level of each factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The subject's name.
    pub subject: String,
    /// The level of each factor.
    pub levels: BTreeMap<String, String>,
    /// The treatment, for people.
    pub treatment: String,
    /// The conditions, for people; empty: there are none.
    pub condition: String,
}

impl Cell {
    /// Whether it is a trial of this cell.
    pub fn holds(&self, record: &TrialRecord) -> bool {
        self.subject == record.subject && self.levels == record.levels
    }

    /// Treatment and condition, for people.
    pub fn name(&self) -> String {
        let parts = [&self.treatment, &self.condition].into_iter().filter(|part| !part.is_empty());
        parts.cloned().collect::<Vec<_>>().join(", ")
    }
}

/// All cells in the order of the experiment's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The cells; those of a condition stand together.
    pub cells: Vec<Cell>,
    /// Names of the factors that are conditions.
    pub conditions: BTreeSet<String>,
    /// Whether nothing but the load varies, so that there are no conditions.
    pub load_is_the_question: bool,
}

impl Design {
    /// The design of an experiment's file.
    pub fn of(experiment: &Experiment) -> Design {
        let only_load: Vec<&Factor> =
            experiment.factors.iter().filter(|factor| is_condition(factor, experiment)).collect();
        let load_is_the_question =
            experiment.subjects.len() == 1 && only_load.len() == experiment.factors.len();
        let conditions: BTreeSet<String> = match load_is_the_question {
            true => BTreeSet::new(),
            false => only_load.iter().map(|factor| factor.name.clone()).collect(),
        };
        let is_condition = |factor: &&Factor| conditions.contains(&factor.name);
        let outer: Vec<&Factor> = experiment.factors.iter().filter(is_condition).collect();
        let inner: Vec<&Factor> = experiment.factors.iter().filter(|factor| !is_condition(factor)).collect();
        let mut cells = Vec::new();
        for condition in combinations(&outer) {
            for subject in &experiment.subjects {
                for treatment in combinations(&inner) {
                    if !takes_part(experiment, subject, condition.iter().chain(&treatment)) {
                        continue;
                    }
                    let subject_name =
                        (experiment.subjects.len() > 1 || treatment.is_empty()).then(|| subject.name.clone());
                    let words = subject_name.into_iter().chain(treatment.iter().map(say));
                    cells.push(Cell {
                        subject: subject.name.clone(),
                        levels: condition.iter().chain(&treatment).cloned().collect(),
                        treatment: words.collect::<Vec<_>>().join(", "),
                        condition: condition.iter().map(say).collect::<Vec<_>>().join(", "),
                    });
                }
            }
        }
        Design { cells, conditions, load_is_the_question }
    }

    /// The baseline of a cell: the first one under its conditions.
    pub fn baseline(&self, cell: &Cell) -> &Cell {
        let first = self.cells.iter().find(|other| other.condition == cell.condition);
        first.expect("the cell itself is one")
    }

    /// The conditions in order, each once; one that is empty if there are none.
    pub fn condition_names(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| &*cell.condition))
    }

    /// The treatments in order, each once.
    pub fn treatment_names(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| &*cell.treatment))
    }
}

fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn say((factor, level): &(String, String)) -> String {
    format!("{factor}={level}")
}

/// Whether all of these levels are for this subject.
fn takes_part<'l>(
    experiment: &Experiment,
    subject: &Subject,
    mut levels: impl Iterator<Item = &'l (String, String)>,
) -> bool {
    levels.all(|(factor, level)| {
        let factor = experiment.factors.iter().find(|it| it.name == *factor);
        let level = factor.and_then(|factor| factor.levels.iter().find(|it| it.name == *level));
        level.is_none_or(|level| level.takes(&subject.name))
    })
}

/// Every way to choose a level of each, the first factor varying slowest.
fn combinations(factors: &[&Factor]) -> Vec<Vec<(String, String)>> {
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for factor in factors {
        let longer = |chosen: &Vec<(String, String)>| {
            let chosen = chosen.clone();
            let levels = factor.levels.iter();
            levels
                .map(move |level| {
                    let one_more = (factor.name.clone(), level.name.clone());
                    chosen.iter().cloned().chain([one_more]).collect()
                })
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Whether cells are compared at the same level of it.
pub(crate) fn is_condition(factor: &Factor, experiment: &Experiment) -> bool {
    factor.condition.unwrap_or_else(|| changes_only_the_load(factor, experiment))
}

/// Whether its levels are only words for the workload's commands.
fn changes_only_the_load(factor: &Factor, experiment: &Experiment) -> bool {
    let mut words = factor.levels.iter().flat_map(|level| level.set.keys()).peekable();
    let subject_says = |word: &str| {
        let lines = |subject: &Subject| [&[subject.start.clone()][..], &subject.prepare].concat();
        experiment.subjects.iter().flat_map(lines).any(|line| line.contains(&format!("{{{word}}}")))
    };
    let only_words = factor.levels.iter().all(|level| {
        let bare = Level {
            name: level.name.clone(),
            set: level.set.clone(),
            subjects: level.subjects.clone(),
            must: level.must.clone(),
            ..Default::default()
        };
        *level == bare
    });
    only_words && words.peek().is_some() && words.all(|word| !subject_says(word))
}

#[cfg(test)]
mod tests;
