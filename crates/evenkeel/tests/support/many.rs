//! A host in a directory whose interface has as many queues as those of large hosts, and a plan for all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const QUEUES: usize = 64;

pub(crate) struct Many(PathBuf);

impl Many {
    pub(crate) fn new(name: &str) -> Many {
        let root = std::env::temp_dir().join(format!("evenkeel-many-{name}-{}", std::process::id()));
        let many = Many(root);
        let boot = many.0.join("proc/sys/kernel/random");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("boot_id"), "first\n").unwrap();
        let change = |number| {
            let queue = many.queue(number);
            fs::create_dir_all(queue.parent().unwrap()).unwrap();
            fs::write(&queue, "0\n").unwrap();
            let path = Path::new("/").join(queue.strip_prefix(&many.0).unwrap());
            serde_json::json!({
                "stage": "steering", "setting": {"file": {"path": path, "holds": "mask"}},
                "now": "0", "wanted": "3", "why": "", "asked_by": "", "risk": "low", "signal": "",
            })
        };
        let changes: Vec<_> = (0..QUEUES).map(change).collect();
        let made = serde_json::json!({ "host": "", "boot_id": "first", "network": null });
        let plan = serde_json::json!({ "made": made, "changes": changes });
        fs::write(many.plan(), plan.to_string()).unwrap();
        many
    }

    pub(crate) fn queue(&self, number: usize) -> PathBuf {
        self.0.join(format!("sys/class/net/eth0/queues/rx-{number}/rps_cpus"))
    }

    pub(crate) fn each(&self, act: impl Fn(&Path)) {
        (0..QUEUES).for_each(|number| act(&self.queue(number)));
    }

    pub(crate) fn interrupt(&self, irq: usize) -> PathBuf {
        self.0.join(format!("proc/irq/{irq}"))
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.0.join("plan")
    }

    pub(crate) fn journal(&self, number: u32) -> PathBuf {
        self.0.join(format!("state/{number:06}.jsonl"))
    }

    pub(crate) fn tune(&self, job: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["tune", job, "--root"]).arg(&self.0).arg("--state").arg(self.0.join("state"));
        if job == "apply" {
            command.arg("--plan").arg(self.plan());
        }
        command
    }

    /// Checks a job's status, and that each of these lines is in its short output once.
    #[track_caller]
    pub(crate) fn says(&self, job: &str, status: i32, out: &[&str], complaints: &[&str]) {
        let output = self.tune(job).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        for (stream, lines) in [(output.stdout, out), (output.stderr, complaints)] {
            let said = String::from_utf8(stream).unwrap();
            assert!(said.lines().count() <= 5, "{said}");
            lines.iter().for_each(|line| {
                assert_eq!(said.lines().filter(|other| other == line).count(), 1, "{line:?} in\n{said}");
            });
        }
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
