//! Records of a journal: the facts about one plan.
//!
//! Each can be understood without the others, and their order in the file means nothing: a line that cannot be read
//! takes away what it says, and nothing else.

use serde::{Deserialize, Serialize};

use crate::apply::label::PlanLabel;
use crate::apply::undoable::may_be_undone;
use crate::observe::network_namespace;
use crate::observe::root::{self, Root};
use crate::plan::change::Setting;

/// The version of the format; other versions are refused. The first line of every version has `version` and
/// `place.boot_id`.
pub(super) const VERSION: u32 = 2;

/// The boot and network namespace in which a journal's settings are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootAndNamespace {
    /// Live settings end with the boot.
    pub boot_id: String,
    /// `net:[4026531840] 1`, see [`network_namespace`]: the same path is another interface in another one.
    pub network: Option<String>,
}

/// The record of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first, and again before each step: without it, nobody knows of which boot the steps are.
    Begin {
        /// The version of the format.
        version: u32,
        /// Boot and namespace.
        place: BootAndNamespace,
        /// When, in seconds since 1970.
        at_unix_s: u64,
        /// To be undone unless confirmed until then, in milliseconds since boot.
        confirm_by_ms: Option<u64>,
        /// By which the one who has applied it finds it again; versions before it was invented skip it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<PlanLabel>,
    },
    /// About to be written.
    Step {
        /// Counts from 0.
        step: usize,
        /// The setting.
        setting: Setting,
        /// Its text before, byte for byte.
        before: String,
        /// The new value.
        wanted: String,
        /// The reason.
        #[serde(default)]
        why: String,
        /// The requester.
        #[serde(default)]
        asked_by: String,
        /// The kernel's number for the interface that it belongs to: its name may become another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<u32>,
        /// Identity of its interrupt or thread, whose numbers are used again, as
        /// [`crate::apply::host::HostAccess::identity`] has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
    },
    /// Not written, but may be reset by the kernel or a driver with the next step: to be restored when that is
    /// undone.
    Kept {
        /// Counts from 0, together with the steps.
        step: usize,
        /// The setting.
        setting: Setting,
        /// Its text, byte for byte.
        before: String,
        /// The kernel's number for the interface that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<u32>,
    },
    /// About to be written again, because it has drifted. Its text before the plan stays the one to restore.
    Repair {
        /// The step's number.
        step: usize,
        /// The value read.
        found: String,
    },
    /// Written and read back.
    Done {
        /// The step's number.
        step: usize,
    },
    /// Could not be written, for a reason that does not affect the others.
    Left {
        /// The step's number.
        step: usize,
        /// The reason.
        why: String,
    },
    /// Every step is done or left out.
    Applied,
    /// The plan was confirmed. Written twice: nothing else says so, and its deadline undoes a plan without it.
    Confirmed,
    /// Undoing begins: until it is over, the plan is neither in force nor undone.
    RollingBack {
        /// The reason.
        why: String,
    },
    /// A step was undone.
    Undone {
        /// The step's number.
        step: usize,
    },
    /// Every step is undone that could be read.
    RolledBack {
        /// The reason.
        why: String,
        /// The number of lines that could not be read, if there were any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unread: Option<usize>,
    },
}

impl BootAndNamespace {
    /// Boot and namespace of a root.
    pub fn of(root: &Root) -> Result<BootAndNamespace, root::Error> {
        let boot_id = root.read("/proc/sys/kernel/random/boot_id")?.unwrap_or_default();
        Ok(BootAndNamespace { boot_id, network: network_namespace::of(root) })
    }
}

impl JournalRecord {
    /// Whether it leads to later records; room for the others is reserved already.
    pub(super) fn needs_room(&self) -> bool {
        use JournalRecord::{Begin, Kept, Repair, Step};
        matches!(self, Begin { .. } | Step { .. } | Kept { .. } | Repair { .. })
    }

    /// The number of the step that it is about.
    pub(super) fn step(&self) -> Option<usize> {
        use JournalRecord::{Done, Kept, Left, Repair, Step, Undone};
        match self {
            Step { step, .. } | Kept { step, .. } | Repair { step, .. } => Some(*step),
            Done { step } | Left { step, .. } | Undone { step } => Some(*step),
            _ => None,
        }
    }

    pub(super) fn has_step(&self) -> bool {
        matches!(self, JournalRecord::Step { .. } | JournalRecord::Kept { .. })
    }

    /// Whether it names no setting, or one that a plan of this program may have set: no other is ever written.
    pub(super) fn is_about_ours(&self) -> bool {
        match self {
            JournalRecord::Step { setting, asked_by, .. } => may_be_undone(setting, Some(asked_by)),
            JournalRecord::Kept { setting, .. } => may_be_undone(setting, None),
            _ => true,
        }
    }
}
