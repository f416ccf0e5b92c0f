//! Plan execution: all of its changes, or none.
//!
//! Each step is in the journal, on the disk, before it is done, and is read back afterwards. A step that fails undoes
//! the plan. Three refusals are known to concern one setting alone and leave the rest sensible: an interrupt is managed
//! by the kernel (EIO), or its CPUs have no vector left (ENOSPC), or a driver does not know this setting (EOPNOTSUPP).
//! Such a step is left out and named. So is one about a thread that has ended since the plan was made.

pub mod expected_effect;
pub mod host;
pub mod journal;
pub mod label;
pub mod obstacle;
pub mod rollback;
pub mod saved;
pub mod undoable;

use std::error::Error;
use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::observe::root;
use crate::plan::change::{Change, Setting};
use host::HostAccess;
use journal::{Journal, JournalRecord};
use rollback::RolledBack;

/// Attempts for a setting that is busy; irqbalance, too, treats EBUSY as temporary.
const TRIES_MAX: usize = 3;

/// The result of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Settings that have the planned value now.
    pub done: Vec<Setting>,
    /// Settings that were left out, and why.
    pub left: Vec<(Setting, String)>,
    /// Interrupts that have a new affinity, but have not arrived since: they move with the next one.
    pub pending: Vec<u32>,
}

/// Reasons why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The system refused.
    #[error("{what} {setting}: {meaning}")]
    Refused {
        /// To read or to write.
        what: &'static str,
        /// The setting.
        setting: Setting,
        /// The meaning of the refusal for this setting.
        meaning: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another process has changed it since the plan was made.
    #[error("change {setting}: it was {planned:?} when this was planned and is {found:?} now")]
    Moved {
        /// The setting.
        setting: Setting,
        /// Its value in the plan.
        planned: String,
        /// Its value now.
        found: String,
    },
    /// The write succeeded, and had another effect.
    #[error("change {setting}: {wanted:?} was accepted, but it reads {found:?}{}", likely(.setting))]
    NotTaken {
        /// The setting.
        setting: Setting,
        /// The written value.
        wanted: String,
        /// The value read back.
        found: String,
    },
    /// An interrupt has arrived since, on another CPU.
    #[error("move interrupt {irq}: it should go to CPUs {wanted}, but goes on coming to {found}")]
    NotMoved {
        /// Its number.
        irq: u32,
        /// The planned CPUs.
        wanted: String,
        /// The actual CPUs.
        found: String,
    },
    /// The user has stopped it.
    #[error("go on: ended by a signal")]
    Stopped,
    /// The second part of the plan could not be made.
    #[error("plan what follows")]
    Planning(#[source] root::Error),
    /// The change could not be recorded in the journal, so it was not made.
    #[error(transparent)]
    Journal(#[from] journal::Error),
}

/// A plan that was not carried out.
#[derive(Debug)]
pub struct Failed {
    /// The reason.
    pub error: StepError,
    /// The results of undoing the steps before.
    pub undone: RolledBack,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error, outcome(&self.undone))
    }
}

/// Its words begin with the reason's, so the cause of that is the next one.
impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

fn outcome(undone: &RolledBack) -> String {
    let values = match undone.failures() {
        failures if failures.is_empty() => "everything is as it was before".to_owned(),
        failures => {
            format!("not everything could be undone: {}", crate::text::folded::folded(&failures).join("; "))
        }
    };
    match &undone.unrecorded {
        None => values,
        Some(error) => format!("{values}; its journal does not say so: failed to {}", error.with_causes()),
    }
}

/// Carries out the changes in their order.
pub fn apply(
    host: &mut dyn HostAccess,
    changes: &[Change],
    journal: &mut Journal,
) -> Result<Applied, Box<Failed>> {
    apply_then(host, changes, journal, &|| false, || Ok(Vec::new()))
}

/// Carries out the changes in their order, then those that are planned from the host's state after them. They are one
/// plan: in one journal, and undone together. Before each step, and before the last record, `stop` decides whether to
/// go back instead.
pub fn apply_then(
    host: &mut dyn HostAccess,
    changes: &[Change],
    journal: &mut Journal,
    stop: &dyn Fn() -> bool,
    then: impl FnOnce() -> Result<Vec<Change>, root::Error>,
) -> Result<Applied, Box<Failed>> {
    let both = |journal: &mut Journal| -> Result<Applied, StepError> {
        let mut applied = steps(host, changes, journal, stop)?;
        let changes = then().map_err(StepError::Planning)?;
        let after = steps(host, &changes, journal, stop)?;
        applied.done.extend(after.done);
        applied.left.extend(after.left);
        applied.pending.extend(after.pending);
        if stop() {
            return Err(StepError::Stopped);
        }
        journal.append(JournalRecord::Applied)?;
        Ok(applied)
    };
    both(journal).map_err(|error| taken_back(host, journal, error))
}

/// Carries out the changes for a while: until they are undone the journal has them as unfinished, so that, whatever
/// ends this process, no other plan is applied before.
pub fn try_out(
    host: &mut dyn HostAccess,
    changes: &[Change],
    journal: &mut Journal,
) -> Result<Applied, Box<Failed>> {
    steps(host, changes, journal, &|| false).map_err(|error| taken_back(host, journal, error))
}

fn taken_back(host: &mut dyn HostAccess, journal: &mut Journal, error: StepError) -> Box<Failed> {
    let undone = rollback::undo(host, journal, &format!("failed to {error}"));
    Box::new(Failed { error, undone })
}

fn steps(
    host: &mut dyn HostAccess,
    changes: &[Change],
    journal: &mut Journal,
    stop: &dyn Fn() -> bool,
) -> Result<Applied, StepError> {
    let mut applied = Applied::default();
    let mut moved = Vec::new();
    for change in changes {
        if stop() {
            return Err(StepError::Stopped);
        }
        // Later comparisons, also those of rollback and `status`, use the kernel's form of the value.
        let change = &Change { wanted: host.taken(&change.setting, &change.wanted), ..change.clone() };
        let setting = &change.setting;
        match step(host, change, journal)? {
            Step::AsWanted => {}
            Step::Left(why) => applied.left.push((setting.clone(), why)),
            Step::Done { came } => {
                applied.done.push(setting.clone());
                moved.extend(came.map(|(irq, came)| (irq, came, change.wanted.clone())));
            }
        }
    }
    for (irq, came, wanted) in moved {
        if !has_moved(host, irq, came, &wanted)? {
            applied.pending.push(irq);
        }
    }
    Ok(applied)
}

/// The result of one step.
enum Step {
    /// The setting has the planned value already.
    AsWanted,
    /// It is left as it was, for this reason.
    Left(String),
    /// It has the planned value now.
    Done {
        /// The interrupt that it moves, and how often that had come before; `None`: unknown.
        came: Option<(u32, Option<u64>)>,
    },
}

/// Carries out one change: looks, announces it, writes, and reads back.
fn step(host: &mut dyn HostAccess, change: &Change, journal: &mut Journal) -> Result<Step, StepError> {
    let setting = &change.setting;
    let before = match host.read(setting) {
        Err(error) if has_ended(setting, &error) => return Ok(Step::Left(meaning(setting, &error))),
        read => read.map_err(|source| refused("read", setting, source))?,
    };
    if setting.same(&before, &change.wanted) {
        return Ok(Step::AsWanted);
    }
    if !setting.same(&before, &change.now) {
        let (setting, planned) = (setting.clone(), change.now.clone());
        return Err(StepError::Moved { setting, planned, found: before });
    }
    let came = setting.irq().map(|irq| (irq, host.interrupt(irq).ok().map(|(count, _)| count)));
    let number = announced(host, change, &before, journal)?;
    match write(host, setting, &change.wanted) {
        Ok(()) => {}
        Err(error) if is_left_alone(host, setting, &before, &error) => {
            let why = meaning(setting, &error);
            journal.append(JournalRecord::Left { step: number, why: why.clone() })?;
            return Ok(Step::Left(why));
        }
        Err(error) => return Err(refused("write", setting, error)),
    }
    let found = match host.read(setting) {
        Err(error) if has_ended(setting, &error) => change.wanted.clone(),
        read => read.map_err(|source| refused("read", setting, source))?,
    };
    if !setting.same(&found, &change.wanted) {
        let (setting, wanted) = (setting.clone(), change.wanted.clone());
        return Err(StepError::NotTaken { setting, wanted, found });
    }
    journal.append(JournalRecord::Done { step: number })?;
    Ok(Step::Done { came })
}

/// Records a change before it is made, with everything that it may reset; returns its number.
fn announced(
    host: &dyn HostAccess,
    change: &Change,
    before: &str,
    journal: &mut Journal,
) -> Result<usize, journal::Error> {
    let setting = &change.setting;
    let mut records = kept(host, setting, journal.next_step());
    let number = journal.next_step() + records.len();
    records.push(JournalRecord::Step {
        step: number,
        setting: setting.clone(),
        before: before.to_owned(),
        wanted: change.wanted.clone(),
        why: change.why.clone(),
        asked_by: change.asked_by.clone(),
        interface: interface(host, setting),
        identity: host.identity(setting),
    });
    journal.append_all(records)?;
    Ok(number)
}

/// Settings that a step may reset, to be restored after the step is undone. A setting that cannot be read has no
/// value to restore: a single queue has no XPS.
fn kept(host: &dyn HostAccess, setting: &Setting, first: usize) -> Vec<JournalRecord> {
    let reset = host.reset_by(setting).into_iter();
    let values = reset.filter_map(|setting| host.read(&setting).ok().map(|before| (setting, before)));
    values
        .zip(first..)
        .map(|((setting, before), step)| {
            let interface = interface(host, &setting);
            JournalRecord::Kept { step, setting, before, interface }
        })
        .collect()
}

/// The kernel's number for the interface that a setting belongs to.
fn interface(host: &dyn HostAccess, setting: &Setting) -> Option<u32> {
    setting.nic().and_then(|nic| host.interface(nic))
}

/// Writes, again while it is busy.
pub(crate) fn write(host: &mut dyn HostAccess, setting: &Setting, text: &str) -> io::Result<()> {
    let busy = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::BUSY);
    let mut result = host.write(setting, text);
    for _ in 1..TRIES_MAX {
        match &result {
            Err(error) if busy(error) => result = host.write(setting, text),
            _ => break,
        }
    }
    result
}

/// Whether an interrupt arrives where it should. It moves when it arrives the next time; the one after that must have
/// moved.
pub(crate) fn has_moved(
    host: &dyn HostAccess,
    irq: u32,
    came: Option<u64>,
    wanted: &str,
) -> Result<bool, StepError> {
    let Ok((count, effective)) = host.interrupt(irq) else { return Ok(false) };
    let wanted = os::CpuSet::parse_mask(wanted).unwrap_or_default();
    if effective.is_empty() || !effective.without(&wanted).is_empty() {
        return match count {
            // `came` was counted before the write, so one may have come in between, and another one moved it.
            count if came.is_some_and(|came| count > came + 2) && !effective.is_empty() => {
                Err(StepError::NotMoved { irq, wanted: wanted.to_string(), found: effective.to_string() })
            }
            _ => Ok(false),
        };
    }
    Ok(true)
}

/// Whether it was about a thread that has ended.
fn has_ended(setting: &Setting, error: &io::Error) -> bool {
    let is_gone = matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH));
    matches!(setting, Setting::Thread { .. }) && is_gone
}

/// Whether the refusal concerns this interrupt or this driver alone, and the setting is unchanged; or a thread that
/// has ended.
fn is_left_alone(host: &dyn HostAccess, setting: &Setting, before: &str, error: &io::Error) -> bool {
    if has_ended(setting, error) {
        return true;
    }
    let errno = Errno::from_io_error(error);
    let is_known = match setting {
        Setting::Device { .. } => errno == Some(Errno::OPNOTSUPP),
        _ => setting.irq().is_some() && [Some(Errno::IO), Some(Errno::NOSPC)].contains(&errno),
    };
    is_known && host.read(setting).is_ok_and(|found| setting.same(&found, before))
}

/// A refusal, with its meaning for this setting.
pub(crate) fn refused(what: &'static str, setting: &Setting, source: io::Error) -> StepError {
    StepError::Refused { what, setting: setting.clone(), meaning: meaning(setting, &source), source }
}

/// The likely reason why a setting has another value.
fn likely(setting: &Setting) -> &'static str {
    match setting {
        Setting::Listener { .. } => {
            " (net.core.somaxconn of its network namespace cuts it: raise that first, as a plan for this host does)"
        }
        _ => "",
    }
}

/// The meaning of a refusal for this setting.
pub(crate) fn meaning(setting: &Setting, error: &io::Error) -> String {
    let thread = matches!(setting, Setting::Thread { .. });
    let device = matches!(setting, Setting::Device { .. });
    let listener = matches!(setting, Setting::Listener { .. });
    let meaning = match Errno::from_io_error(error) {
        Some(Errno::IO) if setting.irq().is_some() => "the kernel manages this interrupt itself",
        Some(Errno::NOSPC) if setting.irq().is_some() => "these CPUs have no interrupt vector left",
        Some(Errno::INVAL) if setting.irq().is_some() => "none of these CPUs is in use",
        Some(Errno::INVAL) if setting.is_receive_steering() => {
            "all of these CPUs are isolated (isolcpus, nohz_full), and packets are not steered there"
        }
        Some(Errno::OVERFLOW) => "the mask names CPUs that are not there",
        Some(Errno::OPNOTSUPP) if device => "the driver cannot do this",
        Some(Errno::INVAL) if device => {
            "the driver does not take it: it is beyond its limits, or a queue is in use (AF_XDP)"
        }
        Some(Errno::BUSY) if device => {
            "the driver is busy: it is being reset, or XDP needs the queues that there are"
        }
        Some(Errno::PERM) if matches!(setting, Setting::Irqbalance { .. }) => {
            "irqbalance listens to root alone"
        }
        Some(Errno::TOOBIG) => {
            "irqbalance takes no list of this length: ban them by module (--banmod) or a policy script"
        }
        Some(Errno::INVAL) => "the kernel does not take this value",
        Some(Errno::BUSY) => "it is busy",
        Some(Errno::PERM | Errno::ACCESS) if thread => {
            "not allowed: its cgroup has no real-time budget, or CAP_SYS_NICE is missing"
        }
        Some(Errno::PERM | Errno::ACCESS) if listener => {
            "not allowed to take part in that program: it takes root with CAP_SYS_PTRACE, which containers lack, and a \
             kernel.yama.ptrace_scope below 3"
        }
        Some(Errno::NOSYS) if listener => {
            "it takes pidfd_getfd: Linux 5.6, and no container that forbids the call"
        }
        Some(Errno::SRCH | Errno::NOENT) if listener => {
            "the program has ended or no longer listens there; what is started now needs a new plan"
        }
        Some(Errno::PERM | Errno::ACCESS) => "not allowed: it takes root",
        Some(Errno::ROFS) => "it is mounted read-only, as in most containers",
        Some(Errno::NOENT | Errno::NODEV | Errno::SRCH) => "it is not there any more",
        Some(Errno::TIMEDOUT) => "no answer in 10 s",
        _ => return error.to_string(),
    };
    meaning.to_owned()
}

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;
