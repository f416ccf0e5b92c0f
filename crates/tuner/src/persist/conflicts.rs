//! Conflicts with others that set what is to be kept: which of the two wins, and what to do.
//!
//! Reads files under the root and changes nothing. What cannot be decided from files (a script's conditions, a daemon's
//! moment) is said as such.

mod agents;
mod irqbalance;
mod sysctl;
mod units;

use serde::Serialize;

use super::ordered::{acting, ordered, resolved};
use super::{Keep, Persistence};
use crate::change::Setting;
use crate::facts::Facts;
use crate::root::{Error, Root};

/// Two who set the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The file or program, with the line where it has one: `/etc/sysctl.conf:12`.
    pub place: String,
    /// What it sets, and to what.
    pub sets: String,
    /// Who has the last word at boot.
    pub winner: Winner,
    /// What to do, in one sentence.
    pub advice: String,
}

/// Who has the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Winner {
    /// The other one: what is kept here does not hold.
    Theirs,
    /// It depends on a moment or a condition.
    Unsure,
    /// What is kept here.
    Ours,
    /// Nobody: it has no effect at all.
    Neither,
}

impl Winner {
    /// As it is said.
    pub fn words(self) -> &'static str {
        match self {
            Winner::Theirs => "it wins",
            Winner::Unsure => "either may win",
            Winner::Ours => "ours wins",
            Winner::Neither => "it does nothing",
        }
    }
}

/// What is kept, as the parts here look at it.
struct Kept<'k> {
    keeps: &'k [Keep],
    persistence: &'k Persistence,
    facts: &'k Facts,
}

/// All of them, those that matter most first.
pub fn conflicts(
    root: &Root,
    facts: &Facts,
    keeps: &[Keep],
    persistence: &Persistence,
) -> Result<Vec<Conflict>, Error> {
    let kept = Kept { keeps, persistence, facts };
    let mut found = sysctl::conflicts(root, &kept)?;
    found.extend(agents::conflicts(root, &kept)?);
    found.extend(irqbalance::conflicts(root, &kept)?);
    found.extend(units::conflicts(root, &kept)?);
    found.sort_by_key(|conflict| conflict.winner);
    Ok(found)
}

impl Kept<'_> {
    /// Files that are set, and their values.
    fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keeps.iter().filter_map(|keep| match &keep.setting {
            Setting::File { path, .. } => Some((path.as_str(), keep.wanted.trim())),
            _ => None,
        })
    }

    /// Whether anything about interfaces or their interrupts is kept.
    fn network(&self) -> bool {
        let starts = ["/sys/class/net/", "/proc/irq/", "/proc/sys/net/core/rps_"];
        self.interrupts() || self.files().any(|(path, _)| starts.iter().any(|start| path.starts_with(start)))
    }

    /// Whether interrupts are placed at boot.
    fn interrupts(&self) -> bool {
        self.keeps
            .iter()
            .any(|keep| keep.setting.irq().is_some() || matches!(keep.setting, Setting::Interrupt { .. }))
    }

    fn writes(&self, path: &str) -> bool {
        self.persistence.files.iter().any(|file| file.path == path)
    }
}

#[cfg(test)]
mod tests;
