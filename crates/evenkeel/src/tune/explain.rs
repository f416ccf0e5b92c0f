//! `evenkeel tune explain`: explanations of the rules.

use std::process::ExitCode;

use tuner::diagnose::rules;
use tuner::report;

use super::terminal;
use crate::failure::Failure;
use crate::terminal::output::print;

/// Explain a rule, or list all rules
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// A rule, as `check` prints it [default: list all]
    #[arg(value_name = "RULE")]
    rule: Option<String>,
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    let style = terminal::style(columns);
    let text = match arguments.rule.as_deref() {
        None => report::list(rules::explanations(), style),
        Some(rule) => match rules::explain(rule) {
            Some(explanation) => report::explanation(explanation, style),
            None => {
                let hint = "`evenkeel tune explain` lists them".to_owned();
                return Err(Failure::usage(format_args!("there is no rule `{rule}`"), Some(hint)));
            }
        },
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
