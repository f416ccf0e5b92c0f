//! cargo, which knows the packages.

use std::process::{Command, Stdio};

use checkout::workspace;

/// `cargo` in the workspace.
pub(super) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(arguments).current_dir(workspace()).stdin(Stdio::null());
    cargo
}
