//! Conflict: another file or program that sets the same, and which of them wins.

use serde::Serialize;

use crate::observe::facts::Facts;
use crate::persist::Persistence;
use crate::persist::file::Keep;
use crate::plan::change::Setting;

/// Another file or program that sets the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The file or program, with the line where it has one: `/etc/sysctl.conf:12`.
    pub place: String,
    /// Its setting and value.
    pub sets: String,
    /// The winner at boot.
    pub winner: Winner,
    /// The remedy, in one sentence.
    pub advice: String,
}

/// The winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The other one: the kept value does not hold.
    Theirs,
    /// It depends on a moment or a condition.
    Unsure,
    /// The kept value.
    Ours,
    /// Neither: the other one has no effect.
    Neither,
}

impl Winner {
    /// The text of it.
    pub fn words(self) -> &'static str {
        match self {
            Winner::Theirs => "it wins",
            Winner::Unsure => "either may win",
            Winner::Ours => "ours wins",
            Winner::Neither => "it does nothing",
        }
    }
}

/// The kept settings, in the form that the checks here use.
pub(super) struct Kept<'k> {
    pub(super) keeps: &'k [Keep],
    pub(super) persistence: &'k Persistence,
    pub(super) facts: &'k Facts,
}

impl Kept<'_> {
    /// Files that are set, and their values.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keeps.iter().filter_map(|keep| match &keep.setting {
            Setting::File { path, .. } => Some((path.as_str(), keep.wanted.trim())),
            _ => None,
        })
    }

    /// Whether anything about interfaces or their interrupts is kept.
    pub(super) fn network(&self) -> bool {
        let starts = ["/sys/class/net/", "/proc/irq/", "/proc/sys/net/core/rps_"];
        self.interrupts() || self.files().any(|(path, _)| starts.iter().any(|start| path.starts_with(start)))
    }

    /// Whether interrupts are placed at boot.
    pub(super) fn interrupts(&self) -> bool {
        self.keeps
            .iter()
            .any(|keep| keep.setting.irq().is_some() || matches!(keep.setting, Setting::Interrupt { .. }))
    }

    pub(super) fn writes(&self, path: &str) -> bool {
        self.persistence.files.iter().any(|file| file.path == path)
    }
}
