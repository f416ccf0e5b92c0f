//! Trial order: all trials of an experiment, in the order in which they run. Pure.
//!
//! A cell is a subject with one level of each factor. In a round every cell has one trial, so that each round gives a
//! pair for each comparison. The order of a round is random, and the next round is its mirror image (A B B A): a slow
//! drift adds to one pair the amount that it takes from the next.
//!
//! A trial that does not count is repeated when the others of its round are over, so that it is about as near to the
//! trials that it is compared with as these are to each other. After the whole run it would be hours away, and the
//! changes of the host since then would be in the pair; at once, the disturbance would have the least time to pass.
//!
//! Where servers keep running, those of one group have all rounds of a start, and then those of the next.

use super::standing;
use super::types::{Experiment, Level, Subject};
use crate::record::{TrialRecord, cell_name};
use std::collections::{BTreeMap, BTreeSet};
use tuner::verify::tournament::order;

/// A cell: a subject, and one level of each factor, as indices into the experiment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    subject: usize,
    levels: Vec<usize>,
}

/// One turn of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialTurn {
    /// Its place in the order of all trials, from 0.
    pub place: u32,
    /// From 0.
    pub round: u32,
    /// Earlier trials of this cell in this round, none of which counts.
    pub repeat: u32,
    /// The cell.
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

    /// Subject and levels, as in the row of a table.
    pub fn name(&self, experiment: &Experiment) -> String {
        cell_name(&self.subject(experiment).name, &self.level_names(experiment))
    }

    /// By name, as in a record.
    pub fn level_names(&self, experiment: &Experiment) -> BTreeMap<String, String> {
        let levels = self.levels(experiment).into_iter();
        levels.map(|(factor, level)| (factor.to_owned(), level.name.clone())).collect()
    }

    /// Whether a record is of this cell.
    pub fn is_of(&self, record: &TrialRecord, experiment: &Experiment) -> bool {
        record.subject == self.subject(experiment).name && record.levels == self.level_names(experiment)
    }
}

/// Every combination in which the subject takes part, the first subject and the first levels first, the last factor
/// changing fastest.
pub fn cells(experiment: &Experiment) -> Vec<Cell> {
    let subjects = (0..experiment.subjects.len()).map(|subject| Cell { subject, levels: Vec::new() });
    experiment.factors.iter().fold(subjects.collect(), |cells: Vec<Cell>, factor| {
        let with = |cell: Cell| {
            let subject = &experiment.subjects[cell.subject].name;
            let levels = (0..factor.levels.len()).filter(move |level| factor.levels[*level].takes(subject));
            levels.map(move |level| {
                let levels = cell.levels.iter().copied().chain([level]).collect();
                Cell { levels, ..cell }
            })
        };
        cells.into_iter().flat_map(with).collect()
    })
}

/// The cells of each round, in the order in which they run.
pub fn rounds(experiment: &Experiment) -> Vec<Vec<Cell>> {
    let cells = cells(experiment);
    let repeat = &experiment.repeat;
    let rounds = order(cells.len(), repeat.rounds, repeat.seed).into_iter();
    rounds.map(|places| places.into_iter().map(|place| cells[place].clone()).collect()).collect()
}

/// Rounds in the order in which they run, each with its number; where servers keep running, a round of each group.
fn stretches(experiment: &Experiment) -> Vec<(u32, Vec<Cell>)> {
    let rounds: Vec<(u32, Vec<Cell>)> = (0..).zip(rounds(experiment)).collect();
    let Some(of_a_start) = experiment.repeat.rounds_per_start else { return rounds };
    let mut groups: Vec<(BTreeMap<String, String>, BTreeSet<Cell>)> = Vec::new();
    for cell in cells(experiment) {
        let data = standing::data(experiment, &cell);
        match groups.iter_mut().find(|(other, _)| *other == data) {
            Some((_, members)) => drop(members.insert(cell)),
            None => groups.push((data, BTreeSet::from([cell]))),
        }
    }
    let mut stretches = Vec::new();
    for start in rounds.chunks(of_a_start as usize) {
        for (_, members) in &groups {
            let of_group = |(round, cells): &(u32, Vec<Cell>)| {
                (*round, cells.iter().filter(|cell| members.contains(cell)).cloned().collect())
            };
            stretches.extend(start.iter().map(of_group));
        }
    }
    stretches
}

/// The trials that are still to come, as far as known now: those without a record, and those whose records do not
/// count.
pub fn to_come(experiment: &Experiment, records: &BTreeMap<u32, TrialRecord>) -> Vec<TrialTurn> {
    let tallies = tallies(experiment, records);
    let (mut to_come, mut counted) = (Vec::new(), BTreeMap::new());
    let stretches = stretches(experiment);
    for (round, cells) in &stretches {
        let round = *round;
        let tally = |cell: &Cell| tallies.get(&(round, cell.clone()));
        // A cell that never counted in all earlier rounds will not count now either: such doubts come from the
        // experiment.
        let in_vain = |cell: &Cell| {
            let tally = tally(cell).filter(|tally| !tally.counts && counted.get(cell) != Some(&false));
            tally.map_or(0, |tally| tally.in_vain)
        };
        let new = cells.iter().filter(|cell| tally(cell).is_none()).map(|cell| (0, cell));
        let turns = new.chain(repeats(cells, in_vain, experiment.repeat.doubtful));
        to_come.extend(turns.map(|(repeat, cell)| (round, repeat, cell.clone())));
        for (cell, tally) in cells.iter().filter_map(|cell| Some((cell, tally(cell)?))) {
            *counted.entry(cell).or_default() |= tally.counts;
        }
    }
    let first = records.last_key_value().map_or(0, |(last, _)| last + 1);
    let turns = to_come.into_iter().zip(first..);
    turns.map(|((round, repeat, cell), place)| TrialTurn { place, round, repeat, cell }).collect()
}

/// One more trial of each cell whose trials in the round were all `in_vain`, with their number: the fewest first, and
/// each time through the round in the other direction, as rounds themselves do.
fn repeats(cells: &[Cell], in_vain: impl Fn(&Cell) -> u32, times_max: u32) -> Vec<(u32, &Cell)> {
    let tried = cells.iter().zip(0..).map(|(cell, place)| (in_vain(cell), place, cell));
    let mut repeats: Vec<(u32, i64, &Cell)> =
        tried.filter(|(times, ..)| (1..=times_max).contains(times)).collect();
    repeats.sort_by_key(|(times, place, _)| (*times, if times % 2 == 1 { -place } else { *place }));
    repeats.into_iter().map(|(times, _, cell)| (times, cell)).collect()
}

/// The number of turns without a trial that counts, repeats included, and the number of all.
pub fn lost(experiment: &Experiment, records: &BTreeMap<u32, TrialRecord>) -> (usize, usize) {
    let turns = cells(experiment).len() * experiment.repeat.rounds as usize;
    let kept = tallies(experiment, records).values().filter(|tally| tally.counts).count();
    (turns.saturating_sub(kept), turns)
}

/// The results of a cell's trials in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    in_vain: u32,
    counts: bool,
}

/// By round and cell, of those that have been tried.
fn tallies(experiment: &Experiment, records: &BTreeMap<u32, TrialRecord>) -> BTreeMap<(u32, Cell), Tally> {
    let levels = |cell: Cell| (cell.level_names(experiment), cell);
    let cells: Vec<(BTreeMap<String, String>, Cell)> = cells(experiment).into_iter().map(levels).collect();
    let named = |cell: &Cell| cell.subject(experiment).name.as_str();
    let by_name: BTreeMap<_, &Cell> =
        cells.iter().map(|(levels, cell)| ((named(cell), levels), cell)).collect();
    let mut tallies: BTreeMap<(u32, Cell), Tally> = BTreeMap::new();
    for record in records.values() {
        let Some(cell) = by_name.get(&(record.subject.as_str(), &record.levels)) else { continue };
        let tally = tallies.entry((record.round, (*cell).clone())).or_default();
        tally.counts |= record.is_valid();
        tally.in_vain += u32::from(!record.is_valid());
    }
    tallies
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
    fn a_cell_is_called_alike_by_its_experiment_and_its_records() {
        // As its file has them, factors are in no alphabetical order.
        let text = "[[factor.level]]\nname = \"off\"\n[[factor.level]]\nname = \"on\"\n";
        let factors = format!("[[factor]]\nname = \"z\"\n{text}[[factor]]\nname = \"a\"\n{text}");
        let experiment = Experiment::parse(&format!("{MINIMAL}{factors}")).expect("an experiment");
        for cell in cells(&experiment) {
            let subject = cell.subject(&experiment).name.clone();
            let record =
                TrialRecord { subject, levels: cell.level_names(&experiment), ..TrialRecord::default() };
            assert_eq!(record.cell(), cell.name(&experiment));
        }
    }

    #[test]
    fn every_round_has_every_cell_and_the_next_is_its_mirror_image() {
        let experiment = experiment();
        let rounds = rounds(&experiment);
        let mirrored: Vec<_> = rounds[0].iter().rev().cloned().collect();
        assert_eq!(rounds[1], mirrored);
        assert_eq!(rounds.len(), 3);
        for mut of_round in rounds {
            of_round.sort();
            assert_eq!(of_round, cells(&experiment));
        }
    }

    /// Carries all out, as `doubts` says of each: round, repeat and cell (0 is the first one of round 0).
    fn carried_out(
        doubtful: u32,
        doubts: impl Fn(u32, u32, usize) -> bool,
    ) -> (Vec<(u32, u32, usize)>, usize) {
        let mut experiment = experiment();
        experiment.repeat.doubtful = doubtful;
        let first = rounds(&experiment).remove(0);
        let (mut records, mut made) = (BTreeMap::new(), Vec::new());
        // Every step forgets all but the records, as a run does that is gone on with.
        while let Some(turn) = to_come(&experiment, &records).into_iter().next() {
            assert_eq!(turn.place as usize, made.len());
            let cell = first.iter().position(|cell| *cell == turn.cell).expect("one of them");
            made.push((turn.round, turn.repeat, cell));
            let record = TrialRecord {
                round: turn.round,
                place: turn.place,
                subject: turn.cell.subject(&experiment).name.clone(),
                levels: turn.cell.level_names(&experiment),
                doubts: doubts(turn.round, turn.repeat, cell)
                    .then(|| "steal".to_owned())
                    .into_iter()
                    .collect(),
                ..TrialRecord::default()
            };
            records.insert(turn.place, record);
        }
        let (lost, of) = lost(&experiment, &records);
        assert_eq!(of, 24);
        (made, lost)
    }

    #[test]
    fn where_servers_keep_running_a_group_has_all_rounds_of_a_start() {
        let fill = "[workload]\nprepare = [\"fill {keys}\"]";
        let level = |name| format!("[[factor.level]]\nname = \"{name}\"\nset.keys = \"{name}\"\n");
        let factor = format!("[[factor]]\nname = \"keys\"\n{}{}", level("few"), level("many"));
        let text = MINIMAL.replace("[workload]", fill);
        let text = format!("{text}[repeat]\nrounds = 3\nrounds_per_start = 2\n{factor}");
        let experiment = Experiment::parse(&text).expect("an experiment");
        let turns = to_come(&experiment, &BTreeMap::new());
        let what = |turn: &TrialTurn| (turn.round, turn.cell.level_names(&experiment)["keys"].clone());
        let expected = [(0, "few"), (1, "few"), (0, "many"), (1, "many"), (2, "few"), (2, "many")];
        let expected = expected
            .iter()
            .flat_map(|(round, keys)| [(*round, (*keys).to_owned()), (*round, (*keys).to_owned())]);
        assert_eq!(turns.iter().map(what).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let of =
            |round: u32| turns.iter().filter(move |turn| turn.round == round).map(|turn| turn.cell.clone());
        let [first, mut second] = [of(0).collect::<Vec<_>>(), of(1).collect()];
        second[..2].reverse();
        second[2..].reverse();
        assert_eq!(first, second, "each group's rounds are mirrored");
    }

    #[test]
    fn without_a_doubt_nothing_is_repeated() {
        let (made, lost) = carried_out(3, |_, _, _| false);
        assert_eq!((made.len(), lost), (24, 0));
        assert!(made.iter().all(|(_, repeat, _)| *repeat == 0));
    }

    #[test]
    fn what_does_not_count_is_repeated_at_the_end_of_its_round_to_and_fro() {
        // In round 1 three cells meet steal, one of them three times, and another one as often as it is tried.
        let doubts = |round, repeat, cell| {
            round == 1 && [(6, 1), (4, 3), (1, 9)].iter().any(|it| it.0 == cell && repeat < it.1)
        };
        let (made, lost) = carried_out(3, doubts);
        let round: Vec<_> = made.iter().filter(|(round, ..)| *round == 1).map(|it| (it.1, it.2)).collect();
        let mirrored = (0..8).rev().map(|cell| (0, cell));
        let repeats = [(1, 1), (1, 4), (1, 6), (2, 4), (2, 1), (3, 1), (3, 4)];
        assert_eq!(round, mirrored.chain(repeats).collect::<Vec<_>>());
        assert!(made.is_sorted_by_key(|(round, ..)| *round), "{made:?}");
        assert_eq!(lost, 1);
    }

    #[test]
    fn no_repeats_are_made_where_none_are_wanted() {
        let (made, lost) = carried_out(0, |_, _, cell| cell == 2);
        assert_eq!((made.len(), lost), (24, 3));
    }

    #[test]
    fn what_never_counts_is_repeated_in_its_first_round_alone() {
        let (made, lost) = carried_out(2, |_, _, cell| cell == 2);
        assert_eq!((made.len(), lost), (24 + 2, 3));
        // Once it has counted, it may again.
        let (made, lost) = carried_out(2, |round, _, cell| cell == 2 && round != 1);
        assert_eq!((made.len(), lost), (24 + 2 + 2, 2));
    }
}
