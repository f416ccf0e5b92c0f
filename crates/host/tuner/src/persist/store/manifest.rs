//! Manifest `/etc/evenkeel/persisted.json`: the written files, and while they are being written, the earlier content.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::disk::{Found, PersistentDisk};
use super::{Error, failed, find};
use crate::persist::{HeldSetting, PersistentFile};

/// The version of the format; other versions are refused.
const VERSION: u32 = 1;

const PATH: &str = "/etc/evenkeel/persisted.json";

/// The content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the format.
    pub(super) version: u32,
    /// The state of writing.
    pub(super) state: State,
    /// Ours, with their texts.
    pub(super) files: Vec<PersistentFile>,
    /// The earlier content, while files are being written.
    #[serde(default)]
    pub(super) previous: Vec<PersistentFile>,
    /// The settings of the files, …
    #[serde(default)]
    pub(super) held: Vec<HeldSetting>,
    /// … from the first start after this one on.
    #[serde(default)]
    pub(super) boot_id: String,
    /// Directories that were made for them.
    #[serde(default)]
    pub(super) directories: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Some of the files may be there already.
    Writing,
    /// All of them were written.
    Whole,
}

/// The manifest; an empty one if there is none.
pub(super) fn read(disk: &dyn PersistentDisk) -> Result<Manifest, Error> {
    let text = match find(disk, PATH)? {
        Found::Nothing => {
            return Ok(Manifest {
                version: VERSION,
                state: State::Whole,
                files: Vec::new(),
                previous: Vec::new(),
                held: Vec::new(),
                boot_id: String::new(),
                directories: BTreeSet::new(),
            });
        }
        Found::File { text, .. } => text,
        Found::Other => return Err(Error::Foreign { path: PATH.to_owned() }),
    };
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|source| Error::Manifest { path: PATH, source })?;
    match manifest.version {
        VERSION => Ok(manifest),
        version => Err(Error::Version { path: PATH, version }),
    }
}

/// Writes it to the disk.
pub(super) fn write(disk: &mut dyn PersistentDisk, manifest: &Manifest) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(manifest).expect("a manifest is plain data") + "\n";
    disk.replace(PATH, &text, 0o644, false).map_err(failed("write", PATH))
}

/// Removes it.
pub(super) fn remove(disk: &mut dyn PersistentDisk) -> Result<(), Error> {
    disk.remove(PATH).map_err(failed("remove", PATH))
}
