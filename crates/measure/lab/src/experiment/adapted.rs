//! Changes to an experiment by those who run it: other programs, fewer cells, another number of rounds. Pure.
//!
//! What comes of them is an experiment like any other: its file is kept with the records, and a run is not continued
//! with other changes.

use super::design::is_condition;
use super::types::{Error, Experiment, Factor, Subject};
use std::collections::BTreeSet;

/// Changes to an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adaptation {
    /// Subjects by name, with the commands that start them: of a subject that the file has, or of another one.
    pub peers: Vec<(String, String)>,
    /// Programs of subjects, by the subject's name.
    pub programs: Vec<(String, String)>,
    /// Subjects and levels that are wanted, `LEVEL` or `FACTOR=LEVEL`; none: all.
    pub only: Vec<String>,
    /// The number of rounds.
    pub rounds: Option<u32>,
    /// The seconds of load in each trial, the warm-up among them.
    pub seconds: Option<f64>,
}

/// An experiment as it is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapted {
    /// The experiment.
    pub experiment: Experiment,
    /// Its file.
    pub notation: String,
    /// Subjects that are left out, with the reason.
    pub left_out: Vec<String>,
}

impl Adaptation {
    /// Changes the experiment of a file; `is_found` says whether a program can be started.
    pub fn apply(&self, text: &str, is_found: &dyn Fn(&str) -> bool) -> Result<Adapted, Error> {
        // What is wrong in the file itself is said before what is wrong with the changes.
        let file = Experiment::parse(text)?;
        let (mut experiment, has_rounds) = Experiment::unplanned(text)?;
        self.exchange(&mut experiment)?;
        let left_out = find_programs(&mut experiment, is_found)?;
        if !self.only.is_empty() {
            Selection::of(&self.only, &file, &experiment)?.apply(&mut experiment);
        }
        experiment.drop_names_of_others();
        if let Some(rounds) = self.rounds {
            experiment.repeat.rounds = rounds;
        }
        if let Some(seconds) = self.seconds {
            let warm_up_s = experiment.workload.warm_up_s;
            if seconds <= warm_up_s {
                let what = format!(
                    "{seconds} s are all dropped: the warm-up takes {warm_up_s} s (workload.warm_up_s)"
                );
                return Err(wrong("--seconds", what));
            }
            experiment.workload.seconds = seconds;
        }
        let experiment = experiment.planned(has_rounds || self.rounds.is_some())?;
        let notation = match *self == Adaptation::default() && left_out.is_empty() {
            true => text.to_owned(),
            false => {
                let carried_out = toml::to_string(&experiment).expect("an experiment is plain data");
                format!(
                    "# As it was carried out, with the changes that the command line asked for.\n{carried_out}"
                )
            }
        };
        Ok(Adapted { experiment, notation, left_out })
    }

    /// Gives subjects other programs, or adds some.
    fn exchange(&self, experiment: &mut Experiment) -> Result<(), Error> {
        for (name, command) in &self.peers {
            match experiment.subjects.iter_mut().find(|subject| subject.name == *name) {
                Some(subject) => {
                    // They are about the program that it had.
                    (subject.program, subject.version, subject.optional) = (None, None, false);
                    subject.start.clone_from(command);
                }
                None => {
                    let levels = experiment.factors.iter_mut().flat_map(|factor| &mut factor.levels);
                    let limited = levels.filter(|level| !level.subjects.is_empty());
                    limited.for_each(|level| level.subjects.push(name.clone()));
                    let subject =
                        Subject { name: name.clone(), start: command.clone(), ..Subject::default() };
                    experiment.subjects.push(subject);
                }
            }
        }
        for (name, path) in &self.programs {
            let with_one = |subject: &&mut Subject| subject.program.is_some();
            let mut found = experiment.subjects.iter_mut().filter(with_one);
            match found.find(|subject| subject.name == *name) {
                Some(subject) => (subject.program, subject.optional) = (Some(path.clone()), false),
                None => {
                    let with_one = experiment.subjects.iter().filter(|subject| subject.program.is_some());
                    let names: Vec<&str> = with_one.map(|subject| &*subject.name).collect();
                    let known = if names.is_empty() { "none has one".to_owned() } else { names.join(", ") };
                    return Err(wrong(
                        "--program",
                        format!("{name:?} is no subject whose `program` can be replaced: {known}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Leaves out optional subjects whose programs are not there.
fn find_programs(experiment: &mut Experiment, is_found: &dyn Fn(&str) -> bool) -> Result<Vec<String>, Error> {
    let mut left_out = Vec::new();
    let mut missing = None;
    experiment.subjects.retain(|subject| {
        let Some(program) = subject.program.as_ref().filter(|program| !is_found(program)) else {
            return true;
        };
        let why = format!("{program:?} is not found{}", if program.contains('/') { "" } else { " in PATH" });
        if subject.optional {
            left_out.push(format!("{}: {why}", subject.name));
        } else if subject.prepare.is_empty() {
            // Otherwise that may make it.
            missing.get_or_insert((subject.name.clone(), why));
        }
        !subject.optional
    });
    match missing {
        None => Ok(left_out),
        Some((name, why)) => Err(wrong(
            &format!("subject {name:?}: program"),
            format!("{why}: install it, or name another one with --program {name}=PATH"),
        )),
    }
}

/// Wanted subjects, and wanted levels of each factor; none of a kind: all.
struct Selection {
    subjects: BTreeSet<String>,
    levels: Vec<BTreeSet<String>>,
}

impl Selection {
    fn of(words: &[String], file: &Experiment, experiment: &Experiment) -> Result<Selection, Error> {
        let mut selection =
            Selection { subjects: BTreeSet::new(), levels: vec![BTreeSet::new(); file.factors.len()] };
        for word in words {
            let mut is_known = experiment.subjects.iter().any(|subject| subject.name == *word);
            if is_known {
                selection.subjects.insert(word.clone());
            }
            for (factor, wanted) in file.factors.iter().zip(&mut selection.levels) {
                for level in &factor.levels {
                    if level.name == *word || format!("{}={}", factor.name, level.name) == *word {
                        wanted.insert(level.name.clone());
                        is_known = true;
                    }
                }
            }
            if !is_known {
                return Err(wrong("--only", format!("{word:?} is none of {}", all_names(file, experiment))));
            }
        }
        Ok(selection)
    }

    fn apply(self, experiment: &mut Experiment) {
        // The baseline is what the others are compared with: it stays, and so does its level of a treatment.
        let is_condition: Vec<bool> =
            experiment.factors.iter().map(|factor| is_condition(factor, experiment)).collect();
        if !self.subjects.is_empty() {
            let mut place = 0;
            experiment.subjects.retain(|subject| {
                place += 1;
                place == 1 || self.subjects.contains(&subject.name)
            });
        }
        let factors = experiment.factors.iter_mut().zip(self.levels).zip(is_condition);
        for ((factor, wanted), is_condition) in factors.filter(|((_, wanted), _)| !wanted.is_empty()) {
            let (before, mut place) = (factor.levels.len(), 0);
            factor.levels.retain(|level| {
                place += 1;
                wanted.contains(&level.name) || place == 1 && !is_condition
            });
            factor.restricted |= factor.levels.len() < before;
        }
    }
}

fn all_names(file: &Experiment, experiment: &Experiment) -> String {
    let subjects = experiment.subjects.iter().map(|subject| subject.name.clone());
    let of_factor = |factor: &Factor| {
        let name = |level: &super::types::Level| format!("{}={}", factor.name, level.name);
        factor.levels.iter().map(name).collect::<Vec<_>>()
    };
    subjects.chain(file.factors.iter().flat_map(of_factor)).collect::<Vec<_>>().join(", ")
}

fn wrong(place: &str, what: String) -> Error {
    Error::Sense { place: place.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::matrix::cells;

    const FILE: &str = r#"
question = "Which one?"
[[subject]]
name = "memcached"
program = "memcached"
start = "exec {program} -p {port}"
version = "{program} --version"
[[subject]]
name = "pogocache"
program = "pogocache"
optional = true
start = "exec {program} -p {port}"
[[subject]]
name = "evenkeel"
start = "exec evenkeel serve -p {port} {flags}"
[[factor]]
name = "work"
[[factor.level]]
name = "get"
set.gets = "1"
must = { evenkeel = 1.2, pogocache = 1.1 }
[[factor.level]]
name = "set"
set.gets = "0"
subjects = ["memcached", "evenkeel"]
[[factor]]
name = "flags"
[[factor.level]]
name = "none"
set.flags = ""
[[factor.level]]
name = "busy"
set.flags = "--busy-poll"
[[factor.level]]
name = "lazy"
set.flags = "--lazy"
[workload]
run = "load --gets {gets}"
parser = "evenkeel-load"
seconds = 0.45
warm_up_s = 0.2
[measure]
primary = "requests_per_cpu_second"
better = "higher"
"#;

    fn applied(adaptation: &Adaptation, missing: &[&str]) -> Result<Adapted, Error> {
        adaptation.apply(FILE, &|program| !missing.contains(&program))
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn pair(name: &str, text: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), text.to_owned())]
    }

    #[track_caller]
    fn check(only: &[&str], expected: &[&str]) {
        let adaptation = Adaptation { only: words(only), ..Adaptation::default() };
        let adapted = applied(&adaptation, &[]).expect("an experiment");
        let names: Vec<String> =
            cells(&adapted.experiment).iter().map(|cell| cell.name(&adapted.experiment)).collect();
        assert_eq!(names, expected, "{only:?}");
        let again = Adaptation::default().apply(&adapted.notation, &|_| true).expect("it is complete");
        assert_eq!((again.experiment, again.notation), (adapted.experiment, adapted.notation));
    }

    #[test]
    fn an_experiment_is_restricted_to_what_is_wanted_and_what_that_is_compared_with() {
        check(
            &["set", "flags=busy"],
            &[
                "memcached flags=none work=set",
                "memcached flags=busy work=set",
                "evenkeel flags=none work=set",
                "evenkeel flags=busy work=set",
            ],
        );
        check(
            &["get", "evenkeel", "none"],
            &["memcached flags=none work=get", "evenkeel flags=none work=get"],
        );
        check(&["get", "memcached", "none"], &["memcached flags=none work=get"]);
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_those_there_are() {
        let error = |only: &str| {
            let adaptation = Adaptation { only: words(&[only]), ..Adaptation::default() };
            applied(&adaptation, &["pogocache"]).expect_err(only).to_string()
        };
        assert_eq!(
            error("del"),
            "use the experiment: --only: \"del\" is none of memcached, evenkeel, work=get, work=set, flags=none, \
             flags=busy, flags=lazy"
        );
        assert!(error("flags=get").contains("\"flags=get\" is none of"));
    }

    #[test]
    fn a_peer_replaces_a_subject_or_is_one_more() {
        let peers =
            [pair("memcached", "exec other -p {port}"), pair("base", "exec base -p {port} {flags}")].concat();
        let adapted = applied(&Adaptation { peers, ..Adaptation::default() }, &["memcached"]).expect("peers");
        let subjects = &adapted.experiment.subjects;
        let names: Vec<&str> = subjects.iter().map(|subject| &*subject.name).collect();
        assert_eq!(names, ["memcached", "pogocache", "evenkeel", "base"]);
        assert_eq!(
            (subjects[0].start.as_str(), &subjects[0].program, &subjects[0].version),
            ("exec other -p {port}", &None, &None)
        );
        assert_eq!(subjects[3].ready_within_s, 60);
        assert!(adapted.experiment.factors[0].levels[1].subjects.contains(&"base".to_owned()));
    }

    #[test]
    fn a_program_is_replaced_found_left_out_or_missed() {
        let programs = |name: &str| Adaptation { programs: pair(name, "at/x"), ..Adaptation::default() };
        let adapted = applied(&programs("memcached"), &["pogocache"]).expect("an experiment");
        assert_eq!(adapted.experiment.subjects[0].program.as_deref(), Some("at/x"));
        assert_eq!(adapted.left_out, ["pogocache: \"pogocache\" is not found in PATH"]);
        assert_eq!(adapted.experiment.subjects.len(), 2);
        assert_eq!(adapted.experiment.factors[0].levels[0].must.len(), 1, "the rest is about nobody");
        let error = |adaptation: &Adaptation, missing: &[&str]| {
            applied(adaptation, missing).expect_err("it is missing").to_string()
        };
        assert_eq!(
            error(&Adaptation::default(), &["memcached"]),
            "use the experiment: subject \"memcached\": program: \"memcached\" is not found in PATH: install it, or name \
             another one with --program memcached=PATH"
        );
        // Who names one wants it.
        assert!(error(&programs("pogocache"), &["at/x"]).contains("\"at/x\" is not found: install it"));
        assert_eq!(
            error(&programs("evenkeel"), &[]),
            "use the experiment: --program: \"evenkeel\" is no subject whose `program` can be replaced: memcached, pogocache"
        );
    }

    #[test]
    fn trials_may_be_longer_and_no_shorter_than_their_warm_up() {
        let of = |seconds| applied(&Adaptation { seconds: Some(seconds), ..Adaptation::default() }, &[]);
        let adapted = of(3600.0).expect("an hour");
        assert_eq!(adapted.experiment.workload.seconds, 3600.0);
        assert!(adapted.notation.contains("\nseconds = 3600\n"), "{}", adapted.notation);
        assert_eq!(
            of(0.2).expect_err("nothing is left").to_string(),
            "use the experiment: --seconds: 0.2 s are all dropped: the warm-up takes 0.2 s (workload.warm_up_s)"
        );
    }

    #[test]
    fn rounds_are_planned_for_what_is_left() {
        let rounds = |only: &[&str], rounds| {
            let adapted = applied(&Adaptation { only: words(only), rounds, ..Adaptation::default() }, &[]);
            adapted.expect("an experiment").experiment.repeat.rounds
        };
        assert!(rounds(&[], None) > rounds(&["get", "none"], None));
        assert_eq!(rounds(&["get"], Some(40)), 40);
        let unchanged = applied(&Adaptation::default(), &[]).expect("an experiment");
        assert_eq!(unchanged.notation, FILE);
    }
}
