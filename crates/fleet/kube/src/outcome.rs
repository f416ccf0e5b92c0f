//! The outcome of an upgrade, as data.

use std::time::Duration;

/// How an upgrade has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct UpgradeOutcome {
    /// The image that was wanted.
    pub image: String,
    /// What was done, or would be done, to each pod that was looked at.
    pub pods: Vec<PodOutcome>,
    /// Pods of the StatefulSet.
    pub pods_in_all: usize,
    /// How it ended.
    pub result: UpgradeResult,
}

/// The end of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeResult {
    /// Each server has the image and the flags.
    Done,
    /// It was only shown.
    Shown,
    /// At this pod; those after it were not touched.
    Halted(String, UpgradeHalt),
    /// The StatefulSet wants something else by now.
    Overtaken,
    /// A signal ended it; run again, it goes on.
    Interrupted,
}

/// A pod that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct PodOutcome {
    /// Its name.
    pub pod: String,
    /// How it ended.
    pub ending: PodEnding,
    /// How long it took.
    pub took: Duration,
    /// Fields of the StatefulSet that only another pod gets.
    pub outdated: Vec<&'static str>,
}

/// How it ended for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEnding {
    /// It had image and flags already.
    AsWanted,
    /// It had the image already. Its server does not say which flags it has read.
    FlagsUnknown,
    /// Its server was restarted. Numbers that nobody knows are `None`.
    Upgraded {
        /// Items before.
        before: Option<u64>,
        /// Items that the new server began with.
        restored: Option<u64>,
    },
    /// What would be done.
    Would(String),
}

/// Why no further pod may be touched, and how to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeHalt {
    /// The reason.
    pub why: String,
    /// What a person can do.
    pub way_on: String,
}

impl UpgradeHalt {
    pub(crate) fn new(why: impl Into<String>, way_on: impl Into<String>) -> UpgradeHalt {
        UpgradeHalt { why: why.into(), way_on: way_on.into() }
    }
}

impl PodEnding {
    /// For people.
    pub fn text(&self) -> String {
        let items = |items: &u64| format!("{items} items");
        match self {
            PodEnding::AsWanted => "has the image and the flags already".to_owned(),
            PodEnding::FlagsUnknown => {
                "has the image already; which flags it has read is not known (flag_files)".to_owned()
            }
            PodEnding::Upgraded { before: Some(before), restored: Some(restored) } => {
                format!("restarted with {restored} of {}", items(before))
            }
            PodEnding::Upgraded { restored: Some(restored), .. } => {
                format!(
                    "restarted with {}; how many there were before is not known, as no server ran",
                    items(restored)
                )
            }
            PodEnding::Upgraded { .. } => "restarted; how many items it has kept is not known".to_owned(),
            PodEnding::Would(what) => what.clone(),
        }
    }
}
