//! `evenkeel lab` as a process: its output and its exit statuses.

mod published;
mod sampled;
mod weeks;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPERIMENT: &str = r#"
question = "Is it as quick as yesterday?"
[[subject]]
name = "ours"
start = "ours"
[[subject]]
name = "theirs"
start = "theirs"
[workload]
run = "load"
parser = "evenkeel-load"
seconds = 1
[measure]
primary = "requests_per_cpu_second"
better = "higher"
[repeat]
rounds = 6
"#;

/// A run of six rounds on the given night; `ours` is our requests per CPU-second.
fn run(directory: &Path, night: u32, ours: f64) -> PathBuf {
    let run = directory.join(format!("night-{night}"));
    fs::create_dir_all(run.join("trials")).expect("a directory");
    fs::write(run.join("experiment.toml"), EXPERIMENT).expect("written");
    for place in 0..12u32 {
        let (round, subject) = (place / 2, ["ours", "theirs"][place as usize % 2]);
        let value =
            if subject == "ours" { ours } else { 100.0 } + f64::from((round * 7 + night * 3) % 5) * 0.1;
        let began = night * 86_400 + place;
        let json = format!(
            r#"{{"round": {round}, "place": {place}, "subject": "{subject}", "levels": {{}}, "began_unix_s": {began},
                "kernel": "6.18", "host": "here", "metrics": {{"requests_per_cpu_second": {value}}}}}"#
        );
        fs::write(run.join(format!("trials/{place:04}.json")), json).expect("written");
    }
    run
}

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn lab(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("lab").args(words).current_dir(directory).output().expect("it starts")
}

/// The output of a process that must have ended with that status.
#[track_caller]
fn check(output: &Output, status: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(status), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_report_is_printed_and_its_page_written() {
    let directory = directory("lab-report");
    let run = run(&directory, 1, 120.0);
    let text = check(&lab(&directory, &["report", "night-1"]), 0);
    assert!(text.contains("theirs is worse: requests/CPU-s -16.6 %"), "{text}");
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(page.contains("theirs is worse") && page.contains("<svg"), "{page}");
    assert!(run.join("pictures/cells-requests_per_cpu_second.svg").exists());
    let json = check(&lab(&directory, &["report", "night-1", "--json"]), 0);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut unread = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let unread = unread.args(["lab", "report", "night-1"]).current_dir(&directory).stdout(writer).output();
    let unread = unread.expect("it starts");
    assert!(
        unread.status.success() && !String::from_utf8_lossy(&unread.stderr).contains("pipe"),
        "{unread:?}"
    );
    assert!(json.contains("\"verdict\": \"worse\""), "{json}");
    let refused = lab(&directory, &["report", "nowhere"]);
    check(&refused, 71);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.starts_with("evenkeel: lab: read nowhere/experiment.toml: No such file"), "{error}");
}

#[test]
fn a_report_takes_names_of_any_length_and_no_markup_from_them() {
    let directory = directory("lab-report-names");
    let run = run(&directory, 1, 120.0);
    let name = format!("<script>alert(1)</script>&'{}", "größer ".repeat(50));
    let replace = |path: &Path| {
        let text = fs::read_to_string(path).expect("text").replace("\"theirs\"", &format!("\"{name}\""));
        let sample = r#"{"samples": [{"at_s": 1.0, "cpus": [{"user": 0.4, "idle": 0.6}]}], "#;
        let text = if path.extension().is_some_and(|it| it == "json") {
            text.replacen('{', sample, 1)
        } else {
            text
        };
        fs::write(path, text).expect("written");
    };
    replace(&run.join("experiment.toml"));
    fs::read_dir(run.join("trials")).expect("trials").flatten().for_each(|trial| replace(&trial.path()));
    check(&lab(&directory, &["report", "night-1"]), 0);
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;") && !page.contains("<script"));
    let pictures: Vec<_> = fs::read_dir(run.join("pictures")).expect("pictures").flatten().collect();
    assert_eq!(pictures.len(), 3, "the cells, and the CPUs of each");
    for picture in pictures {
        let svg = fs::read_to_string(picture.path()).expect("text");
        assert!(!svg.contains("<script"), "{svg}");
    }
}

#[test]
fn two_runs_are_compared() {
    let directory = directory("lab-compare");
    run(&directory, 1, 120.0);
    run(&directory, 2, 150.0);
    let text = check(&lab(&directory, &["compare", "night-1", "night-2"]), 0);
    let line = text.lines().find(|line| line.contains("new: ours")).expect("a row");
    assert!(line.contains("+24.9 %") && line.ends_with("better"), "{text}");
}

#[test]
fn two_commits_of_a_history_are_compared_like_their_runs() {
    let directory = directory("lab-commits");
    for (night, ours, commit) in [(1, 120.0, "4f2a91c"), (2, 150.0, "8c01d7e")] {
        run(&directory, night, ours);
        check(&lab(&directory, &["history", "--add", &format!("night-{night}"), "--commit", commit]), 0);
    }
    let compare = |old, new| lab(&directory, &["compare", old, new, "--store", "lab.sqlite"]);
    let text = check(&compare("4f2a", "8c01d7e"), 0);
    let runs = check(&lab(&directory, &["compare", "night-1", "night-2"]), 0);
    let row = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
        line.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&text, "8c01d7e: ours"), row(&runs, "new: ours"), "{text}{runs}");
    let json = check(&lab(&directory, &["compare", "4f2a", "8c01", "--store", "lab.sqlite", "--json"]), 0);
    assert!(json.contains("\"verdict\": \"better\"") && json.contains("\"commit\": \"8c01d7e\""), "{json}");
    let refused = |output: Output, status, expected: &str| {
        check(&output, status);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(expected), "{error}");
    };
    refused(
        compare("4f2a", "77"),
        20,
        "find 77 in the history: no run of it is kept\n  hint: `evenkeel lab history`",
    );
    let nowhere = lab(&directory, &["compare", "4f2a", "8c01", "--store", "nowhere.sqlite"]);
    refused(nowhere, 71, "use the history nowhere.sqlite: it is not there");
    assert!(!directory.join("nowhere.sqlite").exists());
    refused(lab(&directory, &["compare", "4f2a", "8c01"]), 71, "hint: `--store FILE|URL` compares commits");
}

#[test]
fn a_gate_reports_that_there_are_too_few_runs() {
    let directory = directory("lab-gate-blind");
    let nowhere = lab(&directory, &["gate"]);
    check(&nowhere, 71);
    let error = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(error.starts_with("evenkeel: lab: use the history lab.sqlite: it is not there"), "{error}");
    assert!(!directory.join("lab.sqlite").exists(), "reading creates none");
    for night in 0..6 {
        run(&directory, night, 120.0);
    }
    // The server crashed in each of its trials.
    for place in (0..12).step_by(2) {
        let trial = directory.join(format!("night-5/trials/{place:04}.json"));
        let text = fs::read_to_string(&trial).expect("a trial");
        fs::write(&trial, text.replacen('{', r#"{"doubts": ["the subject ended"], "#, 1)).expect("written");
    }
    for words in [["gate", "night-5", "--commit", "c5"], ["gate", "--commit", "c5", "night-5"]] {
        let crashed = lab(&directory, &words);
        check(&crashed, 20);
        let error = String::from_utf8_lossy(&crashed.stderr).into_owned();
        let wanted = "evenkeel: lab: keep the run: ours has no trial that counts: the subject ended\n";
        assert!(error.starts_with(wanted), "{error}");
    }
    check(&lab(&directory, &["history", "--add", "night-5", "--commit", "c5"]), 20);
    check(&lab(&directory, &["gate"]), 20);
    for night in 0..5 {
        let text = check(&lab(&directory, &["gate", &format!("night-{night}"), "--commit", "c"]), 0);
        let runs = night + 1;
        assert!(text.contains(&format!("too few runs to see anything: there are {runs}")), "{text}");
    }
    run(&directory, 6, 120.0);
    let text = check(&lab(&directory, &["gate", "night-6", "--commit", "c"]), 0);
    assert_eq!(text, "Is it as quick as yesterday? (here): nothing became worse lately, in 6 runs.\n");
}

/// Checks that `lab` refuses this, with the status and the reason.
#[track_caller]
fn refused(directory: &Path, words: &[&str], status: i32, expected: &str) {
    let output = lab(directory, words);
    check(&output, status);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_start_of_a_run_is_that_of_its_first_trial_even_if_the_clock_was_set_back() {
    let directory = directory("lab-clock");
    for night in 1..4 {
        let run = run(&directory, night, 120.0);
        if night == 3 {
            // Between its first round and the second the clock was set to 1970.
            for place in 2..12 {
                let trial = run.join(format!("trials/{place:04}.json"));
                let text = fs::read_to_string(&trial).expect("a trial");
                let began = format!("\"began_unix_s\": {}", night * 86_400 + place);
                assert!(text.contains(&began));
                fs::write(&trial, text.replace(&began, &format!("\"began_unix_s\": {place}")))
                    .expect("written");
            }
        }
        let words = ["history", "--add", &format!("night-{night}"), "--commit", &format!("c{night}")];
        check(&lab(&directory, &words), 0);
    }
    let text = check(&lab(&directory, &["history"]), 0);
    let newest = text.lines().find(|line| line.contains("ours")).expect("a series");
    assert!(newest.contains(" c3 "), "the newest run is the last: {text}");
}

#[test]
fn too_little_input_ends_with_20() {
    let directory = directory("lab-says-too-little");
    for night in 1..4 {
        run(&directory, night, 120.0);
    }
    check(&lab(&directory, &["history", "--add", "night-1", "--commit", "c1"]), 0);
    let jobs = [["history", "--add"].as_slice(), &["gate"]];
    for (run, commit, why) in [
        ("night-1", "c2", "keep the run: it is in the history already, as c1"),
        ("night-2", "", "keep the run: the commit \"\" is empty or has control characters"),
        ("night-2", "a\tb", "keep the run: the commit \"a\\tb\" is empty or has control characters"),
    ] {
        for job in jobs {
            refused(&directory, &[job, &[run, "--commit", commit]].concat(), 20, why);
        }
    }
    let store = ["--store", "lab.sqlite"];
    for (old, new, why) in
        [("c1", "c9", "find c9 in the history: no run of it is kept"), ("c1", "c1", "compare c1 with itself")]
    {
        refused(&directory, &[["compare", old, new].as_slice(), &store].concat(), 20, why);
    }
    // No trial has ended.
    fs::remove_dir_all(directory.join("night-3/trials")).expect("trials");
    fs::create_dir(directory.join("night-3/trials")).expect("a directory");
    let none = "read night-3/trials: no trial has ended yet";
    for words in [["report", "night-3"].as_slice(), &["compare", "night-1", "night-3"]] {
        refused(&directory, words, 20, none);
    }
    for job in jobs {
        refused(&directory, &[job, &["night-3", "--commit", "c3"]].concat(), 20, none);
    }
    let other = EXPERIMENT.replace("\"ours\"", "\"mine\"").replace("\"theirs\"", "\"yours\"");
    fs::write(directory.join("night-2/experiment.toml"), other).expect("written");
    refused(&directory, &["compare", "night-1", "night-2"], 20, "the two runs have no cell in common");
}

#[test]
fn every_job_has_a_table_of_its_statuses() {
    let directory = directory("lab-statuses");
    for (job, statuses) in [
        ("run", ["0", "64", "71", "130", "143", "1"].as_slice()),
        ("report", &["0", "20", "64", "71", "1"]),
        ("compare", &["0", "20", "64", "71", "1"]),
        ("history", &["0", "20", "64", "71", "1"]),
        ("gate", &["0", "18", "19", "20", "64", "71", "1"]),
        ("restore", &["0", "64", "71", "1"]),
        ("null", &["0", "64", "71", "1"]),
    ] {
        let mut man = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let page = check(&man.args(["man", &format!("lab-{job}")]).output().expect("it starts"), 0);
        let table = page.split_once(".SH \"EXIT STATUS\"").expect("a table").1;
        let table = table.split(".SH").next().unwrap_or_default();
        let found: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR")).collect();
        assert_eq!(found, statuses, "{job}: {page}");
        refused(&directory, &[job, "--nonsense"], 64, "unexpected argument '--nonsense'");
    }
}

#[test]
fn a_history_that_cannot_be_used_is_refused_with_a_hint() {
    let directory = directory("lab-history-unusable");
    run(&directory, 1, 120.0);
    check(&lab(&directory, &["history", "--add", "night-1", "--commit", "c1"]), 0);
    let whole = fs::read(directory.join("lab.sqlite")).expect("a history");
    let with_format = |format: u32| {
        let mut bytes = whole.clone();
        // The place of `user_version` in SQLite's header.
        bytes[60..64].copy_from_slice(&format.to_be_bytes());
        bytes
    };
    let cases = [
        ("later", with_format(5), "its format is 5, and only 4 is known\n  hint: a later version"),
        (
            "foreign",
            with_format(0),
            "it is a database of another program\n  hint: a history is a file of its own",
        ),
        (
            "halved",
            whole[..whole.len() / 2].to_vec(),
            "database disk image is malformed\n  hint: a copy from before",
        ),
        (
            "text",
            b"no database ".repeat(1000),
            "file is not a database\n  hint: a history is a file of its own",
        ),
    ];
    for (name, bytes, why) in cases {
        fs::write(directory.join(name), &bytes).expect("written");
        for words in [["history"].as_slice(), &["gate"], &["compare", "c1", "c2"]] {
            refused(&directory, &[words, &["--store", name]].concat(), 1, why);
        }
        let add = ["history", "--add", "night-1", "--commit", "c1", "--store", name];
        refused(&directory, &add, 1, why);
        assert!(fs::read(directory.join(name)).is_ok_and(|now| now == bytes), "{name} is as it was");
    }
    fs::create_dir(directory.join("folder")).expect("a directory");
    refused(&directory, &["history", "--store", "folder"], 71, "use the history folder: unable to open");
}

#[test]
fn the_url_of_a_database_is_refused_without_its_password() {
    let directory = directory("lab-history-url");
    let hint = "hint: runs are directories: copy them to the host that keeps the history";
    let jobs = [["history"].as_slice(), &["gate"], &["compare", "c1", "c2"]];
    for words in jobs.map(|job| [job, &["--store", "postgres://bench:hush@db.invalid/lab"]].concat()) {
        let output = lab(&directory, &words);
        check(&output, 1);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let wanted = "evenkeel: lab: use the history postgres://…: a history is a file, not a database\n";
        assert!(error.starts_with(wanted) && error.contains(hint) && !error.contains("hush"), "{error}");
    }
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0, "and no file of that name is made");
}

#[test]
fn a_history_is_shown_also_if_it_cannot_be_written() {
    let directory = directory("lab-history-read-only");
    run(&directory, 1, 120.0);
    run(&directory, 2, 120.0);
    check(&lab(&directory, &["history", "--add", "night-1", "--commit", "c1"]), 0);
    let permit = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    permit(&directory.join("lab.sqlite"), 0o444);
    permit(&directory, 0o555);
    // Root may write in spite of the permissions.
    let is_root = fs::metadata(&directory).is_ok_and(|it| it.uid() == 0);
    let guest = |program: &str| match is_root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", program]);
            command
        }
        false => Command::new(program),
    };
    let lab = |words: &[&str]| {
        let mut command = guest(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("lab").args(words).current_dir(&directory).output().expect("it starts")
    };
    let may_run = guest(env!("CARGO_BIN_EXE_evenkeel")).arg("--version").output();
    if may_run.is_ok_and(|output| output.status.success()) {
        assert!(check(&lab(&["history"]), 0).contains("c1"));
        assert!(check(&lab(&["gate"]), 0).contains("too few runs to see anything"));
        let added = lab(&["history", "--add", "night-2", "--commit", "c2"]);
        check(&added, 71);
        let error = String::from_utf8_lossy(&added.stderr).into_owned();
        assert!(
            error.contains("use the history lab.sqlite: attempt to write a readonly database"),
            "{error}"
        );
    } else {
        eprintln!("left out: no other user may run what this test has built");
    }
    permit(&directory, 0o755);
}

#[test]
fn an_unfinished_run_is_neither_kept_nor_accepted_as_a_rerun() {
    let directory = directory("lab-gate-unfinished");
    for night in 0..16 {
        run(&directory, night, if night < 10 { 120.0 } else { 90.0 });
        let words = ["history", "--add", &format!("night-{night}"), "--commit", &format!("c{night}")];
        check(&lab(&directory, &words), 0);
    }
    let begun = run(&directory, 16, 90.0);
    for place in 2..12 {
        fs::remove_file(begun.join(format!("trials/{place:04}.json"))).expect("a trial");
    }
    let refused = |words: &[&str], expected: &str| {
        let output = lab(&directory, words);
        check(&output, 20);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("hint: nothing of it is kept; `evenkeel lab run FILE --out RUN`"), "{error}");
    };
    let unfinished = "keep the run: of its 6 rounds 1 are finished";
    refused(&["history", "--add", "night-16", "--commit", "c16"], unfinished);
    refused(&["gate", "night-16", "--commit", "c16"], unfinished);
    let rerun = "believe the rerun night-16: of its 6 rounds 1 are finished";
    refused(&["gate", "--confirm-run", "night-16"], rerun);
    assert!(!check(&lab(&directory, &["history"]), 0).contains("c16"));
    // Rounds without a trial that counts are the same as missing rounds.
    run(&directory, 16, 90.0);
    for place in [0, 2, 4, 6] {
        let trial = begun.join(format!("trials/{place:04}.json"));
        let text = fs::read_to_string(&trial).expect("a trial");
        fs::write(&trial, text.replacen('{', r#"{"doubts": ["steal"], "#, 1)).expect("written");
    }
    let output = lab(&directory, &["gate", "night-16", "--commit", "c16"]);
    check(&output, 20);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("keep the run: ours has a trial that counts in 2 of 6 rounds: steal"), "{error}");
}

/// A history of 16 nights, each judged by the gate, with a regression in the eleventh.
fn regressed(name: &str) -> PathBuf {
    let directory = directory(name);
    for night in 0..16 {
        let run = run(&directory, night, if night < 10 { 120.0 } else { 105.0 });
        let commit = format!("c{night}");
        let gate = lab(&directory, &["gate", run.to_str().expect("text"), "--commit", &commit]);
        if night < 10 {
            check(&gate, 0);
        }
    }
    directory
}

#[test]
fn a_gate_reports_a_regression_that_a_rerun_confirms() {
    let directory = regressed("lab-gate");
    let text = check(&lab(&directory, &["gate"]), 19);
    assert!(
        text.contains("Good at c9, worse since c10.")
            && text.contains("No rerun of it on this machine was there"),
        "{text}"
    );
    let slow = run(&directory, 90, 104.0);
    let confirmed = lab(&directory, &["gate", "--confirm-run", slow.to_str().expect("text")]);
    assert!(check(&confirmed, 18).contains("A rerun confirms it."));
    // The suspected run does not confirm itself.
    for (night, why) in
        [(10, "it is in the history already, as c10"), (9, "it is in the history already, as c9")]
    {
        let refused = lab(&directory, &["gate", "--confirm-run", &format!("night-{night}")]);
        check(&refused, 20);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(&format!("believe the rerun night-{night}: {why}")), "{error}");
    }
    // The disk with the log is full.
    let full = || fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut untold = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    untold.args(["lab", "gate", "--confirm-run", "night-90"]).current_dir(&directory);
    let status = untold.stdout(full()).stderr(full()).status().expect("it starts");
    assert_eq!(status.code(), Some(18), "the verdict is the same");
}

#[test]
fn a_rerun_by_a_command_leaves_nothing_and_may_not_confirm() {
    let directory = regressed("lab-gate-command");
    run(&directory, 91, 121.0);
    let temporary = directory.join("temporary");
    fs::create_dir(&temporary).expect("a directory");
    let confirm = |command: &str| {
        let mut gate = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        gate.args(["lab", "gate", "--confirm", command]).env("TMPDIR", &temporary);
        gate.current_dir(&directory).output().expect("it starts")
    };
    let quick = confirm("cp -r night-91 {run} && stat -c %a $(dirname {run}) > mode");
    assert!(check(&quick, 0).contains("A rerun does not confirm it."));
    assert_eq!(fs::read_to_string(directory.join("mode")).expect("text"), "700\n");
    check(&confirm("cp -r night-91 {run}; false"), 1);
    assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 0, "nothing is left in either case");
    // A run of another experiment is judged alone.
    let other = run(&directory, 92, 90.0);
    let experiment = EXPERIMENT.replace("quick", "small").replace("\"load\"", "\"another load\"");
    fs::write(other.join("experiment.toml"), experiment).expect("written");
    let text = check(&lab(&directory, &["gate", "night-92", "--commit", "c92"]), 0);
    assert_eq!(
        text,
        "Is it as small as yesterday? (here): too few runs to see anything: there are 1, and it takes 6 at least.\n"
    );
    // The history shows what the gate has kept.
    let text = check(&lab(&directory, &["history"]), 0);
    assert!(text.contains("ours") && text.contains("c15") && text.contains('█'), "{text}");
}
