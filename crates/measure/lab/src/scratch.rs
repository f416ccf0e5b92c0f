//! Temporary directory of a test, removed when dropped.

use std::path::{Path, PathBuf};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("evenkeel-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in a directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
