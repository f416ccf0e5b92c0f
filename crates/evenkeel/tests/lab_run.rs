//! `evenkeel lab run` with the real program and invented subjects: to its end, interrupted, killed, and with an
//! experiment that is wrong. Changes of the host are made in a namespace of the test's own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::quiet::is_quiet;
use crate::support::until::until;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// An experiment: a question, subjects, the keys of a load that prints `rate NUMBER`, and the number of rounds. The
/// rest is the same in all of them.
macro_rules! experiment {
    ($question:literal, $subjects:literal, $workload:literal, $repeat:literal) => {
        concat!(
            "question = \"",
            $question,
            "\"\n",
            $subjects,
            "[workload]\n",
            $workload,
            "parser = { lines = { requests_per_second = \"rate {}\" } }\n",
            "seconds = 1\n[measure]\nprimary = \"requests_per_second\"\nbetter = \"higher\"\n[repeat]\n",
            $repeat,
            "\n"
        )
    };
}

/// Two subjects that do nothing, and a load that gives a number at once, or hangs if the file `hang` exists; no later
/// trial finds the file that it leaves then.
const EXPERIMENT: &str = experiment!(
    "Which of them sleeps better?",
    r#"[[subject]]
name = "one"
start = "echo up; exec sleep 1000"
ready = { line = "up" }
prepare = ["echo one 1.0 > made"]
version = "cat made"
[[subject]]
name = "two"
start = "echo up; exec sleep 1000"
ready = { line = "up" }
"#,
    r#"run = "sleep $(({seconds} - 1)); if [ -e hang ]; then touch {dir}/left hangs; exec sleep 1000; fi; test -d {dir} && test ! -e {dir}/left && echo rate 5 > {output}"
"#,
    "rounds = 2\nverdict = false\ndoubtful = 0"
);

/// A directory with an experiment, in which everything happens.
struct Bench(PathBuf);

impl Bench {
    fn new(name: &str, experiment: &str) -> Bench {
        // Two tests may use the same name.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("evenkeel-lab-run-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        fs::write(path.join("it.toml"), experiment).expect("written");
        Bench(path)
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.arg("lab").args(arguments).args(["--state", "state"]).current_dir(&self.0);
        command
    }

    fn run(&self) -> Output {
        self.lab(&["run", "it.toml"]).output().expect("evenkeel")
    }

    fn records(&self) -> usize {
        let files = fs::read_dir(self.0.join("it.run/trials")).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|it| it == "json")).count()
    }

    fn profile(&self, place: usize) -> serde_json::Value {
        let path = self.0.join(format!("it.run/profiles/{place:04}.json"));
        serde_json::from_slice(&fs::read(path).expect("a profile")).expect("JSON")
    }

    fn record(&self, place: usize) -> serde_json::Value {
        let path = self.0.join(format!("it.run/trials/{place:04}.json"));
        serde_json::from_slice(&fs::read(path).expect("a record")).expect("JSON")
    }

    /// A run whose load hangs.
    fn hanging(&self) -> Child {
        fs::write(self.0.join("hang"), "").expect("written");
        let child = self.lab(&["run", "it.toml"]).spawn().expect("evenkeel");
        until("the load", || self.0.join("hangs").exists());
        child
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // If it fails, the rest is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tell(child: &Child, signal: &str) {
    let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(told.is_ok_and(|status| status.success()));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_trial_leaves_a_record_and_a_finished_run_has_nothing_left_to_do() {
    let bench = Bench::new("whole", EXPERIMENT);
    let output = bench.run();
    assert!(text(&output.stdout).starts_with("4 trials in it.run (4 new, "), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("round 2 two: requests_per_second 5 ("),
        "{}",
        text(&output.stderr)
    );
    let last = bench.record(3);
    assert_eq!(
        (last["round"].as_u64(), last["metrics"]["requests_per_second"].as_f64()),
        (Some(1), Some(5.0))
    );
    // Each cell has one in the first round.
    let versions =
        [bench.record(0), bench.record(1)].map(|it| (it["subject"] == "one", it["version"].is_string()));
    assert!(versions.iter().all(|(is_one, has_version)| is_one == has_version), "{versions:?}");
    assert!(is_quiet(&bench.0) && !bench.0.join("it.run/work").exists());
    assert!(text(&bench.run().stdout).starts_with("4 trials in it.run (0 new, "));
}

/// The same with a subject that uses the CPU, and a load of a second.
fn profiled() -> String {
    let busy = EXPERIMENT.replace("echo up; exec sleep 1000", "echo up; while :; do :; done");
    let longer = busy.replace("echo rate 5", "sleep 1 && echo rate 5");
    longer.replace("[measure]", "[measure]\nprofile = true")
}

#[test]
fn a_profile_shows_the_functions_of_each_cell() {
    let bench = Bench::new("profile", &profiled());
    let output = bench.run();
    let said = text(&output.stderr);
    assert!(text(&output.stdout).starts_with("4 trials in it.run (4 new, "), "it is no trial: {said}");
    for (place, cell) in ["one", "two"].into_iter().enumerate() {
        let profile = bench.profile(place);
        assert_eq!(profile["cell"], cell);
        if let Some(why) = profile["why_not"].as_str() {
            assert!(said.contains(&format!("{cell}: no profile: {why}\n")), "{said}");
            eprintln!("no functions are sampled here: {why}");
            continue;
        }
        let counts = profile["functions"].as_object().expect("functions").values();
        let samples: u64 = counts.map(|count| count.as_u64().expect("a count")).sum();
        // Of 499 in a second of CPU time, with any other load on this machine.
        assert!((1..2000).contains(&samples), "{profile}");
        assert!(said.contains(&format!("{cell}: {samples} samples for its profile\n")), "{said}");
    }
    assert!(is_quiet(&bench.0));
    fs::remove_file(bench.0.join("it.run/profiles/0001.json")).expect("it is there");
    let again = text(&bench.run().stderr);
    assert!(
        !again.contains("one: ") && again.contains("two: "),
        "an existing profile is not sampled again: {again}"
    );
}

#[test]
fn a_run_continues_without_perf_if_perf_is_refused() {
    let bench = Bench::new("profile-refused", &profiled());
    let perf = bench.0.join("perf");
    let path = format!("{}:{}", bench.0.display(), std::env::var("PATH").expect("a path"));
    for (script, why) in [
        (
            "echo Error: >&2; echo 'Access to performance monitoring is limited.' >&2; exit 255",
            "perf: Access to performance monitoring is limited.",
        ),
        ("exit 127", "perf is not installed (Debian: linux-perf)"),
        ("exit 0", "perf has seen none of its processes run"),
    ] {
        fs::write(&perf, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let output = bench.lab(&["run", "it.toml"]).env("PATH", &path).output().expect("evenkeel");
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(&format!("one: no profile: {why}\n")), "{said}");
        assert_eq!((bench.profile(1)["why_not"].as_str(), bench.records()), (Some(why), 4));
        fs::remove_dir_all(bench.0.join("it.run/profiles")).expect("it is there");
    }
}

#[test]
fn an_interrupted_run_is_continued_unless_the_experiment_has_changed() {
    let bench = Bench::new("interrupted", EXPERIMENT);
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let child = bench.hanging();
        tell(&child, signal);
        let output = child.wait_with_output().expect("evenkeel");
        assert_eq!(output.status.code(), Some(status));
        assert!(is_quiet(&bench.0) && !bench.0.join("it.run/work").exists());
        assert_eq!(fs::read_dir(bench.0.join("state/lab")).expect("a directory").count(), 0);
        fs::remove_file(bench.0.join("hangs")).expect("it was there");
    }
    assert_eq!(bench.records(), 0, "an interrupted trial has no record");
    fs::remove_file(bench.0.join("hang")).expect("it was there");
    // No trial has been measured with the earlier values.
    let other = EXPERIMENT.replace("seconds = 1", "seconds = 2");
    let write = |experiment: &str| fs::write(bench.0.join("it.toml"), experiment).expect("written");
    write(&other);
    let output = bench.run();
    assert!(output.status.success() && bench.records() >= 4, "{}", text(&output.stderr));
    write(EXPERIMENT);
    let refused = bench.run();
    let why =
        "the experiment has changed since: workload.seconds was 2 and is 1; --out DIR begins another run";
    assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    write(&format!("# more\n{}", other.replace("rounds = 2", "rounds = 3").replace("better?", "best?")));
    let output = bench.run();
    assert!(output.status.success() && bench.records() >= 6, "{}", text(&output.stderr));
    let kept = fs::read_to_string(bench.0.join("it.run/experiment.toml")).expect("a copy");
    assert!(kept.starts_with("# more\n") && kept.contains("rounds = 3"), "{kept}");
}

/// One subject whose program the test replaces.
const REPLACED: &str = experiment!(
    "Which of them is it?",
    r#"[[subject]]
name = "one"
start = "echo up; exec ./server 1000"
ready = { line = "up" }
[[subject]]
name = "two"
start = "echo up; exec sleep 1000"
ready = { line = "up" }
"#,
    r#"prepare = ["until [ $(basename $(readlink /proc/{pid}/exe)) != $(basename $(realpath /bin/sh)) ]; do :; done"]
run = "echo rate 5 > {output}"
"#,
    "rounds = 1\nverdict = false\ndoubtful = 0"
);

#[test]
fn a_run_is_not_continued_with_another_binary() {
    let bench = Bench::new("replaced", REPLACED);
    let write = |ending: &str| {
        let mut program = fs::read("/bin/sleep").expect("a program");
        program.extend(ending.bytes());
        let path = bench.0.join("server");
        let _ = fs::remove_file(&path);
        fs::write(&path, program).expect("written");
        let executable = PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("it may be started");
    };
    write("first");
    let output = bench.run();
    assert!(output.status.success() && bench.records() == 2, "{}", text(&output.stderr));
    write("second");
    fs::write(bench.0.join("it.toml"), REPLACED.replace("rounds = 1", "rounds = 2")).expect("written");
    let refused = |expected: &str| {
        let output = bench.run();
        let said = text(&output.stderr);
        assert!(said.contains(expected) && said.contains("--out DIR begins another run"), "{said}");
        assert_eq!(output.status.code(), Some(1));
        assert!(is_quiet(&bench.0));
    };
    refused("the executable of one has changed since trial 000");
    write("first");
    let output = bench.run();
    assert!(output.status.success() && bench.records() == 4, "{}", text(&output.stderr));
    // Nor with another version of this program, on another machine, or under another kernel.
    fs::write(bench.0.join("it.toml"), REPLACED.replace("rounds = 1", "rounds = 3")).expect("written");
    let first = bench.0.join("it.run/trials/0000.json");
    let kept = fs::read_to_string(&first).expect("a record");
    for (key, said) in [
        ("lab", "SHA-256 of this program was 0000"),
        ("kernel", "the kernel was 0000"),
        ("host", "the machine was 0000"),
    ] {
        let mut record: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
        record[key] = "0000".into();
        fs::write(&first, record.to_string()).expect("written");
        refused(said);
    }
}

/// The first subject reports that it is ready long before its shell starts its program, `server` of the test's own. The
/// load waits for that, unless the file `script` exists, with which only another shell is started.
fn late() -> String {
    let prepare = REPLACED.lines().find(|line| line.starts_with("prepare =")).expect("it waits, too");
    let run = "run = \"touch {dir}/go; until [ -e script ] || [ $(basename $(readlink /proc/{pid}/exe)) != \
               $(basename $(realpath /bin/sh)) ]; do :; done; echo rate 5 > {output}\"";
    REPLACED
        .replace("echo up; exec ./server", "echo up; until [ -e {dir}/go ]; do :; done; exec ./server")
        .replace(prepare, "")
        .replace("run = \"echo rate 5 > {output}\"", run)
}

#[test]
fn a_record_has_the_program_that_ran_or_the_reason_why_not() {
    let bench = Bench::new("late", &late());
    let server = bench.0.join("server");
    fs::copy("/bin/sleep", &server).expect("a program");
    let output = bench.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let one = |run: &str, round: u64| {
        let files = fs::read_dir(bench.0.join(run).join("trials")).expect("records").flatten();
        let records = files.map(|file| serde_json::from_slice(&fs::read(file.path()).expect("a record")));
        let records = records.map(|record| record.expect("JSON"));
        let mut found =
            records.filter(|it: &serde_json::Value| it["subject"] == "one" && it["round"] == round);
        found.next().expect("it was tried")
    };
    let printed = Command::new("sha256sum").arg(&server).output().expect("sha256sum").stdout;
    let program = one("it.run", 0)["program"].as_str().map(str::to_owned);
    assert!(program.as_ref().is_some_and(|it| text(&printed).starts_with(it)), "{program:?}");
    // A trial with an unknown program does not count next to trials with a known one.
    fs::remove_file(&server).expect("it is ours");
    fs::write(&server, "#!/bin/sh\nwhile :; do :; done\n").expect("written");
    fs::set_permissions(&server, PermissionsExt::from_mode(0o755)).expect("it is ours");
    fs::write(bench.0.join("script"), "").expect("written");
    fs::write(bench.0.join("it.toml"), late().replace("rounds = 1", "rounds = 2")).expect("written");
    let output = bench.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (again, why) = (one("it.run", 1), "program-unknown: only a shell runs, and in trial 000");
    assert!(again["program"].is_null() && again["doubts"].to_string().contains(why), "{again:#}");
    let output = bench.lab(&["run", "it.toml", "--out", "other.run"]).output().expect("evenkeel");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let alone = one("other.run", 0);
    assert_eq!(alone["remarks"][0], "program-unknown: only a shell runs", "{alone:#}");
}

/// The second subject does not start in its second trial, dies under the load in its third, after a first figure, and
/// before the load in its fourth.
const DYING: &str = experiment!(
    "What is left when one dies?",
    r#"[[subject]]
name = "one"
start = "echo one > {dir}/name; echo up; exec sleep 1000"
ready = { line = "up" }
[[subject]]
name = "two"
start = """echo two > {dir}/name; echo >> tried; tried=$(grep -c ^ tried); echo $tried > {dir}/tried
[ $tried != 2 ] || { echo out of memory >&2; exit 3; }; echo up; exec sleep 1000"""
ready = { line = "up" }
"#,
    r#"prepare = ["""[ "$(cat {dir}/tried)" != 4 ] || { kill {pid}; until [ ! -d /proc/{pid} ] || grep -q '^State:.Z' /proc/{pid}/status; do :; done; exit 1; }"""]
run = """echo rate 5 > {output}; [ "$(cat {dir}/tried)" != 3 ] || { kill {pid}; until [ ! -d /proc/{pid} ] || grep -q '^State:.Z' /proc/{pid}/status; do :; done; exit 1; }"""
"#,
    "rounds = 5\nverdict = false\ndoubtful = 0"
);

#[test]
fn a_server_that_dies_spoils_only_its_own_trial() {
    let bench = Bench::new(
        "dying",
        &DYING.replace("{ kill", "{{ kill").replace("{ echo out", "{{ echo out").replace("; }", "; }}"),
    );
    let output = bench.run();
    assert!(output.status.success() && bench.records() == 10, "{}", text(&output.stderr));
    let of = |name: &str| -> Vec<serde_json::Value> {
        (0..10).map(|place| bench.record(place)).filter(|record| record["subject"] == name).collect()
    };
    let doubts = |record: &serde_json::Value| record["doubts"].to_string();
    let two = of("two");
    assert!(
        doubts(&two[1]).contains("it ended with exit status: 3 before it was ready: out of memory"),
        "{two:#?}"
    );
    assert!(doubts(&two[2]).contains("the subject ended in mid-trial"), "{two:#?}");
    assert_eq!(two[2]["metrics"]["requests_per_second"], 5.0, "what was measured until then is kept");
    assert!(doubts(&two[3]).contains("while workload.prepare ran"), "{two:#?}");
    for record in of("one").iter().chain([&two[0], &two[4]]) {
        // Other load on this machine may have disturbed them.
        assert!(!doubts(record).contains("ended"), "{record:#?}");
        assert_eq!(record["metrics"]["requests_per_second"], 5.0);
    }
    assert!(is_quiet(&bench.0));
}

#[test]
fn one_subject_alone_is_measured_and_kept() {
    let second = EXPERIMENT.find("[[subject]]\nname = \"two\"").expect("a subject");
    let load = EXPERIMENT.find("[workload]").expect("a load");
    let bench = Bench::new("alone", &(EXPERIMENT[..second].to_owned() + &EXPERIMENT[load..]));
    let output = bench.run();
    assert!(text(&output.stdout).starts_with("2 trials in it.run (2 new, "), "{}", text(&output.stderr));
    let lab = |words: &[&str]| {
        let output = Command::new(EVENKEEL).arg("lab").args(words).current_dir(&bench.0).output();
        let output = output.expect("evenkeel");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(lab(&["report", "it.run"]).contains("There is one cell, which a run compares with nothing"));
    assert!(bench.0.join("it.run/report.html").exists());
    if bench.record(0)["doubts"] != serde_json::json!([])
        || bench.record(1)["doubts"] != serde_json::json!([])
    {
        // Other guests of this machine took its CPU time.
        return;
    }
    let said = lab(&["gate", "it.run", "--commit", "c1"]);
    assert!(
        said.ends_with("too few runs to see anything: there are 1, and it takes 6 at least.\n"),
        "{said}"
    );
    lab(&["history", "--html", "trends.html"]);
    let page = fs::read_to_string(bench.0.join("trends.html")).expect("a page of trends");
    assert!(page.contains("<svg") && page.contains("c1"), "{page}");
}

#[test]
fn after_a_kill_the_next_run_ends_leftover_processes_and_continues() {
    let bench = Bench::new("killed", EXPERIMENT);
    let mut child = bench.hanging();
    child.kill().expect("it lives");
    child.wait().expect("it is ours");
    assert!(!is_quiet(&bench.0), "subject and load are left");
    fs::remove_file(bench.0.join("hang")).expect("it was there");
    let output = bench.run();
    assert!(text(&output.stdout).starts_with("4 trials in it.run (4 new, "), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("left by a run that was killed: run "), "{}", text(&output.stderr));
    until("the end of all", || is_quiet(&bench.0));
}

#[test]
fn after_a_kill_a_server_with_another_environment_is_found() {
    let start = "start = \"echo up; exec env -i sleep 1000\"";
    let bench = Bench::new("bare", &EXPERIMENT.replace("start = \"echo up; exec sleep 1000\"", start));
    let mut child = bench.hanging();
    child.kill().expect("it lives");
    child.wait().expect("it is ours");
    let output = bench.lab(&["restore"]).output().expect("evenkeel");
    assert!(
        text(&output.stdout).contains(": no process of it is found any more\n"),
        "{}",
        text(&output.stdout)
    );
    assert!(is_quiet(&bench.0));
}

#[test]
fn a_daemon_that_has_shed_everything_ends_with_its_trial() {
    // Neither mark nor group, session or parent is left of what it is known by, and it does not heed SIGTERM.
    let daemon =
        r#"env -i setsid sh -c \"trap '' TERM; (setsid sh -c 'trap : TERM; while :; do sleep 1; done' &)\""#;
    let start = format!("start = \"{daemon}; echo up; exec sleep 1000\"");
    let bench = Bench::new("daemon", &EXPERIMENT.replace("start = \"echo up; exec sleep 1000\"", &start));
    let output = bench.run();
    assert!(text(&output.stdout).starts_with("4 trials in it.run (4 new, "), "{}", text(&output.stderr));
    assert!(is_quiet(&bench.0));
}

/// Checks that an experiment with one error ends with this status and this message.
#[track_caller]
fn refused(name: &str, experiment: &str, status: i32, expected: &str) {
    let bench = Bench::new(name, experiment);
    let output = bench.run();
    let said = text(&output.stderr);
    assert!(said.contains(expected), "{said}");
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(bench.records(), 0);
    assert!(is_quiet(&bench.0));
    let left = bench.lab(&["restore"]).output().expect("evenkeel");
    assert_eq!(text(&left.stdout), "Nothing is left of any run.\n");
}

#[test]
fn an_error_is_one_sentence_with_its_place() {
    let with = |old: &str, new: &str| EXPERIMENT.replacen(old, new, 1);
    refused("key", &with("seconds =", "second ="), 64, "unknown field `second`");
    let name = "fill in workload.run: {drr} is none of {dir}, {measured}, {output}, {pid}, {pids}, {port}";
    refused("name", &with("-d {dir}", "-d {drr}"), 64, name);
    let ends =
        "carry out subject \"one\": start: it ended with exit status: 3 before it was ready: no memory";
    refused("ends", &with("echo up; exec sleep 1000", "echo no memory >&2; exit 3"), 1, ends);
    let late =
        "carry out subject \"one\": start: it is not ready after 0 s (its log has no line with \"down\")";
    refused("late", &with("\"up\" }", "\"down\" }\nready_within_s = 0"), 1, late);
    let load = "carry out workload.run: it ended with exit status: 1: ouch";
    refused("load", &with("&& echo rate 5 > {output}", "&& echo ouch >&2; exit 1"), 1, load);
    let figure =
        "carry out workload.parser: lines.requests_per_second: find 'rate {}' in what the command printed";
    refused("figure", &with("echo rate 5", "echo date 5"), 1, figure);
    let primary = "carry out measure.primary: there is no \"p99_us\"; there are ";
    refused("primary", &with("primary = \"requests_per_second\"", "primary = \"p99_us\""), 1, primary);
}

const TWO_LEVELS: &str = r#"
[[factor]]
name = "f"
[[factor.level]]
name = "a"
LEVEL
[[factor.level]]
name = "b"
LEVEL
"#;

#[test]
fn an_error_of_a_level_is_reported_before_the_first_trial() {
    let with = |level: &str| EXPERIMENT.to_owned() + &TWO_LEVELS.replace("LEVEL", level);
    let place = "factor \"f\": level \"a\": ";
    refused("cpus", &with("cpus = \"a-b\""), 64, &format!("use the experiment: {place}cpus: "));
    let pattern = EXPERIMENT.replacen("rate {}", "rate", 1);
    refused("pattern", &pattern, 64, "workload.parser: lines.requests_per_second: expected a text with {}");
    let nowhere = format!("{place}sysctl \"net.core.nowhere\": there is no /proc/sys/net/core/nowhere");
    refused("sysctl", &with("sysctl = { \"net.core.nowhere\" = \"1\" }"), 1, &nowhere);
    let image = format!("{place}kernel: ");
    refused("image", &with("kernel = { image = \"/nowhere\" }"), 1, &image);
    // A program without its allocator would be another subject.
    let preload = format!("{place}env.LD_PRELOAD: ERROR: ld.so: object 'libnowhere.so'");
    refused("preload", &with("env.LD_PRELOAD = \"libnowhere.so\""), 1, &preload);
}

/// Three subjects of which two are equal, and a load whose figure is that of the subject, within one percent.
const EQUALS: &str = experiment!(
    "Which of them is slower?",
    r#"[[subject]]
name = "first"
start = "echo 100 > {dir}/level; echo up; exec sleep 1000"
ready = { line = "up" }
[[subject]]
name = "equal"
start = "echo 100 > {dir}/level; echo up; exec sleep 1000"
ready = { line = "up" }
[[subject]]
name = "slower"
start = "echo 90 > {dir}/level; echo up; exec sleep 1000"
ready = { line = "up" }
"#,
    r#"run = "n=$(cat n || echo 0); echo $((n + 1)) > n; echo rate $(($(cat {dir}/level) * (9900 + n * 7919 % 201))) > {output}"
"#,
    "rounds = 8"
);

#[test]
fn too_few_rounds_for_a_verdict_are_refused_before_the_first_trial() {
    let bench = Bench::new("rounds", &EXPERIMENT.replace("verdict = false\n", ""));
    let output = bench.run();
    let said = text(&output.stderr);
    let wanted = "repeat.rounds: 1 comparison can show no difference in 2 rounds, however large it is: it takes 6 at least";
    assert!(output.status.code() == Some(64) && said.contains(wanted), "{said}");
    assert!(!bench.0.join("it.run").exists());
    // Without a wish for a verdict, a notice reports that there will be none.
    let planned = "2 rounds: 1 comparison needs 6 pairs to show a difference, however large, so there will be no verdict";
    let bench = Bench::new("no-verdict", EXPERIMENT);
    let output = bench.run();
    assert!(output.status.success() && text(&output.stderr).contains(planned), "{}", text(&output.stderr));
}

#[test]
fn equal_subjects_show_no_difference_and_a_different_one_does() {
    let bench = Bench::new("equals", EQUALS);
    let output = bench.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    if !text(&output.stdout).contains("(24 new, 0 doubtful)") {
        // Other guests of this machine took its CPU time: there may be too few pairs for a verdict.
        eprintln!("left out: {}", text(&output.stderr));
        return;
    }
    let mut report = Command::new(EVENKEEL);
    let output = report.args(["lab", "report", "it.run", "--json"]).current_dir(&bench.0).output();
    let said: serde_json::Value = serde_json::from_slice(&output.expect("evenkeel").stdout).expect("JSON");
    let standings = said["metrics"][0]["standings"].as_array().expect("cells");
    let verdict = |name: &str| {
        let one = standings.iter().find(|it| it["treatment"] == name);
        one.and_then(|it| it["verdict"].as_str()).unwrap_or_else(|| panic!("{name}: {said:#}"))
    };
    assert!(["equivalent", "no_difference_shown"].contains(&verdict("equal")), "{said:#}");
    assert_eq!(verdict("slower"), "worse", "{said:#}");
}

/// The second subject is killed in its second, fourth and fifth trial, and hangs in the third, until the next run.
const DOUBTFUL: &str = experiment!(
    "Which of them is disturbed?",
    r#"[[subject]]
name = "one"
start = "echo one > {dir}/name; echo up; exec sleep 1000"
ready = { line = "up" }
[[subject]]
name = "two"
start = "echo two > {dir}/name; echo up; exec sleep 1000"
ready = { line = "up" }
"#,
    r#"run = """name=$(cat {dir}/name); echo >> tried-$name; tried=$(grep -c ^ tried-$name)
if [ $name = two ]; then case $tried in
    2|4|5) kill {pid}; until [ ! -d /proc/{pid} ] || grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.01; done ;;
    3) touch hangs; exec sleep 1000 ;;
esac; fi
echo rate 5 > {output}"""
"#,
    "rounds = 3\nverdict = false\ndoubtful = 8"
);

#[test]
fn a_doubtful_trial_is_repeated_in_its_round_also_by_a_continued_run() {
    let bench = Bench::new("doubtful", DOUBTFUL);
    let child = bench.lab(&["run", "it.toml"]).spawn().expect("evenkeel");
    until("the load", || bench.0.join("hangs").exists());
    tell(&child, "-INT");
    assert_eq!(child.wait_with_output().expect("evenkeel").status.code(), Some(130));
    let output = bench.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records: Vec<_> = (0..bench.records()).map(|place| bench.record(place)).collect();
    let number = |record: &serde_json::Value, key: &str| record[key].as_u64().expect(key);
    assert!(records.is_sorted_by_key(|it| number(it, "round")), "{records:#?}");
    // Other load may have disturbed more of them than the test has.
    for (round, subject) in (0..3).flat_map(|round| [(round, "one"), (round, "two")]) {
        let tries = records.iter().filter(|it| number(it, "round") == round && it["subject"] == subject);
        let tries: Vec<_> =
            tries.map(|it| (number(it, "repeat"), it["doubts"] == serde_json::json!([]))).collect();
        let in_vain = (0..tries.len() as u64 - 1).map(|repeat| (repeat, false));
        let last = (tries.len() as u64 - 1, true);
        assert!(
            tries == in_vain.chain([last]).collect::<Vec<_>>() || tries.len() == 9,
            "{round} {subject}: {tries:?}"
        );
    }
    // A subject that is killed before its shell executes `sleep` has a second doubt, about its program.
    let killed = |it: &&serde_json::Value| {
        let doubts = it["doubts"].as_array().expect("doubts");
        doubts.iter().any(|it| it.as_str().is_some_and(|it| it.starts_with("the subject ended")))
    };
    assert_eq!(records.iter().filter(killed).count(), 3, "{records:#?}");
    assert!(text(&output.stderr).contains(" two, repeat 2:"), "{}", text(&output.stderr));
}

#[test]
fn a_port_in_use_is_reported() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let experiment = EXPERIMENT.replacen("version =", &format!("port = {port}\nversion ="), 1);
    let expected = format!("subject \"one\": port: port {port} of 127.0.0.1 is in use by another program");
    refused("port", &experiment, 1, &expected);
}

const KNOBS: &str = r#"
[[factor]]
name = "host"
[[factor.level]]
name = "stock"
[[factor.level]]
name = "tuned"
sysctl = { "net.core.somaxconn" = "777" }
file = { "/sys/class/net/left/tx_queue_len" = "123" }
file_system = { kind = "ext4", size_mb = 8 }
"#;

/// In the namespace: the load hangs if the file system is mounted, and records what it reads.
const IN_NAMESPACE: &str = r#"set -e
mount -t sysfs sysfs /sys; ip link add left type veth peer name right
state() { cat /proc/sys/net/core/somaxconn /sys/class/net/left/tx_queue_len; grep -c "$PWD" /proc/self/mountinfo || true; }
before=$(state)
mkdir -p probe; truncate -s 8M probe/image
mkfs.ext4 -q probe/image && mount -o loop probe/image probe 2>/dev/null && umount probe || { echo no loop devices; exit 0; }
mkdir real; ln -s real link
for how in INT KILL; do
    rm -f hangs; rm -rf real/it.run
    "$EVENKEEL" lab run it.toml --out link/it.run --state state & run=$!
    n=0; until [ -e hangs ]; do sleep 0.1; n=$((n + 1)); [ $n -lt 600 ]; done
    [ "$(cat hangs)" = "777 123 1" ]
    kill -$how $run; wait $run || true
    if [ $how = KILL ]; then
        [ "$(state)" != "$before" ]
        "$EVENKEEL" lab restore --state state
    fi
    [ "$(state)" = "$before" ]
    [ ! -e real/it.run/work/dir.image ]
done
mkdir -p keep real/it.run/work/dir/x; touch keep/file; mount --bind keep real/it.run/work/dir/x
"$EVENKEEL" lab run it.toml --out link/it.run --state state 2>refused && exit 1
grep -q 'real/it.run/work/dir/x is mounted, and would be emptied' refused
[ -e keep/file ]; umount real/it.run/work/dir/x
"$EVENKEEL" lab restore --state state | grep -q 'Nothing is left of any run.'
echo everything as before
"#;

#[test]
fn settings_and_file_systems_are_as_before_after_an_interruption_and_after_a_kill() {
    let run = "seen=\"$(cat /proc/sys/net/core/somaxconn /sys/class/net/left/tx_queue_len) $(mountpoint -q {dir}; echo $((1 - $?)))\"; \
               [ \"$(mountpoint -q {dir}; echo $?)\" = 0 ] && { echo $seen > hangs.new; mv hangs.new hangs; exec sleep 1000; }; echo rate 5";
    let run = run.replace("{ echo", "{{ echo").replace("; }; echo", "; }}; echo");
    let run = format!("run = '''{run}'''");
    let old = EXPERIMENT.lines().find(|line| line.starts_with("run =")).expect("a load");
    let bench = Bench::new("namespace", &(EXPERIMENT.replace(old, &run) + KNOBS));
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--", "sh", "-c", IN_NAMESPACE]).env("EVENKEEL", EVENKEEL);
    let Ok(output) = unshare.current_dir(&bench.0).output() else { return };
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    let refused =
        ["unshare:", "mount:"].iter().any(|word| errors.contains(word)) && !errors.contains("carry out");
    if said.contains("no loop devices") || (!output.status.success() && refused) {
        eprintln!("no namespace with a loop device can be had here: {errors}");
        return;
    }
    assert!(said.ends_with("everything as before\n"), "{said}{errors}");
    assert!(is_quiet(&bench.0));
}

#[test]
fn a_run_that_needs_settings_does_not_wait_for_another_process() {
    let bench = Bench::new("locked", &(EXPERIMENT.to_owned() + &KNOBS.replace("file_system", "#")));
    let state = bench.0.join("state/tune");
    fs::create_dir_all(&state).expect("a directory");
    let lock = fs::File::create(state.join("lock")).expect("a file");
    lock.lock().expect("no other process has it");
    let output = bench.run();
    let said = text(&output.stderr);
    assert!(said.contains("another `evenkeel tune` is at work"), "{said}");
}

/// A load with another command beside it, by level.
const BESIDE: &str = experiment!(
    "What does a command beside the load do?",
    r#"[[subject]]
name = "one"
start = "echo up; exec sleep 1000"
ready = { line = "up" }
[[factor]]
name = "beside"
[[factor.level]]
name = "none"
set.beside = ""
[[factor.level]]
name = "lasts"
set.beside = "sleep 1000 & touch {dir}/began; wait"
[[factor.level]]
name = "fails"
set.beside = "touch {dir}/began; echo no reason >&2; exit 3"
[[factor.level]]
name = "ends"
set.beside = "touch {dir}/began"
"#,
    r#"run = "sleep 0.5; echo rate $(ls {dir} | wc -l) > {output}"
beside = [{ command = "{beside}" }]
"#,
    "rounds = 1\nverdict = false\ndoubtful = 0"
);

#[test]
fn a_command_beside_the_load_has_to_last_and_is_ended() {
    let bench = Bench::new("beside", BESIDE);
    assert!(bench.run().status.success());
    let mut seen = Vec::new();
    for place in 0..4 {
        let record = bench.record(place);
        let level = record["levels"]["beside"].as_str().expect("a level").to_owned();
        let doubt = record["doubts"][0].as_str().unwrap_or_default().to_owned();
        seen.push((level, record["metrics"]["requests_per_second"].as_f64(), doubt));
    }
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let place = "carry out workload.beside[0]: it ended";
    let ended = format!("{place} before the load did (`may_end = true` allows that)");
    let wanted = [
        ("ends", 1.0, ended),
        ("fails", 1.0, format!("{place} with exit status: 3 while the load ran: no reason")),
        ("lasts", 1.0, String::new()),
        ("none", 0.0, String::new()),
    ];
    for ((level, rate, doubt), wanted) in seen.iter().zip(wanted) {
        assert_eq!((level.as_str(), *rate), (wanted.0, Some(wanted.1)));
        assert!(doubt.starts_with(&wanted.2) && doubt.is_empty() == wanted.2.is_empty(), "{level}: {doubt}");
    }
    until("the end of all", || is_quiet(&bench.0));
}
