//! `evenkeel tune verify` and `evenkeel tune tournament`, with the real program: on a host in a directory whose load
//! depends on a setting, and in a network namespace with real packets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::namespaces::{apart, can_be_made, is_possible};
use crate::support::until::until;
use serde_json::Value;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The setting that `defer-20` and `defer-50` change.
const TIMER: &str = "sys/class/net/eth0/gro_flush_timeout";

/// A host in a directory, with one interface whose interrupts can be deferred.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let root = std::env::temp_dir().join(format!("evenkeel-verify-{name}-{}", std::process::id()));
        let device = root.join("sys/devices/pci/0000:00:05.0");
        let nic = device.join("net/eth0");
        fs::create_dir_all(nic.join("queues/rx-0")).unwrap();
        fs::create_dir_all(root.join("sys/class/net")).unwrap();
        fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
        symlink("../../devices/pci/0000:00:05.0/net/eth0", root.join("sys/class/net/eth0")).unwrap();
        symlink("../../../0000:00:05.0", nic.join("device")).unwrap();
        let files = [
            ("proc/sys/kernel/random/boot_id", "first"),
            ("proc/sys/kernel/osrelease", "6.12.0"),
            ("sys/class/net/eth0/type", "1"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/flags", "0x1003"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
            ("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "0"),
            ("sys/class/net/eth0/napi_defer_hard_irqs", "0"),
            (TIMER, "0"),
        ];
        for (path, text) in files {
            fs::write(root.join(path), format!("{text}\n")).unwrap();
        }
        Host(root)
    }

    fn tune(&self, job: &str) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.args(["tune", job, "--root"]).arg(&self.0).arg("--state").arg(self.0.join("state"));
        command.env("HOST", &self.0);
        command
    }

    /// A tournament with this load, which has the host's directory in `$HOST`.
    fn tournament(&self, strategies: &str, load: &str) -> Command {
        let mut command = self.tune("tournament");
        command.args(["--strategies", strategies, "--load", load]);
        command
    }

    fn apply(&self) -> String {
        let mut command = self.tune("apply");
        text(command.args(["--strategy", "defer-50"]), 0)
    }

    fn timer(&self) -> String {
        fs::read_to_string(self.0.join(TIMER)).unwrap()
    }

    fn journals(&self) -> usize {
        let names = fs::read_dir(self.0.join("state")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".jsonl")).count()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Its output; it must end with this status.
#[track_caller]
fn text(command: &mut Command, status: i32) -> String {
    let Output { status: found, stdout, stderr } = command.output().unwrap();
    let (said, complained) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(found.code(), Some(status), "{command:?}: {said}\n{complained}");
    if status == 0 { said } else { said + &complained }
}

/// A figure with little noise: slightly above 500, or slightly above 300 with a timer of 50 µs. Each run appends the
/// timer's value to `runs`.
const PLANTED: &str = "timer=$(cat $HOST/sys/class/net/eth0/gro_flush_timeout); echo $timer >> $HOST/runs
    base=500; test $timer != 50000 || base=300
    n=$(wc -l < $HOST/runs); echo \"p99 $((base + n * 7919 % 40)) us\"";

/// The same figure with any setting.
const EQUAL: &str = "echo x >> $HOST/runs; n=$(wc -l < $HOST/runs)
    echo \"{\\\"p99\\\": $((500 + n * 7919 % 40))}\" > /dev/stdout; echo done";

#[test]
fn the_planted_winner_is_found_and_everything_is_as_before() {
    let host = Host::new("planted");
    let mut tournament = host.tournament("defer-20,none,defer-50,spread", PLANTED);
    tournament.args(["--metric", "p99 {} us", "--better", "lower", "--rounds", "8", "--json"]);
    let found: Value = serde_json::from_str(&text(&mut tournament, 0)).unwrap();
    let verdicts: Vec<String> = found["standings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|standing| {
            format!(
                "{} {}",
                standing["strategy"].as_str().unwrap(),
                standing["standing"]["verdict"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(verdicts, ["none baseline", "defer-20 no_difference_shown", "defer-50 better"]);
    let ratio = found["standings"][2]["standing"]["ratio"].as_f64().unwrap();
    assert!((0.55..0.65).contains(&ratio), "{found}");
    assert_eq!((&found["refused"][0]["strategy"], found["ended_early"].is_null()), (&"spread".into(), true));
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 24);
    // One run before anything is changed; then each round has the reverse order of the one before.
    let timers: Vec<String> =
        fs::read_to_string(host.0.join("runs")).unwrap().lines().map(str::to_owned).collect();
    assert_eq!((timers.len(), timers[0].as_str()), (25, "0"));
    for pair in timers[1..].chunks(6) {
        assert!(pair[..3].iter().eq(pair[3..].iter().rev()), "{timers:?}");
    }
    assert_eq!((host.timer().as_str(), host.journals()), ("0\n", 0));
}

#[test]
fn where_there_is_no_difference_none_is_shown() {
    let host = Host::new("equal");
    let mut tournament = host.tournament("none,defer-20,defer-50", EQUAL);
    let said = text(tournament.args(["--metric", "/p99", "--better", "lower", "--rounds", "8"]), 0);
    assert_eq!(said.matches("no difference shown").count(), 2, "{said}");
    assert!(said.starts_with("/p99 (JSON), lower is better; 8 rounds, seed 1\n\nstrategy"), "{said}");
    assert_eq!(host.timer(), "0\n");
}

#[test]
fn a_signal_in_the_middle_of_a_trial_ends_the_load_and_restores_everything() {
    // Signals that this test itself ignores, for example as a background job, must not matter; and a tournament under
    // nohup must outlive the terminal.
    let cases = [
        ("--default-signal", None, "INT", 130),
        ("--default-signal", None, "TERM", 143),
        ("--ignore-signal=HUP", Some("HUP"), "INT", 130),
    ];
    for (disposition, ignored, signal, status) in cases {
        let host = Host::new(&format!("signal-{signal}-{}", ignored.unwrap_or_default()));
        // The first run is the rehearsal; the next one runs until it is ended, with a child of its own.
        let load = "test -f $HOST/rehearsed || { touch $HOST/rehearsed; exit 0; }
            timer=$(cat $HOST/sys/class/net/eth0/gro_flush_timeout)
            test $timer != 0 || exit 0
            sleep 1000 & echo $! > $HOST/sleeps.new; mv $HOST/sleeps.new $HOST/sleeps; wait";
        let tournament = host.tournament("none,defer-50", load);
        let mut env = Command::new("env");
        env.args(["--default-signal", disposition, EVENKEEL]).args(tournament.get_args());
        let running = env.env("HOST", &host.0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let sleeps = host.0.join("sleeps");
        until("the trial", || sleeps.exists());
        assert_eq!(host.timer(), "50000");
        if let Some(ignored) = ignored {
            text(Command::new("kill").args([format!("-{ignored}"), running.id().to_string()]), 0);
        }
        text(Command::new("kill").args([format!("-{signal}"), running.id().to_string()]), 0);
        assert_eq!(running.wait_with_output().unwrap().status.code(), Some(status));
        assert_eq!((host.timer().as_str(), host.journals()), ("0\n", 0));
        let sleeper = PathBuf::from("/proc").join(fs::read_to_string(sleeps).unwrap().trim());
        until("the end of the load's child", || {
            fs::read_to_string(sleeper.join("stat")).map_or(true, |stat| stat.contains(") Z "))
        });
    }
}

#[test]
fn a_tournament_that_is_killed_keeps_others_from_applying_until_rollback() {
    let host = Host::new("killed");
    let load = "timer=$(cat $HOST/sys/class/net/eth0/gro_flush_timeout); test $timer != 0 || exit 0
        echo $$ > $HOST/sleeps.new; mv $HOST/sleeps.new $HOST/sleeps; exec sleep 1000";
    let mut tournament = host.tournament("none,defer-50", load);
    let mut running = tournament.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = host.0.join("sleeps");
    until("the trial", || sleeps.exists());
    running.kill().unwrap();
    running.wait().unwrap();
    text(Command::new("kill").arg(fs::read_to_string(sleeps).unwrap().trim()), 0);
    assert_eq!(host.timer(), "50000");
    let said = text(&mut host.tournament("none,defer-50", "true"), 1);
    assert!(said.contains("an earlier one was interrupted"), "{said}");
    text(&mut host.tune("rollback"), 0);
    assert_eq!(host.timer(), "0\n");
}

#[test]
fn a_load_that_ends_far_too_early_ends_the_tournament() {
    let host = Host::new("early");
    // The rehearsal takes ten seconds, and no other run does.
    let load = "test -e $HOST/ran || sleep 10; touch $HOST/ran; echo p99 1 us";
    let mut tournament = host.tournament("none,defer-50", load);
    let said = text(tournament.args(["--metric", "p99 {} us", "--better", "lower", "--rounds", "1"]), 1);
    assert!(
        said.contains("s (its rehearsal): it has not done the same work\n  hint: give it a time"),
        "{said}"
    );
}

#[test]
fn a_load_that_fails_or_prints_no_figure_ends_the_tournament() {
    let host = Host::new("fails");
    let said = text(&mut host.tournament("none,defer-50", "echo no server >&2; exit 7"), 1);
    assert!(said.contains("run `echo no server >&2; exit 7`: exit status: 7: no server"), "{said}");
    let mut silent = host.tournament("none,defer-50", "echo fast");
    let said = text(silent.args(["--metric", "p99 {}", "--better", "lower"]), 1);
    assert!(said.contains("find 'p99 {}' in what the command printed"), "{said}");
    // It fails only with the timer set, so in the middle.
    let load = "test $(cat $HOST/sys/class/net/eth0/gro_flush_timeout) = 0 || exit 3";
    let said = text(&mut host.tournament("none,defer-50", load), 1);
    assert!(said.contains("exit status: 3"), "{said}");
    let said = text(host.tournament("none,defer-50", "exec sleep 1000").args(["--time-limit", "1s"]), 1);
    assert!(said.contains("has not ended within 1 s"), "{said}");
    assert_eq!((host.timer().as_str(), host.journals()), ("0\n", 0));
}

#[test]
fn another_program_that_sets_the_same_ends_the_tournament() {
    let host = Host::new("fought");
    let load = "timer=$HOST/sys/class/net/eth0/gro_flush_timeout; test $(cat $timer) = 0 || echo 7 > $timer";
    let said = text(&mut host.tournament("none,defer-50", load), 1);
    assert!(said.contains("at \"50000\" during a run: at its end it was \"7\""), "{said}");
    assert_eq!(host.timer(), "0\n");
}

#[test]
fn a_tournament_needs_two_different_strategies() {
    let host = Host::new("alone");
    assert!(text(&mut host.tournament("none", "true"), 64).contains("has only one"));
    assert!(text(&mut host.tournament("none,xps,xps", "true"), 64).contains("has xps twice"));
    let said = text(&mut host.tournament("none,spread", "true"), 1);
    assert!(
        said.contains("too few take part (spread: eth0: it has no interrupt that can be moved)"),
        "{said}"
    );
    // A process that a load leaves running, with its output open, delays nothing.
    let said = text(
        host.tournament("none,defer-50", "sleep 100 & echo $! >> $HOST/left").args(["--rounds", "1"]),
        0,
    );
    assert!(said.contains("no difference shown"), "{said}");
    let left = fs::read_to_string(host.0.join("left")).unwrap();
    text(Command::new("kill").args(left.lines()), 0);
}

#[test]
fn the_duration_of_the_load_can_be_the_figure() {
    let host = Host::new("seconds");
    let mut tournament = host.tournament("none,defer-50", "test ! -e $HOST/never");
    let said = text(tournament.args(["--rounds", "2", "--warm-up", "1s", "--json"]), 0);
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&found["metric"], &found["warm_up_s"]), (&"seconds".into(), &1.into()));
    for run in found["runs"].as_array().unwrap() {
        assert!(run["seconds"].as_f64().unwrap() > 0.0 && run["figure"] == run["seconds"], "{run}");
    }
}

#[test]
fn what_holds_is_verified_only_if_something_was_measured() {
    let host = Host::new("verify");
    assert!(text(&mut host.tune("verify"), 17).contains("No plan is in force."));
    host.apply();
    let said = text(&mut host.tune("verify"), 16);
    assert!(said.contains("  holds     /sys/class/net/eth0/gro_flush_timeout = 50000\n"), "{said}");
    assert!(said.contains("  unknown   interrupts per packet fall (/proc/interrupts)"), "{said}");
    assert!(said.ends_with("Nothing shown: no figure can be credited to the plan.\n"), "{said}");

    let verify = |arguments: &[&str], status| text(host.tune("verify").args(arguments), status);
    let said = verify(&["--objective", "echo p99 812 us"], 0);
    assert!(said.contains("  held      echo p99 812 us: exit status: 0\n"), "{said}");
    let objective = ["--objective", "echo p99 812 us", "--metric", "p99 {} us"];
    verify(&[&objective[..], &["--at-most", "900"]].concat(), 0);
    let said = verify(&[&objective[..], &["--at-most", "900", "--at-least", "850"]].concat(), 15);
    assert!(said.contains("'p99 {} us' is 812, to be at least 850 and at most 900"), "{said}");
    let said = verify(&["--objective", "echo refused >&2; exit 3"], 15);
    assert!(said.contains("exit status: 3: refused"), "{said}");
    assert!(
        verify(&["--objective", "true", "--metric", "p99 {}", "--at-most", "9"], 15)
            .contains("failed to find")
    );
    assert!(verify(&objective, 64).contains("--metric alone demands nothing"));
}

#[test]
fn an_objective_does_not_outlive_a_host_that_cannot_be_read() {
    let host = Host::new("unread");
    host.apply();
    let mut verify = host.tune("verify");
    // The unit is searched for when the objective runs already.
    verify.args(["--unit", "nobodys", "--objective", "sleep 48611 & sleep 48611; true"]);
    assert!(text(&mut verify, 1).contains("find a process of the unit nobodys"));
    let runs = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\x0048611")
    };
    assert!(!fs::read_dir("/proc").unwrap().flatten().any(runs), "its commands should have ended");
}

#[test]
fn an_undone_plan_leaves_no_expected_effect() {
    let host = Host::new("promise");
    host.apply();
    assert!(host.0.join("state/000001.promise.json").exists());
    text(&mut host.tune("rollback"), 0);
    assert!(host.0.join("state/000001.jsonl").exists() && !host.0.join("state/000001.promise.json").exists());
}

#[test]
fn a_value_that_another_program_has_set_does_not_hold() {
    let host = Host::new("adversary");
    host.apply();
    fs::write(host.0.join(TIMER), "7000\n").unwrap();
    let mut verify = host.tune("verify");
    let found: Value =
        serde_json::from_str(&text(verify.args(["--json", "--objective", "true"]), 13)).unwrap();
    let value = &found["values"][0];
    assert_eq!(
        (&value["holds"], &value["found"], &found["outcome"]),
        (&"no".into(), &"7000".into(), &"not_held".into())
    );
    // A newer plan for the same setting replaces it.
    text(host.tune("apply").args(["--strategy", "defer-20"]), 0);
    text(host.tune("verify").args(["--objective", "true"]), 0);
}

#[test]
fn a_memcached_that_is_gone_misses_the_objective() {
    let host = Host::new("memcached");
    host.apply();
    // Nothing listens at port 1 of this unused loopback address.
    let said = text(host.tune("verify").args(["--memcached", "127.77.7.7:1"]), 15);
    assert!(said.contains("MISSED    memcached 127.77.7.7:1: it cannot be asked"), "{said}");
}

/// Packets from v1 to v0, steered to CPU 1 from CPU 0, where they are sent. The namespace and everything in it end with
/// the script.
const LIVE: &str = r#"
set -eu
mount -t sysfs sysfs /sys
ip link add v0 numrxqueues 4 numtxqueues 4 type veth peer name v1
ip link set v0 up; ip link set v1 up; ip link set lo up
ip addr add 10.7.7.1/24 dev v1
ip neigh add 10.7.7.2 lladdr 02:00:00:00:00:07 dev v1
q=/sys/class/net/v0/queues
signal='[{"figure":"steered_to","moves":"grows"}]'
change() { printf '{"stage":"steering","setting":{"file":{"path":"%s","holds":"mask"}},"now":"0","wanted":"2","why":"","asked_by":"","risk":"low","signal":%s}' "$1" "$signal"; }
made=$(printf '"made":{"host":"%s","boot_id":"%s","network":"%s"}' "$(cat /proc/sys/kernel/hostname)" \
    "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/net)")
printf '{%s,"changes":[%s,%s,%s,%s]}' "$made" "$(change $q/rx-0/rps_cpus)" "$(change $q/rx-1/rps_cpus)" "$(change $q/rx-2/rps_cpus)" "$(change $q/rx-3/rps_cpus)" > "$DIR/plan"
taskset -c 0 bash -c 'while :; do for i in 1 2 3 4 5 6 7 8 9 10; do echo x > /dev/udp/10.7.7.2/9; done 2> /dev/null; done' &
sender=$!
trap 'kill $sender' EXIT
"$EVENKEEL" tune apply --plan "$DIR/plan" --before 3 --state "$DIR/state"
"$EVENKEEL" tune verify --seconds 3 --json --state "$DIR/state" > "$DIR/steered" || true
echo 1 > $q/rx-2/rps_cpus
status=0; "$EVENKEEL" tune verify --seconds 3 --json --state "$DIR/state" > "$DIR/adversary" || status=$?
test $status = 13
"$EVENKEEL" tune rollback --state "$DIR/state"
"#;

/// Runs the script, and returns what `verify` found after steering and after the adversary's write.
fn steer_real_packets() -> (Value, Value) {
    let directory = std::env::temp_dir().join(format!("evenkeel-verify-live-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    text(&mut apart(&directory, LIVE), 0);
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(directory.join(name)).unwrap()).unwrap()
    };
    let found = (read("steered"), read("adversary"));
    fs::remove_dir_all(&directory).unwrap();
    found
}

#[test]
fn steering_real_packets_shows_in_the_signal() {
    if !can_be_made() || !is_possible("taskset -c 0,1 true") {
        return eprintln!("no network namespace with two CPUs can be made here");
    }
    // Wake-ups of other namespaces are counted, too, both before and after. Steering adds thousands, unless the sender
    // gets no CPU: so there are three attempts.
    let shown = (0..3).any(|_| {
        let (steered, adversary) = steer_real_packets();
        let signal = &steered["signals"][0];
        assert_eq!(signal["expected"], "received_rps on these CPUs grows (/proc/net/softnet_stat)");
        assert_eq!(signal["settings"].as_array().unwrap().len(), 4, "{steered}");
        assert_eq!(adversary["values"][2]["holds"], "no");
        // While other load limits the host, no effect is credited.
        let credited = steered["limits"].as_array().unwrap().is_empty();
        let (before, after) = (signal["before"].as_f64().unwrap(), signal["after"].as_f64().unwrap());
        let is_shown = after > before && signal["verdict"] == if credited { "moved" } else { "unknown" };
        if !is_shown {
            eprintln!("not shown: {steered}");
        }
        is_shown
    });
    assert!(shown, "three attempts, see above");
}
