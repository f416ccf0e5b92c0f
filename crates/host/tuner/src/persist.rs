//! Persistence of settings over a restart: the file for each one, by the system's own means.
//!
//! Pure: from the settings and the host's means to the texts of files. `means` is the table that decides the means of
//! a setting; `store` writes, compares and removes. Settings without a means of their own (an interrupt's number and
//! a thread's id change with every start) are kept as an intent, from which they are planned anew at boot.

mod boot;
mod check;
pub mod conflicts;
mod file;
pub mod intent;
mod link;
mod means;
mod ordered;
mod parse;
pub mod store;
mod surroundings;
mod texts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observe::facts::{Facts, Nic};
use crate::plan::change::{PlanRefusal, Setting};
use means::Means;

pub use check::reads_back;
pub use file::{Keep, PersistentFile};
pub use surroundings::HostMeans;

/// The setting that a file makes at every start, whatever numbers devices have then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSetting {
    /// The setting.
    pub setting: Setting,
    /// Its value.
    pub wanted: String,
}

/// The files to write, and the settings that cannot be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Persistence {
    /// In the order of their paths.
    pub files: Vec<PersistentFile>,
    /// The settings after the next start by these files alone. Those of the intent have a journal then.
    pub held: Vec<HeldSetting>,
    /// The settings that are not kept, and the reasons.
    pub left: Vec<PlanRefusal>,
}

/// Chooses the means of each setting.
pub fn persistence(keeps: &[Keep], facts: &Facts, here: &HostMeans) -> Persistence {
    let mut left = Vec::new();
    let mut kept = Vec::new();
    for keep in keeps {
        match means::of(keep, keeps, facts, here) {
            Ok(means) => kept.push((keep, means)),
            Err(reason) => left.push(PlanRefusal {
                subject: keep.setting.to_string(),
                asked_by: keep.asked_by.clone(),
                reason,
            }),
        }
    }
    let mut files = texts::files(&kept, facts);
    files.extend(links(&kept, here, &mut left));
    let has_link = |nic: &Nic| !left.iter().any(|left| left.subject == nic.name);
    let holds = |means: &Means| match means {
        Means::Sysctl { .. } | Means::TmpFile { .. } | Means::Interface { .. } | Means::Disk { .. } => true,
        Means::Link { nic, .. } => has_link(nic),
        Means::Unit { .. } | Means::Boot(_) | Means::Implied => false,
    };
    let held = kept.iter().filter(|(_, means)| holds(means));
    let held = held
        .map(|(keep, _)| HeldSetting { setting: keep.setting.clone(), wanted: keep.wanted.clone() })
        .collect();
    let parts = intent::merged(kept.iter().filter_map(|(_, means)| match means {
        Means::Boot(part) => Some(part.clone()),
        _ => None,
    }));
    files.extend(boot::files(&parts, here, &mut left));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Persistence { files, held, left }
}

/// A `.link` file for each interface with a setting of ethtool.
fn links(kept: &[(&Keep, Means)], here: &HostMeans, left: &mut Vec<PlanRefusal>) -> Vec<PersistentFile> {
    let mut asked: BTreeMap<&str, (&Nic, Vec<link::LinkSettings>)> = BTreeMap::new();
    for (keep, means) in kept {
        if let Means::Link { nic, knob } = means {
            asked.entry(&nic.name).or_insert((nic, Vec::new())).1.push((keep, *knob));
        }
    }
    let mut files = Vec::new();
    for (nic, asked) in asked.into_values() {
        match link::file(nic, &asked, &here.links) {
            Ok(file) => files.push(file),
            Err(reason) => left.push(PlanRefusal {
                subject: nic.name.clone(),
                asked_by: asked[0].0.asked_by.clone(),
                reason,
            }),
        }
    }
    files
}

#[cfg(test)]
mod tests;
