//! One pass of clippy with two sets of rules: the workspace's, and stricter ones for what ships.
//!
//! Clippy has one list of refused functions for all that it looks at in one run. So cargo calls this program in place of the
//! compiler, and this program calls clippy with the list that is for the crate at hand.

use crate::steps::{cargo, run};
use anyhow::{Context, Result};
use checkout::workspace;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// What runs for its user alone, on files that this user names, or is for development.
const FOR_THEIR_USER: [&str; 10] = [
    "lab",
    "load",
    "simulator",
    "transcript",
    "checkout",
    "end_to_end",
    "conformance",
    "scenarios",
    "tidy",
    "xtask",
];

/// Set where this program is called in place of the compiler.
const IN_PLACE_OF_THE_COMPILER: &str = "EVENKEEL_LINTS";

/// Lints everything. Cargo keeps what it found as long as clippy's arguments are the same: the second one distinguishes
/// this run from one by hand, which knows the rules of the workspace alone.
pub(crate) fn lint() -> Result<()> {
    let words = ["-D", "warnings", "-D", "clippy::disallowed_methods"];
    let mut clippy = cargo(&[["clippy", "--workspace", "--all-targets", "--"].as_slice(), &words].concat());
    let own = std::env::current_exe().context("find this program")?;
    clippy.env("RUSTC_WRAPPER", own).env(IN_PLACE_OF_THE_COMPILER, "1");
    run(clippy)
}

/// Calls clippy, if this program is called in place of the compiler.
pub(crate) fn call_in_place() -> Option<ExitCode> {
    std::env::var_os(IN_PLACE_OF_THE_COMPILER)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (program, arguments) = words.split_first()?;
    let mut compiler = Command::new(program);
    compiler.args(arguments);
    if ships(&std::env::var("CARGO_PKG_NAME").unwrap_or_default(), &words) {
        compiler.env("CLIPPY_CONF_DIR", workspace().join("dev/xtask/shipped"));
    }
    eprintln!("xtask: call {program}: {}", compiler.exec());
    Some(ExitCode::FAILURE)
}

/// Whether a call of the compiler is about a library or a program of ours that ships, without its tests: these go by
/// `dev/xtask/shipped/clippy.toml`.
fn ships(package: &str, words: &[String]) -> bool {
    let is_linted = words.first().is_some_and(|program| program.ends_with("clippy-driver"));
    let is_source = |word: &String| word.ends_with(".rs") && word.contains("src/");
    let is_test = words.iter().any(|word| word == "--test");
    is_linted && !is_test && words.iter().any(is_source) && !FOR_THEIR_USER.contains(&package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(package: &str, words: &str, expected: bool) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(ships(package, &words), expected, "{package}: {words:?}");
    }

    #[test]
    fn libraries_and_programs_ship_and_tests_and_examples_do_not() {
        check("net", "/b/clippy-driver /b/rustc --crate-name net crates/cache/net/src/lib.rs", true);
        check("evenkeel", "/b/clippy-driver /b/rustc crates/evenkeel/src/main.rs --crate-type bin", true);
        check("net", "/b/clippy-driver /b/rustc crates/cache/net/src/lib.rs --test", false);
        check("net", "/b/clippy-driver /b/rustc crates/cache/net/examples/null.rs", false);
        check("server", "/b/clippy-driver /b/rustc crates/cache/server/tests/main.rs --test", false);
        check("lab", "/b/clippy-driver /b/rustc crates/measure/lab/src/lib.rs", false);
        check("xtask", "/b/clippy-driver /b/rustc dev/xtask/src/main.rs", false);
        check("mio", "/b/rustc /registry/mio/src/lib.rs", false);
    }
}
