//! `evenkeel tune watch` with the real program: on a host in a directory, and in a network namespace of its own where
//! an adversary rewrites values, an interface is created again, and the watch is killed.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::namespaces::{apart, can_be_made};
use crate::support::until::{LOOKS_MAX, until};
use rustix::process::{Pid, Signal, kill_process};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The origin of plans for a host in a directory.
fn made() -> serde_json::Value {
    serde_json::json!({ "host": "", "boot_id": "first", "network": null })
}

/// A host in a directory, with a plan that is in force: `somaxconn` was 128 and is 4096,
/// `rps_cpus` was 0 and is 3.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let root = std::env::temp_dir().join(format!("evenkeel-watch-{name}-{}", std::process::id()));
        let boot = root.join("proc/sys/kernel/random");
        fs::create_dir_all(&boot).unwrap();
        fs::create_dir_all(root.join("proc/sys/net/core")).unwrap();
        fs::create_dir_all(root.join("sys/class/net/eth0/queues/rx-0")).unwrap();
        fs::write(boot.join("boot_id"), "first\n").unwrap();
        let change = |path: &str, holds: &str, now: &str, wanted: &str| {
            fs::write(root.join(path), format!("{now}\n")).unwrap();
            serde_json::json!({
                "stage": "steering", "setting": {"file": {"path": format!("/{path}"), "holds": holds}},
                "now": now, "wanted": wanted, "why": "", "asked_by": "", "risk": "low",
            })
        };
        let changes = [
            change("proc/sys/net/core/somaxconn", "number", "128", "4096"),
            change("sys/class/net/eth0/queues/rx-0/rps_cpus", "mask", "00000000", "3"),
        ];
        fs::write(root.join("plan"), serde_json::json!({ "made": made(), "changes": changes }).to_string())
            .unwrap();
        let host = Host(root);
        let applied = host.tune("apply").arg("--plan").arg(host.0.join("plan")).output().unwrap();
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        host
    }

    fn tune(&self, job: &str) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.args(["tune", job, "--root"]).arg(&self.0).arg("--state").arg(self.0.join("state"));
        command
    }

    /// A watch that has begun.
    fn watch(&self, arguments: &[&str]) -> Watch<'_> {
        let said = fs::File::create(self.0.join("said")).unwrap();
        let child = self.tune("watch").args(arguments).stdout(said).spawn().unwrap();
        let watch = Watch { child, host: self };
        watch.says("watching");
        watch
    }

    fn write(&self, path: &str, value: &str) {
        fs::write(self.0.join(path), value).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Watch<'h> {
    child: Child,
    host: &'h Host,
}

impl Watch<'_> {
    #[track_caller]
    fn says(&self, text: &str) {
        for _ in 0..LOOKS_MAX {
            if self.host.read("said").contains(text) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        panic!("did not find {text:?}; it printed {}", self.host.read("said"));
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Its exit status.
    fn ends(&mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_only_reports_drift_unless_it_may_repair() {
    let host = Host::new("never");
    let metrics = host.0.join("watch.prom").display().to_string();
    let mut watch = host.watch(&["--every", "1s", "--prometheus", &metrics]);
    host.write("proc/sys/net/core/somaxconn", "128\n");
    watch.says(
        "reported: /proc/sys/net/core/somaxconn was to be 4096 and read 128; its earlier value was restored",
    );
    until("the count", || host.read("watch.prom").contains("evenkeel_tune_watch_drifted 1"));
    assert!(
        host.read("watch.prom")
            .contains(r#"drifts_total{setting="/proc/sys/net/core/somaxconn",cause="reset"} 1"#)
    );
    host.write("proc/sys/net/core/somaxconn", "  4096\n");
    watch.says("holds-again: /proc/sys/net/core/somaxconn = 4096");
    host.write("proc/sys/net/core/somaxconn", "7\n");
    watch.says(
        "reported: /proc/sys/net/core/somaxconn was to be 4096 and read 7; a user or a program has chosen this value",
    );
    assert_eq!(watch.ends(Signal::TERM), Some(0));
    assert_eq!(host.read("proc/sys/net/core/somaxconn"), "7\n", "nothing was repaired");
    assert_eq!(host.read("sys/class/net/eth0/queues/rx-0/rps_cpus"), "3", "nothing was undone");
}

#[test]
fn it_repairs_a_reset_but_not_a_choice_and_a_rollback_restores_the_bytes() {
    let host = Host::new("auto");
    let mut watch = host.watch(&["--every", "1s", "--repair", "auto", "--json"]);
    host.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n");
    watch.says(r#""setting":"/sys/class/net/eth0/queues/rx-0/rps_cpus","wanted":"3","found":"00000000","done":"repaired","cause":"reset""#);
    assert_eq!(host.read("sys/class/net/eth0/queues/rx-0/rps_cpus"), "3");
    host.write("proc/sys/net/core/somaxconn", "1000\n");
    watch.says(
        r#""setting":"/proc/sys/net/core/somaxconn","wanted":"4096","found":"1000","done":"stepped-aside""#,
    );
    assert_eq!(host.read("proc/sys/net/core/somaxconn"), "1000\n");
    // The rollback works while the plan is being watched.
    let undone = host.tune("rollback").arg("--force").output().unwrap();
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    watch.says(r#""watching":0"#);
    assert_eq!(
        (host.read("proc/sys/net/core/somaxconn"), host.read("sys/class/net/eth0/queues/rx-0/rps_cpus")),
        ("128\n".into(), "00000000\n".into())
    );
    assert_eq!(watch.ends(Signal::INT), Some(0));
}

#[test]
fn it_checks_at_once_on_sighup() {
    let host = Host::new("asked");
    let mut watch = host.watch(&["--every", "24h", "--repair", "auto"]);
    host.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n");
    // No event reports that a file was written, and the interval is a day.
    watch.signal(Signal::HUP);
    watch.says("repaired: /sys/class/net/eth0/queues/rx-0/rps_cpus was to be 3 and read 00000000");
    assert_eq!(watch.ends(Signal::KILL), None);
    assert_eq!(
        (host.read("proc/sys/net/core/somaxconn"), host.read("sys/class/net/eth0/queues/rx-0/rps_cpus")),
        ("4096".into(), "3".into())
    );
}

#[test]
fn an_interrupt_with_the_right_value_that_another_cpu_handles_is_drift() {
    let host = Host::new("elsewhere");
    for directory in ["proc/irq/38", "sys/kernel/irq/38"] {
        fs::create_dir_all(host.0.join(directory)).unwrap();
    }
    host.write("proc/irq/38/smp_affinity", "f\n");
    host.write("proc/irq/38/effective_affinity", "1\n");
    host.write("sys/kernel/irq/38/per_cpu_count", "10,0,0,0\n");
    let change = serde_json::json!({
        "stage": "affinity", "setting": {"file": {"path": "/proc/irq/38/smp_affinity", "holds": "mask"}},
        "now": "f", "wanted": "8", "why": "", "asked_by": "", "risk": "low",
    });
    host.write("plan", &serde_json::json!({ "made": made(), "changes": [change] }).to_string());
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    said(host.tune("apply").arg("--plan").arg(host.0.join("plan")));
    let status = said(&mut host.tune("status"));
    assert!(status.contains("smp_affinity = 8: holds; CPUs 0 handled it the last time"), "{status}");
    let mut watch = host.watch(&["--every", "1s", "--repair", "auto", "--json"]);
    host.write("sys/kernel/irq/38/per_cpu_count", "90,0,0,0\n");
    watch.says(r#""found":"8","comes_to":"0","done":"repaired","cause":"reset""#);
    assert_eq!(watch.ends(Signal::TERM), Some(0));
}

#[test]
fn what_persists_is_watched_from_the_next_start_on() {
    let host = Host::new("persists");
    for (path, text) in [
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
        ("usr/lib/systemd/systemd-sysctl", ""),
        ("etc/sysctl.conf", ""),
    ] {
        fs::create_dir_all(host.0.join(path).parent().unwrap()).unwrap();
        host.write(path, text);
    }
    let mut persist = Command::new(EVENKEEL);
    persist.args(["tune", "persist", "--profile", "generic", "--root"]).arg(&host.0);
    let persisted = persist.output().unwrap();
    assert!(persisted.status.success(), "{}", String::from_utf8_lossy(&persisted.stderr));
    assert_eq!(host.watch(&[]).ends(Signal::TERM), Some(0));
    assert!(host.read("said").contains("watching: 2 settings"), "the plan's: {}", host.read("said"));
    // The host restarts, and another file overrides one of them.
    host.write("proc/sys/kernel/random/boot_id", "second\n");
    host.write("proc/sys/net/core/somaxconn", "512\n");
    let mut watch = host.watch(&["--every", "1s", "--repair", "auto"]);
    watch.says("watching: 2 settings");
    watch.says(
        "reported: /proc/sys/net/core/somaxconn was to be 4096 and read 512; a user or a program has chosen this value",
    );
    watch.says("`evenkeel tune persist` keeps it, and `evenkeel tune apply` would set it again");
    assert_eq!(watch.ends(Signal::TERM), Some(0));
    assert_eq!(host.read("proc/sys/net/core/somaxconn"), "512\n");
}

#[test]
fn a_damaged_manifest_or_a_log_on_a_full_disk_does_not_end_it() {
    let host = Host::new("manifest");
    fs::create_dir_all(host.0.join("etc/evenkeel")).unwrap();
    host.write("etc/evenkeel/persisted.json", "{");
    let status = host.tune("status").output().unwrap();
    let said = String::from_utf8_lossy(&status.stdout);
    assert_eq!(status.status.code(), Some(13), "{said}");
    assert!(said.contains("/proc/sys/net/core/somaxconn = 4096: holds"), "{said}");
    assert!(said.contains("What persists is unknown: failed to understand"), "{said}");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut watch = host.tune("watch");
    watch.args(["--every", "1s", "--repair", "auto"]).stdout(full);
    watch.stderr(fs::File::create(host.0.join("said")).unwrap());
    let mut watch = Watch { child: watch.spawn().unwrap(), host: &host };
    for _ in 0..2 {
        host.write("proc/sys/net/core/somaxconn", "128\n");
        until("the repair", || host.read("proc/sys/net/core/somaxconn") == "4096");
    }
    assert_eq!(watch.ends(Signal::TERM), Some(0));
    let said = host.read("said");
    assert_eq!(said.matches("what persists is not watched").count(), 1, "{said}");
    assert!(said.contains("write to standard output: No space left on device"), "{said}");
}

#[test]
fn it_waits_while_another_process_is_at_work() {
    let host = Host::new("lock");
    let lock = fs::OpenOptions::new().append(true).open(host.0.join("state/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    host.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n");
    let socket = host.0.join("notify");
    let told = UnixDatagram::bind(&socket).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut watch = host.tune("watch");
    let said = host.0.join("said");
    watch.args(["--every", "1s", "--repair", "auto"]).env("NOTIFY_SOCKET", &socket);
    watch.stdout(fs::File::create(&said).unwrap()).stderr(Stdio::inherit());
    let watch = Watch { child: watch.spawn().unwrap(), host: &host };
    let mut bytes = [0; 100];
    let len = told.recv(&mut bytes).expect("word that it is ready");
    assert!(bytes[..len].starts_with(b"READY=1"));
    assert_eq!(
        (host.read("said"), host.read("sys/class/net/eth0/queues/rx-0/rps_cpus")),
        (String::new(), "00000000\n".into())
    );
    drop(lock);
    watch.says("repaired: /sys/class/net/eth0/queues/rx-0/rps_cpus");
}

/// The script in the namespace, which ends with everything in it.
const LIVE: &str = r#"
set -eu
mount -t sysfs sysfs /sys
make() { ip link add left numrxqueues 4 numtxqueues 4 type veth peer name right; ip link set left up; ip link set right up; }
make
q=/sys/class/net/left/queues
look() { cat $q/rx-*/rps_cpus $q/rx-*/rps_flow_cnt; }
look > "$DIR/before"
file() { printf '{"stage":"steering","setting":{"file":{"path":"%s","holds":"%s"}},"now":"%s","wanted":"%s","why":"","asked_by":"","risk":"low"}' "$@"; }
made=$(printf '"made":{"host":"%s","boot_id":"%s","network":"%s"}' "$(cat /proc/sys/kernel/hostname)" \
    "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/net)")
printf '{%s,"changes":[%s,%s,%s]}' "$made" "$(file $q/rx-0/rps_cpus mask 0 1)" "$(file $q/rx-1/rps_cpus mask 0 1)" \
    "$(file $q/rx-3/rps_flow_cnt number 0 1024)" > "$DIR/plan"
"$EVENKEEL" tune apply --plan "$DIR/plan" --state "$DIR/state"
look > "$DIR/applied"
# Waits for so many lines, a minute at most.
said() { n=0; until [ "$(grep -c "$1" "$DIR/$3")" -ge "$2" ]; do
    n=$((n + 1)); [ $n -lt 600 ] || { echo "did not find $1"; cat "$DIR/$3"; exit 1; }; sleep 0.1; done; }

# An adversary that takes a value back whenever it is set wins the fourth round, and the others are kept.
"$EVENKEEL" tune watch --state "$DIR/state" --repair auto --every 1s > "$DIR/fight" &
watch=$!
said 'watching: 3 settings' 1 fight
# It waits for the report of each repair: before, the watch may still compare what it has written.
( n=0; taken=-1; while [ $n -lt 1200 ]; do n=$((n + 1)); repaired=$(grep -c 'repaired: .*/rx-0/rps_cpus' "$DIR/fight" || true)
    if [ $repaired -gt $taken ] && ! grep -q '^0*$' $q/rx-0/rps_cpus; then echo 0 > $q/rx-0/rps_cpus; taken=$repaired; fi
    sleep 0.05; done ) &
adversary=$!
said 'backed-off: .*/rx-0/rps_cpus' 1 fight
test "$(grep -c 'repaired: .*/rx-0/rps_cpus' "$DIR/fight")" = 3
echo 0 > $q/rx-3/rps_flow_cnt
said 'repaired: .*/rx-3/rps_flow_cnt' 1 fight
kill $adversary; wait $adversary || true
echo 1 > $q/rx-0/rps_cpus
said 'holds-again: .*/rx-0/rps_cpus' 1 fight

# Killed, it leaves everything as it is, and the way back is the same.
kill -KILL $watch; wait $watch || true
look > "$DIR/killed"; cmp "$DIR/applied" "$DIR/killed"

# The kernel tells of an interface that is made anew; nobody would look for a day.
"$EVENKEEL" tune watch --state "$DIR/state" --every 24h > "$DIR/anew" &
watch=$!
said 'watching: 3 settings' 1 anew
ip link del left
make
said 'reported: .*/rx-[013]/rps_[a-z_]* was to be .*; the interface was made anew: left was interface' 3 anew
kill -HUP $watch
kill -TERM $watch
status=0; wait $watch || status=$?
test $status = 0
look > "$DIR/anew-before"; cmp "$DIR/before" "$DIR/anew-before"

# The same, repaired; then the old bytes again.
"$EVENKEEL" tune watch --state "$DIR/state" --repair auto --every 24h > "$DIR/repaired" &
watch=$!
said 'repaired: ' 3 repaired
look > "$DIR/again"; cmp "$DIR/applied" "$DIR/again"
kill -TERM $watch; wait $watch
"$EVENKEEL" tune rollback --state "$DIR/state"
look > "$DIR/after"; cmp "$DIR/before" "$DIR/after"
"#;

#[test]
fn it_survives_an_adversary_a_new_interface_and_sigkill_in_a_namespace() {
    if !can_be_made() {
        return eprintln!("no network namespace can be made here");
    }
    let directory = std::env::temp_dir().join(format!("evenkeel-watch-live-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let output = apart(&directory, LIVE).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(&directory).unwrap();
}
