//! The programs in `clients/`, and their dependencies, which `cargo xtask test` installs.

use crate::server::Server;
use anyhow::{Context, Result, anyhow, bail, ensure};
use checkout::clients::{go, go_home, java_project, node_project, python_environment, sources};
use checkout::target_directory;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The time limit of a client program: one that takes longer waits for an answer that does not come.
const SECONDS_MAX: &str = "600";

/// How long memccapable waits for an answer: its default is too short for a busy machine.
const ANSWER_SECONDS_MAX: &str = "60";

/// The client program of gomemcache, built.
///
/// # Errors
/// If it does not build.
pub fn gomemcache() -> Result<Command> {
    go_program("gomemcache", Path::new("."))
}

/// The client program of memcachier/mc, built.
///
/// # Errors
/// If it does not build.
pub fn mc() -> Result<Command> {
    go_program("mc", Path::new("./mc"))
}

/// A Go program of this name, built of a package or a file that uses the modules of `clients/go`.
///
/// # Errors
/// If it does not build.
pub fn go_program(name: &str, source: &Path) -> Result<Command> {
    let program = go_home().join(name);
    // One after the other: two at once would each build all that neither finds in the cache. Some tests run in a process of their own.
    let building = File::create(go_home().join("building")).context("create a file").context(MISSING)?;
    building.lock().context("wait for other builds")?;
    succeeds(go().args(["build", "-o"]).arg(&program).arg(source).env("GOPROXY", "off"))?;
    Ok(Command::new(program))
}

/// A Java program of `clients/java`.
///
/// # Errors
/// If they do not compile.
pub fn java(class: &str) -> Result<Command> {
    static CLASSES: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let compile = || {
        let folder = sources().join("java");
        let programs = ["Checks", "Point", "SpymemcachedApi", "XmemcachedApi"];
        let files: Vec<PathBuf> = programs.iter().map(|name| folder.join(format!("{name}.java"))).collect();
        java_classes("api", &files).map_err(|error| format!("{error:#}"))
    };
    let classes = CLASSES.get_or_init(compile).as_ref().map_err(|error| anyhow!("{error}"))?;
    java_program(classes, class)
}

/// Compiles Java programs that use the libraries of `clients/java`, all at once: most of the time is the compiler's start. The
/// folder with their classes has this name.
///
/// # Errors
/// If they do not compile.
pub fn java_classes(name: &str, sources: &[PathBuf]) -> Result<PathBuf> {
    let classes = java_project().join(name);
    let mut compiler = Command::new("javac");
    compiler.args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-encoding", "UTF-8"]);
    succeeds(compiler.arg("-cp").arg(java_libraries()?).arg("-d").arg(&classes).args(sources))?;
    Ok(classes)
}

/// A Java program among these classes.
///
/// # Errors
/// If it is not known which libraries there should be.
pub fn java_program(classes: &Path, class: &str) -> Result<Command> {
    let mut command = Command::new("java");
    // For short runs: what makes long ones faster costs more than it saves.
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{}:{}", classes.display(), java_libraries()?)).arg(class);
    Ok(command)
}

/// The libraries for Java, as words of a class path: those whose checksums are known, and no others.
fn java_libraries() -> Result<String> {
    let list = sources().join("java/checksums.txt");
    let list = std::fs::read_to_string(&list).with_context(|| format!("read {}", list.display()))?;
    let lib = java_project().join("lib");
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(1));
    Ok(names.map(|name| lib.join(name).display().to_string()).collect::<Vec<_>>().join(":"))
}

/// A language whose programs are run as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpreter {
    /// With the packages of `clients/python`.
    Python,
    /// With the packages of `clients/node`.
    Node,
    /// The system's, with its extensions.
    Php,
    /// The system's, with its gems.
    Ruby,
}

impl Interpreter {
    /// A command that runs this program.
    pub fn run(self, program: &Path) -> Command {
        let mut command = match self {
            Interpreter::Python => Command::new(python_environment().join("bin/python")),
            Interpreter::Node => Command::new("node"),
            Interpreter::Php => Command::new("php"),
            Interpreter::Ruby => Command::new("ruby"),
        };
        match self {
            // Nothing is written beside the sources.
            Interpreter::Python => drop(command.arg("-B")),
            Interpreter::Node => drop(command.env("NODE_PATH", node_project().join("node_modules"))),
            Interpreter::Php | Interpreter::Ruby => {}
        }
        command.arg(program);
        command
    }
}

/// A Python program from `clients/python`.
pub fn python(program: &str) -> Command {
    Interpreter::Python.run(&sources().join("python").join(program))
}

/// A Node program from `clients/node`.
pub fn node(program: &str) -> Command {
    Interpreter::Node.run(&sources().join("node").join(program))
}

/// A PHP program from `clients/php`.
pub fn php(program: &str) -> Command {
    Interpreter::Php.run(&sources().join("php").join(program))
}

/// A Ruby program from `clients/ruby`.
pub fn ruby(program: &str) -> Command {
    Interpreter::Ruby.run(&sources().join("ruby").join(program))
}

/// A C program with libmemcached, built beside its source.
///
/// # Errors
/// If it does not build.
pub fn c_program(source: &Path) -> Result<Command> {
    let program = source.with_extension("");
    let mut compiler = Command::new("gcc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).arg("-lmemcached");
    succeeds(&mut compiler)?;
    Ok(Command::new(program))
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

/// Runs what makes a program of its source.
fn succeeds(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {name}")).context(MISSING)?;
    ensure!(output.status.success(), "{name}: {}\n{MISSING}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

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
