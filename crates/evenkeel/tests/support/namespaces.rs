//! Network, mount and process namespaces of a test's own.

use std::path::Path;
use std::process::Command;

/// Longest life of a script: most take seconds, and one that hangs must fail.
const SECONDS_MAX: &str = "600";

/// A script in namespaces of its own, which end with it, as do its processes: `$EVENKEEL` is the program, `$DIR` the
/// directory of the test's host.
pub(crate) fn apart(host: &Path, script: &str) -> Command {
    // The first process of a namespace accepts only SIGKILL from the parent namespace.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", SECONDS_MAX, "unshare", "--net", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "sh", "-c", script]);
    command.env("EVENKEEL", env!("CARGO_BIN_EXE_evenkeel")).env("DIR", host);
    command
}

/// Whether they can be created, with their own /sys and interfaces: not by every user, nor in most containers.
pub(crate) fn can_be_made() -> bool {
    is_possible("mount -t sysfs sysfs /sys && ip link add v0 type veth peer name v1")
}

/// Whether a script succeeds in them.
pub(crate) fn is_possible(script: &str) -> bool {
    apart(Path::new("/"), script).output().is_ok_and(|tried| tried.status.success())
}
