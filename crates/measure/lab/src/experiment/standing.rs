//! Servers that keep running over several rounds: which cells are measured at the same one, and which servers stand
//! side by side. Pure.
//!
//! Cells whose data is the same (the words of `workload.prepare`) form a group. The servers of a group are started
//! together, and each cell has its turns at one of them: at the one whose subject, settings and words it has.

use super::matrix::{Cell, cells};
use super::types::{Error, Experiment, Level, Ready};
use std::collections::{BTreeMap, BTreeSet};

/// Words of a cell, by name.
type Words = BTreeMap<String, String>;

/// What tells a server from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerKey {
    subject: String,
    words: Words,
    /// Environment, CPUs and so on of its levels.
    settings: Vec<String>,
}

/// The servers that run at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartGroup {
    /// The number of the start, from 0.
    pub(crate) start: u32,
    /// What distinguishes its data from that of other groups.
    pub(crate) data: Words,
}

impl StartGroup {
    /// Of a cell in a round, where servers are started anew after so many rounds.
    pub(crate) fn of(experiment: &Experiment, cell: &Cell, round: u32, rounds_per_start: u32) -> StartGroup {
        StartGroup { start: round / rounds_per_start, data: data(experiment, cell) }
    }

    /// A cell for each of its servers, with the key of the server.
    pub(crate) fn servers(&self, experiment: &Experiment) -> BTreeMap<ServerKey, Cell> {
        let mut servers = BTreeMap::new();
        for cell in cells(experiment).into_iter().filter(|cell| data(experiment, cell) == self.data) {
            servers.entry(server(experiment, &cell)).or_insert(cell);
        }
        servers
    }
}

/// The server that a cell is measured at.
pub(crate) fn server(experiment: &Experiment, cell: &Cell) -> ServerKey {
    let subject = cell.subject(experiment);
    let ready = if let Ready::Command(text) = &subject.ready { Some(text) } else { None };
    let lines = subject.prepare.iter().chain([&subject.start]).chain(&subject.version).chain(ready);
    let lines = lines.chain(&experiment.workload.prepare).chain(&experiment.measure.pid);
    let bare = cell.levels(experiment).into_iter().map(|(_, level)| Level {
        name: String::new(),
        set: BTreeMap::new(),
        subjects: Vec::new(),
        must: BTreeMap::new(),
        ..level.clone()
    });
    let settings = bare.filter(|level| *level != Level::default());
    ServerKey {
        subject: subject.name.clone(),
        words: words(experiment, cell, lines),
        settings: settings.map(|it| serde_json::to_string(&it).expect("it is plain data")).collect(),
    }
}

/// The words that make its data.
pub(crate) fn data(experiment: &Experiment, cell: &Cell) -> Words {
    words(experiment, cell, experiment.workload.prepare.iter())
}

/// Those in the lines, and those in these words.
fn words<'e>(experiment: &'e Experiment, cell: &Cell, lines: impl Iterator<Item = &'e String>) -> Words {
    let all: Words = cell.levels(experiment).into_iter().flat_map(|(_, level)| level.set.clone()).collect();
    let mut said = Words::new();
    let mut lines: Vec<&String> = lines.collect();
    while let Some(line) = lines.pop() {
        for (name, word) in all.iter().filter(|(name, _)| line.contains(&format!("{{{name}}}"))) {
            if said.insert(name.clone(), word.clone()).is_none() {
                lines.push(word);
            }
        }
    }
    said
}

/// Refuses what cannot be for servers that run side by side.
pub(super) fn check(experiment: &Experiment) -> Result<(), Error> {
    let wrong = |place: String, what: String| Err(Error::Sense { place, what });
    let Some(rounds) = experiment.repeat.rounds_per_start else { return Ok(()) };
    if rounds == 0 {
        return wrong("repeat.rounds_per_start".into(), "it must be at least 1".into());
    }
    for factor in &experiment.factors {
        for level in &factor.levels {
            let of_the_host = [
                ("sysctl", !level.sysctl.is_empty()),
                ("file", !level.file.is_empty()),
                ("strategy", level.strategy.is_some()),
                ("nic", level.nic.is_some()),
                ("file_system", level.file_system.is_some()),
                ("kernel", level.kernel.is_some()),
            ];
            if let Some((key, _)) = of_the_host.into_iter().find(|(_, is_set)| *is_set) {
                return wrong(
                    format!("factor {:?}: level {:?}: {key}", factor.name, level.name),
                    "servers that keep running side by side (repeat.rounds_per_start) can differ in set, env, cpus and \
                     scheduler alone: leave repeat.rounds_per_start out, and each trial has a server and the host to itself"
                        .into(),
                );
            }
        }
    }
    let all: BTreeSet<(Words, ServerKey)> =
        cells(experiment).iter().map(|cell| (data(experiment, cell), server(experiment, cell))).collect();
    let mut ports = BTreeMap::new();
    for (data, key) in all {
        let subject = experiment.subjects.iter().find(|subject| subject.name == key.subject);
        let Some(port) = subject.and_then(|subject| subject.port) else { continue };
        if let Some(other) = ports.insert((data, port), key.subject.clone()) {
            return wrong(
                format!("subject {:?}: port", key.subject),
                format!(
                    "a server of {other:?} that runs at the same time (repeat.rounds_per_start) has port {port}, too: leave \
                     `port` out, and each has a free one"
                ),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;

    const STANDING: &str = "[repeat]\nrounds_per_start = 4\n";

    fn level(name: &str, keys: &str) -> String {
        format!("[[factor.level]]\nname = {name:?}\n{keys}\n")
    }

    fn factor(name: &str, levels: &[(&str, &str)]) -> String {
        let levels: String = levels.iter().map(|(name, keys)| level(name, keys)).collect();
        format!("[[factor]]\nname = {name:?}\n{levels}")
    }

    fn parsed(factors: &str) -> Result<Experiment, Error> {
        let text = MINIMAL
            .replace("[workload]", "[workload]\nprepare = [\"fill {port} {keys}\"]")
            .replace("--duration", "--depth {depth} --duration");
        Experiment::parse(&format!("{text}{STANDING}{factors}"))
    }

    /// The groups of an experiment: the number of servers and the names of the cells of each.
    #[track_caller]
    fn check(factors: &str, expected: &[(usize, &[&str])]) {
        let experiment = parsed(factors).expect("an experiment");
        let mut groups: Vec<(StartGroup, Vec<String>)> = Vec::new();
        for cell in cells(&experiment) {
            let group = StartGroup::of(&experiment, &cell, 7, 4);
            assert_eq!(group.start, 1);
            let name = cell.name(&experiment);
            match groups.iter_mut().find(|(other, _)| *other == group) {
                Some((_, cells)) => cells.push(name),
                None => groups.push((group, vec![name])),
            }
        }
        let found: Vec<(usize, Vec<String>)> =
            groups.into_iter().map(|(group, cells)| (group.servers(&experiment).len(), cells)).collect();
        let expected: Vec<(usize, Vec<String>)> = expected
            .iter()
            .map(|(servers, cells)| (*servers, cells.iter().map(|cell| (*cell).to_owned()).collect()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn cells_with_the_same_data_are_windows_of_the_same_servers() {
        let work = factor(
            "work",
            &[
                ("d1", "set = { depth = \"1\", keys = \"9\" }"),
                ("d16", "set = { depth = \"16\", keys = \"9\" }"),
                ("many", "set = { depth = \"1\", keys = \"99\" }"),
            ],
        );
        check(
            &work,
            &[
                (2, &["epoll work=d1", "epoll work=d16", "io_uring work=d1", "io_uring work=d16"]),
                (2, &["epoll work=many", "io_uring work=many"]),
            ],
        );
    }

    #[test]
    fn words_in_words_are_data_too() {
        let level = |name: &'static str, depth: &str, keys: &str| {
            (name, format!("set = {{ depth = {depth:?}, keys = \"{{count}}\", count = {keys:?} }}"))
        };
        let levels = [level("few", "1", "9"), level("many", "1", "99")];
        let levels: Vec<(&str, &str)> = levels.iter().map(|(name, keys)| (*name, keys.as_str())).collect();
        check(
            &factor("work", &levels),
            &[(2, &["epoll work=few", "io_uring work=few"]), (2, &["epoll work=many", "io_uring work=many"])],
        );
    }

    #[test]
    fn a_setting_of_the_subject_makes_another_server() {
        let work = factor("work", &[("d1", "set = { depth = \"1\", keys = \"9\" }"), ("same", "")]);
        let work =
            work.replace("name = \"same\"\n", "name = \"same\"\nset = { depth = \"1\", keys = \"9\" }");
        let allocator = factor("allocator", &[("glibc", ""), ("jemalloc", "env.LD_PRELOAD = \"j.so\"")]);
        let cells: Vec<String> = ["epoll", "io_uring"]
            .iter()
            .flat_map(|subject| {
                ["d1", "same"].map(|work| {
                    ["glibc", "jemalloc"].map(|it| format!("{subject} allocator={it} work={work}"))
                })
            })
            .flatten()
            .collect();
        check(&format!("{work}{allocator}"), &[(4, &cells.iter().map(String::as_str).collect::<Vec<_>>())]);
    }

    #[track_caller]
    fn refused(text: Result<Experiment, Error>, expected: &str) {
        let error = text.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn settings_of_the_host_cannot_hold_for_servers_side_by_side() {
        for keys in [
            "sysctl = { \"vm.swappiness\" = \"1\" }",
            "file = { \"/proc/sys/vm/swappiness\" = \"1\" }",
            "strategy = \"spread\"",
            "file_system = { kind = \"ext4\", size_mb = 9 }",
            "kernel = { image = \"x\" }",
        ] {
            let key = keys.split(' ').next().expect("a key");
            refused(
                parsed(&factor("a", &[("b", ""), ("c", keys)])),
                &format!(
                    "factor \"a\": level \"c\": {key}: servers that keep running side by side \
                     (repeat.rounds_per_start) can differ in set, env, cpus and scheduler alone"
                ),
            );
        }
        let none = MINIMAL.to_owned() + "[repeat]\nrounds_per_start = 0\n";
        refused(Experiment::parse(&none), "repeat.rounds_per_start: it must be at least 1");
    }

    #[test]
    fn servers_side_by_side_have_ports_of_their_own() {
        let text =
            format!("{MINIMAL}{STANDING}").replace("name = \"epoll\"", "name = \"epoll\"\nport = 21000");
        assert!(Experiment::parse(&text).is_ok(), "one server alone");
        let both = text.replace("name = \"io_uring\"", "name = \"io_uring\"\nport = 21000");
        refused(
            Experiment::parse(&both),
            "subject \"io_uring\": port: a server of \"epoll\" that runs at the same time",
        );
        let twice = factor("a", &[("b", ""), ("c", "env.A = \"1\"")]);
        refused(
            Experiment::parse(&format!("{text}{twice}")),
            "subject \"epoll\": port: a server of \"epoll\"",
        );
    }
}
