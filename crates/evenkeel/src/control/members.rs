//! `control members`: servers that join the fleet, change or leave it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use fleet::{FleetMember, HostId, MemberId, ZoneName};
use serde::Deserialize;
use serde_json::json;

use super::ask::Place;
use super::file::read_file;
use crate::failure::Failure;

/// Longest file in bytes: 10,000 members.
const FILE_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Arguments of `members`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct MembersArguments {
    #[command(subcommand)]
    job: Option<MembersJob>,
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
    #[command(flatten)]
    act: MembersAct,
}

#[derive(Clone, Debug, Subcommand)]
enum MembersJob {
    /// Let one server join the fleet, or change it
    Add(AddArguments),
    /// Let servers leave the fleet; they must have no slot
    Remove(RemoveArguments),
}

#[derive(Clone, Debug, Args)]
struct AddArguments {
    /// Its name
    id: MemberId,
    /// The host that it runs on
    #[arg(long)]
    host: HostId,
    /// Where routers find it, as HOST:PORT
    #[arg(long)]
    address: String,
    /// The zone that its host is in
    #[arg(long)]
    zone: ZoneName,
    /// Its class, if clusters ask for one
    #[arg(long)]
    class: Option<String>,
    /// It takes no slot yet
    #[arg(long)]
    held: bool,
    #[command(flatten)]
    act: MembersAct,
}

#[derive(Clone, Debug, Args)]
struct RemoveArguments {
    /// Their names
    #[arg(required = true)]
    ids: Vec<MemberId>,
    #[command(flatten)]
    act: MembersAct,
}

#[derive(Clone, Debug, Args)]
struct MembersAct {
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
    match &job.job {
        Some(MembersJob::Add(add)) => {
            let AddArguments { id, host, address, zone, class, held, act } = add.clone();
            let member = FleetMember { id, host, zone, class, address, is_held: held };
            return act.ask(&[member], &[], &[]);
        }
        Some(MembersJob::Remove(RemoveArguments { ids, act })) => return act.ask(&[], ids, &[]),
        None => {}
    }
    let members = job.file.as_deref().map(read).transpose()?.unwrap_or_default();
    job.act.ask(&members, &job.remove, &job.remove_host)
}

impl MembersAct {
    fn ask(
        &self,
        members: &[FleetMember],
        remove: &[MemberId],
        remove_hosts: &[HostId],
    ) -> Result<ExitCode, Failure> {
        let why = self.why.as_ref().filter(|_| self.apply);
        let body = json!({"members": members, "remove": remove, "remove_hosts": remove_hosts, "why": why});
        self.place.show(&self.place.ask(|client, within| client.post("/v1/members", &body, within))?)
    }
}

fn read(path: &Path) -> Result<Vec<FleetMember>, Failure> {
    let text = read_file(path, FILE_LEN_MAX)?;
    let file: MembersFile = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.to_string().trim()), None))?;
    Ok(file.member)
}
