//! The programs in `clients/`, and their dependencies, which `cargo xtask test` installs.

use crate::server::Server;
use anyhow::{Context, Result, bail, ensure};
use checkout::clients::{go, go_home, node_project, python_environment, sources};
use checkout::target_directory;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The time limit of a client program: one that takes longer waits for an answer that does not come.
const SECONDS_MAX: &str = "600";

/// How long memccapable waits for an answer: its default is too short for a busy machine.
const ANSWER_SECONDS_MAX: &str = "60";

/// The client program of gomemcache, built.
///
/// # Errors
/// If it does not build.
pub fn gomemcache() -> Result<Command> {
    let program = go_home().join("gomemcache");
    let output = go().args(["build", "-o"]).arg(&program).arg(".").env("GOPROXY", "off").output();
    let output = output.context("run go").context(MISSING)?;
    ensure!(output.status.success(), "{}\n{MISSING}", String::from_utf8_lossy(&output.stderr));
    Ok(Command::new(program))
}

/// A Python program from `clients/python`.
pub fn python(program: &str) -> Command {
    let mut command = Command::new(python_environment().join("bin/python"));
    command.arg("-B").arg(sources().join("python").join(program));
    command
}

/// A Node program from `clients/node`.
pub fn node(program: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(sources().join("node").join(program)).env("NODE_PATH", node_project().join("node_modules"));
    command
}

/// A Ruby program from `clients/ruby`.
pub fn ruby(program: &str) -> Command {
    let mut command = Command::new("ruby");
    command.arg(sources().join("ruby").join(program));
    command
}

/// A file with the user that the client programs know.
///
/// # Errors
/// If it cannot be written.
pub fn users_file() -> Result<PathBuf> {
    let file = target_directory().join("tmp/client-users");
    std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
    std::fs::write(&file, "you:other\nme:secret\n")?;
    Ok(file)
}

/// Checks of memccapable that are outdated: they require that `delete key 5` is refused, which 1.6.45 accepts, and so does
/// Evenkeel.
pub const MEMCCAPABLE_OUTDATED: [&str; 2] = ["ascii delete", "ascii delete noreply"];

/// libmemcached's own checker of servers, with `-a` for the text protocol only: the names of its tests begin with the
/// protocol.
pub fn memccapable(server: &Server, protocol: &[&str]) -> Result<Vec<(String, bool)>> {
    let address = server.address();
    let mut command = Command::new("memccapable");
    command.args(protocol).args([
        "-h",
        &address.ip().to_string(),
        "-p",
        &address.port().to_string(),
        "-t",
        ANSWER_SECONDS_MAX,
    ]);
    let output = run(command)?;
    let tests: Vec<(String, bool)> = String::from_utf8_lossy(&output.stdout)
        .replace("[pass]", "[pass]\n")
        .lines()
        .filter(|line| line.starts_with("ascii ") || line.starts_with("binary "))
        .map(|test| (test.replace("[pass]", "").trim().to_owned(), test.contains("[pass]")))
        .collect();
    ensure!(!tests.is_empty(), "memccapable said {output:?}");
    Ok(tests)
}

/// Runs a client program against `server`; its last line must be `N passed, 0 failed`.
///
/// # Errors
/// With the program's own report.
pub fn passes(command: Command, server: &Server) -> Result<String> {
    passes_but(command, server, &[])
}

/// The same, if exactly these checks of the program fail.
///
/// # Errors
/// With the program's own report.
pub fn passes_but(mut command: Command, server: &Server, failing: &[&str]) -> Result<String> {
    command.arg(server.address().to_string());
    let output = run(command)?;
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().unwrap_or_default().to_owned();
    let failed: Vec<&str> = complained
        .lines()
        .filter_map(|line| line.strip_prefix("FAILED "))
        .map(|line| line.split(':').next().unwrap_or(line))
        .collect();
    let is_as_expected = failed == failing && output.status.success() == failing.is_empty();
    if !is_as_expected
        || !last.ends_with(&format!("passed, {} failed", failing.len()))
        || last.starts_with("0 ")
    {
        bail!("{said}{complained}");
    }
    Ok(last)
}

const MISSING: &str = "hint: `cargo xtask test` installs what the client programs need";

fn run(command: Command) -> Result<Output> {
    let mut bounded = Command::new("timeout");
    bounded.arg(SECONDS_MAX).arg(command.get_program()).args(command.get_args());
    bounded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = bounded.output().context("run a client program")?;
    match output.status.code() {
        Some(124) => bail!("{} did not finish in {SECONDS_MAX} s", command.get_program().display()),
        Some(126 | 127) => bail!("{} is missing\n{MISSING}", command.get_program().display()),
        _ => Ok(output),
    }
}
