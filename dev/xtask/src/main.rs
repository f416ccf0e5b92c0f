//! Automation in the project's own language: `cargo xtask <verb>`.

mod binaries;
mod first_server;
mod lints;
mod steps;
mod test;
mod thorough;
mod tools;
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
    FirstServer(first_server::Arguments),
    Dist(ship::dist::Arguments),
}

fn main() -> ExitCode {
    match lints::call_in_place().unwrap_or_else(|| carry_out(Verb::parse())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all that the verb asks for holds.
fn carry_out(verb: Verb) -> Result<bool> {
    match verb {
        Verb::Test { vm: true, .. } => vm::test(),
        Verb::Test { all, .. } => test::test(all),
        Verb::Ci => test::ci(),
        Verb::Tidy => tidy::tidy(),
        Verb::FirstServer(arguments) => first_server::first_server(&arguments),
        Verb::Dist(arguments) => ship::dist::dist(&arguments),
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
        // Decisions may name what has been removed since.
        for (page, text) in pages::all().into_iter().filter(|(page, _)| !page.starts_with("docs/decisions/"))
        {
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
