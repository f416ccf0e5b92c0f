//! Definitions of trials: a digest of everything that defines one. Runs whose cells have the same one are a series,
//! whatever their names are.
//!
//! Names, the question, the number of rounds and their order do not affect a trial, and are not in it. The programs
//! and files of the commands are not read: the commit of a run identifies them.

use crate::experiment::design::{Cell, Design};
use crate::experiment::{Experiment, Level, Subject, TrialLoad};
use crate::record::TrialRecord;
use crate::run::results::Results;
use crate::trial::program::hex;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// The content of a digest, in this order, as JSON.
#[derive(Serialize)]
struct Defined<'e> {
    subject: Subject,
    /// Sorted, so that neither the order of factors matters nor one whose level changes nothing.
    levels: Vec<String>,
    workload: &'e TrialLoad,
    pid: &'e Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    kernel_threads: &'e [String],
    /// A window of a server that keeps running is another trial than one with a server of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds_per_start: Option<u32>,
    /// Among cells with the same content, the index of this one.
    ordinal: usize,
}

/// The cells of a run with their digests, and the subjects that they are measured by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// The digest of the cell, and of the cells that it is measured by.
    pub(crate) digest: String,
    /// The place of the pinned cell among all cells, if a subject is pinned.
    pub(crate) pinned: Option<usize>,
}

/// In the order of the design's cells.
pub(crate) fn of_cells(results: &Results, cells: &[Cell]) -> Vec<Definition> {
    let experiment = &results.experiment;
    let bare: Vec<String> = cells.iter().map(|cell| text(experiment, cell, 0)).collect();
    let own = |place: usize| {
        let ordinal = bare[..place].iter().filter(|other| **other == bare[place]).count();
        text(experiment, &cells[place], ordinal)
    };
    let define = |place: usize| {
        let pinned = pinned(experiment, cells, &cells[place]);
        let measured_by = pinned.filter(|pinned| *pinned != place);
        // With another program, the ratio to it is another figure.
        let unit = measured_by.map(|pinned| (own(pinned), program(results, &cells[pinned])));
        let whole = serde_json::to_string(&(own(place), unit)).expect("it is plain data");
        Definition { digest: hex(digest(&SHA256, whole.as_bytes()).as_ref()), pinned }
    };
    (0..cells.len()).map(define).collect()
}

/// The cell of the pinned subject with the same levels.
fn pinned(experiment: &Experiment, cells: &[Cell], cell: &Cell) -> Option<usize> {
    let subject = experiment.subjects.iter().find(|subject| subject.pinned)?;
    cells.iter().position(|other| other.subject == subject.name && other.levels == cell.levels)
}

/// For the trials of a cell: the digest of its executable, or its version.
fn program(results: &Results, cell: &Cell) -> Option<String> {
    let said = |say: fn(&TrialRecord) -> Option<String>| {
        results.records.iter().filter(|record| cell.holds(record)).find_map(say)
    };
    // A trial that ended early may lack it, and must not count as another unit than all others.
    said(|record| record.program.clone()).or_else(|| said(|record| record.version.clone()))
}

fn text(experiment: &Experiment, cell: &Cell, ordinal: usize) -> String {
    let subject = experiment.subjects.iter().find(|subject| subject.name == cell.subject);
    let subject = subject.cloned().unwrap_or_default();
    let chosen = experiment.factors.iter().flat_map(|factor| {
        factor.levels.iter().filter(|level| cell.levels.get(&factor.name) == Some(&level.name))
    });
    // Neither names nor expectations change a trial.
    let nameless = chosen.map(|level| Level {
        name: String::new(),
        subjects: Vec::new(),
        must: Default::default(),
        ..level.clone()
    });
    let that_change = nameless.filter(|level| *level != Level::default());
    let mut levels: Vec<String> =
        that_change.map(|level| serde_json::to_string(&level).expect("it is plain data")).collect();
    levels.sort();
    let subject = Subject {
        name: String::new(),
        port: None,
        // The commit says which program it is, wherever it is.
        program: None,
        optional: false,
        version: None,
        ready_within_s: 0,
        pinned: false,
        ..subject
    };
    let Experiment { workload, measure, repeat, .. } = experiment;
    let rounds_per_start = repeat.rounds_per_start;
    let (pid, kernel_threads) = (&measure.pid, &*measure.kernel_threads);
    let defined = Defined { subject, levels, workload, pid, kernel_threads, rounds_per_start, ordinal };
    serde_json::to_string(&defined).expect("it is plain data")
}

/// Of a run's cells, by name.
pub fn digests(results: &Results) -> Vec<(String, String)> {
    let cells = Design::of(&results.experiment).cells;
    let definitions = of_cells(results, &cells);
    cells.iter().zip(definitions).map(|(cell, definition)| (cell.name(), definition.digest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;

    fn of(notation: &str, program: &str) -> Vec<(String, String)> {
        let experiment = Experiment::parse(notation).expect(notation);
        let cells = Design::of(&experiment).cells;
        let record = |cell: &Cell| TrialRecord {
            subject: cell.subject.clone(),
            levels: cell.levels.clone(),
            program: Some(program.to_owned()),
            ..TrialRecord::default()
        };
        let records = cells.iter().map(record).collect();
        digests(&Results { experiment, notation: notation.to_owned(), records, profiles: Vec::new() })
    }

    fn digest_of(notation: &str, name: &str) -> String {
        let found = of(notation, "p").into_iter().find(|(cell, _)| cell == name);
        found.unwrap_or_else(|| panic!("{name}")).1
    }

    #[test]
    fn a_digest_stays_as_it_is_over_versions() {
        // Where this fails, all series of all histories end: that takes a new format and a way over.
        let all = of(MINIMAL, "p");
        assert_eq!(&all[0].1[..16], "09651964e6855b5e", "{all:?}");
    }

    #[test]
    fn names_and_numbers_of_rounds_define_nothing() {
        let before = digest_of(MINIMAL, "epoll");
        for (old, new) in [
            ("Does io_uring beat epoll?", "Is epoll beaten?"),
            ("better = \"higher\"", "better = \"higher\"\nequivalent = 0.05\nalso = [\"p99_us\"]"),
            ("[measure]", "[repeat]\nrounds = 20\nseed = 3\n[measure]"),
            ("name = \"io_uring\"", "name = \"another\""),
        ] {
            assert_eq!(digest_of(&MINIMAL.replacen(old, new, 1), "epoll"), before, "{new}");
        }
        assert_eq!(digest_of(&MINIMAL.replacen("\"epoll\"", "\"ours\"", 1), "ours"), before);
        // A factor whose first level changes nothing begins no new series.
        let factor = "[[factor]]\nname = \"kernel\"\n[[factor.level]]\nname = \"stock\"\n[[factor.level]]\nname = \
                      \"tuned\"\nsysctl = { \"vm.swappiness\" = \"1\" }\n";
        let grown = format!("{MINIMAL}{factor}");
        assert_eq!(digest_of(&grown, "epoll, kernel=stock"), before);
        assert_ne!(digest_of(&grown, "epoll, kernel=tuned"), before);
    }

    #[test]
    fn what_a_trial_is_made_of_defines_it() {
        let before = digest_of(MINIMAL, "epoll");
        for (old, new) in [
            ("--driver epoll", "--driver epoll -t 2"),
            ("seconds = 5", "seconds = 6"),
            ("seconds = 5", "seconds = 5\nwarm_up_s = 1"),
            ("--duration {seconds}s", "--duration {seconds}s -c 9"),
            ("[workload]", "[workload]\nprepare = [\"fill\"]"),
            ("[measure]", "[measure]\npid = \"pidof evenkeel\""),
            ("seconds = 5", "seconds = 5.5"),
            ("[measure]", "[repeat]\nrounds_per_start = 2\n[measure]"),
        ] {
            assert_ne!(digest_of(&MINIMAL.replacen(old, new, 1), "epoll"), before, "{new}");
        }
    }

    #[test]
    fn equal_cells_are_series_of_their_own() {
        let equals = MINIMAL.replacen("--driver io_uring", "--driver epoll", 1);
        assert_ne!(digest_of(&equals, "epoll"), digest_of(&equals, "io_uring"));
        assert_eq!(digest_of(&equals, "epoll"), digest_of(MINIMAL, "epoll"));
    }

    #[test]
    fn a_first_trial_without_its_program_is_no_other_unit() {
        let pinned = MINIMAL.replacen("name = \"epoll\"", "name = \"epoll\"\npinned = true", 1);
        let experiment = Experiment::parse(&pinned).expect("an experiment");
        let subject = Design::of(&experiment).cells[0].subject.clone();
        let record = |program: Option<&str>| TrialRecord {
            subject: subject.clone(),
            program: program.map(str::to_owned),
            version: Some("1.0".to_owned()),
            ..TrialRecord::default()
        };
        let of = |records: Vec<TrialRecord>| {
            let (experiment, notation) = (experiment.clone(), pinned.clone());
            digests(&Results { experiment, notation, records, profiles: Vec::new() })
        };
        let known = of(vec![record(Some("p")), record(Some("p"))]);
        assert_eq!(of(vec![record(None), record(Some("p"))]), known);
        assert_ne!(of(vec![record(None)]), known, "where none is known, the version speaks");
    }

    #[test]
    fn another_pinned_program_is_another_unit() {
        let pinned = MINIMAL.replacen("name = \"epoll\"", "name = \"epoll\"\npinned = true", 1);
        let (plain, one, other) = (of(MINIMAL, "p"), of(&pinned, "p"), of(&pinned, "q"));
        assert_eq!(plain[0], one[0], "the pinned cell itself is measured by nothing");
        assert_eq!(one[0], other[0]);
        assert!(plain[1] != one[1] && one[1] != other[1]);
    }
}
