//! Steps with headings, so that a log can be read: what runs now, how long it took, what is left, and at the end what
//! failed.

use anyhow::{Context, Result};
use checkout::workspace;
use os::clock::Stopwatch;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How cargo's summary of a test binary begins.
pub(crate) const TEST_RESULT: &str = "test result: ";

/// How the line of a test that has failed ends.
pub(crate) const TEST_FAILED: &str = " ... FAILED";

/// What stands between the place of a failed assertion and what it says, which has lines of its own.
const PANICKED: &str = " panicked at ";

/// After a failed assertion, this many lines of what it says are told again at the end.
const PANIC_LINES: usize = 6;

/// The action of a step; cargo's summaries and what failed are held back for the end.
type Action = Box<dyn FnOnce(&mut Vec<String>) -> Result<()>>;

/// A run of several steps, each done whether or not the ones before succeeded.
#[derive(Default)]
pub(crate) struct TestSteps {
    steps: Vec<(String, Action)>,
    left_out: Vec<String>,
}

struct Done {
    name: String,
    failure: Option<String>,
    took: Duration,
    /// Of all its processes, in seconds. On a machine that others use, too, this says more than the clock.
    cpu_s: f64,
}

impl TestSteps {
    /// Adds a step behind the others.
    pub(crate) fn step(&mut self, name: &str, action: impl FnOnce(&mut Vec<String>) -> Result<()> + 'static) {
        self.steps.push((name.to_owned(), Box::new(action)));
    }

    /// Says at the end what this run does not do.
    pub(crate) fn leave_out(&mut self, what: Vec<String>) {
        self.left_out = what;
    }

    /// Does all of them. A failure is shown at once and again at the end; whether every step succeeded.
    pub(crate) fn run(self) -> bool {
        let started = Stopwatch::start();
        let names: Vec<String> = self.steps.iter().map(|(name, _)| name.clone()).collect();
        let (mut done, mut results) = (Vec::new(), Vec::new());
        for (at, (name, action)) in self.steps.into_iter().enumerate() {
            println!("\n=== {}. {name}", at + 1);
            // Standard error is what is looked at while standard output goes to a file.
            eprintln!("{}", progress(&names, at, started.passed()));
            done.push(carry_out(name, action, &mut results));
        }
        results.extend(self.left_out);
        summary(&done, &results, started)
    }
}

/// The step that begins, what the run took so far, and what is left behind it.
fn progress(names: &[String], at: usize, so_far: Duration) -> String {
    let left = match &names[at + 1..] {
        [] => "nothing".to_owned(),
        left => left.iter().map(|name| short(name)).collect::<Vec<_>>().join(", "),
    };
    let (name, count, so_far) = (short(&names[at]), names.len(), so_far.as_secs());
    format!("xtask: stage {} of {count}: {name}; {so_far} s so far; left: {left}", at + 1)
}

/// A name without the details behind its colon, unless these distinguish it from others.
fn short(name: &str) -> &str {
    match name.split_once(':') {
        Some(("Tests", _)) | None => name,
        Some((short, _)) => short,
    }
}

fn carry_out(name: String, action: Action, results: &mut Vec<String>) -> Done {
    let started = Stopwatch::start();
    let before_s = cpu_s();
    let failure = action(results).err().map(|error| format!("{error:#}"));
    let (took, cpu_s) = (started.passed(), cpu_s() - before_s);
    match &failure {
        None => println!("--- {name}: ok, {:.1} s", took.as_secs_f64()),
        Some(failure) => println!("--- {name}: FAILED after {:.1} s: {failure}", took.as_secs_f64()),
    }
    Done { name, failure, took, cpu_s }
}

/// CPU-seconds of this process, of its children that have ended, and of theirs.
fn cpu_s() -> f64 {
    os::cpu_time::of_processes_s(&[std::process::id()])
}

/// The whole in a few lines, the test results last; whether every step succeeded.
fn summary(done: &[Done], results: &[String], started: Stopwatch) -> bool {
    println!("\n=== Summary");
    for step in done {
        println!("{}", line(step.took, step.cpu_s, &step.name));
    }
    println!("{}", line(started.passed(), done.iter().map(|step| step.cpu_s).sum(), "in total"));
    let mut succeeded = true;
    for step in done {
        if let Some(failure) = &step.failure {
            println!("FAILED {}: {failure}", step.name);
            succeeded = false;
        }
    }
    for result in results {
        println!("{result}");
    }
    succeeded
}

/// A line of the table: seconds by the clock, seconds of CPU time, and what took them.
fn line(took: Duration, cpu_s: f64, what: &str) -> String {
    format!("{:>7.1} s {cpu_s:>8.1} s of CPU time  {what}", took.as_secs_f64())
}

/// `cargo` in the workspace. In continuous integration all is built anew, so it takes no notes for building a part again.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = command(&std::env::var("CARGO").unwrap_or("cargo".to_owned()), arguments);
    if std::env::var_os("CI").is_some() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}

/// Any program, in the workspace and without input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace()).stdin(Stdio::null());
    command
}

/// Runs to the end; an unsuccessful end is an error that names the command.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let shown = show(&command);
    println!("$ {shown}");
    std::io::stdout().flush()?;
    let status = command.status().with_context(|| format!("run {shown}"))?;
    anyhow::ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs tests, passing on what they say below the name of their program, because others may run beside it. The summaries
/// go to `results`, and so does once more what failed and why, because the end of a long log is what is looked at.
pub(crate) fn run_tests(mut command: Command, name: &str, results: &mut Vec<String>) -> Result<()> {
    let shown = show(&command);
    println!("$ {shown}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("run {shown}"))?;
    let output = child.stdout.take().expect("it is piped");
    let mut panic_lines = 0;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if line.starts_with(TEST_RESULT) {
            results.push(format!("{name}: {line}"));
            continue;
        }
        println!("{name}: {line}");
        if line.contains(PANICKED) {
            panic_lines = PANIC_LINES;
        }
        if line.ends_with(TEST_FAILED) || panic_lines > 0 {
            panic_lines = panic_lines.saturating_sub(1);
            results.push(format!("{name}: {line}"));
        }
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// A command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_stage_says_which_it_is_and_what_is_left() {
        let names = ["Tidy", "Tests: units", "Virtual machines: four of them"].map(str::to_owned);
        let line = |at, seconds| progress(&names, at, Duration::from_secs(seconds));
        let first = "xtask: stage 1 of 3: Tidy; 0 s so far; left: Tests: units, Virtual machines";
        assert_eq!(line(0, 0), first);
        assert_eq!(line(2, 754), "xtask: stage 3 of 3: Virtual machines; 754 s so far; left: nothing");
    }

    #[test]
    fn what_failed_is_told_again_with_the_summaries() {
        let said = "test a ... ok\ntest b ... FAILED\nthread 'b' panicked at b.rs:1:\nleft: 1\n\ntest result: FAILED. 1";
        let mut results = Vec::new();
        let error = run_tests(command("sh", &["-c", "echo \"$0\"; exit 101", said]), "c/main", &mut results);
        assert!(error.expect_err("it has failed").to_string().ends_with("101"));
        let told =
            ["test b ... FAILED", "thread 'b' panicked at b.rs:1:", "left: 1", "", "test result: FAILED. 1"];
        assert_eq!(results, told.map(|line| format!("c/main: {line}")));
    }

    #[test]
    fn steps_run_in_their_order_and_go_on_after_a_failure() {
        let (told, heard) = std::sync::mpsc::channel();
        let mut steps = TestSteps::default();
        for (name, succeeds) in [("a", true), ("b", false), ("c", true)] {
            let told = told.clone();
            steps.step(name, move |_| {
                told.send(name)?;
                anyhow::ensure!(succeeds, "it must not");
                Ok(())
            });
        }
        assert!(!steps.run());
        drop(told);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
