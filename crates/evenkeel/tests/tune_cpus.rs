//! CPUs of `evenkeel tune plan`, with the real program and a host in a directory.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A host with four CPUs, one of them isolated, and an interface whose two queues interrupt CPU 0.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let host = Host(std::env::temp_dir().join(format!("evenkeel-cpus-{name}-{}", std::process::id())));
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
            ("proc/sys/kernel/random/boot_id", "first"),
            ("proc/sys/net/core/rps_sock_flow_entries", "0"),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/present", "0-3"),
            ("sys/devices/system/cpu/isolated", "1"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/device/msi_irqs/40", "msix"),
            ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
        ] {
            host.file(path, text);
        }
        for queue in 0..2 {
            let irq = 40 + queue;
            host.file(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), "0");
            host.file(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt"), "0");
            host.file(&format!("sys/kernel/irq/{irq}/actions"), &format!("eth0-TxRx-{queue}"));
            host.file(&format!("proc/irq/{irq}/smp_affinity_list"), "0");
            host.file(&format!("proc/irq/{irq}/effective_affinity_list"), "0");
        }
        host
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn plan(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(EVENKEEL);
        command.args(["tune", "plan", "--root"]).arg(&self.0).args(arguments).output().unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.plan(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // If it fails, the rest is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The new values of a plan, in order.
fn wanted(plan: &serde_json::Value) -> Vec<&str> {
    plan["changes"].as_array().unwrap().iter().map(|change| change["wanted"].as_str().unwrap()).collect()
}

#[test]
fn interrupts_avoid_isolated_cpus_or_use_chosen_ones_and_the_other_cpus_are_printed() {
    let host = Host::new("chosen");
    let free = host.json(&["--strategy", "spread"]);
    assert_eq!((wanted(&free), &free["service_cpus"]), (vec!["4"], &serde_json::Value::Null), "{free}");
    let steered = host.json(&["--strategy", "irq0-rps"]);
    assert_eq!(wanted(&steered), ["32768", "c", "16384", "c", "16384"], "{steered}");
    assert_eq!(steered["service_cpus"], serde_json::json!({ "list": "1-3", "mask": "e" }));
    let chosen = host.json(&["--strategy", "spread", "--irq-cpus", "2-3"]);
    assert_eq!(wanted(&chosen), ["4", "8"]);
    assert_eq!(chosen["changes"][0]["asked_by"], "spread --irq-cpus 2-3");
    let text = host.plan(&["--strategy", "spread", "--irq-cpus", "2-3", "--cpus", "1-3"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nCPUs for services: 1 (mask 2).\n"), "{text}");
}

#[test]
fn cpus_that_this_host_does_not_have_are_a_usage_error() {
    let host = Host::new("wrong");
    let check = |arguments: &[&str], said: &str| {
        let output = host.plan(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(error.contains(said), "{error}");
    };
    check(&["--strategy", "spread", "--irq-cpus", "3-4"], "--irq-cpus names CPUs 4; those in use are 0-3");
    check(&["--strategy", "spread", "--irq-cpus", "x"], "expected a CPU list such as 0-3,8");
    check(
        &["--strategy", "spread", "--irq-cpus", "0", "--cpus", "1"],
        "--irq-cpus names CPUs 0, which are not among --cpus 1",
    );
    check(&["--strategy", "spread", "--accept-risk"], "--accept-risk takes --strategy sched-fifo");
}
