//! Experiment files that are accepted, and the messages about those that are not.

use super::*;

pub(crate) const MINIMAL: &str = r#"
question = "Does io_uring beat epoll?"
[[subject]]
name = "epoll"
start = "evenkeel serve --driver epoll -p {port}"
[[subject]]
name = "io_uring"
start = "evenkeel serve --driver io_uring -p {port}"
[workload]
run = "evenkeel load --port {port} --duration {seconds}s --json {output}"
parser = "evenkeel-load"
seconds = 5
[measure]
primary = "requests_per_cpu_second"
better = "higher"
"#;

#[test]
fn what_is_left_out_has_its_default() {
    let experiment = Experiment::parse(MINIMAL).expect("an experiment");
    assert_eq!(experiment.subjects[1].ready, Ready::Port);
    assert_eq!((experiment.repeat.rounds, experiment.measure.equivalent), (10, 0.02));
    assert_eq!(experiment.repeat.doubtful, 3);
    assert!(experiment.factors.is_empty());
}

#[test]
fn levels_say_what_they_change() {
    let text = format!(
        "{MINIMAL}{}",
        r#"
[[factor]]
name = "kernel"
[[factor.level]]
name = "stock"
[[factor.level]]
name = "tuned"
sysctl = { "vm.swappiness" = "1" }
strategy = "rps-rfs"
env.LD_PRELOAD = "libjemalloc.so.2"
set.connections = "500"
scheduler = "fifo:1"
file_system = { kind = "ext4", options = "noatime", size_mb = 256 }
kernel = { image = "/boot/vmlinuz", append = "mitigations=off", queues = 2, sysctl = { "vm.swappiness" = "1" } }
"#
    );
    let experiment = Experiment::parse(&text).expect("an experiment");
    let level = &experiment.factors[0].levels[1];
    assert_eq!(level.sysctl["vm.swappiness"], "1");
    assert_eq!((level.set["connections"].as_str(), level.env.len()), ("500", 1));
    assert_eq!(level.file_system.as_ref().map(|it| it.size_mb), Some(256));
    assert_eq!(level.kernel.as_ref().map(|it| (it.cpus, it.memory_mb)), Some((1, 1024)));
    // What is kept with the records can be read again.
    let kept = toml::to_string(&experiment).expect("a text");
    assert_eq!(Experiment::parse(&kept), Ok(experiment));
}

#[test]
fn an_aim_is_about_subjects_under_the_same_condition() {
    let levels = |more: &str| {
        let level = |name: &str, word: &str| {
            format!("[[factor.level]]\nname = {name:?}\nset.driver = {word:?}\nmust.io_uring = 1.0\n")
        };
        let text = MINIMAL.replace("--driver epoll", "--driver {driver}");
        format!("{text}[[factor]]\nname = \"way\"\n{more}{}{}", level("a", "epoll"), level("b", "uring"))
    };
    let refused = Experiment::parse(&levels("")).expect_err("a treatment").to_string();
    assert!(
        refused.contains("factor \"way\": level \"a\": must: subjects differ with this factor"),
        "{refused}"
    );
    assert!(Experiment::parse(&levels("condition = true\n")).is_ok());
}

#[test]
fn words_of_a_factor_are_those_of_levels_that_have_no_others() {
    let level = |name: &str, keys: &str| format!("[[factor.level]]\nname = {name:?}\n{keys}\n");
    let factor = "[[factor]]\nname = \"work\"\nset = { depth = \"1\", keys = \"9\" }\n";
    let levels = level("one", "") + &level("many", "set.depth = \"16\"");
    let experiment = Experiment::parse(&format!("{MINIMAL}{factor}{levels}")).expect("an experiment");
    let words = |place: usize| {
        let set = &experiment.factors[0].levels[place].set;
        (set["depth"].clone(), set["keys"].clone())
    };
    assert_eq!((words(0), words(1)), (("1".into(), "9".into()), ("16".into(), "9".into())));
}

#[track_caller]
fn check(change: impl Fn(&str) -> String, expected: &str) {
    let error = Experiment::parse(&change(MINIMAL)).expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn mistakes_are_named_with_their_place() {
    check(|text| text.replace("seconds = 5", "second = 5"), "unknown field `second`");
    check(|text| text.replace("seconds = 5", ""), "missing field `seconds`");
    check(|text| text.replace("\"higher\"", "\"more\""), "unknown variant `more`");
    check(|text| text.replace("\"epoll\"", "\"io_uring\""), "subject: the name \"io_uring\" is there twice");
    check(
        |text| text.replace("\"epoll\"", "\"e\\u001bpoll\""),
        "subject: the name \"e\\u{1b}poll\" has control characters",
    );
    check(
        |text| text.replace("seconds = 5", "seconds = 5\nwarm_up_s = 5"),
        "workload.warm_up_s: everything is dropped",
    );
    check(|text| format!("{text}[repeat]\nrounds = 0"), "repeat.rounds: it must be at least 1");
    check(|text| format!("{text}[repeat]\ndoubtful = 11"), "repeat.doubtful: it must be at most 10");
    check(|text| format!("{text}[repeat]\nlost = 0.6"), "repeat.lost: it is a share from 0 to 0.5");
    check(|text| format!("{text}[repeat]\nrounds = 6000"), "more than 10000 trials");
    check(
        |text| text.replace("start =", "pinned = true\nstart ="),
        "subject: pinned: one subject at most is what the others are measured by",
    );
    let alone = "[[subject]]\nname = \"io_uring\"\nstart = \"evenkeel serve --driver io_uring -p {port}\"\n";
    check(
        |text| text.replace(alone, "").replace("start =", "pinned = true\nstart ="),
        "subject: pinned: there is no other subject to be measured by it",
    );
    check(|text| format!("{text}equivalent = 2"), "measure.equivalent: it is a share");
    let one_level = "[[factor]]\nname = \"a\"\n[[factor.level]]\nname = \"b\"";
    check(|text| format!("{text}{one_level}"), "factor \"a\": it has fewer than two levels");
    let kernel =
        one_level.to_owned() + "\n[[factor.level]]\nname = \"c\"\nkernel = { image = \"x\", cpus = 0 }";
    check(|text| format!("{text}{kernel}"), "factor \"a\": level \"c\": kernel.cpus: it must be at least 1");
    check(
        |text| format!("{text}{}", kernel.replace("cpus = 0", "queues = 0")),
        "level \"c\": kernel.queues: it must be at least 1",
    );
    for (disks, expected) in [
        ("disks = { count = 2, size_mb = 0 }", "level \"c\": kernel.disks.size_mb: it must be at least 1"),
        ("disks = { count = 17, size_mb = 9 }", "level \"c\": kernel.disks.count: it must be at most 16"),
        ("disks = { count = 1 }", "missing field `size_mb`"),
    ] {
        check(|text| format!("{text}{}", kernel.replace("cpus = 0", disks)), expected);
    }
    // The line is said, too.
    check(|text| text.replace("seconds = 5", "second = 5"), "line 12");
}

#[test]
fn a_metric_is_asked_for_once() {
    let text = format!("{MINIMAL}also = [\"p99_us\", \"p50_us\", \"p99_us\"]\n");
    let error = Experiment::parse(&text).expect_err("twice").to_string();
    assert_eq!(error, "use the experiment: measure.also: the name \"p99_us\" is there twice");
}
