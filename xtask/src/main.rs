//! Automation in the project's own language: `cargo xtask <verb>`.

mod bench;
mod steps;
mod test;
mod tidy;
mod tools;
mod transcripts;
mod vm;

use anyhow::Result;
use clap::Parser;
use std::process::ExitCode;

/// What `cargo xtask` does.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Evenkeel's automation")]
enum Verb {
    /// Everything that must hold: tools, tidiness, lints, the release build, all tests
    Test {
        /// Only the tuner in a virtual machine with more CPUs
        #[arg(long)]
        vm: bool,
    },
    /// Tidiness, formatting and lints: the quick part of `test`
    Ci,
    /// The shape of the project: crate edges, names, lengths
    Tidy,
    /// Hold any server to the transcripts
    Transcripts(transcripts::Arguments),
    /// Measure against others, on this machine and in one run
    #[command(subcommand)]
    Bench(Bench),
}

/// What can be measured.
#[derive(clap::Subcommand)]
enum Bench {
    /// Servers: requests per server CPU-second
    Serve(bench::Arguments),
    /// Load generators: requests per client CPU-second
    Load(bench::load::Arguments),
    /// What the memory is worth: density, misses, promises about resident memory
    Store(bench::store::Arguments),
    /// What an honest client notices of hostile ones
    Hostile(bench::hostile::Arguments),
}

fn main() -> ExitCode {
    let outcome: Result<bool> = match Verb::parse() {
        Verb::Test { vm: false } => test::test(),
        Verb::Test { vm: true } => vm::test(),
        Verb::Ci => test::ci(),
        Verb::Tidy => tidy::tidy(),
        Verb::Transcripts(arguments) => transcripts::transcripts(&arguments),
        Verb::Bench(Bench::Serve(arguments)) => bench::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Load(arguments)) => bench::load::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Store(arguments)) => bench::store::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Hostile(arguments)) => bench::hostile::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
