//! The section of an agent's file about other versions of the program: where they are, and how servers and routers get them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::{AgentProgram, PeerPlace, UpgradeSettings, UpgradedKind, UpgradedMember};
use serde::Deserialize;

use super::process;
use super::settings::AgentFile;

/// Seconds for each server and router, unless the file says another number: a take-over takes some tenths of a second, a start on a busy host
/// some seconds.
const SECONDS: u64 = 10;
/// The most that are accepted: hosts are changed one after the other.
const SECONDS_MAX: u64 = 600;
/// Words of a command.
const WORDS_MAX: usize = 64;

/// How another version of the program gets into force on this host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpgradeEntry {
    /// The symbolic link that units start.
    link: PathBuf,
    /// Paths of programs, with `{version}` for the name of a version.
    programs: String,
    /// Time for each server and router.
    seconds: Option<u64>,
    /// Whether the agent takes the version, too, when it was started through the link; it does unless this is false.
    agent: Option<bool>,
}

impl UpgradeEntry {
    pub(super) fn check(&self) -> Result<(), String> {
        let absolute = |name, path: &Path| match path.is_absolute() {
            true => Ok(()),
            false => Err(format!("[upgrade] {name}: expected an absolute path, found {}", path.display())),
        };
        absolute("link", &self.link)?;
        absolute("programs", Path::new(&self.programs))?;
        if !self.programs.contains("{version}") {
            return Err(format!(
                "[upgrade] programs: expected a path with {{version}}, found {}",
                self.programs
            ));
        }
        match self.seconds {
            Some(found) if !(1..=SECONDS_MAX).contains(&found) => {
                Err(format!("[upgrade] seconds: expected 1 to {SECONDS_MAX}, found {found}"))
            }
            _ => Ok(()),
        }
    }
}

/// A command is started by its path, never by a search.
pub(super) fn check_command(of: &str, words: Option<&[String]>, has_section: bool) -> Result<(), String> {
    match words {
        None => Ok(()),
        Some(_) if !has_section => Err(format!("{of}: expected [upgrade] with reload, found none")),
        Some([]) => Err(format!("{of}: reload: expected a command, found an empty list")),
        Some(words) if words.len() > WORDS_MAX => {
            Err(format!("{of}: reload: expected {WORDS_MAX} words at most, found {}", words.len()))
        }
        Some([program, ..]) if !Path::new(program).is_absolute() => {
            Err(format!("{of}: reload: expected the absolute path of a program, found {program:?}"))
        }
        Some(_) => Ok(()),
    }
}

/// The agent itself, if it takes another version with its host.
pub(super) fn agent(file: &AgentFile) -> Option<Arc<AgentProgram>> {
    let takes_it = file.upgrade.as_ref()?.agent.unwrap_or(true);
    takes_it.then(|| Arc::new(AgentProgram::new(std::env::args_os().collect())))
}

/// What the agent is told; none without the section.
pub(super) fn settings(
    file: &AgentFile,
    agent: Option<Arc<AgentProgram>>,
    place: impl Fn(&String) -> PeerPlace,
) -> Option<UpgradeSettings> {
    let UpgradeEntry { link, programs, seconds, .. } = file.upgrade.as_ref()?;
    let (mut members, mut others) = (Vec::new(), Vec::new());
    let servers = file.server.iter().map(|one| {
        let (name, kind) = (format!("server {}", one.member), UpgradedKind::Server);
        (name, kind, &one.address, &one.pid_file, one.reload.as_ref())
    });
    let routers = file.router.iter().map(|one| {
        let (name, kind) = (format!("router {}", one.name), UpgradedKind::Router);
        (name, kind, &one.address, &one.pid_file, one.reload.as_ref())
    });
    for (name, kind, address, pid_file, reload) in servers.chain(routers) {
        match reload {
            Some(reload) => {
                let (place, process, reload) = (place(address), process::look(pid_file), reload.clone());
                members.push(UpgradedMember { name, kind, place, process, reload });
            }
            None => others.push((
                name,
                "the agent's file has no reload for it; a memcached or mcrouter is upgraded by hand"
                    .to_owned(),
            )),
        }
    }
    members.extend(file.controller.iter().map(|one| UpgradedMember {
        name: format!("controller {}", one.name),
        kind: UpgradedKind::Controller,
        place: PeerPlace { address: one.address.clone(), tls: None },
        process: process::look(&one.pid_file),
        reload: one.reload.clone(),
    }));
    let within = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let (link, programs) = (link.clone(), programs.clone());
    let by_hand = file.server.iter().filter(|one| one.reload.is_none()).map(|one| one.member.clone());
    let by_hand = by_hand.collect();
    Some(UpgradeSettings { link, programs, within, members, others, by_hand, agent })
}
