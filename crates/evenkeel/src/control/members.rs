//! `control members`: servers that join the fleet, change or leave it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fleet::{FleetMember, HostId, MemberId};
use serde::Deserialize;
use serde_json::json;

use super::ask::Place;
use super::file::read_file;
use crate::failure::Failure;

/// Longest file in bytes: 10,000 members.
const FILE_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Arguments of `members`.
#[derive(Clone, Debug, Args)]
pub(super) struct MembersArguments {
    /// Members that shall be as this file has them (TOML): [[member]] with id, host, zone and address
    #[arg(required_unless_present_any = ["remove", "remove_host"])]
    file: Option<PathBuf>,
    /// Members that leave the fleet; they must have no slot
    #[arg(long, value_name = "MEMBER,MEMBER", value_delimiter = ',')]
    remove: Vec<MemberId>,
    /// Hosts that left for good: their members leave, and what their agents said is forgotten. Their agents must be silent, and
    /// their members must have no slot
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    remove_host: Vec<HostId>,
    /// Carry it out. Without it, what would change is shown
    #[arg(long, requires = "why")]
    apply: bool,
    /// The reason, for the audit log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MembersFile {
    #[serde(default)]
    member: Vec<FleetMember>,
}

/// Changes the inventory.
pub(super) fn run(job: &MembersArguments) -> Result<ExitCode, Failure> {
    let members = job.file.as_deref().map(read).transpose()?.unwrap_or_default();
    let why = job.why.as_ref().filter(|_| job.apply);
    let (remove, remove_hosts) = (&job.remove, &job.remove_host);
    let body = json!({"members": members, "remove": remove, "remove_hosts": remove_hosts, "why": why});
    job.place.show(&job.place.ask(|client, within| client.post("/v1/members", &body, within))?)
}

fn read(path: &Path) -> Result<Vec<FleetMember>, Failure> {
    let text = read_file(path, FILE_LEN_MAX)?;
    let file: MembersFile = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.to_string().trim()), None))?;
    Ok(file.member)
}
