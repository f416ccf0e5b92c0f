//! Another version of the program on one host: which programs there are, what would change, the way there, its proof, and the way back.
//!
//! ```text
//! `programs` of the agent's file ─► Program: checked, hashed, tried ─► ProgramPlan
//! record on the disk ─► link ─► server by server, router by router: reload ─► proof ─┬─► all have it
//!                                                                                    └─► link back ─► reload ─► proof
//! ```
//!
//! A symbolic link names the program; units start what it points to, and a reload of theirs has the new program take over from the
//! one that runs. Which program a host has is read from the link and from `/proc`, never from a note alone: the agent may have been
//! killed at any point. Nothing here hears a controller, nor waits for a confirmation.

mod connects;
mod link;
mod processes;
mod program;
mod proof;
mod reload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::tuning::{AnswerDigest, HostFacts, HostPlan, PlanLine, PlanStep};
use os::clock::{Stopwatch, pause};
use serde::{Deserialize, Serialize};
use stdx::log_level::LogLevel;
use stdx::words::counted;

use super::settings::ProcessLook;
use super::state::AgentStore;
use crate::service::SayLine;
use crate::service::turn::answer_digest;
use crate::wire::PeerPlace;
use link::ProgramLink;
use processes::{Runs, ticks_now};
use program::{KnownDigests, Program};
use proof::{Proof, Wanted};

/// The name of the record in the agent's folder.
const RECORD: &str = "upgrade";
/// Letters of a digest that are shown.
const SHOWN_LEN: usize = 12;
/// Interval of looks at processes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How another version of the program gets into force on a host.
#[derive(Clone)]
pub struct UpgradeSettings {
    /// The symbolic link that the units start.
    pub link: PathBuf,
    /// Paths of programs, with `{version}` for the name of a version.
    pub programs: String,
    /// Time for each server and router, until it is proved to have the program.
    pub within: Duration,
    /// Those that start what the link points to.
    pub members: Vec<UpgradedMember>,
    /// Those of the host that do not, with the reason.
    pub others: Vec<(String, String)>,
}

/// A server or router that starts what the link points to.
#[derive(Clone)]
pub struct UpgradedMember {
    /// `server m1`, `router r1`
    pub name: String,
    /// Whether it keeps items, which must be there afterwards.
    pub has_items: bool,
    /// Where it answers.
    pub place: PeerPlace,
    /// Its process.
    pub process: ProcessLook,
    /// The command that has the program of the link take over.
    pub reload: Vec<String>,
}

/// What another version would change on the host.
#[derive(Debug)]
pub(super) struct ProgramPlan {
    pub(super) plan: HostPlan,
    pub(super) facts: HostFacts,
    /// It is another one if the same version would do something else.
    pub(super) own: AnswerDigest,
    record: UpgradeRecord,
}

/// Why a host does not have the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeFault {
    /// It is as before.
    #[error("{0}")]
    Failed(String),
    /// It is between the two, and what is tried next is to go back.
    #[error("{0}")]
    Stuck(String),
}

/// Which program a host has, by its link and its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostProgram {
    /// That from before the change, or there was none.
    Before,
    /// That of the change, in all of its servers and routers.
    After,
    /// One part is as before, and another one is not.
    Between(String),
}

/// What is on the disk before anything is changed. Both programs stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UpgradeRecord {
    before: ProgramId,
    after: ProgramId,
    /// Clock ticks since the start of the system: what was started since then was started by the change.
    since: u64,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProgramId {
    path: PathBuf,
    digest: AnswerDigest,
}

/// Changes the program of a host.
pub struct HostUpgrade {
    settings: UpgradeSettings,
    store: AgentStore,
    digests: KnownDigests,
    say: SayLine,
}

impl HostUpgrade {
    /// With these settings, in the state of the agent.
    pub(super) fn new(settings: UpgradeSettings, store: AgentStore, say: SayLine) -> HostUpgrade {
        HostUpgrade { settings, store, digests: KnownDigests::default(), say }
    }

    /// The same with a folder of its own: for tests, which have no agent.
    ///
    /// # Errors
    /// If the folder is of no use.
    pub fn alone(settings: UpgradeSettings, folder: &Path, say: SayLine) -> Result<HostUpgrade, String> {
        let store = AgentStore::open(folder).map_err(|error| error.to_string())?;
        Ok(HostUpgrade::new(settings, store, say))
    }

    /// What a version would change. Nothing is changed; the new program is started once, to say its version.
    ///
    /// # Errors
    /// What keeps the host from having it.
    pub(super) fn plan(&mut self, version: &str) -> Result<ProgramPlan, String> {
        if let Some((name, why)) = self.settings.others.first() {
            return Err(format!("{name}: {why}"));
        }
        let link = ProgramLink::new(&self.settings.link)?;
        let path = PathBuf::from(self.settings.programs.replace("{version}", version));
        let (old, new) = (Program::open(&link.target()?)?, Program::open(&path)?);
        let (before, after) = (self.id(&old)?, self.id(&new)?);
        for member in &self.settings.members {
            let Runs { digest, .. } = self.digests.running(member)?;
            if digest != before.digest {
                return Err(format!(
                    "{} runs another program ({}) than {} points to ({}); reload it first",
                    member.name,
                    shown(&digest),
                    link.path().display(),
                    shown(&before.digest)
                ));
            }
        }
        let (says_old, says_new) = (old.version()?, new.version()?);
        let mut lines = Vec::new();
        for (what, has_items) in [("servers", true), ("routers", false)] {
            if self.settings.members.iter().any(|member| member.has_items == has_items) {
                let setting = format!("program of {what} ({})", std::env::consts::ARCH);
                let [now, wanted] = [(&says_old, &before), (&says_new, &after)]
                    .map(|(says, id)| format!("{says} (SHA-256 {})", id.digest));
                lines.push(PlanLine { setting, now, wanted });
            }
        }
        let is_other = before.digest != after.digest;
        let form: String = lines.iter().map(|line| format!("{line:?}\n")).collect();
        let step = PlanStep {
            asked_by: format!("version {version}"),
            risk: "each server and router is replaced by another process, one after the other".to_owned(),
            why: "it was asked for".to_owned(),
            lines,
        };
        let names: String = self.settings.members.iter().map(|member| format!("{}\n", member.name)).collect();
        let paths = format!("{}\n{}\n", before.path.display(), after.path.display());
        let plan = HostPlan {
            form: Some(answer_digest(form.as_bytes())),
            changes: if is_other { step.lines.len() } else { 0 },
            steps: if is_other { vec![step] } else { Vec::new() },
            ..HostPlan::default()
        };
        let own = answer_digest(format!("{form}{names}{paths}").as_bytes());
        let record = UpgradeRecord { before, after, since: ticks_now() };
        Ok(ProgramPlan { plan, facts: program::host_facts(), own, record })
    }

    fn id(&mut self, program: &Program) -> Result<ProgramId, String> {
        Ok(ProgramId { path: program.path.clone(), digest: self.digests.of(&program.file, &program.path)? })
    }

    /// The digest by which a version is applied. For tests, which have no controller.
    ///
    /// # Errors
    /// As for a plan.
    pub fn planned(&mut self, version: &str) -> Result<AnswerDigest, String> {
        self.plan(version).map(|plan| plan.own)
    }

    /// Has every server and router of the host take the version, one after the other, if that is what was planned. If one does not
    /// prove to have it, all go back.
    ///
    /// # Errors
    /// Why the host does not have it, and whether it is as before.
    pub fn apply(&mut self, version: &str, own: &AnswerDigest) -> Result<(), UpgradeFault> {
        let failed = UpgradeFault::Failed;
        let planned = self.plan(version).map_err(failed)?;
        if planned.own != *own {
            let why = "the host would change something else now than what was planned";
            return Err(failed(why.to_owned()));
        }
        let record = planned.record;
        let link = ProgramLink::new(&self.settings.link).map_err(failed)?;
        // Whatever is changed can be taken back without a byte of the disk.
        let kept = self.store.keep(RECORD, &record).map_err(|error| error.to_string());
        kept.and_then(|()| link.prepare_way_back()).map_err(failed)?;
        let pointed = link.point_to(&record.after.path);
        let taken = pointed.and_then(|()| self.take(&record.after, &record.before, true));
        let Err(why) = taken else { return Ok(()) };
        (self.say)(LogLevel::Error, &format!("version {version}: {why}; going back"));
        match self.go_back(&record) {
            Ok(()) => Err(failed(why)),
            Err(stuck) => Err(UpgradeFault::Stuck(format!("{why}; and going back: {stuck}"))),
        }
    }

    /// Has the host as it was before the last change. Does nothing if it is.
    ///
    /// # Errors
    /// Why it is not.
    pub fn back(&mut self) -> Result<(), String> {
        let Some(record) = self.record()? else { return Ok(()) };
        self.go_back(&record)
    }

    fn go_back(&mut self, record: &UpgradeRecord) -> Result<(), String> {
        let link = ProgramLink::new(&self.settings.link)?;
        link.point_back_to(&record.before.path)?;
        self.end_strays(record);
        let taken = self.take(&record.before, &record.after, false);
        self.end_strays(record);
        taken
    }

    /// Waits for processes of the program that did not get into force, and ends those that hang: they might take over later. One that is
    /// taking over just now is left to it, since nobody but it has the items for a moment.
    fn end_strays(&self, record: &UpgradeRecord) {
        let (watch, within) = (Stopwatch::start(), self.settings.within);
        // Each is old enough by then.
        while watch.passed() <= within + LOOK_EVERY {
            let serving: Vec<u32> = self.settings.members.iter().flat_map(proof::serving).collect();
            let strays = processes::strays(&record.after.path, record.since, &serving);
            if strays.is_empty() {
                return;
            }
            for stray in strays.into_iter().filter(|stray| stray.age() > within) {
                let program = record.after.path.display();
                let line = format!("ended process {} of {program}, which serves nobody", stray.pid);
                if stray.end() {
                    (self.say)(LogLevel::Warning, &line);
                }
            }
            pause(LOOK_EVERY);
        }
    }

    /// Has all servers and routers take a program over from another one, in their order.
    fn take(&mut self, wanted: &ProgramId, from: &ProgramId, is_strict: bool) -> Result<(), String> {
        let mut troubles = Vec::new();
        for member in &self.settings.members {
            let wanted = Wanted { digest: &wanted.digest, within: self.settings.within, is_strict };
            match proof::take_over(member, &wanted, &mut self.digests) {
                Ok(Proof::HasIt) => {}
                Ok(Proof::Taken(figures)) => {
                    (self.say)(LogLevel::Info, &format!("{} has another program: {figures}", member.name))
                }
                Err(why) => {
                    let why = format!("{}: {why}", member.name);
                    if is_strict {
                        return Err(why);
                    }
                    // The others go back all the same.
                    troubles.push(why);
                }
            }
        }
        let count = troubles.len();
        match troubles.into_iter().next() {
            None => Ok(()),
            Some(why) => {
                Err(format!("{} still with {}: {why}", counted(count, "member"), from.path.display()))
            }
        }
    }

    fn record(&self) -> Result<Option<UpgradeRecord>, String> {
        self.store.load(RECORD).map_err(|error| error.to_string())
    }

    /// Which program the host has.
    ///
    /// # Errors
    /// If the record or the link cannot be read.
    pub fn program(&mut self) -> Result<HostProgram, String> {
        let Some(record) = self.record()? else { return Ok(HostProgram::Before) };
        let target = ProgramLink::new(&self.settings.link)?.target()?;
        let (mut old, mut new, mut why) = (target == record.before.path, target == record.after.path, None);
        for member in &self.settings.members {
            match self.digests.running(member) {
                Ok(Runs { digest, .. }) => {
                    old &= digest == record.before.digest;
                    new &= digest == record.after.digest;
                }
                // What starts it next starts what the link points to.
                Err(error) => why = Some(error),
            }
        }
        Ok(match (old, new) {
            (true, _) => HostProgram::Before,
            (_, true) => HostProgram::After,
            _ => HostProgram::Between(why.unwrap_or_else(|| {
                format!(
                    "{} points to {}, and not all servers and routers run it",
                    self.settings.link.display(),
                    target.display()
                )
            })),
        })
    }
}

/// The beginning of a digest.
fn shown(digest: &AnswerDigest) -> &str {
    &digest.as_str()[..SHOWN_LEN]
}

#[cfg(test)]
mod tests;
