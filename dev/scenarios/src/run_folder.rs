//! A folder for one run, removed with its value.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use end_to_end::clock;

/// The folder.
pub(crate) struct RunFolder(PathBuf);

impl RunFolder {
    /// Makes one that nobody else may enter. Others can write in the directory above, so what is there already is refused.
    pub(crate) fn below(parent: &Path) -> Result<RunFolder> {
        // A process id comes again, and what was killed has left its folder.
        let name = format!("evenkeel-scenarios-{}-{}", std::process::id(), clock::unix_time());
        let folder = parent.join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("make {}", folder.display()))?;
        Ok(RunFolder(folder))
    }

    /// A name in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
