//! Another version of the program on one host: which programs there are, what would change, the way there, its proof, and the way back.
//!
//! ```text
//! `programs` of the agent's file ─► Program: checked, hashed, tried ─► ProgramPlan
//! note on the disk ─► link ─► server by server, router by router: reload ─► proof ─┬─► all have it
//!                                                                                    └─► link back ─► reload ─► proof
//! ```
//!
//! A symbolic link names the program; units start what it points to, and a reload of theirs has the new program take over from the
//! one that runs. Which program a host has is read from the link and from `/proc`, never from a note alone: the agent may have been
//! killed at any point. Nothing here hears a controller, nor waits for a confirmation.

mod act;
mod connects;
mod link;
mod own;
mod processes;
mod program;
mod proof;
mod reload;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleet::tuning::{AnswerDigest, HostFacts, HostPlan, PlanLine, PlanStep};
use os::clock::{Stopwatch, pause};
use serde::{Deserialize, Serialize};
use stdx::log_level::LogLevel;
use stdx::words::counted;

use super::settings::{AgentProgram, UpgradeSettings, UpgradedKind};
use super::state::AgentStore;
use crate::service::SayLine;
use crate::service::turn::{PlanWish, answer_digest};
use act::UpgradeNotes;
use link::ProgramLink;
use processes::{Runs, ticks_now};
use program::{KnownDigests, Program, shown};
use proof::{Proof, Wanted};

/// Interval of looks at processes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What another version would change on the host.
#[derive(Debug)]
pub(super) struct ProgramPlan {
    pub(super) plan: HostPlan,
    pub(super) facts: HostFacts,
    /// It is another one if the same version would do something else.
    pub(super) own: AnswerDigest,
    programs: TwoPrograms,
    /// The agent takes the program, too, when all others have it.
    with_agent: bool,
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

/// The programs of a change. Both stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TwoPrograms {
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

/// Why a host does not have a program.
struct FailedGo {
    text: String,
    /// Nothing of it is there.
    is_back: bool,
}

/// Changes the program of a host.
pub struct HostUpgrade {
    settings: UpgradeSettings,
    store: AgentStore,
    notes: UpgradeNotes,
    digests: KnownDigests,
    say: SayLine,
}

impl HostUpgrade {
    /// With these settings, in the state of the agent.
    pub(super) fn new(settings: UpgradeSettings, store: AgentStore, say: SayLine) -> HostUpgrade {
        let (notes, digests) = (UpgradeNotes::new(store.clone()), KnownDigests::default());
        HostUpgrade { settings, store, notes, digests, say }
    }

    /// The same with a folder of its own: for tests, which have no agent.
    ///
    /// # Errors
    /// If the folder is of no use.
    pub fn alone(settings: UpgradeSettings, folder: &Path, say: SayLine) -> Result<HostUpgrade, String> {
        let store = AgentStore::open(folder).map_err(|error| error.to_string())?;
        Ok(HostUpgrade::new(settings, store, say))
    }

    /// The agent's own program, if it changes with that of the host.
    pub(super) fn agent(&self) -> Option<Arc<AgentProgram>> {
        self.settings.agent.clone()
    }

    /// What a version would change. Nothing is changed; the new program is started once, to say its version.
    ///
    /// # Errors
    /// What keeps the host from having it.
    pub(super) fn plan(&mut self, version: &str) -> Result<ProgramPlan, String> {
        if let Some((name, why)) = self.settings.others.first() {
            return Err(format!("{name}: {why}"));
        }
        let path = self.path_of(version)?;
        let link = ProgramLink::new(&self.settings.link)?;
        let (old, new) = (Program::open(&link.target()?)?, Program::open(&path)?);
        let (before, after) = (self.id(&old)?, self.id(&new)?);
        for member in &self.settings.members {
            proof::check_reload(member).map_err(|why| format!("{}: its reload: {why}", member.name))?;
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
        let line = |says_old: &str, says_new: &str| {
            let [now, wanted] = [(says_old, &before), (says_new, &after)]
                .map(|(says, id)| format!("{says} (SHA-256 {})", id.digest));
            PlanLine { setting: String::new(), now, wanted }
        };
        let mut lines = Vec::new();
        for kind in UpgradedKind::ALL {
            if self.settings.members.iter().any(|member| member.kind == kind) {
                let setting = format!("program of {} ({})", kind.plural(), std::env::consts::ARCH);
                lines.push(PlanLine { setting, ..line(&says_old, &says_new) });
            }
        }
        let mut advice = Vec::new();
        let with_agent = match &self.settings.agent {
            None => false,
            Some(own) => match own.goes_along(link.path(), &before.digest) {
                Ok(()) => {
                    own.check(&after.path)?;
                    let setting = format!("program of the agent ({})", std::env::consts::ARCH);
                    lines.push(PlanLine { setting, ..line(&says_old, &says_new) });
                    true
                }
                Err(why) => {
                    advice.push(format!("the agent keeps its program: {why}; restart it with the new one"));
                    false
                }
            },
        };
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
            advice,
            ..HostPlan::default()
        };
        let own = answer_digest(format!("{form}{names}{paths}").as_bytes());
        let programs = TwoPrograms { before, after, since: ticks_now() };
        Ok(ProgramPlan { plan, facts: program::host_facts(), own, programs, with_agent })
    }

    /// Where the program of a version lies.
    fn path_of(&self, version: &str) -> Result<PathBuf, String> {
        // It becomes a part of a path, whatever a controller has checked.
        if !PlanWish::Version(version.to_owned()).is_well_named() {
            let found: String = version.chars().take(50).collect();
            return Err(format!(
                "expected a version of letters, digits and '-._+~', not with '.' or '-' first, found {found:?}"
            ));
        }
        Ok(PathBuf::from(self.settings.programs.replace("{version}", version)))
    }

    fn id(&mut self, program: &Program) -> Result<ProgramId, String> {
        Ok(ProgramId { path: program.path.clone(), digest: self.digests.of(&program.file, &program.path)? })
    }

    /// Has every server and router of the host take the program after the change, one after the other. If one does not prove to have it, all
    /// go back.
    fn go(&mut self, programs: &TwoPrograms) -> Result<(), FailedGo> {
        // Whatever is changed can be taken back without a byte of the disk.
        let prepared =
            ProgramLink::new(&self.settings.link).and_then(|link| link.prepare_way_back().map(|()| link));
        let link = prepared.map_err(|text| FailedGo { text, is_back: true })?;
        let pointed = link.point_to(&programs.after.path);
        let taken = pointed.and_then(|()| self.take(&programs.after, &programs.before, true));
        let Err(why) = taken else { return Ok(()) };
        (self.say)(
            LogLevel::Error,
            &format!("the program {}: {why}; going back", programs.after.path.display()),
        );
        match self.go_back(programs) {
            Ok(()) => Err(FailedGo { text: why, is_back: true }),
            Err(stuck) => Err(FailedGo { text: format!("{why}; and going back: {stuck}"), is_back: false }),
        }
    }

    fn go_back(&mut self, programs: &TwoPrograms) -> Result<(), String> {
        let link = ProgramLink::new(&self.settings.link)?;
        self.check_before(&programs.before)?;
        link.point_back_to(&programs.before.path)?;
        self.end_strays(programs);
        let taken = self.take(&programs.before, &programs.after, false);
        self.end_strays(programs);
        taken
    }

    /// The program from before is where it was, and nobody has put another one there: otherwise the host is better off with what it has.
    fn check_before(&mut self, before: &ProgramId) -> Result<(), String> {
        let failed = |why| format!("the program from before: {why}");
        let found = Program::open(&before.path).and_then(|program| self.id(&program)).map_err(failed)?;
        if found.digest == before.digest {
            return Ok(());
        }
        let (found, expected) = (shown(&found.digest), shown(&before.digest));
        let path = before.path.display();
        Err(failed(format!("{path} is another one now ({found}, and {expected} is expected); put it back")))
    }

    /// Waits for processes of the program that did not get into force, and ends those that hang: they might take over later. One that is
    /// taking over just now is left to it, since nobody but it has the items for a moment.
    fn end_strays(&self, programs: &TwoPrograms) {
        let (watch, within) = (Stopwatch::start(), self.settings.within);
        // Each is old enough by then.
        while watch.passed() <= within + LOOK_EVERY {
            let serving: Vec<u32> = self.settings.members.iter().flat_map(proof::serving).collect();
            let strays =
                processes::strays(&programs.after.path, programs.since, &self.settings.link, &serving);
            if strays.is_empty() {
                return;
            }
            for stray in strays.into_iter().filter(|stray| stray.age() > within) {
                let program = programs.after.path.display();
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
            let (within, link) = (self.settings.within, &*self.settings.link);
            let wanted = Wanted { digest: &wanted.digest, within, link, is_strict };
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

    /// Why the host does not have a program although its link points to it: a server or router that does not run, or runs another one, or
    /// does not answer. Each has its time: its unit may be starting it again.
    fn lacks(&mut self, wanted: &ProgramId) -> Result<Option<String>, String> {
        let target = ProgramLink::new(&self.settings.link)?.target()?;
        if target != wanted.path {
            return Ok(Some(format!("{} points to {}", self.settings.link.display(), target.display())));
        }
        for member in &self.settings.members {
            let (within, link) = (self.settings.within, &*self.settings.link);
            let wanted = Wanted { digest: &wanted.digest, within, link, is_strict: true };
            if let Err(why) = proof::still_has_it(member, &wanted, &mut self.digests) {
                // One that does not run is named already.
                let is_named = why.starts_with(&member.name);
                return Ok(Some(if is_named { why } else { format!("{}: {why}", member.name) }));
            }
        }
        Ok(None)
    }

    /// The first server or router that does not run, nor is started again in its time.
    fn ended(&self) -> Option<String> {
        let ended = self.settings.members.iter().find(|member| {
            let watch = Stopwatch::start();
            while processes::pid(&member.process).is_none() {
                if watch.passed() > self.settings.within {
                    return true;
                }
                pause(LOOK_EVERY);
            }
            false
        });
        ended.map(|member| format!("{} does not run", member.name))
    }

    /// Which program the host has.
    fn program(&mut self, programs: &TwoPrograms) -> Result<HostProgram, String> {
        let target = ProgramLink::new(&self.settings.link)?.target()?;
        let (mut old, mut new, mut why) =
            (target == programs.before.path, target == programs.after.path, None);
        for member in &self.settings.members {
            match self.digests.running(member) {
                Ok(Runs { digest, .. }) => {
                    old &= digest == programs.before.digest;
                    new &= digest == programs.after.digest;
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

#[cfg(test)]
mod tests;
