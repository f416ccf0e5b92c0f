//! Network namespaces of a test's own.

use std::process::Command;

/// Whether a network namespace can be had, with its own /sys and interfaces: not for everyone, nor in most containers.
fn namespaces_can_be_made() -> bool {
    let script = "mount -t sysfs sysfs /sys && ip link add left type veth peer name right";
    let tried = Command::new("unshare").args(["--net", "--mount", "--", "sh", "-c", script]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// Runs this same test again as root of a network namespace, with its own /sys, after these commands.
/// `true`: this is that inner run.
pub(crate) fn in_namespace(test: &str, commands: &str) -> bool {
    const INNER: &str = "TUNER_TEST_IN_NAMESPACE";
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    if !namespaces_can_be_made() {
        eprintln!("no network namespace can be made here");
        return false;
    }
    let script =
        format!("set -e; mount -t sysfs sysfs /sys; {commands}\nexec \"$0\" --exact {test} --nocapture");
    let itself = std::env::current_exe().expect("own path");
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--", "sh", "-c", &script]).arg(itself).env(INNER, "1");
    let output = unshare.output().expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "the inner test did not run: {said}");
    false
}
