//! A host in a directory, for tests of `evenkeel tune` with the real program.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

pub(crate) const STEPS: [(&str, &str, &str); 3] = [
    ("proc/sys/net/core/somaxconn", "128\n", "4096"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n", "3"),
    ("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "0\n", "1024"),
];

/// The origin of plans for a host in a directory.
pub(crate) fn made() -> serde_json::Value {
    serde_json::json!({ "host": "", "boot_id": "first", "network": null })
}

/// A host in a directory: three settings, and a plan for all of them.
pub(crate) struct Host(pub(crate) PathBuf);

impl Host {
    pub(crate) fn new(name: &str) -> Host {
        let root = std::env::temp_dir().join(format!("evenkeel-tune-{name}-{}", std::process::id()));
        let boot = root.join("proc/sys/kernel/random");
        fs::create_dir_all(&boot).unwrap();
        fs::create_dir_all(root.join("proc/sys/net/core")).unwrap();
        fs::create_dir_all(root.join("sys/class/net/eth0/queues/rx-0")).unwrap();
        fs::write(boot.join("boot_id"), "first\n").unwrap();
        let changes = STEPS.map(|(path, now, wanted)| {
            fs::write(root.join(path), now).unwrap();
            let holds = if path.ends_with("cpus") { "mask" } else { "number" };
            serde_json::json!({
                "stage": "steering", "setting": {"file": {"path": format!("/{path}"), "holds": holds}},
                "now": now, "wanted": wanted, "why": "", "asked_by": "", "risk": "low", "signal": "",
            })
        });
        fs::write(root.join("plan"), serde_json::json!({ "made": made(), "changes": changes }).to_string())
            .unwrap();
        Host(root)
    }

    pub(crate) fn tune(&self, job: &str) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.args(["tune", job, "--root"]).arg(&self.0).arg("--state").arg(self.0.join("state"));
        command
    }

    pub(crate) fn apply(&self) -> Command {
        let mut command = self.tune("apply");
        command.arg("--plan").arg(self.0.join("plan"));
        command
    }

    pub(crate) fn journal(&self) -> String {
        fs::read_to_string(self.0.join("state/000001.jsonl")).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn holds(&self, value: fn(&(&'static str, &'static str, &'static str)) -> &'static str) {
        for step in &STEPS {
            assert_eq!(fs::read_to_string(self.0.join(step.0)).unwrap(), value(step), "{}", step.0);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[track_caller]
pub(crate) fn fails(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(!status.success(), "{command:?}");
    String::from_utf8(stderr).unwrap()
}
