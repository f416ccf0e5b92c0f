//! State of an agent on its disk: texts, what failed, what was emptied. One file each, written by replacement.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fleet::TextDigest;
use os::DirectoryEntry;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::routers::router_client::digest_of;
use crate::routers::router_file::{RouterFile, RouterFileError};

/// Longest file in bytes: beyond the longest text that a register takes.
const FILE_LEN_MAX: u64 = 16 * 1024 * 1024;

/// The folder of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentStore {
    folder: Arc<PathBuf>,
}

/// Why the state of an agent is of no use.
#[derive(Debug, thiserror::Error)]
pub enum AgentStateError {
    /// The folder or a file of it.
    #[error("{what} {}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that this program did not write.
    #[error("understand {}: {why}\n  hint: remove it if the host may forget which texts have failed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file that cannot be replaced.
    #[error(transparent)]
    File(#[from] RouterFileError),
}

impl AgentStore {
    /// Opens a folder, and creates it if it is not there.
    pub(super) fn open(folder: &Path) -> Result<AgentStore, AgentStateError> {
        let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
        made.map_err(|source| AgentStateError::Io { what: "create", path: folder.to_owned(), source })?;
        Ok(AgentStore { folder: Arc::new(folder.to_owned()) })
    }

    /// A state by its name, if it was kept.
    pub(super) fn load<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, AgentStateError> {
        let path = self.folder.join(format!("{name}.json"));
        let Some(text) = read(&path)? else { return Ok(None) };
        let state = serde_json::from_slice(&text);
        state.map(Some).map_err(|error| AgentStateError::Damaged { path, why: error.to_string() })
    }

    /// Keeps a state.
    pub(super) fn keep<T: Serialize>(&self, name: &str, state: &T) -> Result<(), AgentStateError> {
        let json = serde_json::to_vec(state).expect("a state has names and numbers");
        Ok(RouterFile::new(self.folder.join(format!("{name}.json"))).write(&json)?)
    }

    /// Where a state is kept.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// A text, if it is there and what its digest says.
    pub(super) fn text(&self, digest: &TextDigest) -> Option<String> {
        let text = String::from_utf8(read(&self.text_path(digest)).ok()??).ok()?;
        (digest_of(text.as_bytes()) == *digest).then_some(text)
    }

    /// Keeps a text.
    pub(super) fn keep_text(&self, digest: &TextDigest, text: &str) -> Result<(), AgentStateError> {
        Ok(RouterFile::new(self.text_path(digest)).write(text.as_bytes())?)
    }

    /// Forgets a text.
    pub(super) fn forget_text(&self, digest: &TextDigest) {
        // One that stays costs nothing but its bytes.
        let _ = DirectoryEntry::of(&self.text_path(digest)).and_then(|entry| entry.remove());
    }

    fn text_path(&self, digest: &TextDigest) -> PathBuf {
        self.folder.join(format!("{digest}.text"))
    }
}

/// A file's content, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, AgentStateError> {
    let failed = |source| AgentStateError::Io { what: "read", path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() || found.len() > FILE_LEN_MAX => {
            let why = format!("expected a file of {FILE_LEN_MAX} bytes at most");
            return Err(AgentStateError::Damaged { path: path.to_owned(), why });
        }
        Ok(_) => {}
    }
    std::fs::read(path).map(Some).map_err(failed)
}
