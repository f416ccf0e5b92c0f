//! `control adopt`: an existing configuration of mcrouter's as a policy and members, with the proof that keys stay where they are.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use control::{CheckedRoutes, KEYS_SAMPLED, RouteDifference};
use fleet::{Adoption, AdoptionNames, ClusterName, ViewName, ZoneName, adopt, texts};
use os::clock::unix_s;
use serde_json::json;

use super::change::{Change, change};
use super::file::read_file;
use super::statuses::STATUS_REFUSED;
use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Longest file in bytes.
const FILE_LEN_MAX: u64 = 8 * 1024 * 1024;
/// Name of a fleet that has no controller yet.
const FLEET: &str = "fleet";

/// Arguments of `adopt`.
#[derive(Clone, Debug, Args)]
pub(super) struct AdoptArguments {
    /// mcrouter's configuration
    file: PathBuf,
    /// Name of the fleet; without it, that of the controller
    #[arg(long, value_name = "NAME")]
    fleet: Option<ClusterName>,
    /// Name of the view: the routers that read the file
    #[arg(long, value_name = "NAME", default_value = "main")]
    view: ViewName,
    /// Zone that all members are put in
    #[arg(long, value_name = "NAME", default_value = "a")]
    zone: ZoneName,
    #[command(flatten)]
    change: Change,
}

/// Adopts a file. Without a controller, it prints what the file becomes, and changes nothing.
pub(super) fn run(job: &AdoptArguments) -> Result<ExitCode, Failure> {
    let text = read_file(&job.file, FILE_LEN_MAX)?;
    let AdoptArguments { fleet, view, zone, .. } = job;
    if job.change.asks_controller() {
        let adopt = json!({"fleet": fleet, "view": view, "zone": zone, "text": text});
        return change(&job.change, json!({"adopt": adopt}));
    }
    let fleet = fleet.clone().unwrap_or_else(|| FLEET.parse().expect("it is a name"));
    show(job, &text, &AdoptionNames { fleet, view: view.clone(), zone: zone.clone() })
}

fn show(job: &AdoptArguments, text: &str, names: &AdoptionNames) -> Result<ExitCode, Failure> {
    let path = job.file.display();
    let refused = |error: String| {
        let (error, hint) = error.split_once("\n  hint: ").unwrap_or((&error, ""));
        let failure = Failure::other(anyhow::anyhow!("{path}: {error}")).with_status(STATUS_REFUSED);
        if hint.is_empty() { failure } else { failure.hint(hint) }
    };
    let adopted = adopt(text, names).map_err(|error| refused(error.to_string()))?;
    let difference = difference(text, &adopted).map_err(refused)?;
    if difference.gets_moved + difference.sets_moved > 0 {
        return Err(refused(format!("it would not stay as it is: {}", difference.sentence())));
    }
    if job.change.place.json {
        let members: Vec<_> = adopted.inventory.members().collect();
        let all = json!({
            "policy": adopted.policy_text, "members": members, "generation": adopted.generation,
            "notes": adopted.notes, "keys": difference.sentence(),
        });
        print(format!("{all:#}\n").as_bytes())?;
    } else {
        let members = adopted.inventory.members();
        let member =
            |one: &fleet::FleetMember| format!("# member {} on {}: {}\n", one.id, one.host, one.address);
        let members: String = members.map(member).collect();
        print(format!("{}\n{members}", adopted.policy_text).as_bytes())?;
    }
    for note in &adopted.notes {
        say(format_args!("evenkeel: control: {note}"));
    }
    say(format_args!("evenkeel: control: {}", difference.sentence()));
    Ok(ExitCode::SUCCESS)
}

/// What the first generation changes for keys.
fn difference(text: &str, adopted: &Adoption) -> Result<RouteDifference, String> {
    let texts = texts(&adopted.generation.content);
    let after = texts.into_values().next().ok_or("it has no view")?;
    let before = CheckedRoutes::compile("the file", text)?;
    let after = CheckedRoutes::compile("what it becomes", &after)?;
    Ok(before.difference(&after, KEYS_SAMPLED, 1, unix_s().cast_signed()))
}
