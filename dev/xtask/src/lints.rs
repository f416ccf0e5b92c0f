//! Clippy as the compiler of the workspace: what builds the tests also looks at their code, with two sets of rules, the
//! workspace's and stricter ones for what ships.
//!
//! A pass of its own would read all crates once more, those of others, too, to look at a third of them. Clippy has one list
//! of refused functions for a call. So cargo calls this program in place of the compiler of the workspace's crates, and
//! this program calls clippy with the list that is for the crate at hand.

use crate::steps::{cargo, run};
use anyhow::{Context, Result};
use checkout::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What runs for its user alone, on files that this user names, or is for development.
const FOR_THEIR_USER: [&str; 11] = [
    "lab",
    "load",
    "simulator",
    "transcript",
    "checkout",
    "end_to_end",
    "conformance",
    "scenarios",
    "ship",
    "tidy",
    "xtask",
];

/// Set where this program is called in place of the compiler.
const IN_PLACE_OF_THE_COMPILER: &str = "EVENKEEL_LINTS";

/// Clippy's words, as clippy reads them from the environment: what the workspace warns of is an error.
const CLIPPY_ARGUMENTS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// Where clippy looks for its list, by the environment.
const FOLDER_OF_LIST: &str = "CLIPPY_CONF_DIR";

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

/// Calls clippy, if this program is called in place of the compiler; whether it succeeded.
pub(crate) fn call_in_place() -> Option<Result<bool>> {
    std::env::var_os(IN_PLACE_OF_THE_COMPILER)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    Some(lint_one(&words))
}

/// Builds a crate with clippy, by the list that is for it; whether it succeeded.
fn lint_one(words: &[String]) -> Result<bool> {
    let mut clippy = Command::new("clippy-driver");
    clippy.args(words);
    let is_strict = ships(&std::env::var("CARGO_PKG_NAME").unwrap_or_default(), words);
    if is_strict {
        clippy.env(FOLDER_OF_LIST, workspace().join("dev/xtask/shipped"));
    }
    let succeeded = clippy.status().context("run clippy-driver")?.success();
    if is_strict && succeeded {
        forget_folder(words)?;
    }
    Ok(succeeded)
}

/// Removes the folder of the list from cargo's notes about the crate, next to what was built: cargo builds again what depends
/// on a variable that cargo itself has another value of, and this one is set here. The list stays in the notes.
fn forget_folder(words: &[String]) -> Result<()> {
    let path = notes(words).context("clippy was called without --out-dir, --crate-name or extra-filename")?;
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let is_folder = |line: &&str| line.starts_with("# env-dep:") && line.contains(FOLDER_OF_LIST);
    let kept: String = text.split_inclusive('\n').filter(|line| !is_folder(line)).collect();
    fs::write(&path, kept).with_context(|| format!("write {}", path.display()))
}

/// Where the compiler writes what a crate was built from.
fn notes(words: &[String]) -> Option<PathBuf> {
    let after = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| &pair[1]);
    let suffix = words.iter().find_map(|word| word.strip_prefix("extra-filename="))?;
    Some(Path::new(after("--out-dir")?).join(format!("{}{suffix}.d", after("--crate-name")?)))
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
    use checkout::target_directory;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[track_caller]
    fn check(package: &str, text: &str, expected: bool) {
        assert_eq!(ships(package, &words(text)), expected, "{package}: {text}");
    }

    #[test]
    fn cargo_sees_the_list_and_not_its_folder() {
        let folder = target_directory().join(format!("xtask-notes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let list =
            "/t/libnet-1.rmeta: net/src/lib.rs dev/xtask/shipped/clippy.toml\n# env-dep:CLIPPY_ARGS=-D\n";
        let built = format!("{list}# env-dep:CLIPPY_CONF_DIR=/w/dev/xtask/shipped\n");
        fs::write(folder.join("net-1.d"), built).expect("a file");
        let called = format!("rustc --crate-name net -C extra-filename=-1 --out-dir {}", folder.display());
        forget_folder(&words(&called)).expect("notes");
        assert_eq!(fs::read_to_string(folder.join("net-1.d")).expect("a file"), list);
        fs::remove_dir_all(&folder).expect("remove the folder");
        let error = forget_folder(&words("rustc --crate-name net")).expect_err("no folder");
        assert!(error.to_string().contains("--out-dir"), "{error}");
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
