//! `cargo run -p conformance -- <verb>`: what others demand of a server or a router.

mod mcrouter_cases;
mod transcripts;

use std::process::ExitCode;

use clap::Parser;

/// Holds servers and routers to what others demand of them.
#[derive(Parser)]
#[command(name = "conformance")]
enum Verb {
    /// Hold any server to the transcripts
    Transcripts(transcripts::Arguments),
    /// Hold configurations and command lines to the cases of mcrouter's tests
    McrouterCases(mcrouter_cases::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Verb::parse() {
        Verb::Transcripts(arguments) => transcripts::transcripts(&arguments),
        Verb::McrouterCases(arguments) => mcrouter_cases::mcrouter_cases(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_pages_is_accepted() {
        let typed = transcript::pages::run_by_cargo("conformance");
        assert!(typed.len() >= 2, "commands are missed: {typed:?}");
        for typed in typed {
            if let Err(error) = Verb::try_parse_from(&typed.words) {
                panic!("{}:{}: `{}`: {error}", typed.page, typed.line, typed.text());
            }
        }
    }
}
