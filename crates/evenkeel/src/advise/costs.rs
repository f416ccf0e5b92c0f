//! `evenkeel advise costs`: a table of costs for `--costs` from runs of the lab.

use std::path::PathBuf;
use std::process::ExitCode;

use advise::LabCosts;
use fleet::advise::CpuArchitecture;
use lab::analyze::compare::compare;
use lab::report::json::RunReport;
use lab::run::results::Results;

use super::ask::STATUS_FILE;
use super::clock::count_clock_ghz;
use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Exit statuses of `costs`.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "The table is on standard output."),
    ("64", "The command line is wrong, or the runs were made on another host."),
    ("65", "A run is none of experiments/costs.toml, or it has too few trials that count."),
    ("1", "Anything else: a file of a run is not what was written."),
];

/// Make a table of costs from runs of experiments/costs.toml
///
/// The clock of this host is part of the table, and is counted meanwhile, which takes two seconds: let it run on the host of the runs,
/// while nothing else does.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of a run
    #[arg(value_name = "RUN", required = true, num_args = 1..=2)]
    runs: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut costs = LabCosts::default();
    for path in &arguments.runs {
        let results = Results::read(path).map_err(|error| Failure::other(error).with_status(STATUS_FILE))?;
        let comparison = compare(&results);
        let report = RunReport::of(&results, &comparison).line();
        costs.add(&report).map_err(|error| {
            Failure::other(anyhow::Error::from(error)).within(path.display()).with_status(STATUS_FILE)
        })?;
    }
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if costs.hosts.iter().any(|host| *host != here) {
        let what = format!("the runs were made on {}, and this is {here}", costs.hosts.join(", "));
        let hint = "the table has the clock of its host: run it there".to_owned();
        return Err(Failure::usage(what, Some(hint)));
    }
    let architecture = match cfg!(target_arch = "aarch64") {
        true => CpuArchitecture::Arm,
        false => CpuArchitecture::X86,
    };
    let clock = count_clock_ghz();
    print(costs.to_toml(architecture, &clock).as_bytes())?;
    say(format_args!(
        "evenkeel: advise: {} costs at a clock of {:.2} GHz; what is not in the table keeps the built-in figure",
        costs.figures.len(),
        clock.value
    ));
    Ok(ExitCode::SUCCESS)
}
