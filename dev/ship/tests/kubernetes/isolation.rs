//! Namespaces around a cluster: its processes, mounts and network are gone with the first of its processes, however that ends.
//!
//! A kubelet changes settings of its host (`vm.overcommit_memory`, `kernel.panic` and others). Here it finds files in their place that
//! have the values that it wants, so that it changes nothing.

use checkout::target_directory;
use ship::commands::said;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells the inner run that it is the inner one.
const INNER: &str = "EVENKEEL_TEST_IN_CLUSTER";

/// Longest time of a cluster: one that hangs must fail.
const SECONDS_MAX: &str = "1200";

/// The control group of all pods, in each hierarchy.
pub(super) const CONTROL_GROUP: &str = "evenkeel-kubernetes";

/// Settings that a kubelet wants, and sets where they differ.
const SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Folders that containerd, network plugins and the kubelet write to, wherever they are told to work.
const FOLDERS: [&str; 3] = ["/var/lib", "/var/log", "/opt"];

/// Whether this is the inner run.
pub(super) fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// The folder for all that a cluster writes.
pub(super) fn work_folder() -> PathBuf {
    target_directory().join("kubernetes/run")
}

fn settings() -> Vec<String> {
    let read = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
    SETTINGS.iter().map(|(name, _)| read(name)).collect()
}

/// Runs this same test again in namespaces of its own.
pub(super) fn run_inside(test: &str, work: &Path) {
    remove_control_groups();
    let before = settings();
    // The first process of the inner ones ends with `unshare`, that with this thread, and with the first all others.
    let mut inner = Command::new("setpriv");
    inner.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--fork",
        "--kill-child",
    ]);
    inner.args(["--mount-proc", "--propagation", "private", "timeout", "--kill-after=10", SECONDS_MAX]);
    inner.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(INNER, "1");
    let status = inner.status().expect("unshare");
    remove_control_groups();
    assert_eq!(settings(), before, "settings of this host have changed");
    assert!(status.success(), "{status}: what its programs said is in {}", work.join("logs").display());
    fs::remove_dir_all(work).expect("remove the cluster's folder");
}

/// Gives the processes of a cluster places of their own for what they write.
pub(super) fn enter(work: &Path) {
    for folder in FOLDERS {
        let own = work.join(folder.trim_start_matches('/').replace('/', "-"));
        fs::create_dir_all(&own).unwrap();
        said(Command::new("mount").args(["--bind"]).arg(&own).arg(folder)).unwrap();
    }
    said(Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/run"])).unwrap();
    for (number, (name, value)) in SETTINGS.iter().enumerate() {
        let own = work.join(format!("setting-{number}"));
        fs::write(&own, format!("{value}\n")).unwrap();
        said(Command::new("mount").arg("--bind").arg(&own).arg(Path::new("/proc/sys").join(name))).unwrap();
    }
    make_control_groups();
}

/// Roots of the hierarchies of control groups: of version 1 several.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

fn make_control_groups() {
    for root in hierarchies() {
        let group = root.join(CONTROL_GROUP);
        fs::create_dir_all(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        // A new group of this kind has no CPUs, and takes no process before it has.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let (Ok(all), true) = (fs::read_to_string(root.join(file)), group.join(file).exists()) {
                fs::write(group.join(file), all).unwrap();
            }
        }
    }
}

/// Removes the groups, of a run that was killed as well. No process is in them any more.
fn remove_control_groups() {
    for root in hierarchies() {
        remove(&root.join(CONTROL_GROUP));
    }
}

fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    // Processes that were just killed may still be in it.
    for _ in 0..50 {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                os::clock::pause(std::time::Duration::from_millis(100))
            }
            _ => return,
        }
    }
}
