//! `evenkeel tune persist`, with the real program on hosts in directories: files are written, shown, edited by hand,
//! interrupted by a kill at any moment, and removed. Nothing outside of the directories is touched.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The origin of plans for a host in a directory.
fn made() -> serde_json::Value {
    serde_json::json!({ "host": "", "boot_id": "first", "network": null })
}

/// A host as Debian 12 sets it up, with one interface and its interrupt.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let host = Host(std::env::temp_dir().join(format!("evenkeel-persist-{name}-{}", std::process::id())));
        let device = "sys/devices/pci0000:00/0000:00:05.0";
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-cloud-amd64"),
            ("proc/sys/kernel/random/boot_id", "first"),
            ("proc/sys/net/core/somaxconn", "128"),
            ("proc/sys/net/ipv4/tcp_max_syn_backlog", "256"),
            ("proc/sys/net/ipv4/tcp_fastopen", "1"),
            ("proc/sys/vm/swappiness", "60"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("sys/devices/system/cpu/possible", "0-3"),
            ("sys/devices/system/cpu/present", "0-3"),
            ("sys/devices/system/cpu/online", "0-3"),
            ("usr/lib/systemd/systemd", ""),
            ("usr/lib/systemd/systemd-sysctl", ""),
            ("usr/lib/systemd/systemd-udevd", ""),
            ("etc/sysctl.conf", "#net.core.somaxconn = 1"),
        ] {
            host.put(path, text);
        }
        for (path, text) in [
            ("net/eth0/type", "1"),
            ("net/eth0/operstate", "up"),
            ("net/eth0/address", "02:00:00:00:00:01"),
            ("net/eth0/queues/rx-0/rps_cpus", "0"),
            ("net/eth0/queues/rx-0/rps_flow_cnt", "0"),
            ("net/eth0/queues/tx-0/xps_cpus", "0"),
            ("msi_irqs/40", "msix"),
        ] {
            host.put(&format!("{device}/{path}"), text);
        }
        for (path, text) in [
            ("proc/irq/40/smp_affinity", "f"),
            ("proc/irq/40/smp_affinity_list", "0-3"),
            ("proc/irq/40/effective_affinity", "1"),
            ("proc/irq/40/effective_affinity_list", "0"),
            ("sys/kernel/irq/40/actions", "eth0-Tx-Rx-0"),
            ("sys/kernel/irq/40/per_cpu_count", "9,0,0,0"),
        ] {
            host.put(path, text);
        }
        for cpu in 0..4 {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            host.put(&format!("{topology}/thread_siblings_list"), &cpu.to_string());
            host.put(&format!("{topology}/physical_package_id"), "0");
        }
        fs::create_dir_all(host.0.join("sys/class/net")).unwrap();
        symlink(format!("../../../{device}/net/eth0"), host.0.join("sys/class/net/eth0")).unwrap();
        symlink("../../../0000:00:05.0", host.0.join(format!("{device}/net/eth0/device"))).unwrap();
        symlink("../../../bus/pci/drivers/ena", host.0.join(format!("{device}/driver"))).unwrap();
        host
    }

    fn put(&self, path: &str, text: &str) {
        let here = self.0.join(path);
        fs::create_dir_all(here.parent().unwrap()).unwrap();
        fs::write(here, format!("{text}\n")).unwrap();
    }

    fn tune(&self, words: &str) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.arg("tune").args(words.split_whitespace());
        command.arg("--root").arg(&self.0).arg("--state").arg(self.0.join("state"));
        command
    }

    fn persist(&self, words: &str) -> Command {
        let mut command = self.tune("persist");
        command.args(words.split_whitespace());
        command
    }

    /// The files in /etc, by path.
    fn etc(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut open = vec![self.0.join("etc")];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&self.0).unwrap().display().to_string();
                match fs::read_to_string(&path) {
                    Ok(text) => found.push((name, text)),
                    Err(_) => open.push(path),
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks the status and that the output has all of these parts.
#[track_caller]
fn check(mut command: Command, status: i32, says: &[&str]) -> String {
    let Output { status: ended, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert_eq!(ended.code(), Some(status), "{command:?}: {said}");
    for part in says {
        assert!(said.contains(part), "{command:?} should print {part:?}, and prints\n{said}");
    }
    said
}

#[test]
fn a_profile_is_kept_shown_edited_and_removed() {
    let host = Host::new("whole");
    let before = host.etc();
    check(host.tune("status"), 0, &["Nothing is in force.", "Nothing persists."]);
    check(host.persist("--remove"), 1, &["take away what persists: nothing does"]);
    let shown = check(
        host.persist("--profile memcached --dry-run"),
        0,
        &[
            "==> /etc/sysctl.d/90-evenkeel.conf (0644)",
            "(profile memcached)\nnet.core.somaxconn = 4096\n",
            "==> /etc/tmpfiles.d/evenkeel.conf (0644)",
            "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n",
        ],
    );
    assert_eq!(host.etc(), before, "{shown}");
    check(host.persist("--profile memcached"), 0, &["Wrote /etc/sysctl.d/90-evenkeel.conf: kernel settings"]);
    check(host.tune("status"), 0, &["/etc/sysctl.d/90-evenkeel.conf: as it was written"]);
    host.put("etc/sysctl.d/90-evenkeel.conf", "net.core.somaxconn = 1");
    check(host.tune("status"), 13, &["/etc/sysctl.d/90-evenkeel.conf: EDITED since it was written"]);
    check(
        host.persist("--profile redis"),
        1,
        &["it was edited since it was written", "hint: --force keeps it"],
    );
    check(host.persist("--profile redis --force"), 0, &["is kept as /etc/sysctl.d/90-evenkeel.conf.edited"]);
    check(host.persist("--remove"), 0, &["Removed /etc/sysctl.d/90-evenkeel.conf"]);
    let mut left = host.etc();
    left.retain(|(path, _)| path != "etc/sysctl.d/90-evenkeel.conf.edited");
    assert_eq!(left, before);
    assert!(!host.0.join("etc/evenkeel").exists() && !host.0.join("etc/tmpfiles.d").exists());
}

#[test]
fn what_is_in_force_is_kept_with_its_reasons() {
    let host = Host::new("journal");
    check(host.persist(""), 1, &["keep what is in force: nothing is"]);
    check(host.tune("apply --profile generic"), 0, &[]);
    check(host.persist(""), 0, &[]);
    let text = fs::read_to_string(host.0.join("etc/sysctl.d/90-evenkeel.conf")).unwrap();
    assert!(
        text.contains("clients that find it full wait a second; when full it takes up to 10 MiB of memory (profile generic)\nnet.core.somaxconn = 4096"),
        "{text}"
    );
    // A value that holds already must hold after the next start, too.
    check(host.persist("--profile generic --dry-run"), 0, &["net.core.somaxconn = 4096"]);
    check(host.tune("apply --profile memcached --confirm-within 1h"), 0, &[]);
    check(host.persist(""), 1, &["a plan still waits to be confirmed"]);
    check(host.tune("confirm"), 0, &[]);
    check(host.persist(""), 0, &["Wrote /etc/tmpfiles.d/evenkeel.conf"]);
    host.put("proc/sys/kernel/random/boot_id", "second");
    check(host.persist(""), 1, &["or it is of an earlier start"]);
    check(host.tune("status"), 0, &["Nothing is in force.", "as it was written"]);
}

#[test]
fn interrupts_are_placed_again_at_boot_under_their_new_numbers() {
    let host = Host::new("intent");
    check(
        host.persist("--strategy spread --nic eth0 --program /usr/bin/evenkeel"),
        0,
        &["Wrote /etc/systemd/system/evenkeel-tune.service"],
    );
    let policy = fs::metadata(host.0.join("etc/evenkeel/tune.json")).unwrap();
    assert_eq!(policy.permissions().mode() & 0o777, 0o644);
    // The host restarts, and the interrupt has another number.
    host.put("proc/sys/kernel/random/boot_id", "second");
    fs::rename(host.0.join("proc/irq/40"), host.0.join("proc/irq/77")).unwrap();
    fs::rename(host.0.join("sys/kernel/irq/40"), host.0.join("sys/kernel/irq/77")).unwrap();
    let msi = host.0.join("sys/devices/pci0000:00/0000:00:05.0/msi_irqs");
    fs::rename(msi.join("40"), msi.join("77")).unwrap();
    let intent = host.0.join("etc/evenkeel/tune.json");
    let mut apply = host.tune("apply --dry-run --intent");
    // The option's value follows directly.
    apply = {
        let mut again = Command::new(apply.get_program());
        again.args(["tune", "apply", "--dry-run", "--intent"]).arg(&intent).arg("--root").arg(&host.0);
        again
    };
    check(apply, 0, &["/proc/irq/77/smp_affinity"]);
    let mut missing = Command::new(EVENKEEL);
    fs::remove_file(host.0.join("sys/class/net/eth0")).unwrap();
    missing.args(["tune", "apply", "--dry-run", "--intent"]).arg(&intent).arg("--root").arg(&host.0);
    check(missing, 0, &["eth0: not planned (spread): there is no interface at 0000:00:05.0"]);
}

#[test]
fn the_written_files_can_be_tested_at_once() {
    let host = Host::new("tried");
    for program in ["usr/bin/udevadm", "usr/bin/systemctl", "usr/bin/systemd-tmpfiles", "usr/sbin/sysctl"] {
        host.put(program, "");
    }
    let change = |setting: serde_json::Value, wanted: &str, asked_by: &str| {
        serde_json::json!({
            "stage": "queues", "setting": setting, "now": "", "wanted": wanted, "why": "", "asked_by": asked_by,
            "risk": "low",
        })
    };
    let changes = [
        change(serde_json::json!({"device": {"nic": "eth0", "knob": "channels"}}), "combined=2", "queues"),
        change(
            serde_json::json!({"file": {"path": "/proc/irq/40/smp_affinity", "holds": "mask"}}),
            "1",
            "queues",
        ),
    ];
    host.put("plan", &serde_json::json!({ "made": made(), "changes": changes }).to_string());
    let plan = format!("--program /usr/bin/evenkeel --plan {}", host.0.join("plan").display());
    check(
        host.persist(&plan),
        0,
        &[
            "udevadm test-builtin net_setup_link /sys/class/net/NAME",
            "evenkeel tune apply --dry-run --intent /etc/evenkeel/tune.json",
            "systemctl daemon-reload",
        ],
    );
    check(
        host.persist("--profile memcached"),
        0,
        &[
            "sysctl -p /etc/sysctl.d/90-evenkeel.conf",
            "systemd-tmpfiles --create /etc/tmpfiles.d/evenkeel.conf",
        ],
    );
}

#[test]
fn a_plan_whose_second_part_is_not_planned_yet_is_not_kept_in_part() {
    let host = Host::new("half");
    let device = serde_json::json!({"device": {"nic": "eth0", "knob": "channels"}});
    let plan = serde_json::json!({
        "made": made(),
        "changes": [{
            "stage": "queues", "setting": device, "now": "combined=1", "wanted": "combined=2", "why": "",
            "asked_by": "queues", "risk": "blink",
        }],
        "then": {"strategy": "queues", "profile": null, "findings": [], "nics": ["eth0"]},
    });
    host.put("plan", &plan.to_string());
    let before = host.etc();
    let plan = format!("--plan {}", host.0.join("plan").display());
    check(
        host.persist(&plan),
        1,
        &["is planned only when they are there", "hint: `evenkeel tune apply` it first"],
    );
    assert_eq!(host.etc(), before);
}

#[test]
fn a_file_that_overrides_a_setting_is_reported() {
    let host = Host::new("conflict");
    host.put("etc/sysctl.conf", "net.core.somaxconn = 512");
    fs::create_dir_all(host.0.join("etc/sysctl.d")).unwrap();
    symlink("../sysctl.conf", host.0.join("etc/sysctl.d/99-sysctl.conf")).unwrap();
    let says = ["Also set by /etc/sysctl.conf:1 (net.core.somaxconn = 512): it wins; "];
    check(host.persist("--profile generic --dry-run"), 14, &says);
    let json = check(host.persist("--profile generic --dry-run --json"), 14, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["conflicts"][0]["winner"], "theirs");
    assert_eq!(json["files"][0]["path"], "/etc/sysctl.d/90-evenkeel.conf");
    check(host.persist("--profile generic"), 14, &says);
    assert_eq!(fs::read_to_string(host.0.join("etc/sysctl.conf")).unwrap(), "net.core.somaxconn = 512\n");
}

#[test]
fn a_file_of_the_same_name_is_never_overwritten() {
    let host = Host::new("foreign");
    host.put("etc/tmpfiles.d/evenkeel.conf", "# mine");
    let before = host.etc();
    check(
        host.persist("--profile memcached"),
        1,
        &["there is one already, and it is not ours", "hint: move it away"],
    );
    check(host.persist("--profile memcached --force"), 1, &["not ours"]);
    assert_eq!(host.etc(), before);
}

#[test]
fn without_systemd_only_the_intent_is_kept() {
    let host = Host::new("container");
    fs::remove_dir_all(host.0.join("usr")).unwrap();
    check(
        host.persist("--profile generic --program /usr/bin/evenkeel"),
        0,
        &[
            "Wrote /etc/evenkeel/tune.json",
            "there is no systemd here: call `/usr/bin/evenkeel tune apply --intent /etc/evenkeel/tune.json`",
            "Missing: nothing here reads sysctl.d at boot.",
        ],
    );
    check(host.persist("--remove"), 0, &[]);
}

/// A read-only /etc, in a mount namespace of its own.
const READ_ONLY: &str = r#"
set -eu
mount --bind "$ROOT/etc" "$ROOT/etc"
mount -o remount,bind,ro "$ROOT/etc"
exec "$EVENKEEL" tune persist --profile generic --root "$ROOT" --state "$ROOT/state"
"#;

#[test]
fn with_a_read_only_etc_nothing_is_done_in_part() {
    let host = Host::new("read-only");
    let before = host.etc();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", READ_ONLY]).env("ROOT", &host.0).env("EVENKEEL", EVENKEEL);
    let says = ["failed to create /etc/evenkeel", "hint: /etc comes from an image here"];
    check(command, 71, &says[1..]);
    assert_eq!(host.etc(), before);
}

#[test]
fn the_next_persist_repairs_one_that_was_killed() {
    let host = Host::new("killed");
    let before = host.etc();
    for delay_us in (0..40).map(|step| step * 500) {
        let mut persist = host.persist("--profile memcached");
        let mut child = persist.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::park_timeout(Duration::from_micros(delay_us));
        // It may have ended already.
        let _ = child.kill();
        child.wait().unwrap();
        // With any files left, all of them can be written, and removed.
        check(host.persist("--profile memcached"), 0, &[]);
        check(host.tune("status"), 0, &["/etc/sysctl.d/90-evenkeel.conf: as it was written"]);
        check(host.persist("--remove"), 0, &[]);
        assert_eq!(host.etc(), before, "killed after {delay_us} µs");
    }
}

/// systemd's own parser, if it is installed: it reports what it cannot parse.
#[test]
fn systemd_accepts_our_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    let host = Host::new("verify");
    host.put(
        "usr/lib/systemd/system/irqbalance.service",
        "[Service]\nExecStart=/bin/true --foreground $IRQBALANCE_ARGS",
    );
    check(host.persist("--strategy spread --program /bin/true"), 0, &["irqbalance.service.d"]);
    let unit = fs::read_to_string(host.0.join("etc/systemd/system/evenkeel-tune.service")).unwrap();
    let irqbalance = host.0.join("etc/systemd/system/irqbalance.service.d/50-evenkeel.conf");
    let start = fs::read_to_string(irqbalance).unwrap();
    let files = host.0.join("units");
    fs::create_dir_all(files.join("irqbalance-test.service.d")).unwrap();
    fs::write(files.join("evenkeel-tune.service"), unit).unwrap();
    fs::write(files.join("irqbalance-test.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
    fs::write(files.join("irqbalance-test.service.d/50-evenkeel.conf"), start).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    verify.arg(files.join("evenkeel-tune.service")).arg(files.join("irqbalance-test.service"));
    verify.env("SYSTEMD_UNIT_PATH", format!("{}:", files.display()));
    let Output { status, stderr, .. } = verify.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}
