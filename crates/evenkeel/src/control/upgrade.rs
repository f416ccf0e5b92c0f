//! `control upgrade`: another version of the program on the hosts of a fleet. What becomes of it, `control tune status` says.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::tune::changes::{self, TermsArguments};
use crate::failure::Failure;

/// Arguments of `upgrade`.
#[derive(Clone, Debug, Args)]
pub(super) struct UpgradeArguments {
    /// The name of the version, as `programs` of [upgrade] in the agents' files has it; it is on the hosts already
    #[arg(long, value_name = "NAME", required_unless_present = "id")]
    version: Option<String>,
    /// Which hosts: all, or host=, zone=, cluster= and class= with names between commas, such as cluster=web,zone=a,b
    #[arg(long, value_name = "SCOPE", default_value = "all")]
    hosts: String,
    /// What hosts have planned for this question within the last hour
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["hosts", "version"])]
    id: Option<String>,
    /// Wait at most so many seconds for the plans; hosts that have not answered by then are left out
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    #[command(flatten)]
    terms: TermsArguments,
}

/// Shows the upgrade that would be made; with `--apply`, begins it.
pub(super) fn run(job: &UpgradeArguments) -> Result<ExitCode, Failure> {
    let wish = json!({"hosts": job.hosts, "version": job.version});
    changes::begin((job.id.as_ref(), &wish, job.wait), Vec::new(), &job.terms)
}
