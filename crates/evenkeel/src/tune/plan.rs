//! `evenkeel tune plan`: the changes of a plan, with reasons.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use tuner::plan::Plan;
use tuner::plan::plan_text;
use tuner::plan::profile::Profile;

use super::arguments::PlanArguments;
use super::terminal;
use crate::failure::Failure;
use crate::process::parent;
use crate::terminal::output::{columns, print};

/// Show what would be changed, and why
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: PlanArguments,
    /// Print only each setting's value before and after
    #[arg(long)]
    diff: bool,
    /// Print JSON, which `apply --plan` accepts on this host until its next start
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Write a shell script with the same steps, and one that undoes them to FILE.undo
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// With --profile mysql: write a fragment of my.cnf for this host, with a reason above each line
    #[arg(long, value_name = "FILE", requires = "profile")]
    my_cnf: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    parent::follow()?;
    let wanted = arguments.wanted.request()?;
    let plan = wanted.plan()?;
    if let Some(path) = &arguments.my_cnf {
        if arguments.wanted.profile != Some(Profile::Mysql) {
            return Err(Failure::usage("--my-cnf takes --profile mysql", None));
        }
        tuning::plan::write_my_cnf(&wanted.host.facts()?, path)?;
    }
    if let Some(path) = &arguments.script {
        tuning::plan::write_scripts(&plan, path)?;
    }
    let text = match (arguments.json, arguments.diff) {
        (true, _) => tuning::plan::json(plan, &wanted.host)?,
        (_, true) => plan_text::diff(&plan),
        _ => shown(&plan),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// For a terminal, folded to its width, or for a program, in whole lines.
pub(super) fn shown(plan: &Plan) -> String {
    let text = plan_text::text(plan);
    match io::stdout().is_terminal() {
        true => plan_text::wrapped(&text, terminal::style(columns()).columns),
        false => text,
    }
}
