//! Checks of a cell before anything runs: its placeholders, environment, placement and virtual machine.

use super::context::{PORTS, of_program, placed, say, times};
use super::{context::beside, parse, settings, subject};
use crate::error::Error;
use crate::experiment::derived::{self, Formula};
use crate::experiment::matrix::Cell;
use crate::experiment::placeholders::Placeholders;
use crate::experiment::{Experiment, Ready};
use crate::guest::GuestMachine;
use crate::trial::placement::Placement;

/// Names that every experiment has, besides those of ports.
const OWN_NAMES: [&str; 8] = ["dir", "program", "seconds", "warm_up", "measured", "output", "pid", "pids"];

/// Checks the names that commands of a cell use, with made-up values: an unknown one is found before the first trial.
pub(crate) fn check(experiment: &Experiment, cell: &Cell) -> Result<(), Error> {
    let mut placeholders = Placeholders::default();
    PORTS.iter().chain(&["dir"]).for_each(|name| placeholders.set(name, 0));
    times(experiment, &mut placeholders);
    of_program(cell.subject(experiment), &mut placeholders);
    say(&cell.levels(experiment), &mut placeholders);
    for (factor, level) in cell.levels(experiment) {
        for name in level.set.keys() {
            let wrong = |what: &str| {
                let place = format!("{}: set.{name}", settings::place(factor, level));
                Err(Error::place(place, what))
            };
            if OWN_NAMES.iter().chain(&PORTS).any(|own| *own == name.as_str()) {
                return wrong("this name has its meaning already");
            }
        }
        if let Some(name) = level.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let place = format!("{}: env.{name:?}", settings::place(factor, level));
            return Err(Error::place(place, "this is no name of a variable"));
        }
    }
    Placement::of(experiment.workload.subject_cpus.as_deref(), placed(&cell.levels(experiment)))?;
    let subject = cell.subject(experiment);
    let guest = GuestMachine::of(&cell.levels(experiment))?;
    if subject.ready != Ready::Port && guest.is_some_and(|guest| guest.is_seen()) {
        let what = "kernel.strategy is carried out as soon as a process listens at {port}: leave `ready` out";
        return Err(Error::place(subject::place(subject, "ready"), what));
    }
    let start = [("start", &subject.start)].into_iter();
    let ready = match &subject.ready {
        Ready::Command(text) => Some(("ready.command", text)),
        _ => None,
    };
    let prepare = subject.prepare.iter().map(|text| ("prepare", text));
    for (key, text) in start.chain(ready).chain(prepare) {
        placeholders.fill(text, &subject::place(subject, key))?;
    }
    ["output", "pid", "pids"].iter().for_each(|name| placeholders.set(name, 0));
    for text in &experiment.workload.prepare {
        placeholders.fill(text, "workload.prepare")?;
    }
    placeholders.fill(&experiment.workload.run, "workload.run")?;
    for (number, beside) in experiment.workload.beside.iter().enumerate() {
        placeholders.fill(&beside.command, &beside::place(number))?;
    }
    for (name, text) in &experiment.measure.derived {
        let place = derived::place(name);
        Formula::parse(&placeholders.fill(text, &place)?).map_err(|what| Error::place(place, what))?;
    }
    let run = &experiment.workload.run;
    if !experiment.measure.kernel_threads.is_empty()
        && run.contains("--server-pid")
        && !run.contains("{pids}")
    {
        let what = "the load measures the process of --server-pid alone: give it {pids}, which are those of the subject and \
                    these threads";
        return Err(Error::place("measure.kernel_threads", what));
    }
    parse::check(&experiment.workload.parser)?;
    experiment.measure.pid.iter().try_for_each(|text| placeholders.fill(text, "measure.pid").map(|_| ()))?;
    Ok(())
}

/// Checks that each word of a level is in a command, or in another word: otherwise it is misspelt. Of an experiment that
/// was restricted to some levels, those that had it may be gone.
pub(crate) fn check_words(experiment: &Experiment) -> Result<(), Error> {
    if experiment.factors.iter().any(|factor| factor.restricted) {
        return Ok(());
    }
    let levels =
        || experiment.factors.iter().flat_map(|it| it.levels.iter().map(|level| (it.name.as_str(), level)));
    for (factor, level) in levels() {
        for name in level.set.keys() {
            // A brace itself is written twice.
            let is_in = |text: &String| text.replace("{{", "").contains(&format!("{{{name}}}"));
            let words = levels().flat_map(|(_, level)| level.set.values());
            if !commands(experiment).into_iter().chain(words).any(is_in) {
                let place = format!("{}: set.{name}", settings::place(factor, level));
                return Err(Error::place(place, format!("no command has {{{name}}}, so nothing is varied")));
            }
        }
    }
    Ok(())
}

/// All command lines of an experiment.
fn commands(experiment: &Experiment) -> Vec<&String> {
    let workload = &experiment.workload;
    let mut commands: Vec<&String> = workload.prepare.iter().chain([&workload.run]).collect();
    commands.extend(workload.beside.iter().map(|beside| &beside.command));
    commands.extend(experiment.measure.derived.values());
    commands.extend(&experiment.measure.pid);
    for subject in &experiment.subjects {
        commands.extend(subject.prepare.iter().chain([&subject.start]).chain(&subject.version));
        if let Ready::Command(text) = &subject.ready {
            commands.push(text);
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::adapted::Adaptation;
    use crate::experiment::matrix::cells;
    use crate::experiment::tests::MINIMAL;

    fn checked(text: &str) -> Result<(), Error> {
        let experiment = Experiment::parse(text)?;
        settings::check(&experiment)?;
        check_words(&experiment)?;
        cells(&experiment).iter().try_for_each(|cell| check(&experiment, cell))
    }

    #[test]
    fn the_experiments_that_come_with_the_program_can_be_carried_out() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments");
        let files = std::fs::read_dir(directory).expect("experiments").flatten().map(|file| file.path());
        let mut count = 0;
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let text = std::fs::read_to_string(&path).expect("text");
            checked(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let experiment = Experiment::parse(&text).expect("an experiment");
            crate::experiment::rounds::RoundPlan::check(&experiment).expect("its rounds can show something");
            count += 1;
        }
        assert!(count > 0);
    }

    #[test]
    fn each_part_of_an_experiment_that_comes_with_the_program_can_be_carried_out_alone() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments");
        let files = std::fs::read_dir(directory).expect("experiments").flatten().map(|file| file.path());
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let text = std::fs::read_to_string(&path).expect("text");
            let experiment = Experiment::parse(&text).expect("an experiment");
            let levels = experiment.factors.iter().flat_map(|factor| {
                factor.levels.iter().map(|level| format!("{}={}", factor.name, level.name))
            });
            let subjects = experiment.subjects.iter().map(|subject| subject.name.clone());
            for only in levels.chain(subjects) {
                for is_found in [true, false] {
                    let adaptation = Adaptation { only: vec![only.clone()], ..Adaptation::default() };
                    let is_optional = |name: &str| {
                        experiment
                            .subjects
                            .iter()
                            .any(|it| it.optional && it.program.as_deref() == Some(name))
                    };
                    let found = |program: &str| is_found || !is_optional(program);
                    let adapted = match adaptation.apply(&text, &found) {
                        Ok(adapted) => adapted,
                        // Nobody else takes part, or it is that subject.
                        Err(error) if !is_found => {
                            assert!(error.to_string().contains("--only"), "{only}: {error}");
                            continue;
                        }
                        Err(error) => panic!("{}: {only}: {error}", path.display()),
                    };
                    checked(&adapted.notation)
                        .unwrap_or_else(|error| panic!("{}: {only}: {error}", path.display()));
                    assert!(cells(&adapted.experiment).len() <= cells(&experiment).len());
                }
            }
        }
    }

    #[track_caller]
    fn refused(level: &str, expected: &str) {
        let factor = |name: &str| {
            format!(
                "[[factor]]\nname = \"{name}\"\n[[factor.level]]\nname = \"a\"\n[[factor.level]]\nname = \"b\"\n"
            )
        };
        let text =
            format!("{MINIMAL}{}{level}\n{}sysctl.\"vm.swappiness\" = \"1\"\n", factor("f"), factor("g"));
        let error = checked(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_cannot_be_carried_out_is_known_before_anything_runs() {
        let place = "factor \"f\": level \"b\"";
        refused("set.port = \"1\"", &format!("{place}: set.port: this name has its meaning already"));
        refused("strategy = \"rsp\"", &format!("{place}: strategy: \"rsp\" is none of none, irqbalance"));
        refused("scheduler = \"fast\"", &format!("{place}: scheduler: \"fast\" is none of other:NICE"));
        refused("cpus = \"a-b\"", &format!("{place}: cpus: "));
        refused(
            "file.\"/etc/passwd\" = \"\"",
            &format!("{place}: file \"/etc/passwd\": it is not below /proc/sys"),
        );
        refused("file.\"/sys/../etc/passwd\" = \"\"", "it is not below /proc/sys");
        refused("env.\"A=B\" = \"1\"", &format!("{place}: env.\"A=B\": this is no name of a variable"));
        refused(
            "kernel = { image = \"x\", strategy = \"rsp\" }",
            &format!("{place}: kernel.strategy: \"rsp\" is none of none, "),
        );
        refused("sysctl.\"vm.swappiness\" = \"9\"", "sysctl \"vm.swappiness\": factor \"f\" sets it, too");
        refused(
            "set.size = \"9\"",
            &format!("{place}: set.size: no command has {{size}}, so nothing is varied"),
        );
    }

    #[test]
    fn what_two_factors_set_is_refused() {
        let factor = |name: &str, level: &str| {
            format!(
                "[[factor]]\nname = \"{name}\"\n[[factor.level]]\nname = \"a\"\n[[factor.level]]\nname = \"b\"\n{level}\n"
            )
        };
        let with = |one: &str, other: &str| {
            let text = MINIMAL.replacen("--driver epoll", "--driver epoll {size}", 1);
            checked(&format!("{text}{}{}", factor("f", one), factor("g", other)))
        };
        let cases = [
            ("set.size = \"1\"", "set.size = \"2\"", "set.size"),
            ("env.A = \"1\"", "env.A = \"2\"", "env.A"),
            ("cpus = \"0\"", "cpus = \"1\"", "cpus"),
            ("scheduler = \"idle\"", "scheduler = \"batch\"", "scheduler"),
            (
                "file_system = { kind = \"ext4\", size_mb = 1 }",
                "file_system = { kind = \"xfs\", size_mb = 1 }",
                "file_system",
            ),
            ("strategy = \"spread\"", "strategy = \"none\"\nnic = \"eth0\"", "strategy"),
            (
                "sysctl.\"vm.dirty_bytes\" = \"9\"",
                "sysctl.\"vm.dirty_ratio\" = \"9\"",
                "sysctl \"vm.dirty_ratio\"",
            ),
        ];
        for (one, other, key) in cases {
            let error = with(one, other).expect_err(key).to_string();
            let expected = format!("factor \"g\": level \"b\": {key}: factor \"f\" ");
            assert!(error.contains(&expected), "{error}");
        }
        let [one, other] = ["eth0", "eth1"].map(|nic| format!("strategy = \"spread\"\nnic = {nic:?}"));
        assert!(checked(&format!("{MINIMAL}{}{}", factor("f", &one), factor("g", &other))).is_ok());
    }

    #[test]
    fn a_strategy_in_a_machine_waits_for_the_port() {
        let level = |name: &str| {
            format!(
                "[[factor.level]]\nname = \"{name}\"\nkernel = {{ image = \"x\", strategy = \"spread\" }}\n"
            )
        };
        let text = format!("{MINIMAL}[[factor]]\nname = \"f\"\n{}{}", level("a"), level("b"));
        assert!(checked(&text).is_ok());
        let ready = text.replacen("[[subject]]", "[[subject]]\nready = { line = \"up\" }", 1);
        let error = checked(&ready).expect_err("nothing says when").to_string();
        assert!(
            error.contains("subject \"epoll\": ready: kernel.strategy is carried out as soon as"),
            "{error}"
        );
    }
}
