//! Automation in the project's own language: `cargo xtask <verb>`.

mod bench;
mod binaries;
mod first_server;
mod lints;
mod mcrouter_cases;
mod sim;
mod steps;
mod test;
mod thorough;
mod tidy;
mod tools;
mod transcripts;
mod vm;

use anyhow::Result;
use clap::Parser;
use std::process::ExitCode;

/// Verbs of `cargo xtask`.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Evenkeel's automation")]
enum Verb {
    /// Everything that must hold for every change: tools, tidiness, lints, tests, a virtual machine
    Test {
        /// Also what takes too long for every change: before a release
        #[arg(long, conflicts_with = "vm")]
        all: bool,
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
    /// Hold configurations and command lines to the cases of mcrouter's tests
    McrouterCases(mcrouter_cases::Arguments),
    /// Play scenarios of a simulated fleet, and draw them
    Sim(sim::Arguments),
    FirstServer(first_server::Arguments),
    /// Measure against others, on this machine and in one run
    #[command(subcommand)]
    Bench(Bench),
}

/// Benchmarks.
#[derive(clap::Subcommand)]
enum Bench {
    /// Servers: requests per server CPU-second
    Serve(bench::Arguments),
    /// UDP, TLS, binary packets, handshakes, crowded hosts, storms, idle connections
    Network(bench::network::Arguments),
    /// Proxies: keys per CPU-second of the proxy
    Route(bench::route::Arguments),
    /// Load generators: requests per client CPU-second
    Load(bench::load::Arguments),
    /// Memory: density, misses, resident memory and its limit
    Store(bench::store::Arguments),
    /// Effects of hostile clients on an honest one
    Hostile(bench::hostile::Arguments),
    /// A cluster: the time from its start to its first answer
    Up(bench::up::Arguments),
    /// Restarts with all items, take-overs under load, and the price of a memory file
    Deploy(bench::deploy::Arguments),
    Flash(bench::flash::Arguments),
    /// The control plane: failover, publication, replacement, rest, a large fleet
    Control(bench::control::Arguments),
}

fn main() -> ExitCode {
    if let Some(code) = lints::call_in_place() {
        return code;
    }
    let outcome: Result<bool> = match Verb::parse() {
        Verb::Test { vm: true, .. } => vm::test(),
        Verb::Test { all, .. } => test::test(all),
        Verb::Ci => test::ci(),
        Verb::Tidy => tidy::tidy(),
        Verb::Transcripts(arguments) => transcripts::transcripts(&arguments),
        Verb::McrouterCases(arguments) => mcrouter_cases::mcrouter_cases(&arguments),
        Verb::Sim(arguments) => sim::run(&arguments),
        Verb::FirstServer(arguments) => first_server::first_server(&arguments),
        Verb::Bench(Bench::Serve(arguments)) => bench::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Network(arguments)) => bench::network::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Route(arguments)) => bench::route::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Load(arguments)) => bench::load::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Store(arguments)) => bench::store::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Hostile(arguments)) => bench::hostile::run(&arguments),
        Verb::Bench(Bench::Up(arguments)) => bench::up::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Deploy(arguments)) => bench::deploy::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Flash(arguments)) => bench::flash::run(&arguments).map(|()| true),
        Verb::Bench(Bench::Control(arguments)) => bench::control::run(&arguments).map(|()| true),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use transcript::pages;

    #[test]
    fn every_command_of_the_pages_is_accepted() {
        let mut count = 0;
        for (page, text) in pages::all() {
            for typed in pages::commands(&page, &text, &[("cargo", &["xtask"])]) {
                count += 1;
                let Err(error) = Verb::try_parse_from(&typed.words[1..]) else { continue };
                let is_lack = matches!(
                    error.kind(),
                    ErrorKind::MissingRequiredArgument
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                        | ErrorKind::MissingSubcommand
                );
                // A sentence may name a command without all that it needs.
                assert!(typed.is_mentioned && is_lack, "{page}:{}: `{}`: {error}", typed.line, typed.text());
            }
        }
        assert!(count >= 10, "commands are missed: {count}");
    }
}
