//! `evenkeel lab run` of servers that keep running side by side: windows of real servers, servers that die between them,
//! runs that are killed, and the subjects and levels that the command line names.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::quiet::is_quiet;
use crate::support::until::until;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A directory with an experiment, in which everything happens.
struct Windows(PathBuf);

impl Windows {
    fn new(name: &str, experiment: &str) -> Windows {
        let path = std::env::temp_dir().join(format!("evenkeel-lab-windows-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        fs::write(path.join("it.toml"), experiment.replace("EVENKEEL", EVENKEEL)).expect("written");
        Windows(path)
    }

    fn lab(&self, words: &[&str]) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.arg("lab").args(words).args(["--state", "state"]).current_dir(&self.0);
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Vec<serde_json::Value> {
        let output = self.lab(&[&["run", "it.toml"], words].concat()).output().expect("evenkeel");
        assert!(output.status.success(), "{}", said(&output));
        assert!(is_quiet(&self.0) && !self.0.join("it.run/work").exists(), "something is left");
        self.records()
    }

    fn records(&self) -> Vec<serde_json::Value> {
        let files = fs::read_dir(self.0.join("it.run/trials")).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
        paths.sort();
        let record = |path| serde_json::from_slice(&fs::read(path).expect("a record")).expect("JSON");
        paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "json")).map(record).collect()
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // If it fails, the rest is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two real servers, and windows of a fifth of a second that note which server they load.
const SERVERS: &str = r#"
question = "Are they equal?"
[[subject]]
name = "one"
start = "exec EVENKEEL serve -u \"$(id -un)\" -l 127.0.0.1 -p {port} -t 1 -m 64"
version = "EVENKEEL --version"
[[subject]]
name = "two"
start = "exec EVENKEEL serve -u \"$(id -un)\" -l 127.0.0.1 -p {port} -t 1 -m 64"
[workload]
prepare = ["EVENKEEL load --port {port} --prefill --requests 1 --warm-up 0 --keys 1000; echo {pid} >> filled"]
run = """echo {pid} >> loaded; exec EVENKEEL load --port {port} --server-pid {pids} --connections 4 --keys 1000 \
    --warm-up {warm_up}s --duration {measured}s --json {output}"""
parser = "evenkeel-load"
seconds = 0.3
warm_up_s = 0.1
[measure]
primary = "requests_per_cpu_second"
better = "higher"
also = ["keys_per_cpu_second", "client_requests_per_cpu_second", "p99_us"]
[repeat]
rounds = 4
rounds_per_start = 2
verdict = false
doubtful = 0
"#;

#[test]
fn servers_keep_running_for_the_rounds_of_a_start() {
    let windows = Windows::new("real", SERVERS);
    let records = windows.run(&[]);
    assert_eq!(records.len(), 8);
    for record in &records {
        for metric in ["requests_per_cpu_second", "keys_per_cpu_second", "client_requests_per_cpu_second"] {
            assert!(record["metrics"][metric].as_f64().is_some_and(|figure| figure > 0.0), "{record:#}");
        }
        assert_eq!(record["samples"].as_array().map(Vec::len), Some(1), "{record:#}");
        assert_eq!(record["version"].is_string(), record["subject"] == "one");
        assert!(record["program"].is_string(), "{record:#}");
    }
    let (filled, loaded) = (windows.text("filled"), windows.text("loaded"));
    let (filled, loaded): (Vec<&str>, Vec<&str>) = (filled.lines().collect(), loaded.lines().collect());
    let set = |pids: &[&str]| pids.iter().map(|pid| (*pid).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!((filled.len(), set(&filled).len()), (4, 4), "each server is prepared once");
    // Two rounds with two servers, and two with two others.
    assert_eq!((set(&loaded[..4]), set(&loaded[4..])), (set(&filled[..2]), set(&filled[2..])));
    assert_eq!(loaded[..2], [loaded[3], loaded[2]], "the second round is the mirror image of the first");
}

/// Two servers that only exist, and loads that kill them: in the third window, the one that is loaded; in the sixth, the
/// other one. The seventh window hangs if there is a file `hang`.
const DYING: &str = r#"
question = "What is left when one dies?"
[[subject]]
name = "one"
start = "echo $$ > one; echo up; exec sleep 1000"
ready = { line = "up" }
[[subject]]
name = "two"
start = "echo $$ > two; echo up; exec sleep 1000"
ready = { line = "up" }
[workload]
run = """echo {pid} >> loaded; case $(grep -c ^ loaded) in
    3) victim={pid} ;;
    6) victim=$(cat one two | grep -v '^{pid}$') ;;
    7) if [ -e hang ]; then touch hangs; exec sleep 1000; fi ;;
esac
if [ -n "$victim" ]; then
    kill $victim; until [ ! -d /proc/$victim ] || grep -q '^State:.Z' /proc/$victim/status; do :; done
fi
echo rate 5 > {output}"""
parser = { lines = { requests_per_second = "rate {}" } }
seconds = 1
[measure]
primary = "requests_per_second"
better = "higher"
[repeat]
rounds = 4
rounds_per_start = 4
verdict = false
doubtful = 0
"#;

#[test]
fn a_server_that_dies_is_started_again_and_spoils_one_window() {
    let windows = Windows::new("dying", DYING);
    let records = windows.run(&[]);
    let doubts: Vec<String> = records.iter().map(|record| record["doubts"].to_string()).collect();
    let has = |text: &str| -> Vec<usize> { (0..8).filter(|place| doubts[*place].contains(text)).collect() };
    assert_eq!(has("the subject ended in mid-trial, with"), [2], "{doubts:#?}");
    // In the last round the other server is loaded after the one that the sixth window was of.
    assert_eq!(has("the subject ended before its turn, with"), [7], "{doubts:#?}");
    let loaded = windows.text("loaded");
    let servers: BTreeSet<&str> = loaded.lines().collect();
    assert_eq!((loaded.lines().count(), servers.len(), records.len()), (7, 3, 8), "{doubts:#?}");
}

#[test]
fn nothing_of_servers_that_keep_running_is_left_after_a_kill() {
    let windows = Windows::new("killed", DYING);
    fs::write(windows.0.join("hang"), "").expect("written");
    let mut child = windows.lab(&["run", "it.toml"]).spawn().expect("evenkeel");
    until("the load", || windows.0.join("hangs").exists());
    child.kill().expect("it lives");
    child.wait().expect("it is ours");
    assert!(!is_quiet(&windows.0), "servers and load are left");
    let restored = windows.lab(&["restore"]).output().expect("evenkeel");
    assert!(restored.status.success() && is_quiet(&windows.0), "{}", said(&restored));
    fs::remove_file(windows.0.join("hang")).expect("it was there");
    let before = windows.records().len();
    assert_eq!((before > 0, windows.run(&[]).len()), (true, 8), "it is continued");
}

/// Subjects of which one is not there, and loads for some.
const CHOSEN: &str = r#"
question = "Which of them?"
[[subject]]
name = "base"
program = "sleep"
start = "echo up; exec {program} 1000"
ready = { line = "up" }
[[subject]]
name = "missing"
program = "no-such-program"
optional = true
start = "exec {program}"
[[subject]]
name = "ours"
start = "echo up; exec sleep 2000"
ready = { line = "up" }
[[factor]]
name = "work"
[[factor.level]]
name = "get"
set.rate = "5"
must = { ours = 0.5, missing = 2 }
[[factor.level]]
name = "set"
set.rate = "7"
subjects = ["base", "ours"]
[workload]
run = "echo rate {rate} > {output}"
parser = { lines = { requests_per_second = "rate {}" } }
seconds = 1
[measure]
primary = "requests_per_second"
better = "higher"
[repeat]
rounds = 2
rounds_per_start = 2
verdict = false
doubtful = 0
"#;

#[test]
fn the_command_line_chooses_subjects_programs_and_levels() {
    let windows = Windows::new("chosen", CHOSEN);
    let peer = "ours=echo up; exec sleep 3000";
    let words =
        ["run", "it.toml", "--only", "work=get", "--peer", peer, "--rounds", "1", "--out", "peer.run"];
    let output = windows.lab(&words).output().expect("evenkeel");
    let left_out = "left out: missing: \"no-such-program\" is not found in PATH\n";
    assert!(output.status.success() && said(&output).contains(left_out), "{}", said(&output));
    assert!(windows.text("peer.run/experiment.toml").contains("exec sleep 3000"));
    let words = ["--only", "get", "--program", "base=/bin/sleep", "--rounds", "3"];
    let records = windows.run(&words);
    let cells: BTreeSet<String> =
        records.iter().map(|it| format!("{} {}", it["subject"], it["levels"]["work"])).collect();
    assert_eq!(
        (records.len(), cells.into_iter().collect::<Vec<_>>()),
        (6, vec!["\"base\" \"get\"".to_owned(), "\"ours\" \"get\"".to_owned()])
    );
    // The same words continue it, others do not.
    assert_eq!(windows.run(&words).len(), 6);
    let other = windows.lab(&["run", "it.toml", "--only", "set"]).output().expect("evenkeel");
    assert!(said(&other).contains("the experiment has changed since: "), "{}", said(&other));
    let unknown = windows.lab(&["run", "it.toml", "--only", "del"]).output().expect("evenkeel");
    let names = "--only: \"del\" is none of base, ours, work=get, work=set";
    assert!(unknown.status.code() == Some(64) && said(&unknown).contains(names), "{}", said(&unknown));
    let mut report = Command::new(EVENKEEL);
    let report = report.args(["lab", "report", "it.run", "--json"]).current_dir(&windows.0).output();
    let report: serde_json::Value = serde_json::from_slice(&report.expect("evenkeel").stdout).expect("JSON");
    let aims = report["aims"].as_array().expect("aims");
    assert_eq!((aims.len(), &aims[0]["must"]["at_least"]), (1, &serde_json::json!(0.5)), "{report:#}");
}
