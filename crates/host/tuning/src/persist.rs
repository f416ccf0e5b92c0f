//! Plans kept over a restart by the system's own means, and removed again.

use std::path::PathBuf;

use tuner::apply::journal::{Journal, PlanState};
use tuner::persist::conflicts::{Conflict, Winner, conflicts};
use tuner::persist::store::{self, Done};
use tuner::persist::{HeldSetting, HostMeans, Keep, Persistence, persistence, reads_back};
use tuner::{Facts, Root};

use crate::error::Error;
use crate::in_force::{in_force, waits_for_confirmation};
use crate::observe::ObservedHost;
use crate::plan::PlanInput;
use crate::saved;
use crate::state::StateDirectory;

/// The plan to keep, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source of the plan.
    pub what: What,
    /// The host of the plan: a directory with its /etc, /proc and /sys.
    pub host: ObservedHost,
    /// The program that the boot unit starts; by default this one.
    pub program: Option<PathBuf>,
    /// The directory of the journals.
    pub state: StateDirectory,
}

/// The source of a plan to keep.
#[derive(Clone, Debug)]
pub enum What {
    /// A file with a plan.
    Saved(PathBuf),
    /// A request for a plan.
    Requested(PlanInput),
    /// The plans that are in force.
    InForce,
}

/// The files to write, and what conflicts with them.
#[derive(Clone, Debug)]
pub struct PreparedFiles {
    /// The files.
    pub persistence: Persistence,
    /// Other files and programs that set the same.
    pub conflicts: Vec<Conflict>,
    /// This host's means to keep settings.
    pub surroundings: HostMeans,
}

impl Request {
    /// Plans the files; nothing is written.
    pub fn prepared(&self) -> Result<PreparedFiles, Error> {
        let root = Root::new(&self.host.root);
        let (facts, keeps) = self.wanted(&root)?;
        let surroundings = HostMeans::read(&root, self.program()?).map_err(Error::other)?;
        let persistence = persistence(&keeps, &facts, &surroundings);
        reads_back(&persistence.files)
            .map_err(|why| Error::refused(format_args!("read back what would be written: {why}")))?;
        let conflicts = conflicts(&root, &facts, &keeps, &persistence).map_err(Error::other)?;
        Ok(PreparedFiles { persistence, conflicts, surroundings })
    }

    /// The settings to keep, and the facts that they were planned from.
    fn wanted(&self, root: &Root) -> Result<(Facts, Vec<Keep>), Error> {
        match &self.what {
            What::Saved(path) => {
                let plan = saved::plan(path, root)?;
                if plan.then.is_some() {
                    let error = Error::refused(format_args!(
                        "keep {}: what belongs to its new queues is planned only when they are there",
                        path.display()
                    ));
                    let hint = "`evenkeel tune apply` it first; `persist` without --plan then keeps what is in force";
                    return Err(error.with_hint(hint));
                }
                Ok((self.host.facts()?, plan.changes.iter().map(Keep::from).collect()))
            }
            What::Requested(wanted) => {
                let (facts, plan) = wanted.whole_plan()?;
                if plan.changes.is_empty() {
                    let refusals = plan.refusals.iter();
                    let why: Vec<String> =
                        refusals.map(|refusal| format!("{}: {}", refusal.subject, refusal.reason)).collect();
                    return Err(Error::refused(format_args!("plan anything: {}", why.join("; "))));
                }
                Ok((facts, plan.changes.iter().map(Keep::from).collect()))
            }
            What::InForce => Ok((self.host.facts()?, self.in_force(root)?)),
        }
    }

    /// The settings of all plans that are in force; of a setting in several of them, the newest.
    fn in_force(&self, root: &Root) -> Result<Vec<Keep>, Error> {
        let seen = self.state.look(root)?;
        self.state.tell(&seen.doubts());
        let (all, here) = seen.of_this_version()?;
        let journals = in_force(all, &here);
        let refuse = |why: &str, hint: &str| {
            Err(Error::refused(format_args!("keep what is in force: {why}")).with_hint(hint))
        };
        if journals.is_empty() {
            let hint = "`evenkeel tune apply` something first, or give --strategy, --profile or --plan";
            return refuse("nothing is, or it is of an earlier start", hint);
        }
        if journals.iter().any(|journal| journal.state() == PlanState::Unfinished) {
            return refuse("a plan was interrupted", "`evenkeel tune rollback` undoes it");
        }
        if journals.iter().any(waits_for_confirmation) {
            return refuse("a plan still waits to be confirmed", "`evenkeel tune confirm`, and try again");
        }
        let mut keeps: Vec<Keep> = Vec::new();
        for step in journals.iter().flat_map(Journal::steps).filter(|step| !step.left && !step.undone) {
            if !keeps.iter().any(|keep| keep.setting == step.setting) {
                keeps.push(Keep::from(step));
            }
        }
        Ok(keeps)
    }

    fn program(&self) -> Result<String, Error> {
        let path = match &self.program {
            Some(path) => path.clone(),
            None => std::env::current_exe().map_err(|error| Error::system("find this program", error))?,
        };
        Ok(path.display().to_string())
    }
}

impl PreparedFiles {
    /// Whether another file or program overrides one of the settings.
    pub fn is_overruled(&self) -> bool {
        self.conflicts.iter().any(|conflict| conflict.winner == Winner::Theirs)
    }

    /// Writes the files; with `force` also over files of ours that were edited.
    pub fn write(&self, root: &Root, force: bool) -> Result<Done, Error> {
        store::write(root, &self.persistence, force).map_err(refused)
    }
}

/// Removes everything that was written here.
pub fn remove(root: &Root) -> Result<Done, Error> {
    store::remove(root).map_err(refused)
}

/// The settings that the files should have set at this boot.
pub(crate) fn held(root: &Root) -> Result<Vec<HeldSetting>, Error> {
    store::held(root).map_err(Error::other)
}

fn refused(error: store::Error) -> Error {
    let hint = match &error {
        store::Error::Foreign { .. } => "move it away, or keep its settings yourself",
        store::Error::Edited { .. } => "--force keeps it as FILE.edited and writes ours",
        store::Error::Nothing => "`evenkeel tune persist --dry-run` shows what would be written",
        store::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
            "/etc comes from an image here: let --dry-run print the files, and put them into the image"
        }
        store::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "run as root"
        }
        store::Error::Halfway { .. } => "`evenkeel tune persist --remove` tries again",
        _ => return Error::other(error),
    };
    Error::other(error).with_hint(hint)
}
