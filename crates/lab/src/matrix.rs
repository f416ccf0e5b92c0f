//! All trials of an experiment, in the order in which they run. Pure.
//!
//! A cell is a subject with one level of each factor. In a round every cell has one trial, so that each round gives a
//! pair for each comparison. The order of a round is drawn, and the next round is its mirror image (A B B A): what
//! drifts slowly adds to one pair what it takes from the next.

use crate::experiment::{Experiment, Level, Subject};
use crate::record::Record;
use std::collections::BTreeMap;
use tuner::tournament::order;

/// What a trial is about: a subject, and one level of each factor, as places in the experiment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    subject: usize,
    levels: Vec<usize>,
}

/// One turn of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its place in the order of all trials, from 0.
    pub place: u32,
    /// From 0.
    pub round: u32,
    /// What runs.
    pub cell: Cell,
}

impl Cell {
    /// Its subject.
    pub fn subject<'e>(&self, experiment: &'e Experiment) -> &'e Subject {
        &experiment.subjects[self.subject]
    }

    /// Each factor's name with the level that it has here.
    pub fn levels<'e>(&self, experiment: &'e Experiment) -> Vec<(&'e str, &'e Level)> {
        let factors = experiment.factors.iter().zip(&self.levels);
        factors.map(|(factor, level)| (factor.name.as_str(), &factor.levels[*level])).collect()
    }

    /// Subject and levels, as a row of a table has them.
    pub fn name(&self, experiment: &Experiment) -> String {
        let levels =
            self.levels(experiment).into_iter().map(|(factor, level)| format!("{factor}={}", level.name));
        std::iter::once(self.subject(experiment).name.clone()).chain(levels).collect::<Vec<_>>().join(" ")
    }

    /// By name, as a record has them.
    pub fn level_names(&self, experiment: &Experiment) -> BTreeMap<String, String> {
        let levels = self.levels(experiment).into_iter();
        levels.map(|(factor, level)| (factor.to_owned(), level.name.clone())).collect()
    }

    /// Whether a record is of this cell.
    pub fn is_of(&self, record: &Record, experiment: &Experiment) -> bool {
        record.subject == self.subject(experiment).name && record.levels == self.level_names(experiment)
    }
}

/// Every combination, the first subject and the first levels first, the last factor changing fastest.
pub fn cells(experiment: &Experiment) -> Vec<Cell> {
    let subjects = (0..experiment.subjects.len()).map(|subject| Cell { subject, levels: Vec::new() });
    experiment.factors.iter().fold(subjects.collect(), |cells: Vec<Cell>, factor| {
        let with = |cell: Cell| {
            (0..factor.levels.len()).map(move |level| {
                let levels = cell.levels.iter().copied().chain([level]).collect();
                Cell { levels, ..cell }
            })
        };
        cells.into_iter().flat_map(with).collect()
    })
}

/// All rounds.
pub fn turns(experiment: &Experiment) -> Vec<Turn> {
    let cells = cells(experiment);
    let repeat = &experiment.repeat;
    let rounds = order(cells.len(), repeat.rounds, repeat.seed).into_iter().zip(0..);
    let all = rounds.flat_map(|(places, round)| places.into_iter().map(move |cell| (round, cell)));
    all.zip(0..).map(|((round, cell), place)| Turn { place, round, cell: cells[cell].clone() }).collect()
}

/// One more turn for each trial that does not count, in their order, after all others. `records` are those that there
/// are; repeats of repeats are not made.
pub fn repeats(turns: &[Turn], records: &BTreeMap<u32, Record>) -> Vec<Turn> {
    let doubtful = turns.iter().filter(|turn| records.get(&turn.place).is_some_and(|it| !it.is_valid()));
    let places = turns.len() as u32..;
    doubtful.zip(places).map(|(turn, place)| Turn { place, ..turn.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;

    fn experiment() -> Experiment {
        let factor = |name: &str| {
            format!(
                "[[factor]]\nname = \"{name}\"\n[[factor.level]]\nname = \"off\"\n[[factor.level]]\nname = \"on\"\n"
            )
        };
        let text = format!("{MINIMAL}[repeat]\nrounds = 3\n{}{}", factor("a"), factor("b"));
        Experiment::parse(&text).expect("an experiment")
    }

    #[test]
    fn every_combination_is_a_cell() {
        let experiment = experiment();
        let names: Vec<_> = cells(&experiment).iter().map(|cell| cell.name(&experiment)).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[..3], ["epoll a=off b=off", "epoll a=off b=on", "epoll a=on b=off"]);
        assert_eq!(names[7], "io_uring a=on b=on");
    }

    #[test]
    fn every_round_has_every_cell_and_places_count_through() {
        let experiment = experiment();
        let turns = turns(&experiment);
        assert!(turns.iter().zip(0..).all(|(turn, place)| turn.place == place && turn.round == place / 8));
        let round =
            |round: usize| turns[round * 8..][..8].iter().map(|turn| turn.cell.clone()).collect::<Vec<_>>();
        let mirrored: Vec<_> = round(0).into_iter().rev().collect();
        assert_eq!(round(1), mirrored);
        for number in 0..3 {
            let mut cells_of_round = round(number);
            cells_of_round.sort();
            assert_eq!(cells_of_round, cells(&experiment));
        }
    }

    #[test]
    fn what_does_not_count_is_repeated_once_at_the_end() {
        let experiment = experiment();
        let turns = turns(&experiment);
        let record = |doubts: &[&str]| Record {
            doubts: doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
            ..Record::default()
        };
        let mut records: BTreeMap<u32, Record> = turns.iter().map(|turn| (turn.place, record(&[]))).collect();
        assert!(repeats(&turns, &records).is_empty());
        records.insert(20, record(&["steal"]));
        records.insert(5, record(&["steal"]));
        let again = repeats(&turns, &records);
        assert_eq!(again.iter().map(|turn| turn.place).collect::<Vec<_>>(), [24, 25]);
        assert_eq!((&again[0].cell, again[0].round), (&turns[5].cell, 0));
        assert_eq!((&again[1].cell, again[1].round), (&turns[20].cell, 2));
        // A repeat that is doubtful, too, changes nothing.
        records.insert(24, record(&["steal"]));
        assert_eq!(repeats(&turns, &records), again);
    }
}
