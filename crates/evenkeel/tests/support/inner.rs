//! A test that runs itself again in namespaces of its own.

use std::path::Path;

use super::namespaces::{apart, can_be_made, is_possible};

/// Set in the inner run, to the process id of the outer one: process ids inside are the same in every run.
pub(crate) const INNER: &str = "EVENKEEL_TEST_IN_NAMESPACES";

/// Runs this same test again as root of its own network and processes, if the command `needs` succeeds there. `true`:
/// this is the inner run.
pub(crate) fn in_namespaces(test: &str, needs: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    if !can_be_made() || !is_possible(needs) {
        eprintln!("no namespaces can be made here, or `{needs}` fails");
        return false;
    }
    let script = format!("ip link set lo up; \"$0\" --exact {test} --nocapture");
    let mut again = apart(Path::new("/"), &script);
    again.env(INNER, std::process::id().to_string()).arg(std::env::current_exe().expect("own path"));
    let output = again.output().expect("timeout of coreutils");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "the inner test did not run: {said}");
    print!("{said}");
    false
}
