//! The lab of the how-tos: docs/tune/howto/lab.sh with the program under test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Longest life of a lab: most take seconds, and one that hangs must fail.
const SECONDS_MAX: &str = "600";

/// Whether it can be created: not by every user, nor in most containers.
pub(crate) fn can_be_made() -> bool {
    let script =
        "mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /mnt && ip link add v0 type veth peer name v1";
    let unshare = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script];
    let is_made = Command::new("unshare").args(unshare).output().is_ok_and(|tried| tried.status.success());
    if !is_made {
        eprintln!("no network namespaces can be made here");
    }
    is_made
}

/// The output of a script in the lab, which must succeed.
#[track_caller]
pub(crate) fn says(script: &str, queues: u32) -> String {
    let script = Scratch::new(script);
    let mut path = OsString::from(Path::new(EVENKEEL).parent().unwrap());
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tune/howto/lab.sh");
    let mut command = Command::new("timeout");
    command.args([SECONDS_MAX, "sh"]).arg(lab).arg(&script.0);
    let output = command.env("PATH", path).env("QUEUES", queues.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A file for one script.
struct Scratch(PathBuf);

impl Scratch {
    fn new(script: &str) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("evenkeel-lab-{}-{number}.sh", std::process::id()));
        fs::write(&path, script).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
