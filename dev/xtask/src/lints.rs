//! Clippy as the compiler of the workspace: what builds the tests also looks at their code, with two sets of rules, the
//! workspace's and stricter ones for what ships.
//!
//! A pass of its own would read all crates once more, those of others, too, to look at a third of them. Clippy has one list
//! of refused functions for a call. So cargo calls this program in place of the compiler of the workspace's crates, and
//! this program calls clippy with the list that is for the crate at hand.

use crate::steps::{cargo, run};
use anyhow::Result;
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

/// Clippy's words, as clippy reads them from the environment: what the workspace warns of is an error.
const CLIPPY_ARGUMENTS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// Lints everything without building it.
pub(crate) fn lint() -> Result<()> {
    run(linting_cargo(&["check", "--workspace", "--all-targets"]))
}

/// `cargo` whose compiler refuses what a lint warns of. What it builds lies beside what cargo builds without lints.
pub(crate) fn linting_cargo(arguments: &[&str]) -> Command {
    let mut cargo = cargo(arguments);
    let own = std::env::current_exe().expect("the path of a program that runs");
    let (name, words) = CLIPPY_ARGUMENTS;
    cargo.env("RUSTC_WORKSPACE_WRAPPER", own).env(IN_PLACE_OF_THE_COMPILER, "1").env(name, words);
    cargo
}

/// Calls clippy, if this program is called in place of the compiler.
pub(crate) fn call_in_place() -> Option<ExitCode> {
    std::env::var_os(IN_PLACE_OF_THE_COMPILER)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut clippy = Command::new("clippy-driver");
    clippy.args(&words);
    if ships(&std::env::var("CARGO_PKG_NAME").unwrap_or_default(), &words) {
        clippy.env("CLIPPY_CONF_DIR", workspace().join("dev/xtask/shipped"));
    }
    eprintln!("xtask: call clippy-driver: {}", clippy.exec());
    Some(ExitCode::FAILURE)
}

/// Whether a call of the compiler is about a library or a program of ours that ships, without its tests: these go by
/// `dev/xtask/shipped/clippy.toml`.
fn ships(package: &str, words: &[String]) -> bool {
    let is_source = |word: &String| word.ends_with(".rs") && word.contains("src/");
    let is_test = words.iter().any(|word| word == "--test");
    !is_test && words.iter().any(is_source) && !FOR_THEIR_USER.contains(&package)
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
        check("net", "/b/rustc --crate-name net crates/cache/net/src/lib.rs", true);
        check("evenkeel", "/b/rustc crates/evenkeel/src/main.rs --crate-type bin", true);
        check("net", "/b/rustc crates/cache/net/src/lib.rs --test", false);
        check("net", "/b/rustc crates/cache/net/examples/null.rs", false);
        check("server", "/b/rustc crates/cache/server/tests/main.rs --test", false);
        check("lab", "/b/rustc crates/measure/lab/src/lib.rs", false);
        check("xtask", "/b/rustc dev/xtask/src/main.rs", false);
    }
}
