//! Steps with headings, so that a log can be read: what runs now, how long it took, and at the end what failed.

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::subject::workspace;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How cargo's summary of a test binary begins.
const TEST_RESULT: &str = "test result: ";

/// A run of several steps, each done whether or not the ones before succeeded.
pub(crate) struct Steps {
    started: Instant,
    done: Vec<Done>,
    /// Cargo's summaries, held back for the end.
    results: Vec<String>,
}

struct Done {
    name: String,
    failure: Option<String>,
    took: Duration,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps { started: clock::now(), done: Vec::new(), results: Vec::new() }
    }

    /// Does one step; a failure is shown now and again at the end.
    pub(crate) fn step(&mut self, name: &str, action: impl FnOnce(&mut Vec<String>) -> Result<()>) {
        println!("\n=== {}. {name}", self.done.len() + 1);
        let started = clock::now();
        let failure = action(&mut self.results).err().map(|error| format!("{error:#}"));
        let took = started.elapsed();
        match &failure {
            None => println!("--- {name}: ok, {:.1} s", took.as_secs_f64()),
            Some(failure) => println!("--- {name}: FAILED after {:.1} s: {failure}", took.as_secs_f64()),
        }
        self.done.push(Done { name: name.to_owned(), failure, took });
    }

    /// The whole in a few lines, the test results last; whether every step succeeded.
    pub(crate) fn finish(self) -> bool {
        println!("\n=== Summary");
        for step in &self.done {
            println!("{:>7.1} s  {}", step.took.as_secs_f64(), step.name);
        }
        println!("{:>7.1} s  in total", self.started.elapsed().as_secs_f64());
        let mut succeeded = true;
        for step in &self.done {
            if let Some(failure) = &step.failure {
                println!("FAILED {}: {failure}", step.name);
                succeeded = false;
            }
        }
        for result in &self.results {
            println!("{result}");
        }
        succeeded
    }
}

/// `cargo` in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(&std::env::var("CARGO").unwrap_or("cargo".to_owned()), arguments)
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

/// Runs cargo's tests, passing on what they say except the summaries, which go to `results`.
pub(crate) fn run_tests(mut command: Command, results: &mut Vec<String>) -> Result<()> {
    let shown = show(&command);
    println!("$ {shown}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("run {shown}"))?;
    let output = child.stdout.take().expect("it is piped");
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if line.starts_with(TEST_RESULT) {
            results.push(line);
        } else {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
