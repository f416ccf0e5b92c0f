//! The load generator on its own: `cargo run --release -p load --example load -- --help`.

use clap::Parser;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Generate load against a memcached-compatible server.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: load::Arguments,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let mut progress: Box<dyn Write> =
        if io::stderr().is_terminal() { Box::new(io::stderr()) } else { Box::new(io::sink()) };
    match load::run(&command.arguments, &mut progress) {
        Ok(summary) => {
            print!("{summary}");
            if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprint!("load: failed to {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}
