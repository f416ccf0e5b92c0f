//! Network namespaces of a test's own.

use std::process::Command;

/// Whether they can be made here, with an interface and a /sys that shows it.
pub(crate) fn can_be_made() -> bool {
    let script = "mount -t sysfs sysfs /sys && ip link add v0 type veth peer name v1";
    let tried = Command::new("unshare").args(["--net", "--mount", "sh", "-c", script]).output();
    tried.is_ok_and(|tried| tried.status.success())
}
